import pytest

from autoscaler.observe import event_texts
from autoscaler.reasons import Lack, NoFit, Rejection, ScaleUpResult, Skip, Skipped
from autoscaler.scaleup.plan import Increase, Resized, ScaleUpPlan
from autoscaler.scaleup.shortfall import Lacking, Shortfall
from cloudprovider.interface import ErrorClass, InstanceError
from tests.builders import a_pod

CLS = a_pod().cls
OTHER = a_pod(cpu="1").cls
CPU = Rejection(NoFit.RESOURCES, "Insufficient cpu", "needs 9, 4 free")
MEMORY = Rejection(NoFit.RESOURCES, "Insufficient memory")
SELECTOR = Rejection(NoFit.NODE_AFFINITY, "node(s) didn't match Pod's node affinity/selector")
FULL = Skipped("full", Skip.MAX_SIZE, "max node group size reached", "3 of 3")
PREFIX = "pod didn't trigger scale-up: "


def an_increase(group: str = "web", delta: int = 2, before: int = 1) -> Increase:
    return Increase(group=group, delta=delta, before=before, max_size=5)


def a_plan(
    rejected: dict[str, tuple[Rejection, ...]] | None = None, *skipped: Skipped, capped: bool = False
) -> ScaleUpPlan:
    return ScaleUpPlan(
        result=ScaleUpResult.NO_OPTIONS,
        rejected={CLS: rejected or {}},
        skipped=skipped,
        capped_by_nodes_total=capped,
    )


def test_before_and_after_a_resize() -> None:
    done = Resized(group="web", before=1, wanted=3, after=3)
    assert event_texts.resizing(an_increase()) == "Scale-up: setting group web size to 3 instead of 1 (max: 5)"
    assert event_texts.resized(done, 5) == "Scale-up: group web size set to 3 instead of 1 (max: 5)"


def test_after_a_resize_that_failed() -> None:
    error = InstanceError(ErrorClass.OUT_OF_RESOURCES, "STOCKOUT", "no m5 left")
    failed = Resized(group="web", before=1, wanted=3, after=1, error=error)
    assert event_texts.resize_failed(failed) == "Scale-up failed for group web: no m5 left"


@pytest.mark.parametrize(
    ("errors", "text"),
    [
        pytest.param([], "", id="none"),
        pytest.param([("a", "broken")], "broken", id="one is told as it is"),
        pytest.param([("a", "broken"), ("a", "broken")], "broken", id="the same twice counts once"),
        pytest.param(
            [("a", "two"), ("a", "three"), ("a", "one")],
            'one ...and other concurrent errors: ["three", "two"]',
            id="the first in alphabetical order leads",
        ),
        pytest.param(
            [("b", "broken"), ("a", "lost")],
            'lost ...and other concurrent errors: ["[b] broken"]',
            id="kinds are named where they differ",
        ),
    ],
)
def test_errors_of_one_scale_up_are_told_together(errors: list[tuple[str, str]], text: str) -> None:
    assert (
        event_texts.resize_errors([InstanceError(ErrorClass.OTHER, code, message) for code, message in errors]) == text
    )


def test_nodes_that_offer_less_than_promised() -> None:
    lacking = (
        Lacking(Lack.RESOURCE, "cpu", "4", "3500m"),
        Lacking(Lack.LABEL, "disk", "fast"),
        Lacking(Lack.LABEL, "tier", "a", "b"),
        Lacking(Lack.TAINT, "team=blue:NoSchedule"),
    )
    assert event_texts.short_of_template(Shortfall("web", "n1", lacking)) == (
        "Nodes of group web offer less than its template says (seen on n1): cpu 3500m instead of 4, "
        "label disk is missing, label tier b instead of a, taint team=blue:NoSchedule"
    )


def test_a_pod_hears_of_every_group_that_grows_for_it() -> None:
    text = event_texts.triggered("pod", [an_increase(), an_increase("other", 1, 0)])
    assert text == "pod triggered scale-up: [{web 1->3 (max: 5)} {other 0->1 (max: 5)}]"


@pytest.mark.parametrize(
    ("plan", "text"),
    [
        pytest.param(a_plan({"a": (CPU,), "b": (CPU,)}), "2 Insufficient cpu", id="groups with one reason are counted"),
        pytest.param(
            a_plan({"a": (CPU, MEMORY)}),
            "1 Insufficient cpu, 1 Insufficient memory",
            id="all that the first filter says counts",
        ),
        pytest.param(
            a_plan({"a": (SELECTOR, CPU)}),
            "1 node(s) didn't match Pod's node affinity/selector",
            id="later filters do not",
        ),
        pytest.param(
            a_plan({"a": (CPU,)}, FULL),
            "1 Insufficient cpu, 1 max node group size reached",
            id="skipped groups count too",
        ),
        pytest.param(a_plan({"a": ()}, FULL), "1 max node group size reached", id="a group without reason does not"),
        pytest.param(a_plan(capped=True), "max total nodes in cluster reached", id="no more nodes are allowed"),
        pytest.param(a_plan({"a": (CPU,)}, capped=True), "1 Insufficient cpu", id="a reason goes before the cap"),
    ],
)
def test_a_pod_hears_why_nothing_grows(plan: ScaleUpPlan, text: str) -> None:
    assert event_texts.not_triggered("pod", [event_texts.rejections_text(plan, CLS)]) == PREFIX + text


def test_a_class_hears_of_its_own_rejections_only() -> None:
    assert event_texts.rejections_text(a_plan({"a": (CPU,)}, FULL), OTHER) == "1 max node group size reached"
