"""The inputs of a search for cheaper nodes in a pass, and the replacements that its proposals describe."""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from autoscaler.loop.stages import Grown
from autoscaler.objects.pod import PodClass
from autoscaler.reasons import ReplacementTrigger
from autoscaler.scaledown import replacement as states
from autoscaler.scaledown.consolidation import Candidate, GroupOffer, Proposal
from autoscaler.scaledown.plan import Removal
from autoscaler.scaledown.relocation import Relocations
from autoscaler.scaledown.replacement import Replacement, WorkloadKey
from autoscaler.snapshot.cluster import ClusterView
from autoscaler.snapshot.columns import Mask
from autoscaler.snapshot.overlay import Trial


def candidates(stage: Grown, moves: Relocations, busy: Collection[str]) -> tuple[Candidate, ...]:
    """Return the nodes that may be replaced: old enough and removable, with pods and a known price, and not `busy`."""
    chosen: list[Candidate] = []
    taken = {name for forecast in stage.forecasts.values() for name in forecast.new}
    min_age_s = stage.config.replacement.consolidation_min_node_age_s
    for position, node in enumerate(stage.view.nodes):
        group = stage.view.groups.get(stage.view.groups.of_node.get(node.name, ""))
        young = stage.now.wall - node.created < min_age_s
        if group is None or group.node_price is None or young or node.name in busy or node.name in taken:
            continue
        removal = moves.removal(node.name)
        if isinstance(removal, Removal) and removal.pods:
            chosen.append(Candidate(position=position, group=group.id, price=group.node_price, pods=removal.pods))
    return tuple(chosen)


def offers(stage: Grown, room_by_group: Mapping[str, int]) -> tuple[GroupOffer, ...]:
    """Return the groups that have a known price and may grow; `room_by_group` holds the number of nodes each may
    add.
    """
    groups, templates = stage.view.groups.by_id, stage.templates
    return tuple(
        GroupOffer(group=group_id, template=templates[group_id], price=price, room=room)
        for group_id, room in room_by_group.items()
        if (price := groups[group_id].node_price) is not None
    )


def planned(stage: Grown, proposal: Proposal) -> Replacement:
    """Return a proposal as a replacement for which nothing has been bought yet."""
    nodes = stage.view.nodes
    return Replacement(
        trigger=ReplacementTrigger.CHEAPER,
        nodes=tuple(nodes[position].name for position in proposal.positions),
        began=stage.now,
        places={
            uid: states.place_on_new(group, number) if group else states.place_on(nodes[number].name)
            for uid, (group, number) in proposal.places.items()
        },
        price_before=proposal.price_before,
        price_after=proposal.price_after,
    )


def search_hash(trial: Trial, candidates: Sequence[Candidate], offers: Sequence[GroupOffer], destinations: Mask) -> int:
    """Return a hash of everything that a search for cheaper nodes depends on."""
    pods = tuple(
        (candidate.position, candidate.price, tuple(pod.uid for pod in candidate.pods)) for candidate in candidates
    )
    new = tuple((offer.group, offer.price, offer.room) for offer in offers)
    room = trial.free[:, : trial.base].tobytes()
    return hash((pods, new, destinations.tobytes(), room))


def workload(view: ClusterView) -> WorkloadKey:
    """Return the placed and pending workload, without the parts that nodes bring along."""
    counts = Counter({cls: int(count) for cls, count in zip(view.classes, _counts(view), strict=True) if count})
    counts.update(pod.cls for pod in view.pending)
    return frozenset((cls, count) for cls, count in counts.items() if not (cls.daemonset or cls.mirror))


def _counts(view: ClusterView) -> NDArray[np.int64]:
    return np.bincount(view.pod_classes, minlength=len(view.classes))


def moving(view: ClusterView, replacement: Replacement) -> frozenset[PodClass]:
    """Return the classes of the pods on the nodes of a replacement."""
    return frozenset(pod.cls for name in replacement.nodes for pod in view.pods_on(name))
