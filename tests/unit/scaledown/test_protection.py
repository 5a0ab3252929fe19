"""Annotations by which pods and nodes stay: for ever, for a time, by default of a namespace, and up to a limit."""

import random

import msgspec
import pytest

from autoscaler.config.rules import Rules
from autoscaler.config.scaledown import Drain
from autoscaler.objects.meta import ObjectMeta
from autoscaler.objects.pod import Pod
from autoscaler.objects.workload import Namespace
from autoscaler.reasons import BlockingReason
from autoscaler.scaledown.drain import DrainContext, DrainJudge, DrainOutcome, judge
from autoscaler.scaledown.protection import overruled
from autoscaler.snapshot.cluster import Related
from tests.builders import a_node, a_pod

NOW = 1_767_614_400.0
"""2026-01-05T12:00:00Z"""
KARPENTER = "karpenter.sh/do-not-disrupt"
COMMON = "node-autoscaling.kubernetes.io/safe-to-evict"
THEIRS = "cluster-autoscaler.kubernetes.io/safe-to-evict"
AFTER = "cluster-autoscaler.kubernetes.io/safe-to-evict-after"


def started(ago_s: float | None, /, **annotations: str) -> Pod:
    """Return a pod that started so many seconds ago; names of annotations have `_` for what Python forbids."""
    named = {{"karpenter": KARPENTER, "common": COMMON, "theirs": THEIRS, "after": AFTER}[key]: value
             for key, value in annotations.items()}  # fmt: skip
    pod = a_pod("p", node="n", annotations=named)
    return msgspec.structs.replace(pod, started=None if ago_s is None else NOW - ago_s)


def terms(limit_s: float = 0.0, default: str | None = None, **about: bool) -> DrainContext:
    annotations = {} if default is None else {KARPENTER: default}
    namespace = Namespace(metadata=ObjectMeta(name="default", annotations=annotations))
    return DrainContext(
        options=Drain(do_not_disrupt_limit_s=limit_s, skip_nodes_with_custom_controller_pods=False),
        rules=Rules(do_not_disrupt_counts=about.get("counts", True)),
        wall=NOW,
        related=Related(namespaces={"default": namespace}),
        urgent=about.get("urgent", False),
    )


def why(pod: Pod, context: DrainContext | None = None) -> str | None:
    """Return what keeps the pod; None: nothing."""
    verdict = judge(pod, context or terms())
    return verdict.detail if verdict.outcome is DrainOutcome.BLOCK else None


@pytest.mark.parametrize(
    ("pod", "detail"),
    [
        (started(9e9, karpenter="true"), f"annotated {KARPENTER}: true"),
        (started(1799, karpenter="30m"), f"annotated {KARPENTER}: 30m, until 2026-01-05T12:00:01Z"),
        (started(1800, karpenter="30m"), None),
        (started(None, karpenter="30m"), f"annotated {KARPENTER}: 30m"),
        (started(0, karpenter="false"), None),
        (started(0, karpenter=""), None),
        (started(0, karpenter="-5m"), None),
        (
            started(9e9, karpenter="2 hours"),
            f"annotated {KARPENTER}: '2 hours', which is no duration and counts as true",
        ),
        (started(0, common="false"), f"annotated {COMMON}: false"),
        (started(0, common="true"), None),
        (started(9e9, theirs="false"), f"annotated {THEIRS}: false"),
        (
            started(60, theirs="false", after="2m"),
            f"annotated {THEIRS}: false, {AFTER}: '2m', until 2026-01-05T12:01:00Z",
        ),
        (started(120, theirs="false", after="2m"), None),
        (started(120, theirs="false", after="soon"), f"annotated {THEIRS}: false, {AFTER}: 'soon'"),
        (started(9e9, theirs="true", karpenter="true"), f"annotated {KARPENTER}: true"),
        (started(9e9, theirs="false", karpenter="5m"), f"annotated {THEIRS}: false"),
    ],
)
def test_an_annotation_keeps_a_pod_for_as_long_as_it_says(pod: Pod, detail: str | None) -> None:
    assert why(pod) == detail


def test_the_reason_tells_the_annotations_apart() -> None:
    assert judge(started(0, karpenter="true"), terms()).reason is BlockingReason.DO_NOT_DISRUPT
    assert judge(started(0, theirs="false"), terms()).reason is BlockingReason.NOT_SAFE_TO_EVICT


def test_a_namespace_protects_pods_that_say_nothing_of_it_themselves() -> None:
    assert why(started(60), terms(default="1h")) == (
        f"namespace default is annotated {KARPENTER}: 1h, until 2026-01-05T12:59:00Z"
    )
    assert why(started(3600), terms(default="1h")) is None
    assert why(started(60, karpenter="false"), terms(default="1h")) is None
    assert why(started(60, karpenter="30s"), terms(default="true")) is None


def test_a_limit_ends_every_protection() -> None:
    limited = terms(600.0)
    for pod in (started(599, karpenter="true"), started(599, theirs="false"), started(599, common="false")):
        assert str(why(pod, limited)).endswith(", until 2026-01-05T12:00:01Z")
    for pod in (started(600, karpenter="true"), started(600, theirs="false"), started(600, karpenter="2h")):
        assert why(pod, limited) is None
        assert overruled(pod, {}, 600.0) is not None
    assert why(started(300, karpenter="5m"), limited) is None
    assert overruled(started(300, karpenter="5m"), {}, 600.0) is None, "it was over anyway"
    assert overruled(started(600, karpenter="true"), {}, 0.0) is None


def test_what_ends_already_is_not_protected() -> None:
    ending = msgspec.structs.replace(started(0, karpenter="true"), deleted=NOW)
    assert why(ending) is None
    assert why(msgspec.structs.replace(ending, deleted=None, phase="Succeeded")) is None


def test_a_failing_machine_is_left_and_cluster_autoscaler_knows_nothing_of_it() -> None:
    pod = started(0, karpenter="true")
    assert why(pod, terms(urgent=True)) is None
    assert why(pod, terms(counts=False)) is None
    assert why(started(0, theirs="false"), terms(urgent=True)) is not None
    assert why(started(9e9, theirs="false", after="2m"), terms(counts=False)) is not None


def test_a_daemonset_pod_is_held_as_well() -> None:
    pod = a_pod("p", node="n", owner="DaemonSet/d", annotations={KARPENTER: "true"})
    assert why(pod) is not None


def test_judging_classes_once_changes_nothing() -> None:
    rng = random.Random(3)
    values = (None, "true", "false", "5m", "1h", "?")
    for _ in range(40):
        context = terms(rng.choice((0.0, 900.0)), rng.choice(values), urgent=rng.random() < 0.2)
        judging = DrainJudge(context)
        kinds = [
            {key: value for key, value in (("karpenter", rng.choice(values)), ("after", rng.choice(values)),
             ("theirs", rng.choice((None, "false", "true"))), ("common", rng.choice((None, "false")))) if value}
            for _ in range(6)
        ]  # fmt: skip
        for _ in range(30):
            pod = started(rng.choice((None, 10, 400, 1000, 4000)), **rng.choice(kinds))
            assert judging.judge(pod) == judge(pod, context)


def test_a_node_is_kept_by_its_own_annotation() -> None:
    from autoscaler.scaledown.protection import protected_node

    assert protected_node(a_node("n", annotations={KARPENTER: "true"})) is not None
    assert protected_node(a_node("n", annotations={KARPENTER: "30m"})) is None, "as Karpenter reads it on nodes"
