"""Runs checks: prepares the group before each, separates failed from not applicable, restores the group."""

from collections.abc import Callable, Sequence
from typing import NoReturn

import msgspec

from cloudprovider.conformance.harness import Harness
from cloudprovider.interface import Instance, NodeGroup, NodeRef, ProviderError, State


class Failed(Exception):
    """The provider breaks the contract."""


class NotApplicable(Exception):
    """The check is not applicable to this provider or group."""


class Check(msgspec.Struct, frozen=True):
    """One rule of the contract."""

    name: str
    """Reads as a sentence."""
    run: Callable[["Bench"], None]


class Final(Check, frozen=True):
    """A check that leaves the provider unusable."""


class Result(msgspec.Struct, frozen=True):
    """The result of one check."""

    name: str
    passed: bool | None
    """None: not applicable, and `detail` says why."""
    detail: str = ""


class Bench:
    """A harness with the operations that checks use."""

    def __init__(self, harness: Harness) -> None:
        self.harness = harness
        self.provider = harness.provider

    @property
    def group(self) -> NodeGroup:
        """The first disposable group."""
        return self.group_named(self.harness.group_ids[0])

    def group_named(self, group_id: str) -> NodeGroup:
        """Return a group of the provider."""
        group = next((group for group in self.provider.groups() if group.id == group_id), None)
        return group if group is not None else self.fail(f"groups() does not list {group_id}")

    def live(self, group: NodeGroup) -> list[Instance]:
        """Return a group's machines that are not being deleted."""
        return [instance for instance in group.instances() if instance.state is not State.DELETING]

    def ids(self, group: NodeGroup) -> set[str]:
        """Return their ids."""
        return {instance.provider_id for instance in self.live(group)}

    def nodes(self, group: NodeGroup) -> list[NodeRef]:
        """Return the nodes of a group's machines."""
        return [self.harness.node_for(instance) for instance in self.live(group)]

    def grow(self, machines: int) -> NodeGroup:
        """Start machines in the group and return it; not applicable if the group is too small or none appear."""
        group = self.group
        if group.target_size() + machines > group.max_size:
            raise NotApplicable(f"{group.id} has no room for {machines} more machines")
        group.increase(machines)
        self.harness.settle()
        group = self.group
        if len(self.live(group)) < group.target_size():
            raise NotApplicable(f"{group.id} shows {len(self.live(group))} of {group.target_size()} machines")
        return group

    def expect(self, holds: bool, otherwise: str) -> None:
        """Fail unless a condition holds."""
        if not holds:
            raise Failed(otherwise)

    def fail(self, why: str) -> NoReturn:
        """Fail."""
        raise Failed(why)

    def refused(self, what: str, call: Callable[[], None]) -> None:
        """Fail unless a call raises `ProviderError` with a code fit for a metric label."""
        try:
            call()
        except ProviderError as error:
            self.expect(bool(error.code) and len(error.code) <= 64, f"{what}: the error's code is {error.code!r}")
            return
        self.fail(f"{what} was not refused")

    def unchanged(self, what: str, call: Callable[[], None]) -> None:
        """Fail unless a call is refused and target and machines stay unchanged, now and later."""
        before = (self.group.target_size(), self.ids(self.group))
        self.refused(what, call)
        for moment in ("at once", "later"):
            after = (self.group.target_size(), self.ids(self.group))
            self.expect(after == before, f"{what} was refused, and yet {moment} {before} had become {after}")
            self.harness.settle()

    def restore(self) -> None:
        """Bring every disposable group down to its minimum."""
        self.harness.settle()
        for group_id in self.harness.group_ids:
            group = self.group_named(group_id)
            surplus = group.target_size() - group.min_size
            if surplus > 0:
                self._shrink(group, surplus)
            elif surplus < 0:
                group.increase(-surplus)
        self.harness.settle()

    def _shrink(self, group: NodeGroup, surplus: int) -> None:
        nodes = self.nodes(group)
        outstanding = min(surplus, group.target_size() - len(nodes))
        if outstanding > 0:
            group.decrease_target(outstanding)
        if surplus > outstanding:
            group.delete(nodes[-(surplus - max(outstanding, 0)) :])


def run_check(check: Check, harness: Harness) -> Result:
    """Run one check, with the groups brought to their minimum before and after it."""
    bench = Bench(harness)
    prepared = _result(check.name, bench.restore, "the groups cannot be brought to their minimum: ")
    if not prepared.passed:
        return prepared
    result = _result(check.name, lambda: check.run(bench))
    if isinstance(check, Final):
        return result
    restored = _result(check.name, bench.restore, "passed, but the groups cannot be brought back to their minimum: ")
    return result if restored.passed or not result.passed else restored


def _result(name: str, run: Callable[[], None], prefix: str = "") -> Result:
    try:
        run()
    except NotApplicable as reason:
        return Result(name, None, str(reason))
    except Failed as failure:
        return Result(name, False, f"{prefix}{failure}")
    except Exception as error:  # noqa: BLE001  # a provider may raise anything; that is what is being found out
        return Result(name, False, f"{prefix}{type(error).__name__}: {error}")
    return Result(name, True)


def run_checks(harness: Harness, checks: Sequence[Check]) -> Sequence[Result]:
    """Run checks in order."""
    return [run_check(check, harness) for check in checks]
