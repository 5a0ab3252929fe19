"""Which young nodes are not ready because a CSI driver does not run there yet."""

import pytest

from autoscaler.clock import Instant
from autoscaler.config.rules import Rules, rules_of_1_31
from autoscaler.config.scaleup import HealthOptions
from autoscaler.objects.storage import CsiDriver, CsiNode
from autoscaler.objects.workload import plain_decoder
from autoscaler.registry.csi_drivers import awaiting_drivers
from autoscaler.snapshot.cluster import Related, view_of
from autoscaler.snapshot.groups import Groups
from tests.builders import a_group, a_node

NOW = Instant(wall=1_000_000.0, mono=0.0)
YOUNG = NOW.wall - 60
EXPECTED = {"web": frozenset({"disk", "tape"})}


def a_csi_node(name: str, *drivers: str) -> CsiNode:
    spec = {"drivers": [{"name": driver, "nodeID": "i"} for driver in drivers]}
    return plain_decoder(CsiNode).one({"metadata": {"name": name}, "spec": spec})


def awaiting(*csi_nodes: CsiNode, created: float = YOUNG, needed: bool = True, rules: Rules | None = None) -> set[str]:
    drivers = [
        plain_decoder(CsiDriver).one(
            {"metadata": {"name": name}, "spec": {"preventPodSchedulingIfMissing": needed and name == "disk"}}
        )
        for name in ("disk", "tape")
    ]
    related = Related(csi_nodes={one.name: one for one in csi_nodes}, csi_drivers={one.name: one for one in drivers})
    groups = Groups((a_group("web"), a_group("other")), {"a": "web", "b": "other", "gone": "web"})
    view = view_of([a_node(name, created=created) for name in "abc"], [], groups=groups, related=related)
    return set(awaiting_drivers(view, EXPECTED, HealthOptions(), rules or Rules(), NOW))


def test_a_young_node_without_a_needed_driver_of_its_group_waits() -> None:
    assert awaiting() == {"a"}
    assert awaiting(a_csi_node("a", "tape")) == {"a"}
    assert awaiting(a_csi_node("a", "disk")) == set()


@pytest.mark.parametrize("seconds", [15 * 60, 10**6])
def test_a_node_that_has_had_its_time_is_judged_no_more(seconds: float) -> None:
    assert awaiting(created=NOW.wall - seconds) == set()


def test_drivers_that_nobody_insists_on_do_not_matter() -> None:
    assert awaiting(needed=False) == set()
    assert awaiting(rules=rules_of_1_31()) == set()
