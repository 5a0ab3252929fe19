"""Small random clusters in which every feature of scheduling meets every other; the same seed, the same cluster."""

import random
from collections.abc import Sequence

import msgspec

from autoscaler.objects.declared_features import HOST_NETWORK_USERS
from autoscaler.objects.devices import ResourceClaim
from autoscaler.objects.node import HOSTNAME, ZONES, Node
from autoscaler.objects.pod import Pod, PodClass
from autoscaler.objects.storage import (
    CsiDriver,
    CsiNode,
    CsiStorageCapacity,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
    VolumeAttachment,
)
from autoscaler.objects.workload import Namespace, plain_decoder
from autoscaler.snapshot.cluster import ClusterView, Related, view_of
from autoscaler.snapshot.overlay import Trial
from autoscaler.snapshot.template import Template
from tests.builders import Json, a_node, a_pod, expression, over, term
from tests.devices import claim_form, claiming
from tests.properties.slow_scheduler import Placed, SlowCluster

ZONE = ZONES[0]
RACK = "rack"
KEYS = (HOSTNAME, HOSTNAME, ZONE, ZONE, RACK)
"""Topology keys, as often as they should come up; not every node has a zone and a rack."""
EXPENDABLE = -20
NAMESPACES = {"red": {"team": "a"}, "blue": {"team": "b"}, "grey": {}}
DEVICES = ("d0", "d1", "d2", "d3")
CLAIMS = ("c0", "c1", "c2", "c3", "c4")
VOLUMES = ("v0", "v1", "v2", "v3", "v4", "v5")
CLASSES = ("local", "made", "zonal", "immediate")
DISKS = (
    ("gcePersistentDisk", "pdName"),
    ("awsElasticBlockStore", "volumeID"),
    ("rbd", "image"),
    ("iscsi", "iqn"),
)
TAINTS = ("gpu=a100", "gpu=t4:NoExecute", "old:PreferNoSchedule", "cores=8")


class Case(msgspec.Struct, frozen=True):
    """A view, classes to place on it, and templates to add to it."""

    view: ClusterView
    classes: tuple[PodClass, ...]
    templates: tuple[Template, ...]


class Dice:
    """A source of random objects."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)

    def maybe(self, chance: float) -> bool:
        return self.random.random() < chance

    def node(self, name: str) -> Node:
        pick = self.random
        labels = {"disk": pick.choice(("ssd", "hdd")), "cores": pick.choice(("4", "8", "many"))}
        if self.maybe(0.85):
            labels[RACK] = pick.choice(("r1", "r2", "r3"))
        return a_node(
            name,
            cpu=pick.choice(("2", "4", "4")),
            memory=pick.choice(("4Gi", "8Gi")),
            pods=pick.choice((3, 6, 110, 110, 110)),
            extra={"example.com/dongle": "2"} if self.maybe(0.3) else None,
            labels=labels,
            zone=pick.choice(("a", "b", "c")) if self.maybe(0.9) else None,
            taints=pick.sample(TAINTS, pick.choice((0, 0, 0, 0, 1, 2))),
            cordoned=self.maybe(0.1),
            features=[HOST_NETWORK_USERS] if self.maybe(0.6) else (),
        )

    def app(self) -> dict[str, str]:
        labels = {"app": self.random.choice("xyz")}
        if self.maybe(0.5):
            labels["version"] = self.random.choice("12")
        return labels

    def selector(self) -> Json:
        kind = self.random.randrange(10)
        if kind == 0:
            return {}
        if kind == 1:
            return {"labelSelector": {}}
        if kind == 2:
            operator = self.random.choice(("In", "NotIn"))
            return {"labelSelector": {"matchExpressions": [expression("app", operator, "x", "y")]}}
        if kind == 3:
            return {"labelSelector": {"matchExpressions": [expression("version", "Exists")]}}
        return {"labelSelector": {"matchLabels": {"app": self.random.choice("xyz")}}}

    def affinity_term(self) -> Json:
        more = self.selector()
        if self.maybe(0.2):
            more["namespaces"] = [self.random.choice(tuple(NAMESPACES))]
        if self.maybe(0.2):
            more["namespaceSelector"] = self.random.choice(({}, {"matchLabels": {"team": "a"}}))
        if self.maybe(0.15):
            more["matchLabelKeys"] = ["version"]
        if self.maybe(0.15):
            more["mismatchLabelKeys"] = ["version"]
        return term(self.random.choice(KEYS), **more)

    def constraint(self) -> Json:
        more = self.selector()
        if self.maybe(0.2):
            more["minDomains"] = self.random.randint(1, 4)
        if self.maybe(0.3):
            more["nodeAffinityPolicy"] = self.random.choice(("Honor", "Ignore"))
        if self.maybe(0.3):
            more["nodeTaintsPolicy"] = self.random.choice(("Honor", "Ignore"))
        if self.maybe(0.2):
            more["matchLabelKeys"] = ["version", "nobody-has-this"]
        return over(self.random.choice(KEYS), max_skew=self.random.randint(1, 2), **more)

    def port(self) -> Json:
        port: Json = {"containerPort": 1, "hostPort": self.random.choice((80, 81))}
        if self.maybe(0.3):
            port["protocol"] = "UDP"
        if self.maybe(0.5):
            port["hostIP"] = self.random.choice(("10.0.0.1", "10.0.0.2", "0.0.0.0"))
        return port

    def toleration(self) -> Json:
        return self.random.choice(
            (
                {"operator": "Exists"},
                {"key": "gpu", "operator": "Exists", "effect": "NoSchedule"},
                {"key": "gpu", "value": "t4"},
                {"key": "cores", "operator": "Equal", "value": "8", "effect": "NoSchedule"},
                {"key": "node.kubernetes.io/unschedulable", "operator": "Exists"},
            )
        )

    def node_term(self) -> Json:
        wanted = self.random.choice(
            (
                expression("disk", "In", "ssd", "nvme"),
                expression("disk", "NotIn", "hdd"),
                expression(RACK, "Exists"),
                expression(RACK, "DoesNotExist"),
                expression(RACK, "NotIn", "r1"),
                expression("cores", "Gt", "5"),
                expression("cores", "Lt", "5"),
                expression(HOSTNAME, "NotIn", "n0"),
                expression(ZONE, "In", "a", "b"),
            )
        )
        if self.maybe(0.15):
            return {"matchFields": [expression("metadata.name", self.random.choice(("In", "NotIn")), "n1")]}
        return {"matchExpressions": [wanted]}

    def volumes(self) -> list[Json]:
        """Return volumes of a pod: claims, some of them unusable, and disks."""
        picked = [
            {
                "name": f"claim-{number}",
                "persistentVolumeClaim": {"claimName": self.random.choice(CLAIMS if self.maybe(0.2) else CLAIMS[1:])},
            }
            for number in range(self.random.choice((0, 1, 1, 2, 2)))
        ]
        if self.maybe(0.4):
            kind, field = self.random.choice(DISKS)
            picked.append({"name": "disk", kind: {field: self.random.choice("de"), "readOnly": self.maybe(0.6)}})
        return picked

    def claim(self, namespace: str, name: str) -> Json:
        bound = self.maybe(0.4)
        return {
            "metadata": {"name": name, "namespace": namespace},
            "spec": {
                "volumeName": self.random.choice(VOLUMES) if bound else "",
                "storageClassName": self.random.choice(
                    ("local", "local", "local", "local", "made", "zonal", "immediate")
                ),
                "accessModes": ["ReadWriteOncePod" if self.maybe(0.15) else "ReadWriteOnce"],
                "resources": {"requests": {"storage": self.random.choice(("1Gi", "2Gi"))}},
            },
            "status": {"phase": "Bound" if bound else "Pending"},
        }

    def volume(self, name: str) -> Json:
        picked = self.random.choice(
            (
                [],
                [{"matchExpressions": [expression(ZONE, "In", *self.random.sample("abc", 2))]}],
                [{"matchExpressions": [expression(HOSTNAME, "In", f"n{self.random.randrange(4)}")]}],
                [self.node_term(), self.node_term()],
            )
        )
        zones = self.random.choice(({}, {}, {}, {ZONE: "a__b"}, {ZONES[1]: "c"}))
        csi = {"csi": {"driver": "disk", "volumeHandle": f"handle-{name}"}} if self.maybe(0.7) else {}
        return {
            "metadata": {"name": name, "labels": zones},
            "spec": {
                "storageClassName": self.random.choice(("local", "local", "made")),
                "accessModes": ["ReadWriteOnce", "ReadWriteOncePod"],
                "capacity": {"storage": self.random.choice(("1Gi", "2Gi", "3Gi"))},
                **({"nodeAffinity": {"required": {"nodeSelectorTerms": picked}}} if picked else {}),
                **csi,
            },
            "status": {"phase": "Available" if self.maybe(0.85) else "Released"},
        }

    def storage_class(self, name: str) -> Json:
        mode = "Immediate" if name == "immediate" else "WaitForFirstConsumer"
        zones = [{"matchLabelExpressions": [{"key": ZONE, "values": ["a", "c"]}]}]
        return {
            "metadata": {"name": name},
            "provisioner": "kubernetes.io/no-provisioner" if name == "local" else "disk",
            "volumeBindingMode": mode,
            **({"allowedTopologies": zones} if name == "zonal" else {}),
        }

    def csi_node(self, name: str) -> Json:
        limit = {"allocatable": {"count": self.random.randint(0, 3)}} if self.maybe(0.8) else {}
        return {"metadata": {"name": name}, "spec": {"drivers": [{"name": "disk", "nodeID": name, **limit}]}}

    def attachment(self, number: int, nodes: Sequence[Node]) -> Json:
        """Return what keeps a volume, which may not exist, attached to a node."""
        return {
            "metadata": {"name": f"attachment-{number}"},
            "spec": {
                "attacher": "disk",
                "nodeName": self.random.choice([*(node.name for node in nodes), "gone"]),
                "source": {"persistentVolumeName": self.random.choice(VOLUMES)},
            },
        }

    def free_storage(self, number: int) -> Json:
        places: list[Json | None] = [None, {}, {"matchLabels": {ZONE: self.random.choice("abc")}}]
        where = self.random.choice(places)
        sizes = {"capacity": self.random.choice(("1Gi", "3Gi"))}
        if self.maybe(0.3):
            sizes["maximumVolumeSize"] = self.random.choice(("1Gi", "2Gi"))
        return {
            "metadata": {"name": f"free-{number}", "namespace": "red"},
            "storageClassName": self.random.choice(("made", "zonal")),
            **({} if where is None else {"nodeTopology": where}),
            **(sizes if self.maybe(0.9) else {}),
        }

    def several(self, chance: float) -> range:
        """Range over none, one or two."""
        return range((1 + self.maybe(0.25)) if self.maybe(chance) else 0)

    def replica(self, name: str, *, plain: bool = False) -> Pod:
        """Return an unplaced pod; a plain one is not about other pods."""
        pick, chance = self.random, 0.0 if plain else 0.3
        return a_pod(
            name,
            namespace=pick.choice(tuple(NAMESPACES)),
            cpu=pick.choice((None, "100m", "250m", "500m", "1500m")),
            memory=pick.choice((None, None, "256Mi", "1Gi", "3Gi")),
            requests={"example.com/dongle": "1"} if self.maybe(0.1) else None,
            labels=self.app(),
            owner=f"ReplicaSet/{name}",
            host_ports=[self.port() for _ in self.several(chance / 2)],
            selector={"disk": pick.choice(("ssd", "hdd"))} if self.maybe(0.15) else None,
            node_terms=[self.node_term() for _ in range(pick.randint(1, 2))] if self.maybe(0.15) else None,
            near=[self.affinity_term() for _ in self.several(chance / 2)],
            away=[self.affinity_term() for _ in self.several(chance)],
            spread=[self.constraint() for _ in self.several(chance)],
            tolerations=[self.toleration() for _ in self.several(0.4)],
            volumes=self.volumes() if not plain and self.maybe(0.2) else (),
            spec={
                **(claiming(*self.devices()) if not plain and self.maybe(0.1) else {}),
                **({"hostNetwork": True, "hostUsers": False} if self.maybe(0.05) else {}),
            },
        )

    def devices(self) -> list[str]:
        """Return the names of one or two claims for devices; the first does not exist."""
        return [self.random.choice(DEVICES if self.maybe(0.2) else DEVICES[1:]) for _ in self.several(1.0)]

    def device_claim(self, namespace: str, name: str, nodes: Sequence[Node]) -> ResourceClaim:
        """Return a claim that may be used on one node, on nodes with a label, on any, or is not allocated."""
        local = self.random.choice(nodes).name if nodes and self.maybe(0.4) else None
        form = claim_form(name, f"{namespace}-{name}", namespace=namespace, node=local, allocated=self.maybe(0.85))
        if local is None and form["status"] and self.maybe(0.5):
            form["status"]["allocation"]["nodeSelector"] = {"nodeSelectorTerms": [self.node_term()]}
        return plain_decoder(ResourceClaim).one(form)

    def templates(self) -> tuple[Template, ...]:
        daemons = [self.replica(f"daemon-{number}", plain=self.maybe(0.5)) for number in range(2)]
        picked = [tuple(daemons[: self.random.randrange(3)]) for _ in range(2)]
        nodes = [self.node("t0"), a_node("t1", cpu="4", memory="8Gi", zone="c", labels={RACK: "r3", "disk": "ssd"})]
        limits = [{"disk": self.random.randint(0, 3)} if self.maybe(0.5) else {} for _ in range(2)]
        made = zip(nodes, picked, limits, strict=True)
        drivers = [self.random.choice((frozenset[str](), frozenset(["disk"]))) for _ in range(2)]
        return tuple(
            Template(node, pods, attach_limits=limit, csi_drivers=running.union(limit))
            for (node, pods, limit), running in zip(made, drivers, strict=True)
        )


def related(dice: Dice, nodes: Sequence[Node]) -> Related:
    """Return namespaces, of which `grey` has no labels, and storage; one claim and one volume do not exist."""
    decoder = plain_decoder(Namespace)
    known = [decoder.one({"metadata": {"name": name, "labels": labels}}) for name, labels in NAMESPACES.items()]
    claims = [
        plain_decoder(PersistentVolumeClaim).one(dice.claim(namespace, name))
        for namespace in NAMESPACES
        for name in CLAIMS[1:]
    ]
    volumes = [plain_decoder(PersistentVolume).one(dice.volume(name)) for name in VOLUMES[1:]]
    classes = [plain_decoder(StorageClass).one(dice.storage_class(name)) for name in CLASSES]
    csi_nodes = [plain_decoder(CsiNode).one(dice.csi_node(node.name)) for node in nodes if dice.maybe(0.6)]
    needed = {"preventPodSchedulingIfMissing": dice.maybe(0.5)}
    driver = {"metadata": {"name": "disk"}, "spec": {"storageCapacity": dice.maybe(0.5), **needed}}
    drivers = [plain_decoder(CsiDriver).one(driver)] if dice.maybe(0.6) else []
    free = [plain_decoder(CsiStorageCapacity).one(dice.free_storage(number)) for number in range(3)]
    attachments = [plain_decoder(VolumeAttachment).one(dice.attachment(number, nodes)) for number in range(4)]
    device_claims = [dice.device_claim(namespace, name, nodes) for namespace in NAMESPACES for name in DEVICES[1:]]
    return Related(
        namespaces={one.name: one for one in known},
        claims={claim.key: claim for claim in claims},
        volumes={volume.name: volume for volume in volumes},
        storage_classes={one.name: one for one in classes},
        csi_nodes={csi_node.name: csi_node for csi_node in csi_nodes},
        csi_drivers={one.name: one for one in drivers},
        csi_storage_capacities={one.key: one for one in free},
        volume_attachments={one.name: one for one in attachments},
        resource_claims={device_claim.key: device_claim for device_claim in device_claims},
    )


def random_case(seed: int, *, classes: int = 6, nodes: int = 9, pods: int = 14, plain: bool = False) -> Case:
    """Return a cluster with pods placed whether they fit or not, some of them on their way out."""
    dice = Dice(seed)
    made = [dice.node(f"n{number}") for number in range(dice.random.randint(0, nodes))]
    replicas = [dice.replica(f"web-{number}", plain=plain) for number in range(classes)]
    placed = [_placed(dice, dice.random.choice(replicas), made, number) for number in range(pods)]
    view = view_of(made, placed, related=related(dice, made))
    return Case(view, tuple(replica.cls for replica in replicas), dice.templates())


def _placed(dice: Dice, replica: Pod, nodes: Sequence[Node], number: int) -> Pod:
    names = [*(node.name for node in nodes), "unknown"]
    return msgspec.structs.replace(
        replica,
        name=f"pod-{number}",
        uid=f"uid-{number}",
        node=dice.random.choice(names) if dice.maybe(0.9) else None,
        deleted=99.0 if dice.maybe(0.15) else None,
    )


def slow_twin(view: ClusterView) -> SlowCluster:
    """Return the slow cluster that is this view."""
    placed = [
        Placed(pod.cls, position, pod.deleted is not None)
        for position, on_node in enumerate(view.pods)
        for pod in on_node
    ]
    return SlowCluster(view.nodes, placed, view.related)


def add_to_both(trial: Trial, twin: SlowCluster, template: Template, count: int) -> range:
    """Add copies of a template to a trial and to its twin."""
    new = trial.add(template, count)
    for position in new:
        twin.add(trial.node(position), template)
    return new
