"""Computes the option of each group that may grow."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

import msgspec

from autoscaler.config.rules import Rules
from autoscaler.config.scaleup import ScaleUp
from autoscaler.current_step import in_hand
from autoscaler.objects.pod import Pod, PodClass
from autoscaler.reasons import Rejection
from autoscaler.scaleup.context import ScaleUpContext
from autoscaler.scaleup.estimator import Packed, PodGroup, estimate, pod_groups, spread_over
from autoscaler.scaleup.next_zone import verdict
from autoscaler.scaleup.option import Option
from autoscaler.scheduling.placement import Placer
from autoscaler.snapshot.groups import Group

Fitting = Mapping[PodClass, set[str]]
"""Groups whose fresh node a class fits, by class."""


class PackedOption(msgspec.Struct, frozen=True):
    """An option, and where its pods go if its nodes are the next ones that the trial gets."""

    option: Option
    packed: tuple[Packed, ...]


class ExpansionOptions:
    """Asks groups what they can do for pods. Leaves the placer's trial as it was."""

    def __init__(self, placer: Placer, options: ScaleUp, rules: Rules) -> None:
        self.placer = placer
        self._options = options
        self._rules = rules

    def fitting(self, situation: ScaleUpContext, groups: Sequence[Group], pods: Sequence[PodGroup]) -> Fitting:
        """Return the groups whose fresh node each class fits, by class."""
        groups_by_class: dict[PodClass, set[str]] = {pod_group.cls: set() for pod_group in pods}
        for group in groups:
            with self.with_new_node(situation, group.id) as position:
                for cls, ids in groups_by_class.items():
                    if self.placer.fits(cls, position):
                        ids.add(group.id)
        return groups_by_class

    def rejections(
        self, situation: ScaleUpContext, groups: Sequence[Group], pods: Sequence[Pod]
    ) -> dict[PodClass, dict[str, tuple[Rejection, ...]]]:
        """Return why each class does not fit a fresh node, by group."""
        rejected: dict[PodClass, dict[str, tuple[Rejection, ...]]] = {pod.cls: {} for pod in pods}
        for group in groups if rejected else ():
            with self.with_new_node(situation, group.id) as position:
                why = {cls: self.placer.why(cls, position) for cls in rejected}
            template = situation.templates[group.id]
            for cls, by_group in rejected.items():
                by_group[group.id] = verdict(self.placer, cls, template, why[cls])
        return rejected

    def in_time(
        self, situation: ScaleUpContext, groups: Sequence[Group], fitting: Fitting, pods: Sequence[PodGroup]
    ) -> Fitting:
        """Return what fits, with groups that a class fits in a zone in which later nodes come."""
        wide: dict[PodClass, set[str]] = {}
        for group in groups:
            zones = situation.templates[group.id].zones
            for fresh in () if zones is None else zones.templates.values():
                with self.placer.trial.fork():
                    position = self.placer.trial.add(fresh, 1)[0]
                    for pod_group in pods:
                        if group.id not in fitting[pod_group.cls] and self.placer.fits(pod_group.cls, position):
                            wide.setdefault(pod_group.cls, set()).add(group.id)
        return {cls: ids | wide.get(cls, set()) for cls, ids in fitting.items()} if wide else fitting

    @contextmanager
    def with_new_node(self, situation: ScaleUpContext, group_id: str) -> Iterator[int]:
        """Yield the position of one more node of the group, gone afterwards."""
        in_hand("group", group_id)
        with self.placer.trial.fork():
            yield self.placer.trial.add(situation.templates[group_id], 1)[0]

    def offers(
        self,
        situation: ScaleUpContext,
        groups: Sequence[Group],
        fitting: Fitting,
        pods: Sequence[PodGroup],
        ceiling: int | None = None,
    ) -> tuple[PackedOption, ...]:
        """Return the offers of these groups, in their order; a group that can help no pod makes none.

        `ceiling`: most nodes of each.
        """
        offers = (self._offer(situation, group, fitting, pods, ceiling) for group in groups)
        return tuple(offer for offer in offers if offer is not None)

    def _offer(
        self, situation: ScaleUpContext, group: Group, fitting: Fitting, pods: Sequence[PodGroup], ceiling: int | None
    ) -> PackedOption | None:
        in_hand("group", group.id)
        candidates = [pod_group for pod_group in pods if group.id in fitting.get(pod_group.cls, ())]
        if not candidates:
            return None
        similar = _similar(situation, group, fitting)
        template = situation.templates[group.id]
        limit = self.node_limit(situation, group, similar)
        estimated = estimate(
            self.placer,
            template,
            candidates,
            limit if ceiling is None else min(limit, ceiling),
            topology_fallback=self._rules.topology_fallback_in_estimator,
        )
        nodes = estimated.nodes
        if nodes <= 0 or not estimated.pods:
            return None
        if group.settings.zero_or_max_node_scaling:
            nodes = group.max_size
        option = Option(
            group=group,
            template=template,
            nodes=nodes,
            pods=estimated.pods,
            similar=tuple(similar),
            kinds=len(candidates),
            namespaces=len({candidate.cls.namespace for candidate in candidates}),
        )
        return PackedOption(option, estimated.packed)

    def node_limit(self, situation: ScaleUpContext, group: Group, similar: Sequence[str] = ()) -> int:
        """Return how many nodes one scale-up of a group and similar ones may add: the strictest of all limits."""
        by_id = situation.groups.by_id
        takers = (group, *(by_id[other] for other in similar))
        allowed = situation.within
        limits = [sum(min(taker.room, taker.room if allowed is None else allowed.get(taker.id, 0)) for taker in takers)]
        if self._options.max_nodes_per_scaleup > 0:
            limits.append(self._options.max_nodes_per_scaleup)
        if situation.nodes_left is not None:
            limits.append(situation.nodes_left)
        return min(limits)


def _similar(situation: ScaleUpContext, group: Group, fitting: Fitting) -> list[str]:
    """Return similar groups that may grow and can host every class that this group can."""
    if group.settings.zero_or_max_node_scaling:
        return []
    return [
        other
        for other in situation.similar.get(group.id, ())
        if situation.states[other].may_scale_up
        and (other not in situation.cooling or group.id in situation.cooling)
        and all(other in ids for ids in fitting.values() if group.id in ids)
    ]


def place(placer: Placer, offer: PackedOption) -> tuple[tuple[Pod, int], ...]:
    """Place the pods of an offer as it says, now that its nodes are there; return them with their positions."""
    waiting = {group.cls: iter(group.pods) for group in pod_groups(offer.option.pods)}
    placed: list[tuple[Pod, int]] = []
    for packed in offer.packed:
        placer.place_many(packed.cls, packed.positions, packed.counts)
        placed.extend(spread_over(waiting[packed.cls], packed.positions, packed.counts))
    return tuple(placed)
