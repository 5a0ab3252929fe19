"""What `--compatibility` sets: the rules, and the defaults that differed then."""

from typing import Any

from autoscaler.config.process import Compatibility
from autoscaler.config.rules import Rules, rules_of_1_31
from autoscaler.config.scaleup import GroupsPerPass, TieBreak


def rules_of(version: Compatibility) -> Rules:
    """Return the behaviours of a version."""
    return rules_of_1_31() if version is Compatibility.V1_31 else Rules()


def defaults_of(version: Compatibility) -> dict[str, Any]:
    """Return the flags, by name, whose default in a version is not the tree's own."""
    if version is Compatibility.HEAD:
        return {}
    return {
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
