"""What a search for cheaper nodes goes by in a pass, and what its proposals mean."""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from autoscaler.config.scaledown import ReplacementOptions as Options
from autoscaler.loop.passing import PassState
from autoscaler.objects.pod import PodClass
from autoscaler.reasons import ReplacementTrigger
from autoscaler.scaledown import replacement as states
from autoscaler.scaledown.consolidation import Candidate, GroupOffer, Proposal
from autoscaler.scaledown.plan import Removal
from autoscaler.scaledown.relocation import Relocations
from autoscaler.scaledown.replacement import Replacement, WorkloadKey
from autoscaler.snapshot.cluster import ClusterView
from autoscaler.snapshot.columns import Mask


def candidates(p: PassState, moves: Relocations, busy: Collection[str], options: Options) -> tuple[Candidate, ...]:
    """Return the nodes that may be replaced: priced, old enough, free to go, with pods, and not `busy` otherwise."""
    found: list[Candidate] = []
    held = {name for seen in p.outlooks.values() for name in seen.new}
    for position, node in enumerate(p.view.nodes):
        group = p.view.groups.get(p.view.groups.of_node.get(node.name, ""))
        young = p.report.now.wall - node.created < options.consolidation_min_node_age_s
        if group is None or group.node_price is None or young or node.name in busy or node.name in held:
            continue
        removal = moves.removal(node.name)
        if isinstance(removal, Removal) and removal.pods:
            found.append(Candidate(position=position, group=group.id, price=group.node_price, pods=removal.pods))
    return tuple(found)


def offers(p: PassState, rooms: Mapping[str, int]) -> tuple[GroupOffer, ...]:
    """Return the groups that may grow, `rooms` says by how much, and whose price is known."""
    groups, templates = p.view.groups.by_id, p.report.templates
    return tuple(
        GroupOffer(group=group_id, template=templates[group_id], price=price, room=room)
        for group_id, room in rooms.items()
        if (price := groups[group_id].node_price) is not None
    )


def planned(p: PassState, proposal: Proposal) -> Replacement:
    """Return a proposal as a replacement of which nothing is bought yet."""
    nodes = p.view.nodes
    return Replacement(
        trigger=ReplacementTrigger.CHEAPER,
        nodes=tuple(nodes[position].name for position in proposal.positions),
        began=p.report.now,
        places={
            uid: states.place_on_new(group, number) if group else states.place_on(nodes[number].name)
            for uid, (group, number) in proposal.places.items()
        },
        price_before=proposal.price_before,
        price_after=proposal.price_after,
    )


def picture(p: PassState, candidates: Sequence[Candidate], offers: Sequence[GroupOffer], destinations: Mask) -> int:
    """Return a hash of everything that a search for cheaper nodes depends on."""
    assert p.placer is not None
    pods = tuple((one.position, one.price, tuple(pod.uid for pod in one.pods)) for one in candidates)
    new = tuple((one.group, one.price, one.room) for one in offers)
    room = p.placer.trial.free[:, : p.placer.trial.base].tobytes()
    return hash((pods, new, destinations.tobytes(), room))


def workload(view: ClusterView) -> WorkloadKey:
    """Return what runs or waits, as far as it does not come and go with nodes."""
    counts = Counter({cls: int(count) for cls, count in zip(view.classes, _counts(view), strict=True) if count})
    counts.update(pod.cls for pod in view.pending)
    return frozenset((cls, count) for cls, count in counts.items() if not (cls.daemonset or cls.mirror))


def _counts(view: ClusterView) -> NDArray[np.int64]:
    return np.bincount(view.pod_classes, minlength=len(view.classes))


def moving(p: PassState, one: Replacement) -> frozenset[PodClass]:
    """Return the classes of the pods on a replacement's nodes."""
    return frozenset(pod.cls for name in one.nodes for pod in p.view.pods_on(name))
