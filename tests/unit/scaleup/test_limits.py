import pytest

from autoscaler.config.rules import Rules
from autoscaler.config.scaleup import ResourceLimits
from autoscaler.config.syntax import GpuRange, Range
from autoscaler.objects.node import Node
from autoscaler.scaleup.limits import Allowance, Exceeded, Uncountable, allowance, need_of, nodes_left
from autoscaler.snapshot.contribution import (
    CORES,
    MEMORY,
    Contribution,
    Limit,
    contribution,
    gpu_resources,
    gpus_missing,
    has_gpu,
)
from autoscaler.snapshot.groups import Group, Groups
from autoscaler.snapshot.template import Template
from cloudprovider.interface import NodeTemplate
from tests.builders import a_group, a_node

GIB = 1 << 30
LABEL = "gpu-type"
T4 = Limit("t4")
TARGETS = Rules(limits_count_group_targets=True)
VENDORS = gpu_resources(Rules())
T4S = ResourceLimits(gpu_total=(GpuRange("t4", 0, 8),))


@pytest.mark.parametrize(
    ("node", "group", "expected"),
    [
        pytest.param(a_node(), None, Contribution(4, 16 * GIB), id="cores and bytes of the capacity"),
        pytest.param(a_node(cpu="3001m"), None, Contribution(4, 16 * GIB), id="cores are rounded up"),
        pytest.param(
            a_node(labels={LABEL: "t4"}, allocatable={"nvidia.com/gpu": "2"}),
            None,
            Contribution(4, 16 * GIB, "t4", 2),
            id="GPUs that pods can get",
        ),
        pytest.param(
            a_node(labels={LABEL: "mi"}, allocatable={"nvidia.com/gpu": "0", "amd.com/gpu": "8"}),
            None,
            Contribution(4, 16 * GIB, "mi", 8),
            id="the first vendor that has any",
        ),
        pytest.param(
            a_node(allocatable={"nvidia.com/gpu": "2"}), None, Contribution(4, 16 * GIB), id="not without the label"
        ),
        pytest.param(
            a_node(labels={LABEL: "t4"}),
            a_group(template=NodeTemplate(capacity={"nvidia.com/gpu": "4"})),
            Contribution(4, 16 * GIB, "t4", 4),
            id="what the cloud promises while drivers are missing",
        ),
        pytest.param(
            a_node(labels={LABEL: "t4"}),
            a_group(template=NodeTemplate(capacity={"cpu": "4"})),
            Contribution(4, 16 * GIB, "t4", 0),
            id="a cloud that promises none has none",
        ),
        pytest.param(
            a_node(labels={LABEL: "t4"}), None, Contribution(4, 16 * GIB, "t4", None), id="nobody tells without a group"
        ),
        pytest.param(
            a_node(labels={LABEL: "t4"}),
            a_group(),
            Contribution(4, 16 * GIB, "t4", None),
            id="nor where the cloud cannot",
        ),
        pytest.param(
            a_node(labels={LABEL: "t4"}),
            a_group(template=NodeTemplate(capacity={"nvidia.com/gpu": "many"})),
            Contribution(4, 16 * GIB, "t4", None),
            id="nor where its answer makes no sense",
        ),
    ],
)
def test_what_a_node_adds(node: Node, group: Group | None, expected: Contribution) -> None:
    assert contribution(node, group, LABEL, VENDORS) == expected


def test_vendors_depend_on_the_rules() -> None:
    node = a_node(labels={LABEL: "mi"}, allocatable={"amd.com/gpu": "8"})
    old = gpu_resources(Rules(all_gpu_vendors=False))
    assert old == ("nvidia.com/gpu", "microsoft.com/directx")
    assert contribution(node, a_group(template=NodeTemplate(capacity={})), LABEL, old).gpus == 0


@pytest.mark.parametrize(
    ("node", "label", "is_one", "missing"),
    [
        pytest.param(a_node(), LABEL, False, False, id="an ordinary node"),
        pytest.param(a_node(labels={LABEL: "t4"}), LABEL, True, True, id="promised only"),
        pytest.param(
            a_node(labels={LABEL: "t4"}, allocatable={"amd.com/gpu": "1"}), LABEL, True, False, id="delivered"
        ),
        pytest.param(a_node(allocatable={"nvidia.com/gpu": "1"}), "", True, False, id="delivered without a label"),
        pytest.param(a_node(labels={"": "x"}), "", False, False, id="a provider that names no label"),
    ],
)
def test_gpu_nodes(node: Node, label: str, is_one: bool, missing: bool) -> None:
    assert has_gpu(node, label, VENDORS) is is_one
    assert gpus_missing(node, label, VENDORS) is missing


NEED = Contribution(cores=4, memory_bytes=16 * GIB, gpu_type="t4", gpus=2)


@pytest.mark.parametrize(
    ("left", "nodes", "exceeded", "capped"),
    [
        pytest.param({}, 100, None, 100, id="no limits"),
        pytest.param({CORES: 12}, 3, None, 3, id="exactly enough"),
        pytest.param({CORES: 11}, 3, (CORES,), 2, id="one core short"),
        pytest.param({CORES: 3}, 1, (CORES,), 0, id="not even one"),
        pytest.param({CORES: 8, MEMORY: 17 * GIB}, 3, (CORES, MEMORY), 1, id="the tightest counts"),
        pytest.param({T4: 3}, 2, (T4,), 1, id="GPUs"),
        pytest.param({Limit("a100"): 0}, 2, None, 2, id="GPUs of another type do not matter"),
        pytest.param({T4: None}, 1, (T4,), 0, id="GPUs in use are not known"),
        pytest.param({CORES: 0, MEMORY: 0, T4: 0}, 1, (CORES, MEMORY, T4), 0, id="everything is spent"),
    ],
)
def test_allowance(left: dict[Limit, int | None], nodes: int, exceeded: tuple[Limit, ...] | None, capped: int) -> None:
    given = Allowance(left)
    assert given.exceeded_by(NEED, nodes) == (None if exceeded is None else Exceeded(exceeded))
    assert given.cap(NEED, nodes) == capped


def test_a_resource_that_a_node_lacks_never_limits_it() -> None:
    need = Contribution(cores=4, memory_bytes=0, gpu_type="t4", gpus=0)
    spent = Allowance({MEMORY: 0, T4: None})
    assert spent.exceeded_by(need) is None
    assert spent.cap(need, 5) == 5


def test_a_need_that_is_not_known_is_refused_where_it_is_limited() -> None:
    need = Contribution(cores=1, memory_bytes=1, gpu_type="t4", gpus=None)
    assert Allowance({T4: 100}).exceeded_by(need) == Exceeded((T4,))
    assert Allowance({T4: 100}).cap(need, 1) == 0
    assert Allowance({CORES: 100}).exceeded_by(need) is None


def test_taking_leaves_the_rest() -> None:
    before = Allowance({CORES: 10, MEMORY: 100 * GIB, T4: None})
    after = before.after(NEED, 2)
    assert after == Allowance({CORES: 2, MEMORY: 68 * GIB, T4: None})
    assert before.left[CORES] == 10
    assert after.after(NEED, 2).left[CORES] == 0


def test_messages_are_those_of_cluster_autoscaler() -> None:
    exceeded = Exceeded((CORES, MEMORY))
    assert exceeded.message(names_quota=False) == "max cluster cpu, memory limit reached"
    assert exceeded.message(names_quota=True) == 'exceeded quota: "cluster-wide", resources: cpu, memory'


OPTIONS = ResourceLimits(cores_total=Range(0, 100), memory_total=Range(0, 1000))
WEB = Template(a_node("t", cpu="8", memory="32Gi"))
GROUPS = Groups((a_group("web", max_size=100, target=5),), {"n1": "web"}, gpu_label=LABEL)
NODES = (a_node("n1"), a_node("n2", cpu="1500m"), a_node("vk", labels={"type": "virtual-kubelet"}))


def test_in_use_are_nodes_and_upcoming_nodes() -> None:
    # Nodes 4 + 2 cores and 32 GiB; two upcoming ones of 8 cores and 32 GiB each.
    found = allowance(OPTIONS, Rules(), GROUPS, {"web": WEB}, NODES, {"web": 2})
    assert found == Allowance({CORES: 100 - 6 - 16, MEMORY: (1000 - 32 - 64) * GIB})


def test_in_use_are_targets_and_nodes_of_no_group_where_rules_say_so() -> None:
    # Five times 8 cores and 32 GiB, and n2 with 2 cores and 16 GiB.
    found = allowance(OPTIONS, TARGETS, GROUPS, {"web": WEB}, NODES, {"web": 2})
    assert found == Allowance({CORES: 100 - 40 - 2, MEMORY: (1000 - 160 - 16) * GIB})


def test_nothing_is_left_where_more_is_in_use_than_allowed() -> None:
    found = allowance(ResourceLimits(cores_total=Range(0, 3)), Rules(), GROUPS, {}, NODES)
    assert isinstance(found, Allowance)
    assert found.left[CORES] == 0


def test_a_maximum_of_zero_is_no_limit() -> None:
    found = allowance(ResourceLimits(cores_total=Range(0, 0), memory_total=Range(0, 0)), Rules(), GROUPS, {}, NODES)
    assert found == Allowance({})


@pytest.mark.parametrize("target", [0, 5], ids=["an empty group too", "a group with nodes"])
def test_a_group_without_template_stops_everything_where_targets_count(target: int) -> None:
    groups = Groups((a_group("web", max_size=100, target=target),))
    assert allowance(OPTIONS, TARGETS, groups, {}, ()) == Uncountable("web")


def test_a_group_without_template_stops_nothing_where_nodes_count() -> None:
    assert isinstance(allowance(OPTIONS, Rules(), GROUPS, {}, NODES, {"web": 2}), Allowance)


def test_gpus_are_counted_by_type() -> None:
    nodes = [
        a_node("n1", labels={LABEL: "t4"}, allocatable={"nvidia.com/gpu": "2"}),
        a_node("n2", labels={LABEL: "a100"}, allocatable={"nvidia.com/gpu": "4"}),
    ]
    found = allowance(T4S, Rules(), GROUPS, {}, nodes)
    assert isinstance(found, Allowance)
    assert found.left[T4] == 6
    assert Limit("a100") not in found.left


@pytest.mark.parametrize("rules", [Rules(), TARGETS], ids=["nodes count", "targets count"])
def test_gpus_nobody_can_count_hold_back_their_type_only(rules: Rules) -> None:
    found = allowance(T4S, rules, GROUPS, {"web": WEB}, [a_node("alien", labels={LABEL: "t4"})])
    assert isinstance(found, Allowance)
    assert found.exceeded_by(NEED) == Exceeded((T4,))
    assert found.exceeded_by(Contribution(4, GIB)) is None


def test_the_need_of_a_group_is_that_of_its_template() -> None:
    assert need_of(GROUPS.all[0], WEB, GROUPS, Rules()) == Contribution(8, 32 * GIB)


@pytest.mark.parametrize(
    ("limit", "present", "left"),
    [
        pytest.param(0, 50, None, id="no limit"),
        pytest.param(10, 7, 3, id="some left"),
        pytest.param(10, 10, 0, id="none left"),
        pytest.param(10, 12, 0, id="more than allowed"),
    ],
)
def test_max_nodes_total(limit: int, present: int, left: int | None) -> None:
    assert nodes_left(limit, present) == left
