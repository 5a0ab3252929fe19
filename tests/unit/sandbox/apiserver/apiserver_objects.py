"""Small objects for these tests; each has only what a test is about."""

from typing import Any

from autoscaler.clock import VirtualClock
from autoscaler.sandbox.apiserver.storage import Storage

Json = dict[str, Any]
NOW = 1_700_000_000.0


def a_storage(**options: Any) -> tuple[Storage, VirtualClock]:
    clock = VirtualClock(wall=NOW)
    return Storage(clock, **options), clock


def a_config(name: str = "c", **data: str) -> Json:
    return {"metadata": {"name": name}, "data": data}


def a_definition(**version: Any) -> Json:
    served = {"name": "v1", "served": True, "storage": True, **version}
    names = {"plural": "widgets", "singular": "widget", "kind": "Widget", "shortNames": ["wd"]}
    return {
        "metadata": {"name": "widgets.example.com"},
        "spec": {"group": "example.com", "scope": "Namespaced", "names": names, "versions": [served]},
    }


def run_on(storage: Storage, name: str, node: str, phase: str = "Running", *, ready: bool = True) -> None:
    """Bind a pod and let it report a phase."""
    storage.bind(name, node)
    status = {"phase": phase, "conditions": [{"type": "Ready", "status": "True" if ready else "False"}]}
    storage.patch("pods", name, {"status": status}, subresource="status")


def names(objects: list[Json]) -> list[str]:
    return [obj["metadata"]["name"] for obj in objects]
