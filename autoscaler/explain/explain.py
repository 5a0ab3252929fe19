"""Explains why a pass decided as it did for a pod, node or node group, for `plan --explain` and the API.

The explanation uses only the pass itself: its report, its memory, and the simulated cluster of its decisions.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import StrEnum
from itertools import islice

import msgspec

from autoscaler.errors import ConfigError
from autoscaler.explain.answer import GroupExplanation, NodeExplanation, PlanExplanation, PodExplanation
from autoscaler.explain.explained_pass import ExplainedPass, explained_pass
from autoscaler.explain.group import explain_group
from autoscaler.explain.node import explain_node
from autoscaler.explain.pod import explain_pending, explain_running
from autoscaler.loop.ended_pass import EndedPass
from autoscaler.objects.meta import rfc3339
from autoscaler.objects.pod import Pod

_SHOWN = 5
Explained = PodExplanation | NodeExplanation | GroupExplanation


class ExplainKind(StrEnum):
    """The kinds of objects that can be explained."""

    POD = "pod"
    NODE = "node"
    GROUP = "group"


class ExplainTarget(msgspec.Struct, frozen=True):
    """One object to explain; the name of a pod is `namespace/name`."""

    kind: ExplainKind
    name: str

    def __str__(self) -> str:
        """Return the target as users type it."""
        return f"{self.kind}/{self.name}"


def parse_targets(words: Iterable[str]) -> tuple[ExplainTarget, ...]:
    """Read `pod/NAMESPACE/NAME`, `node/NAME` and `group/ID`; raises `ConfigError` that names every invalid word."""
    targets: list[ExplainTarget] = []
    problems: list[str] = []
    for word in words:
        kind, _, name = word.partition("/")
        named = len(name.split("/")) == 2 and all(name.split("/")) if kind == ExplainKind.POD else bool(name)
        if kind in set(ExplainKind) and named:
            targets.append(ExplainTarget(ExplainKind(kind), name))
        else:
            problems.append(f"{word}: write pod/NAMESPACE/NAME, node/NAME or group/ID")
    if problems:
        raise ConfigError(problems)
    return tuple(targets)


def explain(
    targets: Sequence[ExplainTarget], ended: EndedPass, placed: Mapping[str, Pod], name: str, run: int
) -> PlanExplanation:
    """Explain what a run decided about each target.

    `placed` are the pods of the cluster by key, including those that the pass ignores. Raises `ConfigError` with a line
    for every target that does not exist.
    """
    try:
        passed = explained_pass(ended)
    except ConfigError as error:
        raise ConfigError(f"run {run}: {error}") from None
    explained: list[Explained] = []
    problems: list[str] = []
    for target in targets:
        try:
            explained.append(explain_target(target, passed, placed))
        except ConfigError as error:
            problems.extend(f"{target}: {problem}" for problem in error.problems)
    if problems:
        raise ConfigError(problems)
    return PlanExplanation(name=name, run=run, at=rfc3339(ended.report.now.wall), explained=explained)


def explain_target(target: ExplainTarget, ended: ExplainedPass, placed: Mapping[str, Pod]) -> Explained:
    """Explain one target; raises `ConfigError` if it does not exist. `placed`: see `explain`."""
    return _EXPLAINERS[target.kind](target, ended, placed)


def _pod(target: ExplainTarget, ended: ExplainedPass, placed: Mapping[str, Pod]) -> Explained:
    pending = ended.view.pending
    pod = next((pod for pod in pending if pod.key == target.name), None)
    if pod is not None:
        return explain_pending(str(target), pod, ended)
    known = placed.get(target.name)
    if known is not None and known.node is not None:
        return explain_running(str(target), known, known.node, ended.view)
    raise ConfigError(_nothing_of("pending pod", "pending", (pod.key for pod in pending), len(pending)))


def _node(target: ExplainTarget, ended: ExplainedPass, placed: Mapping[str, Pod]) -> Explained:
    nodes, node = ended.view.nodes, ended.view.node(target.name)
    if node is None:
        raise ConfigError(_nothing_of("node", "nodes", (node.name for node in nodes), len(nodes)))
    return explain_node(str(target), node, ended)


def _group(target: ExplainTarget, ended: ExplainedPass, placed: Mapping[str, Pod]) -> Explained:
    groups, group = ended.view.groups.all, ended.view.groups.get(target.name)
    if group is None:
        raise ConfigError(_nothing_of("node group", "groups", (group.id for group in groups), len(groups)))
    return explain_group(str(target), group, ended)


_EXPLAINERS: Mapping[ExplainKind, Callable[[ExplainTarget, ExplainedPass, Mapping[str, Pod]], Explained]] = {
    ExplainKind.POD: _pod,
    ExplainKind.NODE: _node,
    ExplainKind.GROUP: _group,
}


def _nothing_of(noun: str, which: str, names: Iterable[str], count: int) -> str:
    shown = ", ".join(islice(names, _SHOWN))
    more = f" and {count - _SHOWN} more" if count > _SHOWN else ""
    return f"no such {noun}; {which} are: {shown}{more}" if count else f"no such {noun}; there are none"
