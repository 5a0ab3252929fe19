"""What a provider's author gives to the suite, with defaults."""

import importlib
import inspect
from collections.abc import Callable, Sequence
from typing import Any, Protocol, runtime_checkable

from cloudprovider.interface import CloudProvider, Instance, Misconfigured, NodeRef, ProviderContext, State

_STEP_S = 5.0


@runtime_checkable
class Harness(Protocol):
    """A provider with groups that the suite may scale freely."""

    @property
    def provider(self) -> CloudProvider:
        """The provider under test."""
        ...

    @property
    def group_ids(self) -> Sequence[str]:
        """Disposable groups: one at least, two to try concurrent calls.

        Each can hold three machines more than its minimum. A minimum of one or more lets the suite try to break it.
        """
        ...

    def settle(self) -> None:
        """Let time pass until requests are met and deletions are over, then refresh the provider."""
        ...

    def node_for(self, instance: Instance) -> NodeRef:
        """Return the node that registers for a machine."""
        ...


@runtime_checkable
class CountsCalls(Protocol):
    """Ability of a harness: knows how many requests the provider has sent to the cloud."""

    def remote_calls(self) -> int:
        """Return the number of requests so far."""
        ...


class PlainHarness:
    """Drives a provider by waiting, which suits real clouds, for example.

    `wait` sleeps for a number of seconds; `now` returns the Unix time. `settle` gives up silently after `patience_s`
    seconds, and the check that needs the machines reports what is missing.
    """

    def __init__(
        self,
        provider: CloudProvider,
        group_ids: Sequence[str],
        wait: Callable[[float], None],
        now: Callable[[], float],
        patience_s: float = 900.0,
    ) -> None:
        self._provider = provider
        self._group_ids = tuple(group_ids)
        self._wait = wait
        self._now = now
        self._patience_s = patience_s

    @property
    def provider(self) -> CloudProvider:
        """The provider under test."""
        return self._provider

    @property
    def group_ids(self) -> Sequence[str]:
        """The groups it was given."""
        return self._group_ids

    def settle(self) -> None:
        """Refresh, and wait until each group has only running machines, and its target number of them."""
        waited_s = 0.0
        self._provider.refresh(self._now())
        while waited_s < self._patience_s and not self._is_settled():
            self._wait(_STEP_S)
            waited_s += _STEP_S
            self._provider.refresh(self._now())

    def node_for(self, instance: Instance) -> NodeRef:
        """Return a node that is known by the machine's id alone."""
        return NodeRef(instance.provider_id, instance.provider_id)

    def _is_settled(self) -> bool:
        for group in self._provider.groups():
            if group.id in self._group_ids:
                states = [instance.state or State.RUNNING for instance in group.instances()]
                if len(states) != group.target_size() or any(state is not State.RUNNING for state in states):
                    return False
        return True


def open_harness(
    target: str, context: ProviderContext, wait: Callable[[float], None], group_ids: Sequence[str] = ()
) -> Harness:
    """Make a harness from `MODULE:NAME`, which names a harness class, a provider class or a provider's factory.

    The named object is called with the context if it takes an argument. For a provider, the disposable groups are
    `group_ids`, by default its first two. Raises `Misconfigured` if the name cannot be resolved.
    """
    made = _call(_import(target), context)
    if isinstance(made, Harness):
        return made
    if not isinstance(made, CloudProvider):
        raise Misconfigured(f"{target}: made a {type(made).__name__}, which is neither a CloudProvider nor a Harness")
    made.refresh(context.now())
    known = [group.id for group in made.groups()]
    unknown = sorted(set(group_ids) - set(known))
    if unknown:
        raise Misconfigured(f"{target}: has no node group {', '.join(unknown)}; it has: {', '.join(known)}")
    if not known:
        raise Misconfigured(f"{target}: has no node group to try")
    return PlainHarness(made, list(group_ids) or known[:2], wait, context.now)


def _import(target: str) -> Callable[..., Any]:
    module, _, name = target.partition(":")
    try:
        imported = getattr(importlib.import_module(module), name) if module and name else None
    except (ImportError, AttributeError) as error:
        raise Misconfigured(f"{target}: {error}") from error
    if not callable(imported):
        raise Misconfigured(f"{target}: is not MODULE:NAME of a class or function")
    return imported  # type: ignore[no-any-return]  # callable() narrows to something less than Callable


def _call(made_by: Callable[..., Any], context: ProviderContext) -> Any:
    try:
        parameters = inspect.signature(made_by).parameters.values()
    except ValueError as error:
        raise Misconfigured(f"{made_by!r}: cannot tell how to call it: {error}") from error
    wanted = [
        parameter
        for parameter in parameters
        if parameter.default is parameter.empty
        and parameter.kind not in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD)
    ]
    if len(wanted) > 1:
        raise Misconfigured(f"{made_by!r}: takes {len(wanted)} arguments, not one context")
    return made_by(context) if wanted else made_by()
