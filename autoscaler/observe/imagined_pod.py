"""Pods that do not exist, as somebody describes them who asks when they would start."""

from collections.abc import Iterator
from typing import Annotated

import msgspec

from autoscaler.objects import quantity
from autoscaler.objects.meta import ObjectMeta, Wire
from autoscaler.objects.pod import Pod, PodInterner
from autoscaler.objects.podspec import Container, PodSpec
from autoscaler.observe.endpoint import read_body
from autoscaler.observe.routing import HttpProblem

INVALID = "invalid_pod"
_LONGEST_COMPLAINT = 300


class ImaginedSpec(PodSpec, frozen=True, kw_only=True):
    """The part of a v1.PodSpec that is read; a node that it names is passed over."""

    containers: Annotated[list[Container], msgspec.Meta(min_length=1)]


class ImaginedPod(Wire, frozen=True, kw_only=True):
    """A v1.Pod; nothing of its status is read."""

    metadata: ObjectMeta | None = None
    spec: ImaginedSpec


def read_pod(body: bytes) -> Pod:
    """Return the pod of a request; raises `HttpProblem` that names the culprit."""
    raw, form = read_body(body, ImaginedPod, INVALID)
    for field, text in _requests(form.spec):
        try:
            quantity.parse(str(text))
        except quantity.BadQuantity as error:
            raise HttpProblem(422, INVALID, str(error), field) from None
    spec = {name: value for name, value in raw["spec"].items() if name != "nodeName"}
    whole = {**raw, "metadata": raw.get("metadata") or {}, "spec": spec, "status": {}}
    try:
        return PodInterner().decoder().one(whole)
    except (msgspec.MsgspecError, ValueError, TypeError, KeyError, OverflowError) as error:
        raise HttpProblem(422, INVALID, str(error)[:_LONGEST_COMPLAINT], "spec") from None


def _requests(spec: ImaginedSpec) -> Iterator[tuple[str, object]]:
    """Yield path and text of every quantity that containers ask for."""
    for kind, containers in (("containers", spec.containers), ("initContainers", spec.init_containers)):
        for number, container in enumerate(containers):
            for name, text in container.resources.requests.items():
                yield f"spec.{kind}[{number}].resources.requests.{name}", text
