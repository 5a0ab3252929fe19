"""The labels that a pod requires of its node: which of them are misspelt, and which exist instead."""

import re
from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from functools import lru_cache

import msgspec
from msgspec.structs import replace

from autoscaler.explain.explained_pass import ExplainedPass
from autoscaler.explain.remedies.changes import PodField, SelectLabel
from autoscaler.explain.remedies.spot import Spot
from autoscaler.objects.meta import Operator, Requirement
from autoscaler.objects.node import HOSTNAME, INSTANCE_TYPES, REGIONS, ZONES
from autoscaler.objects.pod import PodClass
from autoscaler.objects.podspec import NodeSelector
from cloudprovider.nearest import nearest_word

ARCHITECTURES = ("kubernetes.io/arch", "beta.kubernetes.io/arch")
SYSTEMS = ("kubernetes.io/os", "beta.kubernetes.io/os")
_WORDS: Mapping[str, tuple[str, str]] = {
    **dict.fromkeys(ZONES, ("zone", "zones")),
    **dict.fromkeys(REGIONS, ("region", "regions")),
    **dict.fromkeys(ARCHITECTURES, ("architecture", "architectures")),
    **dict.fromkeys(SYSTEMS, ("operating system", "operating systems")),
    **dict.fromkeys(INSTANCE_TYPES, ("instance type", "instance types")),
}
_DISTINCT = (*_WORDS, HOSTNAME)
"""Keys whose values look alike without being misspelt."""
_ALIASES = {"x86_64": "amd64", "x86-64": "amd64", "x64": "amd64", "aarch64": "arm64", "arm": "arm64"}
_SHOWN = 5
_LONGEST = 80
_MOST = 500


class WantedLabel(msgspec.Struct, frozen=True):
    """A label that a pod requires: a key with one of several values."""

    field: PodField
    key: str
    values: tuple[str, ...]

    def __str__(self) -> str:
        """Return the label in the syntax of selectors."""
        return f"{self.key}={_listed(self.values, 'or')}"


def wanted_labels(cls: PodClass) -> Iterator[WantedLabel]:
    """Yield the labels in selector and required affinity of a class; if the affinity has several terms, those of all
    terms.
    """
    for key, value in cls.node_selector.items():
        yield WantedLabel(PodField.NODE_SELECTOR, key, (value,))
    for term in () if cls.node_affinity is None else cls.node_affinity.node_selector_terms:
        for requirement in term.match_expressions:
            if requirement.operator == Operator.IN and requirement.values:
                yield WantedLabel(PodField.NODE_AFFINITY, requirement.key, tuple(requirement.values))


def labels_that_exist(ended: ExplainedPass) -> Iterator[Mapping[str, str]]:
    """Yield the labels of each group's new nodes, in every zone; without groups, the labels of the nodes."""
    for template in ended.report.templates.values():
        yield template.node.labels
        if template.zones is not None:
            yield from (zonal.node.labels for zonal in template.zones.templates.values())
    if not ended.report.templates:
        yield from (node.labels for node in ended.view.nodes)


def keys_that_exist(ended: ExplainedPass) -> tuple[str, ...]:
    """Return the keys of all these labels."""
    return tuple(sorted({key for labels in labels_that_exist(ended) for key in labels}))


def values_of(key: str, ended: ExplainedPass) -> tuple[str, ...]:
    """Return the existing values of a label, sorted."""
    return tuple(sorted({labels[key] for labels in labels_that_exist(ended) if key in labels}))


def misspelt(cls: PodClass, ended: ExplainedPass) -> bool:
    """Whether a class requires a label that exists nowhere but resembles an existing one."""
    for wanted in wanted_labels(cls):
        known = values_of(wanted.key, ended)
        if known and set(wanted.values).isdisjoint(known) and near_word(wanted.key, wanted.values[0], known):
            return True
        if not known and _near_key(wanted.key, keys_that_exist(ended)) is not None:
            return True
    return False


def foreign_groups(cls: PodClass, ended: ExplainedPass) -> frozenset[str]:
    """Return the groups whose architecture or operating system is probably wrong for the class.

    The right one is the one that the class requires, or else the most frequent one among nodes.
    """
    foreign: set[str] = set()
    for keys in (ARCHITECTURES, SYSTEMS):
        home = {value for wanted in wanted_labels(cls) if wanted.key in keys for value in wanted.values}
        counts: Counter[str] = Counter()
        own: dict[str, str] = {}
        for group in ended.view.groups.all:
            template = ended.report.templates.get(group.id)
            labels = {} if template is None else template.node.labels
            value = next((labels[key] for key in keys if key in labels), None)
            if value is not None:
                own[group.id] = value
                counts[value] += 1 + group.target_size
        home = home or {value for value, _ in counts.most_common(1)}
        foreign.update(group for group, value in own.items() if value not in home)
    return frozenset(foreign)


def corrections(spot: Spot) -> Iterator[SelectLabel]:
    """Yield labels of the node that can replace required labels which exist nowhere."""
    labels = spot.node.labels
    for wanted in wanted_labels(spot.cls):
        known = values_of(wanted.key, spot.ended)
        if not set(wanted.values).isdisjoint(known) or labels.get(wanted.key) in wanted.values:
            continue
        value, here = wanted.values[0], labels.get(wanted.key)
        key, instead = wanted.key, here
        if not known:
            key = _near_key(wanted.key, keys_that_exist(spot.ended)) or ""
            instead = value if labels.get(key) == value else None
        elif here != (near_word(wanted.key, value, known) or (here if wanted.key in ZONES else None)):
            instead = None
        if instead is not None:
            yield SelectLabel(
                pod=spot.pod.key,
                field=wanted.field,
                key=key,
                value=instead,
                wrong_key=wanted.key,
                wrong_value=value,
            )


@lru_cache(maxsize=256)
def near_word(key: str, word: str, known: tuple[str, ...]) -> str | None:
    """Return the known label value that a word was probably meant to be.

    Long words, and more than a few hundred words, are not compared, because the time grows with the square.
    """
    if key in (*ARCHITECTURES, *SYSTEMS) and _ALIASES.get(word) in known:
        return _ALIASES[word]
    if len(word) > _LONGEST:
        return None
    plain = [other for other in known if _plain(other) == _plain(word)]
    if plain or key in _DISTINCT:
        return plain[0] if plain else None
    close = nearest_word(word, [other for other in known[:_MOST] if len(other) <= _LONGEST])
    return None if close is None or _numbered_alike(word, close) else close


def _plain(word: str) -> str:
    return re.sub(r"[-_.]", "", word.lower())


def _numbered_alike(first: str, second: str) -> bool:
    """Whether two words differ only in short parts, such as `pool-1` and `pool-2`; then neither is misspelt."""
    parts, others = (re.split(r"[-_.]", re.sub(r"\d+", "", word)) for word in (first, second))
    if len(parts) != len(others):
        return False
    return all(part == theirs or max(len(part), len(theirs)) <= 2 for part, theirs in zip(parts, others, strict=True))


def corrected(selector: NodeSelector, changes: Collection[SelectLabel]) -> NodeSelector:
    """Return a required node affinity with the corrected labels."""
    terms = [
        replace(term, match_expressions=[_corrected(requirement, changes) for requirement in term.match_expressions])
        for term in selector.node_selector_terms
    ]
    return NodeSelector(node_selector_terms=terms)


def _corrected(requirement: Requirement, changes: Collection[SelectLabel]) -> Requirement:
    for change in changes:
        same_key = requirement.operator == Operator.IN and requirement.key == change.wrong_key
        if same_key and change.wrong_value in requirement.values:
            return replace(requirement, key=change.key, values=[change.value])
    return requirement


def unlike(spot: Spot) -> str:
    """Return the label that the pod requires and the node lacks, and the values that exist."""
    labels = spot.node.labels
    missing = [wanted for wanted in wanted_labels(spot.cls) if labels.get(wanted.key) not in wanted.values]
    for wanted in missing:
        known = values_of(wanted.key, spot.ended)
        if set(wanted.values).isdisjoint(known):
            return _unknown(wanted, known, spot.ended)
    if missing:
        return f"wants {missing[0]}, which {spot.place} does not have"
    return f"has a required node affinity that does not match {spot.place}"


def _unknown(wanted: WantedLabel, known: tuple[str, ...], ended: ExplainedPass) -> str:
    whose = "group" if ended.report.templates else "node"
    if wanted.key in _WORDS and known:
        noun = _WORDS[wanted.key][0]
        near = near_word(wanted.key, wanted.values[0], known)
        guess = "" if near is None else f" (did you mean {near}?)"
        return f"wants {noun} {_listed(wanted.values, 'or')}, {that_exist(wanted.key, known)}{guess}"
    value = wanted.values[0]
    if wanted.key == HOSTNAME:
        return f"wants the node whose host name is {value}"
    near = near_word(wanted.key, value, known) if known else _near_key(wanted.key, keys_that_exist(ended))
    if near is not None:
        return f"wants {wanted}, no {whose} has that label (did you mean {near}?)"
    exist = f" (there {'is' if len(known) == 1 else 'are'} {_listed(known)})" if known else ""
    return f"wants {wanted}, no {whose} has that label{exist}"


def in_another(key: str) -> str:
    """Return the place of nodes with another value of a label: `in another zone`."""
    return f"in another {_WORDS[key][0]}" if key in _WORDS else f"with another {key}"


def that_exist(key: str, values: Collection[str]) -> str:
    """Return the existing values of a well-known label in words: `the zones are a and b`."""
    one, many = _WORDS[key]
    return f"the only {one} is {_listed(values)}" if len(values) == 1 else f"the {many} are {_listed(values)}"


def _near_key(key: str, keys: tuple[str, ...]) -> str | None:
    same_end = [other for other in keys if other.rpartition("/")[2] == key.rpartition("/")[2]]
    if same_end:
        return min(same_end, key=lambda other: ("beta" in other, other))
    return near_word("", key, keys)


def _listed(values: Collection[str], last: str = "and") -> str:
    *head, final = values
    if len(values) > _SHOWN:
        return f"{', '.join(head[: _SHOWN - 1])} and {len(values) - _SHOWN + 1} more"
    return f"{', '.join(head)} {last} {final}" if head else final
