"""Machines and their owners, decoded from JSON of all versions. Unused fields are left out."""

from collections.abc import Mapping
from typing import Any

import msgspec

from cloudprovider.clusterapi.keys import REVISION, Keys
from cloudprovider.number import parse_count

DEPLOYMENT, SET, POOL, MACHINE = "MachineDeployment", "MachineSet", "MachinePool", "Machine"
_FAILED = "Failed"

MachineKey = tuple[str, str]
"""Namespace and name."""
OwnerKey = tuple[str, str, str]
"""Kind, namespace and name."""


class Machine(msgspec.Struct, frozen=True, kw_only=True):
    """One Machine."""

    key: MachineKey
    uid: str
    owner: OwnerKey | None
    """The MachineSet or MachinePool that owns it."""
    provider_id: str = ""
    has_node: bool = False
    deleting: bool = False
    failed: bool = False
    message: str = ""
    """Why it failed."""
    mark: str | None = None
    """Value of the annotation that marks it for deletion."""
    created: str = ""
    """RFC 3339, so that text order is order in time."""
    kubernetes: str = ""
    """Version of Kubernetes that it was made with."""
    bare: bool = False
    """Not a Machine, but a machine that a MachinePool lists. The key is the pool's id and the provider id."""


class Scalable(msgspec.Struct, frozen=True, kw_only=True):
    """A MachineDeployment, MachineSet or MachinePool."""

    kind: str
    namespace: str
    name: str
    cluster: str
    replicas: int | None
    """None if the specification leaves it open."""
    labels: Mapping[str, str] = {}
    annotations: Mapping[str, str] = {}
    owner: OwnerKey | None = None
    """The MachineDeployment of a MachineSet."""
    paused: bool = False
    present: int = 0
    """Replicas that exist, as its status counts them."""
    revision: int = 0
    provider_ids: tuple[str, ...] = ()
    """Ids of a MachinePool's machines."""
    template_labels: Mapping[str, str] = {}
    template: Mapping[str, Any] = {}
    """Specification of its Machines."""

    @property
    def id(self) -> str:
        """The id of the object's node group."""
        return f"{self.kind}/{self.namespace}/{self.name}"

    @property
    def key(self) -> OwnerKey:
        """The key by which owned objects refer to this one."""
        return (self.kind, self.namespace, self.name)


def decode_machine(data: Mapping[str, Any], keys: Keys) -> Machine:
    """Return a Machine."""
    metadata, spec, status = (mapping(data.get(part)) for part in ("metadata", "spec", "status"))
    before_v1beta2 = mapping(mapping(status.get("deprecated")).get("v1beta1"))
    return Machine(
        key=(text(metadata.get("namespace")), text(metadata.get("name"))),
        uid=text(metadata.get("uid")),
        owner=_owner(metadata, (SET, POOL)),
        provider_id=text(spec.get("providerID")),
        has_node=bool(mapping(status.get("nodeRef")).get("name")),
        deleting=bool(metadata.get("deletionTimestamp")),
        failed=status.get("phase") == _FAILED,
        message=text(status.get("failureMessage") or before_v1beta2.get("failureMessage")),
        mark=texts(metadata.get("annotations")).get(keys.delete),
        created=text(metadata.get("creationTimestamp")),
        kubernetes=text(spec.get("version")),
    )


def decode_scalable(kind: str, data: Mapping[str, Any], keys: Keys) -> Scalable:
    """Return an object of one of the three kinds."""
    metadata, spec, status = (mapping(data.get(part)) for part in ("metadata", "spec", "status"))
    labels, annotations = texts(metadata.get("labels")), texts(metadata.get("annotations"))
    template = mapping(spec.get("template"))
    return Scalable(
        kind=kind,
        namespace=text(metadata.get("namespace")),
        name=text(metadata.get("name")),
        cluster=text(spec.get("clusterName")) or labels.get(keys.cluster, ""),
        replicas=_count(spec.get("replicas")),
        labels=labels,
        annotations=annotations,
        owner=_owner(metadata, (DEPLOYMENT,)) if kind == SET else None,
        paused=keys.paused in annotations,
        present=_count(status.get("replicas")) or 0,
        revision=_revision(annotations.get(REVISION, "")),
        provider_ids=tuple(text(provider_id) for provider_id in spec.get("providerIDList") or () if text(provider_id)),
        template_labels=texts(mapping(template.get("metadata")).get("labels")),
        template=mapping(template.get("spec")),
    )


def mapping(value: Any) -> Mapping[str, Any]:
    """Return a JSON object; empty if the value is not one."""
    return value if isinstance(value, Mapping) else {}


def text(value: Any) -> str:
    """Return a JSON string; empty if the value is not one."""
    return value if isinstance(value, str) else ""


def texts(value: Any) -> dict[str, str]:
    """Return the strings of a JSON object."""
    return {name: item for name, item in mapping(value).items() if isinstance(item, str)}


def _owner(metadata: Mapping[str, Any], kinds: tuple[str, ...]) -> OwnerKey | None:
    for reference in metadata.get("ownerReferences") or ():
        if reference.get("kind") in kinds and reference.get("name"):
            return reference["kind"], text(metadata.get("namespace")), reference["name"]
    return None


def _count(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _revision(value: str) -> int:
    return parse_count(value) or 0
