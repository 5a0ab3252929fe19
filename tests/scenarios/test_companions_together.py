"""Headroom and reservations together, in one node loop: each buys only what the other does not cover."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from autoscaler.config.reservations import read_reservations
from autoscaler.kube.writes import Writes
from autoscaler.observe.metrics.metrics import Metrics
from autoscaler.reservations.inbox import ReservationInbox
from autoscaler.reservations.keeper import ReservationKeeper
from autoscaler.reservations.metrics import RESERVATIONS, ReservationMetrics
from autoscaler.reservations.plan import Operation
from autoscaler.reservations.state import ledger_key
from autoscaler.reservations.store import ConfigMapStore
from tests.headroom_world import HeadroomWorld, a_pool, always

_ONE_JOB = {
    "store": {"namespace": "kube-system"},
    "targets": [
        {
            "name": "jobs",
            "podTemplate": {"spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": "2"}}}]}},
            "podSelector": "app=job",
            "podNamespaces": ["ci"],
            "maxReplicas": 5,
        }
    ],
}


class Reservations:
    """The reservations of a world, and a way to ask for some."""

    def __init__(self, world: HeadroomWorld) -> None:
        section = read_reservations(_ONE_JOB, -10)
        metrics = Metrics()
        metrics.start()
        counted = ReservationMetrics(metrics.companion(RESERVATIONS))
        writes = Writes(world.client, world.lease, world.clock, lambda _seconds: True)  # type: ignore[arg-type]
        store = ConfigMapStore(world.client, writes, section.store)
        self._world = world
        self._commits = ReservationInbox(section, store, world.executor, world.clock, counted, world)
        self.keeper = ReservationKeeper(self._commits, store, counted, world.clock)
        assert self._commits.load()

    def ask(self) -> None:
        """Reserve room for one job."""
        operation = Operation(
            target="jobs",
            amount=1,
            length_s=1800.0,
            delivery=ledger_key("test", "1"),
            seed="1",
            accepted=self._world.clock.now(),
        )
        assert self._commits.put(operation) is not None

    @property
    def virtual(self) -> int:
        """Pods that stand for work to come."""
        return self.keeper.statuses()[0].virtual


Make = Callable[..., tuple[HeadroomWorld, Reservations]]


@pytest.fixture
def make() -> Iterator[Make]:
    worlds: list[HeadroomWorld] = []

    def build(*pools: Any, **fields: Any) -> tuple[HeadroomWorld, Reservations]:
        made: list[Reservations] = []

        def beside(world: HeadroomWorld) -> ReservationKeeper:
            made.append(Reservations(world))
            return made[0].keeper

        worlds.append(HeadroomWorld(*pools, beside=beside, **fields))
        return worlds[-1], made[0]

    yield build
    for world in worlds:
        assert world.failed == []
        world.close()


def test_headroom_and_a_reservation_share_two_nodes_from_announcement_to_work(make: Make) -> None:
    """Companion systems, section 6: six CPUs of demand on nodes of four."""
    world, reservations = make(a_pool(cpu="2", policies=[always(1)]), machines=1, max_size=4)
    world.work("web", 1, cpu="2")
    world.run_for(60)
    assert world.on_nodes("web") == world.on_nodes("headroom") == {"web-0": 1}
    assert world.bought == 0

    reservations.ask()
    world.run_for(20)
    assert (reservations.virtual, world.bought) == (1, 1)
    assert len(world.nodes) == 1

    world.work("job", 1, cpu="2")
    world.run_for(2)
    assert len(world.nodes) == 1, "the work comes before the new node"
    assert {pod["spec"].get("nodeName") for pod in world.pods("job")} == {"web-0"}
    assert world.on_nodes("headroom") == {}
    assert len(world.pods("headroom")) == 1

    world.run_for(240)
    assert (reservations.virtual, world.bought) == (0, 1)
    assert len(world.nodes) == 2
    assert world.on_nodes("job") == {"web-0": 1}
    (second,) = set(world.nodes) - {"web-0"}
    assert world.on_nodes("headroom") == {second: 1}
    world.run_for(1200)
    assert (len(world.nodes), world.bought) == (2, 1)


def test_a_reservation_does_not_take_the_room_that_headroom_holds(make: Make) -> None:
    world, reservations = make(a_pool(cpu="2", policies=[always(2)]), machines=1, max_size=1)
    world.run_for(60)
    assert world.on_nodes("headroom") == {"web-0": 2}
    reservations.ask()
    world.run_for(60)
    assert world.on_nodes("headroom") == {"web-0": 2}
    assert dict(reservations.keeper.statuses()[0].unplaceable) == {"max_size": 1}
    assert world.bought == 0
