"""What `--compatibility` and `--scale-down-profile` set: the rules, and the defaults of other flags."""

from collections.abc import Mapping
from typing import Any

from autoscaler.config.process import Compatibility
from autoscaler.config.rules import Rules, rules_of_1_31
from autoscaler.config.scaledown import ScaleDownProfile
from autoscaler.config.scaleup import GroupsPerPass, TieBreak


def rules_of(version: Compatibility) -> Rules:
    """Return the behaviours of a version."""
    return rules_of_1_31() if version is Compatibility.V1_31 else Rules()


def defaults_of(version: Compatibility, profile: ScaleDownProfile) -> dict[str, Any]:
    """Return the flags, by name, whose default is not the tree's own."""
    return {**_DEFAULTS_OF_VERSION.get(version, {}), **_DEFAULTS_OF_PROFILE.get(profile, {})}


_DEFAULTS_OF_VERSION: Mapping[Compatibility, Mapping[str, Any]] = {
    Compatibility.V1_31: {
        "scan-interval": 10.0,
        "frequent-loops-enabled": False,
        "expander": ("random",),
        "groups-per-pass": GroupsPerPass.ONE,
        "tie-break": TieBreak.RANDOM,
        "node-deletion-candidate-ttl": 0.0,
        "cordon-node-before-terminating": False,
        "enable-dynamic-resource-allocation": False,
        "enable-csi-node-aware-scheduling": False,
    }
}
_DEFAULTS_OF_PROFILE: Mapping[ScaleDownProfile, Mapping[str, Any]] = {
    ScaleDownProfile.FAST: {
        "max-scale-down-parallelism": 50,
        "max-drain-parallelism": 20,
        "max-bulk-soft-taint-count": 50,
    }
}
