"""Reads objects and times from the files and options of offline planners."""

import argparse
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

import msgspec

from autoscaler.cli.arguments import add_repeatable, content_at, moment
from autoscaler.errors import ConfigError
from autoscaler.eta.boot_times import CONFIG_MAP, Samples, read_samples
from autoscaler.objects.meta import JsonObject
from autoscaler.objects.node import Node, node_decoder
from autoscaler.objects.pod import Pod
from autoscaler.objects.pod_interner import PodInterner
from autoscaler.snapshot.cluster import ClusterView, view_of
from cloudprovider.document import parse_documents
from cloudprovider.file import read_text

if TYPE_CHECKING:
    Actions = argparse._SubParsersAction[argparse.ArgumentParser]


def add_planner(actions: "Actions", section: str, does: str, kinds: str) -> argparse.ArgumentParser:
    """Declare `plan` of a companion, for a file with its section, and return the parser.

    `kinds` are the objects that it reads.
    """
    plan = actions.add_parser("plan", help=does)
    plan.add_argument("file", metavar="FILE", help=f"configuration file with a {section} section")
    plan.add_argument("--now", type=moment, help="time to plan for, such as 2026-11-20T10:00:00Z (default: now)")
    add_repeatable(
        plan, "--objects", "FILE", f"{kinds} as kubectl get -A -o json or yaml prints them; - is standard input"
    )
    return plan


def add_validation(actions: "Actions", section: str) -> None:
    """Declare `validate` of a companion's section."""
    validate = actions.add_parser("validate", help=f"check the {section} section of a configuration file")
    validate.add_argument("file", metavar="FILE")


def read_cluster(paths: Sequence[str], take: Callable[[JsonObject], object]) -> tuple[ClusterView, Samples]:
    """Return nodes, pods and boot times of files; `take` gets every object of another kind, and may raise `ValueError`.

    Pods may be on nodes that the files do not have. Raises `ConfigError`.
    """
    decode_node, decode_pod = node_decoder(), PodInterner().decoder()
    nodes: dict[str, Node] = {}
    pods: list[Pod] = []
    boots: Samples = {}
    for path in paths:
        for obj in _objects(path):
            try:
                match obj:
                    case {"kind": "Node"}:
                        node = decode_node.one(obj)
                        nodes[node.name] = node
                    case {"kind": "Pod"}:
                        pods.append(decode_pod.one(obj))
                    case {"kind": "ConfigMap", "metadata": {"name": name}} if name == CONFIG_MAP:
                        boots = {**boots, **read_samples(obj.get("data") or {})}
                    case _:
                        take(obj)
            except (msgspec.MsgspecError, ValueError, KeyError, TypeError) as error:
                raise ConfigError(f"{path}: a {obj.get('kind')} cannot be read: {error}") from error
    for name in {pod.node for pod in pods if pod.node} - nodes.keys():
        nodes[name] = decode_node.one({"metadata": {"name": name}})
    return view_of(nodes.values(), pods), boots


def _objects(path: str) -> Iterator[JsonObject]:
    text = content_at(path, "--objects", read_text)
    try:
        documents = parse_documents(text)
    except ValueError as error:
        raise ConfigError(f"--objects: {path} is neither JSON nor YAML: {error}") from error
    for document in documents:
        if not isinstance(document, dict):
            raise ConfigError(f"--objects: {path} contains something that is not an object")
        items = document.get("items")
        yield from items if isinstance(items, list) else (document,)
