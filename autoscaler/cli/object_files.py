"""Reads objects and times from the files and options of offline planners."""

import argparse
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from autoscaler.errors import ConfigError
from autoscaler.objects.meta import unix_seconds
from cloudprovider.document import parse_documents
from cloudprovider.file import read_text

if TYPE_CHECKING:
    Actions = argparse._SubParsersAction[argparse.ArgumentParser]


def instant(text: str) -> float:
    """Read a time into Unix seconds, for argparse."""
    try:
        return unix_seconds(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"{text!r} is not a time such as 2026-11-20T10:00:00Z") from error


def add_planner(
    actions: "argparse._SubParsersAction[argparse.ArgumentParser]", section: str, does: str, kinds: str
) -> argparse.ArgumentParser:
    """Declare `plan` of a companion, for a file with its section, and return the parser; `kinds` are the objects it
    reads.
    """
    plan = actions.add_parser("plan", help=does)
    plan.add_argument("file", metavar="FILE", help=f"configuration file with a {section} section")
    plan.add_argument("--now", type=instant, help="time to plan for, such as 2026-11-20T10:00:00Z (default: now)")
    plan.add_argument(
        "--objects",
        action="append",
        default=[],
        metavar="FILE",
        help=f"{kinds} as kubectl get -A -o json or yaml prints them; - is standard input",
    )
    return plan


def add_validation(actions: "Actions", section: str) -> None:
    """Declare `validate` of a companion's section."""
    validate = actions.add_parser("validate", help=f"check the {section} section of a configuration file")
    validate.add_argument("file", metavar="FILE")


def read_objects(path: str) -> Iterator[Mapping[str, Any]]:
    """Yield the objects of a file, JSON or YAML, single or in lists; raises `ConfigError`."""
    try:
        text = read_text(path)
    except ValueError as error:
        raise ConfigError(f"--objects: {path} {error}") from error
    try:
        documents = parse_documents(text)
    except ValueError as error:
        raise ConfigError(f"--objects: {path} is neither JSON nor YAML: {error}") from error
    for document in documents:
        if not isinstance(document, dict):
            raise ConfigError(f"--objects: {path} contains something that is not an object")
        items = document.get("items")
        yield from items if isinstance(items, list) else (document,)
