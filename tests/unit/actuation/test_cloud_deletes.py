from collections.abc import Sequence

import pytest

from autoscaler.actuation.cloud import BELOW_MINIMUM, GROUP_GONE, Cloud, DeleteResult
from cloudprovider.interface import Instance, NodeRef, NodeTemplate, ProviderError, State, Transient
from cloudprovider.static.cloud import StaticCloud, open_cloud
from cloudprovider.static.spec import Call, CloudSpec, GroupSpec, MachineSpec

N1, N2 = NodeRef("n1", "test://n1"), NodeRef("n2", "test://n2")


def a_cloud(*, min_size: int = 0, delete_s: float = 0.0) -> tuple[StaticCloud, Cloud]:
    provider = open_cloud(
        CloudSpec(
            groups=[GroupSpec(id="g", min_size=min_size, max_size=5, delete_s=delete_s)],
            machines=[MachineSpec(group="g", provider_id=f"test://n{n}", name=f"n{n}") for n in (1, 2, 3)],
        )
    )
    cloud = Cloud(provider)
    cloud.refresh(0)
    return provider, cloud


def names(provider: StaticCloud) -> list[str]:
    return [machine.name for machine in provider.machines() if machine.state is not State.DELETING]


def test_deletes_exactly_these() -> None:
    provider, cloud = a_cloud()
    deleted = cloud.delete_nodes("g", [N1, N2])
    assert (sorted(deleted.gone), deleted.error) == (["n1", "n2"], None)
    assert names(provider) == ["n3"]
    assert provider.group("g").target_size() == 1


def test_below_the_minimum_deletes_none() -> None:
    provider, cloud = a_cloud(min_size=2)
    deleted = cloud.delete_nodes("g", [N1, N2])
    assert deleted.error is not None
    assert (deleted.gone, deleted.error.code) == (frozenset(), BELOW_MINIMUM)
    assert names(provider) == ["n1", "n2", "n3"]


def test_force_goes_below_the_minimum() -> None:
    provider, cloud = a_cloud(min_size=2)
    assert cloud.delete_nodes("g", [N1, N2], force=True).gone == {"n1", "n2"}
    assert names(provider) == ["n3"]


def test_a_group_that_is_gone_is_an_error() -> None:
    error = a_cloud()[1].delete_nodes("other", [N1]).error
    assert error is not None
    assert error.code == GROUP_GONE


@pytest.mark.parametrize("delete_s", [0.0, 60.0], ids=["machines go at once", "machines take a minute"])
def test_a_time_out_after_it_worked_is_success(delete_s: float) -> None:
    provider, cloud = a_cloud(delete_s=delete_s)
    provider.fail_next("g", Transient("time-out"), Call.DELETE, takes_effect=True)
    deleted = cloud.delete_nodes("g", [N1, N2])
    assert (sorted(deleted.gone), deleted.error, deleted.certain) == (["n1", "n2"], None, True)


def test_a_time_out_before_it_worked_is_failure() -> None:
    provider, cloud = a_cloud()
    provider.fail_next("g", Transient("time-out"), Call.DELETE)
    deleted = cloud.delete_nodes("g", [N1])
    assert deleted.error is not None
    assert (deleted.gone, deleted.error.message, deleted.certain) == (frozenset(), "time-out", True)


def test_a_refusal_is_failure_and_certain() -> None:
    provider, cloud = a_cloud()
    provider.fail_next("g", ProviderError("protected", "PROTECTED"), Call.DELETE)
    deleted = cloud.delete_nodes("g", [N1])
    assert deleted.error is not None
    assert (deleted.gone, deleted.error.code, deleted.certain) == (frozenset(), "PROTECTED", True)


def test_a_machine_without_id_is_never_called_gone() -> None:
    assert a_cloud()[1].gone_of("g", [NodeRef("n9", "")]) == frozenset()


def test_a_machine_being_deleted_counts_as_gone() -> None:
    provider, cloud = a_cloud(delete_s=60)
    provider.group("g").delete([N1])
    assert cloud.gone_of("g", [N1, N2]) == frozenset({"n1"})


class StaleGroup:
    """A group whose list of machines lags behind."""

    id = "g"
    min_size = 0
    max_size = 5

    def __init__(self) -> None:
        self.target = 2
        self.unreadable = False

    def target_size(self) -> int:
        return self.target

    def instances(self) -> Sequence[Instance]:
        if self.unreadable:
            raise Transient("away")
        return [Instance("test://n1"), Instance("test://n2")]

    def template(self) -> NodeTemplate | None:
        return None

    def increase(self, delta: int) -> None:
        raise NotImplementedError

    def decrease_target(self, delta: int) -> None:
        raise NotImplementedError

    def delete(self, nodes: Sequence[NodeRef]) -> None:
        self.target -= len(nodes)
        raise Transient("time-out")


class StaleProvider:
    name = "stale"

    def __init__(self, group: StaleGroup) -> None:
        self._group = group

    def refresh(self, now: float) -> None:
        pass

    def groups(self) -> Sequence[StaleGroup]:
        return [self._group]

    def group_of(self, node: NodeRef) -> str | None:
        return "g"

    def close(self) -> None:
        pass


@pytest.mark.parametrize("unreadable", [False, True], ids=["machines lag", "machines cannot be read"])
def test_a_lowered_target_proves_the_deletion(unreadable: bool) -> None:
    group = StaleGroup()
    group.unreadable = unreadable
    cloud = Cloud(StaleProvider(group))
    cloud.refresh(0)
    assert cloud.delete_nodes("g", [N1]) == DeleteResult(frozenset({"n1"}))
