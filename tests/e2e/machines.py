"""Cluster API in a sandbox: its controllers, and the nodes that Machines become."""

import threading
from collections.abc import Mapping
from typing import Any

from autoscaler.sandbox.apiserver.errors import ApiError
from tests.e2e.replica import Sandbox
from tests.fakes import capi

Json = dict[str, Any]
AMOUNTS = {"cpu": "1", "memory": "4Gi", "pods": "110"}
_TICK_S = 0.05


class Machinery:
    """Inside the context, the replicas in `management` become Machines there, and nodes of `workload`."""

    def __init__(self, management: Sandbox, workload: Sandbox | None = None) -> None:
        self._management = management.storage
        self._workload = (workload or management).storage
        self._controllers = capi.Controllers(capi.Stored(self._management))
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="cluster-api")
        capi.define(self._management)

    def __enter__(self) -> "Machinery":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopping.set()
        self._thread.join()

    def add(self, *objects: Mapping[str, Any]) -> None:
        """Create groups, and what they refer to."""
        for obj in objects:
            plural, group = capi.PLURALS.get(obj["kind"], capi.TEMPLATES), obj["apiVersion"].partition("/")[0]
            self._management.create(f"{plural}.{group}", dict(obj))
            if "status" in obj:
                name, status = obj["metadata"]["name"], {"status": obj["status"]}
                self._management.patch(f"{plural}.{group}", name, status, subresource="status")

    def replicas(self) -> dict[str, int]:
        """Return the replicas of every group, by name."""
        scalables = [one for plural in capi.SCALED for one in self._management.list(f"{plural}.{capi.GROUP}")]
        standalone = [scalable for scalable in scalables if not scalable["metadata"].get("ownerReferences")]
        return {one["metadata"]["name"]: one["spec"]["replicas"] for one in standalone}

    def machines(self) -> list[Json]:
        """Return the Machines."""
        return list(self._management.list(f"{capi.MACHINES}.{capi.GROUP}"))

    def _run(self) -> None:
        while not self._stopping.wait(_TICK_S):
            self._controllers.step()
            self._register()

    def _register(self) -> None:
        """Give each Machine that has a node its node; take away nodes whose Machine is gone."""
        wanted = {
            machine["status"]["nodeRef"]["name"]: machine
            for machine in self.machines()
            if (machine.get("status") or {}).get("nodeRef")
        }
        present = {node["metadata"]["name"] for node in self._workload.list("nodes")}
        for name, machine in wanted.items():
            if name not in present:
                self._workload.create("nodes", _node(name, machine))
        for name in present - set(wanted):
            try:
                self._workload.delete("nodes", name)
            except ApiError:
                continue


def _node(name: str, machine: Json) -> Json:
    metadata = machine["metadata"]
    keys = {
        f"{capi.GROUP}/machine": metadata["name"],
        f"{capi.GROUP}/cluster-namespace": metadata["namespace"],
        "kwok.x-k8s.io/node": "fake",  # so that the sandbox keeps it Ready
    }
    labels = {"pool": metadata["name"].partition("-")[0], "kubernetes.io/hostname": name}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": labels, "annotations": keys},
        "spec": {"providerID": machine["spec"]["providerID"]},
        "status": {"capacity": AMOUNTS, "allocatable": AMOUNTS},
    }


def a_group(kind: str, name: str, low: int = 0, high: int = 5, *, template: Json | None = None) -> Json:
    """Return a group of machines on which one pod of 900m fits, labelled `pool`; `template` replaces annotations."""
    told = capi.capacity("1", "4Gi") if template is None else {}
    labels = {f"{capi.CAPACITY}/labels": f"pool={name}"}
    return capi.a_scalable(kind, name, low, {**capi.sized(low, high), **told, **labels}, template=template)
