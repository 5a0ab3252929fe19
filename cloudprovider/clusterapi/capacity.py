"""Builds the template of a group: from its annotations, its machine template, and its nodes."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

import msgspec

from cloudprovider.clusterapi.keys import CAPACITY
from cloudprovider.clusterapi.objects import Scalable, mapping, text
from cloudprovider.interface import NodeTemplate, TaintSpec
from cloudprovider.number import parse_count
from cloudprovider.problems import Problems
from cloudprovider.quantity import parse_quantity
from cloudprovider.quoted import quoted

T = TypeVar("T")
_ARCHITECTURES = ("amd64", "arm64", "ppc64le", "s390x")
_ARCHITECTURE_VARIABLE = "CAPI_SCALE_ZERO_DEFAULT_ARCH"
_ARCH, _OS = "kubernetes.io/arch", "kubernetes.io/os"
_MAX_PODS = "110"
_MOST_DEVICES = 1024
_EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")
_ROLES = "node-role.kubernetes.io"
_MANAGED_DOMAINS = ("node-restriction.kubernetes.io", "node.cluster.x-k8s.io")

TOLD_BY_NODES = (
    _ARCH,
    _OS,
    "node.kubernetes.io/instance-type",
    "beta.kubernetes.io/instance-type",
    "topology.kubernetes.io/region",
    "failure-domain.beta.kubernetes.io/region",
    "topology.kubernetes.io/zone",
    "failure-domain.beta.kubernetes.io/zone",
)
"""Labels that a new node has if all existing nodes of the group share them."""


class Describer(msgspec.Struct, frozen=True):
    """Makes templates. The engine gives each template its own host name label."""

    architecture: str = _ARCHITECTURES[0]

    @classmethod
    def for_environment(cls, environment: Mapping[str, str], problems: Problems) -> "Describer":
        """Return a describer with the default architecture that the environment names."""
        named = environment.get(_ARCHITECTURE_VARIABLE)
        if not named:
            return cls()
        if named not in _ARCHITECTURES:
            problems.add(_ARCHITECTURE_VARIABLE, f"{named!r} is none of {', '.join(_ARCHITECTURES)}")
        return cls(named)

    def template(
        self,
        scalable: Scalable,
        machine_template: Mapping[str, Any] | None,
        nodes: Mapping[str, str],
        problems: Problems,
    ) -> NodeTemplate | None:
        """Return the template; None if CPU or memory is not known. `nodes` has labels of the group's nodes."""
        status = mapping((machine_template or {}).get("status"))
        capacity_problems = Problems()
        capacity = {**_told_by_template(status), **_annotated(scalable, capacity_problems)}
        for line in capacity_problems.lines:
            problems.add(scalable.id, line)
        if capacity_problems.lines or "cpu" not in capacity or "memory" not in capacity:
            return None
        capacity.setdefault("pods", _MAX_PODS)
        return NodeTemplate(
            labels={**self._labels(scalable, mapping(status.get("nodeInfo")), problems), **nodes},
            taints=tuple(_taints(scalable, problems)),
            capacity=capacity,
            allocatable=capacity,
            attach_limits=_attach_limits(scalable, problems),
            resource_slices=_resource_slices(scalable, problems),
        )

    def _labels(self, scalable: Scalable, node_info: Mapping[str, Any], problems: Problems) -> dict[str, str]:
        """Return labels. Later sources override earlier ones."""
        labels = {_ARCH: self.architecture, _OS: "linux"}
        for label, field in ((_ARCH, "architecture"), (_OS, "operatingSystem")):
            if value := text(node_info.get(field)):
                labels[label] = value
        labels.update({name: value for name, value in scalable.template_labels.items() if is_propagated(name)})
        for term in _terms(scalable, "labels"):
            name, equals, value = term.partition("=")
            if equals and name:
                labels[name] = value
            else:
                problems.add(scalable.id, f"annotation {CAPACITY}/labels: {term!r} is not of the form key=value")
        return labels


def is_propagated(label: str) -> bool:
    """Whether Cluster API copies a label of Machines to their nodes."""
    domain = label.partition("/")[0]
    return domain == _ROLES or any(domain == managed or domain.endswith(f".{managed}") for managed in _MANAGED_DOMAINS)


def _told_by_template(status: Mapping[str, Any]) -> dict[str, str]:
    """Return the capacity that the machine template states. Invalid quantities are left out."""
    capacity: dict[str, str] = {}
    for name, amount in mapping(status.get("capacity")).items():
        try:
            parse_quantity(str(amount))
        except ValueError:
            continue
        capacity[name] = str(amount)
    return capacity


def _annotated(scalable: Scalable, problems: Problems) -> dict[str, str]:
    """Return the capacity that the group's annotations state. Zero counts as absent."""
    capacity: dict[str, str] = {}
    for resource, key in (("cpu", "cpu"), ("memory", "memory"), ("ephemeral-storage", "ephemeral-disk")):
        if (amount := _read(scalable, key, _amount, problems)) is not None:
            capacity[resource] = amount
    if (pods := _read(scalable, "maxPods", _whole, problems)) is not None:
        capacity["pods"] = pods
    gpus, gpu_type = _read(scalable, "gpu-count", _whole, problems), scalable.annotations.get(f"{CAPACITY}/gpu-type")
    if gpus is not None and gpu_type:
        capacity[gpu_type] = gpus
    return capacity


def _read(scalable: Scalable, key: str, parse: Callable[[str], T | None], problems: Problems) -> T | None:
    value = scalable.annotations.get(f"{CAPACITY}/{key}")
    if not value:
        return None
    try:
        return parse(value)
    except ValueError as error:
        problems.add(f"annotation {CAPACITY}/{key}", str(error))
        return None


def _amount(value: str) -> str | None:
    amount = parse_quantity(value)
    if amount < 0:
        raise ValueError(f"{quoted(value)} is negative")
    return value if amount else None


def _whole(value: str) -> str | None:
    if (count := parse_count(value)) is None:
        raise ValueError(f"{quoted(value)} is not a whole number from 0")
    return str(count) if count else None


def _taints(scalable: Scalable, problems: Problems) -> Iterator[TaintSpec]:
    """Yield the taints of the Machines and of the annotation. The annotation wins on equal key and effect."""
    taints: dict[tuple[str, str], TaintSpec] = {}
    for item in scalable.template.get("taints") or ():
        taint = TaintSpec(text(item.get("key")), text(item.get("value")), text(item.get("effect")))
        if taint.key and taint.effect in _EFFECTS:
            taints[taint.key, taint.effect] = taint
    for term in _terms(scalable, "taints"):
        head, colon, effect = term.partition(":")
        key, _, value = head.partition("=")
        if key and colon and effect in _EFFECTS and "=" not in value:
            taints[key, effect] = TaintSpec(key, value, effect)
        else:
            problems.add(scalable.id, f"annotation {CAPACITY}/taints: {term!r} is not of the form key=value:Effect")
    yield from taints.values()


def _attach_limits(scalable: Scalable, problems: Problems) -> dict[str, int]:
    """Return the volumes that a node can attach by CSI driver, from `driver=limit` terms. 0 means no limit."""
    limits: dict[str, int] = {}
    for term in _terms(scalable, "csi-driver"):
        driver, _, limit = term.partition("=")
        count = parse_count(limit.strip())
        if driver.strip() and count:
            limits[driver.strip()] = count
        elif not driver.strip() or count is None:
            problems.add(scalable.id, f"annotation {CAPACITY}/csi-driver: {term!r} is not of the form driver=limit")
    return limits


def _resource_slices(scalable: Scalable, problems: Problems) -> Sequence[Mapping[str, Any]]:
    """Return the GPUs of a node as devices of the driver that the group's annotation names."""
    driver = scalable.annotations.get(f"{CAPACITY}/dra-driver", "")
    count = int(_read(scalable, "gpu-count", _whole, problems) or 0) if driver else 0
    if count > _MOST_DEVICES:
        problems.add(
            f"annotation {CAPACITY}/gpu-count", f"{count} is above {_MOST_DEVICES}, the most devices of a node"
        )
        return ()
    devices = [{"name": f"gpu-{number}", "attributes": {"type": {"string": "gpu"}}} for number in range(count)]
    return ({"spec": {"driver": driver, "devices": devices}},) if devices else ()


def _terms(scalable: Scalable, key: str) -> Iterator[str]:
    value = scalable.annotations.get(f"{CAPACITY}/{key}", "")
    yield from filter(None, (term.strip() for term in value.split(",")))
