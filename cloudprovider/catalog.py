"""Providers by name. An adapter and its dependencies are imported only on request.

Plug-ins register an entry point in the group `autoscaler.cloudprovider` whose value is a `ProviderFactory`. The
providers of this package are known without one, so that a source checkout works without being installed.
"""

import typing
from collections.abc import Iterable, Iterator, Sequence
from importlib.metadata import EntryPoint, entry_points
from types import UnionType
from typing import Any

import msgspec

from cloudprovider import interface
from cloudprovider.interface import CloudProvider, Misconfigured, ProviderContext, ProviderFactory
from cloudprovider.nearest import nearest

GROUP = "autoscaler.cloudprovider"
BUILT_IN = (
    EntryPoint("aws", "cloudprovider.aws:create [aws]", GROUP),
    EntryPoint("azure", "cloudprovider.azure:create [azure]", GROUP),
    EntryPoint("clusterapi", "cloudprovider.clusterapi:create", GROUP),
    EntryPoint("externalgrpc", "cloudprovider.externalgrpc:create [grpc]", GROUP),
    EntryPoint("gce", "cloudprovider.gce:create [gce]", GROUP),
    EntryPoint("kwok", "cloudprovider.kwok:create", GROUP),
    EntryPoint("static", "cloudprovider.static:create", GROUP),
)
_PROVIDER_ABILITIES = (
    interface.Pricing,
    interface.KnowsInstances,
    interface.Accelerators,
)
_GROUP_ABILITIES = (
    interface.AtomicIncrease,
    interface.ForceDelete,
    interface.PrepareDelete,
    interface.GroupOptions,
    interface.Versioned,
)


class Listing(msgspec.Struct, frozen=True):
    """One provider that can be chosen."""

    name: str
    module: str
    extra: str | None
    """The optional dependencies it needs, as in `pip install node-autoscaler[extra]`."""
    abilities: Sequence[str] | None
    """Optional Protocols that it may have, by its factory's annotations; None if it cannot be imported."""


def registered() -> Sequence[EntryPoint]:
    """Return the providers of this package and those that installed distributions register."""
    return (*BUILT_IN, *entry_points(group=GROUP))


def entry_of(name: str, known: Iterable[EntryPoint] | None = None) -> EntryPoint:
    """Return the entry point of a provider; nothing is imported.

    `Misconfigured` where the name is unknown (the message lists the known ones) or claimed by two distributions.
    """
    entries = list(registered() if known is None else known)
    by_value = {entry.value: entry for entry in entries if entry.name == name}
    if not by_value:
        names = sorted({entry.name for entry in entries})
        hint = nearest(name, names)
        raise Misconfigured(f"cloud-provider: {name!r} is not installed; known are: {', '.join(names)}{hint}")
    if len(by_value) > 1:
        raise Misconfigured(f"cloud-provider: {name!r} is registered more than once: {', '.join(sorted(by_value))}")
    return next(iter(by_value.values()))


def factory(name: str, known: Iterable[EntryPoint] | None = None) -> ProviderFactory:
    """Import and return a provider's factory.

    `Misconfigured` as `entry_of`, and where the adapter's optional dependencies are not installed.
    """
    return _load(entry_of(name, known))


def create_provider(name: str, context: ProviderContext) -> CloudProvider:
    """Import a provider and make it; raises as `factory` and as the provider's own factory."""
    return factory(name)(context)


def installed(known: Iterable[EntryPoint] | None = None) -> Sequence[Listing]:
    """Describe every registered provider, by name. Imports them all."""
    unique = {(entry.name, entry.value): entry for entry in (registered() if known is None else known)}
    return [_listing(entry) for _, entry in sorted(unique.items())]


def _listing(entry: EntryPoint) -> Listing:
    extra = next(iter(entry.extras), None)
    try:
        abilities: Sequence[str] | None = tuple(abilities_of(_load(entry)))
    except Misconfigured:
        abilities = None
    return Listing(entry.name, entry.module, extra, abilities)


def _load(entry: EntryPoint) -> ProviderFactory:
    try:
        made = entry.load()
    except (ImportError, AttributeError) as error:
        extra = next(iter(entry.extras), None)
        hint = f"; install the extra: pip install 'node-autoscaler[{extra}]'" if extra else ""
        raise Misconfigured(f"cloud-provider: {entry.name} ({entry.value}) cannot be loaded: {error}{hint}") from error
    if not callable(made):
        raise Misconfigured(f"cloud-provider: {entry.name} ({entry.value}) is not a factory")
    return typing.cast("ProviderFactory", made)


def abilities_of(made_by: ProviderFactory) -> Iterator[str]:
    """Yield the optional Protocols that a factory's products may have, going by return annotations.

    A factory that returns a union is taken to have the abilities of any member: which one it makes depends on its
    configuration.
    """
    providers = [made_by] if isinstance(made_by, type) else list(_classes(_returned(made_by)))
    groups = [
        group_class for provider in providers for group_class in _classes(_returned(getattr(provider, "groups", None)))
    ]
    for classes, abilities in ((providers, _PROVIDER_ABILITIES), (groups, _GROUP_ABILITIES)):
        for ability in abilities:
            members = [member for member in vars(ability) if not member.startswith("_")]
            if any(all(hasattr(owner, member) for member in members) for owner in classes):
                yield ability.__name__


def _returned(function: Any) -> Any:
    try:
        return typing.get_type_hints(function).get("return")
    except (TypeError, NameError):
        return None


def _classes(annotation: Any) -> Iterator[type]:
    """Yield the classes that an annotation mentions: members of a union, elements of a sequence."""
    arguments = typing.get_args(annotation)
    if arguments and (typing.get_origin(annotation) in {typing.Union, UnionType} or len(arguments) in {1, 2}):
        for argument in arguments:
            yield from _classes(argument)
    elif isinstance(annotation, type):
        yield annotation
