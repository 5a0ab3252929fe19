"""`autoscaler load`: pods of a given shape for a test cluster, watched until they start, then removed."""

import argparse
import re
import secrets
import threading

from autoscaler.app.load import Generator
from autoscaler.cli import output
from autoscaler.cli.arguments import accept_flags, daemon_config
from autoscaler.cli.output import Format
from autoscaler.clock import SystemClock
from autoscaler.companions.load import Load
from autoscaler.errors import ConfigError
from cloudprovider.number import parse_count
from cloudprovider.quantity import parse_quantity

_MOST = 50
_LARGEST = 999_999
_DEADLINE_S = 900.0
_BATCH = re.compile(r"[a-z0-9]([-a-z0-9]{0,30}[a-z0-9])?")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the shape of the load and what bounds it."""
    parser.add_argument("--count", type=_number, help="how many pods")
    parser.add_argument("--cpu", default="2", help="CPU that each asks for (default: 2)")
    parser.add_argument("--memory", default="2000000Ki", help="memory that each asks for (default: 2000000Ki)")
    parser.add_argument("--in-namespace", default="load", metavar="NAMESPACE", help="where they go (default: load)")
    parser.add_argument("--duration", type=_number, default=300, help="seconds that they are to run (default: 300)")
    parser.add_argument("--priority-class", default="", metavar="NAME", help="their PriorityClass")
    parser.add_argument("--image", default=Load(count=0).image, help="an image that sleeps")
    parser.add_argument(
        "--max-pods", type=_number, default=_MOST, help=f"most generated pods at one time (default: {_MOST}; 0: none)"
    )
    parser.add_argument(
        "--deadline", type=_number, default=int(_DEADLINE_S), help="seconds within which they must start (default: 900)"
    )
    parser.add_argument(
        "--keep", action="store_true", help="leave the pods there; the clean-up of expired pods takes them"
    )
    parser.add_argument(
        "--delete", metavar="BATCH", help="delete the pods of a batch that was kept, and do nothing else"
    )
    parser.add_argument(
        "--allow",
        action="append",
        default=[],
        metavar="HOST",
        help="API server, not on this machine, that may get load",
    )
    output.add_output(parser)
    accept_flags(parser)
    parser.epilog = "--kubeconfig and the other flags of the daemon say which cluster it is."


def _number(text: str) -> int:
    if (number := parse_count(text, _LARGEST)) is None:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number from 0 to {_LARGEST}")
    return number


def run(args: argparse.Namespace) -> int:
    """Make the load, wait, report, and clean up whatever happened."""
    problems = list(_problems(args))
    if problems:
        raise ConfigError(problems)
    stopping = threading.Event()
    config = daemon_config(args)
    generator = Generator(
        config,
        SystemClock(),
        lambda seconds: not stopping.wait(seconds),
        namespace=args.in_namespace,
        allowed=args.allow,
    )
    try:
        if args.delete is not None:
            output.write(f"{generator.delete(args.delete)} pods deleted")
            return 0
        return _generate(generator, args)
    finally:
        generator.close()


def _generate(generator: Generator, args: argparse.Namespace) -> int:
    load = Load(
        count=args.count,
        cpu=args.cpu,
        memory=args.memory,
        namespace=args.in_namespace,
        duration_s=args.duration,
        priority_class=args.priority_class,
        image=args.image,
    )
    name = secrets.token_hex(4)
    try:
        batch = generator.create(load, name, args.max_pods)
        outcomes = list(generator.wait(batch, float(args.deadline)))
    except BaseException:
        generator.delete(name)
        raise
    if not args.keep:
        generator.delete(name)
    failures = [one for one in outcomes if one.failure]
    answer = {
        "batch": batch.batch,
        "requested": batch.requested,
        "created": len(batch.pods),
        "capped": batch.capped,
        "started": len(outcomes) - len(failures),
        "failed": len(failures),
        "longestStartSeconds": max((one.started_s for one in outcomes if one.started_s is not None), default=None),
    }
    if args.output is Format.TABLE:
        output.write("\n".join(f"{key}: {value}" for key, value in answer.items()))
    else:
        output.write_records([answer], args.output)
    return 1 if failures else 0


def _problems(args: argparse.Namespace) -> list[str]:
    found = []
    if args.delete is None and not args.count:
        found.append("--count: is missing; say how many pods, 1 or more")
    if args.delete is not None and _BATCH.fullmatch(args.delete) is None:
        found.append(f"--delete: {args.delete!r} is not the name of a batch")
    if args.delete is None and args.max_pods == 0:
        found.append("--max-pods: 0 means that no load may be made")
    for flag in ("cpu", "memory"):
        try:
            parse_quantity(getattr(args, flag))
        except ValueError as error:
            found.append(f"--{flag}: {error}")
    return found
