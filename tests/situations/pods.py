"""Situations of pods that wait, and of groups that do not grow for them."""

from autoscaler.explain.remedies.remedy import Obstacle
from autoscaler.observe.report import PassEnd
from autoscaler.reasons import NoFit, PodVerdict, ScaleUpResult, Skip, Waiting
from tests.manifests import Json, a_group, a_node, a_pod, a_template, named
from tests.situations.scenes import OURS, POD, UNREADY_STATUS, Situation, at_least, near, pending

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
    Situation(
        "more memory than any node has",
        POD,
        pending(TOO_WIDE),
        NoFit.RESOURCES,
        "pod default/web-0",
        cause="needs 9Gi of memory, the largest machine has 8Gi",
        advice="Lower the memory request from 9Gi to 8Gi so that group g takes it, or add a group with larger "
        "machines.",
    ),
    Situation(
        "more cpu than any node has",
        POD,
        pending(a_pod(cpu="5")),
        NoFit.RESOURCES,
        "pod default/web-0",
        cause="needs 5 CPU, the largest machine has 4",
        advice="Lower the CPU request from 5 to 4 so that group g takes it, or add a group with larger machines.",
    ),
    Situation(
        "a resource that no node has",
        POD,
        pending(a_pod(more={"example.com/dongle": "1"})),
        NoFit.RESOURCES,
        "pod default/web-0",
        cause="needs 1 example.com/dongle, no machine has any",
        advice="Remove the request for 1 example.com/dongle so that group g takes it, or add a group that has "
        "example.com/dongle.",
    ),
    Situation(
        "a taint",
        POD,
        pending(groups=[a_group(template=TAINTED)]),
        NoFit.TAINT,
        "pod default/web-0",
        cause="does not tolerate taint gpu=yes:NoSchedule of group g",
        advice="Add a toleration for gpu=yes:NoSchedule so that group g takes it, or add a group without this taint.",
    ),
    Situation(
        "a taint and too little cpu",
        POD,
        pending(a_pod(cpu="9"), groups=[a_group(template=TAINTED)]),
        NoFit.TAINT,
        "pod default/web-0",
        cause="does not tolerate taint gpu=yes:NoSchedule of group g",
        advice="Add a toleration for gpu=yes:NoSchedule and lower the CPU request from 9 to 4 so that group g "
        "takes it.",
    ),
    Situation(
        "a selector",
        POD,
        pending(a_pod(nodeSelector={"disk": "ssd"})),
        NoFit.NODE_AFFINITY,
        "pod default/web-0",
        cause="wants disk=ssd, no group has that label",
        advice="Add a group like g with disk=ssd.",
    ),
    Situation(
        "required node affinity",
        POD,
        pending(a_pod(affinity={"nodeAffinity": at_least("disk", "ssd")})),
        NoFit.NODE_AFFINITY,
        "pod default/web-0",
        cause="wants disk=ssd, no group has that label",
        advice="Add a group like g with disk=ssd.",
    ),
    Situation(
        "nobody to be near to",
        POD,
        pending(a_pod(affinity={"podAffinity": near("db")}), groups=[a_group(template=ZONED)]),
        NoFit.POD_AFFINITY,
        "pod default/web-0",
        cause="needs to be near pods with app=db, and there are none near new nodes of group g",
        advice="Make the required pod affinity a preferred one so that group g takes it.",
    ),
    Situation(
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
        cause="must not share zone=a with pod default/db-0",
        advice="Make the required pod anti-affinity a preferred one so that group g takes it, or add a group with "
        "another zone.",
    ),
    Situation(
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
        cause="is kept out of zone=a by pod default/db-0",
        advice="Make the required pod anti-affinity of pod default/db-0 a preferred one so that group g takes it, "
        "or add a group with another zone.",
    ),
    Situation(
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
        cause="would raise the skew over zone to 2 in a, maxSkew is 1",
        advice="Raise maxSkew over zone to 2 so that group g takes it, or add a group with another zone.",
    ),
    Situation(
        "a spread over a label that nodes lack",
        POD,
        pending(a_pod(topologySpreadConstraints=[SPREAD])),
        NoFit.SPREAD,
        "pod default/web-0",
        cause="is to be spread over zone, and group g has no such label",
        advice="Remove the topology spread constraint over zone so that group g takes it.",
    ),
    Situation(
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
        cause="needs host port 80/TCP, which pod default/proxy-30677878 holds on new nodes of group g",
        advice="Remove the host ports so that group g takes it.",
    ),
    Situation(
        "a claim that is not there",
        POD,
        pending(a_pod(**NOT_TO_BE_BOUND)),
        NoFit.VOLUME_BINDING,
        "pod default/web-0",
        cause="needs PersistentVolumeClaim default/data, which does not exist",
        advice="Create PersistentVolumeClaim default/data.",
    ),
    Situation(
        "a volume in another zone",
        POD,
        pending(a_pod(**NOT_TO_BE_BOUND), groups=[a_group(template=a_template(labels={ZONE_LABEL: "a"}))], **ZONAL),
        NoFit.VOLUME_ZONE,
        "pod default/web-0",
        cause="can use PersistentVolume pv only in zone b, the only zone is a",
        advice="Add a group like g with topology.kubernetes.io/zone=b.",
    ),
    Situation(
        "a cordoned node and no group",
        POD,
        pending(groups=[], nodes=[a_node(unschedulable=True)]),
        NoFit.UNSCHEDULABLE,
        "node n",
        cause="needs a node, and node n is cordoned",
        advice="Uncordon node n.",
    ),
    Situation(
        "too little on the only node, and no group",
        POD,
        pending(a_pod(cpu="6"), groups=[], nodes=[a_node()]),
        NoFit.RESOURCES,
        "pod default/web-0",
        cause="needs 6 CPU, node n has 4 free",
        advice="Lower the CPU request from 6 to 4 so that node n takes it.",
    ),
    Situation(
        "no node, no group",
        POD,
        pending(groups=[]),
        Obstacle.NO_GROUPS,
        "pod default/web-0",
        flips=False,
        cause="needs a machine, and there is no node group",
        advice="Add a group whose nodes suit it; no change of the pod or of a group's sizes helps.",
    ),
    Situation(
        "a group at its maximum",
        POD,
        pending(groups=[FULL]),
        Skip.MAX_SIZE,
        "group g",
        cause="needs a machine of group g, which is at its maximum size of 0",
        advice="Raise the maximum size of group g to 1.",
    ),
    Situation(
        "a maximum and a taint",
        POD,
        pending(groups=[a_group(template=TAINTED, maxSize=0)]),
        Skip.MAX_SIZE,
        "group g",
        cause="does not tolerate taint gpu=yes:NoSchedule of group g",
        advice="Add a toleration for gpu=yes:NoSchedule. Raise the maximum size of group g to 1.",
    ),
    Situation(
        "a limit on cores",
        POD,
        pending(options={"cores-total": "0:3"}),
        Skip.LIMIT,
        "flag cores-total",
        cause="needs a machine of group g, and --cores-total leaves no room for it",
        advice="Set --cores-total=0:4.",
    ),
    Situation(
        "a limit on memory",
        POD,
        pending(options={"memory-total": "0:7"}),
        Skip.LIMIT,
        "flag memory-total",
        cause="needs a machine of group g, and --memory-total leaves no room for it",
        advice="Set --memory-total=0:8.",
    ),
    Situation(
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
        cause="needs a machine of group g, and --gpu-total leaves no room for it",
        advice="Set --gpu-total=t4:0:2.",
    ),
    Situation(
        "a CapacityQuota",
        POD,
        pending(
            options={"capacity-quotas-enabled": True, "cores-total": "0:3"},
            capacityQuotas=[named("few", "", limits={"resources": {"nodes": 0, "memory": "7Gi", "cpu": 9}})],
        ),
        Skip.LIMIT,
        "flag cores-total",
        cause="needs a machine of group g, and --cores-total and CapacityQuota few leave no room for it",
        advice="Set --cores-total=0:4, and raise nodes in spec.limits.resources of CapacityQuota few to 1 and "
        "memory in spec.limits.resources of CapacityQuota few to 8Gi.",
    ),
    Situation(
        "a limit on nodes",
        POD,
        pending(nodes=[a_node(taints=AWAY)], options={"max-nodes-total": "1"}),
        ScaleUpResult.LIMITED_BY_MAX_NODES_TOTAL,
        "flag max-nodes-total",
        cause="needs a machine, and --max-nodes-total=1 leaves no room for it",
        advice="Set --max-nodes-total=2.",
    ),
    Situation(
        "a limit on nodes that a group as a whole exceeds",
        POD,
        pending(
            groups=[a_group(maxSize=3, options={"zero-or-max-node-scaling": True})], options={"max-nodes-total": "2"}
        ),
        Skip.ATOMIC_LIMIT,
        "flag max-nodes-total",
        cause="needs a machine, and --max-nodes-total=2 leaves no room for it",
        advice="Set --max-nodes-total=3.",
    ),
    Situation(
        "nothing known of new nodes",
        POD,
        pending(groups=[a_group() | {"template": None}]),
        Skip.NO_TEMPLATE,
        "group g",
        flips=False,
        cause="needs a machine of group g, and nobody knows what its nodes are like",
        advice="Describe the nodes of group g to the autoscaler as its provider asks, or start one node by hand.",
    ),
    Situation(
        "younger than the flag asks for",
        POD,
        pending(options={"new-pod-scale-up-delay": "15m"}),
        Waiting.TOO_YOUNG,
        "flag new-pod-scale-up-delay",
        cause="is younger than --new-pod-scale-up-delay asks for",
        advice="Wait 4m59s; it may cause a scale-up then.",
    ),
    Situation(
        "younger than its annotation asks for",
        POD,
        pending(a_pod(meta={"annotations": {OURS + "pod-scale-up-delay": "15m"}})),
        Waiting.TOO_YOUNG,
        "pod default/web-0",
        cause="is younger than its annotation cluster-autoscaler.kubernetes.io/pod-scale-up-delay asks for",
        advice="Wait 4m59s; it may cause a scale-up then.",
    ),
    Situation(
        "new, and more may follow",
        POD,
        pending(a_pod(meta=NEW_POD)),
        Obstacle.PODS_TOO_NEW,
        "time 2026-01-05T12:00:02Z",
        cause="is so new that more pods may follow, and all are handled together",
        advice="Wait 1s; the autoscaler then decides again.",
    ),
    Situation(
        "expendable",
        POD,
        pending(a_pod(priority=-100)),
        Waiting.EXPENDABLE,
        "pod default/web-0",
        cause="has priority -100, and pods below -10 get no nodes",
        advice="Raise the priority to -10.",
    ),
    Situation(
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
        cause="has scheduling gates",
        advice="Wait for the controller that set the gates, or remove the scheduling gates.",
    ),
    Situation(
        "not seen by its scheduler",
        POD,
        pending(a_pod(schedulerName="mine", status={"conditions": [{"type": "Initialized", "status": "True"}]})),
        Waiting.NOT_JUDGED,
        "flag bypassed-scheduler-names",
        cause="has not been tried by scheduler mine yet",
        advice="Check that scheduler mine runs, or set --bypassed-scheduler-names=mine.",
    ),
    Situation(
        "of a scheduler that is not allowed",
        POD,
        pending(a_pod(schedulerName="mine"), options={"allowed-scheduler-names": "default-scheduler"}),
        Waiting.FOREIGN_SCHEDULER,
        "flag allowed-scheduler-names",
        cause="is for scheduler mine, which --allowed-scheduler-names does not name",
        advice="Set --allowed-scheduler-names=default-scheduler,mine.",
    ),
    Situation(
        "on its way out",
        POD,
        pending(a_pod(meta={"deletionTimestamp": "2026-01-05T12:00:00Z"})),
        Waiting.TERMINATING,
        "pod default/web-0",
        flips=False,
        cause="is being deleted",
        advice="Nothing to do: its controller creates another pod if one is needed.",
    ),
    Situation(
        "consumer of a request",
        POD,
        pending(
            a_pod(meta={"annotations": {"autoscaling.x-k8s.io/consume-provisioning-request": "r"}}),
            options={"enable-provisioning-requests": "true"},
        ),
        Waiting.CONSUMES_REQUEST,
        "pod default/web-0",
        cause="waits for ProvisioningRequest default/r, which gets nodes for it",
        advice="See the conditions of ProvisioningRequest default/r, or remove the annotation "
        "autoscaling.x-k8s.io/consume-provisioning-request from pod default/web-0.",
    ),
    Situation(
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
        cause="needs 5 CPU, node n has 4 free",
        advice="Lower the CPU request from 5 to 4 so that node n takes it.",
    ),
    Situation(
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
        cause="fits some group, and this pass handles others first",
        advice="Wait 15s; the autoscaler then decides again.",
    ),
    Situation(
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
        cause="needs a machine of group g, which could not grow (OTHER)",
        advice="Clear what the provider reports, or wait: group g is tried again in 5m.",
    ),
    Situation(
        "no node is ready and none may be bought from nothing",
        POD,
        pending(options={"scale-up-from-zero": "false"}),
        PassEnd.EMPTY_CLUSTER,
        "flag scale-up-from-zero",
        cause="waits, since no node of the cluster is ready",
        advice="Set --scale-up-from-zero=true.",
    ),
    Situation(
        "too many unready nodes",
        POD,
        pending(
            nodes=[a_node(f"u{number}", status=UNREADY_STATUS) for number in range(4)],
        ),
        PassEnd.UNHEALTHY,
        "flag ok-total-unready-count",
        cause="waits, since 4 nodes of the cluster are not ready",
        advice="Repair nodes that are not ready, or set --ok-total-unready-count=4; scaling then resumes.",
    ),
    Situation(
        "a cloud that refuses",
        POD,
        pending(groups=[a_group(increaseError="quota exceeded")]),
        Obstacle.INCREASE_FAILED,
        "group g",
        flips=False,
        cause="needs a machine of group g, which could not grow (quota exceeded)",
        advice="Clear what the provider reports, or wait: group g is tried again in 5m.",
    ),
    Situation(
        "young, and too large besides",
        POD,
        pending(a_pod(cpu="5"), options={"new-pod-scale-up-delay": "15m"}),
        Waiting.TOO_YOUNG,
        "flag new-pod-scale-up-delay",
        cause="is younger than --new-pod-scale-up-delay asks for",
        advice="Lower the CPU request from 5 to 4 so that group g takes it, or add a group with larger machines. "
        "Wait 4m59s; it may cause a scale-up then.",
    ),
    Situation(
        "expendable, and not tolerant",
        POD,
        pending(a_pod(priority=-100), groups=[a_group(template=TAINTED)]),
        Waiting.EXPENDABLE,
        "pod default/web-0",
        cause="has priority -100, and pods below -10 get no nodes",
        advice="Raise the priority to -10. Add a toleration for gpu=yes:NoSchedule so that group g takes it, or "
        "add a group without this taint.",
    ),
    Situation(
        "two taints",
        POD,
        pending(groups=[a_group(template=TWICE_TAINTED)]),
        NoFit.TAINT,
        "pod default/web-0",
        cause="does not tolerate taint gpu=yes:NoSchedule of group g",
        advice="Add a toleration for gpu=yes:NoSchedule and a toleration for spot:NoExecute so that group g takes "
        "it, or add a group without these taints.",
    ),
    Situation(
        "more cpu and more memory than any node has",
        POD,
        pending(a_pod(cpu="5", more={"memory": "9Gi"})),
        NoFit.RESOURCES,
        "pod default/web-0",
        cause="needs 5 CPU, the largest machine has 4",
        advice="Lower the CPU request from 5 to 4 and the memory request from 9Gi to 8Gi so that group g takes it, "
        "or add a group with larger machines.",
    ),
    Situation(
        "more ephemeral storage than a node has",
        POD,
        pending(
            a_pod(more={"ephemeral-storage": "30Gi"}),
            groups=[a_group(template=a_template(more={"ephemeral-storage": "20Gi"}))],
        ),
        NoFit.RESOURCES,
        "pod default/web-0",
        cause="needs 30Gi of ephemeral storage, the largest machine has 20Gi",
        advice="Lower the ephemeral storage request from 30Gi to 20Gi so that group g takes it, or add a group "
        "with larger machines.",
    ),
    Situation(
        "claims for devices",
        POD,
        pending(a_pod(resourceClaims=[{"name": "gpu", "resourceClaimName": "gpu"}])),
        NoFit.DEVICES,
        "pod default/web-0",
        cause="fits no new node: there is no claim gpu",
        advice="Remove the resource claims so that group g takes it.",
    ),
    Situation(
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
        cause="needs 4 CPU, the largest machine has 3.5",
        advice="Lower the CPU request from 4 to 3.5 so that group g takes it, or add a group with larger machines.",
    ),
    Situation(
        "new, and it wants a GPU",
        POD,
        pending(
            a_pod(more={"nvidia.com/gpu": "1"}, meta={"creationTimestamp": "2026-01-05T11:59:50Z"}),
            groups=[a_group(template=a_template(more={"nvidia.com/gpu": "2"}))],
        ),
        Obstacle.PODS_TOO_NEW,
        "time 2026-01-05T12:00:20Z",
        cause="is so new that more pods may follow, and all are handled together",
        advice="Wait 19s; the autoscaler then decides again.",
    ),
    Situation(
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
        cause="needs a machine of group g, of which 5 are missing or not ready",
        advice="Repair the nodes of group g that are not ready, or set --ok-total-unready-count=5.",
    ),
    Situation(
        "everything is paused",
        POD,
        pending(pauseConfigMap=named("pauses", "") | {"data": {"freeze": "{scope: all, reason: incident}"}}),
        Skip.PAUSED,
        "group g",
        cause="needs a machine of group g, which is paused",
        advice="Wait for the end of the pause, or run autoscaler resume: everything is paused until it is resumed: "
        "incident.",
        flips=False,
    ),
    Situation(
        "the nearest of two groups",
        POD,
        pending(a_pod(cpu="6"), groups=[a_group(), a_group("big", a_template("5"))]),
        NoFit.RESOURCES,
        "pod default/web-0",
        cause="needs 6 CPU, the largest machine has 5",
        advice="Lower the CPU request from 6 to 5 so that group big takes it, or add a group with larger machines.",
    ),
    Situation(
        "two groups that are as near, the first of them",
        POD,
        pending(groups=[a_group(maxSize=0), a_group("other", TAINTED)], options={"cores-total": "0:400"}),
        Skip.MAX_SIZE,
        "group g",
        cause="needs a machine of group g, which is at its maximum size of 0",
        advice="Raise the maximum size of group g to 1.",
    ),
]

TWO = [a_group("small"), a_group("big", a_template("16", "32Gi"))]
GROUPS = [
    Situation(
        "passed over by least-waste",
        "group/big",
        pending(groups=TWO),
        PodVerdict.NOT_CHOSEN,
        "flag expander",
        cause="fits group big, which --expander=least-waste did not choose",
        advice="Set --expander=priority and rank group big first in the priority expander's ConfigMap.",
    ),
    Situation(
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
        cause="fits group small, which --expander=most-pods did not choose",
        advice="Set --expander=least-nodes.",
    ),
    Situation(
        "passed over by rank",
        "group/big",
        pending(groups=TWO, options={"expander": "priority"}, priorityConfig="10:\n  - small\n"),
        PodVerdict.NOT_CHOSEN,
        "flag expander",
        cause="fits group big, which --expander=priority did not choose",
        advice="Rank group big first in the priority expander's ConfigMap.",
    ),
    Situation(
        "full",
        "group/g",
        pending(groups=[FULL]),
        Skip.MAX_SIZE,
        "group g",
        cause="needs a machine of group g, which is at its maximum size of 0",
        advice="Raise the maximum size of group g to 1.",
    ),
    Situation(
        "kept small by cores",
        "group/g",
        pending(options={"cores-total": "0:3"}),
        Skip.LIMIT,
        "flag cores-total",
        cause="needs a machine of group g, and --cores-total leaves no room for it",
        advice="Set --cores-total=0:4.",
    ),
    Situation(
        "of no use to the pods",
        "group/g",
        pending(a_pod(cpu="5")),
        NoFit.RESOURCES,
        "pod default/web-0",
        cause="needs 5 CPU, the largest machine has 4",
        advice="Lower the CPU request from 5 to 4 so that group g takes it, or add a group with larger machines.",
    ),
    Situation(
        "not asked because the pods are young",
        "group/g",
        pending(options={"new-pod-scale-up-delay": "15m"}),
        Waiting.TOO_YOUNG,
        "flag new-pod-scale-up-delay",
        cause="is younger than --new-pod-scale-up-delay asks for",
        advice="Wait 4m59s; it may cause a scale-up then.",
    ),
    Situation(
        "not asked because of the limit on nodes",
        "group/g",
        pending(nodes=[a_node(taints=AWAY)], options={"max-nodes-total": "1"}),
        ScaleUpResult.LIMITED_BY_MAX_NODES_TOTAL,
        "flag max-nodes-total",
        cause="needs a machine, and --max-nodes-total=1 leaves no room for it",
        advice="Set --max-nodes-total=2.",
    ),
]
