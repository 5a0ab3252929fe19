"""Which classes of pods a term is about, and how to find them without asking every class about every term.

A class has hooks: its namespace, its labels, its own anti-affinity terms. A selection names hooks of which every class
that it covers has one, so an index by hook leaves few to ask.
"""

import hashlib
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from typing import Generic, TypeVar

import msgspec

from autoscaler.objects.meta import LabelSelector, Operator, selects
from autoscaler.objects.pod import PodClass
from autoscaler.objects.podspec import PodAffinityTerm
from autoscaler.objects.workload import Namespace

T = TypeVar("T")

Hook = Hashable
"""A namespace as `(name,)`, a label's key, a label as `(key, value)`, or `ANY`; others by whoever adds them."""
ANY: Hook = ()
"""What every class has."""

_ENCODER = msgspec.msgpack.Encoder(order="deterministic")


class Selection(msgspec.Struct, frozen=True):
    """Classes of pods."""

    identity: bytes
    """Equal for selections that cover the same."""
    alternatives: tuple[tuple[Hook, ...], ...]
    """Sets of hooks, single labels first: every class that is covered has a hook of each set."""
    covers: Callable[[PodClass], bool]

    @property
    def narrow(self) -> Sequence[tuple[Hook, ...]]:
        """The alternatives that are single labels; where there is none, the first one."""
        return [hooks for hooks in self.alternatives if len(hooks) == 1 and _is_label(hooks[0])] or (
            self.alternatives[:1]
        )


def _is_label(hook: Hook) -> bool:
    return isinstance(hook, tuple) and len(hook) == 2


class Index(Generic[T]):
    """Things by hook, in the order in which they were added."""

    def __init__(self) -> None:
        self._by_hook: dict[Hook, list[T]] = {}

    def add(self, thing: T, hooks: Iterable[Hook]) -> None:
        """Add something under all its hooks."""
        for hook in hooks:
            self._by_hook.setdefault(hook, []).append(thing)

    def at(self, hook: Hook) -> Sequence[T]:
        """Return what is under a hook."""
        return self._by_hook.get(hook, ())

    def rarest(self, alternatives: Sequence[tuple[Hook, ...]]) -> tuple[Hook, ...]:
        """Return the first of the sets of hooks under which there is least."""
        return min(alternatives, key=lambda hooks: sum(len(self.at(hook)) for hook in hooks))


def hooks_of(cls: PodClass) -> Iterator[Hook]:
    """Yield what a class can be found by."""
    yield ANY
    yield (cls.namespace,)
    for pair in cls.labels.items():
        yield pair[0]
        yield pair


def term_covers(term: PodAffinityTerm, owner: PodClass, other: PodClass, namespaces: Mapping[str, Namespace]) -> bool:
    """Whether a term of `owner` is about pods of class `other`.

    Namespaces are those listed and those selected (an empty selector selects all); with neither, the owner's own.
    `matchLabelKeys` add the owner's own value of a label to the selector, `mismatchLabelKeys` exclude it.
    """
    if term.namespaces or term.namespace_selector is not None:
        listed = other.namespace in term.namespaces
        if not listed and not _namespace_selected(term, other.namespace, namespaces):
            return False
    elif other.namespace != owner.namespace:
        return False
    if not selects(term.label_selector, other.labels):
        return False
    same = all(other.labels.get(key) == owner.labels[key] for key in term.match_label_keys if key in owner.labels)
    return same and not any(
        other.labels.get(key) == owner.labels[key] for key in term.mismatch_label_keys if key in owner.labels
    )


def _namespace_selected(term: PodAffinityTerm, name: str, namespaces: Mapping[str, Namespace]) -> bool:
    if term.namespace_selector is None:
        return False
    if term.namespace_selector.empty:
        return True
    known = namespaces.get(name)
    return known is not None and term.namespace_selector.matches(known.metadata.labels)


def selection_of(term: PodAffinityTerm, owner: PodClass, namespaces: Mapping[str, Namespace]) -> Selection:
    """Return which classes a term of `owner` is about."""
    same = {key: owner.labels[key] for key in term.match_label_keys if key in owner.labels}
    other = {key: owner.labels[key] for key in term.mismatch_label_keys if key in owner.labels}
    inside = sorted(term.namespaces) if term.namespaces or term.namespace_selector is not None else [owner.namespace]
    named = [inside] if term.namespace_selector is None else []
    return Selection(
        identity=_identity(inside, term.namespace_selector, term.label_selector, same, other),
        alternatives=_alternatives(term.label_selector, same, named),
        covers=lambda cls: term_covers(term, owner, cls, namespaces),
    )


def _identity(*parts: object) -> bytes:
    return hashlib.blake2b(_ENCODER.encode(parts), digest_size=16).digest()


def _alternatives(
    selector: LabelSelector | None, same: Mapping[str, str], inside: Iterable[Iterable[str]]
) -> tuple[tuple[Hook, ...], ...]:
    if selector is None:
        return ((),)
    listed = [one for one in selector.match_expressions if one.operator == Operator.IN]
    present = [one for one in selector.match_expressions if one.operator == Operator.EXISTS]
    return (
        *((pair,) for pair in same.items()),
        *((pair,) for pair in selector.match_labels.items()),
        *(tuple((one.key, value) for value in dict.fromkeys(one.values)) for one in listed),
        *(tuple((name,) for name in dict.fromkeys(names)) for names in inside),
        *((one.key,) for one in present),
        (ANY,),
    )


def selected_in(namespace: str, selector: LabelSelector | None, same: Mapping[str, str]) -> Selection:
    """Return the classes of one namespace that a selector matches and that have these labels too.

    One that asks for nothing matches nothing.
    """
    asks = selector is not None and not (selector.empty and not same)

    def covers(cls: PodClass) -> bool:
        inside = asks and cls.namespace == namespace and selects(selector, cls.labels)
        return inside and all(cls.labels.get(key) == value for key, value in same.items())

    identity = _identity("selected", namespace, selector, same)
    return Selection(identity, _alternatives(selector, same, [[namespace]]), covers)


def siblings(cls: PodClass) -> Selection:
    """Return the classes of the same controller."""
    return Selection(
        identity=_identity("siblings", cls.namespace, cls.owner),
        alternatives=(((cls.namespace,),),),
        covers=lambda other: other.namespace == cls.namespace and other.owner == cls.owner,
    )


def distinct(selections: Iterable[Selection]) -> tuple[Selection, ...]:
    """Return the selections without those that cover the same as one before."""
    by_identity: dict[bytes, Selection] = {}
    for one in selections:
        by_identity.setdefault(one.identity, one)
    return tuple(by_identity.values())


def all_of(selections: Iterable[Selection]) -> Selection:
    """Return what all selections cover, at least one of which there is."""
    parts = distinct(selections)
    return Selection(
        identity=_identity("all", sorted(part.identity for part in parts)),
        alternatives=tuple(hooks for part in parts for hooks in part.alternatives),
        covers=lambda cls: all(part.covers(cls) for part in parts),
    )


def having(hooks: Iterable[tuple[bytes, str]]) -> Selection:
    """Return what has one of these hooks."""
    listed = sorted(hooks)
    return Selection(identity=_identity("hooks", listed), alternatives=(tuple(listed),), covers=lambda cls: True)


def everything() -> Selection:
    """Return all classes."""
    return Selection(identity=b"", alternatives=((ANY,),), covers=lambda cls: True)
