"""Reads the provider once per pass into frozen values, and resizes its groups by id.

All calls to the cloud provider go through this module. A failed call may still have taken effect, in full or in part,
so the target size is read back before the result is decided.
"""

import threading
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import partial

import msgspec

from autoscaler.current_step import in_hand
from autoscaler.errors import CloudUnavailable
from autoscaler.objects.node import Node
from autoscaler.ports import Executor
from autoscaler.scaleup.plan import Increase, Resized
from autoscaler.scaleup.price import Prices, ProviderPrices
from autoscaler.snapshot.groups import Group, Groups
from cloudprovider.interface import (
    Accelerators,
    AtomicIncrease,
    CloudProvider,
    ErrorClass,
    ForceDelete,
    GroupOptions,
    GroupSettings,
    InstanceError,
    KnowsInstances,
    NodeGroup,
    NodeRef,
    NodeTemplate,
    OutOfCapacity,
    PrepareDelete,
    Pricing,
    ProviderError,
    QuotaExceeded,
    State,
    Throttled,
    Transient,
    Versioned,
)

GROUP_GONE = "nodeGroupDoesNotExistError"
BELOW_MINIMUM = "nodeGroupMinSizeReached"


class DeleteResult(msgspec.Struct, frozen=True):
    """The result of a call that deletes machines."""

    gone: frozenset[str] = frozenset()
    """Names of the nodes whose machine is gone or being deleted."""
    error: InstanceError | None = None
    """Why the other machines stay; None if there are no others."""
    certain: bool = True
    """False if the call may have deleted the other machines and the cloud cannot be read now."""


def ref_of(node: Node) -> NodeRef:
    """Return the form of a node that provider calls take."""
    return NodeRef(node.name, node.provider_id, node.labels, node.annotations)


def placeholder(provider_id: str, reason: str) -> NodeRef:
    """Return the form of an instance without a node that provider calls take."""
    return NodeRef(provider_id, provider_id, {}, {"k8s.io/cluster-autoscaler/fake-node-reason": reason})


class Cloud:
    """Reads and resizes a provider's groups. Owned by the deciding thread.

    Without an `executor`, calls for several groups run one after the other.
    """

    def __init__(
        self,
        provider: CloudProvider,
        executor: Executor | None = None,
        make_prices: Callable[[Pricing], Prices] = ProviderPrices,
    ) -> None:
        """`make_prices` is called in each pass that needs prices."""
        self.provider = provider
        self._executor = executor
        self._make_prices = make_prices
        self._groups: Mapping[str, NodeGroup] = {}
        self._deleting: defaultdict[str, threading.Lock] = defaultdict(threading.Lock)

    def refresh(self, wall: float) -> None:
        """Let the provider bring its state up to date; raises `CloudUnavailable`."""
        try:
            self.provider.refresh(wall)
            self._groups = {group.id: group for group in self.provider.groups()}
        except ProviderError as error:
            raise CloudUnavailable(f"provider {self.provider.name} cannot be refreshed: {error}") from error

    def read(self, nodes: Iterable[Node]) -> Groups:
        """Return all groups, and the group of each node; raises `CloudUnavailable`."""
        try:
            groups = tuple(self._read_group(group) for group in self._groups.values())
            return self._read_nodes(nodes, groups)
        except ProviderError as error:
            raise CloudUnavailable(f"provider {self.provider.name} cannot be read: {error}") from error

    def _read_group(self, group: NodeGroup) -> Group:
        in_hand("group", group.id)
        template = group.template()
        return Group(
            id=group.id,
            min_size=group.min_size,
            max_size=group.max_size,
            target_size=group.target_size(),
            instances=tuple(group.instances()),
            template=template,
            settings=group.settings() if isinstance(group, GroupOptions) else GroupSettings(),
            node_price=self.group_price(group.id, template),
            versions=tuple(group.versions()) if isinstance(group, Versioned) else (),
        )

    def group_price(self, group_id: str, template: NodeTemplate | None) -> float | None:
        """Return the hourly price of a new node of a group; None if the provider does not know it."""
        if template is None or not isinstance(self.provider, Pricing):
            return None
        try:
            return self.provider.node_price(template, 1.0)
        except ProviderError:
            return None

    def _read_nodes(self, nodes: Iterable[Node], groups: tuple[Group, ...]) -> Groups:
        provider = self.provider
        tells_gone = self.knows_instances()
        knows = provider if tells_gone and isinstance(provider, KnowsInstances) else None
        owners: dict[str, str] = {}
        gone: set[str] = set()
        for node in nodes:
            ref = ref_of(node)
            owner = provider.group_of(ref)
            if owner is None:
                continue
            owners[node.name] = owner
            if knows is not None and not knows.has_instance(ref):
                gone.add(node.name)
        return Groups(
            all=groups,
            of_node=owners,
            gone=frozenset(gone),
            can_tell_gone=tells_gone,
            gpu_label=provider.gpu_label if isinstance(provider, Accelerators) else "",
            gpu_types=frozenset(provider.gpu_types()) if isinstance(provider, Accelerators) else frozenset(),
        )

    def knows_instances(self) -> bool:
        """Whether the provider can tell that the machine of a node is gone."""
        return isinstance(self.provider, KnowsInstances)

    def prices(self) -> Prices | None:
        """Return the prices for one pass; None if the provider has no prices."""
        return self._make_prices(self.provider) if isinstance(self.provider, Pricing) else None

    def increase_together(self, increases: Sequence[Increase], *, atomic: bool = False) -> tuple[Resized, ...]:
        """Increase several groups at the same time; return one result per increase, in the order given.

        Each group may occur once. `atomic` applies to each increase separately. Never raises `ProviderError`.
        """
        done: dict[str, Resized] = {}

        def ask(increase: Increase) -> None:
            done[increase.group] = self.increase(
                increase.group, increase.delta, expected=increase.before, atomic=atomic
            )

        works = [partial(ask, increase) for increase in increases]
        if self._executor is None or len(works) < 2:
            for work in works:
                work()
        else:
            self._executor.run_all(works)
        return tuple(done[increase.group] for increase in increases)

    def increase(self, group_id: str, delta: int, *, expected: int, atomic: bool = False) -> Resized:
        """Ask for `delta` more machines than the `expected` target; never raises `ProviderError`.

        With `atomic`, the group gets all of the machines or none, if it supports that. Calls for different groups may
        run in parallel. If the target has grown since then, because an earlier call took effect after all, only the
        remaining machines are requested.
        """
        in_hand("group", group_id)
        group = self._groups.get(group_id)
        if group is None:
            return _vanished(group_id)
        before = expected
        try:
            before = group.target_size()
            delta = min(delta, expected + delta - before)
            if delta > 0 and atomic and isinstance(group, AtomicIncrease):
                group.increase_atomically(delta)
            elif delta > 0:
                group.increase(delta)
            else:
                return Resized(group=group_id, before=expected, wanted=before, after=before)
        except ProviderError as error:
            return self._concluded(group, before, before + delta, error)
        return Resized(group=group_id, before=before, wanted=before + delta, after=before + delta)

    def decrease_target(self, group_id: str, delta: int) -> Resized:
        """Lower the target by `delta` machines that were requested and never arrived; never raises `ProviderError`."""
        group = self._groups.get(group_id)
        if group is None:
            return _vanished(group_id)
        try:
            before = group.target_size()
        except ProviderError as error:
            return Resized(group=group_id, before=0, wanted=0, after=0, error=failure_of(error))
        try:
            group.decrease_target(delta)
        except ProviderError as error:
            return self._concluded(group, before, before - delta, error)
        return Resized(group=group_id, before=before, wanted=before - delta, after=before - delta)

    def _concluded(self, group: NodeGroup, before: int, wanted: int, error: ProviderError) -> Resized:
        """Read the target back after a failed call: the call may have taken effect, in full or in part."""
        hold = isinstance(error, Throttled)
        try:
            after = group.target_size()
        except ProviderError:
            after, hold = before, True
        if after == wanted and isinstance(error, Transient):
            return Resized(group=group.id, before=before, wanted=wanted, after=after)
        failed = failure_of(error)
        return Resized(group=group.id, before=before, wanted=wanted, after=after, error=failed, hold=hold)

    def targets(self, group_ids: Collection[str]) -> dict[str, int]:
        """Return the current target size by group id; groups that cannot be read are absent."""
        sizes: dict[str, int] = {}
        for group_id in sorted(group_ids):
            try:
                sizes[group_id] = self._groups[group_id].target_size()
            except (KeyError, ProviderError):
                continue
        return sizes

    def delete_instances(
        self, group_id: str, provider_ids: Sequence[str], reason: str, *, force: bool = False
    ) -> InstanceError | None:
        """Delete machines that have no node; return the error, or None on success."""
        group = self._groups.get(group_id)
        if group is None:
            return InstanceError(ErrorClass.OTHER, GROUP_GONE, f"node group {group_id} does not exist any more")
        refs = [placeholder(provider_id, reason) for provider_id in provider_ids]
        try:
            if force and isinstance(group, ForceDelete):
                group.force_delete(refs)
            else:
                group.delete(refs)
        except ProviderError as error:
            return failure_of(error)
        return None

    def delete_nodes(self, group_id: str, nodes: Sequence[NodeRef], *, force: bool = False) -> DeleteResult:
        """Delete machines with their nodes; never raises `ProviderError`. Other threads may call this beside the
        deciding thread.

        Groups at their minimum size lose no machine unless `force` is set. After a time-out the machines are read back.
        """
        group = self._groups.get(group_id)
        if group is None:
            return DeleteResult(error=InstanceError(ErrorClass.OTHER, GROUP_GONE, f"node group {group_id} is gone"))
        with self._deleting[group_id]:
            try:
                before = group.target_size()
                if not force and before - len(nodes) < group.min_size:
                    text = f"{before} - {len(nodes)} is below the minimum size {group.min_size} of {group_id}"
                    return DeleteResult(error=InstanceError(ErrorClass.OTHER, BELOW_MINIMUM, text))
                if force and isinstance(group, ForceDelete):
                    group.force_delete(nodes)
                else:
                    group.delete(nodes)
            except Transient as error:
                return self._concluded_deletion(group, nodes, before, error)
            except ProviderError as error:
                return DeleteResult(error=failure_of(error))
        return DeleteResult(frozenset(node.name for node in nodes))

    def prepare_delete(self, group_id: str, nodes: Sequence[NodeRef]) -> None:
        """Raise the `ProviderError` that a deletion would raise, if the group can tell in advance."""
        group = self._groups.get(group_id)
        if group is None:
            return
        with self._deleting[group_id]:
            if isinstance(group, PrepareDelete):
                group.prepare_delete(nodes)

    def gone_of(self, group_id: str, nodes: Sequence[NodeRef]) -> frozenset[str] | None:
        """Return the names of those nodes whose machine is gone or being deleted; None if the cloud cannot tell now."""
        group = self._groups.get(group_id)
        if group is None:
            return None
        try:
            states = {instance.provider_id: instance.state for instance in group.instances()}
        except ProviderError:
            return None
        staying = {provider_id for provider_id, state in states.items() if state is not State.DELETING}
        return frozenset(node.name for node in nodes if node.provider_id and node.provider_id not in staying)

    def _concluded_deletion(
        self, group: NodeGroup, nodes: Sequence[NodeRef], before: int, error: Transient
    ) -> DeleteResult:
        """Read machines and target back after a failed call; either of them may show a deletion first."""
        gone = self.gone_of(group.id, nodes)
        try:
            lowered = group.target_size() == before - len(nodes)
        except ProviderError:
            lowered = False
        if lowered:
            return DeleteResult(frozenset(node.name for node in nodes))
        if gone is None:
            return DeleteResult(error=failure_of(error), certain=False)
        return DeleteResult(gone, None if len(gone) == len(nodes) else failure_of(error))

    def close(self) -> None:
        """Let the provider clean up; raises `CloudUnavailable`."""
        try:
            self.provider.close()
        except ProviderError as error:
            raise CloudUnavailable(f"provider {self.provider.name} did not clean up: {error}") from error


def _vanished(group_id: str) -> Resized:
    error = InstanceError(ErrorClass.OTHER, GROUP_GONE, f"node group {group_id} does not exist any more")
    return Resized(group=group_id, before=0, wanted=0, after=0, error=error)


def failure_of(error: ProviderError) -> InstanceError:
    """Convert a provider's error to the form that the registry stores."""
    short = isinstance(error, OutOfCapacity | QuotaExceeded)
    return InstanceError(ErrorClass.OUT_OF_RESOURCES if short else ErrorClass.OTHER, error.code, str(error))
