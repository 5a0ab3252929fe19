"""Whole passes over the azure provider, with the resource manager in memory and in virtual time."""

from collections.abc import Iterator, Mapping

import pytest
from msgspec.structs import replace

from autoscaler.config.load import from_options
from autoscaler.observe.report import PassReport
from cloudprovider.azure.provider import open_provider
from cloudprovider.interface import ProviderContext
from tests.builders import a_node, a_pod
from tests.fakes.azure import ENVIRONMENT, FakeAzure, FakeScaleSet, StaticTokens, provider_id
from tests.unit.loop.loop_world import NOW, STEP_S, LoopWorld, waiting

_OPTIONS: Mapping[str, str] = {"cloud-provider": "azure", "scale-down-unneeded-time": "2m"}


class AzureLoop(LoopWorld):
    """Machines become nodes when they have booted, and nodes without machine go. Pods are bound by the tests."""

    def __init__(self, *scale_sets: FakeScaleSet) -> None:
        self.azure = FakeAzure(*scale_sets, now=NOW)
        context = ProviderContext(
            discovery_specs=["label:cluster=shop,min=0,max=10"],
            environment=ENVIRONMENT,
            now=lambda: self.azure.now,
        )
        for one in scale_sets:
            one.tags["cluster"] = "shop"
            while len(one.machines) < one.capacity:
                self.azure.add_machine(one).ready_at = 0.0
        provider = open_provider(context, lambda *_: (self.azure, StaticTokens()))
        super().__init__(config=from_options(_OPTIONS), provider=provider)
        self._join()

    def step(self) -> PassReport:
        """Run a pass, and what follows from it in the next seconds."""
        report = self.run()
        self.drive(STEP_S)
        self.azure.now = self.clock.now().wall
        self._join()
        return report

    def changes(self) -> list[object]:
        """Return what was asked to be changed: capacities, and lists of instances that were deleted."""
        bodies = [(seen.method, seen.body) for seen in self.azure.requests if seen.method != "GET"]
        return [body["sku"]["capacity"] if method == "PUT" else body["instanceIds"] for method, body in bodies]

    def _join(self) -> None:
        self.azure._settle()
        booted = {
            f"{one.name}-{machine.name}": provider_id(one.name, machine.name)
            for one in self.azure.scale_sets.values()
            for machine in one.machines
            if machine.ready_at <= self.azure.now
        }
        self.cluster.remove_nodes([name for name in self.cluster.nodes if name not in booted])
        for name, found in booted.items():
            if name not in self.cluster.nodes:
                since = self.clock.now().wall - 600
                self.cluster.put_node(replace(a_node(name, created=since, since=since), provider_id=found))


@pytest.fixture
def ended() -> Iterator[list[AzureLoop]]:
    worlds: list[AzureLoop] = []
    yield worlds
    for world in worlds:
        world.executor.stop()


def test_pending_pods_get_as_many_machines_as_they_need_and_no_more(ended: list[AzureLoop]) -> None:
    world = AzureLoop(FakeScaleSet("web"))
    ended.append(world)
    world.submit(*(waiting(f"p{number}") for number in range(4)))
    world.live(120.0)
    assert world.changes() == [4]
    assert sorted(world.cluster.nodes) == ["web-0", "web-1", "web-2", "web-3"]


@pytest.mark.parametrize("takes_effect", [True, False])
def test_a_lost_answer_buys_nothing_twice(ended: list[AzureLoop], takes_effect: bool) -> None:
    world = AzureLoop(FakeScaleSet("web"))
    ended.append(world)
    world.azure.lose("PUT", takes_effect=takes_effect)
    world.submit(*(waiting(f"p{number}") for number in range(3)))
    world.live(600.0)
    assert set(world.changes()) == {3}
    assert world.azure.scale_sets["web"].capacity == 3


@pytest.mark.parametrize("counts_deleting", [True, False])
def test_of_an_idle_node_exactly_that_machine_is_deleted(ended: list[AzureLoop], counts_deleting: bool) -> None:
    world = AzureLoop(FakeScaleSet("web", capacity=3))
    ended.append(world)
    world.azure.counts_deleting = counts_deleting
    world.submit(*(a_pod(f"p{number}", cpu="3", node=f"web-{number}", owner="ReplicaSet") for number in (0, 2)))
    world.live(600.0)
    assert world.changes() == [["1"]]
    assert sorted(world.cluster.nodes) == ["web-0", "web-2"]
    assert world.azure.scale_sets["web"].capacity == 2


def test_where_azure_has_no_machines_another_group_grows_within_a_pass(ended: list[AzureLoop]) -> None:
    world = AzureLoop(FakeScaleSet("first", stock=0), FakeScaleSet("second"))
    ended.append(world)
    world.azure.scale_sets["second"].size = "Standard_D8s_v5"
    world.azure.sizes = [*world.azure.sizes, {**world.azure.sizes[0], "name": "Standard_D8s_v5"}]
    world.submit(waiting("p"))
    world.azure.scale_sets["second"].tags["max"] = "0"
    world.live(60.0)
    world.azure.scale_sets["second"].tags["max"] = "5"
    assert world.azure.scale_sets["first"].capacity == 1
    world.live(150.0)
    assert world.azure.scale_sets["first"].capacity == 0
    assert world.azure.scale_sets["second"].capacity == 1
