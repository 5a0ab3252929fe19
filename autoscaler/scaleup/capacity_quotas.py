"""Reads CapacityQuotas: which limits they set, what one node takes of each, and what their status has to say.

Source: Cluster Autoscaler's `resourcequotas/capacityquota`. A quota that is invalid limits nothing, as there, and its
status says why. Unlike there, a new quota counts from the first pass that sees it, before its status is written.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence

import msgspec

from autoscaler.clock import Instant
from autoscaler.objects import quantity
from autoscaler.objects.capacity import CapacityLimits, CapacityQuota, StatusCondition, condition_in
from autoscaler.objects.meta import LabelSelector, Operator
from autoscaler.objects.node import Node
from autoscaler.scaleup.status_change import StatusChange, change_of, condition
from autoscaler.snapshot.contribution import Contribution, Limit, virtual_kubelet
from autoscaler.snapshot.groups import Group
from cloudprovider.quantity import parse_quantity
from cloudprovider.quoted import quoted

NODES = "nodes"
VALID = "cluster-autoscaler.kubernetes.io/valid"
RECONCILED = "Reconciled"
_MAX_RESOURCES = 20
_WITH_VALUES, _WITHOUT_VALUES = (Operator.IN, Operator.NOT_IN), (Operator.EXISTS, Operator.DOES_NOT_EXIST)


class Quota(msgspec.Struct, frozen=True):
    """The limits of one valid CapacityQuota, in the units of contributions."""

    name: str
    selector: LabelSelector
    limits: Mapping[Limit, int]

    def shares(
        self, own: Mapping[str, int | None], node: Node, group: Group | None
    ) -> Iterator[tuple[Limit, int | None]]:
        """Yield what a node that the quota selects takes of its limits; `own` are cores, memory and GPUs by type.

        Of a further resource that the node does not offer yet, it is to have what its group's template promises.
        """
        for limit in self.limits:
            resource = limit.resource
            if resource == NODES:
                yield limit, 1
            elif resource in own:
                yield limit, own[resource]
            else:
                yield limit, node.capacity.get(resource, 0) or _promised(group, resource)


class Quotas:
    """The quotas that a pass obeys. Which of them select a node is remembered by the labels that selectors name."""

    def __init__(self, quotas: Iterable[Quota] = ()) -> None:
        self.all = tuple(quotas)
        self._keys = tuple(dict.fromkeys(key for quota in self.all for key in _keys(quota.selector)))
        self._selecting: dict[tuple[str | None, ...], tuple[Quota, ...]] = {}

    @property
    def limits(self) -> dict[Limit, int]:
        """All limits of all quotas."""
        return {limit: most for quota in self.all for limit, most in quota.limits.items()}

    def counted(self, contribution: Contribution, node: Node, group: Group | None) -> Contribution:
        """Return a node's contribution with what it takes of quotas."""
        selecting = self._of(node.labels)
        if not selecting:
            return contribution
        own = {limit.resource: amount for limit, amount in contribution.shares()}
        shares = tuple(share for quota in selecting for share in quota.shares(own, node, group))
        return msgspec.structs.replace(contribution, of_quotas=shares)

    def _of(self, labels: Mapping[str, str]) -> tuple[Quota, ...]:
        if not self.all:
            return ()
        values = tuple(labels.get(key) for key in self._keys)
        if values not in self._selecting:
            self._selecting[values] = tuple(quota for quota in self.all if quota.selector.matches(labels))
        return self._selecting[values]


NO_QUOTAS = Quotas()


def obeyed(objects: Iterable[CapacityQuota]) -> Quotas:
    """Return the valid ones of these quotas."""
    return Quotas(
        Quota(
            quota_id(of.name),
            of.spec.selector or LabelSelector(),
            {
                Limit(resource, quota_id(of.name)): quantity.whole(str(most))
                for resource, most in of.spec.limits.resources.items()
            },
        )
        for of in objects
        if not problem(of)
    )


def quota_id(name: str) -> str:
    """Return what messages call a CapacityQuota."""
    return f"CapacityQuota/{name}"


def problem(of: CapacityQuota) -> str:
    """Return what is wrong with a quota; empty if it is valid."""
    resources = of.spec.limits.resources
    if len(resources) > _MAX_RESOURCES:
        return f"spec.limits.resources: {len(resources)} resources are more than {_MAX_RESOURCES}"
    for resource, most in resources.items():
        try:
            value = parse_quantity(str(most))
        except ValueError as error:
            return f"spec.limits.resources[{quoted(resource)}]: {error}"
        if value < 0 or value != int(value):
            return f"spec.limits.resources[{quoted(resource)}]: {most} is not a whole number of at least 0"
    for expression in (of.spec.selector or LabelSelector()).match_expressions:
        where = f"spec.selector: {quoted(expression.key)} {quoted(expression.operator)}"
        if expression.operator in _WITH_VALUES and not expression.values:
            return f"{where}: needs values"
        if expression.operator in _WITHOUT_VALUES and expression.values:
            return f"{where}: takes no values"
        if expression.operator not in (*_WITH_VALUES, *_WITHOUT_VALUES):
            return f"{where}: is not an operator; use In, NotIn, Exists or DoesNotExist"
    return ""


def status_change(of: CapacityQuota, nodes: Sequence[Node], now: Instant) -> StatusChange | None:
    """Return what the status of a quota lacks, where `nodes` are all nodes of the cluster; None if it is right."""
    wrong = problem(of)
    if wrong:
        wanted = {
            VALID: ("False", "ValidationFailed", wrong),
            RECONCILED: ("False", "ReconciliationFailed", "Validation failed"),
        }
    else:
        wanted = {
            VALID: ("True", "ValidationSucceeded", "CapacityQuota is valid"),
            RECONCILED: ("True", "ReconciliationSucceeded", "CapacityQuota successfully reconciled"),
        }
    generation = of.metadata.generation
    conditions = tuple(
        changed
        for kind, (status, reason, message) in wanted.items()
        if (changed := _changed(of, condition(kind, status, reason, message, now.wall, generation))) is not None
    )
    fields: dict[str, object] = {}
    if of.status.observed_generation != generation:
        fields["observedGeneration"] = generation
    if not wrong and (used := _used(of, nodes)) != _amounts(of.status.used):
        texts = {resource: quantity.text(resource, amount) for resource, amount in used.items()}
        fields["used"] = {"resources": texts}
    return change_of(of, *conditions, fields=fields) if conditions or fields else None


def _changed(of: CapacityQuota, wanted: StatusCondition) -> StatusCondition | None:
    """Return the condition as it has to become; its time only changes with its status. None if it is right."""
    present = condition_in(of.status.conditions, wanted.type)
    if present is not None and present.status == wanted.status:
        wanted = msgspec.structs.replace(wanted, last_transition_time=present.last_transition_time)
    return None if wanted == present else wanted


def _used(of: CapacityQuota, nodes: Iterable[Node]) -> dict[str, int]:
    """Return the capacity of the nodes that a quota selects, in the engine's units."""
    selector = of.spec.selector or LabelSelector()
    used = dict.fromkeys(of.spec.limits.resources, 0)
    for node in nodes:
        if virtual_kubelet(node) or not selector.matches(node.labels):
            continue
        for resource in used:
            used[resource] += 1 if resource == NODES else node.capacity.get(resource, 0)
    return used


def _amounts(used: CapacityLimits | None) -> dict[str, int] | None:
    try:
        return None if used is None else quantity.amounts(used.resources)
    except ValueError:
        return None


def _promised(group: Group | None, resource: str) -> int:
    if group is None or group.template is None:
        return 0
    try:
        return quantity.whole(group.template.capacity.get(resource, "0"))
    except ValueError:
        return 0


def _keys(selector: LabelSelector) -> Iterator[str]:
    yield from selector.match_labels
    yield from (expression.key for expression in selector.match_expressions)
