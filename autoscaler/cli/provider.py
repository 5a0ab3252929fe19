"""`autoscaler provider`: lists cloud providers, runs the conformance suite on one, and serves one over gRPC."""

import argparse
import importlib.util
import os
import signal
import sys
from typing import TYPE_CHECKING

import msgspec

from autoscaler import logs
from autoscaler.cli import output
from autoscaler.cli.arguments import accept_flags, add_repeatable, content_at, daemon_config
from autoscaler.cli.output import OutputFormat
from autoscaler.cli.signals import on_signals
from autoscaler.cli.table import Style, Styled
from autoscaler.clock import SystemClock, ThreadExecutor
from autoscaler.errors import ConfigError
from cloudprovider.address import is_loopback, parse_address
from cloudprovider.catalog import installed
from cloudprovider.conformance import CHECKS, Result, open_harness, run_checks
from cloudprovider.file import read_pem
from cloudprovider.interface import Misconfigured, ProviderContext, ProviderError

if TYPE_CHECKING:
    from cloudprovider.externalgrpc.server import Credentials

_WORDS = {True: Styled("passed", Style.FINE), False: Styled("FAILED", Style.BAD), None: "not applicable"}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare `list`, `check MODULE:CLASS` and `serve`."""
    actions = parser.add_subparsers(dest="action", required=True, metavar="list|check|serve")
    output.add_output(actions.add_parser("list", help="print the providers that --cloud-provider accepts"))
    check = actions.add_parser("check", help="run the conformance suite on a provider and its disposable groups")
    check.add_argument("target", metavar="MODULE:NAME", help="a harness, a provider class or a provider's factory")
    check.add_argument("--cloud-config", metavar="FILE", help="the provider's configuration file")
    add_repeatable(check, "--group", "ID", "disposable group; repeatable")
    output.add_output(check)
    _add_serve(actions)


def _add_serve(actions: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    serve = actions.add_parser(
        "serve", help="serve a provider over the external gRPC protocol, to this autoscaler or to Cluster Autoscaler"
    )
    serve.add_argument("--listen", required=True, metavar="HOST:PORT", help="listen address, such as 127.0.0.1:8086")
    serve.add_argument("--tls-key", metavar="FILE", help="the server's private key, PEM")
    serve.add_argument("--tls-cert", metavar="FILE", help="the server's certificate, PEM")
    serve.add_argument("--tls-client-ca", metavar="FILE", help="certificate authority of clients, PEM")
    serve.add_argument("--insecure", action="store_true", help="allow connections from other machines without TLS")
    accept_flags(serve)
    serve.epilog = "Choose the provider with the daemon's flags: --cloud-provider, --cloud-config, --nodes, ..."


def run(args: argparse.Namespace) -> int:
    """Run the action; return 1 if the provider fails a check."""
    if args.action == "serve":
        return _serve(args)
    if args.action == "list":
        output.write_records([msgspec.to_builtins(listing) for listing in installed()], args.output, args.color)
        return 0
    results = _checked(args)
    output.write_records([_record(result, args.output) for result in results], args.output, args.color)
    return 0 if all(result.passed is not False for result in results) else 1


def _serve(args: argparse.Namespace) -> int:
    if importlib.util.find_spec("grpc") is None:
        raise ConfigError("provider serve needs the package grpcio; pip install 'node-autoscaler[grpc]'")
    credentials = _credentials(args)
    config = daemon_config(args, needs_provider=True)
    clock = SystemClock()
    logs.configure(config.observe.v, config.observe.logging_format, clock, sys.stderr)
    from autoscaler.app.provider_server import ProviderServer

    serving = ProviderServer(config, args.listen, credentials, clock, os.environ)
    on_signals((signal.SIGINT, signal.SIGTERM), serving.stop)
    serving.run()
    return 0


def _credentials(args: argparse.Namespace) -> "Credentials | None":
    from cloudprovider.externalgrpc.server import Credentials

    try:
        host, _ = parse_address(args.listen)
        if not host:
            raise ValueError("names no host; write 0.0.0.0 for every interface")
    except ValueError as error:
        raise ConfigError(f"--listen: {args.listen!r} {error}") from error
    files = {"--tls-key": args.tls_key, "--tls-cert": args.tls_cert, "--tls-client-ca": args.tls_client_ca}
    missing = [name for name, path in files.items() if path is None]
    if len(missing) == len(files):
        if not is_loopback(host) and not args.insecure:
            raise ConfigError(
                f"--listen: {host} is reachable from other machines; give {', '.join(files)}, or --insecure"
            )
        return None
    if missing:
        raise ConfigError(f"{name}: is required beside the other two files" for name in missing)
    return Credentials(*(content_at(path, name, read_pem) for name, path in files.items()))


def _checked(args: argparse.Namespace) -> list[Result]:
    clock = SystemClock()
    executor = ThreadExecutor(1)
    context = ProviderContext(config_file=args.cloud_config, now=lambda: clock.now().wall, environment=dict(os.environ))
    try:
        harness = open_harness(args.target, context, lambda seconds: _ignored(executor.sleep(seconds)), args.group)
        return list(run_checks(harness, CHECKS))
    except Misconfigured as error:
        raise ConfigError(str(error).splitlines()) from error
    except ProviderError as error:
        raise ConfigError(f"{args.target}: {error}") from error
    finally:
        executor.stop()


def _ignored(_: bool) -> None:
    """Ignore whether a sleep was interrupted, because nothing stops a check."""


def _record(result: Result, form: OutputFormat) -> dict[str, object]:
    passed: object = result.passed if form is not OutputFormat.TABLE else _WORDS[result.passed]
    return {"check": result.name, "passed": passed, "detail": result.detail}
