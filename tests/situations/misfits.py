"""Situations of pods that ask for what no node has, through a slip, a missing object or the wrong group."""

from typing import Any

from autoscaler.objects.node import HOSTNAME, ZONES
from autoscaler.reasons import NoFit, Skip
from tests.manifests import Json, a_group, a_node, a_pod, a_template, named, running
from tests.situations.scenes import POD, Situation, at_least, near, pending

WEB = "pod default/web-0"
ZONE = ZONES[0]
ARCH = "kubernetes.io/arch"
REGION = "topology.kubernetes.io/region"
WAITS = {"provisioner": "ebs.csi.aws.com", "volumeBindingMode": "WaitForFirstConsumer"}


def pools(key: str, *values: str) -> list[Json]:
    """Return a group for each value of a label."""
    return [a_group(value, a_template(labels={key: value})) for value in values]


def claiming(**more: Any) -> Json:
    """Return the pod with a claim `data`."""
    return a_pod(volumes=[{"name": "v", "persistentVolumeClaim": {"claimName": "data"}}], **more)


def a_claim(phase: str = "Pending", meta: Json | None = None, **spec: Any) -> Json:
    claim = {**named("data", storageClassName="std", **spec), "status": {"phase": phase}}
    claim["metadata"].update(meta or {})
    return {"persistentVolumeClaims": [claim]}


def a_volume_in(zone: str) -> Json:
    """Return the volume of the claim, which can be used in one zone only."""
    only = {"key": ZONE, "operator": "In", "values": [zone]}
    spec = {
        "claimRef": {"name": "data", "namespace": "default"},
        "storageClassName": "std",
        "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [only]}]}},
    }
    return {"persistentVolumes": [{"metadata": {"name": "pv"}, "spec": spec}]}


def storage_classes(**fields: Any) -> Json:
    return {"storageClasses": [{"metadata": {"name": "std"}, **fields}]}


GPU = {"nvidia.com/gpu": "1"}
GPU_TAINT = [{"key": "nvidia.com/gpu", "value": "true", "effect": "NoSchedule"}]
GPU_GROUP = a_group("gpu", a_template(more=GPU, taints=GPU_TAINT))
PORT: Json = {"ports": [{"containerPort": 80, "hostPort": 80}]}
ARM = a_template("8", labels={ARCH: "arm64"})
AMD = a_template("4", labels={ARCH: "amd64"})


def agents(**resources: str) -> Json:
    """Return a DaemonSet that runs on every node."""
    pod = {"containers": [{"resources": {"requests": resources}}]}
    return {"daemonSets": [{"metadata": {"name": "agent"}, "spec": {"template": {"spec": pod}}}]}


LABELS = [
    Situation(
        "a misspelt pool",
        POD,
        pending(a_pod(nodeSelector={"pool": "genral"}), groups=pools("pool", "spot", "general")),
        NoFit.NODE_AFFINITY,
        WEB,
        cause="wants pool=genral, no group has that label (did you mean general?)",
        advice="Replace pool=genral by general in the nodeSelector so that group general takes it.",
    ),
    Situation(
        "a misspelt key",
        POD,
        pending(a_pod(nodeSelector={"example.com/pol": "general"}), groups=pools("example.com/pool", "general")),
        NoFit.NODE_AFFINITY,
        WEB,
        cause="wants example.com/pol=general, no group has that label (did you mean example.com/pool?)",
        advice="Replace example.com/pol=general by example.com/pool=general in the nodeSelector so that group "
        "general takes it.",
    ),
    Situation(
        "a key without its prefix",
        POD,
        pending(a_pod(nodeSelector={"zone": "eu-1b"}), groups=pools(ZONE, "eu-1a", "eu-1b")),
        NoFit.NODE_AFFINITY,
        WEB,
        cause="wants zone=eu-1b, no group has that label (did you mean topology.kubernetes.io/zone?)",
        advice="Replace zone=eu-1b by topology.kubernetes.io/zone=eu-1b in the nodeSelector so that group eu-1b "
        "takes it.",
    ),
    Situation(
        "a misspelt pool in an affinity",
        POD,
        pending(a_pod(affinity={"nodeAffinity": at_least("pool", "generel")}), groups=pools("pool", "spot", "general")),
        NoFit.NODE_AFFINITY,
        WEB,
        cause="wants pool=generel, no group has that label (did you mean general?)",
        advice="Replace pool=generel by general in the required node affinity so that group general takes it.",
    ),
    Situation(
        "a misspelt pool, and a taint there",
        POD,
        pending(
            a_pod(nodeSelector={"pool": "gpus"}),
            groups=[a_group("gpu", a_template(labels={"pool": "gpu"}, taints=GPU_TAINT))],
        ),
        NoFit.TAINT,
        WEB,
        cause="wants pool=gpus, no group has that label (did you mean gpu?)",
        advice="Add a toleration for nvidia.com/gpu=true:NoSchedule and replace pool=gpus by gpu in the "
        "nodeSelector so that group gpu takes it.",
    ),
    Situation(
        "a pool with another number is no slip",
        POD,
        pending(a_pod(nodeSelector={"pool": "pool-3"}), groups=pools("pool", "pool-1", "pool-2")),
        NoFit.NODE_AFFINITY,
        WEB,
        cause="wants pool=pool-3, no group has that label (there are pool-1 and pool-2)",
        advice="Add a group like pool-1 with pool=pool-3.",
    ),
    Situation(
        "a zone without groups",
        POD,
        pending(a_pod(nodeSelector={ZONE: "eu-1d"}), groups=pools(ZONE, "eu-1a", "eu-1b", "eu-1c")),
        NoFit.NODE_AFFINITY,
        WEB,
        cause="wants zone eu-1d, the zones are eu-1a, eu-1b and eu-1c",
        advice="Replace topology.kubernetes.io/zone=eu-1d by eu-1a in the nodeSelector so that group eu-1a takes it.",
    ),
    Situation(
        "a zone that a spread-out word means",
        POD,
        pending(a_pod(nodeSelector={ZONE: "eu-1-b"}), groups=pools(ZONE, "eu-1a", "eu-1b")),
        NoFit.NODE_AFFINITY,
        WEB,
        cause="wants zone eu-1-b, the zones are eu-1a and eu-1b (did you mean eu-1b?)",
        advice="Replace topology.kubernetes.io/zone=eu-1-b by eu-1b in the nodeSelector so that group eu-1b takes it.",
    ),
    Situation(
        "an architecture without groups",
        POD,
        pending(a_pod(nodeSelector={ARCH: "arm64"}), groups=[a_group(template=AMD)]),
        NoFit.NODE_AFFINITY,
        WEB,
        cause="wants architecture arm64, the only architecture is amd64",
        advice="Add a group like g with kubernetes.io/arch=arm64.",
    ),
    Situation(
        "an architecture by its other name",
        POD,
        pending(a_pod(nodeSelector={ARCH: "x86_64"}), groups=[a_group(template=AMD)]),
        NoFit.NODE_AFFINITY,
        WEB,
        cause="wants architecture x86_64, the only architecture is amd64 (did you mean amd64?)",
        advice="Replace kubernetes.io/arch=x86_64 by amd64 in the nodeSelector so that group g takes it.",
    ),
    Situation(
        "an operating system without groups",
        POD,
        pending(a_pod(nodeSelector={"kubernetes.io/os": "windows"}), groups=pools("kubernetes.io/os", "linux")),
        NoFit.NODE_AFFINITY,
        WEB,
        cause="wants operating system windows, the only operating system is linux",
        advice="Add a group like linux with kubernetes.io/os=windows.",
    ),
    Situation(
        "an instance type without groups",
        POD,
        pending(
            a_pod(nodeSelector={"node.kubernetes.io/instance-type": "m5.xlarge"}),
            groups=pools("node.kubernetes.io/instance-type", "m5.large"),
        ),
        NoFit.NODE_AFFINITY,
        WEB,
        cause="wants instance type m5.xlarge, the only instance type is m5.large",
        advice="Add a group like m5.large with node.kubernetes.io/instance-type=m5.xlarge.",
    ),
    Situation(
        "a node that is gone",
        POD,
        pending(a_pod(nodeSelector={HOSTNAME: "n7"}), groups=[a_group()]),
        NoFit.NODE_AFFINITY,
        WEB,
        cause="wants the node whose host name is n7",
        advice="Remove kubernetes.io/hostname from the nodeSelector so that group g takes it.",
    ),
    Situation(
        "a pool and a zone that no group has together",
        POD,
        pending(
            a_pod(nodeSelector={"pool": "db", ZONE: "b"}),
            groups=[
                a_group("db-a", a_template(labels={"pool": "db", ZONE: "a"})),
                a_group("web-b", a_template(labels={"pool": "web", ZONE: "b"})),
            ],
        ),
        NoFit.NODE_AFFINITY,
        WEB,
        cause="wants topology.kubernetes.io/zone=b, which group db-a does not have",
        advice="Add a group like db-a with topology.kubernetes.io/zone=b.",
    ),
]

ROOM = [
    Situation(
        "a GPU behind a taint",
        POD,
        pending(a_pod(more=GPU), groups=[a_group(), GPU_GROUP]),
        NoFit.TAINT,
        WEB,
        cause="does not tolerate taint nvidia.com/gpu=true:NoSchedule of group gpu",
        advice="Add a toleration for nvidia.com/gpu=true:NoSchedule so that group gpu takes it, or add a group "
        "without this taint.",
    ),
    Situation(
        "more GPUs than a machine has",
        POD,
        pending(a_pod(more={"nvidia.com/gpu": "4"}), groups=[a_group(), a_group("gpu", a_template(more=GPU))]),
        NoFit.RESOURCES,
        WEB,
        cause="needs 4 nvidia.com/gpu, the largest machine has 1",
        advice="Lower the nvidia.com/gpu request from 4 to 1 so that group gpu takes it, or add a group with "
        "larger machines.",
    ),
    Situation(
        "the larger machines are of another architecture",
        POD,
        pending(a_pod(cpu="9"), groups=[a_group("arm", ARM), a_group("amd", AMD), a_group("amd-2", AMD)]),
        NoFit.RESOURCES,
        WEB,
        cause="needs 9 CPU, the largest machine that it may use has 4",
        advice="Lower the CPU request from 9 to 4 so that group amd takes it, or add a group with larger machines.",
    ),
    Situation(
        "too large for the architecture it asks for",
        POD,
        pending(
            a_pod(cpu="9", nodeSelector={ARCH: "arm64"}),
            groups=[a_group("amd", a_template("16", labels={ARCH: "amd64"})), a_group("arm", ARM)],
        ),
        NoFit.RESOURCES,
        WEB,
        cause="needs 9 CPU, the largest machine that it may use has 8",
        advice="Lower the CPU request from 9 to 8 so that group arm takes it, or add a group with larger machines.",
    ),
    Situation(
        "DaemonSets that leave too little",
        POD,
        pending(a_pod(cpu="3"), **agents(cpu="1500m")),
        NoFit.RESOURCES,
        WEB,
        cause="needs 3 CPU, the largest machine has 2.5",
        advice="Lower the CPU request from 3 to 2.5 so that group g takes it, or add a group with larger machines.",
    ),
    Situation(
        "an init container that is too large",
        POD,
        pending(a_pod(initContainers=[{"name": "init", "resources": {"requests": {"cpu": "9"}}}])),
        NoFit.RESOURCES,
        WEB,
        cause="needs 9 CPU, the largest machine has 4",
        advice="Lower the CPU request from 9 to 4 so that group g takes it, or add a group with larger machines.",
    ),
    Situation(
        "no pod slot beside the DaemonSets",
        POD,
        pending(groups=[a_group(template=a_template(more={"pods": "1"}))], **agents(cpu="100m")),
        NoFit.RESOURCES,
        WEB,
        flips=False,
        cause="needs a pod slot, and new nodes of group g have none left",
        advice="Add a group whose nodes suit it; no change of the pod or of a group's sizes helps.",
    ),
    Situation(
        "a cordoned node beside a group at its maximum",
        POD,
        pending(groups=[a_group(maxSize=0)], nodes=[a_node(unschedulable=True)]),
        NoFit.UNSCHEDULABLE,
        "node n",
        cause="needs a node, and node n is cordoned",
        advice="Uncordon node n.",
    ),
    Situation(
        "a maximum that keeps three machines away",
        POD,
        pending(*(a_pod(f"web-{number}", "3") for number in range(3)), groups=[a_group(maxSize=0)]),
        Skip.MAX_SIZE,
        "group g",
        cause="needs a machine of group g, which is at its maximum size of 0",
        advice="Raise the maximum size of group g to 3.",
    ),
    Situation(
        "a maximum, and a misspelt pool",
        POD,
        pending(
            a_pod(nodeSelector={"pool": "genral"}),
            groups=[a_group("general", a_template(labels={"pool": "general"}), maxSize=0)],
        ),
        Skip.MAX_SIZE,
        "group general",
        cause="wants pool=genral, no group has that label (did you mean general?)",
        advice="Replace pool=genral by general in the nodeSelector. Raise the maximum size of group general to 1.",
    ),
]

STORAGE = [
    Situation(
        "a StorageClass that is not there",
        POD,
        pending(claiming(), **a_claim()),
        NoFit.VOLUME_BINDING,
        WEB,
        cause="needs PersistentVolumeClaim default/data, whose StorageClass std does not exist",
        advice="Create StorageClass std.",
    ),
    Situation(
        "a claim that is bound first",
        POD,
        pending(claiming(), **a_claim(), **storage_classes(provisioner="ebs.csi.aws.com")),
        NoFit.VOLUME_BINDING,
        WEB,
        flips=False,
        cause="needs PersistentVolumeClaim default/data, which is not bound yet",
        advice="See the events of PersistentVolumeClaim default/data: StorageClass std binds it before the pod has "
        "a node.",
    ),
    Situation(
        "a claim without a class",
        POD,
        pending(claiming(), persistentVolumeClaims=[{**named("data"), "status": {"phase": "Pending"}}]),
        NoFit.VOLUME_BINDING,
        WEB,
        flips=False,
        cause="needs PersistentVolumeClaim default/data, which has neither a volume nor a StorageClass",
        advice="Name a StorageClass in PersistentVolumeClaim default/data, or create a PersistentVolume for it.",
    ),
    Situation(
        "a claim whose volume is lost",
        POD,
        pending(claiming(), **a_claim("Lost", volumeName="pv")),
        NoFit.VOLUME_BINDING,
        WEB,
        flips=False,
        cause="needs PersistentVolumeClaim default/data, whose PersistentVolume pv is lost",
        advice="Restore PersistentVolume pv, or delete PersistentVolumeClaim default/data and create it again.",
    ),
    Situation(
        "a claim whose volume is not there",
        POD,
        pending(claiming(), **a_claim("Bound", volumeName="pv")),
        NoFit.VOLUME_BINDING,
        WEB,
        flips=False,
        cause="needs PersistentVolumeClaim default/data, whose PersistentVolume pv does not exist",
        advice="Restore PersistentVolume pv, or delete PersistentVolumeClaim default/data and create it again.",
    ),
    Situation(
        "a claim that is being deleted",
        POD,
        pending(claiming(), **a_claim("Bound", {"deletionTimestamp": "2026-01-05T11:00:00Z"}, volumeName="pv")),
        NoFit.VOLUME_BINDING,
        WEB,
        flips=False,
        cause="needs PersistentVolumeClaim default/data, which is being deleted",
        advice="Create PersistentVolumeClaim default/data again once it is gone.",
    ),
    Situation(
        "a claim that a controller is to create",
        POD,
        pending(a_pod(volumes=[{"name": "v", "ephemeral": {"volumeClaimTemplate": {"spec": {}}}}])),
        NoFit.VOLUME_BINDING,
        WEB,
        flips=False,
        cause="needs PersistentVolumeClaim default/web-0-v, which does not exist yet",
        advice="Wait for the controller manager to create PersistentVolumeClaim default/web-0-v; if it does not, "
        "see its log.",
    ),
    Situation(
        "a volume in a zone without groups",
        POD,
        pending(
            claiming(),
            groups=pools(ZONE, "eu-1a", "eu-1b"),
            **a_claim("Bound", volumeName="pv"),
            **a_volume_in("eu-1d"),
        ),
        NoFit.VOLUME_BINDING,
        WEB,
        cause="can use PersistentVolume pv only in zone eu-1d, the zones are eu-1a and eu-1b",
        advice="Add a group like eu-1a with topology.kubernetes.io/zone=eu-1d.",
    ),
    Situation(
        "volumes are made in another zone",
        POD,
        pending(
            claiming(),
            groups=pools(ZONE, "eu-1a"),
            **a_claim(),
            **storage_classes(
                **WAITS, allowedTopologies=[{"matchLabelExpressions": [{"key": ZONE, "values": ["eu-1d"]}]}]
            ),
        ),
        NoFit.VOLUME_BINDING,
        WEB,
        cause="needs a volume of StorageClass std, which makes them only in zone eu-1d, the only zone is eu-1a",
        advice="Add a group like eu-1a with topology.kubernetes.io/zone=eu-1d.",
    ),
    Situation(
        "a claim that only one pod may use",
        POD,
        pending(
            claiming(cpu="4"),
            running("db-0", "n", volumes=[{"name": "v", "persistentVolumeClaim": {"claimName": "data"}}]),
            nodes=[a_node()],
            **a_claim("Bound", volumeName="pv", accessModes=["ReadWriteOncePod"]),
            persistentVolumes=[{"metadata": {"name": "pv"}, "spec": {"storageClassName": "std"}}],
        ),
        NoFit.VOLUME_RESTRICTIONS,
        WEB,
        cause="may not share PersistentVolumeClaim default/data with pod default/db-0 (ReadWriteOncePod)",
        advice="Delete pod default/db-0 so that group g takes it.",
    ),
]

IN_REGION = {REGION: "eu"}
THREE_ZONES = [
    {
        "maxSkew": 1,
        "minDomains": 3,
        "topologyKey": ZONE,
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"app": "web"}},
    }
]
NEIGHBOURS = [
    Situation(
        "one pod of its kind a region",
        POD,
        pending(
            a_pod(cpu="4", affinity={"podAntiAffinity": near("web", REGION)}),
            running("web-1", affinity={"podAntiAffinity": near("web", REGION)}),
            groups=[a_group(template=a_template(labels=IN_REGION))],
            nodes=[a_node(meta={"labels": IN_REGION})],
        ),
        NoFit.POD_AFFINITY,
        WEB,
        cause="must not share topology.kubernetes.io/region=eu with pod default/web-1",
        advice="Make the required pod anti-affinity a preferred one so that group g takes it, or add a group in "
        "another region.",
    ),
    Situation(
        "near to a pod of another namespace",
        POD,
        pending(
            a_pod(affinity={"podAffinity": near("db", REGION)}, cpu="4"),
            running("db-0", meta={"namespace": "data", "labels": {"app": "db"}}, owner="ReplicaSet/db"),
            groups=[a_group(template=a_template(labels=IN_REGION))],
            nodes=[a_node(meta={"labels": IN_REGION})],
        ),
        NoFit.POD_AFFINITY,
        WEB,
        cause="needs to be near pods with app=db, and there are none near new nodes of group g",
        advice="Make the required pod affinity a preferred one so that group g takes it.",
    ),
    Situation(
        "a spread that asks for more zones than there are",
        POD,
        pending(
            a_pod(cpu="4", topologySpreadConstraints=THREE_ZONES),
            running("web-1", topologySpreadConstraints=THREE_ZONES),
            groups=pools(ZONE, "a"),
            nodes=[a_node(meta={"labels": {ZONE: "a"}})],
        ),
        NoFit.SPREAD,
        WEB,
        cause="would raise the skew over topology.kubernetes.io/zone to 2 in a, maxSkew is 1",
        advice="Raise maxSkew over topology.kubernetes.io/zone to 2 so that group a takes it, or add a group in "
        "another zone.",
    ),
    Situation(
        "a host port that a DaemonSet holds",
        POD,
        pending(
            a_pod(container=PORT),
            daemonSets=[{"metadata": {"name": "proxy"}, "spec": {"template": {"spec": {"containers": [{**PORT}]}}}}],
        ),
        NoFit.PORTS,
        WEB,
        cause="needs host port 80/TCP, which pod default/proxy-30677878 holds on new nodes of group g",
        advice="Remove the host ports so that group g takes it.",
    ),
]

MISFITS = [*LABELS, *ROOM, *STORAGE, *NEIGHBOURS]
