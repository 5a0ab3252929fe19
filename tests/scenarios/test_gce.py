"""Whole passes over managed instance groups: what is bought, what is deleted, what happens when there is no room."""

import msgspec

from autoscaler.config.scaledown import ScaleDown
from autoscaler.config.tree import Config
from cloudprovider.gce.provider import ListPricedGceProvider
from cloudprovider.gce.settings import read_settings
from cloudprovider.interface import ProviderContext, Transient
from tests.builders import a_node, a_pod
from tests.fakes.gce import PROJECT, FakeGce, a_group, a_regional_group, a_template, provider_id
from tests.unit.loop.loop_world import LoopWorld, waiting

PLAIN = {"items": [{"key": "kube-env", "value": "AUTOSCALER_ENV_VARS: os=linux\n"}]}
AT_ONCE = ScaleDown(scale_down_unneeded_time_s=0.0, scale_down_delay_after_add_s=0.0)


class GceLoop(LoopWorld):
    """A `LoopWorld` whose cloud is Compute Engine."""

    def __init__(self, api: FakeGce, low: int = 0, high: int = 10, scale_down: ScaleDown = AT_ONCE) -> None:
        self.api = api
        api.templates = {f"projects/{PROJECT}/global/instanceTemplates/web": a_template(metadata=PLAIN)}
        specs = [f"{low}:{high}:{group.id}" for group in api.groups.values()]
        provider = ListPricedGceProvider(api.client, read_settings(ProviderContext(node_specs=specs)))
        super().__init__(config=Config(scale_down=scale_down), provider=provider)

    def register(self) -> list[str]:
        """Let every machine that runs become a node; return the names of the new ones."""
        self.api.settle()
        known = {node.name for node in self.cluster.nodes.values()}
        born = {
            name: machine.zone
            for group in self.api.groups.values()
            for name, machine in group.machines.items()
            if machine.status == "RUNNING" and name not in known
        }
        for name, zone in born.items():
            fresh = a_node(name, cpu="4", memory="15Gi", zone=zone, created=self.clock.now().wall - 300)
            self.cluster.put_node(msgspec.structs.replace(fresh, provider_id=provider_id(name, zone)))
        return sorted(born)


def test_pods_that_wait_get_as_many_machines_as_they_need_once() -> None:
    world = GceLoop(FakeGce(a_group()))
    world.submit(*(waiting(f"web-{number}") for number in range(3)))
    world.run()
    assert world.api.group("web").target == 3
    world.run(after_s=15)
    world.run(after_s=15)
    assert world.api.group("web").target == 3
    assert world.api.count("createInstances") == 1


def test_an_order_whose_answer_was_lost_is_not_given_again() -> None:
    world = GceLoop(FakeGce(a_group()))
    world.submit(*(waiting(f"web-{number}") for number in range(3)))
    world.api.fail("createInstances", Transient("timed out"), takes_effect=True)
    world.run()
    world.run(after_s=15)
    assert world.api.group("web").target == 3
    assert world.api.count("createInstances") == 1


def test_a_regional_group_grows_likewise() -> None:
    world = GceLoop(FakeGce(a_regional_group()))
    world.submit(*(waiting(f"web-{number}") for number in range(2)))
    world.run()
    assert world.api.group("web").target == 2
    assert len(world.register()) == 2
    world.run(after_s=60)
    assert world.api.group("web").target == 2


def test_the_idle_machine_is_deleted_and_no_other() -> None:
    api = FakeGce(a_group())
    api.add_machines("web", "web-a", "web-b", "web-c")
    world = GceLoop(api)
    world.register()
    world.submit(*(a_pod(f"app-{letter}", cpu="3", node=f"web-{letter}") for letter in "ac"))
    for _ in range(3):
        world.run(after_s=120)
    world.executor.run_until(world.clock.now().mono + 600)
    world.executor.stop()
    assert {name: one.action for name, one in api.group("web").machines.items()} == {
        "web-a": "NONE",
        "web-b": "DELETING",
        "web-c": "NONE",
    }
    assert api.group("web").target == 2


def test_the_minimum_is_kept() -> None:
    api = FakeGce(a_group())
    api.add_machines("web", "web-a", "web-b")
    world = GceLoop(api, low=2)
    world.register()
    for _ in range(3):
        world.run(after_s=120)
    world.executor.run_until(world.clock.now().mono + 600)
    world.executor.stop()
    assert api.count("deleteInstances") == 0


def test_machines_that_do_not_come_are_cleared_away_and_not_asked_for_again_at_once() -> None:
    stock_out = [{"code": "ZONE_RESOURCE_POOL_EXHAUSTED", "message": "no room in us-central1-b"}]
    api = FakeGce(a_group("empty", stock_out=stock_out))
    world = GceLoop(api)
    world.submit(waiting("web-1"))
    world.run()
    assert api.group("empty").target == 1
    for _ in range(3):
        world.run(after_s=15)
        world.api.settle()
    world.executor.run_until(world.clock.now().mono + 60)
    world.executor.stop()
    assert (api.group("empty").target, api.group("empty").machines) == (0, {})
    assert api.count("createInstances") == 1
    assert "RESOURCE_POOL_EXHAUSTED" in str(world.remembered.registry.backoffs)
