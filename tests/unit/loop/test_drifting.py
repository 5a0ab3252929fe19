"""Whole passes that replace drifted nodes: one first, more after a proof, none after a failure."""

from collections.abc import Callable

import pytest
from msgspec.structs import replace

from autoscaler.config.drift import DriftOptions
from autoscaler.config.tree import Config
from autoscaler.objects.node import Node
from autoscaler.reasons import DriftKind, ReplacementHold, ReplacementTrigger
from cloudprovider.interface import ErrorClass, InstanceError
from cloudprovider.static.spec import CreationFault, GroupSpec
from tests.builders import a_node
from tests.unit.loop.loop_world import a_spec
from tests.unit.loop.replacing_world import ReplacingWorld, old_node, on, options

SETTLE_S = 120.0
NEW = {"ami": "new"}


def drifting(**replacement: object) -> Config:
    config = options(**replacement)  # type: ignore[arg-type]
    return replace(config, drift=DriftOptions(drift=(DriftKind.LABELS,), drift_settle_time_s=SETTLE_S))


class DriftWorld(ReplacingWorld):
    """Three nodes of an old image, each full, in a group that makes nodes of a new one."""

    def __init__(
        self,
        config: Config | None = None,
        spec: GroupSpec | None = None,
        make_node: Callable[[str, float], Node] | None = None,
        *,
        pods_fail: bool = False,
    ) -> None:
        names = ("n1", "n2", "n3")
        nodes = [(old_node(name, days=10 - age, labels={"ami": "old"}), "web") for age, name in enumerate(names)]
        pods = [replace(on(name, f"p{name[1:]}"), ready=0.0, scheduled=0.0) for name in names]
        spec = spec or a_spec("web", boot_s=60, labels=NEW)
        super().__init__(spec, config=config or drifting(), nodes=nodes, pods=pods)
        self._make_node = make_node or (lambda name, now: a_node(name, created=now, labels=NEW))
        self._pods_fail = pods_fail
        self._old = set(names)

    def _schedule(self) -> None:
        super()._schedule()
        now = self.clock.now().wall
        for pod in list(self.cluster.pods.values()):
            if pod.node is not None and pod.created == now:
                fails = self._pods_fail and pod.node not in self._old
                self.submit(replace(pod, scheduled=now, ready=None if fails else now))

    @property
    def old(self) -> set[str]:
        """The drifted nodes that are left."""
        return self._old & self.nodes

    @property
    def holds(self) -> set[ReplacementHold]:
        """Why nodes wait."""
        return {rest.hold for rest in self.reports[-1].replacements.held.values()}


def test_drifted_nodes_are_replaced_one_after_the_other_until_none_is_left() -> None:
    world = DriftWorld()
    world.step()
    (first,) = world.reports[-1].replacements.all
    assert (first.nodes, first.trigger) == (("n1",), ReplacementTrigger.DRIFTED)
    assert first.cause == "ami=old instead of ami=new"
    assert world.reports[-1].replacements.drifted == 3
    assert world.holds == {ReplacementHold.ON_TRIAL}
    world.live(2400)
    assert (world.old, world.unplaced, world.bought(), len(world.nodes)) == (set(), 0, 3, 3)
    assert world.reports[-1].replacements.drifted == 0


def test_nothing_is_replaced_unless_drift_is_asked_for() -> None:
    world = DriftWorld(config=options())
    world.live(600)
    assert world.calls == []


def test_the_second_waits_until_the_first_has_proved_itself_and_then_several_go() -> None:
    world = DriftWorld(config=drifting(max_replacements=3))
    while "n1" in world.nodes:
        world.step()
        assert len(world.reports[-1].replacements.all) == 1
    gone = world.clock.now().mono
    while not world.reports[-1].replacements.all or world.reports[-1].replacements.all[0].nodes == ("n1",):
        world.step()
    assert world.clock.now().mono - gone >= SETTLE_S
    assert {one.nodes for one in world.reports[-1].replacements.all} == {("n2",), ("n3",)}


def stopped(world: DriftWorld, reason: str) -> None:
    """Assert that the world stopped after its first replacement, and says why."""
    (message,) = world.messages("DriftStopped")
    assert message == f"Stopped to replace drifted nodes: {reason}. To go on, run: autoscaler resume drift"
    entries = next(one["data"] for ref, one in world.writes.objects.items() if ref.name == "cluster-autoscaler-pause")
    assert list(entries) == ["drift"]
    assert reason in entries["drift"]
    assert '"by":"cluster-autoscaler"' in entries["drift"]


def test_pods_that_fail_on_new_nodes_stop_the_rest() -> None:
    world = DriftWorld(pods_fail=True)
    world.live(1200)
    stopped(world, "web: pod default/p1.1 is not ready on new node web-1, and its workload was ready on n1")
    assert world.old == {"n2", "n3"}
    world.live(3600)
    assert (world.old, world.bought()) == ({"n2", "n3"}, 1)


def test_new_nodes_that_differ_too_stop_the_rest() -> None:
    world = DriftWorld(make_node=lambda name, now: a_node(name, created=now, labels={"ami": "other"}))
    world.live(1800)
    stopped(world, "web: new node web-1 differs too: ami=other instead of ami=new")
    assert world.old == {"n2", "n3"}


@pytest.mark.parametrize("broken", ["creation", "readiness"])
def test_machines_that_never_become_ready_nodes_stop_it_before_anything_goes(broken: str) -> None:
    fault = CreationFault(error=InstanceError(ErrorClass.OTHER, "BOOT_FAILED", "no such image"), after_s=30.0)
    spec = a_spec("web", boot_s=60, labels=NEW, creation_faults=[fault] if broken == "creation" else [])
    world = DriftWorld(
        config=drifting(replacement_timeout_s=1800.0),
        spec=spec,
        make_node=lambda name, now: a_node(name, created=now, labels=NEW, ready=False),
    )
    world.live(3600)
    stopped(world, "web: no machine bought for n1 became a ready node")
    assert world.old == {"n1", "n2", "n3"}
    assert world.unplaced == 0


def test_a_stop_survives_a_restart_and_resuming_begins_with_one_node_again() -> None:
    world = DriftWorld(config=drifting(max_replacements=3), pods_fail=True)
    world.live(1200)
    assert world.old == {"n2", "n3"}
    world.restart()
    world.live(600)
    assert (world.old, world.bought()) == ({"n2", "n3"}, 1)
    world._pods_fail = False
    world.writes.put_config_map("kube-system", "cluster-autoscaler-pause", {"drift": None})
    world.step()
    world.step()
    assert len(world.reports[-1].replacements.all) == 1
    world.live(3600)
    assert world.old == set()


def test_nobody_goes_on_before_the_pause_is_read() -> None:
    world = DriftWorld(config=drifting(max_replacements=3), pods_fail=True)
    while not world.messages("DriftStopped"):
        world.step()
    world.writes.put_config_map("kube-system", "cluster-autoscaler-pause", {"drift": None})
    world.step()
    assert world.holds == {ReplacementHold.NEW_NODES_FAILED}
    assert world.reports[-1].replacements.all == ()
