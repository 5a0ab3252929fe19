"""Every event of Cluster Autoscaler, one row each: the situation, exactly what is told, and silence without its cause.

A situation runs whole passes in virtual time, with its cause or without.
"""

from collections.abc import Callable
from typing import Any

import pytest
from msgspec.structs import replace

from autoscaler.actuation.status_map import ClusterStatusMap
from autoscaler.config.load import from_options
from autoscaler.config.tree import Config
from autoscaler.errors import Blocked, RetryLater
from autoscaler.kube.writes import EventRecord
from autoscaler.objects.capacity import CONSUMES
from autoscaler.objects.meta import ObjectMeta
from autoscaler.objects.node import DELETION_CANDIDATE, TO_BE_DELETED
from autoscaler.objects.workload import ConfigMap
from autoscaler.observe.correlator import Correlator
from autoscaler.observe.events import EventRecorder
from autoscaler.observe.metrics.metrics import Metrics
from autoscaler.observe.report import PassEnd
from autoscaler.ports import EventType, Subject
from autoscaler.sandbox.capacity_objects import put_objects
from cloudprovider.interface import ErrorClass, InstanceError, OutOfCapacity, ProviderError
from cloudprovider.static.spec import Call
from tests.builders import a_node, a_pod, replicas
from tests.unit.capacity import a_buffer, a_request, a_template
from tests.unit.loop.loop_world import NOW, LoopWorld, Told, a_spec, waiting

NORMAL, WARNING = EventType.NORMAL, EventType.WARNING
STATUS = Subject("ConfigMap", "cluster-autoscaler-status", "kube-system")
PRIORITIES = Subject("ConfigMap", "cluster-autoscaler-priority-expander", "kube-system", "uid-p")
NODE = Subject("Node", "n1", uid="uid-n1")
BUFFER = Subject("CapacityBuffer", "spare", "default", "b/spare", "autoscaling.x-k8s.io/v1beta1")
STOCK_OUT = InstanceError(ErrorClass.OUT_OF_RESOURCES, "STOCKOUT", "no more")
QUICK: dict[str, Any] = {"scale-down-unneeded-time": "1m", "scale-down-delay-after-add": "0s"}

Situation = Callable[[bool], LoopWorld]


def pod(name: str) -> Subject:
    return Subject("Pod", name, "default", f"default/{name}")


def a_world(*specs: Any, nodes: Any = (), **options: Any) -> LoopWorld:
    config = from_options(options) if options else Config()
    return LoopWorld(*(specs or (a_spec(max_size=5),)), nodes=nodes, config=config)


def grows(caused: bool) -> LoopWorld:
    world = a_world()
    world.submit(*replicas(waiting("p"), 2 if caused else 0))
    world.run()
    return world


def is_refused(caused: bool) -> LoopWorld:
    world = a_world()
    if caused:
        world.static.fail_next("web", OutOfCapacity("no m5 left"))
    world.submit(waiting("p1"))
    world.run()
    return world


def times_out(caused: bool) -> LoopWorld:
    world = a_world(a_spec(boot_s=None if caused else 60))
    world.submit(waiting("p1"))
    world.run()
    world.clock.advance(890)
    world.boot()
    world.run(after_s=20.5)
    return world


def cannot_be_reverted(caused: bool) -> LoopWorld:
    world = a_world()
    world.submit(waiting("p1"))
    world.run()
    if caused:
        world.static.fail_next("web", ProviderError("not now"), Call.DECREASE_TARGET)
    world.run(after_s=901)
    return world


def is_not_created(caused: bool) -> LoopWorld:
    world = a_world(a_spec(boot_s=60))
    for text in ("no more", "none in zone b") if caused else ():
        world.static.fail_next("web", replace(STOCK_OUT, message=text))
    world.submit(*replicas(waiting("p"), 3))
    world.run()
    world.run(after_s=15)
    return world


def is_full(caused: bool) -> LoopWorld:
    world = a_world(nodes=[(a_node("n1"), "web")], **({"max-nodes-total": 1} if caused else {}))
    world.submit(waiting("p1", "4"))
    world.submit(a_pod("runs", cpu="3", node="n1"))
    world.run()
    return world


def is_unhealthy(caused: bool) -> LoopWorld:
    world = a_world(nodes=[(a_node(f"n{number}", ready=not caused), "web") for number in range(5)])
    world.run()
    return world


def has_no_nodes(caused: bool) -> LoopWorld:
    world = a_world(**{"scale-up-from-zero": not caused})
    world.run()
    return world


def has_no_ready_nodes(caused: bool) -> LoopWorld:
    world = a_world(nodes=[(a_node("n1", ready=False), "web")], **{"scale-up-from-zero": False})
    world.run()
    world.run(after_s=601 if caused else 600)
    return world


def never_registers(caused: bool) -> LoopWorld:
    world = a_world(a_spec(boot_s=0))
    world.static.group("web").increase(2)
    world.run()
    if not caused:
        world.boot()
    world.run(after_s=901)
    return world


def stays_in_the_cloud(caused: bool) -> LoopWorld:
    world = a_world(a_spec(boot_s=0))
    world.static.group("web").increase(2)
    world.run()
    if caused:
        world.static.fail_next("web", ProviderError("not now"), Call.DELETE)
    world.run(after_s=901)
    return world


def empty_node_goes(caused: bool) -> LoopWorld:
    world = a_world(nodes=[(a_node("n1"), "web")], **QUICK)
    if not caused:
        world.submit(a_pod("busy", cpu="3", node="n1"))
    world.run()
    world.run(after_s=61)
    world.drive(60)
    return world


def leaving(caused: bool = True, **options: Any) -> LoopWorld:
    """Return a world with two nodes, one of which is to be drained of two pods: they fit on the other one."""
    nodes = [(a_node(name), "web") for name in ("n1", "n2")]
    world = a_world(nodes=nodes, **{**QUICK, "skip-nodes-with-custom-controller-pods": False, **options})
    world.submit(a_pod("stays", cpu="2500m", node="n2"))
    for name in ("a", "b"):
        world.submit(a_pod(name, cpu="500m" if caused else "1500m", node="n1"))
    return world


def node_is_drained(caused: bool) -> LoopWorld:
    world = leaving(caused)
    world.run()
    world.run(after_s=61)
    world.drive(120)
    return world


def pod_cannot_be_evicted(caused: bool) -> LoopWorld:
    world = leaving()
    if caused:
        world.writes.refused["a"] = Blocked("the budget allows no disruption", 429)
    world.run()
    world.run(after_s=61)
    world.drive(300)
    return world


def empty_node_gets_a_pod(caused: bool) -> LoopWorld:
    world = a_world(nodes=[(a_node("n1"), "web")], **QUICK, **{"skip-nodes-with-custom-controller-pods": False})
    world.run()
    world.run(after_s=61)
    if caused:
        world.submit(a_pod("late", cpu="1", node="n1"))
    world.drive(60)
    return world


def cannot_be_tainted(caused: bool) -> LoopWorld:
    world = a_world(nodes=[(a_node("n1"), "web")], **QUICK, **{"max-bulk-soft-taint-count": 0})
    if caused:
        world.writes.refused["n1"] = RetryLater("500")
    world.run()
    world.run(after_s=61)
    return world


def has_taints_left(caused: bool) -> LoopWorld:
    taints = [f"{TO_BE_DELETED}=1:NoSchedule"] if caused else []
    world = a_world(nodes=[(a_node("n1", taints=taints), "web")])
    world.run()
    return world


def has_soft_taints_left(caused: bool) -> LoopWorld:
    taints = [f"{DELETION_CANDIDATE}=1:PreferNoSchedule"]
    options = {"max-bulk-soft-taint-count": 0 if caused else 10}
    world = a_world(nodes=[(a_node("n1", taints=taints), "web")], **options)
    world.run()
    return world


def keeps_taints(caused: bool) -> LoopWorld:
    world = a_world(nodes=[(a_node("n1", taints=[f"{TO_BE_DELETED}=1:NoSchedule"]), "web")])
    if caused:
        world.writes.refused["n1"] = RetryLater("500")
    world.run()
    return world


def cannot_be_helped(caused: bool) -> LoopWorld:
    specs = [a_spec("a"), a_spec("b"), a_spec("full", max_size=0)]
    world = a_world(*specs)
    world.submit(waiting("p1", "64" if caused else "1"))
    world.run()
    return world


def uses_a_request(caused: bool) -> LoopWorld:
    world = a_world(**{"enable-provisioning-requests": True})
    put_objects(world.writes, a_template(), a_request("job", 1, created=NOW - 60))
    annotations = {CONSUMES: "job"} if caused else {}
    world.submit(a_pod("p1", cpu="3", created=NOW - 600, unschedulable=True, annotations=annotations))
    world.run()
    return world


def buffer(replicas: int, cpu: str = "3") -> LoopWorld:
    options = {"capacity-buffer-controller-enabled": True, "capacity-buffer-pod-injection-enabled": True}
    world = a_world(a_spec("web", max_size=9), **options)
    put_objects(world.writes, a_template(cpu=cpu), a_buffer(replicas=replicas))
    world.run()
    world.run(after_s=15)
    return world


def priorities(text: str) -> Situation:
    def rank(caused: bool) -> LoopWorld:
        world = a_world(a_spec("a"), a_spec("b"), expander="priority")
        held = ConfigMap(
            metadata=ObjectMeta(name=PRIORITIES.name, namespace=PRIORITIES.namespace, uid=PRIORITIES.uid),
            data={"priorities": text if caused else "10: [a, b]"},
        )
        put_objects(world.writes, held)
        world.submit(waiting("p1"))
        world.run()
        return world

    return rank


def row(situation: Situation, about: Subject, kind: EventType, reason: str, *messages: str, name: str = "") -> Any:
    return pytest.param(situation, about, kind, reason, messages, id=name or f"{reason} {situation.__name__}")


ROWS = [
    row(
        grows,
        STATUS,
        NORMAL,
        "ScaledUpGroup",
        "Scale-up: setting group web size to 2 instead of 0 (max: 5)",
        "Scale-up: group web size set to 2 instead of 0 (max: 5)",
    ),
    row(is_refused, STATUS, WARNING, "FailedToScaleUpGroup", "Scale-up failed for group web: no m5 left"),
    row(times_out, STATUS, WARNING, "ScaleUpTimedOut", "Nodes added to group web failed to register within 15m10.5s"),
    row(
        cannot_be_reverted,
        STATUS,
        WARNING,
        "FailedToRevertScaleUp",
        "Failed to decrease target size for group web after scale-up timeout: not now",
    ),
    row(
        is_not_created,
        STATUS,
        WARNING,
        "ScaleUpFailed",
        "Failed adding 2 nodes to group web due to OutOfResource.STOCKOUT; source errors: no more, none in zone b",
    ),
    row(is_full, STATUS, WARNING, "MaxNodesTotalReached", "Max total nodes in cluster reached: 1"),
    row(is_unhealthy, STATUS, WARNING, "ClusterUnhealthy", "Cluster is unhealthy"),
    row(has_no_nodes, STATUS, WARNING, "ClusterUnhealthy", "Cluster has no nodes."),
    row(has_no_ready_nodes, STATUS, WARNING, "ClusterUnhealthy", "Cluster has no ready nodes."),
    row(
        never_registers,
        STATUS,
        NORMAL,
        "DeleteUnregistered",
        "Removed unregistered node static://web-1",
        "Removed unregistered node static://web-2",
    ),
    row(
        stays_in_the_cloud,
        STATUS,
        WARNING,
        "DeleteUnregisteredFailed",
        "Failed to remove node static://web-1: not now",
        "Failed to remove node static://web-2: not now",
    ),
    row(
        empty_node_goes,
        STATUS,
        NORMAL,
        "ScaleDownEmpty",
        'Scale-down: removing empty node "n1"',
        "Scale-down: empty node n1 removed",
    ),
    row(
        node_is_drained,
        STATUS,
        NORMAL,
        "ScaleDown",
        "Scale-down: removing node n1, utilization: 0.25, pods to reschedule: a,b",
        "Scale-down: node n1 removed with drain",
    ),
    row(
        empty_node_goes,
        NODE,
        NORMAL,
        "ScaleDown",
        "marked the node as toBeDeleted/unschedulable",
        "nodes removed by cluster autoscaler",
        name="ScaleDown of an empty node",
    ),
    row(
        node_is_drained,
        NODE,
        NORMAL,
        "ScaleDown",
        "marked the node as toBeDeleted/unschedulable",
        "nodes removed by cluster autoscaler",
        name="ScaleDown of a drained node",
    ),
    row(
        cannot_be_tainted,
        NODE,
        WARNING,
        "ScaleDownFailed",
        "failed to mark the node as toBeDeleted/unschedulable: 500",
    ),
    row(
        empty_node_gets_a_pod,
        NODE,
        WARNING,
        "ScaleDownFailed",
        "failed to delete empty node: new pods scheduled: default/late",
    ),
    row(
        pod_cannot_be_evicted,
        NODE,
        WARNING,
        "ScaleDownFailed",
        "failed to drain and delete node: failed to evict 1 pods: default/a: the budget allows no disruption",
        name="ScaleDownFailed of a node that is drained",
    ),
    row(
        has_taints_left,
        NODE,
        NORMAL,
        "ClusterAutoscalerCleanup",
        "removed ToBeDeletedByClusterAutoscaler taint from node n1",
    ),
    row(
        has_soft_taints_left,
        NODE,
        NORMAL,
        "ClusterAutoscalerCleanup",
        "removed DeletionCandidateOfClusterAutoscaler taint from node n1",
    ),
    row(
        keeps_taints,
        NODE,
        WARNING,
        "ClusterAutoscalerCleanup",
        "failed to clean ToBeDeletedByClusterAutoscaler on node n1: 500",
    ),
    row(node_is_drained, pod("a"), NORMAL, "ScaleDown", "deleting pod for node scale down", name="ScaleDown of a pod"),
    row(
        pod_cannot_be_evicted,
        pod("a"),
        WARNING,
        "ScaleDownFailed",
        "failed to delete pod for ScaleDown: the budget allows no disruption",
        name="ScaleDownFailed of a pod",
    ),
    row(grows, pod("p-0"), NORMAL, "TriggeredScaleUp", "pod triggered scale-up: [{web 0->2 (max: 5)}]"),
    row(
        cannot_be_helped,
        pod("p1"),
        NORMAL,
        "NotTriggerScaleUp",
        "pod didn't trigger scale-up: 2 Insufficient cpu, 1 max node group size reached",
    ),
    row(
        is_full,
        pod("p1"),
        NORMAL,
        "NotTriggerScaleUp",
        "pod didn't trigger scale-up: max total nodes in cluster reached",
    ),
    row(
        uses_a_request,
        pod("p1"),
        NORMAL,
        "",
        "Unschedulable pod didn't trigger scale-up, because it's consuming ProvisioningRequest default/job",
        name="no reason, for a pod that uses a ProvisioningRequest",
    ),
    row(
        lambda caused: buffer(3 if caused else 0),
        BUFFER,
        NORMAL,
        "TriggeredScaleUp",
        "capacity buffer 3 fake pods triggered scale-up: [{web 0->3 (max: 9)}]",
        name="TriggeredScaleUp of a buffer",
    ),
    row(
        lambda caused: buffer(3, cpu="64" if caused else "3"),
        BUFFER,
        NORMAL,
        "NotTriggerScaleUp",
        "capacity buffer 3 fake pods didn't trigger scale-up: 1 Insufficient cpu",
        name="NotTriggerScaleUp of a buffer",
    ),
    row(
        priorities("- 10"),
        PRIORITIES,
        WARNING,
        "PriorityConfigMapInvalid",
        "Wrong configuration for priority expander: priorities is not a map of priorities to lists of regular "
        "expressions. No options filtered.",
        name="PriorityConfigMapInvalid",
    ),
    row(
        priorities("10: [b]"),
        PRIORITIES,
        WARNING,
        "PriorityConfigMapNotMatchedGroup",
        "Priority expander: node group a not found in priority expander configuration. The group won't be used.",
        name="PriorityConfigMapNotMatchedGroup",
    ),
    row(
        priorities("10: [c]"),
        PRIORITIES,
        WARNING,
        "PriorityConfigMapNoGroupMatched",
        "Priority expander: no priorities info found for any of the expansion options. No options filtered.",
        name="PriorityConfigMapNoGroupMatched",
    ),
]


@pytest.mark.parametrize(("situation", "about", "kind", "reason", "messages"), ROWS)
def test_what_is_told(
    situation: Situation, about: Subject, kind: EventType, reason: str, messages: tuple[str, ...]
) -> None:
    told = [event for event in situation(True).events if (event.about.kind, event.reason) == (about.kind, reason)]
    assert [one for one in told if one.about == about] == [Told(about, kind, reason, text) for text in messages]
    others = [one.about.name for one in told if one.about != about]
    assert about.kind != "ConfigMap" or others == [], "nobody else hears it"


@pytest.mark.parametrize(("situation", "about", "kind", "reason", "messages"), ROWS)
def test_nothing_is_told_without_the_cause(
    situation: Situation, about: Subject, kind: EventType, reason: str, messages: tuple[str, ...]
) -> None:
    told = [event.message for event in situation(False).events if (event.about, event.reason) == (about, reason)]
    assert not set(told) & set(messages)


class TestFlags:
    def test_without_a_status_object_nothing_is_said_of_it_and_all_else_is(self) -> None:
        world = leaving(**{"write-status-configmap": False})
        world.run()
        world.run(after_s=61)
        world.drive(120)
        world.static.fail_next("web", OutOfCapacity("no m5 left"))
        world.submit(waiting("p1"))
        for _ in range(2):
            world.run(after_s=301)
        for name in ("n2", "bad1", "bad2", "bad3", "bad4"):
            world.cluster.put_node(a_node(name, ready=False))
        assert world.run(after_s=15).end is PassEnd.UNHEALTHY
        assert world.reasons("ConfigMap") == []
        assert set(world.reasons("Node")) == {"ScaleDown"}
        assert {"ScaleDown", "TriggeredScaleUp"} <= set(world.reasons("Pod"))

    def test_1_31_says_nothing_where_the_limit_of_nodes_is_reached(self) -> None:
        world = a_world(nodes=[(a_node("n1"), "web")], **{"max-nodes-total": 1, "compatibility": "1.31"})
        world.submit(waiting("p1", "4"), a_pod("runs", cpu="3", node="n1"))
        world.run()
        assert world.events == []

    def test_1_31_lowers_no_target_and_so_cannot_fail_to(self) -> None:
        world = a_world(compatibility="1.31")
        world.submit(waiting("p1"))
        world.run()
        world.static.fail_next("web", ProviderError("not now"), Call.DECREASE_TARGET)
        world.run(after_s=901)
        assert "ScaleUpTimedOut" in world.reasons("ConfigMap")
        assert "FailedToRevertScaleUp" not in world.reasons("ConfigMap")


def test_no_more_than_fifty_pods_a_pass_hear_that_they_use_a_request() -> None:
    world = a_world(**{"enable-provisioning-requests": True})
    put_objects(world.writes, a_template(), a_request("job", 1, created=NOW - 60))
    one = a_pod("p", cpu="3", created=NOW - 600, unschedulable=True, annotations={CONSUMES: "job"})
    world.submit(*replicas(one, 60))
    world.run()
    assert world.reasons("Pod") == [""] * 50


class Stored:
    """A world whose events are stored as the daemon stores them."""

    def __init__(self, *, duplicates: bool = False) -> None:
        self.world = a_world(nodes=[(a_node("n1"), "web")])
        self.world.submit(a_pod("runs", cpu="3", node="n1"))
        writes, clock = self.world.writes, self.world.clock
        correlator = Correlator(STATUS, duplicates=duplicates)
        self.recorder = EventRecorder(writes, self.world.executor, clock, correlator, Metrics())

    def told(self, times: int, about: Subject, *messages: str, every_s: float = 15.0) -> list[EventRecord]:
        """Return what is stored after so many events, the messages taking turns."""
        for number in range(times):
            self.recorder.event(about, NORMAL, "ScaleDown", messages[number % len(messages)])
            self.world.drive(every_s)
        return list(self.world.writes.events.values())


class TestCorrelation:
    """One event at once for each source, object and reason, another every five minutes; counts go on meanwhile."""

    def test_an_event_that_comes_again_is_counted_in_the_one_that_is_there(self) -> None:
        (stored,) = Stored().told(21, pod("p1"), "m")
        assert (stored.count, stored.last_wall - stored.first_wall) == (21, 300.0)

    def test_it_is_not_sent_again_within_five_minutes(self) -> None:
        (stored,) = Stored().told(20, pod("p1"), "m")
        assert stored.count == 1

    def test_another_message_of_the_same_reason_is_held_back_too(self) -> None:
        (stored,) = Stored().told(2, pod("p1"), "one", "two")
        assert stored.message == "one"

    def test_on_the_status_object_every_message_is_told(self) -> None:
        assert [one.message for one in Stored().told(4, STATUS, "one", "two")] == ["one", "two"]

    def test_duplicates_are_told_where_that_is_asked_for(self) -> None:
        stored = Stored(duplicates=True).told(20, pod("p1"), "one", "two")
        assert [(one.message, one.count) for one in stored] == [("one", 10), ("two", 10)]

    def test_what_is_stored_says_who_tells_what_of_whom(self) -> None:
        (stored,) = Stored().told(1, NODE, "m")
        assert (stored.about, stored.component, stored.namespace) == (NODE, "cluster-autoscaler", "default")
        (stored,) = Stored().told(1, BUFFER, "m")
        assert (stored.about, stored.namespace) == (BUFFER, "default")

    def test_the_status_object_is_named_by_its_uid_once_that_is_known(self) -> None:
        desk = Stored()
        status_map = ClusterStatusMap(desk.world.writes, STATUS.namespace, STATUS.name, desk.recorder.identified)
        status_map.put("x", "now")
        desk.recorder.identified(replace(STATUS, uid="u7"))
        (stored,) = desk.told(1, STATUS, "m")
        assert stored.about == replace(STATUS, uid="u7")
