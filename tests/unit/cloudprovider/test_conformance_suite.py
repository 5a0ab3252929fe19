"""The suite finds fault with providers that break the contract, each time by the check that is about it."""

from collections.abc import Sequence
from typing import Any

import pytest

from cloudprovider.conformance import CHECKS, Harness, PlainHarness, open_harness, run_checks
from cloudprovider.interface import Instance, MachineVersion, Misconfigured, NodeRef, NodeTemplate, ProviderContext
from cloudprovider.static import BootDelay, CloudSpec, GroupSpec, StaticCloud
from cloudprovider.static.group import StaticGroup


class Group:
    """Does as the static group does, until a subclass spoils it."""

    def __init__(self, real: StaticGroup, cloud: StaticCloud) -> None:
        self.real = real
        self.cloud = cloud

    @property
    def id(self) -> str:
        return self.real.id

    @property
    def min_size(self) -> int:
        return self.real.min_size

    @property
    def max_size(self) -> int:
        return self.real.max_size

    def target_size(self) -> int:
        return self.real.target_size()

    def instances(self) -> Sequence[Instance]:
        return self.real.instances()

    def template(self) -> NodeTemplate | None:
        return self.real.template()

    def increase(self, delta: int) -> None:
        self.real.increase(delta)

    def decrease_target(self, delta: int) -> None:
        self.real.decrease_target(delta)

    def delete(self, nodes: Sequence[NodeRef]) -> None:
        self.real.delete(nodes)


class NamesAnOldVersion(Group):
    def versions(self) -> Sequence[MachineVersion]:
        return (MachineVersion("v1"),)


class TargetLags(Group):
    def target_size(self) -> int:
        return sum(instance.state == "running" for instance in self.real.instances())


class TakesWhatFits(Group):
    def increase(self, delta: int) -> None:
        self.real.increase(min(delta, self.max_size - self.target_size()))


class DeletesNewest(Group):
    def delete(self, nodes: Sequence[NodeRef]) -> None:
        self.real.delete([NodeRef(i.provider_id, i.provider_id) for i in self.real.instances()[-len(nodes) :]])


class DeletesWhatItKnows(Group):
    def delete(self, nodes: Sequence[NodeRef]) -> None:
        known = {instance.provider_id for instance in self.real.instances()}
        self.real.delete([node for node in nodes if node.provider_id in known])
        if any(node.provider_id not in known for node in nodes):
            self.real.delete([NodeRef("x", "x")])


class IgnoresTheMinimum(Group):
    def delete(self, nodes: Sequence[NodeRef]) -> None:
        self.real.force_delete(nodes)


class DecreaseKills(Group):
    def decrease_target(self, delta: int) -> None:
        self.real.force_delete([NodeRef(i.provider_id, i.provider_id) for i in self.real.instances()[:delta]])


class RaisesValueError(Group):
    def increase(self, delta: int) -> None:
        if delta <= 0:
            raise ValueError("delta")
        self.real.increase(delta)


class RepeatsIds(Group):
    def instances(self) -> Sequence[Instance]:
        return [*self.real.instances(), *self.real.instances()[:1]]


class AllocatesMoreThanThereIs(Group):
    def template(self) -> NodeTemplate | None:
        return NodeTemplate(capacity={"cpu": "1", "memory": "1Gi", "pods": "9"}, allocatable={"cpu": "1001m"})


class Provider:
    name = "wrapped"

    def __init__(self, group: type[Group] = Group, claims_strangers: bool = False) -> None:
        self.now = 0.0
        spec = GroupSpec(id="web", min_size=1, max_size=5, boot=BootDelay(30, 30), versions=(MachineVersion("v2"),))
        self.cloud = StaticCloud(CloudSpec(groups=[spec]), now=lambda: self.now)
        self.group = group
        self.claims_strangers = claims_strangers
        self.closed = False

    def refresh(self, now: float) -> None:
        self.cloud.refresh(now)

    def groups(self) -> Sequence[Group]:
        return [self.group(real, self.cloud) for real in self.cloud.groups()]

    def group_of(self, node: NodeRef) -> str | None:
        return "web" if self.claims_strangers else self.cloud.group_of(node)

    def close(self) -> None:
        self.closed = True


class ClosesOnce(Provider):
    def close(self) -> None:
        if self.closed:
            raise RuntimeError("closed already")
        super().close()


def harness_of(provider: Provider) -> Harness:
    def wait(seconds: float) -> None:
        provider.now += seconds

    return PlainHarness(provider, ["web"], wait, lambda: provider.now)


def failures(provider: Provider) -> set[str]:
    return {result.name for result in run_checks(harness_of(provider), CHECKS) if result.passed is False}


def test_a_sound_provider_passes() -> None:
    assert failures(Provider()) == set()


@pytest.mark.parametrize(
    ("provider", "check"),
    [
        (lambda: Provider(NamesAnOldVersion), "Versioned: a new machine is as new machines are"),
        (lambda: Provider(TargetLags), "an increase counts in the target at once"),
        (lambda: Provider(TakesWhatFits), "an increase beyond the maximum is refused and changes nothing"),
        (lambda: Provider(RaisesValueError), "changes by zero or less are refused"),
        (lambda: Provider(RepeatsIds), "machines come, as many as the target, with unique and stable ids"),
        (lambda: Provider(DeletesNewest), "delete removes exactly these machines and lowers the target"),
        (lambda: Provider(DeletesWhatItKnows), "delete refuses nodes that belong elsewhere, and deletes none"),
        (lambda: Provider(IgnoresTheMinimum), "delete refuses to break the minimum, and deletes none"),
        (lambda: Provider(DecreaseKills), "decrease_target never removes a machine"),
        (lambda: Provider(AllocatesMoreThanThereIs), "templates are well-formed"),
        (lambda: Provider(claims_strangers=True), "group_of knows nodes and placeholders, and no strangers"),
        (ClosesOnce, "closing twice is harmless"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_breach_is_found(provider: Any, check: str) -> None:
    assert check in failures(provider())


def takes_a_context(context: ProviderContext) -> Provider:
    return Provider()


def a_mistake() -> dict[str, str]:
    return {}


def test_a_harness_is_made_from_a_name() -> None:
    here = __name__
    for target in (f"{here}:Provider", f"{here}:takes_a_context"):
        harness = open_harness(target, ProviderContext(), wait=lambda _: None)
        assert harness.group_ids == ("web",)


@pytest.mark.parametrize(
    ("target", "groups", "problem"),
    [
        ("no_such_module:X", [], "No module named"),
        ("nonsense", [], "is not MODULE:NAME"),
        (f"{__name__}:Nope", [], "has no attribute"),
        ("builtins:dict", [], "cannot tell how to call it"),
        ("collections:OrderedDict.fromkeys", [], "has no attribute"),
        (f"{__name__}:a_mistake", [], "made a dict"),
        (f"{__name__}:Provider", ["nope"], "has no node group nope"),
        (f"{__name__}:Group", [], "takes 2 arguments"),
    ],
)
def test_a_name_that_leads_nowhere_is_misconfigured(target: str, groups: list[str], problem: str) -> None:
    with pytest.raises(Misconfigured, match=problem):
        open_harness(target, ProviderContext(), lambda _: None, groups)
