"""One drifted node first, more after a proof, none after a failure."""

from collections.abc import Sequence
from typing import Any

import msgspec
import pytest

from autoscaler.clock import Instant
from autoscaler.objects.meta import rfc3339
from autoscaler.objects.node import Node
from autoscaler.objects.pod import Pod
from autoscaler.reasons import DriftKind, ReplacementHold, ReplacementStage, ReplacementTrigger
from autoscaler.registry.readiness import ReadyTerms
from autoscaler.scaledown.drift import drifted_nodes, fingerprint
from autoscaler.scaledown.drift_memory import DriftFailure, DriftMemory, DriftTrial
from autoscaler.scaledown.drift_rollout import DriftScene, admitted, followed, remembered
from autoscaler.scaledown.replacement import Purchase, Replacement
from cloudprovider.interface import Instance, MachineVersion
from tests.builders import a_group, a_node, a_pod
from tests.unit.scaledown.pieces import NOW, Cluster

TERMS = ReadyTerms()
SETTLE_S = 300.0
LATER = NOW.later(1000.0)
OLD, NEW = MachineVersion("v1"), MachineVersion("v2")


def group_of(group_id: str, *old: str, new: Sequence[str] = ()) -> Any:
    versions = {**dict.fromkeys(old, OLD), **dict.fromkeys(new, NEW)}
    machines = [Instance(f"test://{name}", version=version) for name, version in versions.items()]
    return msgspec.structs.replace(a_group(group_id, machines=machines), versions=(NEW,))


def proof_of(cluster: Cluster, group_id: str = "g") -> dict[str, str]:
    return {group_id: fingerprint(cluster.groups.by_id[group_id], TERMS.taints)}


def names(
    cluster: Cluster, memory: DriftMemory, in_progress: Sequence[str] = (), resting: Sequence[str] = ()
) -> set[str]:
    drifted = drifted_nodes(cluster.view, tuple(DriftKind), TERMS.taints)
    return set(admitted(drifted, memory, cluster.view, TERMS, in_progress=in_progress, resting=resting))


# Who may begin


def three() -> Cluster:
    """Three drifted nodes: a is the oldest."""
    nodes = [a_node(name, created=100.0 + age) for age, name in enumerate("abc")]
    return Cluster(nodes, groups=[group_of("g", "a", "b", "c")])


def test_the_oldest_of_a_group_goes_alone_first() -> None:
    assert names(three(), DriftMemory()) == {"a"}


def test_one_that_something_keeps_lets_the_next_one_try() -> None:
    assert names(three(), DriftMemory(), resting=["a"]) == {"b"}


def test_nobody_follows_while_the_first_is_in_progress_or_on_trial() -> None:
    assert names(three(), DriftMemory(), in_progress=["b"]) == {"b"}
    assert names(three(), DriftMemory(trials=(DriftTrial(replacement="gone", group="g", made=""),))) == set()


def test_all_may_go_once_new_nodes_have_proved_themselves() -> None:
    cluster = three()
    assert names(cluster, DriftMemory(proven=proof_of(cluster))) == {"a", "b", "c"}
    assert names(cluster, DriftMemory(proven={"g": "what it made before"})) == {"a"}


def test_groups_prove_themselves_apart() -> None:
    nodes = [a_node(name, created=100.0) for name in "abcd"]
    cluster = Cluster(
        nodes,
        groups=[group_of("g", "a", "b"), group_of("h", "c", "d")],
        of_node={"a": "g", "b": "g", "c": "h", "d": "h"},
    )
    assert names(cluster, DriftMemory(proven=proof_of(cluster))) == {"a", "b", "c"}


# Trials


def replacement(**about: Any) -> Replacement:
    given = {"trigger": ReplacementTrigger.DRIFTED, "nodes": ("a",), "began": NOW, "bought": (Purchase("g", 1),)}
    return Replacement(**{**given, **about})


DONE = replacement(stage=ReplacementStage.DONE)


def a_running_pod(name: str, node: str, *, ready_s: float | None = 500.0, there_s: float = 900.0, **about: Any) -> Pod:
    """A pod that came to its node `there_s` before LATER, and has been ready for `ready_s`; None: it is not."""
    conditions = [
        {"type": "PodScheduled", "status": "True", "lastTransitionTime": rfc3339(LATER.wall - there_s)},
        {"type": "Ready", "status": "False" if ready_s is None else "True"},
    ]
    if ready_s is not None:
        conditions[1]["lastTransitionTime"] = rfc3339(LATER.wall - ready_s)
    return a_pod(name, node=node, status={"conditions": conditions}, **about)


def scene(
    nodes: Sequence[Node], pods: Sequence[Pod] = (), now: Instant = LATER, drifted: dict[str, str] | None = None
) -> DriftScene:
    cluster = Cluster(nodes, pods, groups=[group_of("g", "a", new=["new"])])
    return DriftScene(view=cluster.view, drifted=drifted or {}, terms=TERMS, now=now, settle_s=SETTLE_S)


def fresh(**about: Any) -> Node:
    return a_node("new", created=NOW.wall + 60.0, **about)


def old() -> Node:
    return a_node("a", created=100.0)


def trial(**about: Any) -> DriftTrial:
    made = fingerprint(group_of("g"), TERMS.taints)
    given = {"replacement": "a", "group": "g", "made": made, "nodes": ("new",), "until": NOW.later(900.0)}
    return DriftTrial(**{**given, "workloads": frozenset({"uid-ReplicaSet-web"}), **about})


def owner_uid() -> str:
    owner = a_pod("x").cls.owner
    assert owner is not None
    return owner.uid


def on_trial(**about: Any) -> DriftMemory:
    return DriftMemory(trials=(trial(workloads=frozenset({owner_uid()}), **about),))


def test_a_replacement_in_progress_begins_a_trial_that_knows_what_ran_well() -> None:
    pods = [
        a_running_pod("well", "a"),
        a_running_pod("sick", "a", ready_s=None, owner="ReplicaSet/sick"),
        a_running_pod("agent", "a", owner="DaemonSet/agent"),
        a_running_pod("bare", "a", owner=None),
    ]
    (begun,) = followed(DriftMemory(), [replacement()], [], scene([old()], pods)).trials
    assert (begun.replacement, begun.group, begun.until, begun.nodes) == ("a", "g", None, ())
    assert begun.workloads == {owner_uid()}


def test_replacements_of_other_causes_begin_no_trial() -> None:
    other = replacement(trigger=ReplacementTrigger.EXPIRED)
    assert followed(DriftMemory(), [other], [], scene([old()])) == DriftMemory()


def test_the_trial_goes_on_for_a_while_once_the_old_node_is_gone() -> None:
    memory = followed(on_trial(nodes=(), until=None), [], [DONE], scene([fresh()]))
    assert [(one.nodes, one.until) for one in memory.trials] == [(("new",), LATER.later(SETTLE_S))]
    early = scene([fresh(ready=False)], now=LATER.later(SETTLE_S - 1))
    assert followed(memory, [], [], early) == memory


def test_without_a_new_node_there_is_nothing_to_prove() -> None:
    moved = replacement(stage=ReplacementStage.DONE, bought=())
    assert followed(on_trial(until=None), [], [moved], scene([fresh()])) == DriftMemory()
    assert followed(on_trial(), [], [], scene([])) == DriftMemory(), "scale-down removed it"


def test_new_nodes_with_ready_pods_prove_their_group() -> None:
    memory = followed(on_trial(), [], [], scene([fresh()], [a_running_pod("p", "new")]))
    assert memory == DriftMemory(proven={"g": trial().made})


def test_nodes_of_another_group_prove_nothing_for_this_one() -> None:
    memory = DriftMemory(trials=(trial(group="other"),))
    assert followed(memory, [], [], scene([fresh()])) == DriftMemory()


FAILURES = [
    pytest.param([fresh(ready=False)], [], {}, "new node new is not ready", id="not ready"),
    pytest.param(
        [fresh()], [], {"new": "ami=old instead of ami=new"}, "new node new differs too: ami=old", id="drifted"
    ),
    pytest.param(
        [fresh()],
        [a_running_pod("p", "new", ready_s=None)],
        {},
        "pod default/p is not ready on new node new, and its workload was ready on a",
        id="a pod that is not ready",
    ),
    pytest.param(
        [fresh()], [a_running_pod("p", "new", ready_s=59.0)], {}, "pod default/p", id="crashes again and again"
    ),
]


@pytest.mark.parametrize(("nodes", "pods", "drifted", "reason"), FAILURES)
def test_a_trial_fails(nodes: list[Node], pods: list[Pod], drifted: dict[str, str], reason: str) -> None:
    before = msgspec.structs.replace(on_trial(), proven={"g": trial().made, "h": "x"})
    memory = followed(before, [], [], scene(nodes, pods, drifted=drifted))
    assert memory.failure is not None
    assert memory.failure.reason.startswith(f"g: {reason}")
    assert (memory.failure.since, memory.failure.written) == (LATER, None)
    assert (memory.trials, memory.proven) == ((), {"h": "x"})


@pytest.mark.parametrize(
    "pods",
    [
        pytest.param([a_running_pod("p", "new", ready_s=None, there_s=299.0)], id="came just now"),
        pytest.param(
            [a_running_pod("p", "new", ready_s=None, owner="ReplicaSet/other")], id="did not run there before"
        ),
        pytest.param([a_running_pod("p", "new", ready_s=None, phase="Succeeded")], id="has ended"),
        pytest.param([a_running_pod("p", "new", ready_s=None, deleted=LATER.wall)], id="is being deleted"),
        pytest.param(
            [a_running_pod("p", "new", ready_s=None), a_running_pod("q", "a", ready_s=None)],
            id="is unready elsewhere too",
        ),
    ],
)
def test_new_nodes_are_not_blamed_for_a_pod_that(pods: list[Pod]) -> None:
    memory = followed(on_trial(), [], [], scene([old(), fresh()], pods))
    assert memory.failure is None
    assert "g" in memory.proven


@pytest.mark.parametrize("hold", [ReplacementHold.TIMED_OUT, ReplacementHold.NEVER_CAME])
def test_what_never_became_a_ready_node_is_a_failure(hold: ReplacementHold) -> None:
    given_up = replacement(stage=ReplacementStage.ABANDONED, hold=hold)
    for nodes in ([old()], [old(), fresh(ready=False)]):
        memory = followed(on_trial(until=None), [], [given_up], scene(nodes))
        assert memory.failure is not None
        assert memory.failure.reason == "g: no machine bought for a became a ready node"
    assert followed(on_trial(until=None), [], [given_up], scene([old(), fresh()])) == DriftMemory()


def test_a_replacement_that_was_withdrawn_is_no_failure() -> None:
    withdrawn = replacement(stage=ReplacementStage.ABANDONED, hold=ReplacementHold.WITHDRAWN)
    assert followed(on_trial(until=None), [], [withdrawn], scene([old()])) == DriftMemory()


def test_a_failure_is_remembered_until_its_pause_is_read_or_was_lifted() -> None:
    unwritten = DriftFailure(group="g", reason="why", since=NOW)
    assert remembered(unwritten, paused=True, now=LATER) == unwritten
    written = msgspec.structs.replace(unwritten, written=NOW)
    assert remembered(written, paused=False, now=NOW.later(30.0)) == written
    assert remembered(written, paused=True, now=NOW.later(30.0)) is None
    assert remembered(written, paused=False, now=NOW.later(60.0)) is None
    assert remembered(None, paused=True, now=NOW) is None
