"""Reservations from operation to store and from store to nodes, in virtual time. Names of acceptance tests begin with
their id."""

import logging
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import msgspec
import pytest

from autoscaler.clock import VirtualClock
from autoscaler.config.load import from_options
from autoscaler.config.reservations import Reservations, read_reservations
from autoscaler.errors import RetryLater
from autoscaler.kube.election import Unopposed
from autoscaler.kube.writes import Writes
from autoscaler.loop.companion import Companions
from autoscaler.observe.metrics.metrics import Metrics
from autoscaler.ports import EventType, Subject
from autoscaler.reasons import NoReservation
from autoscaler.reservations.inbox import OperationReceipt, ReservationInbox
from autoscaler.reservations.keeper import ReservationKeeper
from autoscaler.reservations.metrics import RESERVATIONS, ReservationMetrics
from autoscaler.reservations.plan import Operation, OperationResult, OperationVerdict
from autoscaler.reservations.state import ledger_key, read_state
from autoscaler.reservations.status import OverrideStatus
from autoscaler.reservations.store import ConfigMapStore, StoredTarget
from autoscaler.sandbox.apiserver.storage import Storage
from autoscaler.simulator.executor import VirtualExecutor
from tests.builders import a_node, a_pod
from tests.headroom_world import StorageClient
from tests.unit.loop.loop_world import NOW, LoopWorld, a_spec

HOME = "kube-system"


def a_target(name: str = "gpu", cpu: str = "2", **fields: Any) -> dict[str, Any]:
    requests = {"resources": {"requests": {"cpu": cpu}}}
    return {"name": name, "podTemplate": {"spec": {"containers": [{"name": "c", **requests}]}}, **fields}


def a_section(*targets: dict[str, Any], **fields: Any) -> Reservations:
    data = {"store": {"namespace": HOME}, "targets": list(targets or [a_target()]), **fields}
    return read_reservations(data, -10)


class Cluster:
    """What replicas share: an API server, and the time."""

    def __init__(self) -> None:
        self.clock = VirtualClock(wall=NOW)
        self.storage = Storage(self.clock)
        self.executor = VirtualExecutor(self.clock)
        self.began = self.clock.now().mono

    def stored(self, target: str = "gpu") -> list[str]:
        found = [
            config_map
            for config_map in self.storage.list("configmaps")
            if config_map["metadata"]["name"].endswith(f"-{target}")
        ]
        return [entry.id for entry in read_state(found[0]["data"]["state.json"]).entries] if found else []

    def at(self, seconds: float) -> None:
        """Let time pass until so many seconds after the beginning."""
        self.executor.run_until(self.began + seconds)


class Replica:
    """One process's inbox, and the companion that goes with it."""

    def __init__(self, cluster: Cluster, section: Reservations, clock: VirtualClock | None = None) -> None:
        self.cluster = cluster
        self.clock = clock or cluster.clock
        self.client = StorageClient(cluster.storage, self.clock)
        self.events: list[str] = []
        self.metrics = Metrics()
        self.metrics.start()
        counted = ReservationMetrics(self.metrics.companion(RESERVATIONS))
        self.store = ConfigMapStore(
            self.client,
            Writes(self.client, Unopposed(), self.clock, lambda _seconds: True),  # type: ignore[arg-type]
            section.store,
        )
        self.commits = ReservationInbox(section, self.store, cluster.executor, self.clock, counted, self)
        self.keeper = ReservationKeeper(self.commits, self.store, counted, self.clock)
        self.numbers = 0
        assert self.commits.load()
        self.client.asked.clear()

    def event(self, about: Subject, kind: EventType, reason: str, message: str) -> None:
        self.events.append(reason)

    def put(
        self, amount: int = 1, target: str = "gpu", delivery: str = "", length_s: float = 600.0
    ) -> OperationReceipt | None:
        self.numbers += 1
        return self.commits.put(
            Operation(
                target=target,
                amount=amount,
                length_s=length_s,
                delivery=ledger_key("test", delivery or f"{id(self)}/{self.numbers}"),
                seed=f"{id(self)}/{self.numbers}",
                accepted=self.clock.now(),
            )
        )

    def series(self) -> dict[str, float]:
        lines = [line for line in self.metrics.scrape().decode().splitlines() if not line.startswith("#")]
        pairs = (line.rsplit(" ", 1) for line in lines)
        return {name.removeprefix("cluster_autoscaler_"): float(value) for name, value in pairs}


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    made = Cluster()
    yield made
    made.executor.stop()


def effects(tickets: Sequence[OperationReceipt | None]) -> list[OperationResult | None]:
    return [ticket.effect for ticket in tickets if ticket is not None]


# Intake.


def test_c11_a_burst_is_one_write_within_the_window(cluster: Cluster, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    replica = Replica(cluster, a_section())
    tickets = []
    for number in range(50):
        cluster.at(number * 0.02)
        tickets.append(replica.put())
    cluster.at(2.99)
    assert set(effects(tickets)) == {None}
    cluster.at(3.5)
    assert replica.client.written("configmaps") == ["create"]
    assert len(cluster.stored()) == 50
    assert {effect and effect.verdict for effect in effects(tickets)} == {OperationVerdict.ADDED}
    assert replica.series()['reservation_batch_size_sum{target="gpu"}'] == 50
    (line,) = (record.__dict__["fields"] for record in caplog.records if record.getMessage() == "reservations.stored")
    assert line == {"target": "gpu", "operations": 50, "outcome": {"added": 50}, "seconds": 3.0}


def test_c12_each_target_is_written_once(cluster: Cluster) -> None:
    replica = Replica(cluster, a_section(a_target("a"), a_target("b")))
    for number in range(50):
        replica.put(target="ab"[number % 2])
    cluster.at(3.5)
    assert replica.client.written("configmaps") == ["create"] * 2
    assert (len(cluster.stored("a")), len(cluster.stored("b"))) == (25, 25)


class Failing:
    """A store that fails for one target as often as it is told, and notes when it was tried."""

    def __init__(self, replica: Replica, target: str, times: int, *, after: bool = False) -> None:
        self.tried: list[float] = []
        self._replica, self._target, self._times, self._after = replica, target, times, after
        self._write = replica.store.write
        replica.store.write = self.write  # type: ignore[method-assign]

    def write(self, target: str, text: str, before: StoredTarget | None) -> None:
        if target == self._target:
            self.tried.append(round(self._replica.clock.now().mono - self._replica.cluster.began, 1))
            if len(self.tried) <= self._times:
                if self._after:
                    self._write(target, text, before)
                raise RetryLater("the store is down")
        self._write(target, text, before)


def test_c13_a_failing_target_waits_longer_and_longer_and_holds_up_no_other(cluster: Cluster) -> None:
    replica = Replica(cluster, a_section(a_target("x"), a_target("y")))
    failing = Failing(replica, "x", 3)
    replica.put(target="x")
    replica.put(target="y")
    cluster.at(3.1)
    assert (len(cluster.stored("x")), len(cluster.stored("y"))) == (0, 1)
    cluster.at(5)
    replica.put(target="x")
    cluster.at(11)
    assert failing.tried == [3.0, 4.0, 6.0, 10.0]
    assert len(cluster.stored("x")) == 2
    assert replica.series()['reservation_retry_attempts_total{target="x"}'] == 3


def test_c14_what_waits_for_a_target_that_is_gone_is_dropped(cluster: Cluster) -> None:
    replica = Replica(cluster, a_section(a_target("x"), a_target("y")))
    Failing(replica, "x", 100)
    lost, kept = replica.put(target="x"), replica.put(target="y")
    cluster.at(3.5)
    replica.keeper.configure(a_section(a_target("y")))
    cluster.at(60)
    assert [effect and effect.reason for effect in effects([lost])] == [NoReservation.TARGET_GONE]
    assert [effect and effect.verdict for effect in effects([kept])] == [OperationVerdict.ADDED]
    assert replica.series()['reservation_dropped_total{target="x",reason="target_gone"}'] == 1
    assert len(cluster.stored("y")) == 1


def test_c15_two_replicas_lose_nothing_of_each_other(cluster: Cluster) -> None:
    first, second = (Replica(cluster, a_section()) for _ in range(2))
    first.put()
    cluster.at(3.5)
    between = second.store.read

    def read_then_another_writes(target: str) -> StoredTarget | None:
        found = between(target)
        second.store.read = between  # type: ignore[method-assign]
        first.commits.close()
        return found

    first.put()
    second.put()
    second.store.read = read_then_another_writes  # type: ignore[method-assign]
    second.commits.close()
    assert len(cluster.stored()) == 3
    assert second.series()['reservation_store_writes_total{target="gpu",result="conflict"}'] == 1


def test_c16_a_write_that_was_done_all_the_same_counts_once(cluster: Cluster) -> None:
    replica = Replica(cluster, a_section())
    Failing(replica, "gpu", 1, after=True)
    replica.put()
    cluster.at(10)
    assert len(cluster.stored()) == 1


def test_c18_a_delivery_counts_once_whoever_takes_it_and_after_a_restart(cluster: Cluster) -> None:
    first, second = (Replica(cluster, a_section()) for _ in range(2))
    tickets = [first.put(delivery="d"), second.put(delivery="d")]
    cluster.at(4)
    verdicts = sorted(effect.verdict for effect in effects(tickets) if effect is not None)
    assert verdicts == [OperationVerdict.ADDED, OperationVerdict.DUPLICATE]
    restarted = Replica(cluster, a_section())
    assert restarted.commits.remembers(ledger_key("test", "d"), cluster.clock.now().wall)
    assert len(cluster.stored()) == 1


def test_c23_what_cannot_be_stored_is_never_acknowledged_and_the_inbox_is_bounded(cluster: Cluster) -> None:
    replica = Replica(cluster, a_section(queueLimit=100))
    Failing(replica, "gpu", 4)
    tickets = [replica.put() for _ in range(101)]
    assert tickets[100] is None
    cluster.at(8)
    assert set(effects(tickets)) == {None}
    cluster.at(20)
    assert len(cluster.stored()) == 100


def test_a_bug_in_the_store_loses_nothing(cluster: Cluster) -> None:
    replica = Replica(cluster, a_section())
    write, broken = replica.store.write, [RuntimeError("a bug")]

    def breaks_once(target: str, text: str, before: StoredTarget | None) -> None:
        if broken:
            raise broken.pop()
        write(target, text, before)

    replica.store.write = breaks_once  # type: ignore[method-assign]
    ticket = replica.put()
    cluster.at(10)
    assert [effect and effect.verdict for effect in effects([ticket])] == [OperationVerdict.ADDED]
    assert len(cluster.stored()) == 1


def test_after_an_hour_of_failures_the_backlog_is_dropped_and_told(cluster: Cluster) -> None:
    replica = Replica(cluster, a_section(giveUpAfter="1m"))
    Failing(replica, "gpu", 1000)
    ticket = replica.put()
    cluster.at(90)
    assert [effect and effect.reason for effect in effects([ticket])] == [NoReservation.GIVEN_UP]
    assert replica.events == ["ReservationsDropped"]
    assert replica.series()["reservation_queue_length"] == 0


def test_c24_a_restart_finds_the_same_entries(cluster: Cluster) -> None:
    replica = Replica(cluster, a_section())
    replica.put(3)
    cluster.at(4)
    before = [(entry.id, entry.expires_at) for entry in replica.keeper.statuses()[0].entries]
    after = [(entry.id, entry.expires_at) for entry in Replica(cluster, a_section()).keeper.statuses()[0].entries]
    assert before == after
    assert len(before) == 3


def test_c25_a_state_that_cannot_be_understood_is_left_alone(cluster: Cluster) -> None:
    name = "capacity-reservations-gpu"
    cluster.storage.create("configmaps", {"metadata": {"name": name, "namespace": HOME}, "data": {"state.json": "{"}})
    replica = Replica(cluster, a_section(a_target("gpu"), a_target("other")))
    bad, good = replica.put(), replica.put(target="other")
    cluster.at(4)
    replica.keeper.tick(cluster.clock.now())
    assert [effect and effect.reason for effect in effects([bad])] == [NoReservation.STATE_UNREADABLE]
    assert [effect and effect.verdict for effect in effects([good])] == [OperationVerdict.ADDED]
    assert cluster.storage.get("configmaps", name, HOME)["data"] == {"state.json": "{"}
    assert replica.series()['reservation_state_unreadable{target="gpu"}'] == 1
    assert replica.events == ["ReservationsUnreadable"]
    assert replica.keeper.statuses()[0].degraded


def test_what_waits_what_ends_next_and_the_override_in_force_are_told(cluster: Cluster) -> None:
    window = {"startTime": "2026-08-01T09:00:00Z", "endTime": "2026-08-01T12:00:00Z", "minReplicas": 4}
    replica = Replica(cluster, a_section(a_target(scheduledOverrides=[window])))
    replica.put(length_s=900.0)
    replica.put(length_s=300.0)
    (waiting,) = replica.keeper.statuses()
    assert (waiting.backlog, waiting.active, waiting.next_expiry_at) == (2, 0, None)
    cluster.at(4)
    (stored,) = replica.keeper.statuses()
    assert (stored.backlog, stored.active) == (0, 2)
    assert stored.next_expiry_at == pytest.approx(NOW + 303)
    assert (stored.floor, stored.planned) == (4, 6)
    assert stored.override == OverrideStatus(began_at=NOW - 3600, ends_at=NOW + 7200)
    replica.keeper.configure(a_section(a_target(), a_target("new")))
    assert [(status.loaded, status.floor, status.override) for status in replica.keeper.statuses()] == [
        (True, 0, None),
        (False, 0, None),
    ]


def test_c32_what_was_taken_is_stored_before_the_end(cluster: Cluster) -> None:
    replica = Replica(cluster, a_section())
    ticket = replica.put()
    cluster.at(1)
    replica.commits.close()
    assert [effect and effect.verdict for effect in effects([ticket])] == [OperationVerdict.ADDED]
    assert len(cluster.stored()) == 1
    assert replica.put() is None


# Passes.


class Nodes:
    """A node loop in virtual time with reservations beside it."""

    def __init__(self, section: Reservations, *groups: Any, nodes: Sequence[Any] = (), **options: Any) -> None:
        self.cluster = Cluster()
        config = from_options({"scale-down-unneeded-time": "10m", "scale-down-delay-after-add": "0s", **options})
        self.replica = Replica(self.cluster, section)
        self.failed: list[str] = []
        self.world = LoopWorld(
            *groups,
            config=config,
            nodes=nodes,
            companions=Companions([self.replica.keeper], self.failed.append),
        )
        self.keeper = self.replica.keeper

    def announce(self, amount: int, **fields: Any) -> None:
        self.replica.put(amount, **fields)
        self.cluster.executor.run_until(self.cluster.clock.now().mono + 3.5)

    def run(self, after_s: float = 0.0) -> Any:
        self.cluster.executor.run_until(self.cluster.clock.now().mono + after_s)
        self.keeper.tick(self.cluster.clock.now())
        report = self.world.run(after_s)
        assert self.failed == []
        return report

    def status(self) -> Any:
        return self.keeper.statuses()[0]


@pytest.fixture
def nodes() -> Iterator[Callable[..., Nodes]]:
    made: list[Nodes] = []

    def build(*args: Any, **kwargs: Any) -> Nodes:
        made.append(Nodes(*args, **kwargs))
        return made[-1]

    yield build
    for one in made:
        one.cluster.executor.stop()


def test_c26_c27_reservations_buy_once_and_real_pods_use_them_up(nodes: Callable[..., Nodes]) -> None:
    world = nodes(
        a_section(a_target(maxReplicas=3, podSelector="app=job")),
        a_spec(cpu="4", target=1),
        nodes=[(a_node("web-0", cpu="4"), "web")],
    )
    world.announce(5)
    report = world.run()
    assert world.world.calls == [("increase", "web", 1)]
    status = world.status()
    assert (status.virtual, status.active, status.queued) == (3, 3, 2)
    assert len(report.scale_up.plan.triggered) == 1
    assert not report.view.pending
    assert world.world.reasons("Pod") == []
    created = world.cluster.clock.now().wall - 60
    for name in ("job-1", "job-2"):
        world.world.submit(a_pod(name, cpu="2", labels={"app": "job"}, created=created, unschedulable=True))
    world.run(15)
    assert world.status().virtual == 1
    assert world.world.calls == [("increase", "web", 1)]


def test_c28_a_node_that_a_reservation_needs_stays_and_goes_ten_minutes_after_its_release(
    nodes: Callable[..., Nodes],
) -> None:
    world = nodes(
        a_section(a_target(cpu="1", maxReplicas=3)),
        a_spec(cpu="4", target=1),
        nodes=[(a_node("web-0", cpu="4"), "web")],
    )
    world.announce(1, length_s=3600.0)
    reports = [world.run(60) for _ in range(59)]
    assert all(not report.scale_down.unneeded and not report.scale_down.deletions.empty for report in reports)
    kept = [bool(world.run(60).scale_down.deletions.empty) for _ in range(15)]
    assert kept.index(True) in (10, 11, 12)


def test_c29_a_group_that_cannot_grow_is_told_and_holds_up_nobody(nodes: Callable[..., Nodes]) -> None:
    gpu = a_spec("gpu", cpu="6", max_size=1, target=1)
    web = a_spec("web", cpu="2", max_size=5)
    section = a_section(a_target(cpu="6", priority=10))
    world = nodes(section, gpu, web, nodes=[(a_node("gpu-0", cpu="6"), "gpu")])
    world.announce(2)
    world.world.submit(a_pod("web-pod", cpu="2", created=NOW - 600, unschedulable=True))
    world.world.submit(a_pod("web-pod-2", cpu="2", created=NOW - 600, unschedulable=True))
    world.run()
    series = world.replica.series()
    assert series['reservations_unplaceable{target="gpu",reason="max_size"}'] == 1
    assert world.world.calls == [("increase", "web", 2)]
    assert world.status().unplaceable == {"max_size": 1}


def test_c33_a_thousand_passes_without_events_write_nothing(nodes: Callable[..., Nodes]) -> None:
    world = nodes(a_section(a_target(maxReplicas=3)), a_spec(cpu="4", max_size=0))
    world.announce(5, length_s=20_000.0)
    assert world.replica.client.written("configmaps") == ["create"]
    for _ in range(1000):
        world.run(15)
    assert world.replica.client.written("configmaps") == ["create"]
    assert (world.status().active, world.status().queued) == (3, 2)


def test_promotion_happens_in_the_pass_in_which_a_slot_frees_up_and_is_stored_once(nodes: Callable[..., Nodes]) -> None:
    world = nodes(a_section(a_target(maxReplicas=3)), a_spec(cpu="4"))
    world.announce(5, length_s=600.0)
    counts = []
    for _ in range(90):
        world.run(15)
        counts.append((world.status().active, world.status().queued))
    assert list(dict.fromkeys(counts)) == [(3, 2), (2, 0), (0, 0)]
    assert world.replica.client.written("configmaps") == ["create", "update", "update"]


def test_the_floor_is_planned_for_without_any_reservation(nodes: Callable[..., Nodes]) -> None:
    world = nodes(a_section(a_target(minReplicas=2, maxReplicas=3)), a_spec(cpu="2"))
    world.run()
    assert world.world.calls == [("increase", "web", 2)]


def test_a_store_that_is_down_ends_no_pass(nodes: Callable[..., Nodes]) -> None:
    world = nodes(a_section(), a_spec(cpu="4"))
    world.announce(1)
    world.replica.client.fail("list", "configmaps", 500, times=5)
    world.world.autoscaler._companions.tick(world.keeper, world.cluster.clock.now())
    assert world.failed == ["reservations"]
    world.world.run()
    assert world.world.calls == [("increase", "web", 1)]


def test_a_template_of_the_cluster_is_taken_once_it_is_there(nodes: Callable[..., Nodes]) -> None:
    target = {"name": "gpu", "podTemplateRef": {"namespace": "ci", "name": "job"}}
    world = nodes(a_section(target), a_spec(cpu="4"))
    world.announce(1)
    world.run()
    assert world.world.calls == []
    assert world.status().unplaceable == {"no_template": 1}
    world.cluster.storage.create("namespaces", {"metadata": {"name": "ci"}})
    requests = {"resources": {"requests": {"cpu": "2"}}}
    spec = {"containers": [{"name": "c", "image": "i", **requests}]}
    world.cluster.storage.create(
        "podtemplates", {"metadata": {"name": "job", "namespace": "ci"}, "template": {"spec": spec}}
    )
    world.run(61)
    assert world.world.calls == [("increase", "web", 1)]


def test_what_waits_for_room_is_measured_once_it_has_some(nodes: Callable[..., Nodes]) -> None:
    world = nodes(a_section(), a_spec(cpu="4", boot_s=60.0))
    world.run()
    world.announce(1)
    world.run()
    world.run(90)
    assert world.replica.series().get("reservation_capacity_ready_seconds_count", 0) == 0
    world.world.boot()
    world.run(15)
    world.run(15)
    assert world.replica.series()["reservation_capacity_ready_seconds_count"] == 1
    assert msgspec.json.encode(world.status().entries[0].source) == b'{"kind":"api"}'
