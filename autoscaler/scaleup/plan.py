"""The values of a scale-up decision."""

from collections.abc import Collection, Mapping, Sequence

import msgspec

from autoscaler.objects.pod import Pod, PodClass
from autoscaler.ports import ExpanderAnswer
from autoscaler.reasons import PodVerdict, Rejection, ScaleUpResult, Skipped
from autoscaler.scaleup.choice import ExpanderStep, ExpanderWarning
from autoscaler.scaleup.gangs import ShortGang
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
    hold: bool = False
    """All further requests wait: the cloud wants fewer calls, or the result of this one is unknown."""


class Round(msgspec.Struct, frozen=True, kw_only=True):
    """One choice among options: all of them, the winner, and what it leads to."""

    options: tuple[Option, ...]
    chosen: Option | None = None
    steps: tuple[ExpanderStep, ...] = ()
    """What each expander of the chain left of the options, as far as it was asked."""
    increases: tuple[Increase, ...] = ()
    helped: tuple[Pod, ...] = ()
    """Pods that these machines are for."""
    places: tuple[str, ...] = ()
    """Names of the upcoming nodes they would go to, one for each of `helped`; empty where they are not known."""

    def without(self, keys: Collection[str]) -> "Round":
        """Return the round without the pods with these keys."""
        staying = [number for number, pod in enumerate(self.helped) if pod.key not in keys]
        if len(staying) == len(self.helped):
            return self
        helped = tuple(self.helped[number] for number in staying)
        places = tuple(self.places[number] for number in staying) if self.places else ()
        return msgspec.structs.replace(self, helped=helped, places=places)


HeldReason = PodVerdict | ScaleUpResult
"""Why a pod gets no node. `NO_GROUP_FITS`: the groups that could have taken it are full by now."""


class ScaleUpPlan(msgspec.Struct, frozen=True, kw_only=True):
    """Which groups to grow, for which pods, and why the other pods are not helped."""

    result: ScaleUpResult
    rounds: tuple[Round, ...] = ()
    triggered: tuple[Pod, ...] = ()
    """Pods that the new nodes are for."""
    settled: Mapping[str, str] = {}
    """Names of the nodes, there or on their way, on which pods of gangs have room after all, by key of the pod."""
    remaining: tuple[Pod, ...] = ()
    """Pods that no considered group could take."""
    awaiting: tuple[Pod, ...] = ()
    """Pods that some group could take, but not one that was chosen."""
    held: Mapping[str, HeldReason] = {}
    """Why no node was asked for, by key of each pod that some group could have taken when the plan began."""
    full: tuple[Skipped, ...] = ()
    """Groups that may not grow any further once the plan is carried out."""
    rejected: Mapping[PodClass, Mapping[str, tuple[Rejection, ...]]] = {}
    """Why a class does not fit a new node, by group."""
    skipped: tuple[Skipped, ...] = ()
    """Groups that were not considered."""
    occurrences: tuple[ExpanderWarning, ...] = ()
    """Warnings of the expanders."""
    answers: tuple[ExpanderAnswer, ...] = ()
    """What a remote expander answered, question by question."""
    capped_by_nodes_total: bool = False
    short_gangs: tuple[ShortGang, ...] = ()
    """Gangs for which nothing is bought, for it would be too little."""
    error: str = ""

    @property
    def increases(self) -> tuple[Increase, ...]:
        """All increases, each group once, in the order decided."""
        merged: dict[str, Increase] = {}
        for plan_round in self.rounds:
            for increase in plan_round.increases:
                earlier = merged.get(increase.group)
                if earlier is not None:
                    total = earlier.delta + increase.delta
                    increase = msgspec.structs.replace(increase, delta=total, before=earlier.before)
                merged[increase.group] = increase
        return tuple(merged.values())


def continued(earlier: ScaleUpPlan, later: ScaleUpPlan, left: Sequence[Pod], refused: Collection[str]) -> ScaleUpPlan:
    """Return two plans of one pass as one: the later is for the pods that failed increases of the earlier `left`.

    A pod is with the last round that is for it. One that the later plan cannot help either stays with the round that
    failed it, where all its groups `refused`; why there is no other way for the rest, the later plan says.
    """
    helped = {pod.key for pod in later.triggered}
    unhelped = {pod.key for pod in left if pod.key not in helped}
    rounds = tuple(
        plan_round.without(
            helped if all(increase.group in refused for increase in plan_round.increases) else helped | unhelped
        )
        for plan_round in earlier.rounds
    ) + tuple(plan_round for plan_round in later.rounds if plan_round.increases)
    planned = {pod.key for plan_round in rounds for pod in plan_round.helped}
    pods = {pod.key: pod for pod in (*earlier.triggered, *later.triggered) if pod.key in planned}
    return msgspec.structs.replace(
        later,
        result=earlier.result,
        rounds=rounds,
        triggered=tuple(pods.values()),
        remaining=tuple(pod for pod in later.remaining if pod.key not in planned),
        awaiting=tuple(pod for pod in later.awaiting if pod.key not in planned),
        held={key: why for key, why in later.held.items() if key not in planned},
        occurrences=tuple(dict.fromkeys((*earlier.occurrences, *later.occurrences))),
        answers=(*earlier.answers, *later.answers),
        capped_by_nodes_total=earlier.capped_by_nodes_total or later.capped_by_nodes_total,
    )
