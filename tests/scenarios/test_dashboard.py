"""The dashboard on the metrics of a simulated cluster: a panel that is always empty has a mistake in its expression."""

import json
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from cloudprovider.static.spec import Call, CallFault, When
from tests.promql import Value, parse
from tests.room import ROOM, a_stranger_knocks
from tests.scraping import Monitored
from tests.worlds import a_cloud, a_deployment, a_group

BOARD = Path(__file__).parents[2] / "manifests" / "components" / "dashboard" / "cluster-autoscaler.json"
PANELS = [panel for panel in json.loads(BOARD.read_text())["panels"] if panel["type"] != "row"]
EMPTY_WITHOUT_TROUBLE = {
    "cluster_autoscaler_failed_node_creations_total",
    "cluster_autoscaler_companion_errors_total",
    "cluster_autoscaler_grpc_expander_calls_total",
    "cluster_autoscaler_node_group_healthiness",
    "cluster_autoscaler_headroom_reconcile_errors_total",
    "cluster_autoscaler_headroom_drift_corrected_total",
    "cluster_autoscaler_reservation_retry_attempts_total",
    "cluster_autoscaler_reservation_state_unreadable",
    "cluster_autoscaler_node_boot_failures_total",
    "cluster_autoscaler_pod_start_unknown_total",
}
SCRAPED_AS = {"job": "cluster-autoscaler"}


def shows(expression: str, monitored: Monitored, moments: Sequence[float]) -> bool:
    text = expression.replace("$__rate_interval", "5m").replace("$job", SCRAPED_AS["job"])
    values: list[Value] = [monitored.database.value(parse(text), at) for at in moments]
    return any(value != {} for value in values)


def test_every_panel_shows_something_of_three_busy_hours() -> None:
    refused = CallFault(call=Call.INCREASE, when=When(times=1))
    kept = CallFault(call=Call.DELETE, when=When(times=2))
    cloud = a_cloud(a_group(min_size=1, call_faults=(refused, kept)), machines={"web": 1})
    options = {"cloud-provider": "static", "emit-per-nodegroup-metrics": "true"}
    with Monitored((), options, cloud, a_deployment(replicas=2), labels=SCRAPED_AS, sections=ROOM) as monitored:
        world = monitored.world
        start = world.clock.now().wall
        for second, replicas in ((600, 20), (5400, 2)):
            world.at(second, partial(world.scale, "app", replicas))
        for second in range(1200, 9000, 1200):
            world.at(second, partial(world.announce, "jobs", 3, 900.0))
            world.at(second, partial(a_stranger_knocks, world, "jobs"))
        world.at(3000, partial(world.announce, "jobs", 100, 900.0))
        world.run_for(3 * 3600)
        moments = [start + 300 * step for step in range(1, 36)]
        empty = {
            f"{panel['title']}: {target['expr']}"
            for panel in PANELS
            for target in panel["targets"]
            if not shows(target["expr"], monitored, moments)
        }
    assert {one for one in empty if not any(name in one for name in EMPTY_WITHOUT_TROUBLE)} == set()
