"""Whole passes through the AWS provider: what is bought is what is needed, and only an idle machine is ended."""

from collections.abc import Sequence

import msgspec
import pytest

from autoscaler.config.load import load
from autoscaler.objects.node import Node
from autoscaler.observe.report import PassReport
from cloudprovider.aws.provider import AwsProvider
from tests.builders import a_node, a_pod
from tests.fakes.aws import ZONE, FakeAws, an_error
from tests.unit.loop.loop_world import NOW, LoopWorld, waiting

SET, END = "set_desired_capacity", "terminate_instance_in_auto_scaling_group"
FLAGS = ("--scale-down-unneeded-time=1m", "--scale-down-delay-after-add=0s", "--max-node-provision-time=5m")


class AwsLoop(LoopWorld):
    """Groups `web` and `spare` of machines with 4 CPUs; nodes register when a test says so."""

    def __init__(self, *flags: str, size: int = 0) -> None:
        self.aws = FakeAws()
        self.aws.now = NOW
        self.aws.configurations["m5.xlarge"] = "m5.xlarge"
        for name in ("web", "spare"):
            self.aws.add_group(name, size if name == "web" else 0, LaunchConfigurationName="m5.xlarge")
        self.provider: AwsProvider = self.aws.open("0:10:web", "0:10:spare")
        super().__init__(config=load([*FLAGS, *flags]), provider=self.provider)
        self.register()

    def register(self) -> list[Node]:
        """Let every machine in service that has no node become one."""
        known = {node.provider_id for node in self.cluster.nodes.values()}
        born = []
        for group in self.aws.groups.values():
            for machine in group["Instances"]:
                provider_id = f"aws:///{ZONE}/{machine['InstanceId']}"
                if machine["LifecycleState"] == "InService" and provider_id not in known:
                    name = f"ip-{machine['InstanceId'][-4:]}"
                    node = a_node(name, created=self.clock.now().wall - 600, since=self.clock.now().wall - 600)
                    born.append(msgspec.structs.replace(node, provider_id=provider_id))
        for node in born:
            self.cluster.put_node(node)
        return born

    def step(self, seconds: float = 15.0) -> PassReport:
        """Run a pass, and what follows from it in the next seconds."""
        self.aws.now = self.clock.now().wall
        report = self.run()
        self.drive(seconds)
        return report

    def steps(self, count: int) -> None:
        for _ in range(count):
            self.step()

    def sizes(self) -> tuple[int, int]:
        web, spare = (self.aws.groups[name]["DesiredCapacity"] for name in ("web", "spare"))
        return web, spare

    def told(self, operation: str) -> Sequence[dict[str, object]]:
        return [parameters for name, parameters in self.aws.calls if name == operation]


def test_pending_pods_get_the_machines_that_they_need_and_no_more() -> None:
    world = AwsLoop()
    world.submit(*(waiting(f"p{number}") for number in range(3)))
    world.steps(4)
    assert sum(world.sizes()) == 3, "one for each pod of 3 CPUs, and none twice while they boot"
    grown = "web" if world.sizes()[0] else "spare"
    world.aws.deliver(grown)
    world.register()
    world.steps(8)
    assert sum(world.sizes()) == 3
    assert len(world.told(SET)) == 1


def test_an_idle_machine_is_ended_and_that_one_only() -> None:
    world = AwsLoop(size=3)
    busy = list(world.cluster.nodes.values())[:2]
    world.submit(*(a_pod(f"p-{node.name}", cpu="3", node=node.name, phase="Running") for node in busy))
    (idle,) = set(world.cluster.nodes) - {node.name for node in busy}
    doomed = world.cluster.nodes[idle].provider_id.rpartition("/")[2]
    world.steps(12)
    assert [one["InstanceId"] for one in world.told(END)] == [doomed]
    assert world.sizes() == (2, 0)
    world.aws.bury()
    world.steps(12)
    assert world.sizes() == (2, 0)
    assert world.told(SET) == []


def test_a_stock_out_is_cancelled_and_the_other_group_is_bought() -> None:
    world = AwsLoop()
    world.submit(waiting("p"))
    world.step()
    first = "web" if world.sizes()[0] else "spare"
    second = "spare" if first == "web" else "web"
    world.aws.now = world.clock.now().wall
    world.aws.tried(first, "Failed", "InsufficientInstanceCapacity", after_s=0)
    world.steps(4)
    assert world.aws.groups[first]["DesiredCapacity"] == 0, "what cannot come is not waited for"
    assert world.aws.groups[second]["DesiredCapacity"] == 1
    assert world.told(END) == []


def test_machines_that_never_come_are_given_up_in_time() -> None:
    world = AwsLoop()
    world.submit(waiting("p"))
    world.step()
    first = "web" if world.sizes()[0] else "spare"
    world.steps(6 * 4)
    assert world.aws.groups[first]["DesiredCapacity"] == 0
    assert world.told(END) == []


@pytest.mark.parametrize("lost_answer", [True, False])
def test_an_increase_whose_answer_is_lost_is_not_made_twice(lost_answer: bool) -> None:
    world = AwsLoop()
    world.aws.fail(SET, an_error("InternalFailure", status=500), lost_answer=lost_answer)
    world.submit(waiting("p"), waiting("q"))
    world.steps(3)
    assert sum(world.sizes()) == 2


def test_a_cloud_that_is_away_loses_nothing() -> None:
    world = AwsLoop(size=2)
    nodes = list(world.cluster.nodes.values())
    world.submit(*(a_pod(f"p-{node.name}", cpu="3", node=node.name, phase="Running") for node in nodes))
    world.steps(2)
    world.aws.fail("describe_auto_scaling_groups", *[an_error("InternalFailure", status=500)] * 200)
    world.submit(waiting("p"))
    world.steps(20)
    assert world.sizes() == (2, 0)
    world.aws.failing.clear()
    world.steps(3)
    assert sum(world.sizes()) == 3
    assert world.told(END) == []
