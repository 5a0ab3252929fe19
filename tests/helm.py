"""Renders the chart with helm."""

import functools
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.chart_readme import CHART

_VALUES = sorted((Path(__file__).parent / "chart_values").iterdir())
THEIRS = {path.stem: yaml.safe_load(path.read_text()) for path in _VALUES}
"""Values as they are written for Cluster Autoscaler's chart, by what they are about."""
KWOK = {"cloudProvider": "kwok"}
"""The fewest values, but for the image."""

Permission = tuple[str, str, str, str, str]
"""Kind of the role and its namespace, API group, resource, verb, and name of the object or nothing."""


def run_helm(*words: str, values: Mapping[str, Any] | None = None) -> "subprocess.CompletedProcess[str]":
    """Run helm, which reads values from its standard input if there are any."""
    beside = Path(sys.executable).with_name("helm")
    program = str(beside) if beside.exists() else shutil.which("helm")
    if program is None:
        assert "CI" not in os.environ, "the gate renders the chart with helm"
        pytest.skip("no helm in the virtual environment or on the PATH")
    given = () if values is None else ("--values", "-")
    text = None if values is None else json.dumps(values)
    return subprocess.run(
        [program, *words, *given], input=text, capture_output=True, text=True, timeout=60, check=False
    )


def template(values: Mapping[str, Any]) -> "subprocess.CompletedProcess[str]":
    """Run `helm template` for a release `node-autoscaler` in the namespace `kube-system`."""
    return run_helm("template", "node-autoscaler", str(CHART), "--namespace", "kube-system", values=values)


def rendered(values: Mapping[str, Any]) -> list[Any]:
    """Return the objects that the chart makes of values, with an image where they name none."""
    image = {"repository": "registry.example.com/node-autoscaler", **values.get("image", {})}
    return [document for document in yaml.safe_load_all(_rendered(json.dumps({**values, "image": image}))) if document]


@functools.cache
def _rendered(values: str) -> str:
    done = template(json.loads(values))
    assert done.returncode == 0, done.stderr
    return done.stdout


def only(objects: Sequence[Any], kind: str) -> Any:
    """Return the one object of a kind."""
    (found,) = (one for one in objects if one["kind"] == kind)
    return found


def container(objects: Sequence[Any]) -> Any:
    """Return the daemon's container."""
    (found,) = only(objects, "Deployment")["spec"]["template"]["spec"]["containers"]
    return found


def flags(objects: Sequence[Any]) -> list[str]:
    """Return the daemon's arguments."""
    return [str(word) for word in container(objects)["args"]]


def permissions(objects: Sequence[Any]) -> set[Permission]:
    """Return what roles grant; those of manifests name no namespace and are in that of the release."""
    roles = [one for one in objects if one["kind"] in {"ClusterRole", "Role"}]
    return {
        (_scope(role), group, resource, verb, name)
        for role in roles
        for rule in role["rules"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
        for name in rule.get("resourceNames", [""])
    }


def _scope(role: Mapping[str, Any]) -> str:
    return (
        "ClusterRole" if role["kind"] == "ClusterRole" else f"Role {role['metadata'].get('namespace', 'kube-system')}"
    )
