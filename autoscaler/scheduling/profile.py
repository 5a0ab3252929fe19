"""What a scheduler profile changes in the filters.

Source: the arguments of the scheduler's plug-ins NodeAffinity, NodeResourcesFit and PodTopologySpread, and the lists
of plug-ins of a KubeSchedulerProfile.
"""

import msgspec

from autoscaler.config.rules import Rules
from autoscaler.config.scaleup import Pods
from autoscaler.config.scheduler_profile import SchedulerProfile
from autoscaler.objects.pod import PodClass
from autoscaler.objects.podspec import NodeSelector, SpreadConstraint
from autoscaler.reasons import NoFit

_SPREAD_OWNERS = frozenset(("ReplicaSet", "ReplicationController", "StatefulSet"))


class Profile(msgspec.Struct, frozen=True):
    """How the filters are set up; the default is the scheduler's own default profile."""

    added_affinity: NodeSelector | None = None
    """Nodes that every pod has to keep to, beside its own affinity."""
    ignored_resources: frozenset[str] = frozenset()
    ignored_resource_groups: frozenset[str] = frozenset()
    """Prefixes (`example.com`) of extended resources that do not count."""
    default_spread: tuple[SpreadConstraint, ...] = ()
    """Constraints that forbid, for pods without any; their selector is the pod's controller."""
    disabled: frozenset[NoFit] = frozenset()
    """Filters that are not asked."""
    passes_over_cordoned: bool = False
    """Whether a search never tries cordoned nodes, even for pods that tolerate them."""
    most_work: int = Pods().max_pod_evaluation_work
    """Pods whose constraints make more work are not tried; see `work.WorkLimit`."""
    needs_drivers: bool = True
    """Whether a CSI driver may ask that pods with its volumes go only where it runs."""
    device_claims: bool = True
    """Whether pods with claims for devices need them allocated; otherwise claims do not count."""

    def asks(self, reason: NoFit) -> bool:
        """Whether the filter is asked."""
        return reason not in self.disabled

    def ignores(self, resource: str) -> bool:
        """Whether a resource does not count; only extended ones can be left out."""
        prefix, slash, _ = resource.partition("/")
        extended = bool(slash) and "kubernetes.io/" not in resource and not resource.startswith("requests.")
        return extended and (resource in self.ignored_resources or prefix in self.ignored_resource_groups)

    @property
    def changes_requests(self) -> bool:
        """Whether some requests of pods do not count."""
        ignoring = self.ignored_resources or self.ignored_resource_groups
        return bool(ignoring) or not self.asks(NoFit.RESOURCES)

    def default_spread_of(self, cls: PodClass) -> tuple[SpreadConstraint, ...]:
        """Return the default constraints that hold for a class.

        The scheduler counts the pods that the controller's selector finds, narrowed to Services that select the pod:
        the pods of the same controller. A pod without such a controller is spread by its Services alone, which are
        not read here, so it goes without.
        """
        if cls.spreads_itself or cls.owner is None or cls.owner.kind not in _SPREAD_OWNERS:
            return ()
        return self.default_spread


def profile_of(settings: SchedulerProfile, rules: Rules, *, device_claims: bool = True) -> Profile:
    """Return the profile that a configuration asks for."""
    plain = msgspec.to_builtins(settings.added_affinity)
    constraints = msgspec.to_builtins(settings.default_constraints)
    return Profile(
        added_affinity=None if plain is None else msgspec.convert(plain, NodeSelector),
        ignored_resources=frozenset(settings.ignored_resources),
        ignored_resource_groups=frozenset(settings.ignored_resource_groups),
        default_spread=tuple(msgspec.convert(constraints, list[SpreadConstraint])),
        disabled=frozenset(settings.disabled).union(() if rules.declared_features_count else (NoFit.FEATURES,)),
        passes_over_cordoned=not rules.tolerated_cordons_are_open,
        needs_drivers=rules.needed_csi_drivers_run,
        device_claims=device_claims and rules.device_claims_count,
    )
