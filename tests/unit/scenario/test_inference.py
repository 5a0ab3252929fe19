"""Node groups told from nodes."""

import pytest

from autoscaler.scenario.inference import GroupSizes, ObservedNode, infer_groups

ZONE, TYPE = "topology.kubernetes.io/zone", "node.kubernetes.io/instance-type"


def a_node(name: str, annotations: dict[str, str] | None = None, **labels: str) -> ObservedNode:
    spelt = {"zone": ZONE, "type": TYPE}
    return ObservedNode(name, {spelt.get(key, key): value for key, value in labels.items()}, annotations or {})


@pytest.mark.parametrize(
    ("label", "platform"),
    [
        ("eks.amazonaws.com/nodegroup", "EKS"),
        ("alpha.eksctl.io/nodegroup-name", "eksctl"),
        ("cloud.google.com/gke-nodepool", "GKE"),
        ("kubernetes.azure.com/agentpool", "AKS"),
        ("agentpool", "AKS"),
        ("kops.k8s.io/instancegroup", "kops"),
        ("karpenter.sh/nodepool", "Karpenter"),
        ("kwok-nodegroup", "kwok"),
    ],
)
def test_the_label_of_a_platform_names_the_group(label: str, platform: str) -> None:
    found = infer_groups([ObservedNode("n1", {label: "web"}, {}), ObservedNode("n2", {label: "web"}, {})], {})
    (group,) = found.groups
    assert (group.id, group.platform, group.label, group.nodes) == ("web", platform, label, 2)
    assert found.of_node == {"n1": "web", "n2": "web"}


def test_cluster_api_tells_by_annotation() -> None:
    found = infer_groups([a_node("n1", {"cluster.x-k8s.io/owner-name": "md-0"})], {})
    assert [(group.id, group.platform) for group in found.groups] == [("md-0", "Cluster API")]


def test_gke_has_a_group_in_each_zone_and_eks_one_for_all() -> None:
    gke = "cloud.google.com/gke-nodepool"
    nodes = [ObservedNode(f"n-{zone}", {gke: "web", ZONE: zone}, {}) for zone in "ab"]
    assert [group.id for group in infer_groups(nodes, {}).groups] == ["web/a", "web/b"]
    nodes = [ObservedNode(f"n-{zone}", {"eks.amazonaws.com/nodegroup": "web", ZONE: zone}, {}) for zone in "ab"]
    assert [group.id for group in infer_groups(nodes, {}).groups] == ["web"]


def test_machines_of_different_types_are_different_groups() -> None:
    nodes = [ObservedNode(f"n-{kind}", {"karpenter.sh/nodepool": "web", TYPE: kind}, {}) for kind in ("m5", "m6")]
    assert infer_groups(nodes, {}).of_node == {"n-m5": "web/m5", "n-m6": "web/m6"}


def test_sizes_are_assumed_and_said_to_be_so_unless_they_are_given() -> None:
    nodes = [a_node(f"n{number}", agentpool="web") for number in range(12)] + [a_node("b", agentpool="batch")]
    found = {group.id: group for group in infer_groups(nodes, {"batch": GroupSizes(1, 3)}).groups}
    assert (found["web"].min_size, found["web"].max_size) == (0, 24)
    assert found["web"].unknown == ("minSize", "maxSize", "pricePerHour")
    assert (found["batch"].min_size, found["batch"].max_size, found["batch"].unknown) == (1, 3, ("pricePerHour",))


def test_control_planes_and_unmarked_nodes_belong_to_no_group() -> None:
    control = ObservedNode("cp", {"node-role.kubernetes.io/control-plane": "", "agentpool": "web"}, {})
    found = infer_groups([control, a_node("bare")], {})
    assert (found.groups, found.control_plane, found.ungrouped) == ((), ("cp",), ("bare",))
