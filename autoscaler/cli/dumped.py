"""Objects and times as people hand them to offline planners."""

import argparse
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml

from autoscaler.errors import ConfigError
from autoscaler.objects.meta import unix_seconds

_STDIN = "-"


def instant(text: str) -> float:
    """Read a time into Unix seconds, for argparse."""
    try:
        return unix_seconds(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"{text!r} is not a time such as 2026-11-20T10:00:00Z") from error


def read_objects(path: str) -> Iterator[Mapping[str, Any]]:
    """Yield the objects of a file, JSON or YAML, single or in lists; raises `ConfigError`."""
    try:
        text = sys.stdin.read() if path == _STDIN else Path(path).read_text(encoding="utf-8")
        documents = list(yaml.load_all(text, yaml.CSafeLoader))
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"--objects: {path} cannot be read: {error}") from error
    except yaml.YAMLError as error:
        raise ConfigError(f"--objects: {path} is neither JSON nor YAML") from error
    for document in documents:
        if not isinstance(document, dict):
            raise ConfigError(f"--objects: {path} holds something that is no object")
        items = document.get("items")
        yield from items if isinstance(items, list) else (document,)
