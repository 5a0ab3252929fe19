"""Devices that drivers offer, and claims on them (dynamic resource allocation).

Of `resource.k8s.io` in the versions v1beta1, v1beta2 and v1, which are spelt alike as far as they are read here, but
for devices of v1beta1: what v1 says of a device itself, that version says under `basic`.
"""

from collections.abc import Sequence

from autoscaler.objects import quantity
from autoscaler.objects.meta import Resource, Wire
from autoscaler.objects.podspec import NodeSelector

DEVICE_VERSIONS = ("v1", "v1beta2", "v1beta1")
"""Versions of the API group that can be read, the newest first."""


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


class BasicDevice(Wire, frozen=True):
    """The body of a device of v1beta1."""

    consumes_counters: list[CounterUse] = []


class Device(Wire, frozen=True):
    """A device, or one of several ways to cut up a piece of hardware."""

    name: str = ""
    consumes_counters: list[CounterUse] = []
    basic: BasicDevice | None = None

    @property
    def uses(self) -> Sequence[CounterUse]:
        """What it takes of shared counters; empty for a device that takes none."""
        return self.consumes_counters if self.basic is None else self.basic.consumes_counters


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
    shared_counters: list[CounterSet] = []
    devices: list[Device] = []


class ResourceSlice(Resource, frozen=True):
    """A ResourceSlice."""

    spec: SliceSpec = SliceSpec()


class AllocatedDevice(Wire, frozen=True):
    """A device that a claim has got."""

    driver: str = ""
    pool: str = ""
    device: str = ""
    admin_access: bool | None = None
    """Access beside whoever the device is allocated to: nothing is taken."""


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
    """A ResourceClaim. What it asks for is not read: nothing is allocated here."""

    status: DeviceClaimStatus = DeviceClaimStatus()
