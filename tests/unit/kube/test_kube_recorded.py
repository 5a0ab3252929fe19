"""Client, reflectors, writes, election and `plan` against what a real API server said."""

import json
import logging
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from autoscaler.app.watched_cluster import WatchedCluster
from autoscaler.cli.main import main
from autoscaler.clock import SystemClock, VirtualClock
from autoscaler.config.load import load
from autoscaler.errors import AutoscalerError, Blocked, Conflict, Gone, Refused, RetryLater
from autoscaler.kube.call import JSON, Call
from autoscaler.kube.client import Client
from autoscaler.kube.election import LeaderElection, Unopposed
from autoscaler.kube.feed import ClusterFeed
from autoscaler.kube.lease import LeasePhase, LeaseState, LeaseTimings
from autoscaler.kube.lease_writes import LeaseWrites
from autoscaler.kube.listing import read_all
from autoscaler.kube.paths import ObjectRef
from autoscaler.kube.store import Store
from autoscaler.kube.watch import KindSource, Reflector
from autoscaler.kube.writes import Writes
from autoscaler.objects.decode import WatchEventType
from autoscaler.objects.node import Taint, node_decoder
from autoscaler.objects.pod_interner import PodInterner
from tests.recorded_api import Exchange, RecordedApi, collection, exchanges, recorded_api
from tests.unit.kube.scripted import PATIENCE_S, Reply, Sleeps, client_of

PODS = "/api/v1/pods"
EVERYTHING = (
    "--expander=priority",
    "--enable-provisioning-requests",
    "--capacity-buffer-controller-enabled",
    "--enable-dynamic-resource-allocation",
)


@pytest.fixture
def api() -> Iterator[RecordedApi]:
    with recorded_api() as running:
        yield running


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock(wall=1_700_000_000, mono=100)


@pytest.fixture
def client(api: RecordedApi, clock: VirtualClock) -> Iterator[Client]:
    with client_of(api.url, clock) as connected:
        yield connected


@pytest.fixture
def writes(client: Client, clock: VirtualClock) -> Writes:
    return Writes(client, Unopposed(), clock, Sleeps(clock))


def names(items: list[Any]) -> set[str]:
    """`namespace/name` or name of objects as they come over the wire."""
    found = [item["metadata"] for item in items]
    return {f"{m['namespace']}/{m['name']}" if m.get("namespace") else m["name"] for m in found}


# The client


def send(client: Client, exchange: Exchange) -> bytes:
    question = exchange.request
    path, query = question.place, question.query
    call = Call(eviction=path.endswith("/eviction"), repeatable=False, accept=question.accept)
    match question.method:
        case "GET":
            return client.get(path, query, call)
        case "POST":
            return client.post(path, question.data or b"", call)
        case "PUT":
            return client.put(path, question.data or b"", call)
        case "DELETE":
            return client.delete(path, question.data, call)
    return client.patch(path, question.data or b"", question.content_type, call, query)


REFUSALS: dict[str, type[AutoscalerError]] = {
    "create-event-wrong-namespace": Refused,
    "create-exists": Conflict,
    "create-in-missing-namespace": Gone,
    "create-malformed": Refused,
    "create-too-large": Refused,
    "delete-node-again": Gone,
    "delete-node-wrong-uid": Conflict,
    "evict-absent": Gone,
    "evict-blocked-by-budget": Blocked,
    "evict-two-budgets": RetryLater,
    "evict-wrong-uid": Conflict,
    "forbidden-get": Refused,
    "forbidden-list": Refused,
    "get-node-absent": Gone,
    "get-pod-absent": Gone,
    "list-bad-continue": Refused,
    "list-expired-continue": Gone,
    "list-future-resource-version": RetryLater,
    "list-kind-absent": Gone,
    "list-pods-bad-field": Refused,
    "list-pods-bad-selector": Refused,
    "list-pods-expired-version": Gone,
    "patch-node-json-test-fails": Refused,
    "patch-node-merge-wrong-uid": Conflict,
    "put-lease-conflict": Conflict,
    "put-node-conflict": Conflict,
    "put-node-invalid": Refused,
    "unauthorized": Refused,
}
"""What the caller gets for each refusal."""


def test_every_recorded_refusal_has_its_meaning() -> None:
    assert {e.name for e in exchanges().values() if e.response.status >= 400} == REFUSALS.keys()


@pytest.mark.parametrize("name", REFUSALS)
def test_a_refusal_reaches_the_caller_with_its_meaning_and_the_servers_words(
    api: RecordedApi, client: Client, name: str
) -> None:
    exchange = exchanges()[name]
    api.expect(name)
    with pytest.raises(AutoscalerError) as caught:
        send(client, exchange)
    assert type(caught.value) is REFUSALS[name]
    assert f"HTTP {exchange.response.status}: {exchange.response.json['message'][:400]}" in str(caught.value)
    if isinstance(caught.value, Refused):
        assert caught.value.status == exchange.response.status
    if isinstance(caught.value, RetryLater):
        wish = exchange.response.headers.get("Retry-After")
        assert caught.value.retry_after_s == (float(wish) if wish else None)


def test_a_budget_that_forbids_an_eviction_is_named(api: RecordedApi, writes: Writes) -> None:
    api.expect("evict-blocked-by-budget")
    with pytest.raises(Blocked, match="disruption budget all needs 2 healthy pods and has 0 currently"):
        writes.evict("shop", "bound-pod", "", None)


def test_a_wish_to_wait_in_the_body_alone_counts(api: RecordedApi, client: Client) -> None:
    exchange = exchanges()["list-future-resource-version"]
    api.script(f"GET {PODS}", Reply(504, exchange.response.body.encode()))
    with pytest.raises(RetryLater) as caught:
        send(client, exchange)
    assert caught.value.retry_after_s == 1.0


@pytest.mark.parametrize("name", [e.name for e in exchanges().values() if e.response.status < 300])
def test_an_answer_arrives_as_it_was_sent(api: RecordedApi, client: Client, name: str) -> None:
    exchange = exchanges()[name]
    api.expect(name)
    if exchange.response.lines is None:
        assert send(client, exchange) == exchange.response.body.encode()
        return
    question = exchange.request
    with client.watch(question.place, question.query, JSON, PATIENCE_S) as stream:
        lines = [line for batch in stream.batches() for line in batch]
    assert lines == [line.strip().encode() for line in exchange.response.lines]


def test_what_the_server_warns_of_is_logged_once(
    api: RecordedApi, client: Client, caplog: pytest.LogCaptureFixture
) -> None:
    exchange = exchanges()["create-unknown-field-warning"]
    for _ in range(2):
        api.expect(exchange.name)
        with caplog.at_level(logging.WARNING):
            send(client, exchange)
    assert [(record.getMessage(), vars(record)["fields"]) for record in caplog.records] == [
        (
            "kube.server_warns",
            {"call": "POST /api/v1/namespaces/shop/configmaps", "warning": 'unknown field "nope"'},
        )
    ]


# Lists and watches


def test_every_followed_kind_is_listed_and_kept(api: RecordedApi) -> None:
    one_map = "GET /api/v1/namespaces/kube-system/configmaps"
    for _ in range(2):
        api.script(one_map, Reply(200, exchanges()["list-configmaps"].reply.body))
    with client_of(api.url, VirtualClock()) as client:
        feed = ClusterFeed(client, SystemClock())
        source = WatchedCluster(feed, PodInterner(), load(EVERYTHING))
        feed.start()
        try:
            assert feed.wait_synced(PATIENCE_S) == {}
            assert {path: s.last_error for path, s in feed.stats().items() if s.last_error} == {}
            related = msgspec.structs.asdict(source.related())
            snapshots = {**related, "nodes": source.nodes.snapshot(), "pods": source.pods.snapshot()}
            listed = {kind: names(collection(f"list-{name}")["items"]) for kind, name in KEPT.items()}
            # Pods come and go in the recorded watch, which may be through by now or not.
            assert {kind: set(snapshots[kind]) - {"shop/late"} for kind in KEPT} == listed
        finally:
            assert feed.stop()


KEPT = {
    "nodes": "nodes",
    "pods": "pods",
    "config_maps": "configmaps",
    "namespaces": "namespaces",
    "budgets": "poddisruptionbudgets",
    "daemon_sets": "daemonsets",
    "replica_sets": "replicasets",
    "stateful_sets": "statefulsets",
    "replication_controllers": "replicationcontrollers",
    "jobs": "jobs",
    "claims": "persistentvolumeclaims",
    "volumes": "persistentvolumes",
    "storage_classes": "storageclasses",
    "csi_nodes": "csinodes",
    "resource_slices": "resourceslices",
    "resource_claims": "resourceclaims",
    "provisioning_requests": "provisioningrequests",
    "capacity_buffers": "capacitybuffers",
    "pod_templates": "podtemplates",
    "resource_quotas": "resourcequotas",
}
"""Recorded list of each kind that `Related` or the source keeps."""


class Followed:
    """The pods, followed step by step on this thread."""

    def __init__(self, api: RecordedApi, client: Client, clock: VirtualClock) -> None:
        self.api = api
        self.store: Store[Any] = Store()
        source = KindSource(PODS, PodInterner().decoder())
        self.reflector = Reflector(source, self.store, client, clock)

    def step(self) -> float:
        return self.reflector.step()

    @property
    def keys(self) -> set[str]:
        return set(self.store.snapshot())

    def asked(self) -> list[dict[str, str]]:
        """The queries of the lists and watches so far, without what is the same in each."""
        same = ("limit", "watch", "allowWatchBookmarks", "timeoutSeconds")
        return [{k: v for k, v in a.query.items() if k not in same} for a in self.api.asked]


@pytest.fixture
def followed(api: RecordedApi, client: Client, clock: VirtualClock) -> Followed:
    return Followed(api, client, clock)


ALL_PODS = names(collection("list-pods")["items"])


def test_chunks_are_joined(followed: Followed, client: Client) -> None:
    first, second = (collection(f"list-pods-{which}-chunk") for which in ("first", "next"))
    last = json.dumps({**collection("list-pods"), "items": collection("list-pods")["items"][4:]}).encode()
    followed.api.expect("list-pods-first-chunk", "list-pods-next-chunk")
    followed.api.script(f"GET {PODS}", Reply(200, last))
    followed.api.expect("watch-pods")
    followed.step()
    tokens = [page["metadata"]["continue"] for page in (first, second)]
    assert [query.get("continue") for query in followed.asked()[:3]] == [None, *tokens]
    assert followed.keys == ALL_PODS


def test_a_list_whose_token_expires_twice_is_asked_for_at_once(followed: Followed) -> None:
    chunked = ("list-pods-first-chunk", "list-expired-continue")
    followed.api.expect(*chunked, *chunked, "list-pods", "watch-pods")
    followed.step()
    limits = [asked.query.get("limit") for asked in followed.api.asked[:5]]
    assert limits == ["500", "500", "500", "500", None]
    assert followed.keys == ALL_PODS


def test_a_one_time_read_whose_token_expires_is_made_at_once(api: RecordedApi, client: Client) -> None:
    api.expect("list-pods-first-chunk", "list-expired-continue", "list-pods")
    assert [names(json.loads(body)["items"]) for body in read_all(client, PODS)] == [ALL_PODS]


def test_live_events_come_after_the_list_and_bookmarks_move_the_version(followed: Followed) -> None:
    followed.api.expect("list-pods", "watch-pods", "watch-pods")
    followed.step()
    assert followed.keys == ALL_PODS, "the pod that came is gone again"
    assert followed.reflector.stats.events == 5
    followed.step()
    assert [query.get("resourceVersion") for query in followed.asked()] == [None, "451", "509"]


def test_a_pod_is_kept_until_its_end(followed: Followed) -> None:
    lines = [line.encode() for line in exchanges()["watch-pods"].response.lines or ()]
    followed.api.expect("list-pods")
    followed.api.script(f"GET {PODS}", Reply(chunks=lines[:4]), Reply(chunks=lines[4:]))
    followed.step()
    assert followed.keys == {*ALL_PODS, "shop/late"}
    followed.step()
    assert followed.keys == ALL_PODS


def test_an_expired_watch_is_followed_by_a_new_list(followed: Followed) -> None:
    followed.api.expect("list-pods", "watch-pods", "watch-expired", "list-pods", "watch-pods")
    followed.step()
    assert followed.step() == 0.0, "a version that served before is worth a list at once"
    followed.step()
    assert [query.get("resourceVersion") for query in followed.asked()] == [None, "451", "509", None, "451"]
    assert followed.reflector.stats.relists == 2
    assert followed.keys == ALL_PODS


@pytest.mark.parametrize("name", ["watch-pods-initial-events", "watch-pods", "watch-bookmarks", "watch-expired"])
def test_each_line_of_a_watch_is_understood(name: str) -> None:
    decoder = PodInterner().decoder()
    for line in exchanges()[name].response.lines or ():
        wire, change = json.loads(line), decoder.change(line.encode())
        if change.verb is WatchEventType.ERROR:
            assert (change.code, change.message) == (410, wire["object"]["message"])
            continue
        assert change.resource_version == wire["object"]["metadata"]["resourceVersion"]
        assert (change.item is None) is (change.verb is WatchEventType.BOOKMARK)


# Writes


TAINT = Taint("ToBeDeletedByClusterAutoscaler", "NoSchedule", "1700000000")


def sent(api: RecordedApi, method: str) -> list[Any]:
    return [asked.json for asked in api.asked if asked.method == method]


def test_a_taint_leaves_everything_else_of_the_node_as_it_was(api: RecordedApi, writes: Writes) -> None:
    api.expect("get-node", "put-node-taint")
    assert writes.add_taint("full", TAINT)
    node = exchanges()["get-node"].response.json
    node["spec"]["taints"].append(msgspec.to_builtins(TAINT))
    assert sent(api, "PUT") == [node]


def test_a_conflict_makes_it_look_again(api: RecordedApi, writes: Writes) -> None:
    api.expect("get-node", "put-node-conflict", "put-node-taint")
    later = exchanges()["get-node"].response.body.replace('"resourceVersion":"356"', '"resourceVersion":"451"')
    api.script("GET /api/v1/nodes/full", Reply(200, later.encode()))
    assert writes.add_taint("full", TAINT)
    assert [node["metadata"]["resourceVersion"] for node in sent(api, "PUT")] == ["356", "451"]


def test_an_invalid_write_is_refused_once_and_for_all(api: RecordedApi, writes: Writes) -> None:
    api.expect("get-node", "put-node-invalid")
    with pytest.raises(Refused, match="name part must consist of"):
        writes.add_taint("full", TAINT)
    assert len(sent(api, "PUT")) == 1


def test_a_patch_of_an_object_whose_name_another_has_finds_it_gone(api: RecordedApi, writes: Writes) -> None:
    refusal = exchanges()["patch-node-merge-wrong-uid"].response
    api.script("PATCH /api/v1/namespaces/shop/pods/everything", Reply(422, refusal.body.encode()))
    with pytest.raises(Gone, match="another has its name"):
        writes.annotate_pod("shop", "everything", "nope", {"a": "b"})


def test_deleting_the_wrong_object_is_a_conflict_and_an_absent_one_gone(api: RecordedApi, writes: Writes) -> None:
    api.expect("delete-node-wrong-uid", "delete-node", "delete-node-again")
    with pytest.raises(Conflict):
        writes.delete(ObjectRef("v1", "Node", "bare"), uid="nope")
    writes.delete(ObjectRef("v1", "Node", "cordoned"))
    with pytest.raises(Gone):
        writes.delete(ObjectRef("v1", "Node", "cordoned"))


def test_an_eviction_of_the_wrong_uid_finds_the_pod_gone(api: RecordedApi, writes: Writes) -> None:
    api.expect("evict-wrong-uid")
    api.script("GET /api/v1/namespaces/shop/pods/held", Reply(200, exchanges()["get-pod-terminating"].reply.body))
    with pytest.raises(Gone, match="another has its name"):
        writes.evict("shop", "held", "nope", None)


# The lease


def an_election(
    client: Client, clock: VirtualClock, name: str = "cluster-autoscaler"
) -> tuple[LeaseState, LeaderElection]:
    state = LeaseState("me_2", LeaseTimings(), name=name, rng=random.Random(1))
    return state, LeaderElection(state, LeaseWrites(client), clock, lambda: None)


LEASES = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases"
LEASE = f"{LEASES}/cluster-autoscaler"


def ticks(election: LeaderElection, clock: VirtualClock, seconds: float) -> None:
    until = clock.now().mono + seconds
    while clock.now().mono < until and (pause_s := election.tick()) is not None:
        clock.advance(max(pause_s, 0.001))


def a_lease(name: str) -> Reply:
    """One of the listed leases, as a get would answer."""
    found = next(item for item in collection("list-leases")["items"] if item["metadata"]["name"] == name)
    return Reply(200, json.dumps({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", **found}).encode())


def test_a_lease_that_another_let_lapse_is_taken_over(api: RecordedApi, client: Client, clock: VirtualClock) -> None:
    _, election = an_election(client, clock)
    for _ in range(10):
        api.script(f"GET {LEASE}", a_lease("cluster-autoscaler"))
    api.script(f"PUT {LEASE}", exchanges()["put-lease"].reply)
    ticks(election, clock, 10)
    assert (election.is_leading, election.holder) == (False, "other_1")
    ticks(election, clock, 7)
    assert election.is_leading
    record = sent(api, "PUT")[0]
    assert record["metadata"]["resourceVersion"] == "311"
    assert record["metadata"]["annotations"], "what others wrote to the Lease is kept"
    assert (record["spec"]["holderIdentity"], record["spec"]["leaseTransitions"]) == ("me_2", 4)


def test_a_lease_that_another_was_faster_to_take_is_left_alone(
    api: RecordedApi, client: Client, clock: VirtualClock
) -> None:
    state, election = an_election(client, clock)
    for _ in range(12):
        api.script(f"GET {LEASE}", a_lease("cluster-autoscaler"))
    api.expect("put-lease-conflict")
    ticks(election, clock, 17)
    assert len(sent(api, "PUT")) == 1
    assert state.phase is LeasePhase.STANDBY


def test_an_empty_lease_is_free(api: RecordedApi, client: Client, clock: VirtualClock) -> None:
    state, election = an_election(client, clock, "empty")
    path = f"{LEASES}/empty"
    api.script(f"GET {path}", a_lease("empty"))
    api.script(f"PUT {path}", exchanges()["put-lease"].reply)
    ticks(election, clock, 1)
    assert state.phase is LeasePhase.LEADING


def test_a_lease_that_is_not_there_is_created(api: RecordedApi, client: Client, clock: VirtualClock) -> None:
    state, election = an_election(client, clock)
    api.script(f"GET {LEASE}", exchanges()["get-node-absent"].reply)
    api.script(f"POST {LEASES}", Reply(201, exchanges()["put-lease"].reply.body))
    ticks(election, clock, 1)
    assert state.phase is LeasePhase.LEADING
    assert sent(api, "POST")[0]["spec"]["leaseTransitions"] == 0


# The whole program


def test_a_plan_for_the_recorded_cluster_is_made(
    api: RecordedApi, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    kubeconfig = tmp_path / "kubeconfig"
    cluster = {"name": "c", "cluster": {"server": api.url}}
    context = {"name": "c", "context": {"cluster": "c", "user": ""}}
    config = {"apiVersion": "v1", "kind": "Config", "current-context": "c"}
    kubeconfig.write_text(json.dumps({**config, "clusters": [cluster], "contexts": [context]}))
    assert main(["plan", "-o", "json", "--kubeconfig", str(kubeconfig)]) == 0
    run = json.loads(capsys.readouterr().out)["runs"][0]
    assert run["unremovable"].keys() >= {"full", "bare"}
    assert {asked.method for asked in api.asked} == {"GET"}


def test_a_kind_is_not_taken_for_absent_before_its_older_versions_are_asked_for(
    api: RecordedApi, client: Client, clock: VirtualClock
) -> None:
    newest, older = (f"/apis/resource.k8s.io/{version}/deviceclasses" for version in ("v1", "v1beta1"))
    store: Store[Any] = Store()
    source = KindSource(newest, node_decoder(), optional=True, older_paths=(older,))
    reflector = Reflector(source, store, client, clock)
    assert (reflector.step(), reflector.has_synced) == (0.0, False)
    api.script(f"GET {older}", exchanges()["list-deviceclasses"].reply, Reply(chunks=[]))
    reflector.step()
    assert (reflector.has_synced, set(store.snapshot())) == (True, {"gpu"})
