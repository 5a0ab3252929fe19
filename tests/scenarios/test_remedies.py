"""Situations that keep a pod pending, a node standing or a group small: each has one code, one culprit, and a change.

Every change is made to the scenario mechanically, and on the next run the decision is to turn out otherwise.
"""

import json
from collections.abc import Mapping
from enum import StrEnum
from typing import Any

import msgspec
import pytest

from autoscaler.errors import ConfigError
from autoscaler.explain.answer import GroupExplanation, NodeExplanation, NodeVerdict, PodExplanation
from autoscaler.explain.explain import Explained, parse_targets
from autoscaler.explain.remedies.changes import Wait
from autoscaler.explain.remedies.remedy import Obstacle, Remedy
from autoscaler.observe.report import PassEnd
from autoscaler.reasons import (
    BlockingReason,
    NoFit,
    PodVerdict,
    ScaleDownResult,
    ScaleUpResult,
    Skip,
    UnremovableReason,
    Waiting,
)
from autoscaler.scenario.codec import decode
from autoscaler.simulator.play import play, play_and_explain
from tests.manifests import Json, a_budget, a_group, a_node, a_pod, a_template, named, running
from tests.scenario_changes import changed

AT = "2026-01-05T12:00:00Z"
"""A Monday."""
OURS = "cluster-autoscaler.kubernetes.io/"
SAFE = OURS + "safe-to-evict"
POD = "pod/default/web-0"
NODE = "node/n"


class Row(msgspec.Struct, frozen=True):
    """A situation: what is asked about, the scenario, and what is to be said."""

    name: str
    target: str
    document: Json
    code: StrEnum
    culprit: str
    flips: bool = True
    """Whether the proposed change is to flip the decision; where not, nothing that can be set does."""


# --- scenarios of pending pods ---


OWNERS = [named(name, replicas=3) for name in ("web", "db", "other")]


def pending(*pods: Json, groups: list[Json] | None = None, options: Json | None = None, **fields: Any) -> Json:
    return {
        "now": AT,
        "options": {"expander": "least-waste", **(options or {})},
        "nodeGroups": [a_group()] if groups is None else groups,
        "pods": list(pods) or [a_pod()],
        "replicaSets": OWNERS,
        **fields,
    }


def at_least(key: str, *values: str) -> Json:
    expression = {"key": key, "operator": "In", "values": list(values)}
    return {
        "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}
    }


def near(app: str, key: str = "zone") -> Json:
    term = {"labelSelector": {"matchLabels": {"app": app}}, "topologyKey": key}
    return {"requiredDuringSchedulingIgnoredDuringExecution": [term]}


ZONED = a_template(labels={"zone": "a"})
SPREAD = {
    "maxSkew": 1,
    "topologyKey": "zone",
    "whenUnsatisfiable": "DoNotSchedule",
    "labelSelector": {"matchLabels": {"app": "web"}},
}
TAINTED = a_template(taints=[{"key": "gpu", "value": "yes", "effect": "NoSchedule"}])
TWICE_TAINTED = a_template(
    taints=[
        {"key": "gpu", "value": "yes", "effect": "NoSchedule"},
        {"key": "spot", "effect": "NoExecute"},
        {"key": "old", "effect": "PreferNoSchedule"},
    ]
)
FULL = a_group(maxSize=0)
AWAY = [{"key": "elsewhere", "effect": "NoSchedule"}]
NEW_POD = {"creationTimestamp": "2026-01-05T12:00:00Z"}
UNREADY_STATUS = {"conditions": [{"type": "Ready", "status": "False", "lastTransitionTime": "2026-01-05T11:00:00Z"}]}
NOT_TO_BE_BOUND: Json = {"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "data"}}]}
ZONE_LABEL = "topology.kubernetes.io/zone"
ZONAL: Json = {
    "persistentVolumeClaims": [named("data", volumeName="pv", storageClassName="std") | {"status": {"phase": "Bound"}}],
    "persistentVolumes": [
        {
            "metadata": {"name": "pv", "labels": {ZONE_LABEL: "b"}},
            "spec": {"claimRef": {"name": "data", "namespace": "default"}, "storageClassName": "std"},
        }
    ],
    "storageClasses": [{"metadata": {"name": "std"}, "provisioner": "kubernetes.io/no-provisioner"}],
}
TOO_WIDE = a_pod(cpu="1", more={"memory": "9Gi"}, tolerations=[])

PODS = [
    Row("more memory than any node has", POD, pending(TOO_WIDE), NoFit.RESOURCES, "pod default/web-0"),
    Row("more cpu than any node has", POD, pending(a_pod(cpu="5")), NoFit.RESOURCES, "pod default/web-0"),
    Row(
        "a resource that no node has",
        POD,
        pending(a_pod(more={"example.com/dongle": "1"})),
        NoFit.RESOURCES,
        "pod default/web-0",
    ),
    Row("a taint", POD, pending(groups=[a_group(template=TAINTED)]), NoFit.TAINT, "pod default/web-0"),
    Row(
        "a taint and too little cpu",
        POD,
        pending(a_pod(cpu="9"), groups=[a_group(template=TAINTED)]),
        NoFit.TAINT,
        "pod default/web-0",
    ),
    Row("a selector", POD, pending(a_pod(nodeSelector={"disk": "ssd"})), NoFit.NODE_AFFINITY, "pod default/web-0"),
    Row(
        "required node affinity",
        POD,
        pending(a_pod(affinity={"nodeAffinity": at_least("disk", "ssd")})),
        NoFit.NODE_AFFINITY,
        "pod default/web-0",
    ),
    Row(
        "nobody to be near to",
        POD,
        pending(a_pod(affinity={"podAffinity": near("db")}), groups=[a_group(template=ZONED)]),
        NoFit.POD_AFFINITY,
        "pod default/web-0",
    ),
    Row(
        "somebody to stay away from",
        POD,
        pending(
            a_pod(affinity={"podAntiAffinity": near("db")}, cpu="4"),
            a_pod("db-0", nodeName="z"),
            groups=[a_group(template=ZONED)],
            nodes=[a_node("z", meta={"labels": {"zone": "a"}})],
        ),
        NoFit.POD_AFFINITY,
        "pod default/web-0",
    ),
    Row(
        "somebody who stays away from it",
        POD,
        pending(
            a_pod(cpu="4"),
            a_pod("db-0", nodeName="z", affinity={"podAntiAffinity": near("web")}),
            groups=[a_group(template=ZONED)],
            nodes=[a_node("z", meta={"labels": {"zone": "a"}})],
        ),
        NoFit.POD_AFFINITY,
        "pod default/web-0",
    ),
    Row(
        "a spread that is uneven",
        POD,
        pending(
            a_pod(topologySpreadConstraints=[SPREAD]),
            a_pod("web-1", nodeName="z", topologySpreadConstraints=[SPREAD]),
            groups=[a_group(template=ZONED)],
            nodes=[
                a_node("z", meta={"labels": {"zone": "a"}}),
                a_node("y", cpu="100m", meta={"labels": {"zone": "b"}}),
            ],
        ),
        NoFit.SPREAD,
        "pod default/web-0",
    ),
    Row(
        "a spread over a label that nodes lack",
        POD,
        pending(a_pod(topologySpreadConstraints=[SPREAD])),
        NoFit.SPREAD,
        "pod default/web-0",
    ),
    Row(
        "a host port that the template's pod has",
        POD,
        pending(
            a_pod(container={"ports": [{"containerPort": 80, "hostPort": 80}]}),
            groups=[
                a_group(
                    templatePods=[
                        {
                            "metadata": {"name": "proxy", "annotations": {"kubernetes.io/config.mirror": "x"}},
                            "spec": {"containers": [{"ports": [{"containerPort": 80, "hostPort": 80}]}]},
                        }
                    ]
                )
            ],
        ),
        NoFit.PORTS,
        "pod default/web-0",
    ),
    Row(
        "a claim that is not there",
        POD,
        pending(a_pod(**NOT_TO_BE_BOUND)),
        NoFit.VOLUME_BINDING,
        "pod default/web-0",
    ),
    Row(
        "a volume in another zone",
        POD,
        pending(a_pod(**NOT_TO_BE_BOUND), groups=[a_group(template=a_template(labels={ZONE_LABEL: "a"}))], **ZONAL),
        NoFit.VOLUME_ZONE,
        "pod default/web-0",
    ),
    Row(
        "a cordoned node and no group",
        POD,
        pending(groups=[], nodes=[a_node(unschedulable=True)]),
        NoFit.UNSCHEDULABLE,
        "node n",
    ),
    Row(
        "too little on the only node, and no group",
        POD,
        pending(a_pod(cpu="6"), groups=[], nodes=[a_node()]),
        NoFit.RESOURCES,
        "pod default/web-0",
    ),
    Row("no node, no group", POD, pending(groups=[]), Obstacle.NO_GROUPS, "pod default/web-0", flips=False),
    Row("a group at its maximum", POD, pending(groups=[FULL]), Skip.MAX_SIZE, "group g"),
    Row(
        "a maximum and a taint",
        POD,
        pending(groups=[a_group(template=TAINTED, maxSize=0)]),
        Skip.MAX_SIZE,
        "group g",
    ),
    Row("a limit on cores", POD, pending(options={"cores-total": "0:3"}), Skip.LIMIT, "flag cores-total"),
    Row("a limit on memory", POD, pending(options={"memory-total": "0:7"}), Skip.LIMIT, "flag memory-total"),
    Row(
        "a limit on GPUs",
        POD,
        pending(
            a_pod(more={"nvidia.com/gpu": "1"}),
            groups=[
                a_group(
                    template=a_template(more={"nvidia.com/gpu": "2"}, labels={"cloud.google.com/gke-accelerator": "t4"})
                )
            ],
            options={"gpu-total": ["t4:0:1"]},
        ),
        Skip.LIMIT,
        "flag gpu-total",
    ),
    Row(
        "a limit on nodes",
        POD,
        pending(nodes=[a_node(taints=AWAY)], options={"max-nodes-total": "1"}),
        ScaleUpResult.LIMITED_BY_MAX_NODES_TOTAL,
        "flag max-nodes-total",
    ),
    Row(
        "a limit on nodes that a group as a whole exceeds",
        POD,
        pending(
            groups=[a_group(maxSize=3, options={"zero-or-max-node-scaling": True})], options={"max-nodes-total": "2"}
        ),
        Skip.ATOMIC_LIMIT,
        "flag max-nodes-total",
    ),
    Row(
        "nothing known of new nodes",
        POD,
        pending(groups=[a_group() | {"template": None}]),
        Skip.NO_TEMPLATE,
        "group g",
        flips=False,
    ),
    Row(
        "younger than the flag asks for",
        POD,
        pending(options={"new-pod-scale-up-delay": "15m"}),
        Waiting.TOO_YOUNG,
        "flag new-pod-scale-up-delay",
    ),
    Row(
        "younger than its annotation asks for",
        POD,
        pending(a_pod(meta={"annotations": {OURS + "pod-scale-up-delay": "15m"}})),
        Waiting.TOO_YOUNG,
        "pod default/web-0",
    ),
    Row(
        "new, and more may follow",
        POD,
        pending(a_pod(meta=NEW_POD)),
        Obstacle.PODS_TOO_NEW,
        "time 2026-01-05T12:00:02Z",
    ),
    Row("expendable", POD, pending(a_pod(priority=-100)), Waiting.EXPENDABLE, "pod default/web-0"),
    Row(
        "gated",
        POD,
        pending(
            a_pod(
                schedulingGates=[{"name": "quota"}],
                status={"conditions": [{"type": "PodScheduled", "status": "False", "reason": "SchedulingGated"}]},
            )
        ),
        Waiting.GATED,
        "pod default/web-0",
    ),
    Row(
        "not seen by its scheduler",
        POD,
        pending(a_pod(schedulerName="mine", status={"conditions": [{"type": "Initialized", "status": "True"}]})),
        Waiting.NOT_JUDGED,
        "flag bypassed-scheduler-names",
    ),
    Row(
        "of a scheduler that is not allowed",
        POD,
        pending(a_pod(schedulerName="mine"), options={"allowed-scheduler-names": "default-scheduler"}),
        Waiting.FOREIGN_SCHEDULER,
        "flag allowed-scheduler-names",
    ),
    Row(
        "on its way out",
        POD,
        pending(a_pod(meta={"deletionTimestamp": "2026-01-05T12:00:00Z"})),
        Waiting.TERMINATING,
        "pod default/web-0",
        flips=False,
    ),
    Row(
        "consumer of a request",
        POD,
        pending(
            a_pod(meta={"annotations": {"autoscaling.x-k8s.io/consume-provisioning-request": "r"}}),
            options={"enable-provisioning-requests": "true"},
        ),
        Waiting.CONSUMES_REQUEST,
        "pod default/web-0",
    ),
    Row(
        "a DaemonSet's pod whose node is full",
        "pod/default/agent-0",
        pending(
            a_pod(
                "agent-0",
                "5",
                meta={"ownerReferences": [{"kind": "DaemonSet", "name": "agent", "apiVersion": "apps/v1"}]},
            ),
            nodes=[a_node()],
            daemonSets=[named("agent")],
        ),
        Waiting.DAEMONSET,
        "pod default/agent-0",
    ),
    Row(
        "others are helped first",
        POD,
        pending(
            a_pod(nodeSelector={"disk": "ssd"}),
            a_pod("db-0", nodeSelector={"disk": "hdd"}),
            a_pod("db-1", nodeSelector={"disk": "hdd"}),
            groups=[a_group(disk, a_template(labels={"disk": disk})) for disk in ("hdd", "ssd")],
            options={"groups-per-pass": "one", "expander": "most-pods"},
        ),
        PodVerdict.NEXT_PASS,
        "time 2026-01-05T12:00:16Z",
    ),
    Row(
        "a stock-out that is a while ago",
        POD,
        pending(
            runs=2,
            changes=[
                {
                    "beforeRun": 1,
                    "addInstances": [{"group": "g", "id": "i-1", "state": "creating", "errorClass": "OutOfResources"}],
                }
            ],
        ),
        Skip.BACKED_OFF,
        "group g",
    ),
    Row(
        "no node is ready and none may be bought from nothing",
        POD,
        pending(options={"scale-up-from-zero": "false"}),
        PassEnd.EMPTY_CLUSTER,
        "flag scale-up-from-zero",
    ),
    Row(
        "too many unready nodes",
        POD,
        pending(
            nodes=[a_node(f"u{number}", status=UNREADY_STATUS) for number in range(4)],
        ),
        PassEnd.UNHEALTHY,
        "flag ok-total-unready-count",
    ),
    Row(
        "a cloud that refuses",
        POD,
        pending(groups=[a_group(increaseError="quota exceeded")]),
        Obstacle.INCREASE_FAILED,
        "group g",
        flips=False,
    ),
    Row(
        "young, and too large besides",
        POD,
        pending(a_pod(cpu="5"), options={"new-pod-scale-up-delay": "15m"}),
        Waiting.TOO_YOUNG,
        "flag new-pod-scale-up-delay",
    ),
    Row(
        "expendable, and not tolerant",
        POD,
        pending(a_pod(priority=-100), groups=[a_group(template=TAINTED)]),
        Waiting.EXPENDABLE,
        "pod default/web-0",
    ),
    Row("two taints", POD, pending(groups=[a_group(template=TWICE_TAINTED)]), NoFit.TAINT, "pod default/web-0"),
    Row(
        "more cpu and more memory than any node has",
        POD,
        pending(a_pod(cpu="5", more={"memory": "9Gi"})),
        NoFit.RESOURCES,
        "pod default/web-0",
    ),
    Row(
        "more ephemeral storage than a node has",
        POD,
        pending(
            a_pod(more={"ephemeral-storage": "30Gi"}),
            groups=[a_group(template=a_template(more={"ephemeral-storage": "20Gi"}))],
        ),
        NoFit.RESOURCES,
        "pod default/web-0",
    ),
    Row(
        "claims for devices",
        POD,
        pending(a_pod(resourceClaims=[{"name": "gpu", "resourceClaimName": "gpu"}])),
        NoFit.DEVICES,
        "pod default/web-0",
    ),
    Row(
        "room that a template's own pods take",
        POD,
        pending(
            a_pod(cpu="4"),
            groups=[
                a_group(
                    templatePods=[
                        {
                            "metadata": {"name": "proxy", "annotations": {"kubernetes.io/config.mirror": "x"}},
                            "spec": {"containers": [{"resources": {"requests": {"cpu": "500m"}}}]},
                        }
                    ]
                )
            ],
        ),
        NoFit.RESOURCES,
        "pod default/web-0",
    ),
    Row(
        "new, and it wants a GPU",
        POD,
        pending(
            a_pod(more={"nvidia.com/gpu": "1"}, meta={"creationTimestamp": "2026-01-05T11:59:50Z"}),
            groups=[a_group(template=a_template(more={"nvidia.com/gpu": "2"}))],
        ),
        Obstacle.PODS_TOO_NEW,
        "time 2026-01-05T12:00:20Z",
    ),
    Row(
        "a group whose nodes are unready",
        POD,
        pending(
            groups=[a_group(targetSize=5, maxSize=9)],
            nodes=[
                *(a_node(f"u{number}", status=UNREADY_STATUS, taints=AWAY) for number in range(5)),
                *(a_node(f"r{number}", taints=AWAY) for number in range(9)),
            ],
            nodeToGroup={f"u{number}": "g" for number in range(5)},
        ),
        Skip.NOT_READY,
        "group g",
    ),
    Row(
        "the nearest of two groups",
        POD,
        pending(a_pod(cpu="6"), groups=[a_group(), a_group("big", a_template("5"))]),
        NoFit.RESOURCES,
        "pod default/web-0",
    ),
    Row(
        "two groups that are as near, the first of them",
        POD,
        pending(groups=[a_group(maxSize=0), a_group("other", TAINTED)], options={"cores-total": "0:400"}),
        Skip.MAX_SIZE,
        "group g",
    ),
]

TWO = [a_group("small"), a_group("big", a_template("16", "32Gi"))]
GROUPS = [
    Row("passed over by least-waste", "group/big", pending(groups=TWO), PodVerdict.NOT_CHOSEN, "flag expander"),
    Row(
        "passed over by most-pods",
        "group/small",
        pending(
            a_pod(),
            a_pod("db-0", "6"),
            groups=TWO,
            options={"expander": "most-pods"},
        ),
        PodVerdict.NOT_CHOSEN,
        "flag expander",
    ),
    Row(
        "passed over by rank",
        "group/big",
        pending(groups=TWO, options={"expander": "priority"}, priorityConfig="10:\n  - small\n"),
        PodVerdict.NOT_CHOSEN,
        "flag expander",
    ),
    Row("full", "group/g", pending(groups=[FULL]), Skip.MAX_SIZE, "group g"),
    Row("kept small by cores", "group/g", pending(options={"cores-total": "0:3"}), Skip.LIMIT, "flag cores-total"),
    Row("of no use to the pods", "group/g", pending(a_pod(cpu="5")), NoFit.RESOURCES, "pod default/web-0"),
    Row(
        "not asked because the pods are young",
        "group/g",
        pending(options={"new-pod-scale-up-delay": "15m"}),
        Waiting.TOO_YOUNG,
        "flag new-pod-scale-up-delay",
    ),
    Row(
        "not asked because of the limit on nodes",
        "group/g",
        pending(nodes=[a_node(taints=AWAY)], options={"max-nodes-total": "1"}),
        ScaleUpResult.LIMITED_BY_MAX_NODES_TOTAL,
        "flag max-nodes-total",
    ),
]

# --- scenarios of nodes that stay ---

QUICK = {
    "expander": "least-waste",
    "scale-down-unneeded-time": "0s",
    "scale-down-unready-time": "0s",
    "scale-down-delay-after-add": "0s",
    "skip-nodes-with-custom-controller-pods": "true",
}


def standing(*pods: Json, options: Json | None = None, home: str = "64", **fields: Any) -> Json:
    """Two runs over node `n` of group `g` and a node of no group with room."""
    nodes = fields.pop("nodes", [a_node()])
    group = a_group(template=a_template(), targetSize=len(nodes), **fields.pop("group", {}))
    return {
        "now": AT,
        "options": {**QUICK, **(options or {})},
        "nodeGroups": [group],
        "nodes": [*nodes, *([a_node("home", home)] if home else [])],
        "nodeToGroup": {one["metadata"]["name"]: "g" for one in nodes},
        "replicaSets": [named("web", replicas=3), named("web", "kube-system", replicas=3)],
        "pods": list(pods),
        "runs": 2,
        **fields,
    }


def a_volume(**volume: Any) -> Json:
    return {"volumes": [{"name": "data", **volume}]}


SYSTEM = {"namespace": "kube-system", "creationTimestamp": "2026-01-05T11:30:00Z"}
GPU_NODES = [
    a_node(name, more={"nvidia.com/gpu": "4"}, meta={"labels": {"cloud.google.com/gke-accelerator": "t4"}})
    for name in ("n", "m")
]
AT_ONCE = {"unremovable-node-recheck-timeout": "0s"}
WHOLE = {"options": {"zero-or-max-node-scaling": True}}

NODES = [
    Row("no controller", NODE, standing(running(owner="")), BlockingReason.NOT_REPLICATED, "pod default/web-0"),
    Row(
        "a controller of an unknown kind",
        NODE,
        standing(running(owner="Custom/web")),
        BlockingReason.NOT_REPLICATED,
        "pod default/web-0",
    ),
    *(
        Row(
            f"a {kind} that is not there",
            NODE,
            standing(running(owner=f"{kind}/gone")),
            BlockingReason.CONTROLLER_NOT_FOUND,
            "pod default/web-0",
        )
        for kind in ("ReplicaSet", "StatefulSet", "Job", "DaemonSet", "ReplicationController")
    ),
    Row(
        "too few replicas",
        NODE,
        standing(running(), options={"min-replica-count": "4"}),
        BlockingReason.MIN_REPLICAS,
        "controller ReplicaSet default/web",
    ),
    Row(
        "an emptyDir",
        NODE,
        standing(running(**a_volume(emptyDir={}))),
        BlockingReason.LOCAL_STORAGE,
        "pod default/web-0",
    ),
    Row(
        "a hostPath",
        NODE,
        standing(running(**a_volume(hostPath={"path": "/x"}))),
        BlockingReason.LOCAL_STORAGE,
        "pod default/web-0",
    ),
    Row(
        "not safe to evict",
        NODE,
        standing(running(meta={"annotations": {SAFE: "false"}})),
        BlockingReason.NOT_SAFE_TO_EVICT,
        "pod default/web-0",
    ),
    Row("a system pod", NODE, standing(running(meta=SYSTEM)), BlockingReason.SYSTEM, "pod kube-system/web-0"),
    Row(
        "a spent budget",
        NODE,
        standing(running(), podDisruptionBudgets=[a_budget(0)]),
        BlockingReason.BUDGET,
        "budget default/web",
    ),
    Row(
        "a budget that another node's pod spends",
        "node/m",
        standing(
            running(),
            running("web-1", "m"),
            nodes=[a_node(), a_node("m")],
            podDisruptionBudgets=[a_budget(1)],
            options={"max-drain-parallelism": "2", **AT_ONCE},
        ),
        BlockingReason.BUDGET,
        "budget default/web",
    ),
    Row(
        "two pods, each for its own reason",
        NODE,
        standing(running(owner=""), running("db-0", owner="ReplicaSet/web", **a_volume(emptyDir={}))),
        BlockingReason.NOT_REPLICATED,
        "pod default/web-0",
    ),
    Row(
        "one pod, for two reasons",
        NODE,
        standing(running(**a_volume(emptyDir={})), podDisruptionBudgets=[a_budget(0)]),
        BlockingReason.LOCAL_STORAGE,
        "pod default/web-0",
    ),
    Row(
        "a pod that is to run to its end",
        NODE,
        standing(running(meta={"annotations": {SAFE: "on-completion"}})),
        UnremovableReason.ON_COMPLETION,
        "pod default/web-0",
    ),
    Row(
        "no room for its pod",
        NODE,
        standing(running(cpu="2"), running("rest-0", "home", cpu="63"), options=AT_ONCE),
        UnremovableReason.NO_PLACE,
        "pod default/web-0",
    ),
    Row(
        "a pod that only this node suits",
        NODE,
        standing(
            running(nodeSelector={"disk": "ssd"}),
            nodes=[a_node(meta={"labels": {"disk": "ssd"}})],
            options=AT_ONCE,
        ),
        UnremovableReason.NO_PLACE,
        "pod default/web-0",
    ),
    Row(
        "annotated to stay",
        NODE,
        standing(nodes=[a_node(meta={"annotations": {OURS + "scale-down-disabled": "true"}})]),
        UnremovableReason.DISABLED,
        "node n",
    ),
    Row(
        "annotated to stay, and blocked",
        NODE,
        standing(running(owner=""), nodes=[a_node(meta={"annotations": {OURS + "scale-down-disabled": "true"}})]),
        UnremovableReason.DISABLED,
        "node n",
    ),
    Row(
        "unready, and such are left alone",
        NODE,
        standing(nodes=[a_node(status=UNREADY_STATUS)], options={"scale-down-unready-enabled": "false"}),
        UnremovableReason.UNREADY_DISABLED,
        "flag scale-down-unready-enabled",
    ),
    Row("of no group", "node/home", standing(), UnremovableReason.NOT_AUTOSCALED, "node home", flips=False),
    Row("the group's minimum", NODE, standing(group={"minSize": 1}), UnremovableReason.MIN_SIZE, "group g"),
    Row(
        "the group's minimum, after another node",
        "node/m",
        standing(nodes=[a_node(), a_node("m")], group={"minSize": 1}),
        UnremovableReason.MIN_SIZE,
        "group g",
    ),
    Row(
        "in use",
        NODE,
        standing(running(cpu="2500m")),
        UnremovableReason.NOT_UNDERUTILIZED,
        "flag scale-down-utilization-threshold",
    ),
    Row(
        "in use by the group's own threshold",
        NODE,
        standing(running(cpu="2"), group={"options": {"scale-down-utilization-threshold": 0.4}}),
        UnremovableReason.NOT_UNDERUTILIZED,
        "group g",
    ),
    Row(
        "GPUs in use",
        NODE,
        standing(running(more={"nvidia.com/gpu": "3"}), nodes=GPU_NODES, nodeToGroup={"n": "g"}),
        UnremovableReason.NOT_UNDERUTILIZED,
        "flag scale-down-gpu-utilization-threshold",
    ),
    Row(
        "unneeded for too short a time",
        NODE,
        standing(options={"scale-down-unneeded-time": "2m"}),
        UnremovableReason.NOT_UNNEEDED_LONG_ENOUGH,
        "flag scale-down-unneeded-time",
    ),
    Row(
        "unneeded for too short a time, as the group has it",
        NODE,
        standing(group={"options": {"scale-down-unneeded-time": "2m"}}),
        UnremovableReason.NOT_UNNEEDED_LONG_ENOUGH,
        "group g",
    ),
    Row(
        "unready for too short a time",
        NODE,
        standing(nodes=[a_node(status=UNREADY_STATUS)], options={"scale-down-unready-time": "2m"}),
        UnremovableReason.NOT_UNREADY_LONG_ENOUGH,
        "flag scale-down-unready-time",
    ),
    Row(
        "the cluster's fewest cores",
        NODE,
        standing(options={"cores-total": "68:1000"}),
        UnremovableReason.MINIMAL_RESOURCES,
        "flag cores-total",
    ),
    Row(
        "the cluster's least memory",
        NODE,
        standing(options={"memory-total": "17:1000"}),
        UnremovableReason.MINIMAL_RESOURCES,
        "flag memory-total",
    ),
    Row(
        "outside its window",
        NODE,
        standing(options={"scale-down-window": "5 12 * * *;1h"}),
        UnremovableReason.OUTSIDE_WINDOW,
        "flag scale-down-window",
    ),
    Row(
        "too many within a minute",
        NODE,
        standing(options={"max-node-deletions-per-minute": "1"}),
        UnremovableReason.TOO_MANY_A_MINUTE,
        "flag max-node-deletions-per-minute",
    ),
    Row(
        "as many drained as may be",
        "node/m",
        standing(running(), running("web-1", "m"), nodes=[a_node(), a_node("m")]),
        UnremovableReason.MAX_DELETIONS,
        "flag max-drain-parallelism",
    ),
    Row(
        "as many removed as may be",
        "node/m",
        standing(nodes=[a_node(), a_node("m")], options={"max-scale-down-parallelism": "1"}),
        UnremovableReason.MAX_DELETIONS,
        "flag max-scale-down-parallelism",
    ),
    Row(
        "part of a whole",
        "node/m",
        standing(running(owner=""), nodes=[a_node(), a_node("m")], group=WHOLE),
        UnremovableReason.ATOMIC,
        "pod default/web-0",
    ),
    Row(
        "the scale-up a moment ago",
        NODE,
        standing(
            a_pod("db-0", "80"),
            replicaSets=OWNERS,
            nodeGroups=[a_group(targetSize=1), a_group("big", a_template("99"))],
            options={"scale-down-delay-after-add": "2m"},
        ),
        ScaleDownResult.IN_COOLDOWN,
        "flag scale-down-delay-after-add",
    ),
    Row(
        "the scale-up of its group a moment ago",
        NODE,
        standing(
            a_pod("db-0", "4"),
            running("rest-0", "home", cpu="63500m"),
            running(),
            replicaSets=OWNERS,
            options={"scale-down-delay-after-add": "2m", "scale-down-delay-type-local": "true"},
        ),
        UnremovableReason.GROUP_COOLING_DOWN,
        "flag scale-down-delay-after-add",
    ),
    Row(
        "its group holds its nodes",
        NODE,
        standing(group={"options": {"scale-down-enabled": False}}),
        UnremovableReason.GROUP_HELD,
        "group g",
    ),
    Row(
        "scale-down is off",
        NODE,
        standing(options={"scale-down-enabled": "false"}),
        Obstacle.SCALE_DOWN_DISABLED,
        "flag scale-down-enabled",
    ),
    Row(
        "in use, and blocked besides",
        NODE,
        standing(running(cpu="2500m", owner="")),
        UnremovableReason.NOT_UNDERUTILIZED,
        "flag scale-down-utilization-threshold",
    ),
    Row(
        "the group's minimum, and not safe to evict",
        NODE,
        standing(running(meta={"annotations": {SAFE: "false"}}), group={"minSize": 1}),
        UnremovableReason.MIN_SIZE,
        "group g",
    ),
    Row(
        "two pods of one spent budget",
        NODE,
        standing(running(), running("web-1"), podDisruptionBudgets=[a_budget(0)]),
        BlockingReason.BUDGET,
        "budget default/web",
    ),
    Row(
        "too few replicas of a ReplicationController",
        NODE,
        standing(
            running(owner="ReplicationController/web"),
            replicationControllers=[named("web", replicas=1)],
            options={"min-replica-count": "2"},
        ),
        BlockingReason.MIN_REPLICAS,
        "controller ReplicationController default/web",
    ),
    Row(
        "unready for too short a time, as the group has it",
        NODE,
        standing(nodes=[a_node(status=UNREADY_STATUS)], group={"options": {"scale-down-unready-time": "2m"}}),
        UnremovableReason.NOT_UNREADY_LONG_ENOUGH,
        "group g",
    ),
    Row(
        "the scale-up a moment ago, found by flag",
        NODE,
        standing(
            a_pod("db-0", "80"),
            replicaSets=OWNERS,
            nodeGroups=[a_group(targetSize=1), a_group("big", a_template("99"))],
            options={"scale-down-delay-after-add": "1m", "scale-down-unneeded-time": "30s"},
        ),
        ScaleDownResult.IN_COOLDOWN,
        "flag scale-down-delay-after-add",
    ),
]

ROWS = [*PODS, *GROUPS, *NODES]
HELPED = {"Runs", "Helped", "FitsOnExistingOrUpcomingNode"}


def explained(document: Mapping[str, Any], target: str) -> Explained:
    (one,) = play_and_explain(decode(json.dumps(document).encode(), "case.json"), parse_targets([target])).explained
    return one


def the_remedy(row: Row) -> Remedy:
    found = explained(row.document, row.target).remedy
    assert found is not None
    return found


def is_well(document: Mapping[str, Any], target: str, since: int) -> bool:
    """Whether by the last run the pod has its place, the node goes or is gone, or the group grows."""
    try:
        one = explained(document, target)
    except ConfigError:
        return target.startswith("node/")  # it is gone
    match one:
        case PodExplanation():
            return one.verdict in HELPED
        case NodeExplanation():
            return one.verdict is NodeVerdict.REMOVED
        case GroupExplanation():
            runs = play(decode(json.dumps(document).encode(), "case.json")).runs
            return any(up.group == target.removeprefix("group/") for run in runs[since:] for up in run.scale_ups)


def flips(row: Row) -> bool:
    """Whether the primary change turns the decision."""
    before = row.document.get("runs", 1)
    assert not is_well(row.document, row.target, before - 1), "the situation is one"
    return is_well(changed(row.document, the_remedy(row).changes), row.target, before - 1)


@pytest.mark.parametrize("row", [pytest.param(row, id=f"{row.target.partition('/')[0]}: {row.name}") for row in ROWS])
def test_a_situation_has_one_code_one_culprit_and_a_change_that_flips_it(row: Row) -> None:
    found = the_remedy(row)
    assert (found.code, f"{found.culprit.kind} {found.culprit.name}") == (row.code, row.culprit), found.text
    assert found.text
    assert bool(found.changes) or not row.flips
    assert flips(row) is row.flips, found.text
    for number, left_out in enumerate(found.changes if row.flips and len(found.changes) > 1 else ()):
        rest = [*found.changes[:number], *found.changes[number + 1 :]]
        well = is_well(changed(row.document, rest), row.target, row.document.get("runs", 1) - 1)
        assert not well or isinstance(left_out, Wait), f"needless: {left_out}"


def test_at_least_sixty_situations_are_covered_and_nearly_all_can_be_flipped() -> None:
    assert len(ROWS) >= 60
    assert len({(row.target, row.name) for row in ROWS}) == len(ROWS)
    assert sum(row.flips for row in ROWS) / len(ROWS) >= 0.95
