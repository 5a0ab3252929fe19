"""`autoscaler reservations`: checks targets, and plans reservations for announced work."""

import argparse
from collections.abc import Sequence

import msgspec

from autoscaler.cli import output
from autoscaler.cli.arguments import add_repeatable
from autoscaler.cli.lead_times import GivenLeads, add_lead
from autoscaler.cli.object_files import add_planner, add_validation, read_cluster
from autoscaler.cli.output import OutputFormat
from autoscaler.clock import SystemClock
from autoscaler.config.load import load_file
from autoscaler.config.reservations import Reservations
from autoscaler.errors import ConfigError
from autoscaler.eta.lead_time import Ahead
from autoscaler.objects.meta import JsonObject
from autoscaler.reservations.answer import answers
from autoscaler.reservations.plan import Operation
from autoscaler.reservations.state import TargetState, read_state
from autoscaler.reservations.store import STATE
from cloudprovider.duration import parse_duration_s
from cloudprovider.number import parse_int


class _Wish(msgspec.Struct, frozen=True):
    target: str
    amount: int
    duration_s: float | None = None


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare `plan` and `validate`."""
    actions = parser.add_subparsers(dest="action", required=True, metavar="plan|validate")
    plan = add_planner(
        actions,
        "reservations",
        "print the result of every target's reservations, without a cluster",
        "pods, nodes and ConfigMaps, including that of boot times,",
    )
    add_repeatable(
        plan,
        "--scale",
        "TARGET=N[,DURATION]",
        "reservations to add or, if negative, to remove, in this order; such as runners=3,30m",
        _wish,
    )
    add_lead(plan, "target")
    output.add_output(plan)
    add_validation(actions, "reservations")


def _wish(text: str) -> _Wish:
    target, equals, rest = text.partition("=")
    number, comma, duration = rest.partition(",")
    try:
        wish = _Wish(target, parse_int(number), parse_duration_s(duration) if comma else None)
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"{text!r} is not TARGET=N or TARGET=N,DURATION") from error
    if not (target and equals) or (wish.duration_s is not None and wish.duration_s <= 0):
        raise argparse.ArgumentTypeError(f"{text!r} is not TARGET=N or TARGET=N,DURATION")
    return wish


def run(args: argparse.Namespace) -> int:
    """Run the action; raises `ConfigError` for an unusable file."""
    config = load_file(args.file)
    section = config.reservations
    if section is None:
        raise ConfigError(f"{args.file}: has no reservations section")
    if args.action == "validate":
        count = len(section.targets)
        output.write(f"{args.file}: valid, {count} target{'' if count == 1 else 's'}")
        return 0
    wall = SystemClock().now().wall if args.now is None else args.now
    states, prefix = dict[str, TargetState](), section.store.prefix

    def take(obj: JsonObject) -> None:
        if obj.get("kind") == "ConfigMap" and (name := obj["metadata"]["name"]).startswith(prefix):
            states[name.removeprefix(prefix)] = read_state(obj["data"][STATE])

    view, boots = read_cluster(args.objects, take)
    given = GivenLeads(args.lead, section.by_name, boots, config, wall)
    leads = {target.name: given.lead(target.name, target.lead_time_s, Ahead()) for target in section.targets}
    target_answers = answers(section, states, _operations(section, args.scale), view, leads, wall)
    records = [msgspec.to_builtins(answer) for answer in target_answers]
    if args.output is OutputFormat.TABLE:
        for record in records:
            record.pop("entries")
            record["effects"] = ", ".join(f"{effect['result']} {effect['amount']}" for effect in record["effects"])
    output.write_records(records, args.output, args.color)
    return 0


def _operations(section: Reservations, wishes: Sequence[_Wish]) -> list[Operation]:
    targets, made = section.by_name, []
    if unknown := [wish.target for wish in wishes if wish.target not in targets]:
        raise ConfigError(f"--scale: there is no target {name}" for name in unknown)
    for number, wish in enumerate(wishes):
        target = targets[wish.target]
        length_s = target.default_duration_s if wish.duration_s is None else wish.duration_s
        made.append(Operation(target=wish.target, amount=wish.amount, length_s=length_s, seed=f"scale/{number}"))
    return made
