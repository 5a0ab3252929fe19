"""Reading scenario files: what they mean, what they may leave out, and what is reported when they are wrong."""

import json
from pathlib import Path
from typing import Any

import pytest

from autoscaler.errors import ConfigError
from autoscaler.objects.meta import unix_seconds
from autoscaler.objects.node import readiness
from autoscaler.scenario.codec import decode, load
from autoscaler.scenario.scenario import PRIORITIES, Scenario, config_maps_key
from cloudprovider.interface import ErrorClass, InstanceError, State

NOW = "2026-01-05T12:00:00Z"
GROUP = {"id": "web", "minSize": 0, "maxSize": 9, "targetSize": 1, "template": {"status": {"capacity": {"cpu": "4"}}}}


TOO_VAGUE = {"spec": {"containers": [{"resources": {"requests": {"cpu": "?"}}}]}}


def scenario(**fields: Any) -> Scenario:
    return decode(json.dumps({"now": NOW, **fields}).encode(), "case.json")


def problems(**fields: Any) -> list[str]:
    return problems_of(json.dumps({"now": NOW, **fields}).encode())


def problems_of(body: bytes, name: str = "case.json") -> list[str]:
    with pytest.raises(ConfigError) as caught:
        decode(body, name)
    return [line.removeprefix(f"{name}: ") for line in caught.value.problems]


def a_node(name: str = "n1", **fields: Any) -> dict[str, Any]:
    return {"metadata": {"name": name}, "status": {"allocatable": {"cpu": "4"}}, **fields}


def a_pod(name: str = "p1", **spec: Any) -> dict[str, Any]:
    return {"metadata": {"name": name}, "spec": {"containers": [{}], **spec}}


class TestDefaults:
    def test_a_node_is_a_day_old_ready_and_known_by_its_name(self) -> None:
        (node,) = scenario(nodes=[a_node()]).nodes
        created = unix_seconds(NOW) - 86400
        assert node.uid == "Node/n1"
        assert node.provider_id == "n1"
        assert node.labels == {"kubernetes.io/hostname": "n1"}
        assert node.created == created
        assert node.allocatable == node.capacity == {"cpu": 4000, "pods": 110}
        assert readiness(node).ready
        assert readiness(node).since == created

    def test_a_node_keeps_what_it_says_itself(self) -> None:
        given = {
            "metadata": {
                "name": "n1",
                "uid": "u",
                "labels": {"kubernetes.io/hostname": "h"},
                "creationTimestamp": "2026-01-05T11:00:00Z",
            },
            "spec": {"providerID": "cloud://1"},
            "status": {
                "capacity": {"cpu": "4", "pods": "20"},
                "conditions": [{"type": "Ready", "status": "False"}],
            },
        }
        (node,) = scenario(nodes=[given]).nodes
        assert (node.uid, node.provider_id, node.labels["kubernetes.io/hostname"]) == ("u", "cloud://1", "h")
        assert node.allocatable == {"cpu": 4000, "pods": 20}
        assert not readiness(node).ready
        assert readiness(node).since == node.created == unix_seconds("2026-01-05T11:00:00Z")

    def test_a_pod_without_a_node_waits_as_unschedulable_since_ten_minutes(self) -> None:
        (pod,) = scenario(pods=[a_pod()]).pods
        assert pod.key == pod.uid == "default/p1"
        assert pod.phase == "Pending"
        assert pod.created == unix_seconds(NOW) - 600
        assert pod.unscheduled is not None
        assert (pod.unscheduled.reason, pod.unscheduled.since) == ("Unschedulable", pod.created)

    def test_a_pod_whose_conditions_are_given_is_not_called_unschedulable(self) -> None:
        gated = {**a_pod(), "status": {"conditions": [{"type": "Initialized", "status": "True"}]}}
        (pod,) = scenario(pods=[gated]).pods
        assert pod.unscheduled is None

    def test_a_pod_with_a_node_runs_there_since_it_was_created(self) -> None:
        (pod,) = scenario(nodes=[a_node()], pods=[a_pod(nodeName="n1")]).pods
        assert (pod.phase, pod.node, pod.started) == ("Running", "n1", pod.created)

    def test_an_owner_controls_unless_it_says_otherwise(self) -> None:
        owners = [{"kind": "Node", "name": "n", "controller": False}, {"kind": "ReplicaSet", "name": "web"}]
        (pod,) = scenario(pods=[{"metadata": {"name": "p", "namespace": "x", "ownerReferences": owners}}]).pods
        owner = pod.cls.owner
        assert owner is not None
        assert (owner.kind, owner.uid, owner.api_version) == ("ReplicaSet", "ReplicaSet/x/web", "apps/v1")

    def test_replicas_that_name_their_containers_by_default_are_of_one_class(self) -> None:
        named = a_pod("p2", containers=[{"name": "c0"}])
        first, second = scenario(pods=[a_pod("p1"), named]).pods
        assert first.cls is second.cls

    def test_namespaces_in_use_exist_and_carry_their_name(self) -> None:
        given = {"metadata": {"name": "own", "labels": {"team": "a"}}}
        later = [{"beforeRun": 0, "addPods": [{"metadata": {"name": "p", "namespace": "late"}}]}]
        found = scenario(namespaces=[given], changes=later).related.namespaces
        assert list(found) == ["own", "default", "kube-system", "late"]
        assert found["own"].metadata.labels == {"team": "a", "kubernetes.io/metadata.name": "own"}

    def test_a_nameless_template_is_called_after_its_group(self) -> None:
        (group,) = scenario(nodeGroups=[GROUP]).cloud.groups
        assert group.template is not None
        assert group.template.labels == {"kubernetes.io/hostname": "web-template"}
        assert group.template.allocatable == {"cpu": "4", "pods": "110"}

    def test_static_pods_of_a_template_get_names_and_a_namespace(self) -> None:
        (group,) = scenario(nodeGroups=[{**GROUP, "templatePods": [{"spec": {"containers": [{}]}}]}]).cloud.groups
        assert group.template is not None
        (pod,) = group.template.pods
        assert pod["metadata"]["name"] == "template-pod-0"
        assert pod["metadata"]["namespace"] == "default"

    def test_a_complete_file_gets_none(self) -> None:
        found = scenario(complete=True, nodes=[a_node()], pods=[a_pod()])
        assert found.nodes[0].allocatable == {"cpu": 4000}
        assert found.nodes[0].conditions == ()
        assert found.pods[0].unscheduled is None
        assert found.related.namespaces == {}


class TestMeaning:
    def test_runs_are_a_step_apart_from_a_second_after_now(self) -> None:
        found = scenario(runs=3, step="1m30s")
        assert [found.run_at_s(run) - unix_seconds(NOW) for run in range(3)] == [1.0, 91.0, 181.0]

    def test_the_name_is_that_of_the_file_unless_given(self) -> None:
        assert scenario().name == "case"
        assert scenario(name="mine").name == "mine"

    def test_options_are_flags_and_overrides_go_first(self) -> None:
        body = json.dumps({"now": NOW, "options": {"expander": "least-waste", "max-nodes-total": 7}}).encode()
        config = decode(body, "case.json", {"expander": "most-pods"}).config
        assert config.scale_up.expander == ("most-pods",)
        assert config.limits.max_nodes_total == 7

    def test_the_priority_expanders_text_is_a_config_map(self) -> None:
        related = scenario(priorityConfig="10: [web]", options={"namespace": "infra"}).related
        assert related.config_maps[config_maps_key("infra")].data == {PRIORITIES: "10: [web]"}

    def test_groups_claim_their_nodes_and_know_which_are_missing(self) -> None:
        nodes = [a_node("n1"), a_node("n2")]
        cloud = scenario(
            nodes=nodes, nodeGroups=[GROUP], nodeToGroup={"n1": "web", "n2": "web"}, missingInstances=["n2"]
        ).cloud
        assert tuple(cloud.groups[0].node_names) == ("n1", "n2")
        assert tuple(cloud.missing) == ("n2",)

    def test_instances_have_states_and_errors(self) -> None:
        broken = {"group": "web", "id": "i-1", "state": "creating", "errorClass": "OutOfResources", "errorCode": "X"}
        (machine,) = scenario(nodeGroups=[GROUP], instances=[broken]).cloud.machines
        assert machine.state is State.CREATING
        assert machine.error == InstanceError(ErrorClass.OUT_OF_RESOURCES, "X", "")

    def test_prices_and_overrides_reach_the_cloud(self) -> None:
        group = {**GROUP, "options": {"scale-down-unneeded-time": "2m", "zero-or-max-node-scaling": True}}
        cloud = scenario(nodeGroups=[group], prices={"cpuPerHour": 1, "instanceTypes": {"m5": 2}}).cloud
        assert cloud.prices is not None
        assert (cloud.prices.cpu_per_hour, dict(cloud.prices.instance_types)) == (1.0, {"m5": 2.0})
        assert cloud.groups[0].settings.scale_down_unneeded_time_s == 120.0
        assert cloud.groups[0].settings.zero_or_max_node_scaling

    def test_an_increase_error_fails_every_increase(self) -> None:
        (group,) = scenario(nodeGroups=[{**GROUP, "increaseError": "none left"}]).cloud.groups
        assert [fault.message for fault in group.call_faults] == ["none left"]

    def test_changes_are_kept_with_their_run(self) -> None:
        change = {
            "beforeRun": 1,
            "addNodes": [a_node("n9")],
            "nodeToGroup": {"n9": "web"},
            "addInstances": [{"group": "web", "id": "i-2"}],
            "removePods": ["default/p1"],
        }
        found = scenario(runs=2, nodeGroups=[GROUP], pods=[a_pod()], changes=[change])
        assert found.changes_before(0) == []
        (kept,) = found.changes_before(1)
        assert [node.name for node in kept.add_nodes] == ["n9"]
        assert [(machine.group, machine.provider_id) for machine in kept.add_machines] == [
            ("web", "n9"),
            ("web", "i-2"),
        ]
        assert kept.remove_pods == ("default/p1",)

    def test_objects_may_have_fields_that_nothing_reads(self) -> None:
        node = {**a_node(), "apiVersion": "v1", "kind": "Node", "whatever": {"deep": [1]}}
        assert scenario(nodes=[node]).nodes[0].name == "n1"

    def test_yaml_is_read_as_kubernetes_reads_it(self) -> None:
        text = """
        now: 2026-01-05T12:00:00Z
        options: {expander: least-waste, max-nodes-total: 5}
        nodes:
        - metadata: {name: n1, creationTimestamp: 2026-01-05T10:00:00Z}
          status: {allocatable: {cpu: 4, memory: 16Gi}}
        """
        found = decode(text.encode(), "case.yaml")
        assert found.now_s == unix_seconds(NOW)
        assert found.nodes[0].created == unix_seconds("2026-01-05T10:00:00Z")
        assert found.nodes[0].allocatable["cpu"] == 4000

    def test_without_an_ending_the_content_tells_the_format(self) -> None:
        assert decode(b'{"now": "2026-01-05T12:00:00Z"}', "-").now_s == unix_seconds(NOW)
        assert decode(b"now: 2026-01-05T12:00:00Z", "-").now_s == unix_seconds(NOW)

    def test_harmless_oddities_are_only_warned_about(self) -> None:
        found = scenario(
            nodeGroups=[GROUP],
            nodeToGroup={"ghost": "web"},
            pods=[a_pod(nodeName="nowhere")],
            changes=[{"beforeRun": 5, "updateNodes": [a_node("other")]}],
        )
        assert [line for line in found.warnings if "nowhere" in line]
        assert [line for line in found.warnings if "ghost" in line]
        assert [line for line in found.warnings if "never happens" in line]
        assert [line for line in found.warnings if "no node other" in line]


class TestProblems:
    @pytest.mark.parametrize(
        ("fields", "line"),
        [
            pytest.param({"podz": []}, "podz: unknown key; did you mean pods?", id="unknown key"),
            pytest.param({"now": 5}, "now: must be a string, not the number 5", id="wrong type"),
            pytest.param({"now": "yesterday"}, "now: 'yesterday' is not a time", id="time that is none"),
            pytest.param({"now": "2026-01-05T12:00:00"}, "now: '2026-01-05T12:00:00' is not a time", id="no zone"),
            pytest.param({"now": "0001-01-01T00:00:00Z"}, "now: '0001-01-01T00:00:00Z' is not within", id="antiquity"),
            pytest.param({"step": "fast"}, "step: 'fast' is not a duration", id="duration that is none"),
            pytest.param({"step": "0s"}, "step: 0s is not above 0", id="step of nothing"),
            pytest.param({"runs": 0}, "runs: 0 is not within 1 and 1000000", id="no run"),
            pytest.param({"nodes": {}}, "nodes: must be a list, not a mapping", id="mapping for a list"),
            pytest.param(
                {"nodes": [{"metadata": {"name": "a", "labels": {"x": 1}}}]},
                "nodes[0].metadata.labels[...]: expected `str`, got `int`",
                id="wrong type deep in an object",
            ),
            pytest.param({"nodes": [{}]}, "nodes[0]: object missing required field `metadata`", id="no metadata"),
            pytest.param({"nodes": [{"metadata": {}}]}, "nodes[0].metadata.name: is required", id="nameless node"),
            pytest.param(
                {"nodes": [a_node("a"), a_node("a")]},
                "nodes[1].metadata.name: a is used by an earlier node",
                id="duplicate node",
            ),
            pytest.param(
                {"pods": [a_pod("a"), a_pod("a")]},
                "pods[1].metadata.name: default/a is used by an earlier pod",
                id="duplicate pod",
            ),
            pytest.param(
                {"pods": [a_pod(containers=[{"resources": {"requests": {"cpu": "lots"}}}])]},
                "pods[0].spec.containers[0].resources.requests[cpu]: 'lots' is not a quantity",
                id="quantity that is none",
            ),
            pytest.param(
                {"pods": [a_pod(containers=[{"resources": {"requests": {"cpu": "-1"}}}])]},
                "pods[0]: cpu: -1 is negative",
                id="negative request",
            ),
            pytest.param(
                {"pods": [{"metadata": {"name": "p", "creationTimestamp": "noon"}}]},
                "pods[0].metadata.creationTimestamp: 'noon' is not a time",
                id="time in a pod",
            ),
            pytest.param(
                {"nodes": [a_node(spec={"taints": [{"key": "k", "effect": "NoSchedule", "timeAdded": "x"}]})]},
                "nodes[0].spec.taints[0].timeAdded: 'x' is not a time",
                id="time in a taint",
            ),
            pytest.param(
                {"daemonSets": [{"metadata": {"name": "agent"}, "spec": {"template": TOO_VAGUE}}]},
                "daemonSets[0].spec.template.spec.containers[0].resources.requests[cpu]: '?' is not a quantity",
                id="quantity in a daemon set",
            ),
            pytest.param(
                {"nodeGroups": [{**GROUP, "minSize": -1}]},
                "nodeGroups[0].minSize: -1 is below 0",
                id="negative size",
            ),
            pytest.param(
                {"nodeGroups": [{**GROUP, "targetSize": 10**30}]},
                "nodeGroups[0].targetSize: 1000000000000000000000000000000 is above 1000000",
                id="size beyond any",
            ),
            pytest.param(
                {"nodeGroups": [{**GROUP, "minSize": 10}]},
                "nodeGroups[0].maxSize: 9 is below minSize 10",
                id="minimum above maximum",
            ),
            pytest.param(
                {"nodeGroups": [GROUP, GROUP]},
                "nodeGroups[1].id: web is used by an earlier group",
                id="duplicate group",
            ),
            pytest.param(
                {"nodeGroups": [{**GROUP, "options": {"scale-down-unneeded-tim": "1m"}}]},
                "nodeGroups[0].options.scale-down-unneeded-tim: ",
                id="unknown group option",
            ),
            pytest.param(
                {"nodeGroups": [{**GROUP, "templatePods": [{"spec": 1}]}]},
                "nodeGroups[0].templatePods[0].spec: expected `object`, got `int`",
                id="static pod of a wrong type",
            ),
            pytest.param(
                {"nodes": [a_node()], "nodeToGroup": {"n1": "db"}},
                "nodeToGroup.n1: there is no node group db",
                id="node in an unknown group",
            ),
            pytest.param(
                {"instances": [{"group": "db", "id": "i"}]},
                "instances[0].group: there is no node group db",
                id="instance in an unknown group",
            ),
            pytest.param(
                {"nodeGroups": [GROUP], "instances": [{"group": "web", "id": "i", "errorCode": "X"}]},
                "instances[0].errorClass: is required",
                id="error without class",
            ),
            pytest.param({"prices": {"cpu": 1}}, "prices.cpu: ", id="unknown price"),
            pytest.param({"options": {"expandr": "x"}}, "options.expandr: unknown flag", id="unknown flag"),
            pytest.param({"options": {"scan-interval": "soon"}}, "options.scan-interval: ", id="bad flag value"),
            pytest.param({"changes": [{}]}, "changes[0].beforeRun: is required", id="change without a run"),
            pytest.param(
                {"changes": [{"beforeRun": 0, "addPods": [a_pod("a"), a_pod("a")]}]},
                "changes[0].addPods[1].metadata.name: default/a is used",
                id="duplicate in a change",
            ),
            pytest.param(
                {"changes": [{"beforeRun": 0, "removePods": ["p1"]}]},
                "changes[0].removePods[0]: 'p1' is not namespace/name",
                id="pod without a namespace",
            ),
            pytest.param(
                {"nodeGroups": [GROUP], "changes": [{"beforeRun": 0, "nodeToGroup": {"n5": "web"}}]},
                "changes[0].nodeToGroup.n5: there is no such node by then",
                id="membership of a node that is not there",
            ),
        ],
    )
    def test_a_problem_is_one_line_that_names_the_place(self, fields: dict[str, Any], line: str) -> None:
        found = problems(**fields)
        assert len(found) == 1
        assert found[0].startswith(line)

    def test_all_problems_are_reported_at_once_with_their_places_in_the_file(self) -> None:
        found = problems(
            nope=1,
            options={"scan-interval": "soon", "expandr": "x"},
            nodeGroups=[{**GROUP, "minSize": -1}],
            nodes=[{"metadata": {"name": 7}}, a_node("a"), a_node("a"), {"metadata": {"name": False}}],
            pods=[a_pod("x", priority="high"), a_pod("y", containers=[{"resources": {"requests": {"cpu": "?"}}}])],
            changes=[{"beforeRun": -1, "odd": 1}, {"beforeRun": 0, "removePods": ["p1"]}],
        )
        starts = [line.partition(": ")[0] for line in found]
        assert sorted(starts) == sorted(
            [
                "nope",
                "options.scan-interval",
                "options.expandr",
                "nodeGroups[0].minSize",
                "nodes[0].metadata.name",
                "nodes[2].metadata.name",
                "nodes[3].metadata.name",
                "pods[0].spec.priority",
                "pods[1].spec.containers[0].resources.requests[cpu]",
                "changes[0].odd",
                "changes[0].beforeRun",
                "changes[1].removePods[0]",
            ]
        )

    @pytest.mark.parametrize(
        ("body", "name", "line"),
        [
            pytest.param(
                b'{"now": "x",\n "pods": [1,',
                "case.json",
                "is not JSON: input data was truncated (line 2, column 13, byte 26)",
                id="truncated",
            ),
            pytest.param(
                b'{"now": "x",\n "pods": [1,]}',
                "case.json",
                "is not JSON: trailing comma in array (line 2, column 13, byte 26)",
                id="malformed",
            ),
            pytest.param(b'{"now": "\xff"}', "case.json", "is not JSON: holds bytes that are not UTF-8", id="no text"),
            pytest.param(b"", "case.json", "is not JSON: input data was truncated", id="empty"),
            pytest.param(b'{"now": 1e999}', "case.json", "is not JSON: ", id="number beyond any"),
            pytest.param(b"[" * 100_000, "case.json", "is nested too deeply", id="very deep"),
            pytest.param(b"now: [", "case.yaml", "is not YAML: ", id="truncated YAML"),
            pytest.param(b"now: 1\nnow: 2", "case.yaml", "is not YAML: key now is there twice", id="key given twice"),
            pytest.param(b"\xff\xfe\x00", "case.yaml", "is not YAML: ", id="bytes as YAML"),
            pytest.param(b"- a", "case.yaml", "must be a mapping, not a list", id="list"),
            pytest.param(b"null", "case.json", "must be a mapping, not nothing", id="nothing"),
        ],
    )
    def test_what_is_no_document_is_one_line(self, body: bytes, name: str, line: str) -> None:
        (found,) = problems_of(body, name)
        assert found.startswith(line)

    def test_a_file_that_is_not_there_is_one_line(self, tmp_path: Path) -> None:
        missing = tmp_path / "no.json"
        with pytest.raises(ConfigError) as caught:
            load(str(missing))
        assert caught.value.problems == (f"{missing}: cannot be read: No such file or directory",)

    def test_a_folder_is_one_line(self, tmp_path: Path) -> None:
        with pytest.raises(ConfigError) as caught:
            load(str(tmp_path))
        assert caught.value.problems == (f"{tmp_path}: cannot be read: Is a directory",)
