"""`autoscaler load`: creates pods in a test cluster, watches them start, and removes them."""

import argparse
import re
import secrets
import signal
import sys
import threading

from autoscaler.cli import output
from autoscaler.cli.arguments import accept_flags, add_repeatable, daemon_config
from autoscaler.cli.output import OutputFormat
from autoscaler.cli.signals import INTERRUPTED, on_signals
from autoscaler.clock import SystemClock, ThreadExecutor
from autoscaler.errors import ConfigError, Stopped
from autoscaler.load.run import Generator, connect
from autoscaler.load.spec import LoadSpec
from autoscaler.observe.figures import count
from cloudprovider.number import parse_count
from cloudprovider.quantity import parse_quantity

_MOST = 50
_LARGEST = 999_999
_DEADLINE_S = 900.0
_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options for the shape and the limits of the load."""
    parser.add_argument("--count", type=_number, help="number of pods")
    parser.add_argument("--cpu", default="2", help="CPU request of each pod (default: 2)")
    parser.add_argument("--memory", default="2000000Ki", help="memory request of each pod (default: 2000000Ki)")
    parser.add_argument(
        "--in-namespace", default="load", metavar="NAMESPACE", help="namespace of the pods (default: load)"
    )
    parser.add_argument(
        "--duration",
        type=_number,
        default=300,
        help="seconds for which the pods stay once all of them run (default: 300)",
    )
    parser.add_argument("--priority-class", default="", metavar="NAME", help="PriorityClass of the pods")
    parser.add_argument("--image", default=LoadSpec(count=0).image, help="image that sleeps")
    parser.add_argument(
        "--max-pods",
        type=_number,
        default=_MOST,
        help=f"maximum number of generated pods at one time (default: {_MOST}; 0: none)",
    )
    parser.add_argument(
        "--deadline",
        type=_number,
        default=int(_DEADLINE_S),
        help="seconds within which the pods must start (default: 900)",
    )
    parser.add_argument(
        "--keep", action="store_true", help="leave the pods running; the clean-up of expired pods deletes them"
    )
    parser.add_argument("--delete", metavar="BATCH", help="delete the pods of a kept batch, and do nothing else")
    add_repeatable(parser, "--allow", "HOST", "host of an API server on another machine that may get load")
    output.add_output(parser)
    accept_flags(parser)
    parser.epilog = "--kubeconfig and the daemon's other flags select the cluster."


def _number(text: str) -> int:
    if (number := parse_count(text, _LARGEST)) is None:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number from 0 to {_LARGEST}")
    return number


def run(args: argparse.Namespace) -> int:
    """Create the load, wait, keep it, report, and always clean up; return 1 if a pod did not start."""
    problems = list(_problems(args))
    if problems:
        raise ConfigError(problems)
    config = daemon_config(args)
    clock = SystemClock()
    executor = ThreadExecutor(1)
    stopping = threading.Event()
    client = connect(config, clock, executor.sleep, args.allow)
    generator = Generator(
        client, clock, lambda seconds: not stopping.wait(seconds), executor.sleep, namespace=args.in_namespace
    )
    on_signals((signal.SIGINT, signal.SIGTERM), stopping.set)
    try:
        if args.delete is not None:
            output.write(f"{count(generator.delete(args.delete), 'pod')} deleted")
            return 0
        return generate(generator, _load(args), secrets.token_hex(4), args)
    finally:
        client.close()
        executor.stop()


def _load(args: argparse.Namespace) -> LoadSpec:
    return LoadSpec(
        count=args.count,
        cpu=args.cpu,
        memory=args.memory,
        namespace=args.in_namespace,
        duration_s=args.duration,
        deadline_s=float(args.deadline),
        priority_class=args.priority_class,
        image=args.image,
    )


def generate(generator: Generator, load: LoadSpec, name: str, args: argparse.Namespace) -> int:
    """Create a batch with this name, and remove it again unless the user wants to keep it; return the exit status."""
    try:
        batch, outcomes = generator.run(load, name, args.max_pods)
        if not args.keep and any(outcome.started_s is not None for outcome in outcomes):
            generator.keep(load.duration_s)
    except Stopped:
        print(f"stopped: {count(generator.delete(name), 'pod')} deleted", file=sys.stderr)
        return INTERRUPTED
    except BaseException:
        generator.delete(name)
        raise
    if not args.keep:
        generator.delete(name)
    failures = [outcome for outcome in outcomes if outcome.failure]
    for outcome in failures:
        print(f"{outcome.pod}: {outcome.failure}", file=sys.stderr)
    answer = {
        "batch": batch.batch,
        "requested": batch.requested,
        "created": len(batch.pods),
        "capped": batch.capped,
        "started": len(outcomes) - len(failures),
        "failed": len(failures),
        "longestStartSeconds": max(
            (outcome.started_s for outcome in outcomes if outcome.started_s is not None), default=None
        ),
    }
    if args.output is OutputFormat.TABLE:
        output.write("\n".join(f"{key}: {value}" for key, value in answer.items()))
    else:
        output.write_records([answer], args.output)
    return 1 if failures else 0


def _problems(args: argparse.Namespace) -> list[str]:
    problems = []
    if args.delete is None and not args.count:
        problems.append("--count: is missing; give the number of pods, 1 or more")
    if _LABEL.fullmatch(args.in_namespace) is None:
        problems.append(f"--in-namespace: {args.in_namespace!r} is not the name of a namespace")
    if args.delete is not None and _LABEL.fullmatch(args.delete) is None:
        problems.append(f"--delete: {args.delete!r} is not the name of a batch")
    if args.delete is None and args.max_pods == 0:
        problems.append("--max-pods: 0 allows no load")
    for flag in ("cpu", "memory"):
        try:
            if parse_quantity(getattr(args, flag)) <= 0:
                problems.append(f"--{flag}: {getattr(args, flag)} is not above 0")
        except ValueError as error:
            problems.append(f"--{flag}: {error}")
    return problems
