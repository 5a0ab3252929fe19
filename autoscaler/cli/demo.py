"""`autoscaler demo`: runs a cluster, a cloud and the daemon on this machine."""

import argparse
import signal
import socket
import sys
import threading
from collections.abc import Sequence

import msgspec

from autoscaler import logs
from autoscaler.cli import output
from autoscaler.cli.arguments import accept_flags
from autoscaler.cli.output import OutputFormat
from autoscaler.cli.signals import on_signals
from autoscaler.clock import SystemClock
from autoscaler.logs import LogFormat
from autoscaler.simulator.demo import Demo, DemoProgress
from cloudprovider.address import LAST_PORT
from cloudprovider.duration import parse_duration_s
from cloudprovider.number import parse_count

_ADDRESS = "127.0.0.1"
_PORT = 8085
_LOOK_S = 1.0


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the demo's options; flags of Cluster Autoscaler are let through."""
    parser.add_argument("--until-settled", action="store_true", help="exit once every pod of the workload runs")
    parser.add_argument("--timeout", type=_seconds, default=120.0, help="with --until-settled: give up after this time")
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
    """Run until interrupted or, with `--until-settled`, until settled (0) or out of time (1)."""
    clock = SystemClock()
    logs.configure(0, LogFormat.TEXT, clock, sys.stderr)
    stopping = threading.Event()
    on_signals((signal.SIGINT, signal.SIGTERM), stopping.set)
    port = args.port or _free_port((0,) if args.port == 0 else (_PORT, 0))
    with Demo(clock, tuple(args.flags), address=f"{_ADDRESS}:{port}", api_port=args.api_port) as demo:
        print(_welcome(demo, port), file=sys.stderr, flush=True)
        began = clock.now().mono
        settled = False
        while True:
            progress = demo.progress()
            if progress.settled and not settled:
                settled = True
                print(_settled(progress), file=sys.stderr, flush=True)
            if args.until_settled and (settled or clock.now().mono - began > args.timeout):
                break
            if stopping.wait(_LOOK_S):
                break
        if args.until_settled:
            _print(progress, args.output)
    return 0 if settled or not args.until_settled else 1


def _print(progress: DemoProgress, form: OutputFormat) -> None:
    if form is OutputFormat.TABLE:
        output.write_records([msgspec.to_builtins(progress)], form)
    else:
        output.write(output.to_json(progress, compact=True) if form is OutputFormat.JSON else output.to_yaml(progress))


def _free_port(wanted: Sequence[int]) -> int:
    """Return the first of these ports that is free; 0 stands for any."""
    for port in wanted:
        with socket.socket() as probe:
            try:
                probe.bind((_ADDRESS, port))
            except OSError:
                continue
            return int(probe.getsockname()[1])
    return 0


def _welcome(demo: Demo, port: int) -> str:
    kubectl = f"kubectl --kubeconfig {demo.kubeconfig}"
    return f"""
A small cluster with too little room is running here, with a simulated cloud and the autoscaler.

  status page   http://{_ADDRESS}:{port}/status
  API server    {demo.api_url}
  kubeconfig    {demo.kubeconfig}

Try, in another terminal:

  {kubectl} get nodes,pods -A
  {kubectl} -n shop scale deployment web --replicas=40
  {kubectl} get events -A

Ctrl-C ends it and leaves nothing behind.
"""


def _settled(progress: DemoProgress) -> str:
    return (
        f"Every pod runs: {progress.pods_running} pods, {progress.nodes_bought} nodes bought, "
        f"{progress.seconds:g} s after the start."
    )
