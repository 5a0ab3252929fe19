from collections.abc import Sequence

import pytest

from autoscaler.clock import Instant
from autoscaler.config.rules import Rules, rules_at, rules_of_1_31
from autoscaler.config.scaleup import Pods
from autoscaler.objects.node import HOSTNAME, TO_BE_DELETED, Node
from autoscaler.objects.pod import SCALE_UP_DELAY, Pod
from autoscaler.reasons import Waiting
from autoscaler.scaleup.pending import (
    ClassifiedPods,
    UnschedulablePods,
    all_new,
    expendable,
    filter_schedulable,
    sort_pending,
    too_new_until,
    too_young,
)
from autoscaler.scheduling.placement import Placer
from autoscaler.snapshot.cluster import view_of
from autoscaler.snapshot.hints import Hints
from autoscaler.snapshot.overlay import Trial
from tests.builders import Json, a_node, a_pod, a_template, over, replicas, term

NEW = Rules()
OLD = rules_of_1_31()


NODES = (a_node("n"), a_node("leaving", taints=[TO_BE_DELETED]))


def judged(status: str, reason: str = "") -> Json:
    return {"conditions": [{"type": "PodScheduled", "status": status, "reason": reason}]}


@pytest.mark.parametrize(
    ("pod", "verdict"),
    [
        pytest.param(a_pod(unschedulable=True), "unschedulable", id="the scheduler found no node"),
        pytest.param(
            a_pod(unschedulable=True, scheduler="volcano"), "unschedulable", id="whichever scheduler found no node"
        ),
        pytest.param(a_pod(), Waiting.NOT_JUDGED, id="the scheduler has not looked yet"),
        pytest.param(a_pod(status=judged("False", "SchedulingGated")), Waiting.GATED, id="gated"),
        pytest.param(a_pod(status=judged("False", "SchedulerError")), Waiting.NOT_JUDGED, id="the scheduler failed"),
        pytest.param(a_pod(status=judged("True")), Waiting.NOT_JUDGED, id="about to be bound"),
        pytest.param(a_pod(unschedulable=True, deleted=9.0), Waiting.TERMINATING, id="being deleted"),
        pytest.param(a_pod(unschedulable=True, nominated="n"), "nominated", id="waiting for victims to leave"),
        pytest.param(a_pod(nominated="n"), "nominated", id="about to be bound to a node"),
        pytest.param(
            a_pod(unschedulable=True, nominated="gone"), "unschedulable", id="nominated to a node that has gone"
        ),
        pytest.param(a_pod(nominated="gone"), Waiting.NOT_JUDGED, id="nominated to one that has gone, and not judged"),
        pytest.param(a_pod(unschedulable=True, nominated="leaving"), "unschedulable", id="to a node being removed"),
        pytest.param(a_pod(nominated="n", deleted=9.0), Waiting.TERMINATING, id="nominated but being deleted"),
        pytest.param(a_pod(scheduler="bypassed"), "unprocessed", id="of a bypassed scheduler"),
        pytest.param(
            a_pod(scheduler="bypassed", status=judged("False")), "unprocessed", id="of a bypassed scheduler, no reason"
        ),
        pytest.param(
            a_pod(scheduler="bypassed", unschedulable=True), "unschedulable", id="of a bypassed scheduler, but judged"
        ),
        pytest.param(
            a_pod(scheduler="bypassed", status=judged("False", "SchedulingGated")),
            Waiting.GATED,
            id="of a bypassed scheduler, but gated",
        ),
    ],
)
def test_what_becomes_of_a_pod_without_a_node(pod: Pod, verdict: str) -> None:
    found = sort_pending(view_of(NODES, [pod]), Pods(bypassed_scheduler_names=("bypassed",)), NEW)
    assert _verdict(found, pod) == verdict


def _verdict(found: ClassifiedPods, pod: Pod) -> str:
    lists = {"unschedulable": found.unschedulable, "unprocessed": found.unprocessed, "nominated": found.nominated}
    listed = [name for name, pods in lists.items() if pod in pods]
    listed += [found.waiting[pod.key]] if pod.key in found.waiting else []
    assert len(listed) == 1
    return listed[0]


def test_pods_of_schedulers_that_are_not_allowed_are_left_alone() -> None:
    ours, theirs = a_pod("a", unschedulable=True), a_pod("b", unschedulable=True, scheduler="theirs")
    found = sort_pending(view_of(NODES, [ours, theirs]), Pods(allowed_scheduler_names=("default-scheduler",)), NEW)
    assert found == ClassifiedPods((ours,), (), (), {"default/b": Waiting.FOREIGN_SCHEDULER})


def test_nominated_pods_were_no_class_of_their_own() -> None:
    pod = a_pod(unschedulable=True, nominated="n")
    assert sort_pending(view_of(NODES, [pod]), Pods(), OLD).unschedulable == (pod,)


def test_cluster_autoscaler_leaves_a_pod_to_a_node_that_has_gone() -> None:
    pod = a_pod(unschedulable=True, nominated="gone")
    assert sort_pending(view_of(NODES, [pod]), Pods(), rules_at("1.37")).nominated == (pod,)


def test_the_order_of_the_pods_is_kept() -> None:
    pods = replicas(a_pod(unschedulable=True), 5)
    assert sort_pending(view_of(NODES, pods), Pods(), NEW).unschedulable == tuple(pods)


@pytest.mark.parametrize(
    ("priority", "gone"),
    [
        pytest.param(None, False, id="no priority never goes"),
        pytest.param(0, False, id="zero"),
        pytest.param(-10, False, id="at the cut-off"),
        pytest.param(-11, True, id="below the cut-off"),
    ],
)
def test_who_is_expendable(priority: int | None, gone: bool) -> None:
    assert expendable(a_pod(priority=priority), -10) is gone


def filtered(
    pods: Sequence[Pod],
    nodes: Sequence[Node],
    placed: Sequence[Pod] = (),
    hints: Hints | None = None,
    rules: Rules = NEW,
) -> tuple[UnschedulablePods, Placer]:
    placer = Placer(Trial(view_of(nodes, placed)))
    return filter_schedulable(placer, pods, Pods(), hints or Hints(), rules), placer


def names(pods: Sequence[Pod]) -> list[str]:
    return [pod.name for pod in pods]


def test_pods_that_fit_drop_out_and_keep_their_room() -> None:
    needy, placer = filtered(replicas(a_pod(cpu="1"), 3), [a_node(cpu="2")])
    assert names(needy.pods) == ["pod-2"]
    assert needy.waiting == {"default/pod-0": Waiting.FITS, "default/pod-1": Waiting.FITS}
    assert placer.trial.free[0].tolist() == [0]


def test_upcoming_nodes_have_room_too() -> None:
    placer = Placer(Trial(view_of([], [])))
    placer.trial.add(a_template(), 1, "upcoming-")
    needy = filter_schedulable(placer, [a_pod(cpu="4")], Pods(), Hints(), NEW)
    assert needy.pods == ()
    assert needy.hints.newer == {"default/pod": "template-upcoming-0"}


def test_the_important_go_first_and_equals_in_their_order() -> None:
    low, none, high = a_pod("low", cpu="1", priority=-5), a_pod("none", cpu="1"), a_pod("high", cpu="1", priority=7)
    zero = a_pod("zero", cpu="1", priority=0)
    needy, _ = filtered([low, none, zero, high], [a_node(cpu="2")])
    assert names(needy.pods) == ["low", "zero"]


def test_expendable_pods_neither_need_nor_take_room() -> None:
    needy, placer = filtered([a_pod(cpu="1", priority=-11)], [a_node(cpu="2")])
    assert (needy.pods, needy.waiting) == ((), {"default/pod": Waiting.EXPENDABLE})
    assert placer.trial.free[0].tolist() == [2000]


def test_a_daemon_sets_pod_never_asks_for_a_node_but_takes_room_where_it_fits() -> None:
    fits, does_not = a_pod("a", cpu="1", owner="DaemonSet"), a_pod("b", cpu="9", owner="DaemonSet")
    needy, placer = filtered([does_not, fits], [a_node(cpu="2")])
    assert needy.pods == ()
    assert needy.waiting == {"default/a": Waiting.FITS, "default/b": Waiting.DAEMONSET}
    assert placer.trial.free[0].tolist() == [1000]


def test_a_pod_nominated_for_a_node_takes_its_room_whether_it_fits_or_not() -> None:
    needy, placer = filtered([a_pod(cpu="3", nominated="node")], [a_node(cpu="2")], rules=OLD)
    assert (needy.pods, needy.waiting) == ((), {"default/pod": Waiting.NOMINATED})
    assert placer.trial.free[0].tolist() == [-1000]


def test_a_pod_nominated_for_a_node_that_is_gone_is_like_any_other() -> None:
    pod = a_pod(cpu="3", nominated="gone")
    assert filtered([pod], [a_node(cpu="2")], rules=OLD)[0].pods == (pod,)


def test_a_search_goes_on_after_the_last_match() -> None:
    needy, _ = filtered(replicas(a_pod(cpu="1"), 4), [a_node(name) for name in ("n0", "n1", "n2")])
    assert list(needy.hints.newer.values()) == ["n0", "n1", "n2", "n0"]


def test_a_pod_goes_where_it_was_seen_to_fit() -> None:
    needy, _ = filtered([a_pod()], [a_node("n0"), a_node("n1")], hints=Hints({"default/pod": "n1"}))
    assert needy.hints == Hints({"default/pod": "n1"}, {"default/pod": "n1"})


@pytest.mark.parametrize(
    "hints",
    [
        pytest.param(Hints({"default/pod": "full"}), id="is full"),
        pytest.param(Hints({"default/pod": "gone"}), id="is gone"),
        pytest.param(Hints({}, {"default/pod": "full"}), id="is full and was seen two passes ago"),
    ],
)
def test_a_pod_looks_elsewhere_when_the_node_of_its_hint(hints: Hints) -> None:
    needy, _ = filtered([a_pod(cpu="1")], [a_node("full", cpu="0"), a_node("roomy")], hints=hints)
    assert needy.hints.newer == {"default/pod": "roomy"}


def test_hints_last_two_passes() -> None:
    old = Hints({"default/pod": "n1"}, {"default/other": "n1"})
    assert filtered([], [], hints=old)[0].hints == Hints({}, {"default/pod": "n1"})


@pytest.mark.parametrize(
    ("rules", "needy"),
    [
        pytest.param(NEW, ["a"], id="all hints of one priority go before any search"),
        pytest.param(OLD, ["b"], id="each pod in its turn"),
    ],
)
def test_who_gets_the_room_that_another_was_seen_to_have(rules: Rules, needy: list[str]) -> None:
    pods = [a_pod("a", cpu="2"), a_pod("b", cpu="2")]
    found, _ = filtered(pods, [a_node(cpu="2")], hints=Hints({"default/b": "node"}), rules=rules)
    assert names(found.pods) == needy


def test_a_hint_that_fails_does_not_take_the_room_of_one_that_holds() -> None:
    pods = [a_pod("a", cpu="2"), a_pod("b", cpu="2")]
    hints = Hints({"default/a": "full", "default/b": "roomy"})
    found, _ = filtered(pods, [a_node("full", cpu="1"), a_node("roomy", cpu="2")], hints=hints)
    assert names(found.pods) == ["a"]


def test_a_hint_beats_the_priority_of_nobody() -> None:
    pods = [a_pod("hinted", cpu="2"), a_pod("important", cpu="2", priority=1)]
    found, _ = filtered(pods, [a_node(cpu="2")], hints=Hints({"default/hinted": "node"}))
    assert names(found.pods) == ["hinted"]


APART = {"app": "apart"}
NEAR = {"app": "near"}


def a_later_friend() -> list[Pod]:
    """Three pods: the second is the one that the first and the third must be near to."""
    lonely = a_pod("lonely", near=[term(labels=APART)], labels=NEAR)
    return [lonely, a_pod("friend", labels=APART), *replicas(lonely, 1)]


def test_a_controllers_pod_that_fits_nowhere_speaks_for_its_equals() -> None:
    assert names(filtered(a_later_friend(), [a_node()], rules=OLD)[0].pods) == ["lonely", "lonely-0"]


def test_a_hint_is_tried_even_then() -> None:
    hints = Hints({"default/lonely-0": "node"})
    needy, _ = filtered(a_later_friend(), [a_node()], hints=hints, rules=OLD)
    assert names(needy.pods) == ["lonely"]


def a_chain(*names: str) -> list[Pod]:
    """Pods each of which has to be on the node of the next."""
    return [
        a_pod(
            name, labels={"app": name}, near=[term(labels={"app": after})] if after else [], owner=f"ReplicaSet/{name}"
        )
        for name, after in zip(names, (*names[1:], ""), strict=True)
    ]


def test_pods_follow_those_that_they_must_be_near_to() -> None:
    needy, placer = filtered([*a_chain("ui", "cache", "web", "db"), a_pod("huge", cpu="99")], [a_node()])
    assert names(needy.pods) == ["huge"]
    assert needy.hints.newer == {f"default/{name}": "node" for name in ("db", "web", "cache", "ui")}
    assert len(placer.trial.classes_on(0)) == 4


def test_nobody_follows_where_there_is_no_room() -> None:
    chain = a_chain("ui", "cache", "web", "db")
    assert names(filtered(chain, [a_node(pods=2)])[0].pods) == ["ui", "cache"]


def test_nobody_follows_who_comes_to_nobody() -> None:
    assert names(filtered(a_chain("ui", "cache", "gone")[:2], [a_node()])[0].pods) == ["ui", "cache"]


@pytest.mark.parametrize("owner", [None, "DaemonSet"])
def test_a_pod_of_no_controller_speaks_for_itself(owner: str | None) -> None:
    lonely = a_pod("lonely", near=[term(labels=APART)], labels=NEAR, owner=owner)
    needy, placer = filtered([lonely, a_pod("friend", labels=APART), *replicas(lonely, 1)], [a_node()], rules=OLD)
    assert needy.waiting["default/lonely-0"] is Waiting.FITS
    assert placer.trial.classes_on(0)[lonely.cls] == 1


def test_pods_on_nodes_count_for_those_that_must_keep_away() -> None:
    apart = a_pod(labels=APART, spread=[over(HOSTNAME, labels=APART)])
    placed = a_pod("placed", labels=APART, node="n0")
    needy, _ = filtered(replicas(apart, 2), [a_node("n0"), a_node("n1")], [placed])
    assert list(needy.hints.newer.values()) == ["n1", "n0"]


AT_100 = Instant(wall=100.0, mono=5.0)


@pytest.mark.parametrize(
    ("age_s", "delay_s", "own", "young"),
    [
        pytest.param(1, 0, None, False, id="no delay"),
        pytest.param(0, 0, None, True, id="created in this very second"),
        pytest.param(10, 10, None, True, id="exactly the delay"),
        pytest.param(11, 10, None, False, id="past the delay"),
        pytest.param(11, 10, "20s", True, id="its own delay is longer"),
        pytest.param(21, 10, "20s", False, id="past its own delay"),
        pytest.param(6, 10, "5s", True, id="its own delay is shorter: passed over"),
        pytest.param(11, 10, "soon", False, id="its own delay is no duration: passed over"),
        pytest.param(11, 10, "9" * 20_000, False, id="its own delay is a number without end: passed over at once"),
    ],
)
def test_who_is_too_young(age_s: float, delay_s: float, own: str | None, young: bool) -> None:
    pod = a_pod(created=100 - age_s, annotations={SCALE_UP_DELAY: own} if own else None)
    assert too_young(pod, Pods(new_pod_scale_up_delay_s=delay_s), AT_100) is young


@pytest.mark.parametrize(
    ("pods", "new"),
    [
        pytest.param([], False, id="none"),
        pytest.param([a_pod(created=99)], True, id="one second old"),
        pytest.param([a_pod(created=98)], False, id="two seconds old"),
        pytest.param([a_pod(created=99), a_pod(created=90)], False, id="one of them is old"),
        pytest.param([a_pod(created=71, requests={"nvidia.com/gpu": "1"})], True, id="with a GPU, 29 seconds old"),
        pytest.param([a_pod(created=70, requests={"nvidia.com/gpu": "1"})], False, id="with a GPU, 30 seconds old"),
        pytest.param(
            [a_pod(created=1), a_pod(created=90, requests={"nvidia.com/gpu": "1"})],
            True,
            id="young GPU pods hold all back",
        ),
        pytest.param([a_pod(created=90, requests={"nvidia.com/gpu": "0"})], False, id="asking for no GPU at all"),
    ],
)
def test_whether_all_are_new(pods: list[Pod], new: bool) -> None:
    assert all_new(pods, AT_100) is new


@pytest.mark.parametrize(
    ("new", "young", "delay_s", "until"),
    [
        pytest.param([], [], 0, None, id="no pods"),
        pytest.param([a_pod(created=100), a_pod(created=99)], [], 0, 101, id="all new: until the oldest is not"),
        pytest.param([a_pod(created=95, requests={"nvidia.com/gpu": "1"})], [], 0, 125, id="with GPUs, longer"),
        pytest.param([], [a_pod(created=100)], 0, 102, id="created this second: neither young nor new"),
        pytest.param([], [a_pod(created=95), a_pod(created=99)], 10, 105, id="young: until the first has waited"),
        pytest.param([a_pod(created=99)], [a_pod(created=100)], 10, 101, id="whichever comes first"),
    ],
)
def test_until_when_pods_are_too_new(new: list[Pod], young: list[Pod], delay_s: float, until: float | None) -> None:
    assert too_new_until(new, young, Pods(new_pod_scale_up_delay_s=delay_s), AT_100) == until
