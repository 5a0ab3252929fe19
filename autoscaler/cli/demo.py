"""`autoscaler demo`: runs a cluster, a cloud and the daemon on this machine, and plays a story in them."""

import argparse
import shutil
import signal
import socket
import sys
import threading
from collections.abc import Sequence
from pathlib import Path

import msgspec

from autoscaler import logs
from autoscaler.cli import output
from autoscaler.cli.arguments import accept_flags
from autoscaler.cli.output import Colour, OutputFormat
from autoscaler.cli.signals import on_signals
from autoscaler.clock import SystemClock
from autoscaler.logs import LogFormat
from autoscaler.simulator.demo import Demo, DemoProgress
from autoscaler.simulator.demo_stories import BASIC, STORIES
from autoscaler.simulator.storyteller import counted, shown
from cloudprovider.address import LAST_PORT
from cloudprovider.duration import parse_duration_s
from cloudprovider.number import parse_count

_ADDRESS = "127.0.0.1"
_PORT = 8085
_LOOK_S = 1.0


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the demo's options; Cluster Autoscaler's flags are accepted too."""
    stories = "; ".join(f"{name}: {make().help}" for name, make in STORIES.items())
    parser.add_argument("--story", choices=STORIES, default=BASIC, help=f"what happens (default {BASIC}). {stories}")
    parser.add_argument(
        "--until-settled",
        action="store_true",
        help="do what the story asks its reader to do, and exit at its end, once every pod runs",
    )
    parser.add_argument("--timeout", type=_seconds, default=180.0, help="with --until-settled: give up after this time")
    parser.add_argument("--port", type=_port, help=f"port of the status page (default {_PORT}, or a free one)")
    parser.add_argument(
        "--api-port", type=_port, default=0, help="port of the cluster's API server (default: a free one)"
    )
    output.add_output(parser)
    accept_flags(parser)


def _seconds(text: str) -> float:
    try:
        return parse_duration_s(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"{text!r} {error}") from error


def _port(text: str) -> int:
    if (port := parse_count(text, LAST_PORT)) is None:
        raise argparse.ArgumentTypeError(f"{text!r} is not a port from 0 to {LAST_PORT}")
    return port


def run(args: argparse.Namespace) -> int:
    """Run until interrupted. With `--until-settled`, run until the demo is settled (0) or the time is over (1)."""
    clock = SystemClock()
    stopping = threading.Event()
    on_signals((signal.SIGINT, signal.SIGTERM), stopping.set)
    port = args.port or _free_port((0,) if args.port == 0 else (_PORT, 0))
    demo = Demo(clock, tuple(args.flags), address=f"{_ADDRESS}:{port}", api_port=args.api_port, story=args.story)
    with demo.log.open("w") as log:
        logs.configure(0, LogFormat.TEXT, clock, log)
        try:
            with demo:
                progress = _tell(demo, args, stopping, port)
        finally:
            logs.unconfigure()
    if args.until_settled:
        _print(progress, args.output, args.color)
    return 0 if progress.settled or not args.until_settled else 1


def _tell(demo: Demo, args: argparse.Namespace, stopping: threading.Event, port: int) -> DemoProgress:
    """Play the story until the user stops it, it ends, or the time is over."""
    _say(_welcome(demo, port))
    teller = demo.storyteller(_say, attended=not args.until_settled)
    progress = demo.look(teller)
    ended = False
    while not stopping.wait(_LOOK_S):
        progress = demo.look(teller)
        if teller.ended and not ended:
            ended = True
            _say(_ending(progress))
            if demo.story.more and not args.until_settled:
                _say(f"Go on with, for example:\n{shown(demo.story.more)}")
        if args.until_settled and (progress.settled or progress.seconds > args.timeout):
            break
    return progress


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def _print(progress: DemoProgress, form: OutputFormat, colour: Colour) -> None:
    if form is OutputFormat.TABLE:
        output.write_records([msgspec.to_builtins(progress)], form, colour)
    else:
        output.write(output.to_text(progress, form, compact=True))


def _free_port(wanted: Sequence[int]) -> int:
    """Return the first of these ports that is free; 0 means any port."""
    for port in wanted:
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # the same option as the daemon's own socket
            try:
                probe.bind((_ADDRESS, port))
            except OSError:
                continue
            return int(probe.getsockname()[1])
    return 0


def _welcome(demo: Demo, port: int) -> str:
    url = f"http://{_ADDRESS}:{port}"
    return f"""
A small cluster is running here, with a simulated cloud and the autoscaler.

  status page   {url}/status
  API server    {demo.api_url}
  log           {demo.log}

In another terminal:

  export KUBECONFIG={demo.kubeconfig}
  kubectl get nodes,pods -A
  kubectl top nodes
  kubectl get events -A
  {_program()} explain group/{demo.story.cloud.groups[0].id}

Ctrl-C ends it and leaves nothing behind.
"""


def _program() -> str:
    """Return the command that starts this program in another terminal."""
    if shutil.which("autoscaler"):
        return "autoscaler"
    typed = Path(sys.argv[0])
    return f"{sys.executable} -m autoscaler" if typed.name == "__main__.py" else str(typed)


def _ending(progress: DemoProgress) -> str:
    pods, bought = counted(progress.pods_running, "pod"), counted(progress.nodes_bought, "node")
    removed = f"{progress.nodes_removed} removed, in {progress.seconds:.0f} s"
    return f"\nThe story ends: {pods} running, {bought} bought, {removed}."
