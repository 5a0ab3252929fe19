"""Whatever the cluster: every question about it has an answer, and whatever stands in the way has a name.

Ten thousand pods, nodes and groups of random scenarios are asked about; none gets an unknown or an empty reason.
"""

import json
import random
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from autoscaler.explain.answer import (
    GroupExplanation,
    GroupVerdict,
    NodeExplanation,
    NodeVerdict,
    PodExplanation,
)
from autoscaler.explain.explain import Explained, ExplainKind, ExplainTarget
from autoscaler.explain.pod import RUNS
from autoscaler.reasons import PodVerdict, ScaleUpResult, Waiting
from autoscaler.scenario.codec import decode
from autoscaler.simulator.play import play_and_explain
from tests.seeds import seeds

Json = dict[str, Any]

SEEDS, CLUSTERS_EACH, LEAST_EACH = 8, 36, 1250
OURS = "cluster-autoscaler.kubernetes.io/"
VERDICTS = {RUNS, *Waiting, *PodVerdict, *ScaleUpResult}
AS_IT_SHOULD_BE = {RUNS, PodVerdict.HELPED, Waiting.FITS, Waiting.NOMINATED, Waiting.TAKES_HEADROOM}
NOTHING_TO_DO = {GroupVerdict.GROWS, GroupVerdict.NOT_ASKED}


class Dice:
    """A source of random scenarios."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)

    def maybe(self, chance: float) -> bool:
        return self.random.random() < chance

    def some(self, chance: float, make: Callable[[], Json]) -> Json:
        return make() if self.maybe(chance) else {}

    def labels(self) -> Json:
        pick = self.random.choice
        return {"zone": pick("ab"), "disk": pick(("ssd", "hdd")), **self.some(0.1, lambda: GPU_LABEL)}

    def spec_of_node(self) -> Json:
        taint = {"key": self.random.choice(("gpu", "spot")), "value": "yes", "effect": "NoSchedule"}
        return {
            **self.some(0.2, lambda: {"taints": [taint]}),
            **self.some(0.1, lambda: {"unschedulable": True}),
        }

    def capacity(self) -> Json:
        pick = self.random.choice
        dongle = self.some(0.2, lambda: {pick(("nvidia.com/gpu", "example.com/dongle")): "2"})
        return {"cpu": pick("248"), "memory": pick(("4Gi", "8Gi")), "pods": pick(("4", "110")), **dongle}

    def node(self, name: str) -> Json:
        conditions = [{"type": "Ready", "status": "False", "lastTransitionTime": "2026-01-05T11:00:00Z"}]
        disabled = {"annotations": {OURS + "scale-down-disabled": "true"}}
        return {
            "metadata": {"name": name, "labels": self.labels(), **self.some(0.1, lambda: disabled)},
            "spec": self.spec_of_node(),
            "status": {"capacity": self.capacity(), **self.some(0.1, lambda: {"conditions": conditions})},
        }

    def group(self, name: str, target: int) -> Json:
        pick, whole = self.random.choice, {"options": {"zero-or-max-node-scaling": True}}
        template = {"metadata": {"labels": self.labels()}, "spec": self.spec_of_node()}
        return {
            "id": name,
            "minSize": pick((0, 0, 1, 2)),
            "maxSize": target + pick((0, 1, 5)) + 2,
            "targetSize": target + pick((0, 0, 0, 1)),
            "template": None if self.maybe(0.1) else {**template, "status": {"capacity": self.capacity()}},
            **self.some(0.1, lambda: {"increaseError": "out of stock"}),
            **self.some(0.1, lambda: whole),
        }

    def pod(self, name: str, node: str | None) -> Json:
        pick, app = self.random.choice, self.random.choice(("web", "db"))
        kinds = ("ReplicaSet", "ReplicaSet", "ReplicaSet", "Job", "DaemonSet", "Custom", "StatefulSet")
        owner = {"kind": pick(kinds), "name": pick(("web", "web", "gone")), "apiVersion": "apps/v1", "controller": True}
        annotations = {
            **self.some(0.15, lambda: {OURS + "safe-to-evict": pick(("true", "false", "on-completion"))}),
            **self.some(0.1, lambda: {OURS + "pod-scale-up-delay": "20m"}),
            **self.some(0.05, lambda: {"kubernetes.io/config.mirror": "x"}),
        }
        meta = {
            "name": name,
            "namespace": pick(("default", "default", "kube-system")),
            "labels": {"app": app},
            "annotations": annotations,
            **self.some(0.85, lambda: {"ownerReferences": [owner]}),
            **self.some(0.1, lambda: {"creationTimestamp": "2026-01-05T12:00:00Z"}),
            **self.some(0.05, lambda: {"deletionTimestamp": "2026-01-05T11:59:50Z"}),
        }
        return {"metadata": meta, "spec": {**self.spec_of_pod(), **({} if node is None else {"nodeName": node})}}

    def spec_of_pod(self) -> Json:
        pick = self.random.choice
        requests = {"cpu": pick(("100m", "1", "3", "9")), "memory": pick(("100Mi", "1Gi", "7Gi"))}
        requests |= self.some(0.1, lambda: {pick(("nvidia.com/gpu", "example.com/dongle")): "1"})
        container = {"resources": {"requests": requests}}
        container |= self.some(0.1, lambda: {"ports": [{"containerPort": 80, "hostPort": 80}]})
        spread = {"maxSkew": 1, "topologyKey": pick(("zone", "rack")), "whenUnsatisfiable": "DoNotSchedule"}
        return {
            "containers": [container],
            **self.some(0.15, lambda: {"nodeSelector": {"disk": pick(("ssd", "tape"))}}),
            **self.some(0.15, lambda: {"affinity": self.affinity()}),
            **self.some(0.1, lambda: {"topologySpreadConstraints": [spread | selecting("web")]}),
            **self.some(0.2, lambda: {"tolerations": [{"key": "gpu", "operator": "Exists"}]}),
            **self.some(0.1, lambda: {"volumes": [self.volume()]}),
            **self.some(0.1, lambda: {"priority": pick((-100, 10))}),
            **self.some(0.05, lambda: {"schedulerName": "mine"}),
            **self.some(0.05, lambda: {"resourceClaims": [{"name": "d", "resourceClaimName": "d"}]}),
        }

    def affinity(self) -> Json:
        term = selecting(self.random.choice(("web", "db"))) | {"topologyKey": self.random.choice(("zone", "disk"))}
        kind = self.random.choice(("podAffinity", "podAntiAffinity"))
        return {kind: {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}

    def volume(self) -> Json:
        pick = self.random.choice
        kinds: tuple[Json, ...] = (
            {"emptyDir": {}},
            {"hostPath": {"path": "/x"}},
            {"persistentVolumeClaim": {"claimName": "no"}},
        )
        return {"name": "v", **pick(kinds)}

    def options(self) -> Json:
        pick = self.random.choice
        return {
            "expander": pick(("least-waste", "most-pods", "least-nodes", "priority", "random")),
            "scale-down-unneeded-time": pick(("0s", "10m")),
            "scale-down-delay-after-add": pick(("0s", "10m")),
            **self.some(0.2, lambda: {"cores-total": pick(("0:8", "30:100"))}),
            **self.some(0.15, lambda: {"max-nodes-total": pick(("2", "5"))}),
            **self.some(0.1, lambda: {"new-pod-scale-up-delay": "15m"}),
            **self.some(0.1, lambda: {"groups-per-pass": "one"}),
            **self.some(0.1, lambda: {"balance-similar-node-groups": "true"}),
            **self.some(0.1, lambda: {"max-node-deletions-per-minute": "1"}),
            **self.some(0.1, lambda: {"scale-down-window": "0 22 * * *;1h"}),
            **self.some(0.1, lambda: {"scale-down-unready-enabled": "false"}),
            **self.some(0.05, lambda: {"scale-down-enabled": "false"}),
            **self.some(0.05, lambda: {"scale-up-from-zero": "false"}),
            **self.some(0.1, lambda: {"compatibility": "1.31"}),
            **self.some(0.1, lambda: {"scale-down-delay-type-local": "true"}),
            **self.some(0.1, lambda: {"allowed-scheduler-names": "default-scheduler"}),
        }

    def scenario(self) -> Json:
        pick = self.random.choice
        nodes = [self.node(f"n{number}") for number in range(self.random.randint(0, 8))]
        groups = [f"g{number}" for number in range(self.random.randint(0, 4))]
        owned = {node["metadata"]["name"]: pick(groups) for node in nodes if groups and self.maybe(0.8)}
        names: list[str | None] = [None, None, *(node["metadata"]["name"] for node in nodes)]
        sizes = Counter(owned.values())
        return {
            "now": "2026-01-05T12:00:00Z",
            "options": self.options(),
            "nodes": nodes,
            "nodeToGroup": owned,
            "nodeGroups": [self.group(name, sizes[name]) for name in groups],
            "pods": [self.pod(f"p{number}", pick(names)) for number in range(self.random.randint(10, 40))],
            "replicaSets": [named("web", replicas=2), named("web", "kube-system", replicas=2)],
            "daemonSets": [named("web")],
            "podDisruptionBudgets": [named("web", selector={"matchLabels": {"app": "web"}})],
            "priorityConfig": "10:\n  - g1\n",
            "runs": pick((1, 1, 2, 3)),
        }


GPU_LABEL = {"cloud.google.com/gke-accelerator": "t4"}


def selecting(app: str) -> Json:
    return {"labelSelector": {"matchLabels": {"app": app}}}


def named(name: str, namespace: str = "default", **spec: Any) -> Json:
    return {"metadata": {"name": name, "namespace": namespace}, "spec": spec}


def explanations(document: Json) -> Iterator[Explained]:
    """Yield the explanation of everything that was there in the first run."""
    pods = (pod["metadata"] for pod in document["pods"])
    targets = [
        *(ExplainTarget(ExplainKind.POD, f"{pod['namespace']}/{pod['name']}") for pod in pods),
        *(ExplainTarget(ExplainKind.NODE, node["metadata"]["name"]) for node in document["nodes"]),
        *(ExplainTarget(ExplainKind.GROUP, group["id"]) for group in document["nodeGroups"]),
    ]
    scenario = decode(json.dumps(document).encode(), "case.json")
    yield from play_and_explain(scenario, targets, run=0).explained
    # What is gone by the last run cannot be asked about: groups are there to the end.
    if document["nodeGroups"] and document["runs"] > 1:
        yield from play_and_explain(
            scenario, [target for target in targets if target.kind is ExplainKind.GROUP]
        ).explained


def is_settled(one: Explained) -> bool:
    """Whether nothing stands in the way."""
    match one:
        case PodExplanation():
            return one.verdict in AS_IT_SHOULD_BE
        case NodeExplanation():
            return one.verdict is NodeVerdict.REMOVED
        case GroupExplanation():
            return one.verdict in NOTHING_TO_DO


@pytest.mark.parametrize("seed", seeds(SEEDS))
def test_no_question_gets_an_unknown_reason(seed: int) -> None:
    dice = Dice(seed)
    asked = 0
    for number in range(CLUSTERS_EACH * 10):
        if asked >= LEAST_EACH:
            break
        for explanation in explanations(dice.scenario()):
            asked += 1
            where = f"seed {seed}, cluster {number}, {explanation.target}: {explanation.verdict}"
            assert explanation.message, where
            if isinstance(explanation, PodExplanation):
                assert explanation.verdict in VERDICTS, where
            if is_settled(explanation):
                continue
            assert explanation.remedy is not None, where
            for remedy in (explanation.remedy, *explanation.alternatives):
                assert remedy.text, where
                assert remedy.culprit.name, where
    assert asked >= LEAST_EACH
