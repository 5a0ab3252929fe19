"""A simulated cloud that records every requested change."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from enum import StrEnum

import msgspec

from cloudprovider.interface import GroupSettings, Instance, MachineVersion, NodeRef, NodeTemplate, ProviderError
from cloudprovider.static.cloud import PricedStaticCloud, StaticCloud
from cloudprovider.static.group import StaticGroup


class CloudVerb(StrEnum):
    """Calls that change something."""

    INCREASE = "increase"
    DECREASE_TARGET = "decreaseTarget"
    DELETE = "delete"


class CloudCall(msgspec.Struct, frozen=True, kw_only=True):
    """One call and its result."""

    group: str
    verb: CloudVerb
    delta: int
    """The change of the target size."""
    at_s: float
    """The end of the call in Unix seconds, by the cloud's clock."""
    nodes: tuple[NodeRef, ...] = ()
    """The instances to delete."""
    error: str | None = None


class RecordedGroup:
    """A `NodeGroup` with the abilities of a `StaticGroup`; every change is recorded, also a failed one."""

    def __init__(self, inner: StaticGroup, calls: list[CloudCall], now: Callable[[], float]) -> None:
        self._inner = inner
        self._now = now
        self._calls = calls

    @property
    def id(self) -> str:
        """Unique name."""
        return self._inner.id

    @property
    def min_size(self) -> int:
        """Never scaled below this."""
        return self._inner.min_size

    @property
    def max_size(self) -> int:
        """Never scaled above this."""
        return self._inner.max_size

    def target_size(self) -> int:
        """Desired size."""
        return self._inner.target_size()

    def instances(self) -> Sequence[Instance]:
        """Every machine of the group."""
        return self._inner.instances()

    def template(self) -> NodeTemplate | None:
        """What a new node would look like."""
        return self._inner.template()

    def settings(self) -> GroupSettings:
        """Overrides of flags."""
        return self._inner.settings()

    def versions(self) -> Sequence[MachineVersion]:
        """What new machines are made from."""
        return self._inner.versions()

    def increase(self, delta: int) -> None:
        """Raise the target."""
        with self._recording(CloudVerb.INCREASE):
            self._inner.increase(delta)

    def increase_atomically(self, delta: int) -> None:
        """Raise the target completely, or not at all."""
        with self._recording(CloudVerb.INCREASE):
            self._inner.increase_atomically(delta)

    def decrease_target(self, delta: int) -> None:
        """Cancel unfulfilled requests."""
        with self._recording(CloudVerb.DECREASE_TARGET):
            self._inner.decrease_target(delta)

    def delete(self, nodes: Sequence[NodeRef]) -> None:
        """Delete these machines."""
        with self._recording(CloudVerb.DELETE, nodes):
            self._inner.delete(nodes)

    def force_delete(self, nodes: Sequence[NodeRef]) -> None:
        """Delete these machines whatever the minimum size."""
        with self._recording(CloudVerb.DELETE, nodes):
            self._inner.force_delete(nodes)

    @contextmanager
    def _recording(self, verb: CloudVerb, nodes: Sequence[NodeRef] = ()) -> Iterator[None]:
        before = self._inner.target_size()
        error = None
        try:
            yield
        except ProviderError as raised:
            error = str(raised)
            raise
        finally:
            delta = self._inner.target_size() - before
            at_s, refs = self._now(), tuple(nodes)
            self._calls.append(CloudCall(group=self.id, verb=verb, delta=delta, at_s=at_s, nodes=refs, error=error))


class RecordedCloud:
    """A `CloudProvider` with the abilities of a `StaticCloud`; `calls` holds every change, oldest first."""

    def __init__(self, inner: StaticCloud, name: str | None = None) -> None:
        self.name = name or inner.name
        self.calls: list[CloudCall] = []
        self._inner = inner
        self._groups = tuple(RecordedGroup(group, self.calls, lambda: inner.now_s) for group in inner.groups())

    def refresh(self, now: float) -> None:
        """Begin a pass."""
        self._inner.refresh(now)

    def groups(self) -> Sequence[RecordedGroup]:
        """All groups, in the order of the specification."""
        return self._groups

    def group_of(self, node: NodeRef) -> str | None:
        """Return the group of a node."""
        return self._inner.group_of(node)

    def has_instance(self, node: NodeRef) -> bool:
        """Whether the machine exists."""
        return self._inner.has_instance(node)

    @property
    def gpu_label(self) -> str:
        """Label whose value is the GPU type."""
        return self._inner.gpu_label

    def gpu_types(self) -> Sequence[str]:
        """Return the known values of that label."""
        return self._inner.gpu_types()

    def close(self) -> None:
        """Do nothing: the cloud holds no resources."""
        self._inner.close()


class PricedRecordedCloud(RecordedCloud):
    """A `RecordedCloud` that also has `Pricing`."""

    def __init__(self, inner: PricedStaticCloud, name: str | None = None) -> None:
        super().__init__(inner, name)
        self._prices = inner

    def node_price(self, node: NodeTemplate, hours: float) -> float:
        """Price of running such a node."""
        return self._prices.node_price(node, hours)

    def pod_price(self, requests: Mapping[str, str], hours: float) -> float:
        """Price of these requests."""
        return self._prices.pod_price(requests, hours)


def recorded(inner: StaticCloud, name: str | None = None) -> RecordedCloud:
    """Return the cloud with a record of its calls, under its own name or this; it has prices if `inner` has."""
    return PricedRecordedCloud(inner, name) if isinstance(inner, PricedStaticCloud) else RecordedCloud(inner, name)
