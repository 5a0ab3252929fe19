"""Objects of any kind for providers, on the embedded API server and on one that misbehaves."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from autoscaler.actuation.object_api import ClusterObjectApi
from autoscaler.clock import SystemClock, VirtualClock
from autoscaler.kube.client import Client
from autoscaler.kube.config import RestConfig
from autoscaler.kube.dry_run import DryRunWrites
from autoscaler.kube.election import Unopposed
from autoscaler.kube.writes import Writes
from autoscaler.sandbox.apiserver.server import ApiServer
from autoscaler.sandbox.apiserver.storage import Storage
from cloudprovider.interface import Conflict, NotFound, ObjectApi, ObjectKind, ProviderError, Scale, Transient
from tests.fakes import capi
from tests.unit.kube.scripted import Reply, client_of, ok, scripted_api, status

SETS = ObjectKind(capi.GROUP, "v1beta2", "machinesets")
MACHINES = ObjectKind(capi.GROUP, "v1beta2", "machines")
PATH = f"/apis/{capi.GROUP}/v1beta2/namespaces/x/machinesets/web"


class Nobody:
    """Leads not."""

    def may_write(self, now: object, takes_s: float) -> bool:
        return False


def an_object_api(client: Client, leadership: Any = None) -> ClusterObjectApi:
    writes = Writes(client, leadership or Unopposed(), SystemClock(), lambda _seconds: True)
    return ClusterObjectApi(client, lambda: writes)


@pytest.fixture(params=["in memory", "on an API server"])
def api(request: pytest.FixtureRequest) -> Iterator[ObjectApi]:
    """Both behave alike, so that tests with the one say something about the other."""
    group = {**capi.a_group("web", kind="MachineSet"), "metadata": {"name": "web", "namespace": "x"}}
    machines = [capi.a_machine(name, "web", namespace=space) for name, space in (("a", "x"), ("b", "y"))]
    machines[1]["metadata"]["labels"] = {}
    if request.param == "in memory":
        yield capi.an_api(group, *machines)
        return
    storage = Storage(SystemClock())
    capi.define(storage)
    for namespace in ("x", "y"):
        storage.create("namespaces", {"metadata": {"name": namespace}})
    storage.create(f"machinesets.{capi.GROUP}", group)
    for machine in machines:
        storage.create(f"machines.{capi.GROUP}", machine)
    server = ApiServer(storage)
    server.start()
    client = Client(RestConfig(server.url), SystemClock(), lambda _seconds: True)
    try:
        yield an_object_api(client)
    finally:
        client.close()
        server.stop()


def names(objects: Any) -> list[str]:
    return [obj["metadata"]["name"] for obj in objects]


def test_kinds_are_found_by_name(api: ObjectApi) -> None:
    found = api.kinds(capi.GROUP)
    assert {kind: found[kind] for kind in capi.PLURALS} == {
        kind: ObjectKind(capi.GROUP, "v1beta2", plural) for kind, plural in capi.PLURALS.items()
    }
    assert api.kinds(capi.GROUP, "v1beta2")["Machine"] == MACHINES


@pytest.mark.parametrize(("group", "version"), [("example.org", None), (capi.GROUP, "v9")])
def test_a_group_or_version_that_is_not_served_is_not_found(api: ObjectApi, group: str, version: str | None) -> None:
    with pytest.raises(NotFound):
        api.kinds(group, version)


def test_lists_can_be_narrowed(api: ObjectApi) -> None:
    assert sorted(names(api.list_objects(MACHINES))) == ["a", "b"]
    assert names(api.list_objects(MACHINES, "y")) == ["b"]
    assert names(api.list_objects(MACHINES, label_selector=f"{capi.GROUP}/cluster-name in (one,two)")) == ["a"]
    assert names(api.list_objects(SETS)) == ["web"]


def test_annotations_change_one_by_one(api: ObjectApi) -> None:
    uid = api.list_objects(MACHINES, "x")[0]["metadata"]["uid"]
    for annotations in ({"k": "v"}, {"l": "w"}, {"k": None}, {}):
        api.annotate_object(MACHINES, "x", "a", uid, annotations)
    (machine,) = api.list_objects(MACHINES, "x")
    assert machine["metadata"]["annotations"] == {"l": "w"}
    assert machine["spec"] == {"clusterName": "one"}


def test_another_object_of_the_name_gets_no_annotations(api: ObjectApi) -> None:
    with pytest.raises(Conflict):
        api.annotate_object(MACHINES, "x", "a", "other", {"k": "v"})
    assert not api.list_objects(MACHINES, "x")[0]["metadata"].get("annotations")


def test_scales_are_set_once_for_each_reading(api: ObjectApi) -> None:
    read = api.get_scale(SETS, "x", "web")
    assert read.replicas == 0
    api.set_scale(SETS, "x", "web", Scale(3, read.resource_version))
    assert api.get_scale(SETS, "x", "web").replicas == 3
    with pytest.raises(Conflict):
        api.set_scale(SETS, "x", "web", Scale(4, read.resource_version))
    assert api.get_scale(SETS, "x", "web").replicas == 3


@pytest.mark.parametrize(
    "use",
    [
        pytest.param(lambda api: api.get_scale(SETS, "x", "gone"), id="get"),
        pytest.param(lambda api: api.set_scale(SETS, "x", "gone", Scale(1, "1")), id="set"),
        pytest.param(lambda api: api.annotate_object(MACHINES, "x", "gone", "u", {}), id="annotate"),
        pytest.param(lambda api: api.get_scale(MACHINES, "x", "a"), id="no scale"),
    ],
)
def test_what_is_not_there_is_not_found(api: ObjectApi, use: Callable[[ObjectApi], object]) -> None:
    with pytest.raises(NotFound):
        use(api)


def test_the_preferred_version_counts_for_what_it_has_and_others_for_the_rest() -> None:
    group = "/apis/g"

    def served(*kinds: tuple[str, str]) -> Reply:
        resources = [{"name": name, "kind": kind, "namespaced": True} for name, kind in kinds]
        cluster = {"name": "globals", "kind": "Global", "namespaced": False}
        return ok({"resources": [*resources, cluster, {"name": "as/scale", "kind": "Scale", "namespaced": True}]})

    clock = VirtualClock()
    with scripted_api() as server, client_of(server.url, clock) as client:
        versions = [{"version": "v1"}, {"version": "v2"}, {"version": "v3"}]
        server.script(f"GET {group}", ok({"versions": versions, "preferredVersion": {"version": "v2"}}))
        server.script(f"GET {group}/v1", served(("as", "A"), ("bs", "B")))
        server.script(f"GET {group}/v2", served(("as", "A")))
        server.script(f"GET {group}/v3", served(("bs", "B"), ("cs", "C")))
        assert an_object_api(client).kinds("g") == {
            "A": ObjectKind("g", "v2", "as"),
            "B": ObjectKind("g", "v1", "bs"),
            "C": ObjectKind("g", "v3", "cs"),
        }


def test_long_lists_come_in_pages_of_one_selection() -> None:
    clock = VirtualClock()
    with scripted_api() as server, client_of(server.url, clock) as client:
        where = f"GET /apis/{capi.GROUP}/v1beta2/machines"
        server.script(where, ok({"metadata": {"continue": "more"}, "items": [{"n": 1}]}), ok({"items": [{"n": 2}]}))
        assert an_object_api(client).list_objects(MACHINES, label_selector="a=b") == [{"n": 1}, {"n": 2}]
        assert [one.query.get("labelSelector") for one in server.asked] == ["a=b", "a=b"]
        assert server.asked[1].query["continue"] == "more"


@pytest.mark.parametrize(
    ("reply", "error"),
    [
        pytest.param(status(500), Transient, id="server error"),
        pytest.param(status(403, "no"), ProviderError, id="forbidden"),
        pytest.param(Reply(200, b"<html>"), Transient, id="no JSON"),
        pytest.param(ok({"spec": {"replicas": 1}}), Transient, id="no metadata"),
        pytest.param(ok({"spec": 3, "metadata": {}}), Transient, id="no scale"),
    ],
)
def test_errors_are_the_providers(reply: Reply, error: type[ProviderError]) -> None:
    clock = VirtualClock()
    with scripted_api() as server, client_of(server.url, clock) as client:
        server.script(f"GET {PATH}/scale", reply)
        with pytest.raises(ProviderError) as caught:
            an_object_api(client).get_scale(SETS, "x", "web")
    assert type(caught.value) is error


WRITES: list[Callable[[ObjectApi], None]] = [
    lambda api: api.set_scale(SETS, "x", "web", Scale(1, "1")),
    lambda api: api.annotate_object(MACHINES, "x", "a", "u", {}),
]


@pytest.mark.parametrize("write", WRITES, ids=["scale", "patch"])
def test_who_does_not_lead_writes_nothing(write: Callable[[ObjectApi], None]) -> None:
    with scripted_api() as server, client_of(server.url, VirtualClock()) as client:
        machine = {"metadata": {"name": "a", "namespace": "x", "uid": "u"}}
        server.script(f"GET {PATH.replace('machinesets/web', 'machines/a')}", ok(machine))
        with pytest.raises(ProviderError, match="lease"):
            write(an_object_api(client, Nobody()))
        assert {one.method for one in server.asked} <= {"GET"}


def test_a_dry_run_counts_what_it_does_not_write() -> None:
    with scripted_api() as server, client_of(server.url, VirtualClock()) as client:
        writes = DryRunWrites()
        api = ClusterObjectApi(client, lambda: writes)
        for write in WRITES:
            write(api)
        assert (server.asked, writes.withheld) == ([], 2)
