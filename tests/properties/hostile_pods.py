"""Pods whose authors put as much as they can into one field, and a small cluster that such pods wait for and run on."""

import json
from collections.abc import Callable, Mapping
from typing import Any

Json = dict[str, Any]
Hostile = Callable[[int], Json]
"""Returns a pod of a size: so many entries in the list in question, or a hundred times as many bytes."""

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
HOST = "kubernetes.io/hostname"
ZONE = "topology.kubernetes.io/zone"


def _spec(**fields: Any) -> Json:
    return {"spec": fields}


def _affinity(kind: str, terms: list[Json], when: str = REQUIRED) -> Json:
    return _spec(affinity={kind: {when: terms}})


def _term(number: int, key: str = HOST, **more: Any) -> Json:
    return {"topologyKey": key, "labelSelector": {"matchLabels": {"app": f"a{number}"}}, **more}


def _unlike(number: int, key: str = HOST) -> Json:
    """A term that no label can narrow down."""
    expression = {"key": f"k{number}", "operator": "DoesNotExist"}
    return {"topologyKey": key, "labelSelector": {"matchExpressions": [expression]}, "namespaceSelector": {}}


def _asking(number: int) -> Json:
    return {"name": f"c{number}", "resources": {"requests": {f"example.com/r{number}": "1", "cpu": "1m"}}}


def _claims(size: int) -> Json:
    return _spec(
        volumes=[{"name": f"v{number}", "persistentVolumeClaim": {"claimName": f"c{number}"}} for number in range(size)]
    )


def _disks(size: int) -> Json:
    volumes = [{"name": f"v{number}", "gcePersistentDisk": {"pdName": f"d{number}"}} for number in range(size)]
    return _spec(volumes=volumes)


def _local(size: int) -> Json:
    names = ",".join(f"v{number}" for number in range(size))
    return {
        "metadata": {"annotations": {"cluster-autoscaler.kubernetes.io/safe-to-evict-local-volumes": names}},
        **_spec(volumes=[{"name": f"v{number}", "emptyDir": {}} for number in range(size)]),
    }


def _node_terms(size: int) -> Json:
    values = [f"v{number}" for number in range(size)]
    terms = [{"matchExpressions": [{"key": f"k{at}", "operator": "In", "values": values[:4]}]} for at in range(size)]
    terms.append({"matchExpressions": [{"key": ZONE, "operator": "NotIn", "values": values}]})
    return _spec(affinity={"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": terms}}})


def _spread(size: int, key: str | None = None) -> Json:
    return _spec(
        topologySpreadConstraints=[
            {
                "topologyKey": key or f"example.com/k{number}",
                "maxSkew": 1,
                "whenUnsatisfiable": "DoNotSchedule",
                "labelSelector": {"matchLabels": {"app": f"a{number}"}},
            }
            for number in range(size)
        ]
    )


def _sidecars(size: int) -> Json:
    sidecars = [{**_asking(number), "restartPolicy": "Always"} for number in range(size)]
    return _spec(initContainers=[*sidecars, *(_asking(number) for number in range(size, 2 * size))])


def _ports(size: int) -> Json:
    ports = [{"hostPort": 1 + number, "containerPort": 1 + number} for number in range(size)]
    return _spec(containers=[{"name": f"c{number}", "ports": [port]} for number, port in enumerate(ports)])


HOSTILE: Mapping[str, Hostile] = {
    "affinity terms": lambda size: _affinity("podAffinity", [_term(number) for number in range(size)]),
    "equal affinity terms": lambda size: _affinity("podAffinity", [_term(0, ZONE)] * size),
    "affinity terms, each with its own topology": lambda size: _affinity(
        "podAffinity", [_unlike(number, f"example.com/t{number}") for number in range(size)]
    ),
    "affinity terms about everybody": lambda size: _affinity(
        "podAffinity", [_unlike(number) for number in range(size)]
    ),
    "anti-affinity terms": lambda size: _affinity("podAntiAffinity", [_term(number) for number in range(size)]),
    "anti-affinity terms about everybody": lambda size: _affinity(
        "podAntiAffinity", [_unlike(number, ZONE if number % 2 else HOST) for number in range(size)]
    ),
    "anti-affinity terms, each with its own topology": lambda size: _affinity(
        "podAntiAffinity", [_term(number, f"example.com/t{number}") for number in range(size)]
    ),
    "namespaces of terms": lambda size: _affinity(
        "podAntiAffinity", [_term(number, namespaces=[f"n{number}", "default"]) for number in range(size)]
    ),
    "keys to match": lambda size: {
        "metadata": {"labels": {f"k{number}": "v" for number in range(size)}},
        **_affinity("podAntiAffinity", [_term(0, matchLabelKeys=[f"k{number}" for number in range(size)])]),
    },
    "preferred terms": lambda size: _affinity(
        "podAffinity", [{"weight": 1, "podAffinityTerm": _term(number)} for number in range(size)], PREFERRED
    ),
    "containers": lambda size: _spec(containers=[_asking(number) for number in range(size)]),
    "init containers and sidecars": _sidecars,
    "ephemeral containers": lambda size: _spec(ephemeralContainers=[{"name": f"c{number}"} for number in range(size)]),
    "tolerations": lambda size: _spec(
        tolerations=[{"key": f"k{number}", "operator": "Exists"} for number in range(size)]
    ),
    "claims": _claims,
    "disks": _disks,
    "local volumes": _local,
    "labels": lambda size: {"metadata": {"labels": {f"k{number}": "v" for number in range(size)}}},
    "annotations": lambda size: {"metadata": {"annotations": {f"k{number}": "v" * 100 for number in range(size)}}},
    "an owner's name": lambda size: {"metadata": {"ownerReferences": [{"kind": "Job", "name": "x" * 100 * size}]}},
    "spread constraints": _spread,
    "spread constraints over one topology": lambda size: _spread(size, ZONE),
    "host ports": _ports,
    "node selector": lambda size: _spec(nodeSelector={f"k{number}": "v" for number in range(size)}),
    "node affinity": _node_terms,
    "device claims": lambda size: _spec(
        resourceClaims=[{"name": f"d{number}", "resourceClaimName": f"c{number}"} for number in range(size)]
    ),
    "scheduling gates": lambda size: _spec(schedulingGates=[{"name": f"g{number}"} for number in range(size)]),
    "scripts": lambda size: {
        "metadata": {"labels": {f"ключ-\u202e{number}\U0001f4a3": "\u0000\ud7ff漢" for number in range(size)}}
    },
    "huge amounts": lambda size: _spec(
        containers=[{"name": f"c{number}", "resources": {"requests": {"cpu": "9" * 15}}} for number in range(size)]
    ),
}


def _several(term: Callable[[int], Json], number: int) -> list[Json]:
    return [term(3 * number + at) for at in range(3)]


def _unlike_spread(number: int) -> Json:
    selector = {"matchExpressions": [{"key": f"k{number}", "operator": "DoesNotExist"}]}
    key = HOST if number % 2 else ZONE
    return {"topologyKey": key, "maxSkew": 99, "whenUnsatisfiable": "DoNotSchedule", "labelSelector": selector}


def _unlike_node(number: int) -> Json:
    return {"matchExpressions": [{"key": f"k{number}", "operator": "DoesNotExist"}]}


def _in_namespaces_without(number: int) -> Json:
    expression = {"key": f"k{number}", "operator": "NotIn", "values": [f"v{number}"]}
    return {**_unlike(number), "namespaceSelector": {"matchExpressions": [expression]}, "namespaces": ["default"]}


DISTINCT: Mapping[str, Callable[[int], Json]] = {
    "wide affinity": lambda number: _affinity("podAffinity", _several(_unlike, number)),
    "wide anti-affinity": lambda number: _affinity("podAntiAffinity", _several(_unlike, number)),
    "anti-affinity in selected namespaces": lambda number: _affinity(
        "podAntiAffinity", _several(_in_namespaces_without, number)
    ),
    "narrow affinity": lambda number: _affinity("podAffinity", _several(_term, number)),
    "narrow anti-affinity": lambda number: _affinity("podAntiAffinity", _several(_term, number)),
    "affinity in a chain": lambda number: {
        "metadata": {"labels": {"app": f"a{number}"}},
        **_affinity("podAffinity", [_term(max(0, number - 2), ZONE)]),
    },
    "spread constraints": lambda number: _spec(topologySpreadConstraints=_several(_unlike_spread, number)),
    "node affinity": lambda number: _spec(
        affinity={"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": _several(_unlike_node, number)}}}
    ),
    "labels": lambda number: {"metadata": {"labels": {f"k{number}": "v"}}},
    "tolerations": lambda number: _spec(tolerations=[{"key": f"k{number}", "operator": "Exists"}]),
    "host ports": lambda number: _spec(
        containers=[{"name": "c", "ports": [{"hostPort": 1 + number, "containerPort": 1}]}]
    ),
    "claims": lambda number: _spec(volumes=[{"name": "v", "persistentVolumeClaim": {"claimName": f"c{number}"}}]),
    "disks": lambda number: _spec(volumes=[{"name": "v", "gcePersistentDisk": {"pdName": f"d{number}"}}]),
}
"""Pods by number, none of which is like another."""


def a_hostile_pod(name: str, body: Json, *, node: str | None = None, cpu: str = "100m") -> Json:
    """Return the pod under a name, pending or on a node; `body` is what a `Hostile` returned."""
    owner = {"kind": "ReplicaSet", "name": "hostile", "controller": True}
    metadata = {"namespace": "default", "ownerReferences": [owner], **body.get("metadata", {}), "name": name}
    spec = {"containers": [], **body.get("spec", {})}
    spec["containers"] = [{"name": "main", "resources": {"requests": {"cpu": cpu}}}, *spec["containers"]]
    return {"metadata": metadata, "spec": spec if node is None else {**spec, "nodeName": node}}


def a_plain_pod(name: str, *, node: str | None = None, cpu: str = "100m") -> Json:
    """Return a pod of somebody who means well, with a term and a constraint of each kind."""
    mine = {"matchLabels": {"app": name}}
    affinity = {
        "podAffinity": {REQUIRED: [{"topologyKey": ZONE, "labelSelector": mine}]},
        "podAntiAffinity": {REQUIRED: [{"topologyKey": HOST, "labelSelector": mine}]},
    }
    spread = {"topologyKey": ZONE, "maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule", "labelSelector": mine}
    body = {"metadata": {"labels": {"app": name}}, **_spec(affinity=affinity, topologySpreadConstraints=[spread])}
    return a_hostile_pod(name, body, node=node, cpu=cpu)


def a_cluster(*pods: Json, nodes: int = 3, options: Mapping[str, str] | None = None) -> bytes:
    """Return a scenario file: one group, idle nodes that may go at once, and these pods."""
    labels = {ZONE: "z1", "pool": "main"}
    resources = {"cpu": "4", "memory": "16Gi", "pods": "110"}
    names = [f"node-{number}" for number in range(nodes)]
    content = {
        "now": "2026-01-05T12:00:00Z",
        "runs": 1,
        "options": {
            "scale-down-unneeded-time": "0s",
            "scale-down-delay-after-add": "0s",
            "skip-nodes-with-local-storage": "true",
            **(options or {}),
        },
        "nodeGroups": [
            {"id": "main", "minSize": 0, "maxSize": 50, "template": {"labels": labels, "capacity": resources}}
        ],
        "nodes": [
            {"metadata": {"name": name, "labels": {**labels, HOST: name}}, "status": {"allocatable": resources}}
            for name in names
        ],
        "nodeToGroup": dict.fromkeys(names, "main"),
        "pods": list(pods),
        "replicaSets": [{"metadata": {"name": "hostile", "namespace": "default"}, "spec": {"replicas": 9}}],
    }
    return json.dumps(content).encode()
