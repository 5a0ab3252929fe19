"""`autoscaler pause`: leaves a cluster or node groups alone for a while.

It writes an entry of the ConfigMap of pauses, which the autoscaler watches; no daemon has to be reached.
"""

import argparse
import sys

from autoscaler import logs
from autoscaler.cli import output
from autoscaler.cli.pause_target import add_target_arguments, pause_target
from autoscaler.clock import SystemClock
from autoscaler.errors import ConfigError
from autoscaler.reasons import PauseScope
from cloudprovider.duration import parse_duration_s
from cloudprovider.nearest import nearest

_LONGEST_S = 366 * 86400.0
_SCOPES = {
    PauseScope.DRIFT: "replace no node for differing from what its group would make",
    PauseScope.DISRUPTION: "move no pod: remove only empty nodes, and replace none",
    PauseScope.SCALE_DOWN: "remove no node (the default)",
    PauseScope.ALL: "remove no node, and add none",
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare for how long, why, what and where."""
    parser.add_argument(
        "--for", dest="length_s", required=True, type=_length_s, metavar="DURATION", help="how long, such as 2h or 90m"
    )
    parser.add_argument("--reason", required=True, metavar="TEXT", help="why, for whoever wonders")
    scopes = parser.add_mutually_exclusive_group()
    for scope, text in _SCOPES.items():
        scopes.add_argument(f"--{scope}", dest="scope", action="store_const", const=scope, help=text)
    parser.set_defaults(scope=PauseScope.SCALE_DOWN)
    add_target_arguments(parser, "only this node group; repeatable (default: the whole cluster)")


def _length_s(text: str) -> float:
    try:
        seconds = parse_duration_s(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"{text!r} {error}") from error
    if not 0 < seconds <= _LONGEST_S:
        raise argparse.ArgumentTypeError(f"{text!r} is not above 0 and at most a year; write for example 2h")
    return seconds


def run(args: argparse.Namespace) -> int:
    """Write the pause and print it. Raises `ConfigError` for a group that does not exist."""
    from autoscaler.scaledown.pause import Pause, entry_of, pause_name, read_entry, shown

    logs.silence()
    now = SystemClock().now().wall
    with pause_target(args) as target:
        unknown = [group for group in args.group if target.groups and group not in target.groups]
        if unknown:
            raise ConfigError(f"--group: there is no group {name}{nearest(name, target.groups)}" for name in unknown)
        pause = Pause(
            name=pause_name(args.scope, args.group),
            scope=args.scope,
            groups=tuple(dict.fromkeys(args.group)),
            reason=shown(args.reason),
            by=shown(target.user),
            since=now,
            until=now + args.length_s,
        )
        held = target.pauses.read().data
        over = [name for name, text in held.items() if read_entry(name, text).over(now)]
        target.pauses.write({**dict.fromkeys(over), pause.name: entry_of(pause)})
    output.write(f"{pause.name}: {pause.words}", sys.stdout)
    return 0
