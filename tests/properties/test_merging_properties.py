"""Merged classes of pods against each pod as a class of its own, over the plain definition of the filters."""

from collections.abc import Sequence

import msgspec
import pytest

from autoscaler.config.rules import Rules
from autoscaler.config.scaleup import Pods
from autoscaler.objects.node import HOSTNAME
from autoscaler.objects.pod import Pod, PodClass
from autoscaler.objects.pod_interner import PodInterner
from autoscaler.objects.storage import SELECTED_NODE, PersistentVolumeClaim
from autoscaler.objects.workload import plain_decoder
from autoscaler.scaleup.estimator import PodGroup, estimate, pod_groups
from autoscaler.scaleup.pending import filter_schedulable
from autoscaler.scheduling.placement import Placer
from autoscaler.snapshot.cluster import ClusterView
from autoscaler.snapshot.hints import Hints
from autoscaler.snapshot.merging import merged
from autoscaler.snapshot.overlay import Trial
from autoscaler.snapshot.template import Template
from tests.builders import Json, a_pod, expression, over, term
from tests.properties.random_clusters import Dice, random_case, slow_twin
from tests.properties.slow_estimator import slow_estimate
from tests.seeds import seeds

NAME = "statefulset.kubernetes.io/pod-name"


class Named:
    """Pods of random workloads, each with claims and a label of its own, and their claims."""

    def __init__(self, dice: Dice) -> None:
        self.claims: list[PersistentVolumeClaim] = []
        self.pods: list[Pod] = []
        for app in range(dice.random.randint(1, 3)):
            self._add(dice, f"db{app}", dice.random.randint(2, 7))

    def _add(self, dice: Dice, app: str, count: int) -> None:
        kinds = [self._kind(dice) for _ in range(dice.random.choice((0, 1, 1, 1, 2)))]
        cpu = dice.random.choice(("100m", "500m", "1500m"))
        away = [term(labels={"app": app})] if dice.maybe(0.15) else []
        if dice.maybe(0.1):
            away = [term(labelSelector={"matchExpressions": [expression(NAME, "In", f"{app}-0", f"{app}-1")]})]
        spread = [over(HOSTNAME, labels={"app": app}, max_skew=2)] if dice.maybe(0.15) else []
        for number in range(count):
            name = f"{app}-{number}"
            self.pods.append(
                a_pod(
                    name,
                    namespace="red",
                    cpu=cpu,
                    owner=f"StatefulSet/{app}",
                    labels={"app": app, **({NAME: name} if kinds or dice.maybe(0.9) else {})},
                    volumes=[
                        {"name": f"v{at}", "persistentVolumeClaim": {"claimName": self._claim(dice, name, at, kind)}}
                        for at, kind in enumerate(kinds)
                    ],
                    away=away,
                    spread=spread,
                    unschedulable=True,
                )
            )

    def _kind(self, dice: Dice) -> Json:
        return {
            "storageClassName": dice.random.choice(("local", "made", "made", "made", "zonal", "immediate")),
            "accessModes": [dice.random.choice(("ReadWriteOnce", "ReadWriteOncePod"))],
            "resources": {"requests": {"storage": dice.random.choice(("1Gi", "2Gi"))}},
        }

    def _claim(self, dice: Dice, pod: str, at: int, kind: Json) -> str:
        """Make a pod's claim, now and then an odd one, or return one that others use too."""
        if self.claims and dice.maybe(0.06):
            return dice.random.choice(self.claims).name
        name, spec, annotations = f"data{at}-{pod}", kind, {}
        if dice.maybe(0.06):
            spec = {**kind, "volumeName": dice.random.choice(("v1", "v2", "v3"))}
        if dice.maybe(0.06):
            annotations = {SELECTED_NODE: "n1"}
        meta = {"name": name, "namespace": "red", "annotations": annotations}
        phase = "Bound" if "volumeName" in spec else "Pending"
        if not dice.maybe(0.03):
            form = {"metadata": meta, "spec": spec, "status": {"phase": phase}}
            self.claims.append(plain_decoder(PersistentVolumeClaim).one(form))
        return name


def a_case(seed: int) -> tuple[Dice, ClusterView, Sequence[Template]]:
    dice, case = Dice(seed), random_case(seed, nodes=4, pods=6)
    named = Named(dice)
    related = case.view.related
    claims = {**related.claims, **{one.key: one for one in named.claims}}
    related = msgspec.structs.replace(related, claims=claims)
    return dice, msgspec.structs.replace(case.view, pending=tuple(named.pods), related=related), case.templates


def split(view: ClusterView) -> list[Pod]:
    """Return the pods as they were, in the order in which the merged ones are tried."""
    pods = [pod for group in pod_groups(view.pending) for pod in group.pods]
    return [msgspec.structs.replace(pod, cls=pod.own_class, unmerged=None) for pod in pods]


def others(templates: Sequence[Template]) -> list[PodClass]:
    return [pod.cls for template in templates for pod in template.pods]


@pytest.mark.parametrize("seed", seeds(250))
def test_an_estimate_of_merged_classes_is_that_of_each_pod_by_itself(seed: int) -> None:
    dice, view, templates = a_case(seed)
    common = merged(view, others(templates), PodInterner())
    template, limit = dice.random.choice(templates), dice.random.choice((None, None, 1, 2, 5))
    groups = [PodGroup(pod.cls, (pod,)) for pod in split(common)]
    twin = slow_estimate(slow_twin(view), template, groups, limit, topology_fallback=True)
    found = estimate(Placer(Trial(common)), template, pod_groups(common.pending), limit)
    assert (found.nodes, [pod.name for pod in found.pods]) == twin


@pytest.mark.parametrize("seed", seeds(250))
def test_merged_classes_find_room_where_each_pod_by_itself_does(seed: int) -> None:
    _, view, templates = a_case(seed)
    common = merged(view, others(templates), PodInterner())
    apart = msgspec.structs.replace(view, pending=tuple(split(common)))
    ordered = [pod for group in pod_groups(common.pending) for pod in group.pods]
    found, twin = (
        filter_schedulable(Placer(Trial(one)), pods, Pods(), Hints(), Rules())
        for one, pods in ((common, ordered), (apart, apart.pending))
    )
    assert found.waiting == twin.waiting
    assert found.hints == twin.hints


def test_the_random_worlds_merge_and_leave_apart() -> None:
    merges = apart = 0
    for seed in range(60):
        _, view, templates = a_case(seed)
        common = merged(view, others(templates), PodInterner())
        merges += any(pod.cls.own_claims for pod in common.pending)
        apart += any(pod.cls.alike and pod.unmerged is None for pod in common.pending)
    assert merges > 20
    assert apart > 20
