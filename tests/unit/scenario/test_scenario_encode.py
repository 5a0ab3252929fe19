"""A recorded view, read back, is the same view."""

import json
from typing import Any

import msgspec

from autoscaler.config.document import to_options
from autoscaler.config.load import from_options
from autoscaler.objects.pod import Pod, PodClass
from autoscaler.ports import ExpanderAnswer
from autoscaler.scenario.codec import decode
from autoscaler.scenario.encode import encode
from autoscaler.scenario.scenario import Answered, Scenario
from autoscaler.snapshot.cluster import ClusterView, view_of
from autoscaler.snapshot.groups import Group, Groups
from cloudprovider.interface import (
    ErrorClass,
    GroupSettings,
    Instance,
    InstanceError,
    MachineVersion,
    NodeTemplate,
    State,
    TaintSpec,
)
from tests.devices import a_part, a_request, claim_form, claim_template_form, slice_form

DISABLED = "cluster-autoscaler.kubernetes.io/scale-down-disabled"
AT_S = 1767614401.25
EVERYTHING: dict[str, Any] = {
    "now": "2026-01-05T12:00:00Z",
    "priorityConfig": "10: [web]",
    "pauseConfigMap": {
        "metadata": {"name": "any", "annotations": {"pause.autoscaler/until": "2026-01-05T13:00:00Z"}},
        "data": {"freeze": "scope: all"},
    },
    "nodes": [
        {
            "metadata": {"name": "n1", "labels": {"zone": "a"}, "annotations": {DISABLED: "true", "k": "hunter2"}},
            "spec": {"unschedulable": True, "taints": [{"key": "t", "effect": "NoSchedule", "value": "v"}]},
            "status": {"allocatable": {"cpu": "3920m", "memory": "14900Mi", "nvidia.com/gpu": 1}},
        }
    ],
    "pods": [
        {
            "metadata": {
                "name": "placed",
                "labels": {"app": "a"},
                "annotations": {"cluster-autoscaler.kubernetes.io/safe-to-evict": "false", "secret": "x"},
                "ownerReferences": [{"kind": "ReplicaSet", "name": "a"}],
                "deletionTimestamp": "2026-01-05T11:59:00Z",
            },
            "spec": {
                "nodeName": "n1",
                "priority": 5,
                "priorityClassName": "high",
                "terminationGracePeriodSeconds": 5,
                "containers": [
                    {
                        "image": "registry.example/app",
                        "env": [{"name": "PASSWORD", "value": "hunter2"}],
                        "resources": {"requests": {"cpu": "250m", "memory": "1Gi"}},
                        "ports": [{"containerPort": 80, "hostPort": 8080}],
                    }
                ],
                "initContainers": [{"restartPolicy": "Always", "resources": {"requests": {"cpu": 1}}}],
                "overhead": {"cpu": "10m"},
                "volumes": [
                    {"name": "data", "persistentVolumeClaim": {"claimName": "c"}},
                    {"name": "scratch", "ephemeral": {}},
                    {"name": "tmp", "emptyDir": {"medium": "Memory"}},
                ],
            },
            "status": {"containerStatuses": [{"name": "c0", "allocatedResources": {"cpu": "300m"}}]},
        },
        {
            "metadata": {"name": "waiting", "namespace": "other"},
            "spec": {
                "containers": [{}],
                "nodeSelector": {"zone": "a"},
                "tolerations": [{"key": "t", "operator": "Exists"}],
                "schedulerName": "mine",
                "topologySpreadConstraints": [{"topologyKey": "zone", "labelSelector": {"matchLabels": {"a": "b"}}}],
                "affinity": {
                    "nodeAffinity": {
                        "requiredDuringSchedulingIgnoredDuringExecution": {
                            "nodeSelectorTerms": [{"matchExpressions": [{"key": "zone", "operator": "Exists"}]}]
                        }
                    },
                    "podAntiAffinity": {
                        "requiredDuringSchedulingIgnoredDuringExecution": [
                            {"topologyKey": "zone", "labelSelector": {"matchLabels": {"app": "a"}}}
                        ]
                    },
                },
            },
            "status": {"nominatedNodeName": "n1"},
        },
    ],
    "replicaSets": [{"metadata": {"name": "a"}, "spec": {"replicas": 3}}],
    "podDisruptionBudgets": [
        {
            "metadata": {"name": "b"},
            "spec": {"selector": {}, "minAvailable": "50%"},
            "status": {"disruptionsAllowed": 1},
        }
    ],
    "storageClasses": [{"metadata": {"name": "fast"}, "provisioner": "csi.example"}],
    "resourceSlices": [
        slice_form("n1", devices=[a_part("half", "card", memory="4Gi")], counters={"card": {"memory": 9}})
    ],
    "resourceClaims": [claim_form("gpu", "half", users=["a"])],
    "resourceClaimTemplates": [claim_template_form("one", a_request("r", "device.driver == 'x'"))],
    "deviceClasses": [{"metadata": {"name": "gpu.nvidia.com"}}],
}
ANY = PodClass()
GROUPS = Groups(
    all=(
        Group(
            id="web",
            min_size=1,
            max_size=9,
            target_size=4,
            instances=(
                Instance("n1", version=MachineVersion("v1", instance_type="m5.large"), impaired="failed hardware"),
                Instance("i-2", State.CREATING, InstanceError(ErrorClass.OUT_OF_RESOURCES, "X", "why")),
                Instance("i-3", State.DELETING),
            ),
            template=NodeTemplate(
                resource_slices=[{"spec": {"driver": "x", "devices": [{"name": "d"}]}}],
                labels={"zone": "a"},
                taints=(TaintSpec("t", "v"),),
                capacity={"cpu": "4", "pods": "30"},
                allocatable={"cpu": "3920m", "pods": "30"},
                zones={
                    "a": {"topology.kubernetes.io/zone": "a", "disk": "a"},
                    "b": {"topology.kubernetes.io/zone": "b"},
                },
                pods=({"metadata": {"name": "agent", "namespace": "kube-system"}, "spec": {"containers": [{}]}},),
            ),
            settings=GroupSettings(scale_down_unneeded_time_s=90.5, zero_or_max_node_scaling=True),
            versions=(MachineVersion("v2", "img-2"),),
        ),
        Group(id="bare", min_size=0, max_size=1, target_size=0),
    ),
    of_node={"n1": "web"},
    gpu_label="example.com/gpu",
)


def a_view() -> ClusterView:
    scenario = decode(json.dumps(EVERYTHING).encode(), "everything.json")
    return view_of(scenario.nodes, scenario.pods, groups=GROUPS, related=scenario.related)


def replayed(view: ClusterView, options: dict[str, Any] | None = None) -> Scenario:
    return decode(encode(view, name="pass", at_s=AT_S, options=options or {}), "recording.json")


def facts(pods: tuple[Pod, ...] | list[Pod]) -> list[tuple[object, ...]]:
    """Classes of two files are different objects; what makes them equal is their key.

    What only estimates of starts read is not recorded: it decides nothing.
    """
    return [
        (
            pod.cls.key,
            dict(pod.cls.requests),
            pod.cls.host_ports,
            pod.cls.claims,
            msgspec.structs.replace(pod.decisive, cls=ANY),
        )
        for pod in pods
    ]


def test_nodes_pods_and_related_objects_come_back_as_they_were() -> None:
    view = a_view()
    again = replayed(view)
    known = {DISABLED: "true"}
    assert again.nodes == tuple(msgspec.structs.replace(node, annotations=known) for node in view.nodes)
    assert facts(again.pods) == facts([*view.pods[0], *view.pending])
    assert again.related == view.related


def test_the_readiness_of_pods_comes_back_where_drift_depends_on_it() -> None:
    conditions = [
        {"type": kind, "status": "True", "lastTransitionTime": "2026-01-05T11:00:00Z"}
        for kind in ("PodScheduled", "Ready")
    ]
    pod = {"metadata": {"name": "p"}, "spec": {"nodeName": "n1"}, "status": {"conditions": conditions}}
    scenario = decode(json.dumps({**EVERYTHING, "pods": [pod]}).encode(), "ready.json")
    view = view_of(scenario.nodes, scenario.pods, groups=GROUPS)
    at_s = 1767610800.0
    (again,) = replayed(view, {"drift": "labels"}).pods
    assert (again.scheduled, again.ready) == (at_s, at_s)
    (without,) = replayed(view).pods
    assert (without.scheduled, without.ready) == (None, None)


def test_the_first_run_is_at_the_recorded_moment() -> None:
    assert replayed(a_view()).run_at_s(0) == AT_S


def test_the_cloud_comes_back_as_it_was() -> None:
    cloud = replayed(a_view()).cloud
    web, bare = cloud.groups
    assert (web.id, web.min_size, web.max_size, web.target_size) == ("web", 1, 9, 4)
    assert tuple(web.node_names) == ("n1",)
    assert web.settings == GROUPS.all[0].settings
    assert web.template is not None
    given = GROUPS.all[0].template
    assert given is not None
    assert dict(web.template.capacity) == given.capacity
    assert dict(web.template.allocatable) == given.allocatable
    assert tuple(web.template.taints) == given.taints
    assert web.template.zones == given.zones
    assert list(web.template.resource_slices) == given.resource_slices
    assert [pod["metadata"]["name"] for pod in web.template.pods] == ["agent"]
    assert bare.template is None
    assert [(machine.provider_id, machine.state) for machine in cloud.machines] == [
        ("n1", State.RUNNING),
        ("i-2", State.CREATING),
        ("i-3", State.DELETING),
    ]
    assert cloud.gpu_label == "example.com/gpu"
    assert web.versions == GROUPS.all[0].versions
    assert cloud.impaired_machines == {"n1": "failed hardware"}
    assert cloud.machine_versions == {"n1": MachineVersion("v1", instance_type="m5.large")}


def test_a_provider_without_gpu_label_is_not_given_one() -> None:
    view = msgspec.structs.replace(a_view(), groups=Groups())
    assert replayed(view).cloud.gpu_label == ""


def test_the_configuration_comes_back() -> None:
    config = from_options({"compatibility": "1.31", "expander": "least-waste", "max-nodes-total": 7})
    assert replayed(a_view(), dict(to_options(config))).config == config


def test_images_environment_and_foreign_annotations_are_never_written() -> None:
    body = encode(a_view(), name="pass", at_s=AT_S, options={})
    for secret in (b"hunter2", b"PASSWORD", b"registry.example", b"secret"):
        assert secret not in body


def test_what_the_grpc_expander_answered_comes_back() -> None:
    answers = (
        ExpanderAnswer(asked=("web", "bare"), named=("bare", "mars")),
        ExpanderAnswer(asked=("web",)),
        ExpanderAnswer(asked=("web",), error="DEADLINE_EXCEEDED: too late"),
    )
    body = encode(a_view(), name="pass", at_s=AT_S, options={}, answers=answers)
    again = decode(body, "recording.json").answers
    assert again == tuple(Answered(0, answer) for answer in answers)
