"""`autoscaler plan`: what a pass would do, and why; nothing is written anywhere."""

import argparse
import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from autoscaler.cli import output
from autoscaler.cli.arguments import accept_flags
from autoscaler.cli.explanation_text import explanation_text
from autoscaler.cli.output import Format
from autoscaler.config.arguments import parse_flags
from autoscaler.config.flags import flags
from autoscaler.errors import ConfigError
from autoscaler.scenario.codec import load
from autoscaler.scenario.scenario import Scenario
from autoscaler.simulator.answer import Answer, RunAnswer
from autoscaler.simulator.explain import Target, parse_targets
from autoscaler.simulator.explanation import Explanation
from autoscaler.simulator.play import play, play_and_explain

_NAMES_SHOWN = 3
_FLAGS_NOTE = "Cluster Autoscaler's flags, such as --expander=most-pods or --compatibility=1.31, go before the file's."


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare `--scenario`, `--explain` and `-o`; flags of Cluster Autoscaler are let through."""
    parser.add_argument(
        "--scenario",
        action="append",
        required=True,
        metavar="FILE",
        help="scenario file (JSON or YAML); repeat it for several",
    )
    parser.add_argument(
        "--explain",
        action="append",
        default=[],
        metavar="TARGET",
        help="say why for pod/NAMESPACE/NAME, node/NAME or group/ID, instead of the plan; repeat it for several",
    )
    parser.add_argument(
        "--run", type=int, metavar="N", help="the run to explain, counted from 0 (default: the last one)"
    )
    output.add_output(parser)
    accept_flags(parser)
    parser.epilog = _FLAGS_NOTE


def run(args: argparse.Namespace) -> int:
    """Print the answer of each file in order; unusable ones are left out, then named in one `ConfigError`."""
    overrides, targets = _overrides(args.flags), parse_targets(args.explain)
    if args.run is not None and not targets:
        raise ConfigError(f"--run {args.run}: it goes with --explain")
    problems: list[str] = []
    for path in args.scenario:
        try:
            scenario = load(path, overrides)
        except ConfigError as error:
            problems.extend(error.problems)
            continue
        for warning in scenario.warnings:
            print(f"{path}: warning: {warning}", file=sys.stderr)
        try:
            _write(_answer(scenario, targets, args.run), args.output)
        except ConfigError as error:
            problems.extend(problem if targets else f"{path}: options: {problem}" for problem in error.problems)
    if problems:
        raise ConfigError(problems)
    return 0


def _overrides(words: Sequence[str]) -> Mapping[str, Any]:
    """Return flags as a scenario's options have them."""
    settings = parse_flags(words)
    if settings.problems:
        raise ConfigError(settings.problems)
    known = flags()
    return {
        name: [known[name].show((item,)) for item in value] if known[name].syntax.repeated else known[name].show(value)
        for name, value in settings.values.items()
    }


def _answer(scenario: Scenario, targets: Sequence[Target], run_: int | None) -> Answer | Explanation:
    return play_and_explain(scenario, targets, run_) if targets else play(scenario)


def _write(answer: Answer | Explanation, form: Format) -> None:
    if form is Format.JSON:
        output.write(output.to_json(answer, compact=True))
    elif form is Format.YAML:
        output.write("---\n" + output.to_yaml(answer))
    else:
        text = explanation_text(answer) if isinstance(answer, Explanation) else _text(answer)
        output.write("\n".join(text))


def _text(answer: Answer) -> Iterator[str]:
    for run_ in answer.runs:
        yield f"{answer.name}, run {run_.run} at {run_.at}: {_headline(run_)}"
        for title, header, rows in _tables(run_):
            if rows:
                yield f"\n{title}"
                yield output.to_table(header, rows)
        yield ""


def _headline(run_: RunAnswer) -> str:
    if run_.error or run_.scale_up_error:
        return f"failed: {run_.error or run_.scale_up_error}"
    bought = sum(change.increase for change in run_.scale_ups)
    if bought:
        return f"{_count(bought, 'new node')} for {_count(len(run_.pods_triggered_scale_up), 'pod')}"
    if run_.end != "Complete":
        return f"the pass ended early: {run_.end}"
    left = len(run_.pods_needing_scale_up)
    if left:
        return f"no new nodes, {_count(left, 'pod')} without one: {run_.scale_up_result}"
    gone = len(run_.deleted_empty) + len(run_.deleted_drain)
    if gone:
        return f"{_count(gone, 'node')} removed"
    unneeded = len(run_.unneeded_nodes)
    return f"no new nodes needed, {_count(unneeded, 'node')} unneeded" if unneeded else "no new nodes needed"


def _tables(run_: RunAnswer) -> Iterator[tuple[str, Sequence[str], list[tuple[object, ...]]]]:
    reasons = run_.reasons
    yield (
        "Node groups whose size changes",
        ("GROUP", "CHANGE", "TARGET"),
        [
            (change.group, f"{change.increase:+d}", run_.target_sizes[change.group])
            for change in (*run_.scale_ups, *run_.target_decreases)
        ],
    )
    yield (
        "Machines deleted",
        ("GROUP", "ID"),
        [(delete.group, delete.id) for delete in run_.cloud_deletes],
    )
    yield (
        "Pods that get new nodes",
        ("PODS", "COUNT", "GROUP"),
        [(_names(one.owner, one.pods), len(one.pods), ", ".join(one.groups)) for one in reasons.helped],
    )
    yield (
        "Pods that no new node would take",
        ("PODS", "COUNT", "GROUP", "REASON", "WHY"),
        [
            (
                _names(one.owner, one.pods),
                len(one.pods),
                group,
                rejection.reason,
                _why(rejection.message, rejection.detail),
            )
            for one in reasons.unschedulable
            for group, found in one.rejected.items()
            for rejection in found
        ],
    )
    yield (
        "Pods left for the next pass",
        ("PODS", "COUNT"),
        [(_names("", run_.pods_await_evaluation), len(run_.pods_await_evaluation))]
        if run_.pods_await_evaluation
        else [],
    )
    yield (
        "Pending pods that need no new node",
        ("PODS", "COUNT", "REASON"),
        [(_names("", one.pods), len(one.pods), one.reason) for one in reasons.waiting],
    )
    yield (
        "Node groups left out",
        ("GROUP", "REASON", "WHY"),
        [(one.group, one.reason, _why(one.message, one.detail)) for one in reasons.skipped_groups],
    )
    yield (
        "Nodes being removed",
        ("NODE", "GROUP", "PODS TO MOVE"),
        [
            (one.node, one.group, len(one.evicted_pods))
            for one in sorted((*run_.deleted_empty, *run_.deleted_drain), key=lambda one: one.node)
        ],
    )
    yield (
        "Nodes that stay",
        ("NODE", "REASON", "WHY"),
        [(name, one.reason, _why(one.detail, one.pod or "")) for name, one in run_.unremovable.items()],
    )


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def _why(message: str, detail: str) -> str:
    return f"{message} ({detail})" if detail else message


def _names(owner: str, pods: Sequence[str]) -> str:
    """Name pods by their owner, else the first few of them."""
    if owner:
        return owner
    more = len(pods) - _NAMES_SHOWN
    return ", ".join(pods[:_NAMES_SHOWN]) + (f" and {more} more" if more > 0 else "")
