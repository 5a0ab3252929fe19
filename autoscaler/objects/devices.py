"""Devices that drivers offer, and claims on them (dynamic resource allocation).

Of `resource.k8s.io` in the versions v1beta1, v1beta2 and v1. They are spelt alike but for two places of v1beta1: it
describes a device under `basic`, and writes an exact request without `exactly`. `Device.body` and
`DeviceRequest.alternatives` read both.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec

from autoscaler.objects import quantity
from autoscaler.objects.meta import Resource, Wire
from autoscaler.objects.podspec import NodeSelector

DEVICE_VERSIONS = ("v1", "v1beta2", "v1beta1")
"""Versions of the API group that can be read, the newest first."""
TAINT_VERSIONS = ("v1", "v1beta2", "v1alpha3")
"""The same for DeviceTaintRules."""

Quantities = dict[str, str | int | float]


class Counter(Wire, frozen=True):
    """An amount that devices share."""

    value: str | int | float = 0

    def __post_init__(self) -> None:
        """Refuse what is no quantity."""
        quantity.whole(str(self.value))

    @property
    def whole(self) -> int:
        """The amount, rounded up."""
        return quantity.whole(str(self.value))


class CounterSet(Wire, frozen=True):
    """What one partitionable piece of hardware has, counter by counter."""

    name: str = ""
    counters: dict[str, Counter] = {}


class CounterUse(Wire, frozen=True):
    """What a device takes of a counter set once it is allocated."""

    counter_set: str = ""
    counters: dict[str, Counter] = {}


class DeviceAttribute(Wire, frozen=True):
    """A property of a device; one of the fields is set."""

    string: str | None = None
    int_: int | None = msgspec.field(default=None, name="int")
    bool_: bool | None = msgspec.field(default=None, name="bool")
    version: str | None = None
    strings: list[str] = []
    ints: list[int] = []
    bools: list[bool] = []
    versions: list[str] = []


class CapacityRange(Wire, frozen=True):
    """The amounts of a capacity that may be had: from `min` to `max`, in steps."""

    min: str | int | float | None = None
    max: str | int | float | None = None
    step: str | int | float | None = None

    def __post_init__(self) -> None:
        """Refuse what is no quantity."""
        _check(one for one in (self.min, self.max, self.step) if one is not None)


class RequestPolicy(Wire, frozen=True):
    """How claims may share a capacity: which amounts they get, and how much where they name none."""

    default: str | int | float | None = None
    valid_values: list[str | int | float] = []
    valid_range: CapacityRange | None = None

    def __post_init__(self) -> None:
        """Refuse what is no quantity."""
        _check((*self.valid_values, *(() if self.default is None else (self.default,))))


class DeviceCapacity(Wire, frozen=True):
    """An amount that a device has."""

    value: str | int | float = 0
    request_policy: RequestPolicy | None = None

    def __post_init__(self) -> None:
        """Refuse what is no quantity."""
        _check((self.value,))


def _check(amounts: Iterable[str | int | float]) -> None:
    for one in amounts:
        quantity.whole(str(one))


class DeviceTaint(Wire, frozen=True):
    """What keeps claims without a toleration from a device."""

    key: str = ""
    value: str = ""
    effect: str = ""


class DeviceBody(Wire, frozen=True):
    """What a driver says of a device."""

    attributes: dict[str, DeviceAttribute] = {}
    """By name; a name without a domain belongs to the driver."""
    capacity: dict[str, DeviceCapacity] = {}
    consumes_counters: list[CounterUse] = []
    taints: list[DeviceTaint] = []
    node_name: str | None = None
    node_selector: NodeSelector | None = None
    all_nodes: bool | None = None
    allow_multiple_allocations: bool | None = None
    """Whether several claims may share the device, and each of its capacities."""
    binding_conditions: list[str] = []


class Device(DeviceBody, frozen=True):
    """A device, or one of several ways to cut up a piece of hardware."""

    name: str = ""
    basic: DeviceBody | None = None
    """The body in v1beta1."""

    @property
    def body(self) -> DeviceBody:
        """What the driver says of it."""
        return self if self.basic is None else self.basic

    @property
    def uses(self) -> Sequence[CounterUse]:
        """What it takes of shared counters; empty for a device that takes none."""
        return self.body.consumes_counters


class PoolRef(Wire, frozen=True):
    """Which pool a slice belongs to, and how many slices of its generation make it whole."""

    name: str = ""
    generation: int = 0
    resource_slice_count: int = 1


class SliceSpec(Wire, frozen=True):
    """Part of the devices of a pool. Without a node's name they can be reached from several nodes."""

    driver: str = ""
    pool: PoolRef = PoolRef()
    node_name: str = ""
    node_selector: NodeSelector | None = None
    all_nodes: bool = False
    per_device_node_selection: bool = False
    shared_counters: list[CounterSet] = []
    devices: list[Device] = []


class ResourceSlice(Resource, frozen=True):
    """A ResourceSlice."""

    spec: SliceSpec = SliceSpec()


def described_slice(raw: Mapping[str, Any]) -> ResourceSlice:
    """Return a ResourceSlice from plain data; raises `msgspec.ValidationError`."""
    return msgspec.convert({"metadata": {}, **raw}, ResourceSlice)


class DeviceToleration(Wire, frozen=True):
    """Lets a request have devices with a taint."""

    key: str = ""
    operator: str = "Equal"
    value: str = ""
    effect: str = ""

    def tolerates(self, taint: DeviceTaint) -> bool:
        """Whether it covers the taint; an empty key or effect covers all."""
        if self.effect and self.effect != taint.effect:
            return False
        if self.key and self.key != taint.key:
            return False
        return self.operator == "Exists" or (self.operator == "Equal" and self.value == taint.value)


class CelSelector(Wire, frozen=True):
    """A condition in the Common Expression Language."""

    expression: str = ""


class DeviceSelector(Wire, frozen=True):
    """What a device must meet; without `cel` it is of a kind that is not known here."""

    cel: CelSelector | None = None


class CapacityRequest(Wire, frozen=True):
    """How much of its capacities each device must give."""

    requests: Quantities = {}

    def __post_init__(self) -> None:
        """Refuse what is no quantity."""
        _check(self.requests.values())


class RequestBody(Wire, frozen=True):
    """What is wanted: so many devices of a class, or all of them."""

    device_class_name: str = ""
    selectors: list[DeviceSelector] = []
    allocation_mode: str = "ExactCount"
    count: int = 1
    admin_access: bool | None = None
    tolerations: list[DeviceToleration] = []
    capacity: CapacityRequest | None = None


class SubRequest(RequestBody, frozen=True):
    """One of several things that would do."""

    name: str = ""


class DeviceRequest(RequestBody, frozen=True):
    """What a claim asks for under one name. The fields of the body are those of v1beta1."""

    name: str = ""
    exactly: RequestBody | None = None
    first_available: list[SubRequest] = []

    @property
    def alternatives(self) -> Sequence[tuple[str, RequestBody]]:
        """What would do, the best first, each with its name: `request`, or `request/alternative`."""
        if self.first_available:
            return [(f"{self.name}/{one.name}", one) for one in self.first_available]
        return [(self.name, self if self.exactly is None else self.exactly)]


class DeviceConstraint(Wire, frozen=True):
    """What the devices of some requests must have in common, or must not; no requests: those of all."""

    requests: list[str] = []
    match_attribute: str | None = None
    distinct_attribute: str | None = None


class WantedDevices(Wire, frozen=True):
    """What a claim asks for."""

    requests: list[DeviceRequest] = []
    constraints: list[DeviceConstraint] = []


class DeviceClaimSpec(Wire, frozen=True):
    """What a claim asks for."""

    devices: WantedDevices = WantedDevices()


class ClaimTemplateSpec(Wire, frozen=True):
    """What claims made from a template ask for."""

    spec: DeviceClaimSpec = DeviceClaimSpec()


class ResourceClaimTemplate(Resource, frozen=True):
    """A ResourceClaimTemplate: each pod that names it gets a claim of its own."""

    spec: ClaimTemplateSpec = ClaimTemplateSpec()


class DeviceClassSpec(Wire, frozen=True):
    """Which devices are of a class."""

    selectors: list[DeviceSelector] = []
    extended_resource_name: str | None = None
    """The extended resource that stands for a device of the class in requests of pods."""


class DeviceClass(Resource, frozen=True):
    """A DeviceClass."""

    spec: DeviceClassSpec = DeviceClassSpec()


class TaintedDevices(Wire, frozen=True):
    """Which devices a rule taints: all of which every field that is set holds."""

    driver: str | None = None
    pool: str | None = None
    device: str | None = None
    device_class_name: str | None = None
    """Like `selectors`, of v1alpha3 up to Kubernetes 1.34."""
    selectors: list[DeviceSelector] = []


class TaintRuleSpec(Wire, frozen=True):
    """A taint, and the devices that get it; without `device_selector` none do."""

    device_selector: TaintedDevices | None = None
    taint: DeviceTaint = DeviceTaint()


class DeviceTaintRule(Resource, frozen=True):
    """A DeviceTaintRule."""

    spec: TaintRuleSpec = TaintRuleSpec()


class AllocatedDevice(Wire, frozen=True):
    """A device that a claim has got."""

    driver: str = ""
    pool: str = ""
    device: str = ""
    admin_access: bool | None = None
    """Access beside whoever the device is allocated to: nothing is taken."""
    share_id: str | None = msgspec.field(default=None, name="shareID")
    """Set where the device is shared with other claims."""
    consumed_capacity: Quantities = {}
    """How much of its capacities a share takes."""

    def __post_init__(self) -> None:
        """Refuse what is no quantity."""
        _check(self.consumed_capacity.values())


class AllocatedDevices(Wire, frozen=True):
    """All devices that a claim has got."""

    results: list[AllocatedDevice] = []


class Allocation(Wire, frozen=True):
    """What a claim has got, and the nodes from which it can be used; None: from any."""

    devices: AllocatedDevices = AllocatedDevices()
    node_selector: NodeSelector | None = None


class Consumer(Wire, frozen=True):
    """Who may use a claim now; `resource` is the plural of its kind."""

    resource: str = ""
    name: str = ""
    uid: str = ""


class DeviceClaimStatus(Wire, frozen=True):
    """Where a claim stands."""

    allocation: Allocation | None = None
    reserved_for: list[Consumer] = []


class ResourceClaim(Resource, frozen=True):
    """A ResourceClaim."""

    spec: DeviceClaimSpec = DeviceClaimSpec()
    status: DeviceClaimStatus = DeviceClaimStatus()
