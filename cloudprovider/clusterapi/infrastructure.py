"""Machine templates of infrastructure providers, which define the Machines and state their capacity."""

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from cloudprovider.clusterapi.objects import Scalable, mapping, text
from cloudprovider.interface import NotFound, ObjectApi, ObjectKind, ProviderError, Transient
from cloudprovider.problems import Problems

_ASK_AGAIN_S = 300.0


class Reference(msgspec.Struct, frozen=True):
    """A group's reference to a machine template. The version is None after v1beta1: the server's preferred one."""

    group: str
    version: str | None
    kind: str
    namespace: str
    name: str


def reference_of(scalable: Scalable) -> Reference | None:
    """Return the reference to the machine template; None if there is no usable reference."""
    data = mapping(scalable.template.get("infrastructureRef"))
    kind, name = text(data.get("kind")), text(data.get("name"))
    group, version = text(data.get("apiGroup")), None
    if not group:
        group, _, version = text(data.get("apiVersion")).rpartition("/")
    if not (group and kind and name):
        return None
    return Reference(group, version, kind, text(data.get("namespace")) or scalable.namespace, name)


class Infrastructure:
    """Lists machine templates, each kind once a refresh. Kinds that are forbidden or not served are left out."""

    def __init__(self, api: ObjectApi, *, everywhere: bool) -> None:
        """`everywhere`: list a kind once for all namespaces, rather than once for each referenced namespace."""
        self._api = api
        self._everywhere = everywhere
        self._kinds: dict[tuple[str, str | None], Mapping[str, ObjectKind]] = {}
        self._given_up: dict[tuple[str, str | None, str], float] = {}

    def templates(
        self, scalables: Iterable[Scalable], now: float, problems: Problems
    ) -> Mapping[Reference, Mapping[str, Any]]:
        """Return the existing machine templates by reference. Raises `Transient`."""
        wanted: dict[tuple[str, str | None, str], set[str]] = {}
        for scalable in scalables:
            reference = reference_of(scalable)
            if reference is not None:
                sort = (reference.group, reference.version, reference.kind)
                wanted.setdefault(sort, set()).add(reference.namespace)
        by_reference: dict[Reference, Mapping[str, Any]] = {}
        for sort, namespaces in wanted.items():
            if now < self._given_up.get(sort, now):
                continue
            try:
                by_reference.update(self._listed(sort, namespaces))
            except Transient:
                raise
            except ProviderError as error:
                self._given_up[sort] = now + _ASK_AGAIN_S
                self._kinds.pop(sort[:2], None)
                problems.add("machine templates", f"{sort[2]} of {sort[0]} cannot be read: {error}")
        return by_reference

    def _listed(self, sort: tuple[str, str | None, str], namespaces: set[str]) -> Mapping[Reference, Mapping[str, Any]]:
        kind = self._kind(sort)
        by_reference: dict[Reference, Mapping[str, Any]] = {}
        for namespace in (None,) if self._everywhere else sorted(namespaces):
            for machine_template in self._api.list_objects(kind, namespace):
                metadata = mapping(machine_template.get("metadata"))
                by_reference[Reference(*sort, text(metadata.get("namespace")), text(metadata.get("name")))] = (
                    machine_template
                )
        return by_reference

    def _kind(self, sort: tuple[str, str | None, str]) -> ObjectKind:
        group, version, kind = sort
        if (group, version) not in self._kinds:
            self._kinds[group, version] = self._api.kinds(group, version)
        served = self._kinds[group, version].get(kind)
        if served is None:
            raise NotFound(f"the kind is not served in {group if version is None else f'{group}/{version}'}")
        return served
