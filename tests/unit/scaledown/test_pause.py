"""What is paused: entries of a ConfigMap and annotations, read without trusting them."""

import random

import pytest

from autoscaler.objects.meta import UNDECODED, ObjectMeta
from autoscaler.objects.workload import ConfigMap
from autoscaler.reasons import PauseScope
from autoscaler.scaledown.pause import (
    ANNOTATED,
    MOST_PAUSES,
    Pause,
    Pauses,
    annotated_pause,
    entry_of,
    pause_name,
    read_entry,
    read_pauses,
)

NOON = 1767614400.0
"""2026-01-05T12:00:00Z"""


def stated(annotations: dict[str, str] | None = None, **entries: str) -> Pauses:
    meta = ObjectMeta(name="cluster-autoscaler-pause", annotations=annotations or {})
    return read_pauses(ConfigMap(metadata=meta, data=entries), NOON)


def test_an_entry_says_what_is_paused_until_when_why_and_by_whom() -> None:
    (pause,) = stated(
        freeze="{scope: disruption, groups: [web], until: 2026-01-05T14:00:00Z, reason: freeze, by: jane}"
    ).all
    assert pause == Pause(
        name="freeze",
        scope=PauseScope.DISRUPTION,
        groups=("web",),
        reason="freeze",
        by="jane",
        until=NOON + 7200,
    )
    assert pause.words == "disruption of web is paused until 2026-01-05T14:00:00Z by jane: freeze"


def test_an_entry_that_says_nothing_pauses_scale_down_until_somebody_removes_it() -> None:
    (pause,) = stated(hands_off="").all
    assert (pause.scope, pause.until, pause.groups, pause.problem) == (PauseScope.SCALE_DOWN, None, (), "")
    assert pause.words == "scale-down is paused until it is resumed"


def test_a_pause_ends_at_its_moment() -> None:
    meta = ObjectMeta(name="p")
    held = ConfigMap(metadata=meta, data={"a": "until: 2026-01-05T12:00:00Z"})
    assert read_pauses(held, NOON - 0.001).all
    assert not read_pauses(held, NOON).all


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("scope: everything", '"everything" is none of all, scale-down, disruption, drift'),
        ("until: tomorrow", "is not a time with a zone"),
        ("groups: web", "groups: must be a list, not a string"),
        ("scoop: all", "scoop: unknown key"),
        ("- all", "must be a mapping, not a list"),
        ("[", "is not YAML"),
        ("x" * 20_000, "has 20,000 characters"),
    ],
)
def test_what_cannot_be_read_pauses_disruption_everywhere_and_says_why(text: str, says: str) -> None:
    pauses = stated(odd=text, fine="{scope: drift, groups: [web]}")
    assert [pause.name for pause in pauses.all] == ["fine", "odd"], "one bad entry stops no other"
    odd = pauses.all[1]
    assert says.replace('"', "'") in odd.problem.replace('"', "'")
    assert odd.words == odd.problem
    assert "\n" not in odd.problem
    assert pauses.covering(PauseScope.DISRUPTION, "any") == odd
    assert pauses.covering(PauseScope.SCALE_DOWN, "any") is None


def test_too_many_entries_pause_disruption() -> None:
    entries = {f"p{number:03d}": "{scope: drift}" for number in range(MOST_PAUSES + 1)}
    pauses = read_pauses(ConfigMap(metadata=ObjectMeta(name="p"), data=entries), NOON)
    assert len(pauses.all) == MOST_PAUSES + 1
    assert "more than 200 entries" in pauses.all[-1].problem


def test_a_config_map_that_cannot_be_decoded_says_what_it_said_and_pauses_disruption() -> None:
    meta = ObjectMeta(name="p", annotations={UNDECODED: "last-known"})
    pauses = read_pauses(ConfigMap(metadata=meta, data={"all": "{scope: all}"}), NOON)
    assert [pause.scope for pause in pauses.all] == [PauseScope.ALL, PauseScope.DISRUPTION]
    assert "cannot be decoded" in pauses.all[1].problem


def test_annotations_state_a_pause_of_the_whole_cluster() -> None:
    annotations = {"pause.autoscaler/until": "2026-01-05T13:00:00Z", "pause.autoscaler/by": "jane", "other": "x"}
    (pause,) = stated(annotations).all
    assert (pause.name, pause.scope, pause.until, pause.by) == (ANNOTATED, PauseScope.SCALE_DOWN, NOON + 3600, "jane")


def test_annotations_need_an_end() -> None:
    pause = annotated_pause("n1", {"pause.autoscaler/reason": "debugging"})
    assert pause is not None
    assert pause.problem == ("the pause n1 cannot be read, so disruption is paused: until: is required in annotations")
    assert annotated_pause("n1", {"other": "x"}) is None


def test_wider_scopes_cover_narrower_ones_and_groups_only_themselves() -> None:
    widest_first = list(PauseScope)
    for place, scope in enumerate(widest_first):
        everywhere, of_web = Pause(name="p", scope=scope), Pause(name="p", scope=scope, groups=("web",))
        covered = {wanted for wanted in PauseScope if everywhere.covers(wanted)}
        assert covered == set(widest_first[place:])
        assert {wanted for wanted in PauseScope if of_web.covers(wanted, "web")} == covered
        assert not any(of_web.covers(wanted, group) for wanted in PauseScope for group in ("batch", "", None))


def test_the_pause_that_lasts_longest_counts() -> None:
    short, long, endless = (
        Pause(name=name, until=until) for name, until in (("a", NOON + 1), ("b", NOON + 2), ("c", None))
    )
    assert Pauses((short, long)).covering(PauseScope.SCALE_DOWN) == long
    assert Pauses((endless, long, short)).covering(PauseScope.DISRUPTION) == endless


def test_the_text_of_a_pause_reads_back_as_the_pause() -> None:
    rng = random.Random(7)
    words = ("", "web", "a: b", "{", "x\u202ey", "ünï", "#", "12", "null", "- a")
    for _ in range(200):
        pause = Pause(
            name=rng.choice(words) or "p",
            scope=rng.choice(list(PauseScope)),
            groups=tuple(rng.sample(words[1:], rng.randint(0, 3))),
            reason=rng.choice(words),
            by=rng.choice(words),
            since=rng.choice((None, NOON)),
            until=rng.choice((None, NOON + 60)),
        )
        again = read_entry(pause.name, entry_of(pause))
        assert (again.scope, again.groups, again.since, again.until) == (
            pause.scope,
            pause.groups,
            pause.since,
            pause.until,
        )
        assert again.reason.replace("\\u202e", "\u202e") == pause.reason


def test_a_pause_is_named_for_its_scope_and_groups() -> None:
    assert pause_name(PauseScope.ALL) == "all"
    assert pause_name(PauseScope.DISRUPTION, ["web", "web"]) == "disruption.web"
    for groups in (["b", "a"], ["mig/eu:web"], ["x" * 300]):
        made = pause_name(PauseScope.DISRUPTION, groups)
        assert made == pause_name(PauseScope.DISRUPTION, reversed(groups))
        assert made != pause_name(PauseScope.DISRUPTION, [*groups, "c"])
        assert len(made) < 253
        assert all(letter.isalnum() or letter in "-._" for letter in made)
