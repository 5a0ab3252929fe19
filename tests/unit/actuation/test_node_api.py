"""Nodes and ConfigMaps for providers: the API server's errors in the words of the provider contract."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from autoscaler.actuation.node_api import ClusterNodeApi
from autoscaler.clock import VirtualClock
from autoscaler.errors import LeadershipLost
from autoscaler.kube.client import Client
from autoscaler.kube.dry_run import DryRunWrites
from autoscaler.kube.writes import Writes
from cloudprovider.interface import Conflict, NotFound, ProviderError, Transient
from tests.unit.kube.scripted import Reply, ScriptedApi, client_of, ok, scripted_api, status

CONFIG_MAP = "/api/v1/namespaces/x/configmaps/groups"
NODES = "/api/v1/nodes"
NODE: dict[str, Any] = {"metadata": {"name": "n1"}, "spec": {"providerID": "kwok:n1"}}

CALLS = [
    pytest.param(f"GET {CONFIG_MAP}", lambda api: api.get_config_map("x", "groups"), id="get a ConfigMap"),
    pytest.param(f"GET {NODES}", lambda api: api.list_nodes(), id="list nodes"),
    pytest.param(f"POST {NODES}", lambda api: api.create_node(NODE), id="create a node"),
    pytest.param(f"DELETE {NODES}/n1", lambda api: api.delete_node("n1"), id="delete a node"),
]
Use = Callable[[ClusterNodeApi], object]


class Leadership:
    """Ours until it is taken away."""

    held = True

    def may_write(self, now: object, takes_s: float) -> bool:
        return self.held


class NodeApis:
    def __init__(self, server: ScriptedApi, client: Client, clock: VirtualClock) -> None:
        self.server = server
        self.leadership = Leadership()
        self.writes = Writes(client, self.leadership, clock, lambda _seconds: True)
        self.api = ClusterNodeApi(client, lambda: self.writes)
        self.dry_run = ClusterNodeApi(client, DryRunWrites)


@pytest.fixture
def stage() -> Iterator[NodeApis]:
    clock = VirtualClock(wall=1_700_000_000, mono=100)
    with scripted_api() as server, client_of(server.url, clock) as client:
        yield NodeApis(server, client, clock)


def test_reads_give_plain_objects(stage: NodeApis) -> None:
    stage.server.script(f"GET {CONFIG_MAP}", ok({"data": {"config": "x"}}))
    stage.server.script(f"GET {NODES}", ok({"items": [NODE]}))
    assert stage.api.get_config_map("x", "groups")["data"] == {"config": "x"}
    assert stage.api.list_nodes() == [NODE]


def test_an_empty_list_may_be_null(stage: NodeApis) -> None:
    stage.server.script(f"GET {NODES}", ok({"items": None}))
    assert stage.api.list_nodes() == []


def test_a_created_node_says_what_it_is(stage: NodeApis) -> None:
    stage.server.script(f"POST {NODES}", ok(NODE))
    stage.api.create_node(NODE)
    assert stage.server.asked[0].json == {"apiVersion": "v1", "kind": "Node", **NODE}


def test_deleting_what_is_not_there_is_fine(stage: NodeApis) -> None:
    stage.server.script(f"DELETE {NODES}/n1", status(404))
    stage.api.delete_node("n1")
    assert len(stage.server.asked) == 1


@pytest.mark.parametrize(
    ("code", "error"),
    [
        pytest.param(404, NotFound, id="not found"),
        pytest.param(409, Conflict, id="conflict"),
        pytest.param(500, Transient, id="server error"),
        pytest.param(503, Transient, id="unavailable"),
        pytest.param(403, ProviderError, id="forbidden"),
        pytest.param(422, ProviderError, id="invalid"),
    ],
)
@pytest.mark.parametrize(("call", "use"), CALLS[:3])
def test_errors_are_the_providers(stage: NodeApis, call: str, use: Use, code: int, error: type[ProviderError]) -> None:
    stage.server.script(call, status(code, "the reason"))
    with pytest.raises(ProviderError, match="the reason") as caught:
        use(stage.api)
    assert type(caught.value) is error


@pytest.mark.parametrize(("call", "use"), CALLS[:3])
@pytest.mark.parametrize("body", [b"<html>", b"[1]", b'{"items": ['], ids=["HTML", "a list", "cut short"])
def test_an_answer_that_is_no_object_is_transient(stage: NodeApis, call: str, use: Use, body: bytes) -> None:
    stage.server.script(call, Reply(200, body))
    with pytest.raises(Transient, match="no object"):
        use(stage.api)


@pytest.mark.parametrize(("call", "use"), CALLS)
def test_a_server_that_is_gone_is_transient(call: str, use: Use) -> None:
    clock = VirtualClock()
    with scripted_api() as server:
        url = server.url
    with client_of(url, clock) as client:
        writes = Writes(client, Leadership(), clock, lambda _seconds: True)
        with pytest.raises(Transient, match="unreachable"):
            use(ClusterNodeApi(client, lambda: writes))


@pytest.mark.parametrize(("call", "use"), CALLS[2:])
def test_who_leads_no_more_writes_no_more(stage: NodeApis, call: str, use: Use) -> None:
    stage.leadership.held = False
    with pytest.raises(ProviderError, match="lease") as caught:
        use(stage.api)
    assert isinstance(caught.value.__cause__, LeadershipLost)
    assert stage.server.asked == []


@pytest.mark.parametrize(("call", "use"), CALLS[2:])
def test_a_dry_run_writes_nothing(stage: NodeApis, call: str, use: Use) -> None:
    use(stage.dry_run)
    assert stage.server.asked == []


@pytest.mark.parametrize(("call", "use"), CALLS[:2])
def test_a_dry_run_reads(stage: NodeApis, call: str, use: Use) -> None:
    stage.server.script(call, ok({"items": []}))
    use(stage.dry_run)
    assert [f"{one.method} {one.path}" for one in stage.server.asked] == [call]
