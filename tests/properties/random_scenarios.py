"""Random scenario files: groups, nodes, owners, budgets, protected and pending pods, all from one seed."""

import json
import random
from typing import Any

Json = dict[str, Any]
ZONE = "topology.kubernetes.io/zone"
SAFE = "cluster-autoscaler.kubernetes.io/safe-to-evict"
_NAMES = ("zeta", "alpha", "mu", "beta", "omega", "kappa", "eta", "pi")


def random_scenario(seed: int) -> Json:
    """Return a file's content. Half of the seeds leave nodes idle for long enough to go."""
    dice = random.Random(seed)
    names = list(_NAMES)
    dice.shuffle(names)
    groups = [_group(dice, name) for name in names[: dice.randint(1, 3)]]
    owners = [group for group in groups for _ in range(dice.randint(0, 3))]
    nodes = {f"{group['id']}-{dice.choice(names)}-{number}": group for number, group in enumerate(owners)}
    apps = [_app(dice, name) for name in names[: dice.randint(1, 4)]]
    running = [_pod(dice, app, f"r{at}", dice.choice([*nodes])) for at, app in _some(dice, apps, 9) if nodes]
    waiting = [_pod(dice, app, f"w{at}", None) for at, app in _some(dice, apps, 7)]
    return {
        "now": "2026-01-05T12:00:00Z",
        "runs": 2,
        "options": _options(dice, groups),
        "nodeGroups": groups,
        "nodes": [_node(name, group) for name, group in nodes.items()],
        "nodeToGroup": {name: group["id"] for name, group in nodes.items()},
        "pods": running + waiting,
        "replicaSets": [
            {"metadata": {"name": app["name"], "namespace": app["namespace"]}, "spec": {"replicas": 3}} for app in apps
        ],
        "podDisruptionBudgets": [_budget(dice, app) for app in apps if dice.random() < 0.4],
        "instances": [{"group": group["id"], "id": f"i-{group['id']}"} for group in groups if dice.random() < 0.2],
    }


def shuffled(content: Json, seed: int) -> Json:
    """Return the content with the keys of every object in another order; lists, whose order means something, stay."""
    dice = random.Random(seed)

    def mixed(data: Any) -> Any:
        if isinstance(data, dict):
            keys = list(data)
            dice.shuffle(keys)
            return {key: mixed(data[key]) for key in keys}
        return [mixed(item) for item in data] if isinstance(data, list) else data

    mixture: Json = mixed(json.loads(json.dumps(content)))
    return mixture


def _some(dice: random.Random, apps: list[Json], most: int) -> list[tuple[int, Json]]:
    return [(number, dice.choice(apps)) for number in range(dice.randint(0, most))]


def _group(dice: random.Random, name: str) -> Json:
    cpu = dice.choice(("2", "4", "8"))
    labels = {"pool": name, "team": dice.choice(_NAMES), ZONE: dice.choice(("z1", "z2"))}
    taints = [{"key": "dedicated", "value": name, "effect": "NoSchedule"}] if dice.random() < 0.2 else []
    template = {"labels": labels, "taints": taints, "capacity": {"cpu": cpu, "memory": "16Gi", "pods": "20"}}
    group: Json = {"id": name, "minSize": dice.choice((0, 0, 1)), "maxSize": dice.choice((3, 6)), "template": template}
    if dice.random() < 0.15:
        group["increaseError"] = "none left"
    return group


def _node(name: str, group: Json) -> Json:
    template = group["template"]
    return {
        "metadata": {"name": name, "labels": template["labels"]},
        "spec": {"taints": template["taints"]},
        "status": {"allocatable": template["capacity"]},
    }


def _app(dice: random.Random, name: str) -> Json:
    app: Json = {"name": name, "namespace": dice.choice(("default", "kube-system", "shop", "blog")), "spec": {}}
    app["cpu"], app["annotations"] = dice.choice(("100m", "900m", "1500m", "3")), {}
    match dice.randrange(7):
        case 0:
            app["annotations"] = {SAFE: "false"}
        case 1:
            app["spec"] = {"nodeSelector": {"pool": dice.choice(_NAMES)}}
        case 2:
            term = {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": name}}}
            app["spec"] = {"affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}}
        case 3:
            selector = {"matchExpressions": [{"key": "app", "operator": "In", "values": [name]}]}
            spread = {"maxSkew": 1, "topologyKey": ZONE, "labelSelector": selector}
            app["spec"] = {"topologySpreadConstraints": [spread]}
        case 4:
            app["spec"] = {"tolerations": [{"key": "dedicated", "operator": "Exists"}]}
    return app


def _pod(dice: random.Random, app: Json, name: str, node: str | None) -> Json:
    metadata: Json = {
        "name": f"{app['name']}-{name}",
        "namespace": app["namespace"],
        "labels": {"app": app["name"]},
        "annotations": app["annotations"],
    }
    if dice.random() < 0.9:
        metadata["ownerReferences"] = [{"kind": "ReplicaSet", "name": app["name"]}]
    requests = {"cpu": app["cpu"], "memory": "512Mi"}
    spec: Json = {**app["spec"], "containers": [{"resources": {"requests": requests}}]}
    return {"metadata": metadata, "spec": spec if node is None else {**spec, "nodeName": node}}


def _budget(dice: random.Random, app: Json) -> Json:
    return {
        "metadata": {"name": app["name"], "namespace": app["namespace"]},
        "spec": {"selector": {"matchLabels": {"app": app["name"]}}, "minAvailable": 1},
        "status": {"disruptionsAllowed": dice.choice((0, 1, 5))},
    }


def _options(dice: random.Random, groups: list[Json]) -> Json:
    options: Json = {
        "scale-down-unneeded-time": dice.choice(("0s", "10m")),
        "scale-down-delay-after-add": dice.choice(("0s", "10m")),
        "expander": dice.choice(("least-waste", "random", "most-pods", "priority,least-nodes")),
        "expander-seed": dice.randrange(100),
        "balance-similar-node-groups": dice.choice(("true", "false")),
        "groups-per-pass": dice.choice(("all", "one")),
        "enforce-node-group-min-size": dice.choice(("true", "false")),
        "skip-nodes-with-system-pods": dice.choice(("true", "false")),
        "max-nodes-total": dice.choice(("0", "0", "4")),
        "nodes": [f"{group['minSize']}:{group['maxSize']}:{group['id']}" for group in groups],
    }
    if dice.random() < 0.3:
        options["compatibility"] = "1.31"
    return options
