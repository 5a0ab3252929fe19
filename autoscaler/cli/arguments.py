"""Parses the command lines of subcommands: their own options, Cluster Autoscaler's flags, and errors."""

import argparse
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

import msgspec

from autoscaler.config.arguments import parse_flags
from autoscaler.config.flags import Flag, flags
from autoscaler.config.load import load
from autoscaler.config.tree import Config
from autoscaler.errors import ConfigError
from autoscaler.objects.meta import unix_seconds
from cloudprovider.nearest import nearest

T = TypeVar("T")
_FILES = frozenset({"FILE", "SCENARIO", "DUMP", "CONFIG"})
"""Metavars of arguments that are files."""
_REQUIRED = "the following arguments are required: "
_NAMED = re.compile(r"argument (?:-\w/)?(?P<name>\S+): (?P<problem>.*)", re.DOTALL)


class Argument(msgspec.Struct, frozen=True, kw_only=True):
    """An option, a flag or a positional argument, in the form that completion needs."""

    names: Sequence[str] = ()
    """With their dashes; empty for a positional argument."""
    help: str
    takes_value: bool = True
    """Whether the next word is the value. Every flag takes a value after an equals sign."""
    choices: Callable[[], Iterable[str]] = tuple
    is_list: bool = False
    """Whether the value is a list of choices, separated by commas."""
    is_file: bool = False


class ParsedAction(NamedTuple):
    """An action of a subcommand, such as `check` of `config`."""

    parser: "Parser"
    help: str


class Parser(argparse.ArgumentParser):
    """An `argparse` parser that raises `ConfigError` in this project's words: one line per problem, with the option's
    name.

    Options cannot be abbreviated. The parsers of actions have this class too.
    """

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **{**options, "allow_abbrev": False})

    def parse_known_args(  # type: ignore[override]  # no caller passes another kind of namespace
        self, args: Sequence[str] | None = None, namespace: argparse.Namespace | None = None
    ) -> tuple[argparse.Namespace, list[str]]:
        """Parse words. Unknown words are flags if `accept_flags` was called, and errors otherwise."""
        parsed, unknown = super().parse_known_args(args, namespace)
        if self.get_default("flags") is None:
            problems = list(self._unknown(unknown))
        else:
            problems = list(parse_flags(unknown, self._options()).problems)
            parsed.flags = unknown
        if problems:
            raise ConfigError(problems)
        return parsed, []

    def arguments(self) -> list[Argument]:
        """Return the options, flags and positional arguments that are allowed here, in the order of the help."""
        own = [_argument(action) for action in self._actions if not isinstance(action, argparse._SubParsersAction)]
        if self.get_default("flags") is None:
            return own
        others = (flag for flag in flags().values() if f"--{flag.name}" not in self._option_string_actions)
        return [*own, *map(_flag_argument, others)]

    def actions(self) -> Mapping[str, "ParsedAction"]:
        """Return the actions by name; empty if the subcommand has no actions. The user must name one of them."""
        return {
            listed.dest: ParsedAction(actions.choices[listed.dest], listed.help or "")
            for actions in self._actions
            if isinstance(actions, argparse._SubParsersAction)
            for listed in actions._get_subactions()
        }

    def error(self, message: str) -> Any:
        """Raise the problem as a `ConfigError`; `message` is argparse's."""
        if message.startswith(_REQUIRED):
            raise ConfigError(self._missing(name) for name in message.removeprefix(_REQUIRED).split(", "))
        named = _NAMED.fullmatch(message)
        if named is None:
            raise ConfigError(f"{self.prog}: {message}")
        problem = named["problem"]
        if problem.startswith("ignored explicit argument"):
            problem = "takes no value"
        raise ConfigError(f"{named['name']}: {problem}")

    def _missing(self, name: str) -> str:
        if "|" in name:
            return f"{self.prog}: say what to do: {name.replace('|', ', ')}"
        return f"{name}: is missing ({self.prog} --help describes it)"

    def _unknown(self, words: Sequence[str]) -> Iterator[str]:
        after_option = False
        for word in words:
            name, equals, _ = word.partition("=")
            if name.startswith("-"):
                yield f"{name}: unknown option of {self.prog}{nearest(name, self._options())}"
            elif not after_option:
                yield f"{word}: is one word too many ({self.prog} --help describes the arguments)"
            after_option = name.startswith("-") and not equals

    def _options(self) -> list[str]:
        return [name for name in self._option_string_actions if name.startswith("--")]

    def _get_value(self, action: argparse.Action, arg_string: str) -> Any:
        convert = self._registry_get("type", action.type, action.type)
        try:
            return convert(arg_string)
        except argparse.ArgumentTypeError as error:
            raise argparse.ArgumentError(action, str(error)) from error
        except (TypeError, ValueError) as error:
            problem = f"{arg_string!r} is not a whole number" if action.type is int else _none_of(action, arg_string)
            raise argparse.ArgumentError(action, problem) from error

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        if action.choices is None or value in action.choices:
            return
        if isinstance(action, argparse._SubParsersAction):
            hint = nearest(str(value), action.choices) or f"; it takes {', '.join(action.choices)}"
            raise ConfigError(f"{value}: unknown action of {self.prog}{hint}")
        raise argparse.ArgumentError(action, _none_of(action, value))

    def _match_argument(self, action: argparse.Action, arg_strings_pattern: str) -> int:
        try:
            return super()._match_argument(action, arg_strings_pattern)
        except argparse.ArgumentError:
            raise argparse.ArgumentError(action, f"needs a value ({action.metavar or action.dest})") from None


def _argument(action: argparse.Action) -> Argument:
    choices = [str(choice) for choice in action.choices or ()]
    return Argument(
        names=action.option_strings,
        help=action.help or "",
        takes_value=action.nargs != 0,
        choices=lambda: choices,
        is_file=action.metavar in _FILES,
    )


def _flag_argument(flag: Flag) -> Argument:
    return Argument(
        names=(f"--{flag.name}",),
        help=flag.help,
        takes_value=not flag.is_switch,
        choices=flag.syntax.choices,
        is_list=isinstance(flag.default, tuple),
        is_file=flag.unit in ("file", "directory"),
    )


def _none_of(action: argparse.Action, value: object) -> str:
    choices = [str(choice) for choice in action.choices or ()]
    return f"{str(value)!r} is none of {', '.join(choices)}{nearest(str(value), choices)}"


def add_repeatable(
    parser: argparse.ArgumentParser, name: str, metavar: str, help_text: str, read: Callable[[str], object] = str
) -> None:
    """Declare an option that may be given several times; `read` is argparse's `type`."""
    parser.add_argument(name, action="append", default=[], type=read, metavar=metavar, help=help_text)


def content_at(path: str, option: str, read: Callable[[str], T]) -> T:
    """Return the content of a file; raises `ConfigError`, which names the option, for what `read` refuses."""
    try:
        return read(path)
    except ValueError as error:
        raise ConfigError(f"{option}: {path} {error}") from error


def moment(text: str) -> float:
    """Read a time into Unix seconds, for argparse."""
    try:
        return unix_seconds(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"{text!r} is not a time such as 2026-11-20T10:00:00Z") from error


def accept_flags(parser: argparse.ArgumentParser) -> None:
    """Let a subcommand or an action take Cluster Autoscaler's flags in addition to its own options.

    The flags are then in `args.flags`, for `daemon_config` or `config.load.from_options`.
    """
    parser.set_defaults(flags=[])


def daemon_config(args: argparse.Namespace, *, needs_provider: bool = False) -> Config:
    """Build the daemon's configuration from `args.flags` and the environment; raises `ConfigError`."""
    return load(args.flags, os.environ, needs_provider=needs_provider)


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
