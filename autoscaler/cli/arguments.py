"""Cluster Autoscaler's flags on the command lines of subcommands."""

import argparse
import os
from collections.abc import Sequence

from autoscaler.config.flags import flags
from autoscaler.config.load import load
from autoscaler.config.tree import Config


def accept_flags(parser: argparse.ArgumentParser) -> None:
    """Let a subcommand take Cluster Autoscaler's flags beside its own options.

    Words that its parser does not know are then in `args.flags`, for `daemon_config` or `config.load.from_options`.
    """
    parser.set_defaults(flags=[])


def parse_words(parser: argparse.ArgumentParser, words: Sequence[str]) -> argparse.Namespace:
    """Parse a subcommand's words; unknown ones are an error unless it called `accept_flags`."""
    if parser.get_default("flags") is None:
        return parser.parse_args(words)
    args, rest = parser.parse_known_args(words)
    args.flags = rest
    return args


def daemon_config(args: argparse.Namespace) -> Config:
    """Build the daemon's configuration from `args.flags` and the environment; raises `ConfigError`."""
    return load(args.flags, os.environ)


def flags_help() -> str:
    """Describe every flag, by section."""
    lines: list[str] = []
    section = ""
    for flag in flags().values():
        if flag.section != section:
            section = flag.section
            lines += ["", f"{section.replace('_', '-')}:"]
        shown = flag.show(flag.default)
        default = f" (default {shown})" if shown else ""
        value = "" if flag.is_switch else f" {flag.unit}"
        lines += [f"  --{flag.name}{value}", f"        {flag.help}{default} [{flag.support}]"]
    return "\n".join(lines).lstrip("\n")
