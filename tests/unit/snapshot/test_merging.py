"""Which pending pods become one class although claims and labels name them."""

from collections.abc import Sequence
from typing import Any

import msgspec
import pytest

from autoscaler.objects.capacity import StoredTemplate
from autoscaler.objects.class_form import ClassForm
from autoscaler.objects.encode import PodForms
from autoscaler.objects.pod import Pod
from autoscaler.objects.pod_interner import PodInterner
from autoscaler.objects.storage import SELECTED_NODE, PersistentVolumeClaim
from autoscaler.objects.workload import DisruptionBudget, plain_decoder
from autoscaler.snapshot.cluster import ClusterView, Related, view_of
from autoscaler.snapshot.merging import merged
from tests.builders import Json, a_node, a_pod, over, term
from tests.unit.scheduling.storage import DRIVER, LOCAL, claim, storage, using, volume

INDEX = "apps.kubernetes.io/pod-index"


def member(number: int, *claims: str, **more: Any) -> Pod:
    labels = {"app": "db", INDEX: str(number)}
    return a_pod(f"db-{number}", owner="StatefulSet/db", labels=labels, volumes=volumes(*claims), **more)


def volumes(*claims: str) -> list[Json]:
    return [{**one, "name": f"v{number}"} for number, one in enumerate(using(*claims))]


def together(pods: Sequence[Pod], related: Related | None = None, others: Sequence[Pod] = ()) -> ClusterView:
    view = view_of([a_node("n")], pods, related=related)
    return merged(view, [pod.cls for pod in others], PodInterner())


def classes(view: ClusterView) -> int:
    return len({pod.cls for pod in view.pending})


def two_with(**different: Any) -> Related:
    return storage(claim("c0"), claim("c1", **different))


def test_pods_whose_claims_are_alike_are_one_class() -> None:
    view = together([member(0, "c0"), member(1, "c1")], two_with())
    (cls,) = {pod.cls for pod in view.pending}
    assert cls.own_claims == {"c0"}
    assert cls.labels == {"app": "db"}


def test_a_merged_pod_is_written_as_it_was() -> None:
    pods = [member(0, "c0"), member(1, "c1")]
    view = together(pods, two_with())
    assert [PodForms().form(pod) for pod in view.pending] == [PodForms().form(pod) for pod in pods]


def test_a_merged_class_comes_back_from_its_key() -> None:
    view, interner = together([member(0, "c0"), member(1, "c1")], two_with()), PodInterner()
    cls = view.pending[0].cls
    again = interner.class_from(msgspec.msgpack.decode(cls.key, type=ClassForm))
    assert (again.key, again.own_claims, again.labels) == (cls.key, cls.own_claims, cls.labels)


@pytest.mark.parametrize(
    "related",
    [
        pytest.param(two_with(storage_class=LOCAL), id="storage class"),
        pytest.param(two_with(size="2Gi"), id="size"),
        pytest.param(two_with(modes=["ReadWriteMany"]), id="access modes"),
        pytest.param(two_with(volumeMode="Block"), id="volume mode"),
        pytest.param(two_with(selector={"matchLabels": {"disk": "fast"}}), id="selector of volumes"),
        pytest.param(two_with(volumeName="v"), id="a volume it names"),
        pytest.param(two_with(annotations={SELECTED_NODE: "n"}), id="the node selected for it"),
        pytest.param(two_with(phase="Lost"), id="its volume being lost"),
        pytest.param(storage(claim("c0"), claim("c1", volume="v"), volume("v")), id="being bound"),
        pytest.param(storage(claim("c0")), id="not being there"),
        pytest.param(
            storage(claim("c0"), claim("c1"), volume("v", claimRef={"namespace": "default", "name": "c1"})),
            id="a volume reserved for it",
        ),
    ],
)
def test_claims_that_differ_tell_pods_apart_by(related: Related) -> None:
    assert classes(together([member(0, "c0"), member(1, "c1")], related)) == 2


def test_a_claim_that_is_shared_keeps_its_name() -> None:
    related = storage(*(claim(name) for name in ("c0", "c1", "c2", "shared", "rest")))
    pods = [member(0, "c0", "shared"), member(1, "c1", "shared"), member(2, "c2", "rest")]
    view = together(pods, related)
    one, two, three = (pod.cls for pod in view.pending)
    assert one is two is not three
    assert one.own_claims == {"c0"}


@pytest.mark.parametrize("other", ["placed", "to come", "template"])
def test_a_claim_that_another_pod_uses_tells_its_pod_apart(other: str) -> None:
    related, user = two_with(), a_pod("other", volumes=using("c1"), node="n" if other == "placed" else None)
    if other == "template":
        spec = {"containers": [], "volumes": using("c1")}
        form = {"metadata": {"name": "t", "namespace": "default"}, "template": {"spec": spec}}
        stored = plain_decoder(StoredTemplate).one(form)
        related = msgspec.structs.replace(related, pod_templates={stored.key: stored})
    pods = [member(0, "c0"), member(1, "c1"), *([user] if other == "placed" else [])]
    assert classes(together(pods, related, [user] if other == "to come" else ())) == 2


def test_a_pod_that_uses_one_claim_twice_is_by_itself() -> None:
    pods = [member(0, "c0", "c0"), member(1, "c1", "c1"), member(2, "c2", "c3")]
    assert classes(together(pods, storage(*(claim(f"c{number}") for number in range(4))))) == 3


@pytest.mark.parametrize(
    "reader",
    [
        a_pod("x", away=[term(labels={INDEX: "0"})], node="n"),
        a_pod("x", near=[term(labels={"app": "db"}, matchLabelKeys=[INDEX])]),
        a_pod("x", near=[term(labels={"app": "db"}, mismatchLabelKeys=[INDEX])]),
        a_pod("x", spread=[over(labelSelector={"matchExpressions": [{"key": INDEX, "operator": "Exists"}]})]),
        a_pod("x", spread=[over(labels={"app": "db"}, matchLabelKeys=[INDEX])], node="n"),
        a_pod("x", spread=[{**over(matchLabelKeys=[INDEX]), "whenUnsatisfiable": "ScheduleAnyway"}]),
    ],
)
def test_a_naming_label_that_a_pod_asks_for_tells_pods_apart(reader: Pod) -> None:
    assert classes(together([member(0), member(1), reader])) == 2 + (reader.node is None)


def test_a_naming_label_that_a_budget_reads_tells_pods_apart() -> None:
    form = {"metadata": {"name": "b"}, "spec": {"selector": {"matchLabels": {INDEX: "0"}}}}
    budget = plain_decoder(DisruptionBudget).one(form)
    assert classes(together([member(0), member(1)], Related(budgets={budget.key: budget}))) == 2


def test_labels_that_say_more_than_a_name_tell_pods_apart() -> None:
    assert classes(together([member(0), member(1, namespace="other")])) == 2
    assert classes(together([a_pod("a", labels={"role": "a"}), a_pod("b", labels={"role": "b"})])) == 2


def test_without_equals_nothing_changes() -> None:
    view = view_of([a_node("n")], [member(0, "c0"), a_pod("web")], related=two_with())
    assert merged(view, (), PodInterner()) is view


def test_ephemeral_volumes_wait_for_claims_of_their_own() -> None:
    scratch = [{"name": "scratch", "ephemeral": {"volumeClaimTemplate": {}}}]
    pods = [a_pod(name, volumes=scratch) for name in ("a", "b", "c")]
    view = together(pods, storage(claim("a-scratch"), claim("b-scratch")))
    one, two, unmade = (pod.cls for pod in view.pending)
    assert one is two is not unmade


def test_claims_that_cannot_be_decoded_tell_pods_apart() -> None:
    odd = plain_decoder(PersistentVolumeClaim).one(
        {"metadata": {"name": "c1", "namespace": "default", "annotations": {"x": DRIVER}}}
    )
    assert classes(together([member(0, "c0"), member(1, "c1")], storage(claim("c0"), odd))) == 2
