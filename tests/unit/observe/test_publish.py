"""The publisher: which output gets what of a pass, and what happens if an output fails."""

import io
from collections.abc import Iterator

import msgspec
import pytest
import yaml

from autoscaler.clock import Instant, VirtualClock
from autoscaler.config.process import Observe
from autoscaler.config.rules import Rules
from autoscaler.config.scaleup import ScaleUp
from autoscaler.config.tree import Config
from autoscaler.errors import ErrorType, RetryLater
from autoscaler.logs import LogFormat, configure, unconfigure
from autoscaler.observe.http.health import HealthCheck, StuckLimits
from autoscaler.observe.metrics.metrics import Metrics
from autoscaler.observe.publish import Publisher
from autoscaler.observe.report import PassEnd, PassReport
from autoscaler.observe.status import ProcessStatus, RecentEvent
from autoscaler.observe.status_board import StatusBoard
from cloudprovider.interface import ProviderError
from cloudprovider.static.spec import Call
from tests.builders import Json, a_node
from tests.unit.loop.loop_world import NOW, LoopWorld, a_spec, waiting

EVENT = RecentEvent(at=NOW, kind="Normal", reason="ScaledUpGroup", about="ConfigMap x/y", message="hello")


class Maps:
    """Keeps what is written; fails on demand."""

    def __init__(self) -> None:
        self.written: list[Json] = []
        self.stamps: list[str] = []
        self.removed = 0
        self.broken = False

    def put(self, text: str, last_updated: str) -> None:
        if self.broken:
            raise RetryLater("API server is away")
        self.written.append(yaml.safe_load(text))
        self.stamps.append(last_updated)

    def remove(self) -> None:
        if self.broken:
            raise RetryLater("API server is away")
        self.removed += 1


class Desk:
    """A publisher and everything it tells."""

    def __init__(self, config: Config = Config()) -> None:  # noqa: B008
        self.maps = Maps()
        self.metrics = Metrics()
        self.health = HealthCheck(StuckLimits(600, 900), Instant(NOW, 0.0))
        self.health.start_monitoring(Instant(NOW, 0.0))
        self.board = StatusBoard(ProcessStatus(identity="a", version="1", started_at=NOW, leading=True))
        self.publisher = Publisher(config, self.board, self.metrics, self.health, lambda: (EVENT,), self.maps)

    def ran(self, world: LoopWorld, after_s: float = 0.0) -> PassReport:
        """Run a pass as the daemon does; it takes half a second."""
        world.clock.advance(after_s)
        self.publisher.pass_started(world.clock.now())
        report = msgspec.structs.replace(world.run(), timings={"pass": 0.5})
        self.publisher.pass_ended(report)
        return report

    def series(self) -> dict[str, float]:
        lines = self.metrics.scrape().decode().splitlines()
        pairs = (line.rsplit(" ", 1) for line in lines if not line.startswith("#"))
        return {name.removeprefix("cluster_autoscaler_"): float(value) for name, value in pairs}


@pytest.fixture
def lines() -> Iterator[io.StringIO]:
    stream = io.StringIO()
    configure(0, LogFormat.TEXT, VirtualClock(wall=NOW), stream)
    yield stream
    unconfigure()


def test_before_the_first_pass_the_map_says_initializing() -> None:
    desk = Desk()
    assert "last_activity" not in desk.metrics.scrape().decode()
    desk.publisher.start(Instant(NOW, 0.0))
    (written,) = desk.maps.written
    assert (written["time"], written["autoscalerStatus"]) == ("2026-08-01 10:00:00 +0000 UTC", "Initializing")
    assert written["clusterWide"]["health"]["lastProbeTime"] is None
    assert desk.maps.stamps == ["2026-08-01 10:00:00 +0000 UTC"]
    assert desk.series()['cpu_limits_cores{direction="maximum"}'] == 320000
    assert desk.series()['memory_limits_bytes{direction="maximum"}'] == 6400000 * 1024**3


def test_a_pass_is_on_the_board_and_in_the_map() -> None:
    desk, world = Desk(), LoopWorld(a_spec("web"))
    world.submit(waiting("web"))
    desk.ran(world)
    desk.ran(world, after_s=15)
    status = desk.board.view.status
    assert status.last_pass is not None
    assert (status.last_pass.number, status.events, status.process.leading) == (2, (EVENT,), True)
    assert [one.group for one in desk.board.view.history] == ["web"]
    newest = desk.maps.written[-1]
    assert newest["autoscalerStatus"] == "Running"
    (group,) = newest["nodeGroups"]
    assert (group["name"], group["health"]["cloudProviderTarget"], group["scaleUp"]["status"]) == (
        "web",
        1,
        "InProgress",
    )
    assert group["scaleUp"]["lastTransitionTime"] == "2026-08-01T10:00:00Z"
    assert group["scaleUp"]["lastProbeTime"] == "2026-08-01T10:00:15Z"


def test_a_provider_outage_leaves_the_old_map() -> None:
    desk, world = Desk(), LoopWorld(a_spec("web"))
    desk.ran(world)
    world.static.fail_next("web", ProviderError("down"), Call.REFRESH)
    desk.ran(world, after_s=15)
    assert len(desk.maps.written) == 1
    assert desk.board.view.status.last_pass is not None
    assert desk.board.view.status.last_pass.error is not None


def test_an_empty_cluster_is_written_with_its_message() -> None:
    config = Config(scale_up=ScaleUp(scale_up_from_zero=False))
    desk, world = Desk(config), LoopWorld(a_spec("web"), config=config)
    desk.ran(world)
    (written,) = desk.maps.written
    assert (written["autoscalerStatus"], written["message"]) == ("Initializing", "Cluster has no nodes.")
    assert "nodeGroups" not in written


@pytest.mark.parametrize(
    "rules", [pytest.param(Rules(), id="newest"), pytest.param(Rules(status_by_json=False), id="as 1.31")]
)
def test_the_map_follows_the_rules(rules: Rules) -> None:
    desk, world = Desk(Config(rules=rules)), LoopWorld(a_spec("web"))
    desk.ran(world)
    assert list(desk.maps.written[0]) == (
        ["autoscalerStatus", "clusterWide", "nodeGroups", "time"]
        if rules.status_by_json
        else ["time", "autoscalerStatus", "clusterWide", "nodeGroups"]
    )


def test_no_map_where_it_is_not_wanted() -> None:
    desk = Desk(Config(observe=Observe(write_status_configmap=False)))
    desk.publisher.start(Instant(NOW, 0.0))
    desk.ran(LoopWorld(a_spec("web")))
    desk.publisher.stop()
    assert (desk.maps.written, desk.maps.removed) == ([], 0)


def test_a_map_that_cannot_be_written_is_logged_once_and_counted(lines: io.StringIO) -> None:
    desk, world = Desk(), LoopWorld(a_spec("web"))
    desk.maps.broken = True
    for _ in range(3):
        desk.ran(world, after_s=15)
    assert lines.getvalue().count("status_map.not_written") == 1
    desk.maps.broken = False
    desk.ran(world, after_s=15)
    assert "status_map.written_again failures=3" in lines.getvalue()


def test_a_clean_exit_removes_the_map_or_says_why_not(lines: io.StringIO) -> None:
    desk = Desk()
    desk.publisher.stop()
    assert desk.maps.removed == 1
    desk.maps.broken = True
    desk.publisher.stop()
    assert 'status_map.not_removed error="RetryLater: API server is away"' in lines.getvalue()


class TestHealth:
    def test_a_pass_that_ends_well_counts_from_its_end(self) -> None:
        desk, world = Desk(), LoopWorld(a_spec("web"))
        desk.publisher.start(world.clock.now())
        desk.ran(world, after_s=100)
        assert desk.health.ready(Instant(NOW, 100.0)).ok
        assert desk.series()['last_activity{activity="main"}'] == NOW + 100
        assert desk.health.alive(Instant(NOW, 700.5)).ok
        assert not desk.health.alive(Instant(NOW, 700.6)).ok

    @pytest.mark.parametrize(
        ("kind", "succeeds"),
        [
            pytest.param(ErrorType.CLOUD_PROVIDER, False, id="an outage is a failure"),
            pytest.param(ErrorType.API_CALL, False, id="an API error is a failure"),
            pytest.param(ErrorType.TRANSIENT, True, id="a transient error counts as success"),
        ],
    )
    def test_failures(self, kind: ErrorType, succeeds: bool) -> None:
        desk = Desk()
        desk.publisher.start(Instant(NOW, 0.0))
        desk.publisher.pass_started(Instant(NOW, 0.0))
        report = PassReport(now=Instant(NOW, 0.0), end=PassEnd.FAILED, error="x", error_type=kind)
        desk.publisher.pass_ended(report)
        assert desk.health.ready(Instant(NOW, 1.0)).ok is succeeds
        assert desk.series()[f'errors_total{{type="{kind}"}}'] == (0 if succeeds else 1)
        assert ('last_activity{activity="mainSuccessful"}' in desk.series()) is succeeds

    def test_an_unhealthy_cluster_is_no_failed_pass(self) -> None:
        world = LoopWorld(a_spec("web"), nodes=[(a_node(f"n{number}", ready=False), "web") for number in range(5)])
        desk = Desk()
        assert desk.ran(world).end is PassEnd.UNHEALTHY
        assert desk.health.ready(world.clock.now()).ok


def test_the_wait_between_passes_is_measured() -> None:
    desk, world = Desk(), LoopWorld(a_spec("web"))
    desk.publisher.start(world.clock.now())
    desk.ran(world)
    desk.ran(world, after_s=15)
    series = desk.series()
    assert series['function_duration_quantile_seconds_count{function="loopWait"}'] == 1
    assert series['function_duration_quantile_seconds_sum{function="loopWait"}'] == 14.5
