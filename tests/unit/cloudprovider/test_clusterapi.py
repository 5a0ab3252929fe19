"""Which groups there are, what they have, and whose nodes are theirs."""

import logging
from typing import Any

import pytest

from cloudprovider import clusterapi
from cloudprovider.conformance import MemoryObjectApi
from cloudprovider.interface import (
    Accelerators,
    GroupSettings,
    KnowsInstances,
    Misconfigured,
    NodeRef,
    ObjectKind,
    Pricing,
    ProviderContext,
    ProviderError,
    State,
    Transient,
)
from tests.fakes import capi
from tests.unit.cloudprovider.clusterapi_world import ClusterApiWorld, a_set, node, running, three

Json = dict[str, Any]
MIN, MAX = (f"{capi.GROUP}/cluster-api-autoscaler-node-group-{which}-size" for which in ("min", "max"))


def group_of(annotations: Json, replicas: int | None = 1, kind: str = "MachineSet", **fields: Any) -> Json:
    return capi.a_scalable(kind, "web", replicas, annotations, **fields)


class TestGroups:
    def test_all_three_kinds_are_groups_and_a_set_of_a_deployment_is_not(self) -> None:
        owner = {"kind": "MachineDeployment", "name": "web"}
        world = ClusterApiWorld(
            capi.a_group("web"),
            capi.a_scalable("MachineSet", "web-1", 0, {**capi.sized(0, 3), **capi.capacity()}, owner=owner),
            capi.a_group("alone", kind="MachineSet"),
            capi.a_group("pool", kind="MachinePool"),
        )
        assert world.ids == ["MachineSet/default/alone", "MachineDeployment/default/web", "MachinePool/default/pool"]

    @pytest.mark.parametrize(
        ("annotations", "sizes"),
        [
            pytest.param(capi.sized(1, 5), (1, 5), id="both"),
            pytest.param({MAX: "5"}, (0, 5), id="no minimum is zero"),
            pytest.param(capi.sized(2, 2), (2, 2), id="no room"),
            pytest.param({MIN: "1"}, None, id="no maximum is zero, and that no group"),
            pytest.param(capi.sized(0, 0), None, id="zero"),
            pytest.param(capi.sized(3, 2), None, id="the wrong way round"),
            pytest.param(capi.sized(-1, 2), None, id="negative minimum"),
            pytest.param(capi.sized(0, -2), None, id="negative maximum"),
            pytest.param(capi.sized("one", 2), None, id="a word"),
            pytest.param(capi.sized("1.5", 2), None, id="a fraction"),
            pytest.param({}, None, id="none"),
        ],
    )
    def test_sizes_are_annotations(self, annotations: Json, sizes: tuple[int, int] | None) -> None:
        world = ClusterApiWorld(group_of(annotations))
        assert [(one.min_size, one.max_size) for one in world.provider.groups()] == ([] if sizes is None else [sizes])

    def test_a_bad_annotation_costs_its_group_alone_and_is_said_once(self, caplog: pytest.LogCaptureFixture) -> None:
        with caplog.at_level(logging.WARNING, "cloudprovider"):
            bad = capi.a_scalable("MachineSet", "bad", 1, capi.sized("x", 2))
            world = ClusterApiWorld(bad, a_set())
            world.refresh()
        assert world.ids == ["MachineSet/default/web"]
        (said,) = caplog.messages
        assert "MachineSet/default/bad" in said
        assert "'x' is not a whole number" in said

    def test_without_replicas_what_cannot_grow_from_zero_is_no_group(self) -> None:
        assert ClusterApiWorld(group_of(capi.sized(0, 3), 0)).ids == []
        assert ClusterApiWorld(group_of({**capi.sized(0, 3), **capi.capacity()}, 0)).ids == ["MachineSet/default/web"]
        assert ClusterApiWorld(group_of(capi.sized(0, 3), None)).ids == []

    def test_what_is_paused_is_no_group_and_its_nodes_are_nobodys(self) -> None:
        annotations = {**capi.sized(0, 3), f"{capi.GROUP}/paused": ""}
        world = ClusterApiWorld(group_of(annotations), *running("a"))
        assert world.ids == []
        assert world.provider.group_of(node("a")) is None

    def test_the_target_is_the_replicas(self) -> None:
        assert ClusterApiWorld(a_set(4)).group.target_size() == 4

    def test_options_are_annotations(self) -> None:
        prefix = f"{capi.GROUP}/autoscaling-options-"
        given = {
            "scaledownutilizationthreshold": "0.3",
            "scaledowngpuutilizationthreshold": "0.4",
            "scaledownunneededtime": "5M",
            "scaledownunreadytime": "1h",
            "maxnodeprovisiontime": "20m0s",
            "maxnodestartuptime": "30s",
            "ignoredaemonsetsutilization": "true",
        }
        world = ClusterApiWorld(group_of({**capi.sized(0, 3), **{prefix + key: value for key, value in given.items()}}))
        assert world.group.settings() == GroupSettings(
            scale_down_utilization_threshold=0.3,
            scale_down_gpu_utilization_threshold=0.4,
            scale_down_unneeded_time_s=300.0,
            scale_down_unready_time_s=3600.0,
            max_node_provision_time_s=1200.0,
            max_node_startup_time_s=30.0,
        )

    @pytest.mark.parametrize(("key", "value"), [("scaledownutilizationthreshold", "7"), ("scaledownunneededtime", "5")])
    def test_an_option_that_makes_no_sense_keeps_the_flag(self, key: str, value: str) -> None:
        world = ClusterApiWorld(group_of({**capi.sized(0, 3), f"{capi.GROUP}/autoscaling-options-{key}": value}))
        assert world.group.settings() == GroupSettings()


class TestDiscovery:
    OBJECTS = (
        capi.a_scalable("MachineSet", "a", 1, capi.sized(0, 3), namespace="x", cluster="one", labels={"pool": "p"}),
        capi.a_scalable("MachineSet", "b", 1, capi.sized(0, 3), namespace="x", cluster="two"),
        capi.a_scalable("MachineSet", "c", 1, capi.sized(0, 3), namespace="y", cluster="one", labels={"pool": "q"}),
    )

    @pytest.mark.parametrize(
        ("specs", "expected"),
        [
            pytest.param([], "abc", id="none means all"),
            pytest.param(["clusterapi:"], "abc", id="an empty one as well"),
            pytest.param(["clusterapi:namespace=x"], "ab", id="a namespace"),
            pytest.param(["clusterapi:clusterName=one"], "ac", id="a cluster"),
            pytest.param(["clusterapi:pool=p"], "a", id="a label"),
            pytest.param(["clusterapi:namespace=x,clusterName=one,pool=p"], "a", id="all must match"),
            pytest.param(["clusterapi:namespace=y,pool=p"], "", id="and here they do not"),
            pytest.param(["clusterapi:namespace=y", "clusterapi:clusterName=two"], "bc", id="one of several must"),
        ],
    )
    def test_specifications_select(self, specs: list[str], expected: str) -> None:
        world = ClusterApiWorld(*self.OBJECTS, discovery_specs=specs)
        assert [one.rpartition("/")[2] for one in world.ids] == list(expected)

    def test_without_a_name_in_the_specification_the_label_tells_the_cluster(self) -> None:
        one = capi.a_scalable("MachineSet", "a", 1, capi.sized(0, 3), labels={f"{capi.GROUP}/cluster-name": "one"})
        del one["spec"]["clusterName"]
        assert ClusterApiWorld(one, discovery_specs=["clusterapi:clusterName=one"]).ids == ["MachineSet/default/a"]

    def test_every_namespace_that_is_named_is_looked_in_and_no_other(self) -> None:
        world = ClusterApiWorld(*self.OBJECTS, discovery_specs=["clusterapi:namespace=x", "clusterapi:namespace=y"])
        assert len(world.ids) == 3
        assert world.api.calls.count("list machines") == 2

    def test_all_that_is_wrong_is_said_at_once(self) -> None:
        specs = ["asg:tag=x", "clusterapi", "clusterapi:a", "clusterapi:a=1,a=2"]
        environment = {"CAPI_SCALE_ZERO_DEFAULT_ARCH": "vax"}
        with pytest.raises(Misconfigured) as caught:
            ClusterApiWorld(discovery_specs=specs, environment=environment)
        lines = str(caught.value).splitlines()
        assert len(lines) == 5
        assert all("node-group-auto-discovery" in line for line in lines[:4])
        assert "'vax' is none of amd64" in lines[4]


class TestManagementCluster:
    def opened(self, authoritative: bool, config_file: str | None) -> list[object]:
        asked: list[object] = []
        api = capi.an_api()

        def connect(kubeconfig: str | None) -> Any:
            asked.append(kubeconfig)
            return api

        flags = {"clusterapi-cloud-config-authoritative": authoritative}
        clusterapi.create(ProviderContext(object_api=api, connect=connect, config_file=config_file, flags=flags))
        return asked

    @pytest.mark.parametrize(
        ("authoritative", "config_file", "asked"),
        [
            pytest.param(False, None, [], id="the cluster that is scaled"),
            pytest.param(False, "/m", ["/m"], id="the one of --cloud-config"),
            pytest.param(True, "/m", ["/m"], id="the same"),
            pytest.param(True, None, [None], id="the one that the pod runs in"),
        ],
    )
    def test_which_it_is(self, authoritative: bool, config_file: str | None, asked: list[object]) -> None:
        assert self.opened(authoritative, config_file) == asked

    def test_without_any_there_is_nothing_to_do(self) -> None:
        with pytest.raises(Misconfigured, match="needs access to a cluster"):
            clusterapi.create(ProviderContext())

    def test_where_cluster_api_is_not_installed_that_is_said(self) -> None:
        with pytest.raises(Misconfigured, match=r"does not serve cluster\.x-k8s\.io: is Cluster API installed"):
            clusterapi.create(ProviderContext(object_api=MemoryObjectApi({})))
        with pytest.raises(Misconfigured, match=r"does not serve cluster\.x-k8s\.io/v9"):
            ClusterApiWorld(environment={"CAPI_VERSION": "v9"})
        with pytest.raises(Misconfigured, match=r"does not serve example\.org"):
            ClusterApiWorld(environment={"CAPI_GROUP": "example.org"})

    @pytest.mark.parametrize(
        ("error", "expected"),
        [
            pytest.param(Transient("away"), Transient, id="away: may come back"),
            pytest.param(ProviderError("forbidden"), Misconfigured, id="forbidden: will stay so"),
        ],
    )
    def test_errors_at_the_start(self, error: ProviderError, expected: type[ProviderError]) -> None:
        api = capi.an_api()
        api.fail(f"kinds {capi.GROUP}", error)
        with pytest.raises(ProviderError) as caught:
            clusterapi.create(ProviderContext(object_api=api))
        assert type(caught.value) is expected

    def test_kinds_that_are_not_served_are_not_asked_for(self) -> None:
        served = {kind: one for kind, one in capi.kinds().items() if kind in ("Machine", "MachineSet")}
        api = MemoryObjectApi(served, capi.SCALED)
        api.put(capi.SETS, a_set())
        provider = clusterapi.create(ProviderContext(object_api=api))
        api.calls.clear()
        provider.refresh(0.0)
        assert [group.id for group in provider.groups()] == ["MachineSet/default/web"]
        assert api.calls == ["list machinesets", "list machines"]

    def test_another_group_changes_every_key(self) -> None:
        group = "example.org"
        kinds = {name: ObjectKind(group, "v1", one.plural) for name, one in capi.kinds().items()}
        api = MemoryObjectApi(kinds, capi.SCALED)
        prefix = f"{group}/cluster-api-autoscaler-node-group"
        api.put(capi.SETS, group_of({f"{prefix}-min-size": "0", f"{prefix}-max-size": "3"}))
        api.put(capi.SETS, capi.a_scalable("MachineSet", "other", 1, capi.sized(0, 3)))
        (machine,) = running("a")
        api.put(capi.MACHINES, machine)
        provider = clusterapi.create(ProviderContext(object_api=api, environment={"CAPI_GROUP": group}))
        provider.refresh(0.0)
        assert [one.id for one in provider.groups()] == ["MachineSet/default/web"]
        ref = NodeRef("n", "", annotations={f"{group}/machine": "a", f"{group}/cluster-namespace": "default"})
        assert provider.group_of(ref) == "MachineSet/default/web"
        provider.groups()[0].delete([ref])
        (stored,) = api.objects(capi.MACHINES)
        assert f"{group}/delete-machine" in stored["metadata"]["annotations"]


class TestRefresh:
    def test_an_idle_one_lists_each_kind_once(self) -> None:
        world = three()
        expected = [f"list {one}" for one in (capi.SETS, capi.DEPLOYMENTS, capi.POOLS, capi.MACHINES)]
        for _ in range(2):
            world.refresh()
            assert world.api.calls == expected

    def test_only_the_machines_of_the_clusters_in_question_are_listed(self) -> None:
        (other,) = running("b")
        other["metadata"]["labels"] = {f"{capi.GROUP}/cluster-name": "two"}
        world = ClusterApiWorld(a_set(), *running("a"), other, discovery_specs=["clusterapi:clusterName=one"])
        assert list(world.instances()) == ["docker:////a"]

    def test_what_fails_leaves_everything_as_it_was(self) -> None:
        world = three()
        world.api.fail("list machines", Transient("away"))
        with pytest.raises(Transient):
            world.refresh()
        assert world.ids == ["MachineSet/default/web"]
        assert len(world.instances()) == 3

    def test_reading_the_groups_asks_for_nothing(self) -> None:
        world = three()
        world.api.calls.clear()
        for group in world.provider.groups():
            assert (group.target_size(), group.min_size, group.max_size) == (3, 0, 6)
            assert len(group.instances()) == 3
            assert world.provider.group_of(node("a")) == group.id
            assert group.template() is not None
        assert world.api.calls == []


class TestMachines:
    @pytest.mark.parametrize(
        ("machine", "instance"),
        [
            pytest.param(
                capi.a_machine("m", "web"), ("pending-machine-default_m", State.CREATING, None), id="just asked for"
            ),
            pytest.param(
                capi.a_machine("m", "web", provider_id="docker:////m"),
                ("docker:////m", State.CREATING, None),
                id="boots",
            ),
            pytest.param(running("m")[0], ("docker:////m", State.RUNNING, None), id="runs"),
            pytest.param(
                capi.a_machine("m", "web", phase="Failed", message="no quota"),
                ("failed-machine-default_m", State.CREATING, "ProvisioningFailed"),
                id="failed to come up",
            ),
            pytest.param(
                running("m", phase="Failed")[0], ("docker:////m", State.RUNNING, None), id="failed, and has a node"
            ),
            pytest.param(
                capi.a_machine("m", "web", deleting=True),
                ("deleting-machine-default_m", State.DELETING, None),
                id="deleted before it had an id",
            ),
            pytest.param(running("m", deleting=True)[0], ("docker:////m", State.DELETING, None), id="deleted"),
            pytest.param(
                capi.a_machine("m", "web", deleting=True, phase="Failed"),
                ("failed-machine-default_m", State.DELETING, "DeletingFailed"),
                id="failed to be deleted",
            ),
        ],
    )
    def test_are_instances(self, machine: Json, instance: tuple[str, State, str | None]) -> None:
        world = ClusterApiWorld(a_set(1), machine)
        provider_id, state, error = instance
        assert world.instances() == {provider_id: (state, error)}
        assert world.provider.group_of(NodeRef(provider_id, provider_id)) == "MachineSet/default/web"
        assert world.provider.has_instance(NodeRef(provider_id, provider_id))

    @pytest.mark.parametrize("deprecated", [False, True])
    def test_why_one_failed_is_told_in_every_version(self, deprecated: bool) -> None:
        machine = capi.a_machine("m", "web", phase="Failed")
        said = {"failureMessage": "why"}
        machine["status"] = {"phase": "Failed", **({"deprecated": {"v1beta1": said}} if deprecated else said)}
        (instance,) = ClusterApiWorld(a_set(1), machine).group.instances()
        assert instance.error is not None
        assert instance.error.message == "the Machine cannot be provisioned: why"

    def test_one_without_an_id_has_that_of_its_node_once_it_was_seen(self) -> None:
        world = ClusterApiWorld(a_set(1), capi.a_machine("m", "web", node="n"))
        assert list(world.instances()) == ["pending-machine-default_m"]
        keys = {f"{capi.GROUP}/machine": "m", f"{capi.GROUP}/cluster-namespace": "default"}
        seen = NodeRef("n", "openstack:///1", {"pool": "web"}, keys)
        assert world.provider.group_of(seen) == "MachineSet/default/web"
        assert world.instances() == {"openstack:///1": (State.RUNNING, None)}
        world.group.delete([seen])
        assert list(world.marks()) == ["m"]

    def test_a_deployment_has_those_of_all_its_sets(self) -> None:
        owner = {"kind": "MachineDeployment", "name": "web"}
        sets = [capi.a_scalable("MachineSet", name, 1, owner=owner) for name in ("old", "new")]
        world = ClusterApiWorld(
            capi.a_group("web", replicas=2), *sets, *running("a", owner="old"), *running("b", owner="new")
        )
        assert list(world.instances()) == ["docker:////a", "docker:////b"]
        assert world.provider.group_of(node("b")) == "MachineDeployment/default/web"

    def test_a_pool_has_those_it_lists_whether_there_are_machines_or_not(self) -> None:
        pool = capi.a_group("web", replicas=3, kind="MachinePool")
        pool["spec"]["providerIDList"] = ["docker:////a", "docker:////b"]
        machines = [*running("a", kind="MachinePool", deleting=True), capi.a_machine("c", "web", kind="MachinePool")]
        world = ClusterApiWorld(pool, *machines)
        assert world.instances() == {
            "docker:////a": (State.DELETING, None),
            "docker:////b": (State.RUNNING, None),
            "pending-machine-default_c": (State.CREATING, None),
        }
        assert world.provider.group_of(node("b")) == "MachinePool/default/web"


class TestNodes:
    def test_are_known_by_annotation_then_by_id(self) -> None:
        world = ClusterApiWorld(a_set(2), *running("a"))
        keys = {f"{capi.GROUP}/machine": "a", f"{capi.GROUP}/cluster-namespace": "default"}
        for ref in (
            NodeRef("x", "", annotations=keys),
            NodeRef("x", "other://b", annotations=keys),
            NodeRef("x", "docker:////a"),
            NodeRef("x", "kind://elsewhere/a"),
        ):
            assert world.provider.group_of(ref) == "MachineSet/default/web"

    @pytest.mark.parametrize(
        "ref",
        [
            pytest.param(NodeRef("x", "docker:////b"), id="another id"),
            pytest.param(NodeRef("a", ""), id="no id"),
            pytest.param(NodeRef("x", "", annotations={f"{capi.GROUP}/machine": "a"}), id="no namespace"),
            pytest.param(NodeRef("x", "pending-machine-default_b"), id="a made-up id of nobody"),
        ],
    )
    def test_of_nobody(self, ref: NodeRef) -> None:
        world = ClusterApiWorld(a_set(1), *running("a"))
        assert world.provider.group_of(ref) is None
        assert not world.provider.has_instance(ref)

    def test_an_end_that_two_ids_share_tells_nothing(self) -> None:
        first, second = running("a", "b")
        first["spec"]["providerID"], second["spec"]["providerID"] = "gce://p/zone-1/x", "gce://p/zone-2/x"
        world = ClusterApiWorld(a_set(2), first, second)
        assert world.provider.group_of(NodeRef("n", "x")) is None
        assert world.provider.group_of(NodeRef("n", "gce://p/zone-2/x")) == "MachineSet/default/web"

    def test_ids_of_azure_scale_sets_are_compared_whole(self) -> None:
        prefix = "azure:///subscriptions/s/virtualMachineScaleSets"
        (machine,) = running("a")
        machine["spec"]["providerID"] = f"{prefix}/blue/virtualMachines/0"
        world = ClusterApiWorld(a_set(1), machine)
        assert world.provider.group_of(NodeRef("n", f"{prefix}/green/virtualMachines/0")) is None
        assert world.provider.group_of(NodeRef("n", f"{prefix}/blue/virtualMachines/0")) is not None


class TestRollingOut:
    def world(self, **old: Any) -> ClusterApiWorld:
        owner = {"kind": "MachineDeployment", "name": "web"}
        revision = "machinedeployment.clusters.x-k8s.io/revision"
        fresh = capi.a_scalable("MachineSet", "new", 2, {revision: "10"}, owner=owner)
        stale = capi.a_scalable("MachineSet", "old", old.get("replicas", 0), {revision: "9"}, owner=owner)
        stale["status"] = {"replicas": old.get("present", 0)}
        return ClusterApiWorld(capi.a_group("web", replicas=2), stale, fresh, *running("a", "b", owner="new"))

    @pytest.mark.parametrize("old", [{"replicas": 1}, {"present": 1}], ids=["asked for", "still there"])
    def test_a_deployment_with_old_machines_is_not_scaled_down(self, old: Json) -> None:
        assert self.world(**old).group.settings().scale_down_enabled is False

    def test_one_without_is(self) -> None:
        assert self.world().group.settings().scale_down_enabled is None


def test_abilities() -> None:
    provider = three().provider
    assert isinstance(provider, KnowsInstances | Accelerators)
    assert not isinstance(provider, Pricing)
    assert (provider.gpu_label, provider.gpu_types()) == ("cluster-api/accelerator", ())
