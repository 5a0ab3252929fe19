"""Reflectors, writes and the election against the embedded API server, with trouble injected."""

import random
import threading
from collections.abc import Callable, Iterator
from typing import Any

import msgspec
import pytest

from autoscaler.clock import SystemClock
from autoscaler.errors import Blocked, Conflict, Gone, RetryLater
from autoscaler.kube.client import Client, ClientSettings
from autoscaler.kube.config import RestConfig
from autoscaler.kube.election import LeaderElection, Unopposed
from autoscaler.kube.feed import ClusterFeed
from autoscaler.kube.lease import LeaseState, LeaseTimings
from autoscaler.kube.lease_writes import LeaseWrites
from autoscaler.kube.paths import ObjectRef
from autoscaler.kube.store import Store
from autoscaler.kube.watch import KindSource
from autoscaler.kube.writes import EventRecord, Writes
from autoscaler.objects.node import DELETION_CANDIDATE, TO_BE_DELETED, Node, Taint, node_decoder
from autoscaler.ports import EventType, Subject
from autoscaler.sandbox.apiserver.faults import Fault
from autoscaler.sandbox.apiserver.server import ApiServer
from autoscaler.sandbox.apiserver.storage import Storage

PATIENCE_S = 30.0
NODES = "/api/v1/nodes"


def quick(event: threading.Event, seconds: float) -> bool:
    """Wait as told, but a hundred times shorter."""
    return event.wait(seconds / 100)


def no_wait(seconds: float) -> bool:
    return True


@pytest.fixture
def server() -> Iterator[ApiServer]:
    with ApiServer(Storage(SystemClock()), bookmark_every_s=0.2) as running:
        yield running


@pytest.fixture
def client(server: ApiServer) -> Iterator[Client]:
    made = Client(RestConfig(server.url), SystemClock(), no_wait, ClientSettings(qps=0))
    yield made
    made.close()


class Seen:
    """Wakes a test when the store has become as it expects."""

    def __init__(self, store: Store[Node]) -> None:
        self._store = store
        self._news = threading.Condition()
        self.changes = 0
        store.subscribe(self)

    def changed(self, old: Node | None, new: Node | None) -> None:
        with self._news:
            self.changes += 1
            self._news.notify_all()

    def until(self, expected: set[str]) -> None:
        with self._news:
            reached = self._news.wait_for(lambda: set(self._store.snapshot()) == expected, PATIENCE_S)
        assert reached, f"{set(self._store.snapshot())} instead of {expected}"


class Following:
    def __init__(self, client: Client) -> None:
        self.feed = ClusterFeed(client, SystemClock(), wait=quick, rng=random.Random(1))
        self.store = self.feed.add(KindSource(path=NODES, decoder=node_decoder()))
        self.seen = Seen(self.store)

    @property
    def stats(self) -> Any:
        return self.feed.stats()[NODES]


@pytest.fixture
def following(server: ApiServer, client: Client) -> Iterator[Following]:
    made = Following(client)
    made.feed.start()
    assert made.feed.wait_synced(PATIENCE_S) == {}
    add_node(server, "n0")  # after the list, so that its arrival proves the watch open
    made.seen.until({"n0"})
    yield made
    assert made.feed.stop(PATIENCE_S)


def add_node(server: ApiServer, name: str) -> None:
    server.storage.create("nodes", {"metadata": {"name": name}})


class TestReflector:
    def test_lists_in_chunks_and_follows(self, server: ApiServer, client: Client) -> None:
        names = {f"n{i:04}" for i in range(1201)}
        for name in names:
            add_node(server, name)
        made = Following(client)
        made.feed.start()
        assert made.feed.wait_synced(PATIENCE_S) == {}
        assert set(made.store.snapshot()) == names
        server.storage.delete("nodes", "n0007")
        add_node(server, "late")
        made.seen.until(names - {"n0007"} | {"late"})
        assert made.feed.stop(PATIENCE_S)

    def test_resumes_a_watch_torn_in_the_middle_of_a_line(self, server: ApiServer, following: Following) -> None:
        server.faults.add(Fault(verb="watch", resource="nodes", watch_lines=1, times=3))
        server.faults.down()  # so that the watch that is open ends and the rule meets the next ones
        server.faults.up()
        expected = {"n0"}
        for i in range(1, 6):
            add_node(server, f"n{i}")
            expected.add(f"n{i}")
        following.seen.until(expected)
        assert following.stats.relists == 1, "torn streams are resumed, not listed again"
        assert following.seen.changes == 6, "and nothing is reported twice"

    @pytest.mark.parametrize(
        "fault",
        [
            pytest.param(Fault(verb="watch", resource="nodes", code=410, times=1), id="as an answer"),
            pytest.param(Fault(verb="watch", resource="nodes", code=410, watch_lines=0, times=1), id="as an event"),
        ],
    )
    def test_lists_again_on_410_without_a_storm(self, server: ApiServer, following: Following, fault: Fault) -> None:
        server.faults.add(fault)
        server.faults.down()
        add_node(server, "n1")
        server.storage.delete("nodes", "n0")
        server.faults.up()
        following.seen.until({"n1"})
        add_node(server, "n2")
        following.seen.until({"n1", "n2"})
        assert following.stats.relists == 2
        assert following.seen.changes <= 5

    def test_lists_again_when_history_is_compacted(self, server: ApiServer, following: Following) -> None:
        server.faults.down()
        for i in range(1, 20):
            add_node(server, f"n{i}")
        server.storage.compact("nodes")
        server.faults.up()
        following.seen.until({f"n{i}" for i in range(20)})
        assert following.stats.relists == 2

    @pytest.mark.parametrize(
        "fault",
        [
            pytest.param(Fault(resource="nodes", code=500, times=6), id="500s"),
            pytest.param(Fault(resource="nodes", code=429, retry_after_s=1, times=6), id="429s with Retry-After"),
            pytest.param(Fault(resource="nodes", code=503, times=6), id="503s"),
            pytest.param(Fault(resource="nodes", drop=True, times=6), id="dropped connections"),
            pytest.param(Fault(resource="nodes", code=403, times=6), id="permission taken away for a while"),
        ],
    )
    def test_outlives_trouble_from_the_first_list_on(self, server: ApiServer, client: Client, fault: Fault) -> None:
        add_node(server, "n0")
        server.faults.add(fault)
        made = Following(client)
        made.feed.start()
        assert made.feed.wait_synced(PATIENCE_S) == {}
        add_node(server, "n1")
        made.seen.until({"n0", "n1"})
        assert made.feed.stop(PATIENCE_S)

    def test_a_server_that_goes_and_comes_back(self, server: ApiServer, following: Following) -> None:
        for round_ in range(3):
            server.faults.down()
            add_node(server, f"while-down-{round_}")
            server.faults.up()
            following.seen.until({"n0", *(f"while-down-{i}" for i in range(round_ + 1))})
        assert following.stats.relists == 1


HARD = Taint(TO_BE_DELETED, "NoSchedule", "1700000000")


@pytest.fixture
def writes(client: Client) -> Writes:
    return Writes(client, Unopposed(), SystemClock(), no_wait)


class TestWrites:
    def test_taints_of_many_threads_on_one_node_are_all_kept(self, server: ApiServer, writes: Writes) -> None:
        add_node(server, "n0")
        failures: list[BaseException] = []

        def taint(i: int) -> None:
            while True:
                try:
                    writes.add_taint("n0", Taint(f"k{i}", "NoSchedule"))
                    return
                except Conflict:
                    continue
                except BaseException as error:
                    failures.append(error)
                    raise

        threads = [threading.Thread(target=taint, args=(i,)) for i in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(PATIENCE_S)
        assert failures == []
        spec = server.storage.get("nodes", "n0")["spec"]
        assert {f"k{i}" for i in range(8)} <= {t["key"] for t in spec["taints"]}

    def test_a_node_is_marked_and_unmarked(self, server: ApiServer, writes: Writes) -> None:
        add_node(server, "n0")
        before = server.storage.get("nodes", "n0")
        assert writes.add_taint("n0", HARD, cordon=True)
        assert not writes.add_taint("n0", HARD, cordon=True)
        writes.add_taint("n0", Taint(DELETION_CANDIDATE, "PreferNoSchedule", "1"))
        assert server.storage.get("nodes", "n0")["spec"]["unschedulable"] is True
        assert writes.remove_taint("n0", TO_BE_DELETED, uncordon=True)
        assert writes.remove_taint("n0", DELETION_CANDIDATE)
        after = server.storage.get("nodes", "n0")
        assert "unschedulable" not in after["spec"]
        assert [t for t in after["spec"].get("taints", []) if "ClusterAutoscaler" in t["key"]] == []
        assert after["metadata"]["uid"] == before["metadata"]["uid"]

    def test_an_injected_conflict_is_met_by_reading_again(self, server: ApiServer, writes: Writes) -> None:
        add_node(server, "n0")
        server.faults.add(Fault(verb="update", resource="nodes", code=409, times=2))
        assert writes.add_taint("n0", HARD)
        assert [t["key"] for t in server.storage.get("nodes", "n0")["spec"]["taints"]] == [TO_BE_DELETED]

    def test_a_429_is_waited_out(self, server: ApiServer, writes: Writes) -> None:
        add_node(server, "n0")
        server.faults.add(Fault(verb="update", resource="nodes", code=429, retry_after_s=1, times=1))
        assert writes.add_taint("n0", HARD)

    def test_a_500_is_left_to_the_caller(self, server: ApiServer, writes: Writes) -> None:
        add_node(server, "n0")
        server.faults.add(Fault(verb="update", resource="nodes", code=500, times=1))
        with pytest.raises(RetryLater, match="injected fault"):
            writes.add_taint("n0", HARD)

    def test_objects_events_and_config_maps(self, server: ApiServer, writes: Writes) -> None:
        writes.put_config_map("kube-system", "cluster-autoscaler-status", {"status": "a"}, {"at": "1"})
        writes.put_config_map("kube-system", "cluster-autoscaler-status", {"status": "b"}, {"at": "2"})
        stored = server.storage.get("configmaps", "cluster-autoscaler-status", "kube-system")
        assert (stored["data"], stored["metadata"]["annotations"]) == ({"status": "b"}, {"at": "2"})
        about = Subject("ConfigMap", "cluster-autoscaler-status", "kube-system")
        event = EventRecord("s.1", about, EventType.NORMAL, "ScaledUpGroup", "m", 1.7e9, 1.7e9)
        writes.create_event(event)
        writes.repeat_event(msgspec.structs.replace(event, count=2))
        assert server.storage.get("events", "s.1", "kube-system")["count"] == 2
        server.storage.delete("events", "s.1", namespace="kube-system")
        writes.repeat_event(msgspec.structs.replace(event, count=3))
        assert server.storage.get("events", "s.1", "kube-system")["count"] == 3

    def test_applying_creates_then_changes(self, server: ApiServer, writes: Writes) -> None:
        priority = {
            "apiVersion": "scheduling.k8s.io/v1",
            "kind": "PriorityClass",
            "metadata": {"name": "cluster-headroom"},
            "value": -10,
        }
        writes.apply(priority)
        writes.apply(priority | {"description": "x"})
        assert server.storage.get("priorityclasses", "cluster-headroom")["description"] == "x"
        writes.delete(ObjectRef("scheduling.k8s.io/v1", "PriorityClass", "cluster-headroom"))
        with pytest.raises(Gone):
            writes.delete(ObjectRef("scheduling.k8s.io/v1", "PriorityClass", "cluster-headroom"))

    def test_kwok_nodes_come_and_go_by_uid(self, server: ApiServer, writes: Writes) -> None:
        made = writes.create({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "kwok-1"}})
        with pytest.raises(Conflict):
            writes.create({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "kwok-1"}})
        with pytest.raises(Conflict):
            writes.delete(ObjectRef("v1", "Node", "kwok-1"), uid="another")
        writes.delete(ObjectRef("v1", "Node", "kwok-1"), uid=made["metadata"]["uid"])
        assert server.storage.list("nodes") == []


def add_pod(server: ApiServer, name: str) -> str:
    pod = {"metadata": {"name": name, "labels": {"app": "a"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
    uid: str = server.storage.create("pods", pod)["metadata"]["uid"]
    return uid


class TestEvictions:
    def test_a_budget_blocks_and_flood_control_does_not(self, server: ApiServer, writes: Writes) -> None:
        uid = add_pod(server, "p")
        server.storage.create(
            "poddisruptionbudgets",
            {"metadata": {"name": "b"}, "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "a"}}}},
        )
        server.storage.bind("p", "n0", namespace="default")
        running = server.storage.get("pods", "p", "default")
        running["status"] = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
        server.storage.update_status("pods", running)
        with pytest.raises(Blocked):
            writes.evict("default", "p", uid, 30)
        assert server.storage.get("pods", "p", "default")["metadata"]["uid"] == uid

    def test_a_pod_of_another_uid_is_not_touched(self, server: ApiServer, writes: Writes) -> None:
        uid = add_pod(server, "p")
        with pytest.raises(Gone):
            writes.evict("default", "p", "old", 0)
        with pytest.raises(Gone):
            writes.delete_pod("default", "p", "old")
        assert server.storage.get("pods", "p", "default")["metadata"]["uid"] == uid

    @pytest.mark.parametrize(
        "remove",
        [
            pytest.param(lambda w, uid: w.evict("default", "p", uid, 0), id="evicted"),
            pytest.param(lambda w, uid: w.delete_pod("default", "p", uid, 0), id="deleted"),
        ],
    )
    def test_a_pod_goes_and_is_gone(
        self, server: ApiServer, writes: Writes, remove: Callable[[Writes, str], None]
    ) -> None:
        uid = add_pod(server, "p")
        remove(writes, uid)
        assert server.storage.list("pods") == []
        with pytest.raises(Gone):
            remove(writes, uid)


class TestElection:
    def replica(
        self, name: str, client: Client, lost: threading.Event, renew_deadline_s: float = 20.0
    ) -> LeaderElection:
        timings = LeaseTimings(lease_s=30.0, renew_deadline_s=renew_deadline_s, retry_s=0.1)
        state = LeaseState(name, timings, rng=random.Random(name))
        return LeaderElection(state, LeaseWrites(client), SystemClock(), lost.set)

    def test_two_replicas_take_turns(self, server: ApiServer, client: Client) -> None:
        lost = threading.Event()
        first, second = self.replica("a", client, lost), self.replica("b", client, lost)
        first.start()
        assert first.wait_leading(PATIENCE_S)
        second.start()
        assert not second.wait_leading(0.5)
        assert first.stop(PATIENCE_S)
        assert second.wait_leading(PATIENCE_S)
        lease = server.storage.get("leases", "cluster-autoscaler", "kube-system")
        assert (lease["spec"]["holderIdentity"], lease["spec"]["leaseTransitions"]) == ("b", 1)
        assert not lost.is_set()
        assert second.stop(PATIENCE_S)

    def test_a_leader_cut_off_from_the_server_gives_up(self, server: ApiServer, client: Client) -> None:
        lost = threading.Event()
        leader = self.replica("a", client, lost, renew_deadline_s=1.0)
        leader.start()
        assert leader.wait_leading(PATIENCE_S)
        server.faults.down()
        assert lost.wait(PATIENCE_S)
        assert not leader.may_write(SystemClock().now(), 0.0)
        server.faults.up()
        assert leader.stop(PATIENCE_S)

    def test_trouble_shorter_than_the_deadline_does_no_harm(self, server: ApiServer, client: Client) -> None:
        lost = threading.Event()
        leader = self.replica("a", client, lost)
        leader.start()
        assert leader.wait_leading(PATIENCE_S)
        for code in (500, 409, 429):
            server.faults.add(Fault(verb="update", resource="leases", code=code, times=1))
        assert not lost.wait(1.0)
        assert leader.may_write(SystemClock().now(), 0.0)
        assert leader.stop(PATIENCE_S)
        lease = server.storage.get("leases", "cluster-autoscaler", "kube-system")
        assert lease["spec"]["holderIdentity"] == ""
