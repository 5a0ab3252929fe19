from collections.abc import Callable, Iterator
from typing import Any

import pytest

from autoscaler.clock import Instant, VirtualClock
from autoscaler.errors import AutoscalerError, Blocked, Conflict, Gone, LeadershipLost, RetryLater
from autoscaler.kube.client import Client
from autoscaler.kube.election import Unopposed
from autoscaler.kube.lease import ElectionLease, ElectionSpec
from autoscaler.kube.lease_writes import LeaseWrites
from autoscaler.kube.paths import ObjectRef, collection
from autoscaler.kube.writes import ClusterWrites, EventRecord, Writes
from autoscaler.objects.node import Taint
from autoscaler.ports import EventType, Subject
from tests.unit.kube.scripted import ScriptedApi, Sleeps, client_of, ok, scripted_api, status

NODE = "/api/v1/nodes/n1"
POD = "/api/v1/namespaces/ns/pods/p"
HARD = Taint("ToBeDeletedByClusterAutoscaler", "NoSchedule", "1700000000")
HARD_JSON = {"key": HARD.key, "value": HARD.value, "effect": HARD.effect}
OTHER = {"key": "dedicated", "value": "db", "effect": "NoSchedule", "timeAdded": "2024-01-01T00:00:00Z"}


class Until:
    """Leadership that ends at a monotonic second."""

    def __init__(self, mono: float) -> None:
        self.mono = mono

    def may_write(self, now: Instant, takes_s: float) -> bool:
        return now.mono + takes_s < self.mono


class Bench:
    def __init__(self, api: ScriptedApi, client: Client, clock: VirtualClock) -> None:
        self.api, self.client, self.clock = api, client, clock
        self.sleep = Sleeps(clock)
        self.writes = Writes(client, Unopposed(), clock, self.sleep)

    def sent(self, method: str) -> list[Any]:
        return [a.json for a in self.api.asked if a.method == method]


@pytest.fixture
def bench() -> Iterator[Bench]:
    clock = VirtualClock(wall=1_700_000_000, mono=100)
    with scripted_api() as api, client_of(api.url, clock) as client:
        yield Bench(api, client, clock)


def a_node(version: str = "5", taints: list[Any] | None = None, **spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": "n1", "uid": "u", "resourceVersion": version, "labels": {"a": "b"}},
        "spec": {"providerID": "x://1", **({"taints": taints} if taints is not None else {}), **spec},
        "status": {"unknownToUs": [1, 2.5]},
    }


def the_protocol_is_met(writes: Writes) -> ClusterWrites:
    return writes


class TestTaint:
    def test_replaces_the_whole_node_as_read(self, bench: Bench) -> None:
        bench.api.script(f"GET {NODE}", ok(a_node(taints=[OTHER])))
        bench.api.script(f"PUT {NODE}", ok({}))
        assert bench.writes.add_taint("n1", HARD)
        assert bench.sent("PUT") == [a_node(taints=[OTHER, HARD_JSON])]

    def test_cordons_on_request(self, bench: Bench) -> None:
        bench.api.script(f"GET {NODE}", ok(a_node()))
        bench.api.script(f"PUT {NODE}", ok({}))
        assert bench.writes.add_taint("n1", HARD, cordon=True)
        assert bench.sent("PUT") == [a_node(taints=[HARD_JSON], unschedulable=True)]

    @pytest.mark.parametrize(
        ("node", "cordon"),
        [
            pytest.param(a_node(taints=[HARD_JSON]), False, id="tainted"),
            pytest.param(a_node(taints=[HARD_JSON | {"value": "1600000000"}]), False, id="tainted long ago"),
            pytest.param(a_node(taints=[HARD_JSON], unschedulable=True), True, id="tainted and cordoned"),
        ],
    )
    def test_leaves_a_node_alone_that_has_it(self, bench: Bench, node: dict[str, Any], cordon: bool) -> None:
        bench.api.script(f"GET {NODE}", ok(node))
        assert not bench.writes.add_taint("n1", HARD, cordon=cordon)
        assert [a.method for a in bench.api.asked] == ["GET"]

    def test_on_conflict_reads_again_and_keeps_what_others_wrote(self, bench: Bench) -> None:
        bench.api.script(f"GET {NODE}", ok(a_node("5")), ok(a_node("6", taints=[OTHER])))
        bench.api.script(f"PUT {NODE}", status(409, "changed"), ok({}))
        assert bench.writes.add_taint("n1", HARD)
        assert bench.sent("PUT")[-1] == a_node("6", taints=[OTHER, HARD_JSON])
        assert bench.sleep.slept == [0.75]

    def test_gives_up_after_five_seconds_of_conflicts(self, bench: Bench) -> None:
        bench.api.script(f"GET {NODE}", ok(a_node()))
        bench.api.script(f"PUT {NODE}", status(409, "changed"))
        with pytest.raises(Conflict):
            bench.writes.add_taint("n1", HARD)
        assert bench.sleep.slept == [0.75] * 6

    def test_stops_trying_when_the_program_stops(self, bench: Bench) -> None:
        bench.sleep.stopping = True
        bench.api.script(f"GET {NODE}", ok(a_node()))
        bench.api.script(f"PUT {NODE}", status(409, "changed"))
        with pytest.raises(Conflict):
            bench.writes.add_taint("n1", HARD)
        assert len(bench.sleep.slept) == 1

    def test_of_a_node_that_is_not_there_says_so(self, bench: Bench) -> None:
        bench.api.script(f"GET {NODE}", status(404))
        with pytest.raises(Gone):
            bench.writes.add_taint("n1", HARD)


@pytest.mark.parametrize(
    ("node", "uncordon", "written"),
    [
        pytest.param(
            a_node(taints=[OTHER, HARD_JSON], unschedulable=True),
            True,
            a_node(taints=[OTHER]),
            id="goes, and the cordon with it",
        ),
        pytest.param(
            a_node(taints=[HARD_JSON], unschedulable=True),
            False,
            a_node(taints=[], unschedulable=True),
            id="goes, the cordon stays unless asked for",
        ),
        pytest.param(a_node(unschedulable=True), True, None, id="was not there: the cordon is someone else's"),
    ],
)
def test_untainting(bench: Bench, node: dict[str, Any], uncordon: bool, written: dict[str, Any] | None) -> None:
    bench.api.script(f"GET {NODE}", ok(node))
    bench.api.script(f"PUT {NODE}", ok({}))
    assert bench.writes.remove_taint("n1", HARD.key, uncordon=uncordon) is (written is not None)
    assert bench.sent("PUT") == ([] if written is None else [written])


def test_untainting_a_node_that_is_gone_is_no_work(bench: Bench) -> None:
    bench.api.script(f"GET {NODE}", status(404))
    assert not bench.writes.remove_taint("n1", HARD.key)


def test_annotations_are_set_removed_and_left_alone(bench: Bench) -> None:
    node = a_node()
    node["metadata"]["annotations"] = {"keep": "1", "drop": "2"}
    bench.api.script(f"GET {NODE}", ok(node))
    bench.api.script(f"PUT {NODE}", ok({}))
    assert bench.writes.annotate_node("n1", {"drop": None, "new": "3"})
    assert bench.sent("PUT")[0]["metadata"]["annotations"] == {"keep": "1", "new": "3"}
    assert not bench.writes.annotate_node("n1", {"keep": "1", "absent": None})


class TestEviction:
    def test_names_the_pod_by_uid_and_gives_it_grace(self, bench: Bench) -> None:
        bench.api.script(f"POST {POD}/eviction", ok({}))
        bench.writes.evict("ns", "p", "u1", 30)
        body = bench.sent("POST")[0]
        assert (body["apiVersion"], body["kind"]) == ("policy/v1", "Eviction")
        assert body["metadata"] == {"name": "p", "namespace": "ns"}
        assert body["deleteOptions"]["gracePeriodSeconds"] == 30
        assert body["deleteOptions"]["preconditions"] == {"uid": "u1"}

    def test_without_grace_leaves_the_pods_own(self, bench: Bench) -> None:
        bench.api.script(f"POST {POD}/eviction", ok({}))
        bench.writes.evict("ns", "p", "u1", None)
        assert "gracePeriodSeconds" not in bench.sent("POST")[0]["deleteOptions"]

    def test_a_budget_blocks_it_and_is_asked_once(self, bench: Bench) -> None:
        blocked = status(429, "violates the budget", details={"retryAfterSeconds": 1})
        bench.api.script(f"POST {POD}/eviction", blocked)
        with pytest.raises(Blocked):
            bench.writes.evict("ns", "p", "u1", 30)
        assert len(bench.api.asked) == 1

    @pytest.mark.parametrize(
        ("now_there", "error"),
        [
            pytest.param(status(404), Gone, id="no pod"),
            pytest.param(ok({"metadata": {"uid": "u2"}}), Gone, id="another pod of that name"),
            pytest.param(ok({"metadata": {"uid": "u1"}}), Conflict, id="the same pod"),
        ],
    )
    def test_a_conflict_is_looked_into(self, bench: Bench, now_there: Any, error: type[AutoscalerError]) -> None:
        bench.api.script(f"POST {POD}/eviction", status(409, "precondition failed: uid"))
        bench.api.script(f"GET {POD}", now_there)
        with pytest.raises(error) as raised:
            bench.writes.evict("ns", "p", "u1", 30)
        assert type(raised.value) is error

    def test_names_are_quoted(self, bench: Bench) -> None:
        bench.api.script("POST /api/v1/namespaces/ns/pods/..%2Fnodes/eviction", ok({}))
        bench.writes.evict("ns", "../nodes", "u1", 30)
        assert len(bench.api.asked) == 1


def test_a_pod_is_deleted_by_uid(bench: Bench) -> None:
    bench.api.script(f"DELETE {POD}", ok({}))
    bench.writes.delete_pod("ns", "p", "u1", grace_s=0)
    assert bench.sent("DELETE")[0] == {
        "apiVersion": "v1",
        "kind": "DeleteOptions",
        "gracePeriodSeconds": 0,
        "preconditions": {"uid": "u1"},
    }


def an_event(namespace: str = "ns", count: int = 1) -> EventRecord:
    about = Subject(kind="Pod" if namespace else "Node", name="x", namespace=namespace, uid="u")
    return EventRecord("x.1", about, EventType.WARNING, "ScaleDownFailed", "no", 1_700_000_000, 1_700_000_060, count)


class TestEvents:
    def test_are_stored_beside_their_object(self, bench: Bench) -> None:
        bench.api.script("POST /api/v1/namespaces/ns/events", ok({}))
        bench.writes.create_event(an_event())
        assert bench.sent("POST")[0] == {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {"name": "x.1", "namespace": "ns"},
            "involvedObject": {"apiVersion": "v1", "kind": "Pod", "name": "x", "namespace": "ns", "uid": "u"},
            "type": "Warning",
            "reason": "ScaleDownFailed",
            "message": "no",
            "source": {"component": "cluster-autoscaler"},
            "reportingComponent": "cluster-autoscaler",
            "firstTimestamp": "2023-11-14T22:13:20Z",
            "lastTimestamp": "2023-11-14T22:14:20Z",
            "count": 1,
        }

    def test_of_nodes_go_to_the_default_namespace(self, bench: Bench) -> None:
        bench.api.script("POST /api/v1/namespaces/default/events", ok({}))
        bench.writes.create_event(an_event(namespace=""))
        assert "namespace" not in bench.sent("POST")[0]["involvedObject"]

    def test_that_repeat_are_counted(self, bench: Bench) -> None:
        bench.api.script("PATCH /api/v1/namespaces/ns/events/x.1", ok({}))
        bench.writes.repeat_event(an_event(count=3))
        assert bench.sent("PATCH") == [{"count": 3, "lastTimestamp": "2023-11-14T22:14:20Z", "message": "no"}]
        assert bench.api.asked[0].headers["Content-Type"] == "application/merge-patch+json"

    def test_that_repeat_after_the_old_one_expired_are_stored_anew(self, bench: Bench) -> None:
        bench.api.script("PATCH /api/v1/namespaces/ns/events/x.1", status(404))
        bench.api.script("POST /api/v1/namespaces/ns/events", ok({}))
        bench.writes.repeat_event(an_event(count=3))
        assert bench.sent("POST")[0]["count"] == 3


class TestConfigMap:
    WHERE = "/api/v1/namespaces/kube-system/configmaps/st"

    def test_is_created_when_missing(self, bench: Bench) -> None:
        bench.api.script(f"GET {self.WHERE}", status(404))
        bench.api.script("POST /api/v1/namespaces/kube-system/configmaps", ok({"metadata": {"uid": "u1"}}))
        assert bench.writes.put_config_map("kube-system", "st", {"status": "x"}, {"t": "1"}) == "u1"
        assert bench.sent("POST")[0] == {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": "st", "namespace": "kube-system", "annotations": {"t": "1"}},
            "data": {"status": "x"},
        }

    def test_is_replaced_when_there_and_keeps_what_is_not_ours(self, bench: Bench) -> None:
        held: dict[str, Any] = {
            "metadata": {"name": "st", "resourceVersion": "8", "labels": {"l": "1"}, "annotations": {"other": "2"}},
            "data": {"theirs": "y", "status": "old"},
        }
        bench.api.script(f"GET {self.WHERE}", ok(held))
        bench.api.script(f"PUT {self.WHERE}", ok({}))
        bench.writes.put_config_map("kube-system", "st", {"status": "x"}, {"t": "1"})
        sent = bench.sent("PUT")[0]
        assert sent["data"] == {"theirs": "y", "status": "x"}
        assert sent["metadata"] == held["metadata"] | {"annotations": {"other": "2", "t": "1"}}

    def test_is_read_again_where_somebody_came_between(self, bench: Bench) -> None:
        bench.api.script(f"GET {self.WHERE}", ok({"metadata": {"uid": "u1"}}), ok({"metadata": {"uid": "u2"}}))
        bench.api.script(f"PUT {self.WHERE}", status(409), ok({}))
        assert bench.writes.put_config_map("kube-system", "st", {"status": "x"}) == "u2"
        assert [one["metadata"]["uid"] for one in bench.sent("PUT")] == ["u1", "u2"]

    def test_is_created_where_it_was_deleted_meanwhile(self, bench: Bench) -> None:
        bench.api.script(f"GET {self.WHERE}", ok({"metadata": {"uid": "u1"}}))
        bench.api.script(f"PUT {self.WHERE}", status(404))
        bench.api.script("POST /api/v1/namespaces/kube-system/configmaps", ok({"metadata": {"uid": "u2"}}))
        assert bench.writes.put_config_map("kube-system", "st", {"status": "x"}) == "u2"


DEPLOYMENT = {
    "apiVersion": "apps/v1",
    "kind": "Deployment",
    "metadata": {"name": "headroom", "namespace": "kube-system"},
}
DEPLOYMENT_PATH = "/apis/apps/v1/namespaces/kube-system/deployments/headroom"


class TestObjects:
    def test_are_applied_by_force(self, bench: Bench) -> None:
        bench.api.script(f"PATCH {DEPLOYMENT_PATH}", ok({"applied": True}))
        assert bench.writes.apply(DEPLOYMENT) == {"applied": True}
        asked = bench.api.asked[0]
        assert asked.query == {"fieldManager": "cluster-autoscaler", "force": "true"}
        assert asked.headers["Content-Type"] == "application/apply-patch+yaml"

    def test_are_created_in_their_collection(self, bench: Bench) -> None:
        bench.api.script("POST /api/v1/nodes", ok({}))
        bench.writes.create({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "kwok-1"}})
        assert len(bench.api.asked) == 1

    def test_are_tried_without_being_stored(self, bench: Bench) -> None:
        bench.api.script("POST /api/v1/namespaces/ns/pods", ok({"metadata": {"name": "p"}, "spec": {"priority": 7}}))
        pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "namespace": "ns"}}
        assert bench.writes.try_create(pod)["spec"] == {"priority": 7}
        assert [one.query for one in bench.api.asked] == [{"dryRun": "All"}]

    def test_are_replaced_by_version_only(self, bench: Bench) -> None:
        with pytest.raises(ValueError, match="resourceVersion"):
            bench.writes.replace(DEPLOYMENT)
        assert bench.api.asked == []
        bench.api.script(f"PUT {DEPLOYMENT_PATH}", status(409, "changed"))
        with pytest.raises(Conflict):
            bench.writes.replace(DEPLOYMENT | {"metadata": {**DEPLOYMENT["metadata"], "resourceVersion": "1"}})  # type: ignore[dict-item]

    def test_are_deleted_if_they_are_still_the_same(self, bench: Bench) -> None:
        bench.api.script(f"DELETE {NODE}", ok({}))
        bench.writes.delete(ObjectRef("v1", "Node", "n1"), uid="u", resource_version="9")
        assert bench.sent("DELETE")[0]["preconditions"] == {"uid": "u", "resourceVersion": "9"}

    def test_of_kinds_we_do_not_write_have_no_path(self) -> None:
        with pytest.raises(ValueError, match="no path is known for v1 Secret"):
            collection("v1", "Secret", "ns")


EVERY_WRITE = [
    pytest.param(lambda w: w.evict("ns", "p", "u", 1), id="evict"),
    pytest.param(lambda w: w.delete_pod("ns", "p", "u"), id="delete pod"),
    pytest.param(lambda w: w.add_taint("n1", HARD), id="add taint"),
    pytest.param(lambda w: w.remove_taint("n1", OTHER["key"]), id="remove taint"),
    pytest.param(lambda w: w.annotate_node("n1", {"a": "b"}), id="annotate"),
    pytest.param(lambda w: w.annotate_pod("ns", "p", "u", {"a": None}), id="annotate pod"),
    pytest.param(lambda w: w.create_event(an_event()), id="create event"),
    pytest.param(lambda w: w.repeat_event(an_event()), id="repeat event"),
    pytest.param(lambda w: w.put_config_map("kube-system", "st", {}), id="put config map"),
    pytest.param(lambda w: w.create(DEPLOYMENT), id="create"),
    pytest.param(lambda w: w.try_create(DEPLOYMENT), id="try_create"),
    pytest.param(lambda w: w.replace({**DEPLOYMENT, "metadata": {"name": "x", "resourceVersion": "1"}}), id="replace"),
    pytest.param(lambda w: w.apply(DEPLOYMENT), id="apply"),
    pytest.param(lambda w: w.delete(ObjectRef("v1", "Node", "n1")), id="delete"),
    pytest.param(lambda w: w.edit_status(ObjectRef("v1", "Node", "n1"), "", lambda _: True), id="edit status"),
]


@pytest.mark.parametrize("write", EVERY_WRITE)
def test_nothing_is_written_without_leadership(bench: Bench, write: Callable[[Writes], object]) -> None:
    bench.api.script(f"GET {NODE}", ok(a_node(taints=[OTHER])))
    bench.api.script("GET /api/v1/namespaces/kube-system/configmaps/st", status(404))
    writes = Writes(bench.client, Until(bench.clock.now().mono + 1), bench.clock, bench.sleep)
    with pytest.raises(LeadershipLost):
        write(writes)
    assert {a.method for a in bench.api.asked} <= {"GET"}


def test_every_write_of_the_protocol_is_in_that_test() -> None:
    methods = [name for name in vars(ClusterWrites) if not name.startswith("_")]
    assert len(EVERY_WRITE) == len(methods)


def test_a_write_that_waits_asks_for_leadership_again(bench: Bench) -> None:
    bench.api.script(f"GET {NODE}", ok(a_node()))
    bench.api.script(f"PUT {NODE}", status(409, "changed"))
    writes = Writes(bench.client, Until(bench.clock.now().mono + 4), bench.clock, bench.sleep)
    with pytest.raises(LeadershipLost):
        writes.add_taint("n1", HARD)
    assert 1 < len(bench.sent("PUT")) < 7


class TestLeaseCalls:
    WHERE = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/ca"

    def test_round_trip(self, bench: Bench) -> None:
        stored = {
            "apiVersion": "coordination.k8s.io/v1",
            "kind": "Lease",
            "metadata": {"name": "ca", "namespace": "kube-system", "resourceVersion": "3", "labels": {"a": "b"}},
            "spec": {"holderIdentity": "x", "leaseDurationSeconds": 15, "leaseTransitions": 2},
        }
        bench.api.script(f"GET {self.WHERE}", ok(stored))
        bench.api.script(f"PUT {self.WHERE}", ok(stored))
        leases = LeaseWrites(bench.client)
        lease = leases.read("kube-system", "ca", 5)
        assert lease is not None
        assert lease.spec == ElectionSpec(holder_identity="x", lease_duration_seconds=15, lease_transitions=2)
        assert leases.replace(lease, 5) == lease
        assert bench.sent("PUT") == [stored]

    def test_missing_is_none(self, bench: Bench) -> None:
        bench.api.script(f"GET {self.WHERE}", status(404))
        assert LeaseWrites(bench.client).read("kube-system", "ca", 5) is None

    def test_an_empty_holder_is_written(self, bench: Bench) -> None:
        where = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases"
        bench.api.script(f"POST {where}", ok({"metadata": {}, "spec": {}}))
        LeaseWrites(bench.client).create(ElectionLease.fresh("kube-system", "ca", ElectionSpec(holder_identity="")), 5)
        assert bench.sent("POST")[0]["spec"] == {"holderIdentity": ""}

    def test_garbage_is_a_reason_to_retry(self, bench: Bench) -> None:
        bench.api.script(f"GET {self.WHERE}", ok(["no lease"]))
        with pytest.raises(RetryLater):
            LeaseWrites(bench.client).read("kube-system", "ca", 5)

    def test_do_not_wait_when_the_server_asks_for_patience(self, bench: Bench) -> None:
        bench.api.script(f"GET {self.WHERE}", status(429, "busy", details={"retryAfterSeconds": 5}))
        with pytest.raises(RetryLater):
            LeaseWrites(bench.client).read("kube-system", "ca", 5)
        assert len(bench.api.asked) == 1


class TestStatus:
    PATH = "/apis/autoscaling.x-k8s.io/v1/namespaces/ns/provisioningrequests/r"
    REF = ObjectRef("autoscaling.x-k8s.io/v1", "ProvisioningRequest", "r", "ns")

    def held(self, version: str, **status: Any) -> dict[str, Any]:
        return {"metadata": {"name": "r", "uid": "u", "resourceVersion": version}, "status": status}

    def test_is_written_over_a_conflict_and_keeps_what_others_wrote(self, bench: Bench) -> None:
        bench.api.script(f"GET {self.PATH}", ok(self.held("5")), ok(self.held("6", theirs=1)))
        bench.api.script(f"PUT {self.PATH}/status", status(409, "changed"), ok({}))

        def change(held: dict[str, Any]) -> bool:
            held["status"]["ours"] = 2
            return True

        assert bench.writes.edit_status(self.REF, "u", change)
        assert bench.sent("PUT")[-1] == self.held("6", theirs=1, ours=2)

    def test_of_another_object_of_that_name_is_left_alone(self, bench: Bench) -> None:
        bench.api.script(f"GET {self.PATH}", ok(self.held("5")))
        with pytest.raises(Gone):
            bench.writes.edit_status(self.REF, "another", lambda held: True)
        assert bench.sent("PUT") == []

    def test_that_is_right_is_not_written(self, bench: Bench) -> None:
        bench.api.script(f"GET {self.PATH}", ok(self.held("5")))
        assert not bench.writes.edit_status(self.REF, "u", lambda held: False)
        assert bench.sent("PUT") == []


ODD_ANSWERS = [
    pytest.param(answer, id=text)
    for answer, text in (
        (ok({}), "no metadata"),
        (ok({"metadata": None}), "null metadata"),
        (ok({"metadata": [1]}), "metadata of another shape"),
        (ok({"metadata": {"annotations": 5}}), "annotations of another shape"),
        (ok({"metadata": {"name": "n1"}, "spec": {"taints": [5]}}), "a taint of another shape"),
        (ok({"metadata": {"name": "n1"}, "spec": 7, "data": 7}), "a spec of another shape"),
    )
]


@pytest.mark.parametrize("answer", ODD_ANSWERS)
@pytest.mark.parametrize(
    "write",
    [
        pytest.param(lambda w: w.add_taint("n1", HARD), id="taint"),
        pytest.param(lambda w: w.remove_taint("n1", HARD.key), id="untaint"),
        pytest.param(lambda w: w.annotate_node("n1", {"a": "b"}), id="annotate"),
        pytest.param(lambda w: w.put_config_map("ns", "n1", {"a": "b"}), id="ConfigMap"),
        pytest.param(lambda w: w.edit_status(ObjectRef("v1", "Node", "n1"), "u", lambda held: False), id="status"),
    ],
)
def test_odd_answers_are_asked_for_again(bench: Bench, write: Callable[[Writes], object], answer: Any) -> None:
    for where in (NODE, "/api/v1/namespaces/ns/configmaps/n1"):
        bench.api.script(f"GET {where}", answer)
    try:
        write(bench.writes)
    except (RetryLater, Gone):
        assert bench.sent("PUT") == []
    else:
        raise AssertionError("something was made of it")


def test_a_node_whose_spec_is_null_is_tainted(bench: Bench) -> None:
    bench.api.script(f"GET {NODE}", ok({"metadata": {"name": "n1", "annotations": None}, "spec": None}))
    bench.api.script(f"PUT {NODE}", ok({}))
    assert bench.writes.add_taint("n1", HARD)
    assert bench.sent("PUT")[0]["spec"] == {"taints": [HARD_JSON]}


def test_the_uid_of_a_new_config_map_is_not_needed(bench: Bench) -> None:
    bench.api.script("GET /api/v1/namespaces/ns/configmaps/st", status(404))
    bench.api.script("POST /api/v1/namespaces/ns/configmaps", ok({"metadata": None}))
    assert bench.writes.put_config_map("ns", "st", {}) == ""


@pytest.mark.parametrize("odd", [{"metadata": {}, "spec": None}, {"metadata": {"name": None}}])
def test_a_lease_that_does_not_tell_its_name_can_be_written(bench: Bench, odd: Any) -> None:
    bench.api.script("GET /apis/coordination.k8s.io/v1/namespaces/ns/leases/ca", ok(odd))
    lease = LeaseWrites(bench.client).read("ns", "ca", 1.0)
    assert lease is not None
    assert lease.path == "/apis/coordination.k8s.io/v1/namespaces/ns/leases/ca"
