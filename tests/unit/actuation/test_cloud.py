"""The provider at the edge of a pass: what is read, what becomes of errors, and what a lost answer means."""

from collections.abc import Sequence

import pytest

from autoscaler.actuation.cloud import GROUP_GONE, Cloud
from autoscaler.clock import ThreadExecutor
from autoscaler.errors import CloudUnavailable
from autoscaler.scaleup.plan import Increase, Resized
from cloudprovider.interface import (
    ErrorClass,
    Instance,
    InstanceError,
    NodeGroup,
    NodeRef,
    NodeTemplate,
    NotFound,
    OutOfCapacity,
    ProviderError,
    QuotaExceeded,
    Throttled,
    Transient,
)
from cloudprovider.static.cloud import StaticCloud, open_cloud
from cloudprovider.static.spec import Call, CloudSpec, GroupSpec, MachineSpec
from tests.builders import a_node

TEMPLATE = NodeTemplate(capacity={"cpu": "4", "memory": "16Gi"})
LOST = Transient("no answer in time")


def a_static(*, target: int = 1, price: float | None = None) -> StaticCloud:
    group = GroupSpec(id="g", min_size=0, max_size=9, target_size=target, template=TEMPLATE, price_per_hour=price)
    return open_cloud(CloudSpec(groups=[group], machines=[MachineSpec(group="g", provider_id="test://n1", name="n1")]))


def a_cloud(provider: StaticCloud) -> Cloud:
    cloud = Cloud(provider)
    cloud.refresh(0)
    return cloud


class Grumpy:
    """A provider that fails whatever it is asked, once it is told to."""

    name = "grumpy"

    def __init__(self, real: StaticCloud) -> None:
        self._real = real
        self.broken: set[str] = set()

    def _do(self, call: str) -> StaticCloud:
        if call in self.broken:
            raise Throttled("slow down", retry_after=3.0)
        return self._real

    def refresh(self, now: float) -> None:
        self._do("refresh").refresh(now)

    def groups(self) -> Sequence[NodeGroup]:
        return [] if "no groups" in self.broken else self._do("groups").groups()

    def group_of(self, node: NodeRef) -> str | None:
        return self._do("group_of").group_of(node)

    def close(self) -> None:
        self._do("close").close()


class Unreadable(Grumpy):
    """Its only group answers nothing any more after a change was asked for, and that change may have happened."""

    id = "g"
    min_size = 0
    max_size = 9

    def groups(self) -> Sequence[NodeGroup]:
        return [self]

    def target_size(self) -> int:
        return self._do("target_size").group("g").target_size()

    def instances(self) -> Sequence[Instance]:
        return self._do("instances").group("g").instances()

    def template(self) -> NodeTemplate | None:
        return None

    def increase(self, delta: int) -> None:
        self.broken.add("target_size")
        raise LOST

    def decrease_target(self, delta: int) -> None:
        self.increase(delta)

    def delete(self, nodes: Sequence[NodeRef]) -> None:
        self.increase(len(nodes))


class TestReading:
    def test_groups_and_owners_are_frozen_values(self) -> None:
        cloud = a_cloud(a_static(price=0.5))
        found = cloud.read([a_node("n1"), a_node("somewhere-else")])
        (group,) = found.all
        assert (group.id, group.min_size, group.max_size, group.target_size) == ("g", 0, 9, 1)
        assert [instance.provider_id for instance in group.instances] == ["test://n1"]
        assert group.node_price == 0.5
        assert (found.of_node, found.gone, found.can_tell_gone) == ({"n1": "g"}, frozenset(), True)
        cloud.increase("g", 2, expected=1)
        assert group.target_size == 1

    def test_a_cloud_without_prices_has_none(self) -> None:
        (group,) = a_cloud(a_static()).read([]).all
        assert group.node_price is None

    def test_a_node_whose_machine_is_gone_is_told(self) -> None:
        group = GroupSpec(id="g", min_size=0, max_size=9, node_names=["n1", "n2"])
        provider = open_cloud(CloudSpec(groups=[group], missing=["test://n1"]))
        found = a_cloud(provider).read([a_node("n1"), a_node("n2"), a_node("n3")])
        assert (set(found.of_node), set(found.gone)) == ({"n1", "n2"}, {"n1"})

    @pytest.mark.parametrize("call", ["refresh", "groups"])
    def test_a_refresh_that_fails_skips_the_pass(self, call: str) -> None:
        provider = Grumpy(a_static())
        provider.broken.add(call)
        with pytest.raises(CloudUnavailable, match="provider grumpy cannot be refreshed: slow down"):
            Cloud(provider).refresh(0)

    @pytest.mark.parametrize("call", ["target_size", "instances", "group_of"])
    def test_a_read_that_fails_skips_the_pass(self, call: str) -> None:
        provider = Unreadable(a_static())
        cloud = Cloud(provider)
        cloud.refresh(0)
        provider.broken.add(call)
        with pytest.raises(CloudUnavailable, match="provider grumpy cannot be read: slow down"):
            cloud.read([a_node("n1")])

    def test_a_failed_refresh_leaves_the_groups_that_were_known(self) -> None:
        provider = Grumpy(a_static())
        cloud = Cloud(provider)
        cloud.refresh(0)
        provider.broken.add("groups")
        with pytest.raises(CloudUnavailable):
            cloud.refresh(1)
        assert cloud.targets(["g"]) == {"g": 1}

    def test_targets_that_cannot_be_read_are_left_out(self) -> None:
        provider = Unreadable(a_static())
        cloud = Cloud(provider)
        cloud.refresh(0)
        assert cloud.targets(["g", "unknown"]) == {"g": 1}
        provider.broken.add("target_size")
        assert cloud.targets(["g", "unknown"]) == {}


class TestResizing:
    def test_an_increase_is_asked_for_once(self) -> None:
        provider = a_static()
        resized = a_cloud(provider).increase("g", 2, expected=1)
        assert resized == Resized(group="g", before=1, wanted=3, after=3)
        assert provider.group("g").target_size() == 3

    @pytest.mark.parametrize(
        ("target", "after"),
        [
            pytest.param(2, 4, id="partly: the rest is asked for"),
            pytest.param(4, 4, id="wholly: nothing is asked for"),
            pytest.param(6, 6, id="and more: nothing is asked for"),
        ],
    )
    def test_what_an_earlier_call_brought_after_all_is_not_bought_twice(self, target: int, after: int) -> None:
        provider = a_static(target=target)
        resized = a_cloud(provider).increase("g", 3, expected=1)
        assert (resized.after, resized.error) == (after, None)
        assert provider.group("g").target_size() == after

    def test_a_decrease_cancels_what_never_came(self) -> None:
        provider = a_static(target=4)
        resized = a_cloud(provider).decrease_target("g", 3)
        assert resized == Resized(group="g", before=4, wanted=1, after=1)
        assert provider.group("g").target_size() == 1

    @pytest.mark.parametrize(
        ("call", "delta", "wanted"),
        [
            pytest.param(Call.INCREASE, 2, 5, id="an increase"),
            pytest.param(Call.DECREASE_TARGET, -2, 1, id="a decrease"),
        ],
    )
    @pytest.mark.parametrize("took_effect", [True, False], ids=["that took effect", "that did not"])
    def test_after_a_lost_answer_the_target_is_read_back(
        self, call: Call, delta: int, wanted: int, took_effect: bool
    ) -> None:
        provider = a_static(target=3)
        cloud = a_cloud(provider)
        provider.fail_next("g", LOST, call, takes_effect=took_effect)
        resized = resize(cloud, delta, expected=3)
        assert (resized.before, resized.wanted, resized.after) == (3, wanted, wanted if took_effect else 3)
        assert (resized.error is None) is took_effect
        assert provider.group("g").target_size() == resized.after

    @pytest.mark.parametrize("delta", [2, -1], ids=["increase", "decrease"])
    def test_a_lost_answer_that_cannot_be_looked_into_is_a_failure(self, delta: int) -> None:
        cloud = Cloud(Unreadable(a_static()))
        cloud.refresh(0)
        resized = resize(cloud, delta, expected=1)
        assert (resized.before, resized.after) == (1, 1)
        assert resized.error is not None
        assert resized.hold, "it may have taken effect"

    @pytest.mark.parametrize(
        ("error", "kind"),
        [
            pytest.param(OutOfCapacity("none left"), ErrorClass.OUT_OF_RESOURCES, id="out of capacity"),
            pytest.param(QuotaExceeded("no more for you"), ErrorClass.OUT_OF_RESOURCES, id="over quota"),
            pytest.param(Throttled("slow down"), ErrorClass.OTHER, id="throttled"),
            pytest.param(NotFound("which group?"), ErrorClass.OTHER, id="not found"),
            pytest.param(ProviderError("no"), ErrorClass.OTHER, id="anything else"),
        ],
    )
    @pytest.mark.parametrize("delta", [2, -2], ids=["increase", "decrease"])
    def test_a_refusal_is_classed_and_changes_nothing(self, error: ProviderError, kind: ErrorClass, delta: int) -> None:
        provider = a_static(target=3)
        cloud = a_cloud(provider)
        provider.fail_next("g", error, Call.INCREASE if delta > 0 else Call.DECREASE_TARGET)
        resized = resize(cloud, delta, expected=3)
        assert (resized.before, resized.wanted, resized.after) == (3, 3 + delta, 3)
        assert resized.error == InstanceError(kind, error.code, str(error))

    @pytest.mark.parametrize("delta", [2, -2], ids=["increase", "decrease"])
    def test_a_group_that_vanished_is_an_error_and_no_crash(self, delta: int) -> None:
        provider = Grumpy(a_static(target=3))
        cloud = Cloud(provider)
        cloud.refresh(0)
        provider.broken.add("no groups")
        cloud.refresh(1)
        error = resize(cloud, delta, expected=3).error
        assert error is not None
        assert (error.error_class, error.code) == (ErrorClass.OTHER, GROUP_GONE)

    @pytest.mark.parametrize("error", [LOST, OutOfCapacity("none left")], ids=["a lost answer", "a refusal"])
    def test_what_half_an_increase_came_to_is_read_back(self, error: ProviderError) -> None:
        provider = a_static(target=3)
        cloud = a_cloud(provider)
        provider.fail_next("g", error, takes_effect=True, at_most=1)
        resized = cloud.increase("g", 3, expected=3)
        assert (resized.before, resized.wanted, resized.after) == (3, 6, 4)
        assert resized.error == InstanceError(
            ErrorClass.OTHER if error is LOST else ErrorClass.OUT_OF_RESOURCES, error.code, str(error)
        )

    def test_a_refusal_is_one_even_where_the_target_is_as_wanted(self) -> None:
        provider = a_static(target=3)
        cloud = a_cloud(provider)
        provider.fail_next("g", OutOfCapacity("none left"), takes_effect=True)
        resized = cloud.increase("g", 2, expected=3)
        assert (resized.after, resized.error is None) == (5, False)

    def test_a_target_that_cannot_be_read_at_first_has_not_grown(self) -> None:
        real = a_static(target=3)
        provider = Unreadable(real)
        cloud = Cloud(provider)
        cloud.refresh(0)
        provider.broken.add("target_size")
        resized = cloud.increase("g", 2, expected=3)
        assert (resized.before, resized.after, resized.hold) == (3, 3, True)
        assert real.group("g").target_size() == 3

    def test_groups_are_resized_at_the_same_time_and_told_in_order(self) -> None:
        groups = [GroupSpec(id=name, min_size=0, max_size=9) for name in "abc"]
        provider = open_cloud(CloudSpec(groups=groups))
        provider.fail_next("b", OutOfCapacity("none left"))
        executor = ThreadExecutor(2)
        cloud = Cloud(provider, executor)
        cloud.refresh(0)
        done = cloud.increase_together([Increase(group=name, delta=2, before=0, max_size=9) for name in "cab"])
        executor.stop()
        assert [(one.group, one.after, one.error is None) for one in done] == [
            ("c", 2, True),
            ("a", 2, True),
            ("b", 0, False),
        ]


def resize(cloud: Cloud, delta: int, *, expected: int) -> Resized:
    return cloud.increase("g", delta, expected=expected) if delta > 0 else cloud.decrease_target("g", -delta)


class TestDeletingWithoutNodes:
    def test_the_machine_goes_and_the_target_with_it(self) -> None:
        provider = a_static()
        assert a_cloud(provider).delete_instances("g", ["test://n1"], "unregistered") is None
        assert (provider.machines(), provider.group("g").target_size()) == ([], 0)

    def test_why_not_is_told(self) -> None:
        provider = a_static()
        cloud = a_cloud(provider)
        provider.fail_next("g", Throttled("slow down"), Call.DELETE)
        error = cloud.delete_instances("g", ["test://n1"], "unregistered")
        assert error is not None
        assert (error.error_class, error.message) == (ErrorClass.OTHER, "slow down")

    def test_of_a_group_that_vanished(self) -> None:
        error = a_cloud(a_static()).delete_instances("other", ["test://n1"], "unregistered")
        assert error is not None
        assert error.code == GROUP_GONE


def test_a_clean_up_that_fails_is_no_crash() -> None:
    provider = Grumpy(a_static())
    provider.broken.add("close")
    with pytest.raises(CloudUnavailable, match="provider grumpy did not clean up: slow down"):
        Cloud(provider).close()
