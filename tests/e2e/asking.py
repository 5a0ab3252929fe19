"""Objects that ask for capacity, in a sandbox: machines take one pod of 900m each."""

from collections.abc import Mapping, Sequence
from typing import Any

from autoscaler.objects.capacity import CONSUMES
from tests.e2e.replica import Sandbox
from tests.unit.capacity import ATOMIC, buffer_definition, request_definition

CRDS = "customresourcedefinitions"
REQUESTS, BUFFERS = "provisioningrequests", "capacitybuffers"
Json = dict[str, Any]
CONTAINER = {"name": "main", "image": "none", "resources": {"requests": {"cpu": "900m", "memory": "1Gi"}}}


def define(sandbox: Sandbox) -> None:
    """Install the custom kinds, and the template `worker`."""
    for definition in (request_definition(), buffer_definition()):
        sandbox.storage.create(CRDS, definition)
    template = {"metadata": {"labels": {"app": "worker"}}, "spec": {"containers": [CONTAINER]}}
    sandbox.storage.create("podtemplates", {"metadata": {"name": "worker"}, "template": template})


def ask(sandbox: Sandbox, name: str, count: int, kind: str = ATOMIC) -> None:
    """Create a request for pods like `worker`."""
    pod_sets = [{"count": count, "podTemplateRef": {"name": "worker"}}]
    spec = {"provisioningClassName": kind, "podSets": pod_sets}
    sandbox.storage.create(REQUESTS, {"metadata": {"name": name}, "spec": spec})


def set_conditions(sandbox: Sandbox, name: str, conditions: Sequence[Mapping[str, str]]) -> None:
    """Write a request's conditions."""
    sandbox.storage.patch(REQUESTS, name, {"status": {"conditions": list(conditions)}}, subresource="status")


def consume(sandbox: Sandbox, name: str, count: int) -> None:
    """Create the pods that use a request's capacity."""
    for number in range(count):
        meta = {"name": f"{name}-{number}", "namespace": "default", "annotations": {CONSUMES: name}}
        pod = {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": {"containers": [CONTAINER]}}
        sandbox.cluster.apply([pod])


def conditions(sandbox: Sandbox, plural: str, name: str) -> dict[str, tuple[str, str]]:
    """Return status and reason of each condition of an object; none where it is gone."""
    found = [one for one in sandbox.storage.list(plural) if one["metadata"]["name"] == name]
    return {
        one["type"]: (one["status"], one["reason"])
        for obj in found
        for one in obj.get("status", {}).get("conditions", [])
    }
