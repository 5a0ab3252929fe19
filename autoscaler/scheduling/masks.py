"""The filters of `fit` for all nodes at once: the nodes that a class may use."""

import numpy as np

from autoscaler.objects.matching import undeclared, untolerated
from autoscaler.objects.meta import Operator, Requirement
from autoscaler.objects.pod import PodClass
from autoscaler.objects.podspec import NodeSelector, NodeSelectorTerm
from autoscaler.snapshot.columns import Amounts, Mask
from autoscaler.snapshot.overlay import Trial

NAME_FIELD = "metadata.name"
_AS_MANY_AS_LIKE = 1 << 40
"""Copies of a class that asks for nothing; sums over nodes stay within 64 bits."""


def wanted(cls: PodClass, trial: Trial) -> Mask:
    """Return the nodes that the class's selector and required affinity accept."""
    mask = np.ones(trial.count, dtype=np.bool_)
    for key, value in cls.node_selector.items():
        mask &= _matching(trial, Requirement(key=key, operator=Operator.IN, values=[value]))
    if cls.node_affinity is not None:
        mask &= selected(cls.node_affinity, trial)
    return mask


def named(name: str, trial: Trial) -> Mask:
    """Return the node of that name."""
    return _named(trial, Requirement(key=NAME_FIELD, operator=Operator.IN, values=[name]))


def selected(selector: NodeSelector, trial: Trial) -> Mask:
    """Return the nodes that one of the selector's terms matches."""
    mask = np.zeros(trial.count, dtype=np.bool_)
    for term in selector.node_selector_terms:
        mask |= matching(term, trial)
    return mask


def tolerated(cls: PodClass, trial: Trial) -> Mask:
    """Return the nodes all of whose taints the class tolerates."""
    per_code = np.array([untolerated(cls, taints) is None for taints in trial.vocabulary.taints], dtype=np.bool_)
    result: Mask = per_code[trial.taint_codes]
    return result


def declaring(cls: PodClass, trial: Trial) -> Mask:
    """Return the nodes that declare every feature that the class needs."""
    nodes = map(trial.node, range(trial.count))
    return np.fromiter((not undeclared(cls, node) for node in nodes), dtype=np.bool_, count=trial.count)


def matching(term: NodeSelectorTerm, trial: Trial) -> Mask:
    """Return the nodes that the term matches; one without expressions matches none."""
    if not term.match_expressions and not term.match_fields:
        return np.zeros(trial.count, dtype=np.bool_)
    mask = np.ones(trial.count, dtype=np.bool_)
    for requirement in term.match_expressions:
        mask &= _matching(trial, requirement)
    for requirement in term.match_fields:
        if requirement.key == NAME_FIELD:
            mask &= _named(trial, requirement)
        else:
            mask &= requirement.matches(None)
    return mask


def _matching(trial: Trial, requirement: Requirement) -> Mask:
    codes = trial.labels(requirement.key)
    known = trial.vocabulary.values.get(requirement.key, {})
    match requirement.operator:
        case Operator.EXISTS:
            return codes >= 0
        case Operator.DOES_NOT_EXIST:
            return codes < 0
        case Operator.IN | Operator.NOT_IN:
            listed = [known[value] for value in requirement.values if value in known]
            inside: Mask = codes == listed[0] if len(listed) == 1 else np.isin(codes, listed)
            return inside if requirement.operator == Operator.IN else ~inside
        case _:
            ordered = sorted(known, key=known.__getitem__)
            # Codes past the vocabulary are host names made up for added nodes: no integers.
            highest = max(len(ordered), int(codes.max(initial=-1)) + 1)
            per_code = np.zeros(highest + 1, dtype=np.bool_)
            per_code[: len(ordered)] = [requirement.matches(value) for value in ordered]
            result: Mask = per_code[codes]
            return result


def _named(trial: Trial, requirement: Requirement) -> Mask:
    if requirement.operator == Operator.IN:
        mask = np.zeros(trial.count, dtype=np.bool_)
        listed = [trial.view.positions[name] for name in requirement.values if name in trial.view.positions]
        mask[listed] = True
        return mask
    names = map(trial.name, range(trial.count))
    return np.fromiter(map(requirement.matches, names), dtype=np.bool_, count=trial.count)


def roomy(request: Amounts, free: Amounts) -> Mask:
    """Return the nodes with at least `request` free; only amounts above zero are asked for."""
    rows = np.flatnonzero(request > 0)
    if not len(rows):
        return np.ones(free.shape[1], dtype=np.bool_)
    mask: Mask = free[rows[0]] >= request[rows[0]]
    for row in rows[1:]:
        mask &= free[row] >= request[row]
    return mask


def copies(request: Amounts, free: Amounts) -> Amounts:
    """Return how many such requests each node has room for; never negative."""
    rows = np.flatnonzero(request > 0)
    if not len(rows):
        return np.full(free.shape[1], _AS_MANY_AS_LIKE, dtype=np.int64)
    result: Amounts = free[rows[0]] // request[rows[0]]
    for row in rows[1:]:
        np.minimum(result, free[row] // request[row], out=result)
    return np.maximum(result, 0, out=result)
