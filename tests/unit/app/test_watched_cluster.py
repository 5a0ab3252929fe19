"""The daemon's view of the cluster, fed by watches of the embedded API server."""

import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import msgspec
import pytest

from autoscaler.app.watched_cluster import WatchedCluster
from autoscaler.clock import SystemClock
from autoscaler.config.load import load
from autoscaler.errors import CloudUnavailable, RetryLater
from autoscaler.kube.client import Client, ClientSettings
from autoscaler.kube.config import RestConfig
from autoscaler.kube.feed import ClusterFeed
from autoscaler.objects.node import Node
from autoscaler.objects.pod_interner import PodInterner
from autoscaler.sandbox.apiserver.faults import Fault
from autoscaler.sandbox.apiserver.server import ApiServer
from autoscaler.sandbox.apiserver.storage import Storage
from autoscaler.snapshot.cluster import ClusterView
from autoscaler.snapshot.groups import Groups
from tests.devices import claim_form, claim_template_form, slice_form
from tests.unit.capacity import request_definition

PATIENCE_S = 30.0


def quick(event: threading.Event, seconds: float) -> bool:
    """Wait as told, but a hundred times shorter."""
    return event.wait(seconds / 100)


def no_groups(_nodes: Sequence[Node]) -> Groups:
    return Groups()


class Following:
    """A source and what it follows."""

    def __init__(self, server: ApiServer, client: Client, *flags: str) -> None:
        self.server = server
        self.feed = ClusterFeed(client, SystemClock(), wait=quick)
        self.source = WatchedCluster(self.feed, PodInterner(), load(flags))

    def synced(self) -> "Following":
        self.feed.start()
        assert self.feed.wait_synced(PATIENCE_S) == {}
        return self

    def view(self) -> ClusterView:
        return self.source.observe(no_groups)

    def until(self, condition: Callable[[ClusterView], object]) -> ClusterView:
        """Observe until the watches have brought what is waited for."""
        pause = threading.Event()
        for _ in range(int(PATIENCE_S / 0.01)):
            if condition(view := self.view()):
                return view
            pause.wait(0.01)
        pytest.fail("the change did not arrive")

    def add_node(self, name: str) -> None:
        self.server.storage.create("nodes", {"metadata": {"name": name}})

    def add_pod(self, name: str, **spec: Any) -> None:
        pod = {"metadata": {"name": name}, "spec": {"containers": [{"name": "c", "image": "i"}], **spec}}
        self.server.storage.create("pods", pod)


@pytest.fixture
def server() -> Iterator[ApiServer]:
    with ApiServer(Storage(SystemClock())) as running:
        yield running


@pytest.fixture
def client(server: ApiServer) -> Iterator[Client]:
    made = Client(RestConfig(server.url), SystemClock(), lambda _seconds: True, ClientSettings(qps=0))
    yield made
    made.close()


@pytest.fixture
def following(server: ApiServer, client: Client) -> Iterator[Following]:
    made = Following(server, client)
    yield made
    assert made.feed.stop(PATIENCE_S)


def test_before_everything_was_listed_there_is_no_view(following: Following) -> None:
    following.server.faults.add(Fault(resource="daemonsets", code=403))
    following.feed.start()
    late = following.feed.wait_synced(0.5)
    assert "/apis/apps/v1/daemonsets" in late
    with pytest.raises(RetryLater, match=r"not answered yet for .*/apis/apps/v1/daemonsets"):
        following.view()
    following.server.faults.clear()
    assert following.feed.wait_synced(PATIENCE_S) == {}
    assert following.view().nodes == ()


def test_changes_flow_into_the_next_view(following: Following) -> None:
    following.add_node("n1")
    following.add_pod("waits")
    following.synced()
    before = following.view()
    assert ([node.name for node in before.nodes], [pod.name for pod in before.pending]) == (["n1"], ["waits"])
    following.add_node("n2")
    following.server.storage.bind("waits", "n2", namespace="default")
    after = following.until(lambda view: len(view.nodes) == 2 and not view.pending)
    assert [pod.name for pod in after.pods_on("n2")] == ["waits"]
    following.server.storage.delete("nodes", "n1")
    following.until(lambda view: [node.name for node in view.nodes] == ["n2"])
    assert [node.name for node in before.nodes] == ["n1"], "an earlier view does not change"


def test_finished_pods_leave_the_view(following: Following) -> None:
    following.add_node("n1")
    following.add_pod("job", nodeName="n1")
    following.synced()
    assert [pod.name for pod in following.view().pods_on("n1")] == ["job"]
    following.server.storage.patch("pods", "job", {"status": {"phase": "Succeeded"}}, subresource="status")
    following.until(lambda view: not view.pods_on("n1"))


def test_changes_are_kept_while_the_cloud_cannot_be_read(following: Following) -> None:
    following.synced()
    following.view()

    def unavailable(_nodes: Sequence[Node]) -> Groups:
        raise CloudUnavailable("not now")

    following.add_node("n1")
    pause = threading.Event()
    for _ in range(int(PATIENCE_S / 0.01)):
        if following.source.nodes.get("n1") is not None:
            break
        pause.wait(0.01)
    with pytest.raises(CloudUnavailable):
        following.source.observe(unavailable)
    assert [node.name for node in following.view().nodes] == ["n1"]


def test_groups_are_read_for_the_nodes_of_the_view(following: Following) -> None:
    following.add_node("n1")
    following.synced()
    asked: list[str] = []

    def read(nodes: Sequence[Node]) -> Groups:
        asked.extend(node.name for node in nodes)
        return Groups(of_node={"n1": "web"})

    assert following.source.observe(read).groups.of_node == {"n1": "web"}
    assert asked == ["n1"]


def test_what_pods_and_drains_depend_on_is_followed(following: Following) -> None:
    storage = following.server.storage
    budget = {"minAvailable": 1, "selector": {"matchLabels": {"app": "web"}}}
    storage.create("poddisruptionbudgets", {"metadata": {"name": "b"}, "spec": budget})
    storage.create("storageclasses", {"metadata": {"name": "fast"}, "provisioner": "p"})
    following.synced()
    related = following.view().related
    assert list(related.budgets) == ["default/b"]
    assert list(related.storage_classes) == ["fast"]
    assert {"default", "kube-system"} <= set(related.namespaces)
    storage.delete("poddisruptionbudgets", "b", namespace="default")
    following.until(lambda view: not view.related.budgets)


def test_of_config_maps_only_that_of_pauses_is_followed_without_the_priority_expander(following: Following) -> None:
    (path,) = (path for path in following.feed.stats() if "configmaps" in path)
    assert path == "/api/v1/namespaces/kube-system/configmaps/cluster-autoscaler-pause"


def test_a_pause_is_seen_as_soon_as_it_is_written_and_one_that_cannot_be_decoded_is_marked(
    following: Following,
) -> None:
    following.synced()
    storage = following.server.storage
    meta = {"name": "cluster-autoscaler-pause", "namespace": "kube-system"}
    storage.create("configmaps", {"metadata": meta, "data": {"freeze": "scope: all"}})
    key = "kube-system/cluster-autoscaler-pause"
    seen = following.until(lambda view: key in view.related.config_maps).related.config_maps[key]
    assert (seen.data, seen.undecoded) == ({"freeze": "scope: all"}, False)
    storage.patch("configmaps", meta["name"], {"data": {"freeze": 7}}, namespace="kube-system")
    seen = following.until(lambda view: view.related.config_maps[key].undecoded).related.config_maps[key]
    assert seen.data == {"freeze": "scope: all"}


def test_a_cluster_that_keeps_pauses_from_us_holds_nothing_up(
    server: ApiServer, client: Client, caplog: pytest.LogCaptureFixture
) -> None:
    server.faults.add(Fault(resource="configmaps", code=403))
    following = Following(server, client).synced()
    try:
        assert following.view().related.config_maps == {}
        following.view()
        resting = [record for record in caplog.records if record.getMessage() == "feature.resting"]
        assert [vars(record)["fields"]["feature"] for record in resting] == ["pauses"]
    finally:
        assert following.feed.stop(PATIENCE_S)


def test_the_priority_expander_follows_one_config_map(server: ApiServer, client: Client) -> None:
    following = Following(server, client, "--expander=priority,random", "--namespace=home")
    server.storage.create("namespaces", {"metadata": {"name": "home"}})
    for name in ("cluster-autoscaler-priority-expander", "something-else"):
        server.storage.create(
            "configmaps", {"metadata": {"name": name, "namespace": "home"}, "data": {"priorities": ""}}
        )
    following.synced()
    try:
        assert list(following.view().related.config_maps) == ["home/cluster-autoscaler-priority-expander"]
    finally:
        assert following.feed.stop(PATIENCE_S)


class TestCustomKinds:
    """Kinds that a cluster need not have."""

    CRDS = "customresourcedefinitions"

    @pytest.fixture
    def following(self, server: ApiServer, client: Client) -> Iterator[Following]:
        made = Following(server, client, "--enable-provisioning-requests", "--capacity-buffer-controller-enabled")
        yield made
        assert made.feed.stop(PATIENCE_S)

    def add_request(self, following: Following, name: str) -> None:
        spec = {"provisioningClassName": "c", "podSets": [{"count": 2, "podTemplateRef": {"name": "t"}}]}
        following.server.storage.create("provisioningrequests", {"metadata": {"name": name}, "spec": spec})

    def test_that_are_not_there_hold_nothing_up(self, following: Following, caplog: pytest.LogCaptureFixture) -> None:
        following.add_node("n1")
        following.synced()
        view = following.view()
        assert ([node.name for node in view.nodes], view.related.provisioning_requests) == (["n1"], {})
        absent = [
            vars(record)["fields"]["path"] for record in caplog.records if record.getMessage() == "kube.kind_absent"
        ]
        assert len(absent) == 2
        assert "/apis/autoscaling.x-k8s.io/v1/provisioningrequests" in absent

    @pytest.mark.parametrize("version", ["v1", "v1beta2", "v1alpha3"])
    def test_are_tainted_by_rules_where_the_server_has_them(
        self, server: ApiServer, following: Following, version: str
    ) -> None:
        kind = msgspec.structs.replace(server.storage.registry.resolve("devicetaintrules"), version=version)
        server.storage.registry.add([kind])
        server.storage.create("devicetaintrules", {"metadata": {"name": "broken"}})
        following.synced()
        following.until(lambda view: list(view.related.device_taint_rules) == ["broken"])

    def test_that_may_not_be_read_hold_nothing_up(self, following: Following) -> None:
        following.server.storage.create(self.CRDS, request_definition())
        following.server.faults.add(Fault(resource="provisioningrequests", code=403))
        following.synced()
        self.add_request(following, "r")
        assert following.view().related.provisioning_requests == {}
        following.server.faults.clear()
        following.until(lambda view: view.related.provisioning_requests)

    def test_that_come_later_are_noticed_and_so_is_their_end(self, following: Following) -> None:
        following.synced()
        for _ in range(2):
            following.server.storage.create(self.CRDS, request_definition())
            self.add_request(following, "r")
            view = following.until(lambda view: view.related.provisioning_requests)
            (request,) = view.related.provisioning_requests.values()
            assert (request.key, request.pod_count) == ("default/r", 2)
            following.server.storage.delete(self.CRDS, "provisioningrequests.autoscaling.x-k8s.io")
            following.until(lambda view: not view.related.provisioning_requests)

    def test_of_an_older_version_are_followed_in_that(self, following: Following) -> None:
        following.server.storage.create(self.CRDS, request_definition("v1beta1"))
        self.add_request(following, "r")
        following.synced()
        view = following.until(lambda view: view.related.provisioning_requests)
        assert view.related.provisioning_requests["default/r"].api_version == "autoscaling.x-k8s.io/v1beta1"

    def test_controllers_that_a_buffer_may_imitate_are_followed_with_their_templates(
        self, following: Following
    ) -> None:
        labels = {"app": "web"}
        template = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
        spec = {"replicas": 3, "selector": {"matchLabels": labels}, "template": template}
        following.server.storage.create("deployments", {"metadata": {"name": "web"}, "spec": spec})
        following.synced()
        scalable = following.view().related.scalables["Deployment/default/web"]
        assert (scalable.size, scalable.spec.template["spec"]["containers"][0]["image"]) == (3, "i")


def test_kinds_that_ask_for_capacity_are_left_alone_unless_enabled(following: Following) -> None:
    wanted = ("autoscaling.x-k8s.io", "podtemplates", "deployments")
    assert [path for path in following.feed.stats() if any(word in path for word in wanted)] == []


class TestGangs:
    """What states the minimum of gangs: followed by default, of every scheduler that the cluster has."""

    def test_objects_of_all_schedulers_are_followed(self, following: Following) -> None:
        storage = following.server.storage
        policy = {"schedulingPolicy": {"gang": {"minCount": 3}}}
        storage.create("podgroups.scheduling.k8s.io", {"metadata": {"name": "a"}, "spec": policy})
        for group in ("scheduling.x-k8s.io", "scheduling.volcano.sh"):
            name = group.partition(".")[2].partition(".")[0]
            storage.create(f"podgroups.{group}", {"metadata": {"name": name}, "spec": {"minMember": 2}})
        storage.create("workloads", {"metadata": {"name": "w"}, "spec": {"podGroups": [{"name": "g"}]}})
        following.synced()
        related = following.view().related
        counts = {key: group.min_count for key, group in related.pod_groups.items()}
        assert counts == {"default/a": 3, "default/x-k8s": 2, "default/volcano": 2}
        assert list(related.workloads) == ["default/w"]

    def test_a_server_without_them_is_no_news(
        self, server: ApiServer, client: Client, caplog: pytest.LogCaptureFixture
    ) -> None:
        for group in ("scheduling.k8s.io", "scheduling.x-k8s.io", "scheduling.volcano.sh"):
            server.storage.registry.remove(group, "podgroups")
        following = Following(server, client)
        following.synced()
        assert following.view().related.pod_groups == {}
        assert not [record for record in caplog.records if record.getMessage() == "kube.kind_absent"]

    @pytest.mark.parametrize("flag", ["--gang-scheduling-enabled=false", "--compatibility=1.31"])
    def test_are_left_alone_where_gangs_do_not_count(self, server: ApiServer, client: Client, flag: str) -> None:
        paths = Following(server, client, flag).feed.stats()
        assert [path for path in paths if "podgroups" in path or "workloads" in path] == []


class TestDevices:
    """What drivers offer, and claims on it: followed by default, in the newest version that is served."""

    def test_are_followed(self, following: Following) -> None:
        storage = following.server.storage
        storage.create("resourceslices", slice_form("n1"))
        storage.create("resourceclaims", claim_form("gpu", "dev-0"))
        storage.create("resourceclaimtemplates", claim_template_form("one"))
        storage.create("deviceclasses", {"metadata": {"name": "gpu.example.com"}})
        following.synced()
        related = following.view().related
        assert [resource_slice.spec.node_name for resource_slice in related.resource_slices.values()] == ["n1"]
        assert list(related.resource_claims) == ["default/gpu"]
        assert list(related.resource_claim_templates) == ["default/one"]
        assert list(related.device_classes) == ["gpu.example.com"]
        storage.delete("resourceclaims", "gpu", namespace="default")
        following.until(lambda view: not view.related.resource_claims)

    @pytest.mark.parametrize("version", ["v1beta2", "v1beta1"])
    def test_of_an_older_version_are_followed_in_that(
        self, server: ApiServer, following: Following, version: str
    ) -> None:
        rows = [
            msgspec.structs.replace(server.storage.registry.resolve(plural), version=version)
            for plural in ("resourceslices", "resourceclaims", "resourceclaimtemplates", "deviceclasses")
        ]
        server.storage.registry.add(rows)
        server.storage.create("resourceslices", slice_form("n1"))
        following.synced()
        following.until(lambda view: view.related.resource_slices)

    def test_that_may_not_be_read_hold_nothing_up(self, following: Following) -> None:
        following.server.faults.add(Fault(resource="resourceslices", code=403))
        following.synced()
        assert following.view().related.resource_slices == {}

    @pytest.mark.parametrize(
        "flags", [("--enable-dynamic-resource-allocation=false", "--compatibility=1.31"), ("--compatibility=1.31",)]
    )
    def test_are_left_alone_where_claims_do_not_count(
        self, server: ApiServer, client: Client, flags: tuple[str, ...]
    ) -> None:
        paths = Following(server, client, *flags).feed.stats()
        assert [path for path in paths if "resource.k8s.io" in path] == []


@pytest.mark.parametrize(
    ("resource", "flag"),
    [
        ("resourcequotas", "--capacity-buffer-controller-enabled"),
        ("podtemplates", "--capacity-buffer-controller-enabled"),
        ("deployments", "--capacity-buffer-controller-enabled"),
        ("podtemplates", "--enable-provisioning-requests"),
    ],
)
def test_what_only_a_side_feature_needs_may_be_forbidden(
    server: ApiServer, client: Client, resource: str, flag: str, caplog: pytest.LogCaptureFixture
) -> None:
    server.faults.add(Fault(resource=resource, code=403))
    following = Following(server, client, flag)
    following.add_node("n1")
    try:
        following.synced()
        for _ in range(3):
            view = following.view()
        assert [node.name for node in view.nodes] == ["n1"]
        assert not view.related.capacity_buffers
        told = [vars(record)["fields"] for record in caplog.records if record.getMessage() == "feature.resting"]
        assert len(told) == len({fields["feature"] for fields in told}) > 0
        server.faults.clear()
        following.add_node("n2")
        following.until(lambda view: len(view.nodes) == 2)
    finally:
        following.feed.stop()
