"""Access to API servers for providers."""

from collections.abc import Callable
from pathlib import Path

import pytest

from autoscaler.app.provider_clusters import ProviderClusters
from autoscaler.clock import VirtualClock
from autoscaler.config.load import load
from autoscaler.kube.client import Client
from autoscaler.kube.config import RestConfig
from autoscaler.kube.election import Unopposed
from autoscaler.sandbox.apiserver.server import ApiServer
from autoscaler.sandbox.apiserver.storage import Storage
from cloudprovider.interface import Misconfigured, NotFound, ObjectKind, Scale, Transient
from tests.fakes import capi

MACHINES = ObjectKind(capi.GROUP, "v1beta2", "machines")


def clusters(*flags: str) -> ProviderClusters:
    clock = VirtualClock()
    own = Client(RestConfig("http://127.0.0.1:9"), clock, lambda _seconds: True)
    return ProviderClusters(load(flags), own, Unopposed(), clock, lambda _seconds: True)


def test_a_kubeconfig_leads_to_its_cluster_under_the_user_agent(tmp_path: Path) -> None:
    storage = Storage(VirtualClock())
    capi.define(storage)
    server = ApiServer(storage)
    server.start()
    found = clusters("--user-agent=me")
    try:
        server.write_kubeconfig(tmp_path / "kubeconfig")
        api = found.connect(str(tmp_path / "kubeconfig"))
        assert api.list_objects(MACHINES) == []
        with pytest.raises(NotFound):
            api.annotate_object(MACHINES, "x", "gone", "u", {})
        assert len(server.requests.entries(user_agent="me")) == 2
    finally:
        found.close()
        server.stop()


@pytest.mark.parametrize(("kubeconfig", "why"), [("/nowhere", "/nowhere"), (None, "in-cluster configuration")])
def test_what_leads_nowhere_is_a_misconfiguration(kubeconfig: str | None, why: str) -> None:
    with pytest.raises(Misconfigured, match=why):
        clusters().connect(kubeconfig)


@pytest.mark.parametrize(
    "write",
    [
        pytest.param(lambda own: own.node_api().create_node({"metadata": {"name": "n"}}), id="create a node"),
        pytest.param(lambda own: own.node_api().delete_node("n"), id="delete a node"),
        pytest.param(lambda own: own.object_api().annotate_object(MACHINES, "x", "m", "u", {}), id="annotate"),
        pytest.param(lambda own: own.object_api().set_scale(MACHINES, "x", "m", Scale(1, "7")), id="scale"),
    ],
)
def test_only_a_dry_run_keeps_providers_from_writing(write: Callable[[ProviderClusters], None]) -> None:
    write(clusters("--dry-run"))
    with pytest.raises(Transient):
        write(clusters())
