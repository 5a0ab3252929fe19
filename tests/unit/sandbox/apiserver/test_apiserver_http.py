import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import urllib3
from kubernetes import client, config, watch

from autoscaler.clock import SystemClock
from autoscaler.sandbox.apiserver.faults import Fault
from autoscaler.sandbox.apiserver.request_log import RbacRule
from autoscaler.sandbox.apiserver.server import ApiServer
from autoscaler.sandbox.apiserver.storage import Storage
from tests.manifests import a_bare_pod
from tests.unit.sandbox.apiserver.apiserver_objects import Json, a_config, a_definition, run_on

TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json"
CONFIGS = "/api/v1/namespaces/default/configmaps"


class Client:
    """One keep-alive connection to a server, without retries."""

    def __init__(self, server: ApiServer) -> None:
        self._url = server.url
        self._pool = urllib3.PoolManager(retries=False, timeout=10, maxsize=2)

    def ask(self, method: str, path: str, body: Any = None, **headers: str) -> tuple[int, Json]:
        response = self.raw(method, path, body, **headers)
        return response.status, json.loads(response.data)

    def raw(self, method: str, path: str, body: Any = None, **headers: str) -> urllib3.BaseHTTPResponse:
        data = None if body is None else json.dumps(body).encode()
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        return self._pool.request(method, self._url + path, body=data, headers=named)

    def watch(self, path: str) -> Iterator[Json]:
        response = self._pool.request("GET", self._url + path, preload_content=False)
        try:
            pending = b""
            for chunk in response.stream(65536):
                *lines, pending = (pending + chunk).split(b"\n")
                yield from (json.loads(line) for line in lines)
        finally:
            response.close()
            response.release_conn()

    def close(self) -> None:
        self._pool.clear()


@pytest.fixture
def storage() -> Storage:
    return Storage(SystemClock(), history_limit=50)


@pytest.fixture
def server(storage: Storage) -> Iterator[ApiServer]:
    with ApiServer(storage, bookmark_every_s=0.05) as server:
        yield server


@pytest.fixture
def http(server: ApiServer) -> Iterator[Client]:
    http = Client(server)
    yield http
    http.close()


def test_crud_over_one_connection(http: Client) -> None:
    assert http.ask("POST", CONFIGS, a_config(a="1"))[0] == 201
    code, found = http.ask("GET", f"{CONFIGS}/c")
    assert (code, found["kind"], found["data"]) == (200, "ConfigMap", {"a": "1"})
    code, listed = http.ask("GET", CONFIGS)
    assert (listed["kind"], [sorted(one) for one in listed["items"]]) == ("ConfigMapList", [["data", "metadata"]])
    merge = "application/merge-patch+json"
    assert http.ask("PATCH", f"{CONFIGS}/c", {"data": {"a": "2"}}, Content_Type=merge)[1]["data"] == {"a": "2"}
    assert http.ask("PUT", f"{CONFIGS}/c", found)[0] == 409
    code, status = http.ask("DELETE", f"{CONFIGS}/c")
    assert (code, status["status"], status["details"]["kind"]) == (200, "Success", "configmaps")
    code, status = http.ask("GET", f"{CONFIGS}/c")
    assert (code, status["kind"], status["reason"]) == (404, "Status", "NotFound")


@pytest.mark.parametrize(
    ("method", "path", "body", "code"),
    [
        ("GET", "/api/v1/unicorns", None, 404),
        ("GET", "/nowhere", None, 404),
        ("DELETE", "/api/v1/bindings", None, 405),
        ("POST", CONFIGS, [1], 400),
        ("POST", f"{CONFIGS}?dryRun=Some", {}, 400),
        ("PATCH", f"{CONFIGS}/c", {}, 415),
        ("GET", "/api/v1/pods?fieldSelector=spec.color=red", None, 400),
        ("GET", "/api/v1/pods?limit=two", None, 400),
        ("GET", "/api/v1/pods?continue=nonsense", None, 400),
        ("GET", "/api/v1/pods?resourceVersion=999999&resourceVersionMatch=NotOlderThan", None, 504),
        ("GET", "/api/v1/namespaces/default/pods/x/log", None, 404),
    ],
)
def test_refusals_are_statuses(http: Client, method: str, path: str, body: Any, code: int) -> None:
    answered, status = http.ask(method, path, body)
    assert (answered, status["kind"], status["code"]) == (code, "Status", code)


def test_lists_come_in_pages_until_history_is_compacted(http: Client, storage: Storage) -> None:
    for i in range(5):
        storage.create("configmaps", a_config(f"c{i}"))
    _, first = http.ask("GET", f"{CONFIGS}?limit=2")
    assert (len(first["items"]), first["metadata"]["remainingItemCount"]) == (2, 3)
    token = first["metadata"]["continue"]
    _, second = http.ask("GET", f"{CONFIGS}?limit=2&continue={token}")
    assert [one["metadata"]["name"] for one in second["items"]] == ["c2", "c3"]
    assert second["metadata"]["resourceVersion"] == first["metadata"]["resourceVersion"]
    storage.create("configmaps", a_config("more"))
    storage.compact()
    code, status = http.ask("GET", f"{CONFIGS}?limit=2&continue={token}")
    assert (code, status["reason"]) == (410, "Expired")


def test_watches_stream_changes_bookmarks_and_end_in_time(http: Client, storage: Storage) -> None:
    storage.create("configmaps", a_config("before"))
    path = f"{CONFIGS}?watch=1&allowWatchBookmarks=true&timeoutSeconds=1"
    seen: list[Json] = []
    for event in http.watch(path):
        if not seen:
            storage.patch("configmaps", "before", {"data": {"a": "1"}})
        seen.append(event)
    types = [event["type"] for event in seen]
    assert [one for one in types if one != "BOOKMARK"] == ["ADDED", "MODIFIED"]
    assert types[-1] == "BOOKMARK"
    assert seen[-1]["object"]["metadata"]["resourceVersion"] == str(storage.revision)


def test_a_watch_list_marks_the_end_of_what_exists(http: Client, storage: Storage) -> None:
    storage.create("configmaps", a_config())
    query = "watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true&timeoutSeconds=1"
    events = http.watch(f"{CONFIGS}?{query}")
    first, mark = next(events), next(events)
    assert (first["type"], mark["type"]) == ("ADDED", "BOOKMARK")
    assert mark["object"]["metadata"]["annotations"]["k8s.io/initial-events-end"] == "true"
    list(events)


def test_a_watch_from_forgotten_history_gets_one_error_event(http: Client, storage: Storage) -> None:
    since = storage.revision
    storage.create("configmaps", a_config())
    storage.compact()
    (event,) = http.watch(f"{CONFIGS}?watch=1&resourceVersion={since}")
    assert (event["type"], event["object"]["code"], event["object"]["reason"]) == ("ERROR", 410, "Expired")


def test_tables_and_metadata(http: Client, storage: Storage) -> None:
    storage.create("pods", a_bare_pod())
    _, table = http.ask("GET", "/api/v1/pods", Accept=TABLE)
    assert [column_definition["name"] for column_definition in table["columnDefinitions"][:4]] == [
        "Name",
        "Ready",
        "Status",
        "Restarts",
    ]
    assert table["rows"][0]["cells"][:4] == ["p", "0/1", "Pending", "0"]
    partial = "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io"
    _, listed = http.ask("GET", "/api/v1/pods", Accept=partial)
    assert sorted(listed["items"][0]) == ["apiVersion", "kind", "metadata"]
    assert http.ask("GET", "/api/v1/pods", Accept="text/html")[0] == 406


def test_events_are_served_under_two_groups(http: Client) -> None:
    event = {"metadata": {"name": "e"}, "regarding": {"kind": "Pod", "name": "p"}, "note": "hello", "type": "Normal"}
    code, created = http.ask("POST", "/apis/events.k8s.io/v1/namespaces/default/events", event)
    assert (code, created["note"]) == (201, "hello")
    _, core = http.ask("GET", "/api/v1/events?fieldSelector=involvedObject.name=p")
    assert core["items"][0]["message"] == "hello"
    _, newer = http.ask("GET", "/apis/events.k8s.io/v1/events")
    assert (newer["items"][0]["note"], newer["items"][0]["apiVersion"]) == ("hello", "events.k8s.io/v1")


def test_autoscalers_are_served_in_two_versions(http: Client) -> None:
    place = "namespaces/default/horizontalpodautoscalers"
    spec = {"scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}, "maxReplicas": 5}
    body = {"metadata": {"name": "web"}, "spec": {**spec, "targetCPUUtilizationPercentage": 60}}
    code, made = http.ask("POST", f"/apis/autoscaling/v1/{place}", body)
    assert (code, made["apiVersion"], made["spec"]["targetCPUUtilizationPercentage"]) == (201, "autoscaling/v1", 60)
    _, second = http.ask("GET", f"/apis/autoscaling/v2/{place}/web")
    target = {"type": "Utilization", "averageUtilization": 60}
    assert second["spec"]["metrics"] == [{"type": "Resource", "resource": {"name": "cpu", "target": target}}]
    _, listed = http.ask("GET", f"/apis/autoscaling/v1/{place}")
    assert listed["items"][0]["spec"] == {**spec, "minReplicas": 1, "targetCPUUtilizationPercentage": 60}


class TestUsage:
    """`kubectl top` asks for what runs."""

    @pytest.fixture(autouse=True)
    def pods(self, storage: Storage) -> None:
        storage.create("nodes", {"metadata": {"name": "n1"}})
        for name, cpu in (("busy", "2"), ("idle", None), ("waiting", "1")):
            pod = a_bare_pod(name, labels={"app": name})
            if cpu is not None:
                pod["spec"]["containers"][0]["resources"] = {"requests": {"cpu": cpu, "memory": "1Gi"}}
            storage.create("pods", pod)
        for name in ("busy", "idle"):
            run_on(storage, name, "n1")

    def test_of_pods_that_run(self, http: Client) -> None:
        _, listed = http.ask("GET", "/apis/metrics.k8s.io/v1beta1/pods")
        assert listed["kind"] == "PodMetricsList"
        used = {item["metadata"]["name"]: item["containers"] for item in listed["items"]}
        assert set(used) == {"busy", "idle"}
        assert 600 <= int(used["busy"][0]["usage"]["cpu"].removesuffix("m")) <= 1400
        assert used["idle"] == [{"name": "main", "usage": {"cpu": "5m", "memory": "16384Ki"}}]

    def test_selected_as_pods_are(self, http: Client) -> None:
        _, listed = http.ask("GET", "/apis/metrics.k8s.io/v1beta1/namespaces/default/pods?labelSelector=app%3Dbusy")
        assert [item["metadata"]["name"] for item in listed["items"]] == ["busy"]
        code, one = http.ask("GET", "/apis/metrics.k8s.io/v1beta1/namespaces/default/pods/busy")
        assert (code, one["kind"], one["containers"]) == (200, "PodMetrics", listed["items"][0]["containers"])

    def test_of_nodes_is_more_than_that_of_their_pods(self, http: Client) -> None:
        _, pod = http.ask("GET", "/apis/metrics.k8s.io/v1beta1/namespaces/default/pods/busy")
        code, node = http.ask("GET", "/apis/metrics.k8s.io/v1beta1/nodes/n1")
        cpu = [int(usage["cpu"].removesuffix("m")) for usage in (node["usage"], pod["containers"][0]["usage"])]
        assert (code, node["kind"]) == (200, "NodeMetrics")
        assert cpu[0] > cpu[1]

    @pytest.mark.parametrize("path", ["namespaces/default/pods/waiting", "namespaces/default/pods/none", "nodes/n9"])
    def test_of_what_does_not_run_there_is_none(self, http: Client, path: str) -> None:
        code, told = http.ask("GET", f"/apis/metrics.k8s.io/v1beta1/{path}")
        assert (code, told["reason"]) == (404, "NotFound")


def test_discovery_grows_with_definitions(http: Client, storage: Storage) -> None:
    assert http.ask("GET", "/apis/example.com/v1")[0] == 404
    storage.create("customresourcedefinitions", a_definition())
    _, resources = http.ask("GET", "/apis/example.com/v1")
    assert resources["resources"][0]["name"] == "widgets"
    aggregated = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
    _, groups = http.ask("GET", "/apis", Accept=aggregated)
    assert "example.com" in [one["metadata"]["name"] for one in groups["items"]]
    _, document = http.ask("GET", "/openapi/v3/apis/example.com/v1")
    assert "com.example.v1.Widget" in document["components"]["schemas"]


def test_bodies_are_bounded(http: Client) -> None:
    code, status = http.ask("POST", CONFIGS, a_config(a="x" * (4 * 1024 * 1024)))
    assert (code, status["reason"]) == (413, "RequestEntityTooLarge")


def test_a_token_is_asked_for_but_not_by_probes(storage: Storage) -> None:
    with ApiServer(storage, token="secret") as server:
        http = Client(server)
        assert http.ask("GET", "/api/v1/pods")[0] == 401
        assert http.ask("GET", "/api/v1/pods", Authorization="Bearer secret")[0] == 200
        assert http.raw("GET", "/readyz").data == b"ok"
        http.close()


def test_requests_are_recorded_in_the_words_of_rbac(http: Client, server: ApiServer) -> None:
    http.ask("GET", "/apis/apps/v1/deployments", User_Agent="tester/1")
    http.ask("GET", "/apis/apps/v1/namespaces/default/deployments/x/scale")
    assert server.requests.counts()[RbacRule("apps", "deployments", "scale", "get")] == 1
    assert server.requests.count("list", "deployments") == 1
    (entry,) = server.requests.entries(user_agent="tester")
    assert (entry.verb, entry.group, entry.resource) == ("list", "apps", "deployments")


class TestFaults:
    @pytest.mark.parametrize("code", [409, 410, 429, 500, 503])
    def test_a_refusal_hits_as_often_as_told(self, http: Client, server: ApiServer, code: int) -> None:
        server.faults.add(Fault(verb="list", resource="pods", code=code, times=1, retry_after_s=3))
        response = http.raw("GET", "/api/v1/pods")
        assert (response.status, response.headers["Retry-After"]) == (code, "3")
        assert http.ask("GET", "/api/v1/nodes")[0] == 200
        assert http.ask("GET", "/api/v1/pods")[0] == 200

    def test_a_dropped_connection(self, http: Client, server: ApiServer) -> None:
        server.faults.add(Fault(drop=True, times=1))
        with pytest.raises(urllib3.exceptions.ProtocolError):
            http.ask("GET", "/api/v1/pods")
        assert http.ask("GET", "/api/v1/pods")[0] == 200

    def test_a_watch_torn_in_the_middle_of_a_line(self, http: Client, server: ApiServer, storage: Storage) -> None:
        for i in range(3):
            storage.create("configmaps", a_config(f"c{i}"))
        server.faults.add(Fault(verb="watch", watch_lines=1, times=1))
        events = http.watch(f"{CONFIGS}?watch=1")
        assert next(events)["object"]["metadata"]["name"] == "c0"
        with pytest.raises(urllib3.exceptions.ProtocolError):
            next(events)

    def test_a_watch_that_ends_with_an_error_event(self, http: Client, server: ApiServer, storage: Storage) -> None:
        storage.create("configmaps", a_config())
        server.faults.add(Fault(verb="watch", watch_lines=1, code=410))
        assert [event["type"] for event in http.watch(f"{CONFIGS}?watch=1")] == ["ADDED", "ERROR"]

    def test_down_cuts_watches_and_refuses_until_up(self, http: Client, server: ApiServer, storage: Storage) -> None:
        storage.create("configmaps", a_config())
        events = http.watch(f"{CONFIGS}?watch=1")
        next(events)
        server.faults.down()
        with pytest.raises(urllib3.exceptions.ProtocolError):
            next(events)
        with pytest.raises(urllib3.exceptions.ProtocolError):
            http.ask("GET", "/healthz")
        server.faults.up()
        assert http.raw("GET", "/healthz").status == 200


class TestProxy:
    """Programs of this machine, as Services of the cluster."""

    PLACE = "/api/v1/namespaces/kube-system/services/other"

    def test_it_forwards_path_and_query(self, http: Client, server: ApiServer) -> None:
        with ApiServer(Storage(SystemClock())) as other:
            server.expose("kube-system", "other", lambda: other.url)
            _, whole = http.ask("GET", f"{self.PLACE}:http/proxy/api/v1/namespaces")
            _, one = http.ask("GET", f"{self.PLACE}/proxy/api/v1/namespaces?fieldSelector=metadata.name%3Ddefault")
            code, told = http.ask("GET", f"{self.PLACE}:http/proxy/api/v1/nodes/none")
        assert len(whole["items"]) > len(one["items"]) == 1
        assert (code, told["message"]) == (404, 'nodes "none" not found')
        assert RbacRule("", "services", "proxy", "get") in server.requests.counts()

    def test_a_service_that_does_not_answer_is_unavailable(self, http: Client, server: ApiServer) -> None:
        server.expose("kube-system", "other", lambda: "http://127.0.0.1:1")
        assert http.ask("GET", f"{self.PLACE}:http/proxy/")[0] == 503

    def test_a_service_that_nobody_exposed_is_not_found(self, http: Client) -> None:
        code, told = http.ask("GET", f"{self.PLACE}:http/proxy/")
        assert (code, told["message"]) == (404, 'services "other" not found')


def test_stopping_ends_watches_and_leaves_no_thread(storage: Storage) -> None:
    before = threading.active_count()
    server = ApiServer(storage).start()
    http = Client(server)
    storage.create("configmaps", a_config())
    events = http.watch(f"{CONFIGS}?watch=1")
    next(events)
    server.stop()
    assert threading.active_count() == before
    events.close()  # type: ignore[attr-defined]
    http.close()


@contextmanager
def official(kubeconfig: Path) -> Iterator[Any]:
    with config.new_client_from_config(str(kubeconfig)) as api_client:  # type: ignore[no-untyped-call]
        yield client.CoreV1Api(api_client)


class TestOfficialClient:
    def test_watch_and_writes(self, server: ApiServer, storage: Storage, tmp_path: Path) -> None:
        path = tmp_path / "kubeconfig"
        server.write_kubeconfig(path)
        assert path.stat().st_mode & 0o777 == 0o600
        with official(path) as core:
            body = client.V1ConfigMap(metadata=client.V1ObjectMeta(name="c"), data={"a": "1"})
            core.create_namespaced_config_map("default", body)
            follow: Any = watch.Watch()  # type: ignore[no-untyped-call]
            types = []
            for event in follow.stream(core.list_namespaced_config_map, "default", timeout_seconds=20):
                types.append(event["type"])
                if event["type"] == "ADDED":
                    core.patch_namespaced_config_map("c", "default", {"data": {"a": "2"}})
                if event["type"] == "MODIFIED":
                    core.delete_namespaced_config_map("c", "default")
                if event["type"] == "DELETED":
                    follow.stop()
            assert types == ["ADDED", "MODIFIED", "DELETED"]

    def test_eviction_and_binding(self, server: ApiServer, storage: Storage, tmp_path: Path) -> None:
        storage.create("pods", a_bare_pod())
        server.write_kubeconfig(tmp_path / "kubeconfig")
        with official(tmp_path / "kubeconfig") as core:
            target = client.V1ObjectReference(kind="Node", name="n")
            binding = client.V1Binding(metadata=client.V1ObjectMeta(name="p"), target=target)
            core.create_namespaced_pod_binding("p", "default", binding, _preload_content=False)
            assert core.read_namespaced_pod("p", "default").spec.node_name == "n"
            eviction = client.V1Eviction(metadata=client.V1ObjectMeta(name="p"))
            core.create_namespaced_pod_eviction("p", "default", eviction)
            assert core.read_namespaced_pod("p", "default").metadata.deletion_timestamp is not None


def test_a_client_may_ask_who_it_is_and_what_it_may_do(http: Client) -> None:
    code, review = http.ask("POST", "/apis/authentication.k8s.io/v1/selfsubjectreviews", {})
    assert (code, review["status"]["userInfo"]["username"]) == (201, "sandbox")
    code, review = http.ask("POST", "/apis/authorization.k8s.io/v1/selfsubjectrulesreviews", {"spec": {}})
    assert (code, review["status"]["resourceRules"][0]["verbs"], review["status"]["incomplete"]) == (201, ["*"], False)


@pytest.mark.parametrize(
    ("query", "code", "warning", "words"),
    [
        ("", 201, '299 - "unknown field \\"spec.containers[0].nope\\"", 299 - "unknown field \\"odd\\""', ""),
        ("?fieldValidation=Ignore", 201, None, ""),
        ("?fieldValidation=Strict", 400, None, 'strict decoding error: unknown field "spec.containers[0].nope"'),
        ("?fieldValidation=Maybe", 400, None, "Unsupported value"),
    ],
)
def test_fields_that_a_kind_does_not_have_are_dropped_and_told_of(
    http: Client, query: str, code: int, warning: str | None, words: str
) -> None:
    pod = {**a_bare_pod(), "odd": 1}
    pod["spec"]["containers"][0]["nope"] = 1
    answer = http.raw("POST", f"/api/v1/namespaces/default/pods{query}", pod)
    said = json.loads(answer.data)
    assert (answer.status, answer.headers.get("Warning")) == (code, warning)
    assert words in said.get("message", "")
    assert "odd" not in said
    assert "nope" not in said["spec"]["containers"][0] if code == 201 else "spec" not in said


def test_unknown_fields_of_patches_are_dropped_too(http: Client, storage: Storage) -> None:
    storage.create("configmaps", a_config())
    patch = {"odd": 1, "data": {"a": "b"}}
    answer = http.raw("PATCH", f"{CONFIGS}/c", patch, content_type="application/merge-patch+json")
    assert answer.headers["Warning"] == '299 - "unknown field \\"odd\\""'
    assert "odd" not in storage.get("configmaps", "c")
    assert storage.get("configmaps", "c")["data"] == {"a": "b"}


def test_a_list_goes_on_with_the_token_that_comes_with_expiry(http: Client, storage: Storage) -> None:
    for name in ("a", "b", "c"):
        storage.create("configmaps", a_config(name))
    for path in (CONFIGS, "/api/v1/configmaps"):
        _, page = http.ask("GET", f"{path}?limit=1")
        storage.create("configmaps", a_config("bb"))
        storage.compact()
        code, gone = http.ask("GET", f"{path}?limit=1&continue={page['metadata']['continue']}")
        assert (code, gone["reason"]) == (410, "Expired")
        _, rest = http.ask("GET", f"{path}?continue={gone['metadata']['continue']}")
        assert [item["metadata"]["name"] for item in rest["items"]] == ["b", "bb", "c"]
        storage.delete("configmaps", "bb")


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ("resourceVersionMatch=Exact", "resourceVersionMatch is forbidden unless resourceVersion is provided"),
        ("resourceVersionMatch=Odd&resourceVersion=1", 'Unsupported value: "Odd"'),
        ("resourceVersionMatch=Exact&resourceVersion=0", 'is forbidden for resourceVersion "0"'),
        ("sendInitialEvents=true", "sendInitialEvents is forbidden for list"),
        ("watch=1&sendInitialEvents=true", "requires setting resourceVersionMatch to NotOlderThan"),
        ("watch=1&resourceVersionMatch=NotOlderThan", "forbidden for watch unless sendInitialEvents is provided"),
    ],
)
def test_contradictory_options_are_invalid(http: Client, query: str, message: str) -> None:
    code, said = http.ask("GET", f"{CONFIGS}?{query}")
    assert (code, said["reason"], said["details"]["kind"]) == (422, "Invalid", "ListOptions")
    assert said["message"].startswith('ListOptions.meta.k8s.io "" is invalid: ')
    assert message in said["message"]


@pytest.mark.parametrize(
    ("token", "why"),
    [
        ("e30", 'server does not recognize this encoded version ""'),
        ("eyJ2IjoibWV0YS5rOHMuaW8vdjEifQ", "incorrect encoded start resourceVersion (version meta.k8s.io/v1)"),
        ("!!", "illegal base64 data"),
        ("eyJ2Ijo", "unexpected end of JSON input"),
    ],
)
def test_tokens_that_are_none_are_said_to_be(http: Client, token: str, why: str) -> None:
    code, said = http.ask("GET", f"{CONFIGS}?limit=1&continue={token}")
    assert (code, said["message"].startswith("invalid continue token: continue key is not valid: ")) == (400, True)
    assert why in said["message"]
