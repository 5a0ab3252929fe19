"""Which nodes differ from what their group makes now, and in what."""

import random
from typing import Any

import msgspec
import pytest

from autoscaler.objects.node import Node
from autoscaler.reasons import DriftKind
from autoscaler.scaledown.drift import drifted_nodes, fingerprint
from autoscaler.snapshot.groups import Group
from autoscaler.snapshot.template import PassingTaints
from cloudprovider.interface import Instance, MachineVersion, NodeTemplate, TaintSpec
from tests.builders import a_group, a_node
from tests.unit.scaledown.pieces import Cluster

EVERY = tuple(DriftKind)
PASSING = PassingTaints()
V7 = MachineVersion("launch template lt-1, version 7", "img-7", "m5.large")
V9 = MachineVersion("launch template lt-1, version 9", "img-9", "m6i.large")


def a_making_group(
    *versions: MachineVersion,
    labels: dict[str, str] | None = None,
    taints: tuple[TaintSpec, ...] = (),
    zones: dict[str, dict[str, str]] | None = None,
    of: dict[str, MachineVersion] | None = None,
) -> Group:
    """A group that makes this now, with machines made from what `of` says, by node name."""
    instances = [Instance(f"test://{name}", version=version) for name, version in (of or {}).items()]
    template = NodeTemplate(labels=labels or {}, taints=taints, zones=zones or {})
    return msgspec.structs.replace(a_group("g"), versions=versions, instances=instances, template=template)


def found(group: Group, *nodes: Node, kinds: tuple[DriftKind, ...] = EVERY) -> dict[str, str]:
    """Return the detail by node, in order."""
    view = Cluster(nodes or [a_node("n")], groups=[group]).view
    return {one.node.name: one.detail for one in drifted_nodes(view, kinds, PASSING)}


def test_a_machine_of_an_earlier_template_says_what_it_has_and_what_new_nodes_have() -> None:
    group = a_making_group(V9, of={"n": V7})
    assert found(group, kinds=(DriftKind.TEMPLATE,)) == {
        "n": "launch template lt-1, version 7 instead of launch template lt-1, version 9"
    }


@pytest.mark.parametrize(
    ("kind", "detail"),
    [
        (DriftKind.IMAGE, "img-7 instead of img-9"),
        (DriftKind.INSTANCE_TYPE, "m5.large instead of m6i.large"),
        (DriftKind.LABELS, ""),
        (DriftKind.TAINTS, ""),
    ],
)
def test_only_the_kinds_that_are_asked_for_count(kind: DriftKind, detail: str) -> None:
    assert found(a_making_group(V9, of={"n": V7}), kinds=(kind,)) == ({"n": detail} if detail else {})


def test_nothing_differs_by_default() -> None:
    assert found(a_making_group(V9, of={"n": V7}), kinds=()) == {}


def test_the_oldest_come_first_and_then_the_first_by_name() -> None:
    nodes = [a_node("b", created=50.0), a_node("a", created=50.0), a_node("old", created=10.0)]
    group = a_making_group(V9, of=dict.fromkeys(("a", "b", "old"), V7))
    assert list(found(group, *nodes)) == ["old", "a", "b"]


def test_a_long_list_of_differences_is_cut() -> None:
    labels = {f"l{number}": "x" for number in range(5)}
    assert found(a_making_group(labels=labels))["n"].endswith("l2=(none) instead of l2=x; and 2 more")


@pytest.mark.parametrize(
    ("declared", "node", "detail"),
    [
        pytest.param({"ami": "new"}, a_node("n", labels={"ami": "new"}), None, id="the same"),
        pytest.param(
            {"ami": "new"}, a_node("n", labels={"ami": "old"}), "ami=old instead of ami=new", id="another value"
        ),
        pytest.param({"ami": "new"}, a_node("n"), "ami=(none) instead of ami=new", id="none"),
        pytest.param({}, a_node("n", labels={"added": "by a controller"}), None, id="more than the group declares"),
        pytest.param(
            {
                "kubernetes.io/hostname": "g-template",
                "node.kubernetes.io/instance-type": "m5.large",
                "topology.kubernetes.io/zone": "a",
                "topology.ebs.csi.aws.com/zone": "a",
                "topology.kubernetes.io/region": "eu",
            },
            a_node("n", zone="b"),
            None,
            id="what the kubelet and the cloud set for each machine",
        ),
    ],
)
def test_labels_that_the_group_declares_are_compared(declared: dict[str, str], node: Node, detail: str | None) -> None:
    assert found(a_making_group(labels=declared), node) == ({} if detail is None else {"n": detail})


def test_labels_of_zones_are_not_compared() -> None:
    zones = {"a": {"disk": "a"}, "b": {"disk": "b"}}
    assert found(a_making_group(labels={"disk": "a"}, zones=zones), a_node("n", labels={"disk": "b"})) == {}


@pytest.mark.parametrize(
    ("taints", "detail"),
    [
        pytest.param(["dedicated=web"], None, id="the same"),
        pytest.param(["dedicated=web", "other=x"], None, id="more than the group declares"),
        pytest.param([], "dedicated=(none) instead of dedicated=web:NoSchedule", id="none"),
        pytest.param(["dedicated=old"], "dedicated=old:NoSchedule instead of dedicated=web:NoSchedule", id="value"),
        pytest.param(
            ["dedicated=web:NoExecute"], "dedicated=web:NoExecute instead of dedicated=web:NoSchedule", id="effect"
        ),
    ],
)
def test_taints_that_the_group_declares_are_compared(taints: list[str], detail: str | None) -> None:
    group = a_making_group(taints=(TaintSpec("dedicated", "web"),))
    assert found(group, a_node("n", taints=taints)) == ({} if detail is None else {"n": detail})


def test_startup_taints_that_have_gone_are_no_difference() -> None:
    group = a_making_group(taints=(TaintSpec("startup-taint.cluster-autoscaler.kubernetes.io/x"),))
    assert found(group, a_node("n")) == {}


def test_nodes_of_no_group_and_machines_that_do_not_tell_are_left_alone() -> None:
    group = a_making_group(V9, of={"n": V7})
    nodes = [a_node("n"), a_node("silent")]
    view = Cluster(nodes, groups=[group], of_node={"silent": "g"}).view
    assert drifted_nodes(view, EVERY, PASSING) == ()


def test_the_fingerprint_changes_with_what_is_compared_and_with_nothing_else() -> None:
    group = a_making_group(V9, labels={"ami": "new", "kubernetes.io/hostname": "x"})
    same = msgspec.structs.replace(
        a_making_group(V9, labels={"kubernetes.io/hostname": "y", "ami": "new"}), target_size=7
    )
    assert fingerprint(group, PASSING) == fingerprint(same, PASSING)
    others = [
        a_making_group(V7, labels={"ami": "new"}),
        a_making_group(V9, labels={"ami": "newer"}),
        a_making_group(V9, labels={"ami": "new"}, taints=(TaintSpec("t"),)),
    ]
    assert len({fingerprint(one, PASSING) for one in (group, *others)}) == 4


def slow_drifted(nodes: list[Node], groups: list[Group], owners: dict[str, str]) -> list[tuple[str, set[str]]]:
    """The definition, node by node: kinds in which each node differs; the oldest first."""
    by_id = {group.id: group for group in groups}
    drifted = []
    for node in nodes:
        if node.name not in owners:
            continue
        group = by_id[owners[node.name]]
        kinds: set[str] = set()
        made_from = [one.version for one in group.instances if one.provider_id == node.provider_id and one.version]
        for field, kind in (("template", "template"), ("image", "image"), ("instance_type", "instance-type")):
            allowed = [getattr(version, field) for version in group.versions]
            for version in made_from:
                has = getattr(version, field)
                if has != "" and allowed and "" not in allowed and has not in allowed:
                    kinds.add(kind)
        template = group.template or NodeTemplate()
        kinds |= {"labels" for label, value in template.labels.items() if node.labels.get(label) != value}
        there = {(taint.key, taint.value, taint.effect) for taint in node.taints}
        kinds |= {"taints" for taint in template.taints if (taint.key, taint.value, taint.effect) not in there}
        if kinds:
            drifted.append((node.created, node.name, kinds))
    return [(name, kinds) for _, name, kinds in sorted(drifted, key=lambda one: one[:2])]


@pytest.mark.parametrize("seed", range(30))
def test_random_clusters_agree_with_the_definition(seed: int) -> None:
    rng = random.Random(seed)

    def a_version() -> MachineVersion:
        return MachineVersion(*(rng.choice(("", "1", "2")) for _ in range(3)))

    def labels() -> dict[str, str]:
        return {key: rng.choice("xy") for key in "abc" if rng.random() < 0.5}

    nodes = [
        a_node(f"n{n}", created=float(rng.randint(0, 3)), labels=labels(), taints=[f"t={rng.choice('xy')}"])
        for n in range(8)
    ]
    owners: dict[str, str] = {node.name: rng.choice("gh") for node in nodes if rng.random() < 0.8}
    groups = []
    for group_id in "gh":
        mine = [node for node in nodes if owners.get(node.name) == group_id]
        about: dict[str, Any] = {
            "versions": tuple(a_version() for _ in range(rng.randint(0, 2))),
            "instances": tuple(
                Instance(node.provider_id, version=rng.choice((None, a_version())))
                for node in mine
                if rng.random() < 0.9
            ),
            "template": rng.choice(
                (None, NodeTemplate(labels=labels(), taints=(TaintSpec("t", rng.choice("xy")),)), NodeTemplate())
            ),
        }
        groups.append(msgspec.structs.replace(a_group(group_id), **about))
    view = Cluster(nodes, groups=groups, of_node=owners).view
    every = drifted_nodes(view, EVERY, PASSING)
    assert [(one.node.name, {difference.kind.value for difference in one.differences}) for one in every] == (
        slow_drifted(nodes, groups, owners)
    )
    some = tuple(rng.sample(EVERY, 2))
    assert [one.node.name for one in drifted_nodes(view, some, PASSING)] == [
        name for name, kinds in slow_drifted(nodes, groups, owners) if not kinds.isdisjoint(some)
    ]
