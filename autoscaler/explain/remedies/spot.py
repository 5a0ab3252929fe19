"""One node that rejects a pod, real or the next one of a group, and the pods that keep the pod off it."""

from collections.abc import Iterable

import msgspec
import numpy as np

from autoscaler.explain.explained_pass import ExplainedPass
from autoscaler.objects.node import Node
from autoscaler.objects.pod import Pod, PodClass
from autoscaler.scheduling.domains import DomainTally
from autoscaler.scheduling.placement import Placer
from autoscaler.snapshot.overlay import Trial


class Spot(msgspec.Struct, frozen=True):
    """A pod and a position of the simulated cluster."""

    ended: ExplainedPass
    pod: Pod
    position: int
    group: str | None = None
    """The group whose next node this is; None for an existing node."""

    @property
    def cls(self) -> PodClass:
        """The pod's class."""
        return self.pod.cls

    @property
    def placer(self) -> Placer:
        """The simulated cluster."""
        return self.ended.simulated

    @property
    def trial(self) -> Trial:
        """Its nodes."""
        return self.ended.simulated.trial

    @property
    def node(self) -> Node:
        """The node."""
        return self.trial.node(self.position)

    def free(self, resource: str) -> int:
        """Return the free amount of a resource on the node, in the engine's unit; as much as the pod requests where
        devices stand for the resource.
        """
        if resource in self.placer.delegated(self.cls, self.position):
            return self.cls.requests[resource]
        rows = self.trial.vocabulary.rows
        return max(0, int(self.trial.free[rows[resource], self.position])) if resource in rows else 0

    @property
    def place(self) -> str:
        """The name of the group or the node."""
        return f"node {self.trial.name(self.position)}" if self.group is None else f"group {self.group}"

    @property
    def where(self) -> str:
        """A noun phrase for all nodes like this one."""
        return self.place if self.group is None else f"new nodes of {self.place}"


def counted_pod(spot: Spot, tally: DomainTally, *, anywhere: bool = False) -> Pod | None:
    """Return one other pod that a tally counts in the domain of the node, or `anywhere`."""
    trial, view = spot.trial, spot.ended.view
    codes = trial.labels(tally.key)
    among = view.pod_nodes[np.isin(view.pod_classes, tally.classes)]
    here = among if anywhere else among[codes[among] == codes[spot.position]]
    pod = _first(spot, tally, (pod for position in dict.fromkeys(here.tolist()) for pod in view.pods[position]))
    if pod is not None:
        return pod
    placed: set[PodClass] = set()
    for cls, positions, counts in trial.moves():
        inside = anywhere or (codes[positions] == codes[spot.position])
        if ((counts > 0) & inside).any():
            placed.add(cls)
    return _first(spot, tally, (pod for pod in view.pending if pod.cls in placed))


def _first(spot: Spot, tally: DomainTally, pods: Iterable[Pod]) -> Pod | None:
    counted: dict[PodClass, bool] = {}
    for pod in pods:
        if pod.cls not in counted:
            counted[pod.cls] = tally.counts(pod.cls)
        if counted[pod.cls] and pod.key != spot.pod.key:
            return pod
    return None


def pod_with_port(spot: Spot, port: int) -> Pod | None:
    """Return the pod on the node that uses a host port."""
    template = spot.trial.template(spot.position)
    here = spot.ended.view.pods[spot.position] if template is None else template.pods
    return next((pod for pod in here if any(held.port == port for held in pod.cls.host_ports)), None)
