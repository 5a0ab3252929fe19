"""The table of object kinds."""

from autoscaler.config.flags import flags
from autoscaler.scenario.kinds import KINDS


def test_features_are_names_of_flags() -> None:
    named = {feature for kind in KINDS.values() for feature in kind.features}
    assert named <= set(flags())
