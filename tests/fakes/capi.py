"""Cluster API as far as an autoscaler meets it: objects, and controllers that make Machines as replicas say."""

import contextlib
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from autoscaler.sandbox.apiserver.errors import ApiError
from autoscaler.sandbox.apiserver.storage import Storage
from cloudprovider.conformance import MemoryObjectApi
from cloudprovider.interface import ObjectKind

Json = dict[str, Any]
GROUP = "cluster.x-k8s.io"
INFRASTRUCTURE = "infrastructure.cluster.x-k8s.io"
DELETE = f"{GROUP}/delete-machine"
CAPACITY = "capacity.cluster-autoscaler.kubernetes.io"
SETS, DEPLOYMENTS, POOLS, MACHINES = "machinesets", "machinedeployments", "machinepools", "machines"
TEMPLATES = "dockermachinetemplates"
PLURALS = {"MachineSet": SETS, "MachineDeployment": DEPLOYMENTS, "MachinePool": POOLS, "Machine": MACHINES}
SCALED = (SETS, DEPLOYMENTS, POOLS)


def kinds(version: str = "v1beta2") -> dict[str, ObjectKind]:
    """Return what a management cluster serves."""
    found = {kind: ObjectKind(GROUP, version, plural) for kind, plural in PLURALS.items()}
    return {**found, "DockerMachineTemplate": ObjectKind(INFRASTRUCTURE, version, TEMPLATES)}


def an_api(*objects: Json) -> MemoryObjectApi:
    """Return a management cluster with these objects."""
    api = MemoryObjectApi(kinds(), SCALED)
    for obj in objects:
        api.put(PLURALS.get(obj["kind"], TEMPLATES), obj)
    return api


def sized(low: object, high: object) -> Json:
    """Return the annotations that make a group."""
    prefix = f"{GROUP}/cluster-api-autoscaler-node-group"
    return {f"{prefix}-min-size": str(low), f"{prefix}-max-size": str(high)}


def capacity(cpu: str = "4", memory: str = "16Gi", **more: str) -> Json:
    """Return the annotations that tell what a node has."""
    return {
        f"{CAPACITY}/{key.replace('_', '-')}": value for key, value in {"cpu": cpu, "memory": memory, **more}.items()
    }


def a_scalable(
    kind: str,
    name: str,
    replicas: int | None = 0,
    annotations: Mapping[str, str] | None = None,
    *,
    namespace: str = "default",
    cluster: str = "one",
    labels: Mapping[str, str] | None = None,
    owner: Json | None = None,
    template: Json | None = None,
    **spec: Any,
) -> Json:
    """Return a MachineDeployment, MachineSet or MachinePool."""
    metadata: Json = {"name": name, "namespace": namespace, "labels": dict(labels or {})}
    metadata["annotations"] = dict(annotations or {})
    if owner is not None:
        metadata["ownerReferences"] = [owner]
    count = {} if replicas is None else {"replicas": replicas}
    return {
        "apiVersion": f"{GROUP}/v1beta2",
        "kind": kind,
        "metadata": metadata,
        "spec": {"clusterName": cluster, **count, "template": template or {"spec": {}}, **spec},
    }


def a_group(name: str, low: int = 0, high: int = 6, replicas: int = 0, kind: str = "MachineDeployment") -> Json:
    """Return one that can grow from zero."""
    return a_scalable(kind, name, replicas, {**sized(low, high), **capacity()})


def a_machine(
    name: str,
    owner: str,
    *,
    kind: str = "MachineSet",
    provider_id: str | None = None,
    node: str | None = None,
    deleting: bool = False,
    phase: str = "",
    mark: str | None = None,
    namespace: str = "default",
    message: str = "",
) -> Json:
    """Return a Machine."""
    metadata: Json = {"name": name, "namespace": namespace, "annotations": {} if mark is None else {DELETE: mark}}
    metadata["ownerReferences"] = [
        {"apiVersion": f"{GROUP}/v1beta2", "kind": kind, "name": owner, "uid": f"of-{owner}"}
    ]
    metadata["labels"] = {f"{GROUP}/cluster-name": "one"}
    if deleting:
        metadata["deletionTimestamp"] = "2026-01-05T12:00:00Z"
    status: Json = {"phase": phase, "failureMessage": message} if phase else {}
    if node is not None:
        status["nodeRef"] = {"name": node}
    spec = {"clusterName": "one"} if provider_id is None else {"clusterName": "one", "providerID": provider_id}
    return {
        "apiVersion": f"{GROUP}/v1beta2",
        "kind": "Machine",
        "metadata": metadata,
        "spec": spec,
        "status": status,
    }


class Store(Protocol):
    """Where the objects are."""

    def objects(self, plural: str) -> Sequence[Json]:
        """Return all of a kind."""
        ...

    def put(self, plural: str, obj: Mapping[str, Any]) -> object:
        """Create or replace."""
        ...

    def remove(self, plural: str, namespace: str, name: str) -> None:
        """Delete."""
        ...


class Controllers:
    """What Cluster API's controllers do, a step at a time. Of Machines that nothing marks they delete the oldest."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._made = 0

    def settle(self, steps: int = 6) -> None:
        """Take steps until nothing more comes of it."""
        for _ in range(steps):
            self.step()

    def step(self) -> None:
        """Let every controller look once."""
        for machine in self._store.objects(MACHINES):
            self._live(machine)
        for deployment in self._store.objects(DEPLOYMENTS):
            self._deploy(deployment)
        for owner in self._store.objects(SETS):
            self._replicate(owner, "MachineSet")
        for pool in self._store.objects(POOLS):
            self._fill(pool)

    def _live(self, machine: Json) -> None:
        metadata = machine["metadata"]
        if metadata.get("deletionTimestamp"):
            self._store.remove(MACHINES, metadata["namespace"], metadata["name"])
        elif not machine["spec"].get("providerID"):
            machine["spec"]["providerID"] = f"docker:////{metadata['name']}"
            self._store.put(MACHINES, machine)
        elif not (machine.get("status") or {}).get("nodeRef"):
            machine["status"] = {"phase": "Running", "nodeRef": {"name": f"node-{metadata['name']}"}}
            self._store.put(MACHINES, machine)

    def _deploy(self, deployment: Json) -> None:
        metadata, spec = deployment["metadata"], deployment["spec"]
        owned = [obj for obj in self._store.objects(SETS) if _owned(obj, "MachineDeployment", metadata)]
        if not owned:
            owner = {"apiVersion": f"{GROUP}/v1beta2", "kind": "MachineDeployment", "name": metadata["name"]}
            owner["uid"] = metadata["uid"]
            made = a_scalable("MachineSet", f"{metadata['name']}-1", 0, namespace=metadata["namespace"], owner=owner)
            made["metadata"]["annotations"]["machinedeployment.clusters.x-k8s.io/revision"] = "1"
            self._store.put(SETS, made)
        elif owned[0]["spec"]["replicas"] != spec["replicas"]:
            owned[0]["spec"]["replicas"] = spec["replicas"]
            self._store.put(SETS, owned[0])

    def _replicate(self, owner: Json, kind: str) -> None:
        metadata = owner["metadata"]
        machines = [obj for obj in self._store.objects(MACHINES) if _owned(obj, kind, metadata)]
        surplus = len(machines) - owner["spec"]["replicas"]
        for _ in range(-surplus):
            self._made += 1
            machine = a_machine(f"{metadata['name']}-{self._made:04}", metadata["name"], kind=kind)
            machine["metadata"]["namespace"] = metadata["namespace"]
            machine["metadata"]["ownerReferences"][0] |= {"apiVersion": f"{GROUP}/v1beta2", "uid": metadata["uid"]}
            self._store.put(MACHINES, machine)
        for machine in sorted(machines, key=_priority)[: max(0, surplus)]:
            if not machine["metadata"].get("deletionTimestamp"):
                machine["metadata"]["deletionTimestamp"] = "2026-01-05T12:00:00Z"
                self._store.put(MACHINES, machine)

    def _fill(self, pool: Json) -> None:
        """Give a MachinePool its machines; with the label `machines` a Machine for each."""
        spec, name = pool["spec"], pool["metadata"]["name"]
        if "machines" in pool["metadata"]["labels"]:
            self._replicate(pool, "MachinePool")
            machines = [obj for obj in self._store.objects(MACHINES) if _owned(obj, "MachinePool", pool["metadata"])]
            listed = [machine["spec"]["providerID"] for machine in machines if machine["spec"].get("providerID")]
        else:
            listed = list(spec.get("providerIDList") or ())
            while len(listed) < spec["replicas"]:
                self._made += 1
                listed.append(f"docker:////{name}-{self._made:04}")
            listed = listed[len(listed) - spec["replicas"] :]
        if listed != (spec.get("providerIDList") or []):
            spec["providerIDList"] = listed
            self._store.put(POOLS, pool)


def _owned(one: Json, kind: str, owner: Json) -> bool:
    references = one["metadata"].get("ownerReferences") or ()
    named = {"kind": kind, "name": owner["name"]}
    same = one["metadata"]["namespace"] == owner["namespace"]
    return same and any(named.items() <= reference.items() for reference in references)


def _priority(machine: Json) -> tuple[bool, bool, str]:
    metadata = machine["metadata"]
    return (
        not metadata.get("deletionTimestamp"),
        DELETE not in (metadata.get("annotations") or {}),
        metadata["name"],
    )


def definition(kind: str, plural: str, group: str = GROUP, version: str = "v1beta2") -> Json:
    """Return the CustomResourceDefinition of a kind."""
    scale = {"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas"}
    subresources: Json = {"status": {}, **({"scale": scale} if plural in SCALED else {})}
    schema = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
    served = {"name": version, "served": True, "storage": True, "schema": schema, "subresources": subresources}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{group}"},
        "spec": {
            "group": group,
            "names": {"kind": kind, "plural": plural, "singular": kind.lower()},
            "scope": "Namespaced",
            "versions": [served],
        },
    }


def define(storage: Storage) -> None:
    """Let an embedded API server serve the kinds."""
    for kind, one in kinds().items():
        storage.create("customresourcedefinitions", definition(kind, one.plural, one.group, one.version))


class Stored:
    """The objects of an embedded API server, as `Controllers` want them."""

    def __init__(self, storage: Storage) -> None:
        self._storage = storage

    def objects(self, plural: str) -> list[Json]:
        """Return all of a kind."""
        return list(self._storage.list(f"{plural}.{GROUP}"))

    def put(self, plural: str, obj: Mapping[str, Any]) -> None:
        """Create or replace, status included; what changed meanwhile is left for the next step."""
        resource, metadata = f"{plural}.{GROUP}", obj["metadata"]
        if metadata.get("deletionTimestamp"):
            self.remove(plural, metadata["namespace"], metadata["name"])
        elif "resourceVersion" not in metadata:
            self._storage.create(resource, dict(obj))
        else:
            with contextlib.suppress(ApiError):
                changed = self._storage.update(resource, dict(obj))
                if "status" in obj:
                    changed["status"] = obj["status"]
                    self._storage.update(resource, changed, subresource="status")

    def remove(self, plural: str, namespace: str, name: str) -> None:
        """Delete."""
        with contextlib.suppress(ApiError):
            self._storage.delete(f"{plural}.{GROUP}", name, namespace=namespace)
