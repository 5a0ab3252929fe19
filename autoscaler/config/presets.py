"""What `--compatibility` and `--scale-down-profile` set: the rules, and the defaults of other flags."""

from collections.abc import Mapping, Sequence
from typing import Any

from autoscaler.config.process import Compatibility
from autoscaler.config.rules import Rules, rules_at
from autoscaler.config.scaledown import ScaleDownProfile
from autoscaler.config.scaleup import GroupsPerPass, TieBreak


def rules_of(version: Compatibility) -> Rules:
    """Return the behaviours of a version."""
    return Rules() if version is Compatibility.HEAD else rules_at(version)


def defaults_of(version: Compatibility, profile: ScaleDownProfile) -> dict[str, Any]:
    """Return the flags, by name, whose default is not the tree's own."""
    theirs = {} if version is Compatibility.HEAD else {**_THEIR_DEFAULTS, **_older_defaults(version)}
    return {**theirs, **_DEFAULTS_OF_PROFILE.get(profile, {})}


def _older_defaults(version: Compatibility) -> dict[str, Any]:
    """Return the flags whose default a later version changed to the tree's own."""
    versions = list(Compatibility)
    return {flag: value for later, flag, value in _CHANGED_DEFAULTS if versions.index(version) < versions.index(later)}


_THEIR_DEFAULTS: Mapping[str, Any] = {
    "scan-interval": 10.0,
    "groups-per-pass": GroupsPerPass.ONE,
    "tie-break": TieBreak.RANDOM,
    "weigh-soft-constraints": False,
    "node-deletion-candidate-ttl": 0.0,
    "enable-csi-node-aware-scheduling": False,
}
"""What every version of Cluster Autoscaler has."""
_CHANGED_DEFAULTS: Sequence[tuple[Compatibility, str, Any]] = (
    (Compatibility.V1_33, "expander", ("random",)),
    (Compatibility.V1_34, "cordon-node-before-terminating", False),
    (Compatibility.V1_35, "frequent-loops-enabled", False),
    (Compatibility.V1_35, "enable-dynamic-resource-allocation", False),
)
"""The version that changed a default, the flag, and its default until then."""
_DEFAULTS_OF_PROFILE: Mapping[ScaleDownProfile, Mapping[str, Any]] = {
    ScaleDownProfile.FAST: {
        "max-scale-down-parallelism": 50,
        "max-drain-parallelism": 20,
        "max-bulk-soft-taint-count": 50,
    }
}
