"""The Kubernetes objects of headroom: a Deployment for each pool, and the PriorityClass.

Labels, never names, mark what headroom owns. Annotations of the Deployment hold what a new leader must know.
"""

import hashlib
import math
from collections.abc import Mapping

import msgspec

from autoscaler.config.headroom import CLUSTER, MANAGED_BY, MANAGED_CLASS, MANAGER, POOL, Headroom, HeadroomPool
from autoscaler.objects.meta import JsonObject, rfc3339, unix_seconds
from autoscaler.objects.pod import OURS, SAFE_TO_EVICT
from cloudprovider.number import parse_count
from cloudprovider.quantity import parse_quantity

HEARTBEAT, TEMPLATE_HASH = OURS + "headroom-heartbeat", OURS + "headroom-template"
_MOST_HELD = 999_999_999
HELD, ALLOWED_AT = OURS + "headroom-held", OURS + "headroom-lower-at"

_encoder = msgspec.json.Encoder(order="deterministic")


class CurrentDeployment(msgspec.Struct, frozen=True, kw_only=True):
    """A Deployment as it is in the cluster."""

    obj: JsonObject
    namespace: str
    name: str
    uid: str
    labels: Mapping[str, str]
    replicas: int
    paused: bool
    heartbeat: str | None
    """The annotation as stored; None if it is missing."""
    template_hash: str
    held: int | None
    """None if the stored value is missing or unusable."""
    allowed_at: float | None

    def of(self, pool: HeadroomPool, headroom: Headroom) -> bool:
        """Whether the Deployment belongs to this pool, by its labels."""
        return owned(pool, headroom).items() <= self.labels.items()

    @property
    def heartbeat_at(self) -> float | None:
        """The last heartbeat in Unix seconds; None if it is missing or unreadable."""
        return _seconds(self.heartbeat)


def deployment_name(pool: HeadroomPool) -> str:
    """Return the name of a pool's Deployment."""
    return f"headroom-{pool.name}"


def owned(pool: HeadroomPool, headroom: Headroom) -> dict[str, str]:
    """Return the labels of everything that belongs to a pool."""
    return {**owner_labels(headroom), POOL: pool.name}


def owner_labels(headroom: Headroom) -> dict[str, str]:
    """Return the labels of everything that belongs to the headroom of this daemon."""
    return {MANAGED_BY: MANAGER, CLUSTER: headroom.cluster_name}


def read_deployment(obj: JsonObject) -> CurrentDeployment:
    """Return the fields of a v1.Deployment that matter here."""
    metadata, spec = obj["metadata"], obj.get("spec") or {}
    notes = metadata.get("annotations") or {}
    replicas, held = spec.get("replicas"), notes.get(HELD, "")
    return CurrentDeployment(
        obj=obj,
        namespace=metadata.get("namespace") or "",
        name=metadata.get("name") or "",
        uid=metadata.get("uid") or "",
        labels=metadata.get("labels") or {},
        replicas=1 if replicas is None else int(replicas),
        paused=bool(spec.get("paused")),
        heartbeat=notes.get(HEARTBEAT),
        template_hash=notes.get(TEMPLATE_HASH, ""),
        held=parse_count(held, _MOST_HELD),
        allowed_at=_seconds(notes.get(ALLOWED_AT)),
    )


def _seconds(text: str | None) -> float | None:
    try:
        return None if text is None else unix_seconds(text)
    except ValueError:
        return None


def deployment(pool: HeadroomPool, headroom: Headroom) -> JsonObject:
    """Return the Deployment of a pool, without replicas and without the fields that change over time."""
    labels = owned(pool, headroom)
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": deployment_name(pool), "namespace": pool.namespace, "labels": labels},
        "spec": {
            "revisionHistoryLimit": 1,
            # A change of the template must not double the reserved room.
            "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 0, "maxUnavailable": "100%"}},
            "selector": {"matchLabels": labels},
            "template": template(pool, headroom),
        },
    }


def template(pool: HeadroomPool, headroom: Headroom) -> JsonObject:
    """Return the pod template of a pool."""
    placement: JsonObject = {
        "imagePullSecrets": [{"name": name} for name in pool.image_pull_secrets],
        "nodeSelector": dict(pool.node_selector),
        "tolerations": [dict(toleration) for toleration in pool.tolerations],
        "affinity": dict(pool.affinity),
        "topologySpreadConstraints": [dict(constraint) for constraint in pool.topology_spread_constraints],
        "schedulerName": pool.scheduler_name,
        "runtimeClassName": pool.runtime_class_name,
        "serviceAccountName": pool.service_account_name,
    }
    locked_down = {"allowPrivilegeEscalation": False, "readOnlyRootFilesystem": True, "capabilities": {"drop": ["ALL"]}}
    return {
        "metadata": {
            "labels": {**pool.pod_labels, **owned(pool, headroom)},
            "annotations": {**pool.pod_annotations, SAFE_TO_EVICT: "true"},
        },
        "spec": {
            "priorityClassName": pool.priority_class,
            "terminationGracePeriodSeconds": 0,
            "automountServiceAccountToken": False,
            "securityContext": {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}},
            "containers": [
                {
                    "name": "pause",
                    "image": pool.image,
                    "resources": {"requests": {name: str(amount) for name, amount in pool.resources.items()}},
                    "securityContext": locked_down,
                }
            ],
            **{field: value for field, value in placement.items() if value},
        },
    }


def template_hash(wanted: JsonObject) -> str:
    """Return a hash that distinguishes our templates."""
    return hashlib.sha256(_encoder.encode(wanted)).hexdigest()[:16]


def notes(hash_: str, held: int, allowed_at: float, wall: float) -> dict[str, str]:
    """Return the annotations that are written with every change of a Deployment."""
    return {
        HEARTBEAT: rfc3339(wall),
        TEMPLATE_HASH: hash_,
        HELD: str(held),
        ALLOWED_AT: rfc3339(math.ceil(allowed_at)),
    }


def priority_class(pool: HeadroomPool) -> JsonObject:
    """Return the managed PriorityClass: pause pods never evict anything themselves."""
    return {
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "PriorityClass",
        "metadata": {"name": MANAGED_CLASS, "labels": {MANAGED_BY: MANAGER}},
        "value": pool.priority_value,
        "globalDefault": False,
        "preemptionPolicy": "Never",
        "description": "Pause pods that hold room for work to come; any other pod may take it.",
    }


def covers(live: object, wanted: object, path: tuple[str, ...] = ()) -> bool:
    """Whether `live` contains everything in `wanted`. The API server adds defaults and normalises amounts."""
    if isinstance(wanted, dict):
        if not isinstance(live, dict):
            return not wanted and live is None
        return all(covers(live.get(key), value, (*path, key)) for key, value in wanted.items())
    if isinstance(wanted, list):
        return isinstance(live, list) and len(live) == len(wanted) and all(map(covers, live, wanted))
    if path[-2:-1] == ("requests",):
        return _amount(live) == _amount(wanted)
    return live == wanted


def _amount(text: object) -> object:
    try:
        return parse_quantity(str(text))
    except ValueError:
        return text
