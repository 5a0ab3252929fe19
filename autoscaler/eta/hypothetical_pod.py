"""Parses hypothetical pods, for which clients ask when they would start.

The cost of placing a pod grows with its fields, in places with the product of two lists, so every list is bounded.
"""

from collections.abc import Iterator, Mapping
from typing import Annotated

import msgspec

from autoscaler.objects.meta import ObjectMeta, Wire
from autoscaler.objects.pod import Pod
from autoscaler.objects.pod_interner import PodInterner
from autoscaler.objects.podspec import Container, PodSpec
from autoscaler.observe.http.endpoint import read_body
from autoscaler.observe.http.routing import HttpProblem
from cloudprovider.quantity import parse_quantity

INVALID = "invalid_pod"
_LONGEST_COMPLAINT = 300
_MOST_ENTRIES = 100
"""Maximum length of a list or an object, except those below."""
_MOST: Mapping[str, int] = {
    "annotations": 1000,
    "matchExpressions": 20,
    "nodeSelectorTerms": 20,
    "requests": 32,
    "requiredDuringSchedulingIgnoredDuringExecution": 20,
    "topologySpreadConstraints": 20,
    "values": 1000,
}
_MOST_IN_ALL = 5000
_LONGEST_TEXT = 4096
"""Maximum number of characters in a text, except in annotations."""


class HypotheticalPodSpec(PodSpec, frozen=True, kw_only=True):
    """The part of a v1.PodSpec that is read; its nodeName is ignored."""

    containers: Annotated[list[Container], msgspec.Meta(min_length=1)]


class HypotheticalPod(Wire, frozen=True, kw_only=True):
    """A v1.Pod; its status is ignored."""

    metadata: ObjectMeta | None = None
    spec: HypotheticalPodSpec


def read_pod(body: bytes) -> Pod:
    """Return the pod of a request; raises `HttpProblem` that names the invalid field."""
    raw, form = read_body(body, HypotheticalPod, INVALID)
    if (entries := _entries(form.metadata, "metadata") + _entries(form.spec, "spec")) > _MOST_IN_ALL:
        raise _too_large("spec", f"has {entries} entries in all its lists, more than {_MOST_IN_ALL}")
    for field, text in _requests(form.spec):
        try:
            parse_quantity(str(text))
        except ValueError as error:
            raise HttpProblem(422, INVALID, str(error), field) from None
    spec = {name: value for name, value in raw["spec"].items() if name != "nodeName"}
    whole = {**raw, "metadata": raw.get("metadata") or {}, "spec": spec, "status": {}}
    try:
        return PodInterner().decoder().one(whole)
    except (msgspec.MsgspecError, ValueError, TypeError, KeyError, OverflowError) as error:
        raise HttpProblem(422, INVALID, str(error)[:_LONGEST_COMPLAINT], "spec") from None


def _requests(spec: HypotheticalPodSpec) -> Iterator[tuple[str, object]]:
    """Yield path and text of every quantity that containers ask for."""
    for kind, containers in (("containers", spec.containers), ("initContainers", spec.init_containers)):
        for number, container in enumerate(containers):
            for name, text in container.resources.requests.items():
                yield f"spec.{kind}[{number}].resources.requests.{name}", text


def _entries(value: object, path: str, name: str = "") -> int:
    """Return the number of entries in all lists and objects of a value; raises `HttpProblem` for the first one too
    large.
    """
    if isinstance(value, msgspec.Struct):
        names = zip(value.__struct_fields__, value.__struct_encode_fields__, strict=True)
        return sum(_entries(getattr(value, field), f"{path}.{known}", known) for field, known in names)
    if isinstance(value, list | dict):
        most = _MOST.get(name, _MOST_ENTRIES)
        if len(value) > most:
            raise _too_large(path, f"has {len(value)} entries, more than {most}")
        if isinstance(value, list):
            return len(value) + sum(_entries(inner, f"{path}[{number}]") for number, inner in enumerate(value))
        inside = "annotations" if name == "annotations" else ""
        return len(value) + sum(_entries(key, path) + _entries(text, path, inside) for key, text in value.items())
    if isinstance(value, str) and len(value) > _LONGEST_TEXT and name != "annotations":
        raise _too_large(path, f"is longer than {_LONGEST_TEXT} characters")
    return 0


def _too_large(field: str, complaint: str) -> HttpProblem:
    return HttpProblem(400, "pod_too_large", f"{field} {complaint}", field)
