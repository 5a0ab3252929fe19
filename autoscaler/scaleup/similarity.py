"""Finds similar node groups, which may share new nodes.

Compared are templates: capacity, allocatable, what pods leave free, and labels. Taints are not. Source of the rules
and of the label lists: Cluster Autoscaler's comparators.
"""

import itertools
from collections.abc import Mapping, Sequence

import msgspec

from autoscaler.config.scaleup import Balancing
from autoscaler.errors import ConfigError
from autoscaler.objects import quantity
from autoscaler.objects.node import HOSTNAME, REGIONS, ZONES
from autoscaler.snapshot.template import Template

ALWAYS_IGNORED = frozenset(
    (HOSTNAME, *ZONES, *REGIONS, "beta.kubernetes.io/fluentd-ds-ready", "kops.k8s.io/instancegroup")
)
IGNORED_BY_PROVIDER: Mapping[str, frozenset[str]] = {
    "aws": frozenset(
        (
            "alpha.eksctl.io/instance-id",
            "alpha.eksctl.io/nodegroup-name",
            "eks.amazonaws.com/nodegroup",
            "k8s.amazonaws.com/eniConfig",
            "lifecycle",
            "topology.ebs.csi.aws.com/zone",
            "topology.k8s.aws/zone-id",
        )
    ),
    "gce": frozenset(("topology.gke.io/zone",)),
    "azure": frozenset(
        (
            "agentpool",
            "kubernetes.azure.com/agentpool",
            "topology.disk.csi.azure.com/zone",
            "aksEngineVersion",
            "creationSource",
            "poolName",
            "resourceNameSuffix",
            "kubernetes.azure.com/node-image-version",
            "kubernetes.azure.com/consolidated-additional-properties",
        )
    ),
}
"""Labels that differ between groups which are otherwise the same, by the name of the provider."""
POOLS_BY_PROVIDER: Mapping[str, tuple[str, ...]] = {"azure": ("agentpool", "kubernetes.azure.com/agentpool")}
"""Labels that make two groups similar if both have the same non-empty value of one."""
_ALWAYS_REQUESTED = (quantity.CPU, quantity.MEMORY, quantity.PODS, quantity.EPHEMERAL_STORAGE)


class SimilarityOptions(msgspec.Struct, frozen=True, kw_only=True):
    """What is compared, and how closely. Ratios are relative to the larger value."""

    only_labels: tuple[str, ...] = ()
    """If there are any, these alone are compared, and must exist."""
    ignored_labels: frozenset[str] = ALWAYS_IGNORED
    pool_labels: tuple[str, ...] = ()
    allocatable_ratio: float = 0.05
    free_ratio: float = 0.05
    memory_ratio: float = 0.015


def comparison(options: Balancing, provider: str) -> SimilarityOptions:
    """Return how groups of a provider are compared; raises `ConfigError` where flags exclude each other."""
    if options.balancing_label and options.balancing_ignore_label:
        raise ConfigError("balancing-label: excludes balancing-ignore-label; give one of the two")
    return SimilarityOptions(
        only_labels=options.balancing_label,
        ignored_labels=ALWAYS_IGNORED
        | IGNORED_BY_PROVIDER.get(provider, frozenset())
        | frozenset(options.balancing_ignore_label),
        pool_labels=POOLS_BY_PROVIDER.get(provider, ()),
        allocatable_ratio=options.max_allocatable_difference_ratio,
        free_ratio=options.max_free_difference_ratio,
        memory_ratio=options.memory_difference_ratio,
    )


class _TemplateProfile(msgspec.Struct, frozen=True):
    """A template reduced to what is compared."""

    labels: frozenset[tuple[str, str]]
    """The ones that must be equal."""
    complete: bool
    """Whether it has all labels that are compared."""
    pools: tuple[str, ...]
    exact: frozenset[tuple[str, int]]
    """Capacity but for memory."""
    memory_bytes: int | None
    allocatable: Mapping[str, int]
    free: Mapping[str, int]


def similar_groups(templates: Mapping[str, Template], how: SimilarityOptions) -> Mapping[str, tuple[str, ...]]:
    """Return, for each group, the other groups that are similar to it, in the order of `templates`."""
    profiles = {group_id: _profile(template, how) for group_id, template in templates.items()}
    similar: dict[str, list[str]] = {group_id: [] for group_id in profiles}
    for first, second in itertools.combinations(profiles, 2):
        if _alike(profiles[first], profiles[second], how):
            similar[first].append(second)
            similar[second].append(first)
    order = {group_id: position for position, group_id in enumerate(profiles)}
    return {group_id: tuple(sorted(others, key=order.__getitem__)) for group_id, others in similar.items()}


def alike(template: Template, other: Template, how: SimilarityOptions) -> bool:
    """Whether two templates are similar."""
    return _alike(_profile(template, how), _profile(other, how), how)


def _profile(template: Template, how: SimilarityOptions) -> _TemplateProfile:
    node = template.node
    if how.only_labels:
        labels = frozenset((key, node.labels[key]) for key in how.only_labels if key in node.labels)
    else:
        labels = frozenset(item for item in node.labels.items() if item[0] not in how.ignored_labels)
    requested = dict.fromkeys(_ALWAYS_REQUESTED, 0)
    for pod in template.pods:
        for resource, amount in pod.cls.requests.items():
            requested[resource] = requested.get(resource, 0) + amount
    return _TemplateProfile(
        labels=labels,
        complete=all(key in node.labels for key in how.only_labels),
        pools=tuple(node.labels.get(key, "") for key in how.pool_labels),
        exact=frozenset(item for item in node.capacity.items() if item[0] != quantity.MEMORY),
        memory_bytes=node.capacity.get(quantity.MEMORY),
        allocatable=node.allocatable,
        free={resource: node.allocatable.get(resource, 0) - amount for resource, amount in requested.items()},
    )


def _alike(profile: _TemplateProfile, other: _TemplateProfile, how: SimilarityOptions) -> bool:
    if any(pool and pool == same for pool, same in zip(profile.pools, other.pools, strict=True)):
        return True
    if profile.labels != other.labels:
        return False
    if how.only_labels:
        return profile.complete
    return (
        profile.exact == other.exact
        and _near_memory(profile.memory_bytes, other.memory_bytes, how.memory_ratio)
        and _near(profile.allocatable, other.allocatable, how.allocatable_ratio)
        and _near(profile.free, other.free, how.free_ratio)
    )


def _near_memory(memory: int | None, other: int | None, ratio: float) -> bool:
    if memory is None or other is None:
        return memory is other
    return _within((memory, other), ratio)


def _near(amounts: Mapping[str, int], other: Mapping[str, int], ratio: float) -> bool:
    """Whether both have the same resources, in amounts that are close."""
    return amounts.keys() == other.keys() and all(
        _within((amount, other[name]), ratio) for name, amount in amounts.items()
    )


def _within(amounts: Sequence[int], ratio: float) -> bool:
    return max(amounts) - min(amounts) <= max(amounts) * ratio
