"""Writes of a dry run: sends nothing, and reports success for each call."""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from autoscaler.clock import Clock
from autoscaler.kube.paths import ObjectRef
from autoscaler.kube.writes import EventRecord, Texts, Writes
from autoscaler.objects.meta import JsonObject
from autoscaler.objects.node import Taint
from autoscaler.ports import Leadership

if TYPE_CHECKING:
    from autoscaler.kube.client import Client


class DryRunWrites:
    """`ClusterWrites` and the writes of providers, without a cluster."""

    withheld = 0
    """Number of calls that a real run would have made."""

    def evict(self, namespace: str, name: str, uid: str, grace_s: int | None) -> None:
        """Evict nothing."""
        self.withheld += 1

    def delete_pod(self, namespace: str, name: str, uid: str, grace_s: int | None = None) -> None:
        """Delete nothing."""
        self.withheld += 1

    def add_taint(self, node: str, taint: Taint, *, cordon: bool = False) -> bool:
        """Taint nothing."""
        self.withheld += 1
        return True

    def remove_taint(self, node: str, key: str, *, uncordon: bool = False) -> bool:
        """Remove no taints."""
        self.withheld += 1
        return True

    def annotate_node(self, node: str, annotations: Mapping[str, str | None]) -> bool:
        """Change no annotations."""
        self.withheld += 1
        return True

    def annotate_pod(self, namespace: str, name: str, uid: str, annotations: Mapping[str, str | None]) -> None:
        """Change no annotations."""
        self.withheld += 1

    def create_event(self, event: EventRecord) -> None:
        """Store nothing."""
        self.withheld += 1

    def repeat_event(self, event: EventRecord) -> None:
        """Store nothing."""
        self.withheld += 1

    def put_config_map(self, namespace: str, name: str, data: Texts, annotations: Texts | None = None) -> str:
        """Store nothing; return an empty uid."""
        self.withheld += 1
        return ""

    def create(self, obj: Mapping[str, Any]) -> JsonObject:
        """Create nothing; return the given object."""
        self.withheld += 1
        return dict(obj)

    def try_create(self, obj: Mapping[str, Any]) -> JsonObject:
        """Ask nothing; return the given object."""
        self.withheld += 1
        return dict(obj)

    def replace(self, obj: Mapping[str, Any]) -> JsonObject:
        """Replace nothing; return the given object."""
        self.withheld += 1
        return dict(obj)

    def apply(self, obj: Mapping[str, Any]) -> JsonObject:
        """Apply nothing; return the given object."""
        self.withheld += 1
        return dict(obj)

    def edit_status(self, ref: ObjectRef, uid: str, change: Callable[[JsonObject], bool]) -> bool:
        """Change no status; `change` is not called, because the object is not read."""
        self.withheld += 1
        return True

    def delete(self, ref: ObjectRef, uid: str | None = None, resource_version: str | None = None) -> None:
        """Delete nothing."""
        self.withheld += 1

    def annotate(self, where: str, uid: str, annotations: Mapping[str, str | None]) -> None:
        """Change no annotations."""
        self.withheld += 1

    def put_scale(self, where: str, name: str, namespace: str, replicas: int, resource_version: str) -> None:
        """Change no replicas."""
        self.withheld += 1


def open_writes(
    client: "Client", leadership: Leadership, clock: Clock, sleep: Callable[[float], bool], *, dry_run: bool
) -> Writes | DryRunWrites:
    """Return the writes for a client's cluster; in a dry run they send nothing."""
    return DryRunWrites() if dry_run else Writes(client, leadership, clock, sleep)
