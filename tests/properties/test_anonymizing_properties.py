"""Anonymous files decide as the files they were made of: decide(anonymize(x)) is anonymize(decide(x))."""

import json
import re
from typing import Any

import msgspec
import pytest

from autoscaler.loop.ended_pass import EndedPass
from autoscaler.recording.anonymizer import Pseudonyms, anonymize
from autoscaler.recording.pass_file import record
from autoscaler.scenario.codec import decode
from autoscaler.simulator.play import play, play_and_look
from tests.properties.random_scenarios import random_scenario

KEY = b"key"
_PSEUDONYM = re.compile(r"(?:default|kube-node-lease|kube-public|kube-system)?\d{7}[0-9a-f]{8}")


def decided(body: bytes) -> list[dict[str, Any]]:
    """Return what decides and does not word anything."""
    runs = []
    for run in play(decode(body, "x.json")).runs:
        plain = msgspec.to_builtins(run)
        for words in ("timings", "error", "scaleUpError", "noScaleUpReasons"):
            plain.pop(words, None)
        for stuck in plain["reasons"]["unschedulable"]:
            stuck["rejected"] = {group: [one["reason"] for one in found] for group, found in stuck["rejected"].items()}
        for staying in plain["unremovable"].values():
            staying.pop("detail", None)
        for skipped in plain["reasons"]["skippedGroups"]:
            skipped.pop("detail", None)
        runs.append(plain)
    return runs


def reworded(data: Any, words: dict[str, str]) -> Any:
    """Return data in a canonical order with other names."""
    if isinstance(data, str):
        return re.sub(r"[^/ ]+", lambda found: words.get(found[0], found[0]), data)
    if isinstance(data, list):
        return sorted((reworded(item, words) for item in data), key=lambda item: json.dumps(item, sort_keys=True))
    if isinstance(data, dict):
        return {reworded(key, words): reworded(item, words) for key, item in data.items()}
    return data


def words_of(one: Any, other: Any) -> dict[str, str]:
    """Return what each text of a document became in another of the same shape."""
    found: dict[str, str] = {}

    def compare(a: Any, b: Any) -> None:
        if isinstance(a, str) and isinstance(b, str):
            old, new = a.split("/"), b.split("/")
            found.update(zip(old, new, strict=True) if len(old) == len(new) else {a: b}.items())
        elif isinstance(a, list):
            for x, y in zip(a, b, strict=False):
                compare(x, y)
        elif isinstance(a, dict):
            for (x, v), (y, w) in zip(a.items(), b.items(), strict=False):
                compare(x, y)
                compare(v, w)

    for part in ("nodeGroups", "nodes", "pods", "replicaSets", "podDisruptionBudgets", "instances", "namespaces"):
        compare(one.get(part), other.get(part))
    return found


@pytest.mark.parametrize("batch", range(0, 200, 20))
def test_anonymous_states_decide_the_same(batch: int) -> None:
    for seed in range(batch, batch + 20):
        content = random_scenario(seed)
        body = json.dumps(content).encode()
        other = anonymize(body, KEY)
        words = words_of(content, json.loads(other))
        assert reworded(decided(other), {}) == reworded(decided(body), words), seed


def test_anonymous_recordings_decide_the_same() -> None:
    for seed in range(60):
        content = random_scenario(seed)
        scenario = decode(json.dumps(content).encode(), "x.json")
        seen: list[EndedPass] = []
        play_and_look(scenario, lambda run, p: seen.append(p))  # noqa: B023
        body = record(seen[1], scenario.config, "recording")
        assert body is not None
        other = anonymize(body, KEY)
        words = words_of(json.loads(body), json.loads(other))
        assert reworded(decided(other), {}) == reworded(decided(body), words), seed


def test_no_chosen_name_is_left() -> None:
    chosen = ("zeta", "alpha", "omega", "kappa", "shop", "blog")
    for seed in range(60):
        content = random_scenario(seed)
        scenario = decode(json.dumps(content).encode(), "x.json")
        seen: list[EndedPass] = []
        play_and_look(scenario, lambda run, p: seen.append(p))  # noqa: B023
        body = record(seen[1], scenario.config, "recording")
        assert body is not None
        for file in (json.dumps(content).encode(), body):
            text = anonymize(file, KEY).decode()
            assert [name for name in chosen if name in text] == [], seed


def test_pseudonyms_keep_their_order_and_can_be_told_again() -> None:
    names = ["zeta", "alpha", "kube-proxy", "a", "a-1"]
    one, other = Pseudonyms(names, (), KEY), Pseudonyms([*names, "beta"], (), KEY)
    everything = [*names, "default", "kube-system"]
    assert sorted(map(one.of, everything)) == [one.of(name) for name in sorted(everything)]
    assert {one.of(name)[-8:] for name in names} == {other.of(name)[-8:] for name in names}
    assert Pseudonyms(names, (), b"other").of("zeta") != one.of("zeta")
    assert all(_PSEUDONYM.fullmatch(one.of(name)) for name in names)
