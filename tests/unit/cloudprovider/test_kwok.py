import json
from typing import Any

import pytest

from cloudprovider.conformance import MemoryNodeApi
from cloudprovider.interface import Misconfigured, NodeRef, ProviderContext, ProviderError, State, TaintSpec, Transient
from cloudprovider.kwok import KwokProvider, create
from cloudprovider.static.provider import node_ref

PREFIX = "cluster-autoscaler.kwok.nodegroup"
CONFIG: dict[str, Any] = {
    "apiVersion": "v1alpha1",
    "readNodesFrom": "configmap",
    "nodegroups": {"fromNodeLabelKey": "pool"},
    "configmap": {"name": "kwok-provider-templates"},
    "kwok": {},
}


def a_template(name: str, pool: str, **annotations: str) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": name,
            "uid": "1234",
            "resourceVersion": "7",
            "creationTimestamp": "2023-05-31T04:39:16Z",
            "labels": {"pool": pool, "kubernetes.io/hostname": name},
            "annotations": {f"{PREFIX}/{key.replace('_', '-')}": value for key, value in annotations.items()},
        },
        "spec": {"podCIDR": "10.0.0.0/24", "providerID": "kind://x"},
        "status": {
            "capacity": {"cpu": 4, "memory": "16Gi", "pods": "110"},
            "nodeInfo": {"kubeletVersion": "v1.31.0", "architecture": "arm64"},
        },
    }


def an_api(*nodes: dict[str, Any], namespace: str = "kube-system", **config: Any) -> MemoryNodeApi:
    api = MemoryNodeApi()
    api.put_config_map(namespace, "kwok-provider-config", {"config": json.dumps({**CONFIG, **config})})
    api.put_config_map(
        namespace, "kwok-provider-templates", {"templates": json.dumps({"kind": "List", "items": list(nodes)})}
    )
    return api


def opened(api: MemoryNodeApi, **context: Any) -> KwokProvider:
    provider = create(ProviderContext(node_api=api, **context))
    provider.refresh(0.0)
    return provider


def test_a_new_node_is_the_template_under_a_name_of_its_own() -> None:
    api = an_api(a_template("a", "web"))
    provider = opened(api)
    provider.groups()[0].increase(1)
    (node,) = api.list_nodes()
    name = node["metadata"]["name"]
    prefix, _, suffix = name.rpartition("-")
    assert (prefix, len(suffix)) == ("web", 5)
    assert set(suffix) <= set("bcdfghjklmnpqrstvwxz2456789")
    assert node["metadata"] == {
        "name": name,
        "labels": {"pool": "web", "kubernetes.io/hostname": name},
        "annotations": {
            "kwok.x-k8s.io/node": "fake",
            f"{PREFIX}/name": "web",
            "metrics.k8s.io/resource-metrics-path": f"/metrics/nodes/{name}/metrics/resource",
        },
    }
    assert node["spec"] == {
        "providerID": f"kwok:{name}",
        "taints": [{"key": "kwok-provider", "value": "true", "effect": "NoSchedule"}],
    }
    assert node["status"]["nodeInfo"] == {"kubeletVersion": "fake", "architecture": "arm64"}
    assert provider.group_of(node_ref(node)) == "web"


def test_the_template_has_the_taint_and_a_kube_proxy() -> None:
    template = opened(an_api(a_template("a", "web"))).groups()[0].template()
    assert template.taints == (TaintSpec("kwok-provider", "true", "NoSchedule"),)
    assert template.capacity == template.allocatable == {"cpu": "4", "memory": "16Gi", "pods": "110"}
    (pod,) = template.pods
    assert pod["metadata"]["namespace"] == "kube-system"
    assert pod["spec"]["containers"][0]["resources"]["requests"] == {"cpu": "100m"}


def test_skip_taint_leaves_the_taint_out() -> None:
    template = opened(an_api(a_template("a", "web"), nodes={"skipTaint": True})).groups()[0].template()
    assert template.taints == ()


def test_sizes_come_from_annotations_and_further_nodes_count() -> None:
    api = an_api(
        a_template("a", "web", min_count="1", max_count="5", desired_count="2"),
        a_template("b", "batch"),
        a_template("c", "web"),
    )
    web, batch = opened(api).groups()
    assert (web.id, web.min_size, web.max_size, web.target_size()) == ("web", 1, 5, 3)
    assert (batch.id, batch.min_size, batch.max_size, batch.target_size()) == ("batch", 0, 200, 0)
    assert len(api.list_nodes()) == 3


def test_the_desired_count_is_the_minimum_unless_given() -> None:
    (web,) = opened(an_api(a_template("a", "web", min_count="2"))).groups()
    assert web.target_size() == 2


def test_groups_may_be_formed_by_annotation() -> None:
    node = a_template("a", "ignored")
    node["metadata"]["annotations"]["team"] = "blue"
    (group,) = opened(an_api(node, nodegroups={"fromNodeAnnotationKey": "team"})).groups()
    assert group.id == "blue"


def test_a_restart_counts_the_nodes_that_are_there_instead_of_the_desired_ones() -> None:
    api = an_api(a_template("a", "web", desired_count="1"))
    opened(api).groups()[0].increase(3)
    again = opened(api)
    assert again.groups()[0].target_size() == 4
    assert len(api.list_nodes()) == 4


def test_a_refresh_that_failed_half_way_is_made_good_by_the_next() -> None:
    api = an_api(a_template("a", "web", desired_count="3"))
    provider = create(ProviderContext(node_api=api))
    assert api.list_nodes() == []
    api.fail_next(Transient("timed out"))
    with pytest.raises(Transient):
        provider.refresh(0.0)
    provider.refresh(0.0)
    assert provider.groups()[0].target_size() == 3
    nodes = provider.groups()[0].instances()
    provider.groups()[0].delete([NodeRef(nodes[0].provider_id, nodes[0].provider_id)])
    provider.refresh(0.0)
    assert provider.groups()[0].target_size() == 2


def test_templates_may_come_from_the_cluster_where_fake_nodes_are_none() -> None:
    api = an_api(readNodesFrom="cluster", configmap={})
    for name, pool in (("a", "web"), ("b", "web"), ("c", "batch")):
        api.create_node(a_template(name, pool))
    api.create_node({"metadata": {"name": "control-plane"}})
    web, batch = opened(api).groups()
    assert (web.id, web.target_size(), batch.id) == ("web", 0, "batch")
    web.increase(2)
    again = opened(api)
    assert [(group.id, group.target_size()) for group in again.groups()] == [("web", 2), ("batch", 0)]
    assert again.group_of(node_ref(a_template("a", "web"))) is None


def test_templates_may_be_documents_of_one_text_and_keep_their_times_as_text() -> None:
    api = an_api()
    text = "\n---\n".join(json.dumps(a_template(name, name)) for name in ("one", "two"))
    extra = "kind: ConfigMap\n---\nkind: Node\nmetadata: {name: x, labels: {pool: three}}\n"
    extra += "status: {conditions: [{type: Ready, status: 'True', lastHeartbeatTime: 2023-05-31T04:39:16Z}]}"
    api.put_config_map("kube-system", "kwok-provider-templates", {"templates": f"{text}\n---\n{extra}"})
    provider = opened(api)
    assert [group.id for group in provider.groups()] == ["one", "two", "three"]
    provider.groups()[2].increase(1)
    assert api.list_nodes()[0]["status"]["conditions"][0]["lastHeartbeatTime"] == "2023-05-31T04:39:16Z"


def test_environment_names_the_config_map_and_its_namespace() -> None:
    api = an_api(a_template("a", "web"), namespace="scaling")
    api.put_config_map("scaling", "mine", {"config": json.dumps(CONFIG)})
    environment = {"POD_NAMESPACE": "scaling", "KWOK_PROVIDER_CONFIGMAP": "mine"}
    assert [group.id for group in opened(api, environment=environment).groups()] == ["web"]
    with pytest.raises(Misconfigured, match="kube-system/mine"):
        create(ProviderContext(node_api=api, environment={"KWOK_PROVIDER_CONFIGMAP": "mine"}))


@pytest.mark.parametrize(
    ("config", "nodes", "problem"),
    [
        pytest.param({"readNodesFrom": "disk"}, [], "'disk' is none of configmap, cluster", id="unknown source"),
        pytest.param({"apiVersion": "v2"}, [], "is v2, not v1alpha1", id="unknown version"),
        pytest.param({"nodegroups": {}}, [], "exactly one of", id="no key to group by"),
        pytest.param(
            {"nodegroups": {"fromNodeLabelKey": "a", "fromNodeAnnotationKey": "b"}},
            [],
            "exactly one of",
            id="both keys",
        ),
        pytest.param({"configmap": {}}, [], "configmap.name: is required", id="no template ConfigMap"),
        pytest.param(
            {"configmap": {"name": "x"}}, [], "needs the ConfigMap kube-system/x", id="absent template ConfigMap"
        ),
        pytest.param({}, [], "holds no v1.Node", id="no templates"),
        pytest.param(
            {},
            [{"kind": "Node", "metadata": {"labels": ["a"]}}],
            "node 0: metadata.labels: must be a mapping",
            id="list",
        ),
        pytest.param(
            {}, [{"kind": "Node", "spec": {"taints": [{}]}}], "node 0: spec.taints[0].key: is required", id="bare taint"
        ),
        pytest.param(
            {},
            [{"kind": "Node", "status": {"capacity": {"cpu": "4 cores"}}}],
            'node 0: status.capacity[cpu]: "4 cores" is not a quantity',
            id="no quantity",
        ),
        pytest.param({}, [a_template("a", "")], "no node has the key pool", id="no node in a group"),
        pytest.param({}, [a_template("a", "w", min_count="x")], "min-count: 'x' is not a whole", id="count in words"),
        pytest.param(
            {}, [a_template("a", "w", min_count="3", max_count="2")], "max-count 2 is below", id="max below min"
        ),
        pytest.param({}, [a_template("a", "w", desired_count="201")], "desired-count 201", id="desired above max"),
        pytest.param({}, [a_template("a", "My_Pool")], "cannot begin a node's name", id="value that is no node name"),
    ],
)
def test_a_configuration_that_cannot_work_is_refused(config: Any, nodes: list[Any], problem: str) -> None:
    with pytest.raises(Misconfigured) as caught:
        create(ProviderContext(node_api=an_api(*nodes, **config)))
    assert problem in str(caught.value)


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        ({"config": "a: ["}, "kwok-provider-config: config: "),
        ({}, "is missing or empty"),
        ({"config": "# none"}, "nothing"),
    ],
    ids=["broken YAML", "no key", "only a comment"],
)
def test_an_unreadable_config_map_is_refused(data: dict[str, str], problem: str) -> None:
    api = an_api(a_template("a", "web"))
    api.put_config_map("kube-system", "kwok-provider-config", data)
    with pytest.raises(Misconfigured, match=problem):
        create(ProviderContext(node_api=api))


def test_without_a_cluster_there_is_no_kwok() -> None:
    with pytest.raises(Misconfigured, match="needs access to a cluster"):
        create(ProviderContext())


def test_an_increase_that_fails_half_way_counts_what_was_created() -> None:
    api = an_api(a_template("a", "web"))
    (group,) = opened(api).groups()
    group.increase(1)
    api.fail_next(Transient("timed out"))
    with pytest.raises(Transient):
        group.increase(2)
    assert group.target_size() == len(api.list_nodes()) == 1


def test_a_node_that_waits_for_a_finalizer_is_deleting_and_not_counted() -> None:
    api = an_api(a_template("a", "web", min_count="1"))
    (group,) = opened(api).groups()
    (node,) = api.list_nodes()
    api.delete_node(node["metadata"]["name"])
    api.create_node({**node, "metadata": {**node["metadata"], "deletionTimestamp": "2024-01-01T00:00:00Z"}})
    provider = opened(api)
    (group,) = provider.groups()
    assert sorted(instance.state or "" for instance in group.instances()) == [State.DELETING, State.RUNNING]
    assert group.target_size() == 1
    assert provider.group_of(node_ref(node)) == "web"


def test_only_fake_nodes_of_the_group_are_deleted() -> None:
    api = an_api(a_template("a", "web"), a_template("b", "batch"))
    web, batch = opened(api).groups()
    web.increase(1)
    batch.increase(1)
    api.create_node({"metadata": {"name": "real"}, "spec": {"providerID": "kind://real"}})
    refs = {ref.name: ref for ref in map(node_ref, api.list_nodes())}
    for group, name in ((web, "real"), (web, next(n for n in refs if n.startswith("batch")))):
        with pytest.raises(ProviderError, match="not one of this group's"):
            group.delete([refs[name]])
    assert len(api.list_nodes()) == 3


def test_closing_deletes_the_fake_nodes_and_names_those_that_stay() -> None:
    api = an_api(a_template("a", "web", desired_count="2"))
    provider = opened(api)
    api.create_node({"metadata": {"name": "real"}})
    api.fail_next(Transient("timed out"))
    with pytest.raises(Transient, match="1 fake nodes are left: web-"):
        provider.close()
    provider.close()
    assert [node["metadata"]["name"] for node in api.list_nodes()] == ["real"]


def test_a_replica_that_never_led_deletes_nothing_on_exit() -> None:
    api = an_api(a_template("a", "web", desired_count="2"))
    opened(api)
    create(ProviderContext(node_api=api)).close()
    assert len(api.list_nodes()) == 2


class SlowList(MemoryNodeApi):
    """Lets something happen while the nodes are being listed."""

    def __init__(self) -> None:
        super().__init__()
        self.meanwhile: Any = None

    def list_nodes(self) -> Any:
        nodes = super().list_nodes()
        if self.meanwhile is not None:
            action, self.meanwhile = self.meanwhile, None
            action()
        return nodes


def test_what_happens_during_a_refresh_counts_more_than_its_list() -> None:
    api = SlowList()
    api.put_config_map("kube-system", "kwok-provider-config", {"config": json.dumps(CONFIG)})
    api.put_config_map("kube-system", "kwok-provider-templates", {"templates": json.dumps(a_template("a", "web"))})
    provider = opened(api)
    (group,) = provider.groups()
    group.increase(2)
    victim = group.instances()[0].provider_id

    def replace_one() -> None:
        group.delete([NodeRef(victim, victim)])
        group.increase(1)

    api.meanwhile = replace_one
    provider.refresh(0.0)
    assert {i.provider_id for i in group.instances()} == {node_ref(node).provider_id for node in api.list_nodes()}
    assert victim not in {i.provider_id for i in group.instances()}
