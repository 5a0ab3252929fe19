"""Selects the objects to scale: `--node-group-auto-discovery=clusterapi:namespace=NS,clusterName=NAME,K=V`."""

from collections.abc import Mapping, Sequence

import msgspec

from cloudprovider.clusterapi.objects import Scalable
from cloudprovider.problems import Problems

_DISCOVERER = "clusterapi"
_FORM = f"{_DISCOVERER}:namespace=NAMESPACE,clusterName=NAME,LABEL=VALUE"


class Selector(msgspec.Struct, frozen=True):
    """One specification. Fields that it leaves out match anything."""

    namespace: str = ""
    cluster: str = ""
    labels: Mapping[str, str] = {}

    def matches(self, scalable: Scalable) -> bool:
        """Whether the object meets the whole specification."""
        return (
            self.namespace in ("", scalable.namespace)
            and self.cluster in ("", scalable.cluster)
            and all(scalable.labels.get(label) == value for label, value in self.labels.items())
        )


class Selection(msgspec.Struct, frozen=True):
    """All specifications. An object is selected if any of them matches, or if there are none."""

    selectors: tuple[Selector, ...] = ()

    def matches(self, scalable: Scalable) -> bool:
        """Whether the object is selected."""
        return not self.selectors or any(selector.matches(scalable) for selector in self.selectors)

    @property
    def namespaces(self) -> tuple[str | None, ...]:
        """The namespaces to look in; None alone means all namespaces."""
        named = dict.fromkeys(selector.namespace for selector in self.selectors)
        return tuple(named) if named and "" not in named else (None,)

    @property
    def clusters(self) -> tuple[str, ...]:
        """The named clusters; empty if a specification is for any cluster."""
        named = dict.fromkeys(selector.cluster for selector in self.selectors)
        return () if "" in named else tuple(named)


def read_selection(specs: Sequence[str], problems: Problems) -> Selection:
    """Return the selection that the specifications make; malformed ones go to `problems`."""
    return Selection(tuple(_selector(spec, problems) for spec in specs))


def _selector(spec: str, problems: Problems) -> Selector:
    discoverer, colon, rest = spec.partition(":")
    if discoverer != _DISCOVERER or not colon or ":" in rest:
        problems.add("node-group-auto-discovery", f"{spec!r} is not of the form {_FORM}")
        return Selector()
    terms: dict[str, str] = {}
    for term in filter(None, rest.split(",")):
        key, equals, value = term.partition("=")
        if not key or not equals or "=" in value:
            problems.add("node-group-auto-discovery", f"{term!r} in {spec!r} is not of the form key=value")
        elif terms.get(key, value) != value:
            problems.add("node-group-auto-discovery", f"{key!r} has two values in {spec!r}")
        else:
            terms[key] = value
    return Selector(terms.pop("namespace", ""), terms.pop("clusterName", ""), terms)
