"""CapacityQuotas by themselves: which are valid, what a node takes of them, and what their status says."""

from collections.abc import Mapping
from typing import Any

import pytest

from autoscaler.clock import Instant
from autoscaler.config.rules import Rules
from autoscaler.config.scaleup import ResourceLimits
from autoscaler.config.syntax import Range
from autoscaler.objects.capacity import CapacityQuota
from autoscaler.objects.node import Node
from autoscaler.scaleup.capacity_quotas import RECONCILED, VALID, obeyed, problem, status_change
from autoscaler.scaleup.limits import Allowance, Exceeded, allowance, need_of
from autoscaler.snapshot.contribution import CORES, MEMORY, Limit
from autoscaler.snapshot.groups import Group, Groups
from autoscaler.snapshot.template import Template
from cloudprovider.interface import NodeTemplate
from tests.builders import a_group, a_node
from tests.unit.capacity import a_quota

GIB = 1 << 30
NOW = Instant(wall=1_785_578_400.0, mono=0.0)
ZONE = "topology.kubernetes.io/zone"
GPU = "nvidia.com/gpu"
UNLIMITED = ResourceLimits(cores_total=Range(0, 0), memory_total=Range(0, 0))


def either(*expressions: tuple[str, str, list[str]]) -> Mapping[str, Any]:
    return {"matchExpressions": [{"key": key, "operator": op, "values": values} for key, op, values in expressions]}


@pytest.mark.parametrize(
    ("quota", "wrong"),
    [
        pytest.param(a_quota(nodes=1), "", id="a number"),
        pytest.param(a_quota(cpu="2k", memory="32Gi", nodes="10"), "", id="amounts with units"),
        pytest.param(a_quota(nodes=0), "", id="nothing at all"),
        pytest.param(a_quota(), "", id="no limit"),
        pytest.param(
            a_quota(selector=either((ZONE, "In", ["a"]), ("spot", "DoesNotExist", [])), cpu=1), "", id="terms"
        ),
        pytest.param(a_quota(cpu="500m"), "500m is not a whole number", id="a part of a core"),
        pytest.param(a_quota(cpu="-1"), "-1 is not a whole number", id="less than nothing"),
        pytest.param(a_quota(memory="much"), "is not a quantity", id="no amount"),
        pytest.param(a_quota(most={f"r{number}": 1 for number in range(21)}), "21 resources", id="too many resources"),
        pytest.param(
            a_quota(selector=either((ZONE, "Gt", ["1"])), cpu=1), "is not an operator", id="operator of nodes"
        ),
        pytest.param(a_quota(selector=either((ZONE, "In", [])), cpu=1), "needs values", id="In nothing"),
        pytest.param(
            a_quota(selector=either((ZONE, "Exists", ["a"])), cpu=1), "takes no values", id="Exists with values"
        ),
    ],
)
def test_what_is_no_valid_quota_limits_nothing(quota: CapacityQuota, wrong: str) -> None:
    assert problem(quota).find(wrong) >= 0
    assert bool(problem(quota)) is bool(wrong)
    sound = a_quota("sound", nodes=7)
    assert [one.name for one in obeyed([quota, sound]).all][-1:] == ["CapacityQuota/sound"]
    assert len(obeyed([quota, sound]).all) == (1 if wrong else 2)


def left(
    *quotas: CapacityQuota, nodes: tuple[Node, ...] = (), group: Group | None = None, label: str = ""
) -> Mapping[Limit, int | None]:
    groups = Groups(
        () if group is None else (group,), dict.fromkeys((node.name for node in nodes), "g"), gpu_label=label
    )
    found = allowance(UNLIMITED, Rules(), groups, {}, nodes, {}, obeyed(quotas))
    assert isinstance(found, Allowance)
    return found.left


@pytest.mark.parametrize(
    ("quota", "nodes", "expected"),
    [
        pytest.param(a_quota(nodes=3), (a_node("a"), a_node("b")), {"nodes": 1}, id="number of nodes"),
        pytest.param(a_quota(cpu=9), (a_node("a", cpu="3001m"),), {"cpu": 5}, id="cores are rounded up"),
        pytest.param(a_quota(memory="20Gi"), (a_node("a"),), {"memory": 4 * GIB}, id="memory"),
        pytest.param(a_quota(nodes=1), (a_node("a"), a_node("b")), {"nodes": 0}, id="exceeded already"),
        pytest.param(
            a_quota(selector={ZONE: "a"}, nodes=3),
            (a_node("a", zone="a"), a_node("b", zone="b")),
            {"nodes": 2},
            id="zone",
        ),
        pytest.param(
            a_quota(selector=either((ZONE, "NotIn", ["a"])), nodes=3),
            (a_node("x"), a_node("a", zone="a")),
            {"nodes": 2},
            id="absent labels are not in",
        ),
        pytest.param(a_quota(selector={}, nodes=3), (a_node("a"),), {"nodes": 2}, id="an empty selector selects all"),
        pytest.param(
            a_quota(nodes=3), (a_node("vk", labels={"type": "virtual-kubelet"}),), {"nodes": 3}, id="no machine"
        ),
        pytest.param(
            a_quota(most={GPU: 8}), (a_node("a", extra={GPU: "4"}), a_node("b")), {GPU: 4}, id="an extended resource"
        ),
        pytest.param(a_quota(), (a_node("a"),), {}, id="nothing is limited"),
    ],
)
def test_what_nodes_leave_of_a_quota(quota: CapacityQuota, nodes: tuple[Node, ...], expected: dict[str, int]) -> None:
    assert left(quota, nodes=nodes) == {Limit(name, "CapacityQuota/few"): most for name, most in expected.items()}


def test_gpus_count_under_their_type_and_as_promised_until_they_are_there() -> None:
    group = a_group("g", template=NodeTemplate(capacity={GPU: "4"}))
    booting = (a_node("a", labels={"gpu": "t4"}),)
    quota = a_quota(most={GPU: 10}, t4=10)
    assert set(left(quota, nodes=booting, group=group, label="gpu").values()) == {6}
    assert left(a_quota(t4=10), nodes=booting, label="gpu") == {Limit("t4", "CapacityQuota/few"): None}


def test_every_quota_that_selects_a_node_limits_it_beside_the_flags() -> None:
    template = Template(a_node("t", zone="a"))
    group = a_group("g")
    quotas = obeyed(
        [
            a_quota("all", nodes=5),
            a_quota("a", selector={ZONE: "a"}, cpu=11),
            a_quota("b", selector={ZONE: "b"}, nodes=0),
        ]
    )
    need = need_of(group, template, Groups((group,)), Rules(), quotas)
    limits = ResourceLimits(cores_total=Range(0, 3), memory_total=Range(0, 100))
    found = allowance(limits, Rules(), Groups((group,)), {}, (), {}, quotas)
    assert isinstance(found, Allowance)
    of_zone = Limit("cpu", "CapacityQuota/a")
    assert found.exceeded_by(need) == Exceeded((CORES,))
    assert found.exceeded_by(need, 3) == Exceeded((CORES, of_zone))
    assert Allowance({**found.left, CORES: 100}).cap(need, 9) == 2
    assert found.after(need, 2).left[of_zone] == 3
    assert found.left[MEMORY] == 100 * GIB


def test_messages_name_the_quota() -> None:
    exceeded = Exceeded((CORES, Limit("nodes", "CapacityQuota/a"), Limit("cpu", "CapacityQuota/a")))
    assert exceeded.message(names_quota=True) == (
        'exceeded quota: "cluster-wide", resources: cpu, exceeded quota: "CapacityQuota/a", resources: nodes, cpu'
    )
    assert exceeded.message(names_quota=False).startswith('max cluster cpu limit reached, exceeded quota: "CapacityQ')
    assert exceeded.resources == ("cpu", "nodes")


def test_the_status_says_what_the_nodes_have() -> None:
    quota = a_quota(selector={ZONE: "a"}, cpu=64, memory="256Gi", nodes=3, most={GPU: 8})
    nodes = [a_node("a", zone="a", cpu="3500m", extra={GPU: "2"}), a_node("b", zone="a"), a_node("c", zone="b")]
    change = status_change(quota, nodes, NOW)
    assert change is not None
    assert change.fields == {
        "observedGeneration": 1,
        "used": {"resources": {"cpu": "7500m", "memory": "32Gi", "nodes": "2", GPU: "2"}},
    }
    assert [(one.type, one.status, one.reason) for one in change.conditions] == [
        (VALID, "True", "ValidationSucceeded"),
        (RECONCILED, "True", "ReconciliationSucceeded"),
    ]


def written(quota: CapacityQuota, nodes: list[Node]) -> Mapping[str, Any]:
    change = status_change(quota, nodes, NOW)
    assert change is not None
    conditions = [
        {
            "type": one.type,
            "status": one.status,
            "reason": one.reason,
            "message": one.message,
            "lastTransitionTime": one.last_transition_time,
            "observedGeneration": one.observed_generation,
        }
        for one in change.conditions
    ]
    return {**change.fields, "conditions": conditions}


def test_a_status_that_is_right_is_left_alone() -> None:
    status = written(a_quota(cpu=9, memory="64Gi"), [a_node("a")])
    used = {"resources": {"cpu": "4000m", "memory": "16384Mi"}}
    assert status_change(a_quota(cpu=9, memory="64Gi", status=status), [a_node("a")], NOW) is None
    assert status_change(a_quota(cpu=9, memory="64Gi", status={**status, "used": used}), [a_node("a")], NOW) is None
    later = status_change(a_quota(cpu=9, memory="64Gi", status=status), [a_node("a"), a_node("b")], NOW)
    assert later is not None
    assert (later.conditions, later.fields) == ((), {"used": {"resources": {"cpu": "8", "memory": "32Gi"}}})


def test_an_invalid_quota_says_why_and_keeps_the_time_of_a_lasting_condition() -> None:
    change = status_change(a_quota(cpu="0.5"), [], NOW)
    assert change is not None
    assert [(one.type, one.status, one.reason) for one in change.conditions] == [
        (VALID, "False", "ValidationFailed"),
        (RECONCILED, "False", "ReconciliationFailed"),
    ]
    assert "used" not in change.fields
    assert "0.5 is not a whole number" in change.conditions[0].message
    since = "2020-01-01T00:00:00Z"
    held = {"type": VALID, "status": "False", "reason": "Other", "message": "", "lastTransitionTime": since}
    again = status_change(a_quota(cpu="0.5", status={"conditions": [held]}), [], NOW)
    assert again is not None
    assert again.conditions[0].last_transition_time == since
