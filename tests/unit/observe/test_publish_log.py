"""The log lines of real passes."""

import io
from collections.abc import Iterator, Mapping, Sequence

import pytest
from msgspec.structs import replace

from autoscaler.clock import VirtualClock
from autoscaler.config.scaleup import ScaleUp
from autoscaler.config.tree import Config
from autoscaler.logs import LogFormat, configure, unconfigure
from autoscaler.observe.pass_log import PassLog
from autoscaler.observe.report import PassReport
from autoscaler.observe.status import ProcessStatus, PublishedStatus
from autoscaler.observe.summary import summarise
from autoscaler.ports import ExpanderAnswer
from autoscaler.sandbox.capacity_objects import put_objects
from autoscaler.scaledown.plan import NodesToDelete, Removal
from autoscaler.scaleup.option import Option
from autoscaler.snapshot.template import Template
from cloudprovider.interface import ErrorClass, InstanceError, OutOfCapacity, ProviderError
from cloudprovider.static.spec import Call
from tests.builders import a_node, a_pod, pauses, replicas
from tests.unit.loop.loop_world import NOW, LoopWorld, a_spec, waiting

BEFORE = PublishedStatus(process=ProcessStatus(identity="a", version="1", started_at=0))


class Journal:
    """Lines without their heads."""

    def __init__(self, stream: io.StringIO, *, prices_matter: bool = False) -> None:
        self._stream = stream
        self._log = PassLog(prices_matter=prices_matter)

    def of(self, report: PassReport) -> list[str]:
        """Return the lines of one more pass."""
        self._stream.truncate(0)
        self._stream.seek(0)
        self._log.pass_ended(report, summarise(report, BEFORE, number=3))
        return [line.partition("] ")[2] for line in self._stream.getvalue().splitlines()]


@pytest.fixture
def journal() -> Iterator[Journal]:
    stream = io.StringIO()
    configure(0, LogFormat.TEXT, VirtualClock(wall=NOW), stream)
    yield Journal(stream)
    unconfigure()


@pytest.fixture
def talkative() -> Iterator[Journal]:
    stream = io.StringIO()
    configure(4, LogFormat.TEXT, VirtualClock(wall=NOW), stream)
    yield Journal(stream)
    unconfigure()


def test_an_idle_pass_says_nothing(journal: Journal) -> None:
    assert journal.of(LoopWorld(a_spec("web")).run()) == []


def test_one_line_for_each_decision(journal: Journal) -> None:
    world = LoopWorld(a_spec("a", cpu="4"), a_spec("b", cpu="8"))
    world.static.fail_next("b", OutOfCapacity("no such machines"))
    world.submit(*replicas(waiting("s", cpu="3500m"), 3), waiting("m", cpu="7500m"))
    assert journal.of(world.run()) == [
        "scale_up.decided group=a add=3 size=3 pods=3",
        'scale_up.failed group=b add=1 added=0 code=OUT_OF_RESOURCES error="no such machines"',
    ]


def test_pods_that_nobody_can_help_are_news_only_once(journal: Journal) -> None:
    world = LoopWorld(a_spec("web", cpu="2"), a_spec("full", max_size=0))
    world.submit(waiting("huge", cpu="32"))
    assert journal.of(world.run()) == [
        'scale_up.impossible headline="1 pod is stuck: it fits no node group." '
        'result=NoOptionsAvailable pods=1 verdicts={"NoGroupFits":1} '
        'skipped={"full":"MaxNodeGroupSizeReached"} error=""'
    ]
    assert journal.of(world.run(after_s=15)) == []
    world.submit(waiting("huge-2", cpu="32"))
    assert len(journal.of(world.run(after_s=15))) == 1


def test_every_failed_pass_is_an_error_and_the_recovery_is_news(journal: Journal) -> None:
    world = LoopWorld(a_spec("web"))
    for _ in range(2):
        world.static.fail_next("web", ProviderError("down"), Call.REFRESH)
        (line,) = journal.of(world.run(after_s=15))
        assert line.startswith("pass.failed type=cloudProviderError error=")
    assert journal.of(world.run(after_s=15)) == ["pass.recovered after=Failed"]
    assert journal.of(world.run(after_s=15)) == []


def test_an_unhealthy_cluster_is_news_only_once(journal: Journal) -> None:
    world = LoopWorld(a_spec("web"), nodes=[(a_node(f"n{number}", ready=False), "web") for number in range(5)])
    assert journal.of(world.run()) == ["cluster.unhealthy unready=5"]
    assert journal.of(world.run(after_s=15)) == []


def test_repairs(journal: Journal) -> None:
    world = LoopWorld(a_spec("late", boot_s=0), a_spec("wrong", target=2), a_spec("stuck", boot_s=0))
    world.static.group("late").increase(1)
    world.static.group("stuck").increase(1)
    world.run()
    world.static.fail_next("stuck", ProviderError("not now"), Call.DELETE)
    assert journal.of(world.run(after_s=901)) == [
        "scale_up.timed_out group=late nodes=1 seconds=901",
        "scale_up.timed_out group=stuck nodes=1 seconds=901",
        "target.lowered group=wrong size=0 before=2",
        'machines.removed group=late machines=["static://late-1"] reason=unregistered',
        'machines.not_removed group=stuck machines=["static://stuck-1"] error="not now"',
    ]


def test_troubles_of_the_cloud(journal: Journal) -> None:
    world = LoopWorld(a_spec("web", boot_s=60))
    world.static.fail_next("web", InstanceError(ErrorClass.OTHER, "BAD", "bad image"))
    world.submit(waiting("web"))
    world.run()
    assert 'machines.not_created group=web machines=1 code=BAD error="bad image"' in journal.of(world.run(after_s=15))


def test_a_scale_up_that_came_and_one_that_did_not(journal: Journal) -> None:
    world = LoopWorld(a_spec("quick", cpu="4", boot_s=60), a_spec("never", cpu="8"))
    world.submit(waiting("s", cpu="3500m"), waiting("m", cpu="7500m"))
    world.run()
    world.clock.advance(60)
    world.boot()
    assert "scale_up.finished group=quick nodes=1 seconds=60" in journal.of(world.run())
    assert "scale_up.timed_out group=never nodes=1 seconds=901" in journal.of(world.run(after_s=841))


def test_removals(journal: Journal) -> None:
    world = LoopWorld(a_spec("web"), nodes=[(a_node("n1"), "web")])
    report, removal = world.run(), Removal(node=a_node("n1"), group="web", utilization=0.0)
    scale_down = replace(report.scale_down, deletions=NodesToDelete(empty=(removal,)))
    assert journal.of(replace(report, scale_down=scale_down)) == [
        "scale_down.decided node=n1 group=web pods=0 utilization=0.0 ready=true"
    ]


def test_details_tell_how_the_pass_went(talkative: Journal) -> None:
    report = replace(LoopWorld(a_spec("web")).run(), timings={"snapshot": 0.01, "pass": 0.02})
    (line,) = talkative.of(report)
    assert line.startswith('pass.done headline="Every pod has a node." number=3 end=Complete scale_up=NotNeeded')
    assert 'seconds=0.02 phases={"snapshot":0.01} nodes=0 pending=0' in line


class Silent:
    """A gRPC expander that answers once it is told to."""

    error = "UNAVAILABLE: gone"

    def ask(self, options: Sequence[Option], templates: Mapping[str, Template]) -> ExpanderAnswer:
        asked = tuple(option.group.id for option in options)
        return ExpanderAnswer(asked=asked, error=self.error, named=() if self.error else asked)


def test_a_grpc_expander_that_is_of_no_help_is_news_when_that_begins_and_ends(journal: Journal) -> None:
    remote = Silent()
    world = LoopWorld(a_spec("web"), config=Config(scale_up=ScaleUp(expander=("grpc",))), remote=remote)

    def told(pod: str) -> list[str]:
        world.submit(waiting(pod))
        return [line for line in journal.of(world.run(after_s=15)) if line.startswith("grpc_expander")]

    assert told("p1") == ['grpc_expander.trouble error="UNAVAILABLE: gone"']
    assert told("p2") == []
    remote.error = ""
    assert told("p3") == ['grpc_expander.answers_again after="UNAVAILABLE: gone"']
    assert told("p4") == []


def test_groups_without_a_price_are_named_once_where_prices_matter() -> None:
    stream = io.StringIO()
    configure(0, LogFormat.TEXT, VirtualClock(wall=NOW), stream)
    report = LoopWorld(a_spec("web"), a_spec("db")).run()
    journal = Journal(stream, prices_matter=True)
    assert journal.of(report) == ['groups.without_price groups="web, db"']
    assert journal.of(report) == []
    unconfigure()


def test_a_resize_that_waits_is_logged_once(journal: Journal) -> None:
    world = LoopWorld(a_spec("web"), nodes=[(a_node("n1"), "web")])
    assert journal.of(world.run()) == []
    status = {
        "containerStatuses": [{"name": "main", "allocatedResources": {"cpu": "1"}}],
        "conditions": [{"type": "PodResizePending", "status": "True", "reason": "Deferred"}],
    }
    world.submit(a_pod("r", cpu="6", node="n1", status=status))
    assert journal.of(world.run(after_s=15)) == ['resize.deferred pod=default/r node=n1 lacks="2 cpu"']
    assert journal.of(world.run(after_s=15)) == []
    world.cluster.remove_pod("default/r")
    assert journal.of(world.run(after_s=15)) == []
    world.submit(a_pod("r", cpu="6", node="n1", status=status))
    assert journal.of(world.run(after_s=15)) == ['resize.deferred pod=default/r node=n1 lacks="2 cpu"']


def test_pauses_are_logged_when_they_begin_and_end(journal: Journal) -> None:
    world = LoopWorld(a_spec(), nodes=[(a_node("n1"), "web")])
    put_objects(world.writes, pauses(freeze="{by: jane}"))
    assert journal.of(world.run()) == [
        'pauses.changed paused=["scale-down is paused until it is resumed by jane"] ended=[]'
    ]
    assert journal.of(world.run(after_s=15)) == []
    world.writes.put_config_map("kube-system", "cluster-autoscaler-pause", {"freeze": None})
    assert journal.of(world.run(after_s=15)) == ['pauses.changed paused=[] ended=["freeze"]']
