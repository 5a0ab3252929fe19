"""Headroom: pools of pause pods that hold room for work to come, and the policies that say how many.

The `headroom` section of the configuration file; without it there is no headroom. Source of every rule:
`docs/headroom.md`.
"""

from collections.abc import Iterator, Mapping
from decimal import Decimal
from enum import StrEnum
from typing import Annotated, Any
from zoneinfo import ZoneInfo

import msgspec

from autoscaler.config.cron import Period, parse_period
from autoscaler.config.lead import LeadTime
from autoscaler.config.names import is_dns_label, is_label_value
from autoscaler.config.selector import LabelText, Selector
from autoscaler.config.syntax import Count, Number, Text, Zone, choice
from autoscaler.errors import ConfigError
from cloudprovider.number import parse_float
from cloudprovider.problems import Problems
from cloudprovider.quantity import parse_quantity
from cloudprovider.structure import Seconds, Strict, StructReader, Syntax

MANAGED_CLASS = "cluster-headroom"
"""The PriorityClass that is made and kept where a pool names none of its own."""
MANAGED_BY, POOL, CLUSTER = "app.kubernetes.io/managed-by", "headroom-pool", "headroom-cluster"
"""Labels of everything that belongs to headroom."""
MANAGER = "cluster-autoscaler"
"""Value of the first."""

_LONGEST_POOL, _LONGEST_NAMESPACE = 40, 63
_SHORTEST_INTERVAL_S, _LONGEST_INTERVAL_S = 1.0, 300.0


class OnShutdown(StrEnum):
    """What happens to headroom when the leader stops."""

    KEEP = "keep"
    DELETE = "delete"
    SCALE_TO_ZERO = "scaleToZero"


def _parse_decimal(text: str) -> Decimal:
    if not 0 <= parse_float(text) <= 1_000_000:
        raise ValueError("is not within 0..1000000")
    return Decimal(text)


Factor = Annotated[Decimal, Syntax("decimal", _parse_decimal, str, types=(int, float))]
Cron = Annotated[Period, Syntax("five cron fields", parse_period, lambda period: period.text)]


class Policy(Strict, frozen=True, kw_only=True):
    """How many pause pods to keep while it holds."""

    name: Text = ""
    periods: tuple[Cron, ...] = ()
    """When it holds; none at all means always."""
    timezone: Zone = ZoneInfo("UTC")
    idle_count: Count = 0
    idle_time_s: Seconds = 300.0
    """How long more than that is kept after it was last wanted."""
    scale_factor: Factor = Decimal(0)
    """Pause pods for each active pod, rounded up; 0 is off."""
    scale_factor_limit: Count = 0
    """Most pause pods by that factor; 0 is no limit."""

    @property
    def always(self) -> bool:
        """Whether it holds at every minute."""
        return not self.periods or any(period.always for period in self.periods)


class Active(Strict, frozen=True, kw_only=True):
    """Which pods count as active work."""

    selector: LabelText = Selector()
    namespaces: tuple[Text, ...] = ()
    """None: the namespace of the pool."""


class HeadroomPool(Strict, frozen=True, kw_only=True):
    """Pause pods of one kind. What is not read here is handed to the API server as it is."""

    name: Text
    namespace: Text
    resources: Mapping[str, str | int | float]
    """Requests of one pause pod."""
    max_pods: Count = 0
    """0 is no limit."""
    image: Text = "registry.k8s.io/pause:3.10"
    image_pull_secrets: tuple[Text, ...] = ()
    priority_class_name: Text = ""
    """Empty: the managed class."""
    priority_value: Number = -10
    """Of the managed class."""
    node_selector: Mapping[str, str] = {}
    tolerations: tuple[Mapping[str, Any], ...] = ()
    affinity: Mapping[str, Any] = {}
    topology_spread_constraints: tuple[Mapping[str, Any], ...] = ()
    scheduler_name: Text = ""
    runtime_class_name: Text = ""
    service_account_name: Text = ""
    pod_labels: Mapping[str, str] = {}
    pod_annotations: Mapping[str, str] = {}
    active: Active = Active()
    lead_time_s: LeadTime = None
    """How long before a policy begins its pods are asked for."""
    policies: tuple[Policy, ...] = ()

    @property
    def priority_class(self) -> str:
        """Name of the PriorityClass of its pods."""
        return self.priority_class_name or MANAGED_CLASS


class Headroom(Strict, frozen=True, kw_only=True):
    """All pools, and how they are kept."""

    reconcile_interval_s: Seconds = 10.0
    on_shutdown: Annotated[OnShutdown, choice(OnShutdown)] = OnShutdown.KEEP
    orphan_after_s: Seconds = 3600.0
    """Deployments of unknown pools are deleted after this many seconds without a heartbeat; 0 means never."""
    cluster_name: Text = ""
    """Part of the ownership: needed where two daemons share a cluster."""
    pools: tuple[HeadroomPool, ...] = ()

    @property
    def pool_names(self) -> frozenset[str]:
        """Names of the pools."""
        return frozenset(pool.name for pool in self.pools)


def read_headroom(data: object, cutoff: int) -> Headroom:
    """Read the section from YAML data; `cutoff` is the priority below which pods are expendable.

    Raises `ConfigError` with a line for everything wrong with it.
    """
    problems = Problems()
    headroom = StructReader(problems).read(Headroom, data, "headroom")
    if headroom is not None:
        headroom = msgspec.structs.replace(headroom, pools=tuple(_named(pool) for pool in headroom.pools))
        problems.extend(_problems(headroom, cutoff))
    if headroom is None or problems.lines:
        raise ConfigError(f"config: {problem}" for problem in problems.lines)
    return headroom


def warnings(headroom: Headroom) -> Iterator[str]:
    """Yield what is odd and allowed."""
    for number, pool in enumerate(headroom.pools):
        path = f"headroom.pools[{number}]"
        if not pool.policies:
            yield f"{path}.policies: there are none, the pool idles at 0"
        for index, policy in enumerate(pool.policies):
            if 0 < pool.max_pods < policy.idle_count:
                yield f"{path}.policies[{index}].idleCount: {policy.idle_count} is capped to {pool.max_pods}"


def _named(pool: HeadroomPool) -> HeadroomPool:
    """Give policies without a name one: metrics tell them apart by it."""
    policies = tuple(
        policy if policy.name else msgspec.structs.replace(policy, name=f"policy-{number}")
        for number, policy in enumerate(pool.policies)
    )
    return msgspec.structs.replace(pool, policies=policies)


def _problems(headroom: Headroom, cutoff: int) -> Iterator[str]:
    interval_s = headroom.reconcile_interval_s
    if not _SHORTEST_INTERVAL_S <= interval_s <= _LONGEST_INTERVAL_S:
        yield f"headroom.reconcileInterval: {interval_s:g}s is not within 1s..5m"
    if not is_label_value(headroom.cluster_name):
        yield f'headroom.clusterName: "{headroom.cluster_name}" cannot be the value of a label'
    names: dict[str, int] = {}
    values: dict[int, int] = {}
    for number, pool in enumerate(headroom.pools):
        path = f"headroom.pools[{number}]"
        if (first := names.setdefault(pool.name, number)) != number:
            yield f"{path}.name: {pool.name} is the name of pools[{first}] too; each pool needs its own"
        if not pool.priority_class_name:
            yield from _priority(pool.priority_value, cutoff, f"{path}.priorityValue")
            values.setdefault(pool.priority_value, number)
            if (first := next(iter(values.values()))) != number and len(values) > 1:
                yield (
                    f"{path}.priorityValue: {pool.priority_value} differs from that of pools[{first}]; "
                    f"class {MANAGED_CLASS} has one value, name a class of your own in priorityClassName"
                )
        yield from _pool(pool, path)
        yield from _policies(pool, path)


def _priority(value: int, cutoff: int, path: str) -> Iterator[str]:
    problem = priority_problem(value, cutoff)
    if problem is not None:
        yield f"{path}: {problem}"


def priority_problem(value: int, cutoff: int) -> str | None:
    """Return why pause pods of a priority would not do; None where they would."""
    if value < cutoff:
        return (
            f"priority {value} is below expendable-pods-priority-cutoff {cutoff}: headroom would never trigger scale-up"
        )
    if value >= 0:
        return f"priority {value} is not below 0, that of ordinary pods: headroom would not give way to them"
    return None


def _pool(pool: HeadroomPool, path: str) -> Iterator[str]:
    for key, value, longest in (
        ("name", pool.name, _LONGEST_POOL),
        ("namespace", pool.namespace, _LONGEST_NAMESPACE),
    ):
        if not is_dns_label(value, longest):
            yield f'{path}.{key}: "{value}" is not a DNS label of at most {longest} characters (a-z, 0-9, -)'
    amounts = {}
    for resource, quantity in pool.resources.items():
        try:
            amounts[resource] = parse_quantity(str(quantity))
        except ValueError as error:
            yield f"{path}.resources.{resource}: {error}"
    for resource in (name for name, amount in amounts.items() if amount <= 0):
        yield f"{path}.resources.{resource}: must be more than 0"
    if not {"cpu", "memory"} & pool.resources.keys():
        yield f"{path}.resources: needs cpu or memory; a pod without requests reserves nothing"
    for label in (MANAGED_BY, POOL, CLUSTER):
        if label in pool.pod_labels:
            yield f"{path}.podLabels.{label}: is set by the autoscaler; drop it here"


def _policies(pool: HeadroomPool, path: str) -> Iterator[str]:
    names: dict[str, int] = {}
    for number, policy in enumerate(pool.policies):
        where = f"{path}.policies[{number}]"
        if (first := names.setdefault(policy.name, number)) != number:
            yield f"{where}.name: {policy.name} is the name of policies[{first}] too; each policy needs its own"
        if policy.name == NO_POLICY:
            yield f'{where}.name: "{NO_POLICY}" stands for no policy in metrics; choose another'
        always = next((j for j in range(len(pool.policies) - 1, number, -1) if pool.policies[j].always), None)
        if always is not None:
            yield f"{where}: unreachable, policies[{always}] always matches and the last match wins"


NO_POLICY = "none"
"""What metrics call it when no policy holds."""
