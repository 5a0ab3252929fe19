"""Every provider that ships passes the suite that plug-in authors run."""

import json
import random
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, ExitStack
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from cloudprovider import clusterapi
from cloudprovider.azure.provider import open_provider
from cloudprovider.catalog import create_provider
from cloudprovider.conformance import CHECKS, Check, Harness, MemoryNodeApi, run_check
from cloudprovider.gce.provider import ListPricedGceProvider
from cloudprovider.gce.settings import read_settings
from cloudprovider.interface import (
    Accelerators,
    CloudProvider,
    Instance,
    MachineVersion,
    Misconfigured,
    NodeRef,
    NodeTemplate,
    Pricing,
    ProviderContext,
)
from cloudprovider.kwok.config import read_config, read_groups
from cloudprovider.kwok.provider import KwokGpuProvider, KwokProvider, create
from cloudprovider.static import BootDelay, CloudSpec, GroupSpec, Prices, StaticCloud, open_cloud
from cloudprovider.static.provider import node_ref
from tests.contracts.aws_harness import ENVIRONMENT, AwsHarness
from tests.fakes import azure, capi
from tests.fakes.gce import FakeGce, a_group, a_regional_group

PRICES = Path(__file__).parent / "prices.yaml"
_TEMPLATE = NodeTemplate(
    labels={"pool": "web", "cloud.google.com/gke-accelerator": "t4"},
    capacity={"cpu": "4", "memory": "16Gi", "pods": "110"},
    allocatable={"cpu": "3900m", "memory": "15Gi", "pods": "110"},
)


class StaticHarness:
    """Time passes when the suite says so; `list_nodes` stands for requests to the outside."""

    def __init__(self, boot_s: float | None, delete_s: float) -> None:
        self._now = 1_000.0
        self._lists = 0
        boot = None if boot_s is None else BootDelay(boot_s, boot_s)
        shape: dict[str, Any] = {"max_size": 6, "template": _TEMPLATE, "boot": boot, "delete_s": delete_s}
        shape["versions"] = (MachineVersion("v9", "img-9", "m5.large"),)
        groups = [GroupSpec(id="web", min_size=1, **shape), GroupSpec(id="batch", min_size=0, **shape)]
        spec = CloudSpec(groups=groups, prices=Prices())
        self.cloud: StaticCloud = open_cloud(spec, now=lambda: self._now, list_nodes=self._list_nodes)

    @property
    def provider(self) -> CloudProvider:
        return self.cloud

    @property
    def group_ids(self) -> Sequence[str]:
        return ("web", "batch")

    def settle(self) -> None:
        self._now += 600.0
        self.cloud.refresh(self._now)

    def node_for(self, instance: Instance) -> NodeRef:
        names = {machine.provider_id: machine.name for machine in self.cloud.machines()}
        return NodeRef(names[instance.provider_id], instance.provider_id, labels=_TEMPLATE.labels)

    def remote_calls(self) -> int:
        return self._lists

    def _list_nodes(self) -> list[NodeRef]:
        self._lists += 1
        return []


class GceHarness:
    """Time passes when the suite says so; every HTTP request counts."""

    def __init__(self, regional: bool = False, bulk: bool = False) -> None:
        make = a_regional_group if regional else a_group
        self.api = FakeGce(make("web"), make("batch"))
        self._now = 1_000.0
        flags = {"bulk-mig-instances-listing-enabled": bulk, "gce-concurrent-refreshes": 2}
        specs = [f"{low}:6:{self.api.group(name).id}" for name, low in (("web", 1), ("batch", 0))]
        settings = read_settings(ProviderContext(node_specs=specs, flags=flags))
        self._provider = ListPricedGceProvider(self.api.client, settings, rng=random.Random(7))
        self.settle()

    @property
    def provider(self) -> CloudProvider:
        return self._provider

    @property
    def group_ids(self) -> Sequence[str]:
        return [self.api.group(name).id for name in ("web", "batch")]

    def settle(self) -> None:
        self._now += 600.0
        self.api.settle()
        self._provider.refresh(self._now)

    def node_for(self, instance: Instance) -> NodeRef:
        return NodeRef(instance.provider_id.rpartition("/")[2], instance.provider_id)

    def remote_calls(self) -> int:
        return len(self.api.requests)


class KwokHarness:
    def __init__(self, gpu: bool) -> None:
        self.api = MemoryNodeApi()
        nodes = {"gpuConfig": {"gpuLabelKey": "accelerator", "availableGPUTypes": {"t4": {}}}} if gpu else {}
        config = {"readNodesFrom": "configmap", "configmap": {"name": "templates"}, "nodes": nodes}
        config["nodegroups"] = {"fromNodeLabelKey": "pool"}
        self.api.put_config_map("kube-system", "kwok-provider-config", {"config": json.dumps(config)})
        templates = {"kind": "List", "items": [_kwok_node("web", low=1), _kwok_node("batch", low=0)]}
        self.api.put_config_map("kube-system", "templates", {"templates": json.dumps(templates)})
        self._provider = create(ProviderContext(node_api=self.api))

    @property
    def provider(self) -> CloudProvider:
        return self._provider

    @property
    def group_ids(self) -> Sequence[str]:
        return ("web", "batch")

    def settle(self) -> None:
        self._provider.refresh(0.0)

    def node_for(self, instance: Instance) -> NodeRef:
        refs = [node_ref(node) for node in self.api.list_nodes()]
        return next(ref for ref in refs if ref.provider_id == instance.provider_id)

    def remote_calls(self) -> int:
        return self.api.calls


class AzureHarness:
    """Scale sets behind a resource manager in memory, whose machines boot and go when the suite lets time pass."""

    def __init__(self, price_file: str | None = None, stock: int | None = None, **differences: bool) -> None:
        flexible = differences.pop("flexible", False)
        self.azure = azure.FakeAzure(
            azure.FakeScaleSet("web", capacity=0, flexible=flexible, stock=stock),
            azure.FakeScaleSet("batch", flexible=flexible, tags={azure.TAG + "autoscaling-options_x": "y"}),
        )
        self.azure.page_size = 2
        for name, value in differences.items():
            setattr(self.azure, name, value)
        context = ProviderContext(
            node_specs=("1:6:web", "0:6:batch"),
            environment=azure.ENVIRONMENT,
            price_file=price_file,
            now=lambda: self.azure.now,
        )
        self._provider = open_provider(context, lambda settings, context: (self.azure, azure.StaticTokens()))
        self._provider.refresh(self.azure.now)

    @property
    def provider(self) -> CloudProvider:
        return self._provider

    @property
    def group_ids(self) -> Sequence[str]:
        return ("web", "batch")

    def settle(self) -> None:
        for _ in range(2):
            self.azure.now += 90.0
            self._provider.refresh(self.azure.now)

    def node_for(self, instance: Instance) -> NodeRef:
        return NodeRef("aks-" + instance.provider_id.rpartition("/")[2], instance.provider_id)

    def remote_calls(self) -> int:
        return len(self.azure.requests)


def _kwok_node(pool: str, low: int) -> dict[str, Any]:
    prefix = "cluster-autoscaler.kwok.nodegroup"
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": pool,
            "labels": {"pool": pool},
            "annotations": {f"{prefix}/min-count": str(low), f"{prefix}/max-count": "6"},
        },
        "status": {"capacity": {"cpu": "4", "memory": "16Gi", "pods": "110"}},
    }


class CapiHarness:
    """Settling lets the controllers make Machines, and nodes of them."""

    def __init__(self, kind: str, labels: Sequence[str] = ()) -> None:
        groups = [capi.a_group("web", 1, 6, 1, kind), capi.a_group("batch", 0, 6, 0, kind)]
        for group in groups:
            group["metadata"]["labels"] = dict.fromkeys(labels, "")
        self.api = capi.an_api(*groups)
        self._controllers = capi.Controllers(self.api)
        self._provider = clusterapi.create(ProviderContext(object_api=self.api, price_file=str(PRICES)))
        self.group_ids = (f"{kind}/default/web", f"{kind}/default/batch")

    @property
    def provider(self) -> CloudProvider:
        return self._provider

    def settle(self) -> None:
        self._controllers.settle()
        self._provider.refresh(0.0)

    def node_for(self, instance: Instance) -> NodeRef:
        name = instance.provider_id.rpartition("/")[2]
        keys = {"cluster.x-k8s.io/machine": name, "cluster.x-k8s.io/cluster-namespace": "default"}
        return NodeRef(f"node-{name}", instance.provider_id, annotations=keys)

    def remote_calls(self) -> int:
        return len(self.api.calls)


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.name)
@pytest.mark.parametrize(
    "harness",
    [
        pytest.param(lambda: StaticHarness(boot_s=60.0, delete_s=0.0), id="static"),
        pytest.param(lambda: StaticHarness(boot_s=60.0, delete_s=30.0), id="static that takes time to delete"),
        pytest.param(lambda: StaticHarness(boot_s=None, delete_s=0.0), id="static where no machine appears"),
        pytest.param(lambda: KwokHarness(gpu=False), id="kwok"),
        pytest.param(lambda: KwokHarness(gpu=True), id="kwok with GPUs"),
        pytest.param(AwsHarness, id="aws"),
        pytest.param(lambda: AzureHarness(), id="azure"),
        pytest.param(lambda: AzureHarness(flexible=True), id="azure with flexible orchestration"),
        pytest.param(lambda: AzureHarness(counts_deleting=True), id="azure whose capacity counts what it deletes"),
        pytest.param(lambda: GceHarness(), id="gce"),
        pytest.param(lambda: GceHarness(bulk=True), id="gce that lists in bulk"),
        pytest.param(lambda: GceHarness(regional=True), id="gce with regional groups"),
        pytest.param(lambda: CapiHarness("MachineDeployment"), id="clusterapi, MachineDeployments"),
        pytest.param(lambda: CapiHarness("MachineSet"), id="clusterapi, MachineSets"),
        pytest.param(lambda: CapiHarness("MachinePool", ["machines"]), id="clusterapi, MachinePools with Machines"),
    ],
)
def test_contract(harness: Callable[[], Harness], check: Check) -> None:
    with ExitStack() as stack:
        made = harness()
        if isinstance(made, AbstractContextManager):
            stack.enter_context(made)
        result = run_check(check, made)
    assert result.passed is not False, result.detail


def _skipped(harness: Harness) -> set[str]:
    return {check.name for check in CHECKS if run_check(check, harness).passed is None}


def test_static_is_tried_on_all_but_what_its_machines_rule_out() -> None:
    assert _skipped(StaticHarness(boot_s=60.0, delete_s=0.0)) == {
        "decrease_target cancels requests that no machine answers yet",
        "PrepareDelete: asking changes nothing",
    }


def test_without_machines_the_suite_still_tries_cancelling() -> None:
    skipped = _skipped(StaticHarness(boot_s=None, delete_s=0.0))
    assert "decrease_target cancels requests that no machine answers yet" not in skipped
    assert "AtomicIncrease: all or nothing" not in skipped


def test_kwok_is_tried_on_all_but_what_it_cannot_do() -> None:
    assert _skipped(KwokHarness(gpu=True)) == {
        "decrease_target cancels requests that no machine answers yet",
        "AtomicIncrease: all or nothing",
        "GroupOptions: the settings make sense",
        "PrepareDelete: asking changes nothing",
        "Pricing: prices make sense",
        "Versioned: a new machine is as new machines are",
    }


def test_aws_is_tried_on_all_but_what_it_cannot_do() -> None:
    with AwsHarness() as harness:
        assert _skipped(harness) == {
            "decrease_target cancels requests that no machine answers yet",
            "AtomicIncrease: all or nothing",
            "ForceDelete: deletes below the minimum, but nothing that belongs elsewhere",
            "PrepareDelete: asking changes nothing",
            "Pricing: prices make sense",
        }


def test_aws_is_made_from_flags_and_finds_a_name_that_is_wrong() -> None:
    with AwsHarness():
        context = ProviderContext(
            node_specs=["1:6:web", "0:3:wbe"], discovery_specs=["asg:tag=scaled"], environment=ENVIRONMENT
        )
        with pytest.raises(Misconfigured, match="there is no Auto Scaling group 'wbe' in eu-west-1"):
            create_provider("aws", context)
        provider = create_provider("aws", replace(context, node_specs=["1:6:web"]))
        provider.refresh(0.0)
        templates = {group.id: group.template() for group in provider.groups()}
        assert list(templates) == ["batch", "other", "web"]
        assert templates["web"] is not None
        assert templates["web"].labels["node.kubernetes.io/instance-type"] == "m5.xlarge"
        assert templates["web"].capacity["cpu"] == "4"


def test_azure_is_tried_on_all_but_what_it_cannot_do(tmp_path: Path) -> None:
    prices = tmp_path / "prices.yaml"
    prices.write_text("instanceTypes: {Standard_D4s_v5: 0.2}")
    assert _skipped(AzureHarness(str(prices))) == {
        "decrease_target cancels requests that no machine answers yet",
        "AtomicIncrease: all or nothing",
        "PrepareDelete: asking changes nothing",
    }


def test_gce_is_tried_on_all_but_what_it_cannot_do() -> None:
    assert _skipped(GceHarness()) == {
        "decrease_target cancels requests that no machine answers yet",
        "AtomicIncrease: all or nothing",
        "PrepareDelete: asking changes nothing",
    }


@pytest.mark.parametrize("kind", ["MachineDeployment", "MachineSet"])
def test_clusterapi_is_tried_on_all_but_what_it_cannot_do(kind: str) -> None:
    assert _skipped(CapiHarness(kind)) == {
        "AtomicIncrease: all or nothing",
        "Versioned: a new machine is as new machines are",  # these Machines have no version of Kubernetes
    }


def test_abilities_follow_the_configuration() -> None:
    assert isinstance(KwokHarness(gpu=True).provider, Accelerators)
    assert not isinstance(KwokHarness(gpu=False).provider, Accelerators)
    assert isinstance(open_cloud(CloudSpec(groups=[], prices=Prices())), Pricing)
    assert not isinstance(open_cloud(CloudSpec(groups=[])), Pricing)


def test_the_suite_leaves_groups_as_it_found_them() -> None:
    harness = StaticHarness(boot_s=60.0, delete_s=0.0)
    for check in CHECKS:
        run_check(check, harness)
        assert [group.target_size() for group in harness.provider.groups()] == [1, 0], check.name


def test_kwok_names_repeat_with_the_same_chance() -> None:
    names = []
    for _ in range(2):
        harness = KwokHarness(gpu=False)
        config = read_config(harness.api, "kube-system", "kwok-provider-config")
        groups = read_groups(harness.api, "kube-system", config)
        provider = KwokProvider(groups, harness.api, random.Random(7))
        provider.refresh(0.0)
        names.append([node["metadata"]["name"] for node in harness.api.list_nodes()])
    assert names[0] == names[1]
    assert len(names[0]) == 1
    assert not isinstance(provider, KwokGpuProvider)
