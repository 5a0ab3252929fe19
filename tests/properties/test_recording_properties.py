"""A recorded pass replays to the very same decision, whatever happened to the cluster and the cloud before it."""

from collections import Counter
from typing import Any

import pytest

from autoscaler.config.load import from_options
from autoscaler.config.tree import Config
from autoscaler.loop.companion import Companion
from autoscaler.loop.ended_pass import EndedPass
from autoscaler.recording.pass_file import decision, record
from autoscaler.scenario.codec import decode
from autoscaler.simulator.play import play_and_look
from tests.properties.random_worlds import RandomWorld
from tests.seeds import seeds

CHURN_S = 2 * 3600.0
_ENOUGH = 12
"""How often passes of a kind are all replayed."""


class Witness(Companion):
    """A companion that replays some of the passes it is shown, those first that are rare, and compares."""

    name = "witness"

    def __init__(self, *, every: int) -> None:
        self.config = Config()
        self.passes = 0
        self.replayed: Counter[str] = Counter()
        self.differing: list[str] = []
        self._every = every

    def after_pass(self, ended: EndedPass) -> None:
        self.passes += 1
        kinds = _kinds(ended)
        if self.passes % self._every and all(self.replayed[kind] >= _ENOUGH for kind in kinds):
            return
        body = record(ended, self.config, f"pass-{self.passes}")
        if body is None:
            return
        again: list[EndedPass] = []
        self.replayed.update(kinds)
        try:
            play_and_look(decode(body, "recording.json"), lambda _, replayed: again.append(replayed))
        except Exception as error:
            self.differing.append(repr(error))
            raise
        if decision(again[0]) != decision(ended):
            self.differing.append(_difference(decision(ended), decision(again[0])))


def _kinds(p: EndedPass) -> list[str]:
    report = p.report
    kinds = [report.end.value]
    kinds += ["grew"] * any(increase.error is None for increase in report.increases)
    kinds += ["refused"] * any(increase.error is not None for increase in report.increases)
    kinds += ["deleted"] * bool(report.scale_down.deletions.empty)
    kinds += ["drained"] * bool(report.scale_down.deletions.drained)
    kinds += ["repaired"] * bool(
        report.repairs.corrections or report.repairs.failed_removed or report.repairs.unregistered_removed
    )
    return kinds


def _difference(one: bytes, other: bytes) -> str:
    at = next((at for at, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))
    return f"{one[max(0, at - 300) : at + 120]!r}\n--- replayed:\n{other[max(0, at - 300) : at + 120]!r}"


REPLACING = {"consolidation": True, "consolidation-min-node-age": "1m", "consolidation-interval": "30s"}


@pytest.mark.parametrize(
    ("seed", "options"),
    [
        *((seed, {}) for seed in seeds(4)),
        (4, {"expander": "random"}),
        (5, {"tie-break": "random", "dry-run": True}),
        (200, {**REPLACING, "expander": "random"}),
        (203, REPLACING),
    ],
)
def test_recorded_passes_of_random_worlds_replay_to_the_same_bytes(seed: int, options: dict[str, Any]) -> None:
    witness = Witness(every=12)
    random = RandomWorld(seed, (witness,), **options)
    witness.config = from_options(random.options, ())
    with random.world:
        random.churn(CHURN_S, every_s=150)
    assert witness.replayed["Complete"] > 20
    assert not witness.differing, f"{len(witness.differing)} of {witness.replayed}: {witness.differing[0]}"
