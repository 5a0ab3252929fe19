"""`autoscaler provider`: list the installed cloud providers, and try one against the conformance suite."""

import argparse
import os

import msgspec

from autoscaler.cli import output
from autoscaler.cli.output import Format
from autoscaler.clock import SystemClock, ThreadExecutor
from autoscaler.errors import ConfigError
from cloudprovider.catalog import installed
from cloudprovider.conformance import CHECKS, Result, open_harness, run_checks
from cloudprovider.interface import Misconfigured, ProviderContext, ProviderError

_WORDS = {True: "passed", False: "FAILED", None: "not applicable"}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare `list` and `check MODULE:CLASS`."""
    actions = parser.add_subparsers(dest="action", required=True, metavar="list|check")
    output.add_output(actions.add_parser("list", help="print the providers that --cloud-provider can name"))
    check = actions.add_parser("check", help="run the conformance suite on a provider and its disposable groups")
    check.add_argument("target", metavar="MODULE:NAME", help="a harness, a provider class or a provider's factory")
    check.add_argument("--cloud-config", metavar="FILE", help="the provider's configuration file")
    check.add_argument("--group", action="append", default=[], metavar="ID", help="disposable group; repeatable")
    output.add_output(check)


def run(args: argparse.Namespace) -> int:
    """Do what was asked; a provider that fails a check gives status 1."""
    if args.action == "list":
        output.write_records([msgspec.to_builtins(listing) for listing in installed()], args.output)
        return 0
    results = _checked(args)
    output.write_records([_record(result, args.output) for result in results], args.output)
    return 0 if all(result.passed is not False for result in results) else 1


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
    """Nobody stops a check's sleep."""


def _record(result: Result, form: Format) -> dict[str, object]:
    passed: object = result.passed if form is not Format.TABLE else _WORDS[result.passed]
    return {"check": result.name, "passed": passed, "detail": result.detail}
