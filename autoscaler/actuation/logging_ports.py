"""The ports of a pass with a tape between them and the world."""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any

import msgspec

from autoscaler.actuation.answer_log import AnswerLog, QuestionKind
from autoscaler.actuation.cloud import Cloud
from autoscaler.actuation.deletion import StartedRemovals
from autoscaler.actuation.deletion_tracker import TrackedDeletions
from autoscaler.actuation.dry_run import DryRunCloud
from autoscaler.actuation.node_removal import NodeRemoval
from autoscaler.actuation.removal_outcome import Finished
from autoscaler.actuation.status_writes import Statuses, StatusWrite
from autoscaler.objects.capacity import ProvisioningRequest
from autoscaler.objects.node import Node
from autoscaler.objects.requests import Requests
from autoscaler.ports import Executor
from autoscaler.scaledown.plan import NodesToDelete
from autoscaler.scaledown.taints import SoftTaints
from autoscaler.scaleup.plan import Resized
from autoscaler.scaleup.price import Prices
from autoscaler.scaleup.status_change import StatusChange
from autoscaler.snapshot.groups import Groups
from cloudprovider.interface import CloudProvider, InstanceError, NodeTemplate


class LoggingCloud(Cloud):
    """A `Cloud` whose answers in a pass are noted."""

    def __init__(self, provider: CloudProvider, executor: Executor | None, tape: AnswerLog) -> None:
        super().__init__(provider, executor)
        self._tape = tape

    def read(self, nodes: Iterable[Node]) -> Groups:
        """Return all groups and which of the nodes belong to which; raises `CloudUnavailable`."""
        groups = super().read(nodes)
        tells = self._tape.ask(QuestionKind.TELLS_GONE, (), lambda: groups.can_tell_gone)
        if tells == groups.can_tell_gone:
            return groups
        return msgspec.structs.replace(groups, can_tell_gone=tells, gone=groups.gone if tells else frozenset())

    def group_price(self, group_id: str, template: NodeTemplate | None) -> float | None:
        """Return what a new node of a group costs for an hour; None where the provider does not know."""
        inner = super().group_price
        return self._tape.ask(QuestionKind.GROUP_PRICE, (group_id,), lambda: inner(group_id, template))

    def prices(self) -> Prices | None:
        """Return prices, to be asked in one pass; None where the provider knows none."""
        prices = super().prices()
        return None if prices is None else LoggingPrices(prices, self._tape)

    def increase(self, group_id: str, delta: int, *, expected: int, atomic: bool = False) -> Resized:
        """Ask for more machines; never raises `ProviderError`."""
        inner = super().increase
        about = (group_id, f"{delta}", f"{expected}")
        return self._tape.ask(
            QuestionKind.INCREASE, about, lambda: inner(group_id, delta, expected=expected, atomic=atomic)
        )

    def decrease_target(self, group_id: str, delta: int) -> Resized:
        """Cancel machines that were asked for and never came; never raises `ProviderError`."""
        inner = super().decrease_target
        return self._tape.ask(QuestionKind.DECREASE_TARGET, (group_id, f"{delta}"), lambda: inner(group_id, delta))

    def delete_instances(
        self, group_id: str, provider_ids: Sequence[str], reason: str, *, force: bool = False
    ) -> InstanceError | None:
        """Delete machines that have no node; return why not, None where it worked."""
        inner = super().delete_instances
        about = (group_id, reason, *provider_ids)
        return self._tape.ask(
            QuestionKind.DELETE_INSTANCES, about, lambda: inner(group_id, provider_ids, reason, force=force)
        )

    def targets(self, group_ids: Iterable[str]) -> dict[str, int]:
        """Read target sizes back; groups that cannot be read are left out."""
        inner, wanted = super().targets, sorted(group_ids)
        return self._tape.ask(QuestionKind.TARGETS, wanted, lambda: inner(wanted))


class LoggingDryRunCloud(LoggingCloud, DryRunCloud):
    """A `DryRunCloud` whose answers in a pass are noted."""


class LoggingRemoval:
    """A `NodeRemoval`."""

    def __init__(self, inner: NodeRemoval, tape: AnswerLog) -> None:
        self._inner = inner
        self._tape = tape

    def under_way(self) -> TrackedDeletions:
        """Return the removals that have begun and not ended."""
        return self._tape.ask(QuestionKind.UNDER_WAY, (), self._inner.under_way)

    def drain_results(self) -> Sequence[Finished]:
        """Return the removals that ended since the last call."""
        return self._tape.ask(QuestionKind.ENDED, (), self._inner.drain_results)

    def start(self, plan: NodesToDelete) -> StartedRemovals:
        """Begin removals; raises `LeadershipLost`."""
        about = [removal.node.name for removal in (*plan.empty, *plan.drained)]
        return self._tape.ask(QuestionKind.START, about, lambda: self._inner.start(plan))

    def mark(self, plan: SoftTaints) -> None:
        """Change soft taints, as far as the time for it goes; raises `LeadershipLost`."""
        self._tape.ask(QuestionKind.MARK, (), lambda: self._inner.mark(plan))

    def annotate(self, node: str, annotations: Mapping[str, str | None]) -> bool:
        """Set annotations of a node; returns whether it has them now."""
        about = (node, *(f"{key}={'' if value is None else value}" for key, value in sorted(annotations.items())))
        return self._tape.ask(QuestionKind.ANNOTATE, about, lambda: self._inner.annotate(node, annotations))

    def clean_up(self, nodes: Iterable[Node], managed: Collection[str]) -> None:
        """Remove the taints that an earlier process left."""
        self._tape.ask(QuestionKind.CLEAN_UP, (), lambda: self._inner.clean_up(nodes, managed))


class LoggingStatuses:
    """`Statuses`."""

    def __init__(self, inner: Statuses, tape: AnswerLog) -> None:
        self._inner = inner
        self._tape = tape

    def put(self, change: StatusChange) -> StatusWrite:
        """Make a status so."""
        about = (change.kind, change.namespace, change.name, *(one.type for one in change.conditions))
        return self._written(about, lambda: self._inner.put(change))

    def store(self, template: Mapping[str, Any]) -> StatusWrite:
        """Make a PodTemplate so."""
        metadata = template["metadata"]
        return self._written(
            ("PodTemplate", metadata["namespace"], metadata["name"]), lambda: self._inner.store(template)
        )

    def delete(self, request: ProvisioningRequest) -> StatusWrite:
        """Delete a request that is over, unless it has changed since."""
        return self._written(("delete", request.namespace, request.name), lambda: self._inner.delete(request))

    def _written(self, about: Sequence[str], write: Callable[[], StatusWrite]) -> StatusWrite:
        return self._tape.ask(QuestionKind.STATUS, about, write)


class LoggingPrices:
    """`Prices`."""

    def __init__(self, inner: Prices, tape: AnswerLog) -> None:
        self._inner = inner
        self._tape = tape

    def node(self, node: Node) -> float | None:
        """Price of a node."""
        return self._tape.ask(QuestionKind.NODE_PRICE, (node.name,), lambda: self._inner.node(node))

    def requests(self, requests: Requests) -> float | None:
        """Price of so much of each resource."""
        about = [f"{resource}={amount}" for resource, amount in sorted(requests.items())]
        return self._tape.ask(QuestionKind.REQUESTS_PRICE, about, lambda: self._inner.requests(requests))
