import pytest

from autoscaler.config.rules import Rules
from autoscaler.config.scaleup import TemplateOptions
from autoscaler.objects.devices import ResourceSlice
from autoscaler.objects.node import Node
from autoscaler.registry.readiness import (
    NO_DEVICES,
    RESOURCE_NOT_READY,
    STARTUP_TAINT,
    NodeDevices,
    ReadyTerms,
    devices_of,
    read,
    ready_terms,
    usable_readiness,
)
from autoscaler.snapshot.cluster import view_of
from autoscaler.snapshot.groups import Groups
from autoscaler.snapshot.template import PassingTaints
from tests.builders import a_node
from tests.devices import GPUS, NICS, a_slice, with_devices
from tests.unit.registry.pieces import NEW, NOW, OLD

GPU = "cloud.example.com/gpu"
TEMPLATES = TemplateOptions(
    startup_taint=("boot.example.com/agent",),
    ignore_taint=("old.example.com/agent",),
    startup_taint_prefix=("warm.example.com/",),
    status_taint=("state.example.com/x",),
)


KUBELET_NOT_READY = {"type": "Ready", "status": "False", "reason": "KubeletNotReady"}


def reason(node: Node, rules: Rules = NEW) -> str | None:
    found = usable_readiness(node, ready_terms(TEMPLATES, GPU, rules))
    return None if found.ready else found.reason


@pytest.mark.parametrize(
    ("taint", "expected"),
    [
        pytest.param("boot.example.com/agent", STARTUP_TAINT, id="a start-up taint by flag"),
        pytest.param("old.example.com/agent", STARTUP_TAINT, id="one by the flag's older name"),
        pytest.param("warm.example.com/cache", STARTUP_TAINT, id="one by prefix flag"),
        pytest.param("startup-taint.cluster-autoscaler.kubernetes.io/x", STARTUP_TAINT, id="one by its own prefix"),
        pytest.param("ignore-taint.cluster-autoscaler.kubernetes.io/x", STARTUP_TAINT, id="one by the older prefix"),
        pytest.param("boot.example.com/agent2", None, id="a flag names a whole key"),
        pytest.param("state.example.com/x", None, id="a status taint does not matter"),
        pytest.param("status-taint.cluster-autoscaler.kubernetes.io/x", None, id="nor does one by prefix"),
    ],
)
def test_startup_taints_make_a_node_unusable(taint: str, expected: str | None) -> None:
    assert reason(a_node("n", taints=[taint])) == expected


@pytest.mark.parametrize(
    ("resource", "amount", "rules", "expected"),
    [
        pytest.param("nvidia.com/gpu", "1", NEW, None, id="the promised GPU is there"),
        pytest.param("nvidia.com/gpu", "0", NEW, RESOURCE_NOT_READY, id="it is not allocatable yet"),
        pytest.param("cpu", "4", NEW, RESOURCE_NOT_READY, id="it does not show up at all"),
        pytest.param("amd.com/gpu", "1", NEW, None, id="another vendor's counts"),
        pytest.param("amd.com/gpu", "1", OLD, RESOURCE_NOT_READY, id="which version 1.31 did not know"),
        pytest.param("microsoft.com/directx", "1", OLD, None, id="DirectX it did"),
    ],
)
def test_promised_gpus_must_be_there(resource: str, amount: str, rules: Rules, expected: str | None) -> None:
    assert reason(a_node("n", labels={GPU: "a100"}, allocatable={resource: amount}), rules) == expected


def test_without_a_gpu_label_nothing_is_promised() -> None:
    node = a_node("n", labels={GPU: "a100"})
    assert usable_readiness(node, ready_terms(TEMPLATES, "", NEW)).ready


def test_a_node_made_unusable_is_so_since_its_creation() -> None:
    node = a_node("n", taints=["boot.example.com/agent"], created=NOW.wall - 77)
    assert usable_readiness(node, ready_terms(TEMPLATES, GPU, NEW)).since == node.created


@pytest.mark.parametrize(
    ("node", "expected"),
    [
        pytest.param(
            a_node("n", taints=["boot.example.com/agent"], cordoned=True), None, id="a cordoned node stays ready"
        ),
        pytest.param(
            a_node("n", taints=["boot.example.com/agent"], ready=None, conditions=[KUBELET_NOT_READY]),
            "KubeletNotReady",
            id="an unready one keeps its reason",
        ),
        pytest.param(
            a_node("n", taints=["boot.example.com/agent"], labels={GPU: "a100"}),
            RESOURCE_NOT_READY,
            id="a missing GPU is named first",
        ),
    ],
)
def test_only_ready_uncordoned_nodes_are_judged_further(node: Node, expected: str | None) -> None:
    assert reason(node) == expected


def test_readings_are_reused_for_the_same_nodes_only() -> None:
    terms = ReadyTerms()
    same, old = a_node("same"), a_node("changed")
    before = read((same, old), terms)
    after = read((same, a_node("changed", ready=False)), terms, before)
    assert after.items[0] is before.items[0]
    assert [one.readiness.ready for one in after.items] == [True, False]


def test_readings_under_other_terms_are_not_reused() -> None:
    nodes = (a_node("n", taints=["boot"]),)
    before = read(nodes, ReadyTerms())
    assert [one.readiness.ready for one in before.items] == [True]
    after = read(nodes, ReadyTerms(PassingTaints(startup=frozenset({"boot"}))), before)
    assert [one.readiness.ready for one in after.items] == [False]


def test_readings_of_unchanged_nodes_are_the_same() -> None:
    before = read((a_node("n"),), ReadyTerms())
    assert read(before.nodes, ReadyTerms(), before) is before


def test_ready_nodes_are_usable_and_not_cordoned() -> None:
    nodes = (a_node("a"), a_node("b", cordoned=True), a_node("c", ready=False), a_node("d", ready=None))
    assert [node.name for node in read(nodes, ReadyTerms()).ready()] == ["a"]


@pytest.mark.parametrize(
    ("slices", "lacking"),
    [
        pytest.param([a_slice("n"), a_slice("n", pool="second")], False, id="as many pools as expected"),
        pytest.param([a_slice("n"), a_slice("n", pool="b"), a_slice("n", pool="c")], False, id="more pools"),
        pytest.param([a_slice("n", devices=8), a_slice("n", pool="b", devices=1)], False, id="whatever is in them"),
        pytest.param([], True, id="no pool"),
        pytest.param([a_slice("n")], True, id="fewer pools"),
        pytest.param([a_slice("n"), a_slice("n", pool="second", slices=2)], True, id="a pool that is not complete"),
        pytest.param([a_slice("n"), a_slice("n", driver=NICS)], True, id="pools of other drivers"),
        pytest.param([a_slice("n"), a_slice("other", pool="second")], True, id="pools of other nodes"),
    ],
)
def test_a_node_needs_as_many_pools_of_devices_as_its_like(slices: list[ResourceSlice], lacking: bool) -> None:
    nodes = (a_node("n"), a_node("stray"))
    view = view_of(nodes, [], groups=Groups((), {"n": "web"}), related=with_devices(slices))
    devices = devices_of(view, {"web": {GPUS: (1, 1)}, "other": {GPUS: (1,) * 9}})
    assert [one.readiness.ready for one in read(nodes, ReadyTerms(), devices=devices).items] == [not lacking, True]
    assert not lacking or read(nodes, ReadyTerms(), devices=devices).items[0].readiness.reason == RESOURCE_NOT_READY


def test_of_groups_that_nothing_is_known_about_nothing_is_expected() -> None:
    groups = Groups((), {"n": "web"})
    assert devices_of(view_of([a_node("n")], [], groups=groups), {}) is NO_DEVICES
    view = view_of([a_node("n")], [], groups=groups, related=with_devices([a_slice("n", driver=NICS)]))
    assert devices_of(view, {}) == NO_DEVICES


@pytest.mark.parametrize(
    ("driver", "expected"),
    [
        pytest.param(GPUS, True, id="GPUs that are claimed as devices"),
        pytest.param(NICS, False, id="other devices are no GPUs"),
    ],
)
def test_promised_gpus_may_be_devices(driver: str, expected: bool) -> None:
    node = a_node("n", labels={GPU: "a100"})
    devices = devices_of(view_of([node], [], related=with_devices([a_slice("n", driver=driver)])), {})
    assert usable_readiness(node, ready_terms(TEMPLATES, GPU, NEW), devices).ready is expected


def test_readings_are_reused_unless_the_devices_of_a_node_have_changed() -> None:
    nodes = (a_node("a"), a_node("b"))
    before = read(nodes, ReadyTerms(), devices=NodeDevices(lacking=frozenset({"a"})))
    after = read(nodes, ReadyTerms(), before)
    assert [one.readiness.ready for one in before.items] == [False, True]
    assert [one.readiness.ready for one in after.items] == [True, True]
    assert after.items[1] is before.items[1]
