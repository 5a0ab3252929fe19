"""`autoscaler resume`: lifts pauses, whoever set them."""

import argparse
import sys
from collections.abc import Sequence

from autoscaler import logs
from autoscaler.cli import output
from autoscaler.cli.pause_target import add_target_arguments, pause_target
from autoscaler.errors import ConfigError
from cloudprovider.nearest import nearest


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare which pauses."""
    parser.add_argument("name", nargs="*", metavar="NAME", help="the pause of this name (default: every pause)")
    add_target_arguments(parser, "only for this node group; repeatable")


def run(args: argparse.Namespace) -> int:
    """Lift the pauses and print what was lifted. Raises `ConfigError` for names and groups that no pause has."""
    from autoscaler.scaledown.pause import PREFIX

    logs.silence()
    if args.name and args.group:
        raise ConfigError("--group: name either pauses or groups")
    with pause_target(args) as target:
        held = target.pauses.read()
        annotations = [key for key in held.metadata.annotations if key.startswith(PREFIX)]
        if args.group:
            changes = _without_groups(held.data, args.group)
        else:
            unknown = [name for name in args.name if name not in held.data]
            if unknown:
                raise ConfigError(f"{name}: no pause has that name{nearest(name, held.data)}" for name in unknown)
            changes = dict.fromkeys(args.name or held.data)
        lifted = [] if args.name or args.group else annotations
        if changes or lifted:
            target.pauses.write(changes, dict.fromkeys(lifted))
    for name, text in changes.items():
        output.write(f"{name}: {'resumed' if text is None else 'resumed for these groups'}", sys.stdout)
    if lifted:
        output.write("the annotations of the ConfigMap: resumed", sys.stdout)
    elif not changes:
        output.write("nothing is paused", sys.stdout)
    return 0


def _without_groups(data: dict[str, str], groups: Sequence[str]) -> dict[str, str | None]:
    """Return the entries that change where these groups are paused no longer; raises `ConfigError`."""
    from msgspec.structs import replace

    from autoscaler.scaledown.pause import entry_of, read_entry

    changes: dict[str, str | None] = {}
    met: set[str] = set()
    for name, text in data.items():
        pause = read_entry(name, text)
        left = tuple(group for group in pause.groups if group not in groups)
        if left != pause.groups:
            met.update(pause.groups)
            changes[name] = entry_of(replace(pause, groups=left)) if left else None
    everywhere = [name for name, text in data.items() if not read_entry(name, text).groups]
    hint = f"; the whole cluster is paused by {', '.join(everywhere)}" if everywhere else ""
    if missing := [group for group in groups if group not in met]:
        raise ConfigError(f"--group: no pause is of group {group} alone{hint}" for group in missing)
    return changes
