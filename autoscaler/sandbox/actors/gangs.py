"""What gangs ask of the scheduler: so many pods at once, or none, on nodes that share a label if they have to."""

from collections import Counter
from collections.abc import Sequence

import msgspec

from autoscaler.objects.gang import GangRef, stated_minimum
from autoscaler.objects.pod import Pod
from autoscaler.snapshot.cluster import ClusterView


class GangToPlace(msgspec.Struct, frozen=True):
    """Pods of a gang without a node that are tried together."""

    name: str
    """`namespace/name`."""
    pods: tuple[Pod, ...]
    wanted: int
    running: int
    topology_key: str = ""
    """The label whose value all its nodes share; empty: any nodes will do."""
    home: str | None = None
    """The value of that label where its pods run; None: none runs."""

    @property
    def lacking(self) -> int:
        """How many of the pods have to find a node for any of them to get one."""
        return max(0, self.wanted - self.running)


def gangs_among(pods: Sequence[Pod], view: ClusterView) -> dict[str, GangToPlace]:
    """Return the gangs of these pods by name; those that start pod by pod are left out."""
    members: dict[str, list[Pod]] = {}
    refs: dict[str, GangRef] = {}
    for pod in pods:
        if pod.cls.gang is not None:
            members.setdefault(pod.cls.gang.key, []).append(pod)
            refs.setdefault(pod.cls.gang.key, pod.cls.gang)
    gangs: dict[str, GangToPlace] = {}
    for name, waiting in members.items():
        pod_group = view.related.pod_groups.get(name)
        key = "" if pod_group is None else pod_group.topology_key
        running = [pod.node or "" for on_node in view.pods for pod in on_node if _is_of(name, pod)]
        pending = sum(_is_of(name, pod) for pod in view.pending)
        wanted = stated_minimum(refs[name], view.related.pod_groups, view.related.workloads)
        wanted = len(running) + pending if wanted is None else wanted
        if wanted < 2 and not key:
            continue
        values = Counter(node.labels.get(key, "") for at in running if (node := view.node(at)) is not None)
        home = max(values, key=lambda value: (values[value], value)) if values else None
        gangs[name] = GangToPlace(name, tuple(waiting), wanted, len(running), key, home)
    return gangs


def _is_of(name: str, pod: Pod) -> bool:
    return pod.cls.gang is not None and pod.cls.gang.key == name and pod.deleted is None
