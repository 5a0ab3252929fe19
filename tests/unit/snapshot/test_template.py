import pytest

from autoscaler.config.rules import Rules
from autoscaler.config.scaleup import TemplateOptions
from autoscaler.objects.node import HOSTNAME, Node, NodeCondition, Taint, readiness
from autoscaler.snapshot.template import (
    IMPAIRED_VOLUMES,
    TEMPLATE_NODE,
    PassingTaints,
    fresh_node,
    passing_taints,
    suffix_of,
    template_name,
)

EXAMPLE = Node(
    name="ip-10-0-0-7",
    uid="8d1",
    provider_id="cloud:///i-7",
    labels={HOSTNAME: "ip-10-0-0-7", "pool": "web"},
    annotations={"note": "kept"},
    unschedulable=True,
    capacity={"cpu": 4000},
    allocatable={"cpu": 3800},
    conditions=(NodeCondition(type="Ready", status="False"),),
    created=12.0,
    deleted=13.0,
)


def fresh(example: Node = EXAMPLE, *, marked: bool = False, uncordoned: bool = False) -> Node:
    return fresh_node(example, "fresh", PassingTaints(), marked=marked, uncordoned=uncordoned)


def test_a_fresh_node_keeps_what_the_group_shares_and_nothing_of_the_machine() -> None:
    node = fresh()
    assert node == Node(
        name="fresh",
        uid="fresh",
        labels={HOSTNAME: "fresh", "pool": "web"},
        annotations={"note": "kept"},
        unschedulable=True,
        capacity={"cpu": 4000},
        allocatable={"cpu": 3800},
        conditions=(NodeCondition(type="Ready", status="True"),),
    )
    assert readiness(node).ready
    assert EXAMPLE.labels[HOSTNAME] == "ip-10-0-0-7"


def test_the_mark_and_the_uncordoning_are_options() -> None:
    assert fresh(marked=True).labels[TEMPLATE_NODE] == "true"
    assert TEMPLATE_NODE not in fresh().labels
    assert not fresh(uncordoned=True).unschedulable


OPTIONS = TemplateOptions(
    startup_taint=("boot.example.com/agent",),
    ignore_taint=("old.example.com/agent",),
    startup_taint_prefix=("wait.example.com/",),
    status_taint=("state.example.com/x",),
)


@pytest.mark.parametrize(
    ("key", "passes"),
    [
        pytest.param("ToBeDeletedByClusterAutoscaler", True, id="our mark of a node to delete goes"),
        pytest.param("DeletionCandidateOfClusterAutoscaler", True, id="our soft mark goes"),
        pytest.param("node.kubernetes.io/memory-pressure", True, id="a condition goes"),
        pytest.param("node.cloudprovider.kubernetes.io/uninitialized", True, id="the cloud's own start goes"),
        pytest.param(IMPAIRED_VOLUMES, True, id="impaired volumes go"),
        pytest.param("boot.example.com/agent", True, id="a startup taint by flag goes"),
        pytest.param("old.example.com/agent", True, id="an ignore taint by flag goes"),
        pytest.param("wait.example.com/network", True, id="a startup prefix by flag goes"),
        pytest.param("startup-taint.cluster-autoscaler.kubernetes.io/a", True, id="the built-in startup prefix goes"),
        pytest.param("ignore-taint.cluster-autoscaler.kubernetes.io/a", True, id="the built-in ignore prefix goes"),
        pytest.param("state.example.com/x", True, id="a status taint by flag goes"),
        pytest.param("status-taint.cluster-autoscaler.kubernetes.io/a", True, id="the built-in status prefix goes"),
        pytest.param("dedicated", False, id="a taint of the group stays"),
        pytest.param("boot.example.com/agent2", False, id="a flag names the whole key"),
        pytest.param("node.kubernetes.io/out-of-service", False, id="other taints of Kubernetes stay"),
    ],
)
def test_taints_that_a_new_node_would_not_have(key: str, passes: bool) -> None:
    taints = passing_taints(OPTIONS, Rules())
    node = Node(name="n", taints=(Taint(key=key, effect="NoSchedule"),))
    kept = fresh_node(node, "fresh", taints, marked=False, uncordoned=False).taints
    assert (kept == ()) is passes


def test_impaired_volumes_stay_where_rules_say_so() -> None:
    assert not passing_taints(OPTIONS, Rules(impaired_volumes_taint_ignored=False)).passes(IMPAIRED_VOLUMES)


@pytest.mark.parametrize("ignored", [True, False])
def test_the_end_of_one_machine_is_announced_for_no_new_one_where_rules_say_so(ignored: bool) -> None:
    taints = passing_taints(OPTIONS, Rules(notice_taints_ignored=ignored))
    assert taints.passes("aws-node-termination-handler/spot-itn") is ignored
    assert taints.passes("cloud.google.com/impending-node-termination")


@pytest.mark.parametrize(
    ("key", "starting"),
    [
        pytest.param("boot.example.com/agent", True, id="startup taint"),
        pytest.param("wait.example.com/x", True, id="startup prefix"),
        pytest.param("state.example.com/x", False, id="a status taint does not make a node unready"),
    ],
)
def test_a_node_with_a_startup_taint_has_not_started(key: str, starting: bool) -> None:
    node = Node(name="n", taints=(Taint(key=key, effect="NoSchedule"),))
    assert passing_taints(OPTIONS, Rules()).starting(node) is starting


def test_names_depend_on_the_group_alone() -> None:
    assert template_name("web") == f"template-node-for-web-{suffix_of('web')}"
    assert suffix_of("web") == suffix_of("web") != suffix_of("db")
    assert suffix_of("web").isdigit()
