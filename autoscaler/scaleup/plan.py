"""What a scale-up decision consists of."""

from collections.abc import Mapping

import msgspec

from autoscaler.objects.pod import Pod, PodClass
from autoscaler.ports import ExpanderAnswer
from autoscaler.reasons import Rejection, ScaleUpResult, Skipped
from autoscaler.scaleup.choice import Occurrence
from autoscaler.scaleup.option import Option
from cloudprovider.interface import InstanceError


class Increase(msgspec.Struct, frozen=True, kw_only=True):
    """More machines for one group. Sizes are targets."""

    group: str
    delta: int
    before: int
    max_size: int


class Resized(msgspec.Struct, frozen=True, kw_only=True):
    """What became of one change of a group's size. Sizes are targets; `error` None means done."""

    group: str
    before: int
    wanted: int
    after: int
    error: InstanceError | None = None


class Round(msgspec.Struct, frozen=True, kw_only=True):
    """One choice among options: all of them, the winner, and what it leads to."""

    options: tuple[Option, ...]
    chosen: Option | None = None
    increases: tuple[Increase, ...] = ()
    helped: tuple[Pod, ...] = ()
    """Pods that these machines are for."""
    places: tuple[str, ...] = ()
    """Names of the upcoming nodes they would go to, one for each of `helped`; empty where nobody worked it out."""


class ScaleUpPlan(msgspec.Struct, frozen=True, kw_only=True):
    """Which groups to grow, for which pods, and why the other pods are not helped."""

    result: ScaleUpResult
    rounds: tuple[Round, ...] = ()
    triggered: tuple[Pod, ...] = ()
    """Pods that the new nodes are for."""
    remaining: tuple[Pod, ...] = ()
    """Pods that no considered group could take."""
    awaiting: tuple[Pod, ...] = ()
    """Pods that some group could take, but not one that was chosen."""
    rejected: Mapping[PodClass, Mapping[str, tuple[Rejection, ...]]] = {}
    """Why a class does not fit a new node, by group."""
    skipped: tuple[Skipped, ...] = ()
    """Groups that were not considered."""
    occurrences: tuple[Occurrence, ...] = ()
    """Warnings of the expanders."""
    answers: tuple[ExpanderAnswer, ...] = ()
    """What a remote expander answered, question by question."""
    capped_by_nodes_total: bool = False
    error: str = ""

    @property
    def increases(self) -> tuple[Increase, ...]:
        """All increases, each group once, in the order decided."""
        merged: dict[str, Increase] = {}
        for each in self.rounds:
            for increase in each.increases:
                earlier = merged.get(increase.group)
                if earlier is not None:
                    total = earlier.delta + increase.delta
                    increase = msgspec.structs.replace(increase, delta=total, before=earlier.before)
                merged[increase.group] = increase
        return tuple(merged.values())
