"""What situations are made of: a cluster with pods that wait, or with a node that stays."""

from enum import StrEnum
from typing import Any

import msgspec

from tests.manifests import Json, a_group, a_node, a_pod, a_template, named

AT = "2026-01-05T12:00:00Z"
"""A Monday."""
OURS = "cluster-autoscaler.kubernetes.io/"
SAFE = OURS + "safe-to-evict"
POD = "pod/default/web-0"
NODE = "node/n"


class Situation(msgspec.Struct, frozen=True):
    """What is asked about, the scenario, and what is to be said."""

    name: str
    target: str
    document: Json
    code: StrEnum
    culprit: str
    cause: str
    advice: str
    flips: bool = True
    """Whether the proposed change is to flip the decision; where not, nothing that can be set does."""


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


UNREADY_STATUS = {"conditions": [{"type": "Ready", "status": "False", "lastTransitionTime": "2026-01-05T11:00:00Z"}]}
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
