"""What nodes and pods cost by a price list, and lists that cannot be read."""

import json
from pathlib import Path
from typing import Any

import pytest

from cloudprovider.conformance import MemoryNodeApi
from cloudprovider.interface import Misconfigured, NodeTemplate, Pricing, ProviderContext
from cloudprovider.kwok.provider import create as create_kwok
from cloudprovider.prices import Prices, is_spot, read_price_file
from cloudprovider.static.provider import create as create_static

_LIST = {
    "cpuPerHour": 0.04,
    "memoryGiBPerHour": 0.005,
    "instanceTypes": {"m5.large": 0.096, "m5.xlarge": 0.192},
    "spotInstanceTypes": {"m5.large": 0.035},
}


def a_file(tmp_path: Path, document: Any = _LIST) -> str:
    path = tmp_path / "prices.json"
    path.write_text(document if isinstance(document, str) else json.dumps(document))
    return str(path)


def a_node(instance_type: str = "", **labels: str) -> NodeTemplate:
    named = {"node.kubernetes.io/instance-type": instance_type} if instance_type else {}
    return NodeTemplate(labels={**named, **labels}, capacity={"cpu": "2", "memory": "8Gi"})


@pytest.mark.parametrize(
    ("node", "price"),
    [
        pytest.param(a_node("m5.large"), 0.096, id="by instance type"),
        pytest.param(a_node("m5.large", **{"karpenter.sh/capacity-type": "spot"}), 0.035, id="spot"),
        pytest.param(a_node("m5.xlarge", **{"karpenter.sh/capacity-type": "spot"}), 0.192, id="spot without a price"),
        pytest.param(a_node("unheard.of"), 2 * 0.04 + 8 * 0.005, id="unknown type: by what it holds"),
        pytest.param(a_node(), 2 * 0.04 + 8 * 0.005, id="no type: by what it holds"),
    ],
)
def test_price_of_a_node(tmp_path: Path, node: NodeTemplate, price: float) -> None:
    prices = read_price_file(a_file(tmp_path))
    assert prices.of_node(node, 1.0) == pytest.approx(price)
    assert prices.of_node(node, 24.0) == pytest.approx(24 * price)


def test_gpus_have_a_unit_price_of_their_own() -> None:
    assert Prices().of_resources({"nvidia.com/gpu": "2"}, 1.0) == pytest.approx(1.4)
    assert Prices().of_resources({"cpu": "500m", "example.com/fpga": "1"}, 2.0) == pytest.approx(0.033)


@pytest.mark.parametrize(
    ("labels", "spot"),
    [
        ({"eks.amazonaws.com/capacityType": "SPOT"}, True),
        ({"eks.amazonaws.com/capacityType": "ON_DEMAND"}, False),
        ({"cloud.google.com/gke-preemptible": "true"}, True),
        ({"kubernetes.azure.com/scalesetpriority": "spot"}, True),
        ({}, False),
    ],
)
def test_spot_is_known_by_the_labels_of_managed_clusters(labels: dict[str, str], spot: bool) -> None:
    assert is_spot(labels) is spot


@pytest.mark.parametrize(
    ("document", "says"),
    [
        ({"cpuPerHour": "much"}, "cpuPerHour: must be a number, not a string"),
        ({"instanceTypes": {"m5.large": -1}}, r"instanceTypes\[m5.large\]: -1 is below 0"),
        ({"instanceType": {}}, "instanceType: unknown key; did you mean instanceTypes"),
        ("a: 1\n---\nb: 2", "must hold one document, not 2"),
        ("{", "is neither YAML nor JSON"),
    ],
)
def test_a_list_that_cannot_be_used_is_misconfigured(tmp_path: Path, document: Any, says: str) -> None:
    path = a_file(tmp_path, document)
    with pytest.raises(Misconfigured, match=says) as caught:
        read_price_file(path)
    assert str(caught.value).startswith(f"{path}: ")


def test_a_list_that_is_not_there_is_misconfigured(tmp_path: Path) -> None:
    with pytest.raises(Misconfigured, match="cannot be read"):
        read_price_file(str(tmp_path / "nope.yaml"))


def test_the_list_gives_the_static_provider_prices_unless_its_file_has_them(tmp_path: Path) -> None:
    group = {"id": "web", "minSize": 0, "maxSize": 3, "template": {"capacity": {"cpu": "2", "memory": "8Gi"}}}
    groups = tmp_path / "groups.json"
    groups.write_text(json.dumps({"groups": [group]}))
    context = ProviderContext(config_file=str(groups), price_file=a_file(tmp_path))
    provider = create_static(context)
    assert isinstance(provider, Pricing)
    assert provider.node_price(a_node("m5.large"), 2.0) == pytest.approx(0.192)
    groups.write_text(json.dumps({"groups": [group], "prices": {}}))
    with pytest.raises(Misconfigured, match="price-file: the groups file has prices of its own"):
        create_static(context)


@pytest.mark.parametrize("gpus", [{}, {"gpuConfig": {"gpuLabelKey": "accelerator", "availableGPUTypes": {}}}])
def test_the_list_gives_the_kwok_provider_prices(tmp_path: Path, gpus: dict[str, Any]) -> None:
    api = MemoryNodeApi()
    config = {
        "readNodesFrom": "configmap",
        "configmap": {"name": "t"},
        "nodegroups": {"fromNodeLabelKey": "pool"},
        "nodes": gpus,
    }
    node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "web", "labels": {"pool": "web"}}}
    api.put_config_map("kube-system", "kwok-provider-config", {"config": json.dumps(config)})
    api.put_config_map("kube-system", "t", {"templates": json.dumps(node)})
    provider = create_kwok(ProviderContext(node_api=api, price_file=a_file(tmp_path)))
    assert isinstance(provider, Pricing)
    assert provider.node_price(a_node("m5.large"), 1.0) == pytest.approx(0.096)
    assert provider.pod_price({"cpu": "1"}, 1.0) == pytest.approx(0.04)
    assert not isinstance(create_kwok(ProviderContext(node_api=api)), Pricing)
