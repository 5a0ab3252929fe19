"""Resolves the specs of CapacityBuffers into a template and a number of pods, in their statuses.

Source: Cluster Autoscaler's `capacitybuffer`.
"""

from collections.abc import Mapping
from hashlib import blake2b
from math import ceil
from typing import Any

import msgspec

from autoscaler.clock import Instant
from autoscaler.objects import quantity
from autoscaler.objects.capacity import (
    ACTIVE_CAPACITY,
    CapacityBuffer,
    Scalable,
    ScalableRef,
    StatusCondition,
    StoredTemplate,
)
from autoscaler.objects.lenient_json import without_nulls, words
from autoscaler.objects.pod import OURS
from autoscaler.objects.requests import effective_requests
from autoscaler.objects.workload import PodTemplate
from autoscaler.reasons import BufferReason
from autoscaler.scaleup.buffers import LIMITED, READY, condition_of, if_new
from autoscaler.scaleup.fake_pods import BUFFER_KIND
from autoscaler.scaleup.quotas import QuotaUsage, pods_allowed, taking
from autoscaler.scaleup.status_change import StatusChange, change_of
from autoscaler.snapshot.cluster import Related

MADE_FROM = f"{OURS}made-from"
"""Annotation of a PodTemplate that the API server completed: a digest of the template of the controller."""
_TOKEN = "kube-api-access-"
"""What the names of volumes with the token of a service account begin with."""
_GROUPS = {"Deployment": "apps", "ReplicaSet": "apps", "StatefulSet": "apps", "Job": "batch"}


class Unresolvable(Exception):
    """A buffer's spec cannot be turned into pods; the message says why."""


class ResolvedBuffer(msgspec.Struct, frozen=True, kw_only=True):
    """The resolved spec of a buffer."""

    change: StatusChange | None = None
    """None: the status says it already."""
    template: Mapping[str, Any] | None = None
    """A PodTemplate that the buffer needs, its controller's, where none is stored or another one; the status can
    name it once it is there."""
    as_written: bool = False
    """Whether the PodTemplate is stored as its controller has it, and only lacks what the API server would add."""


def resolve(related: Related, now: Instant, *, dry_run: bool = False) -> list[tuple[CapacityBuffer, ResolvedBuffer]]:
    """Return what the status of each buffer is to say; buffers of another controller's strategy are left out.

    Buffers of a namespace share what its quotas leave, in their order. With `dry_run`, the templates of controllers
    are to be completed by the API server (`completed`) before they are stored.
    """
    found: list[tuple[CapacityBuffer, ResolvedBuffer]] = []
    taken: dict[str, QuotaUsage] = {}
    for buffer in related.capacity_buffers.values():
        if (buffer.spec.provisioning_strategy or ACTIVE_CAPACITY) == ACTIVE_CAPACITY:
            resolved, after = _resolve(buffer, related, now, taken.get(buffer.namespace, {}), dry_run=dry_run)
            taken[buffer.namespace] = after
            found.append((buffer, resolved))
    return found


def _resolve(
    buffer: CapacityBuffer, related: Related, now: Instant, taken: QuotaUsage, *, dry_run: bool
) -> tuple[ResolvedBuffer, QuotaUsage]:
    """Return what a buffer's status is to say, and what is taken of the quotas then."""
    conditions: list[StatusCondition] = []
    template: Mapping[str, Any] | None = None
    try:
        name, template, usable = _template(buffer, related, dry_run=dry_run)
        if not usable:
            return ResolvedBuffer(template=template), taken
        stored = related.pod_templates[f"{buffer.namespace}/{name}"]
        wanted_count = chunks(buffer, stored, _scalable(buffer, related))
        replicas, taken = _within_quotas(buffer, stored, wanted_count, related, taken)
        fields = {
            "podTemplateRef": {"name": name},
            "podTemplateGeneration": stored.metadata.generation,
            "replicas": replicas,
            "provisioningStrategy": ACTIVE_CAPACITY,
        }
        conditions.append(condition_of(buffer, READY, "True", BufferReason.RESOLVED, "ready", now))
        if replicas < wanted_count or buffer.condition(LIMITED) is not None:
            text = (
                f"quotas leave room for {replicas} of {wanted_count}"
                if replicas < wanted_count
                else "quotas leave room for all"
            )
            limited = "True" if replicas < wanted_count else "False"
            conditions.append(condition_of(buffer, LIMITED, limited, BufferReason.QUOTAS, text, now))
    except Unresolvable as error:
        fields = {
            "podTemplateRef": None,
            "podTemplateGeneration": None,
            "replicas": None,
            "provisioningStrategy": ACTIVE_CAPACITY,
        }
        conditions.append(condition_of(buffer, READY, "False", BufferReason.UNRESOLVED, str(error), now))
    change = if_new(buffer, change_of(buffer, *conditions, fields=fields))
    return ResolvedBuffer(change=change, template=template, as_written=template is not None), taken


def _within_quotas(
    buffer: CapacityBuffer, stored: StoredTemplate, asked: int, related: Related, taken: QuotaUsage
) -> tuple[int, QuotaUsage]:
    """Return how many of the pods the quotas of the namespace allow, and what is taken of those then."""
    quotas = [quota for quota in related.resource_quotas.values() if quota.namespace == buffer.namespace]
    try:
        requests = effective_requests(stored.template.spec)
        allowed = pods_allowed(quotas, requests, taken)
    except ValueError as error:
        raise Unresolvable(f"PodTemplate {stored.name}: {error}") from error
    replicas = asked if allowed is None else min(asked, allowed)
    return replicas, taking(taken, requests, replicas)


def _template(buffer: CapacityBuffer, related: Related, *, dry_run: bool) -> tuple[str, Mapping[str, Any] | None, bool]:
    """Return the name of the buffer's template, the template itself where it is to be stored, and whether the one that
    is stored may be used.
    """
    spec = buffer.spec
    if (spec.pod_template_ref is None) == (spec.scalable_ref is None):
        raise Unresolvable("exactly one of podTemplateRef and scalableRef must be set")
    if spec.pod_template_ref is not None:
        name = spec.pod_template_ref.name
        if f"{buffer.namespace}/{name}" not in related.pod_templates:
            raise Unresolvable(f"there is no PodTemplate {name}")
        return name, None, True
    scalable = _scalable(buffer, related)
    assert scalable is not None
    name = f"capacitybuffer-{buffer.name}-pod-template"
    stored = related.pod_templates.get(f"{buffer.namespace}/{name}")
    try:
        wanted = msgspec.convert(without_nulls(scalable.spec.template), PodTemplate)
    except msgspec.ValidationError as error:
        raise Unresolvable(f"the pod template of {scalable.name} cannot be decoded: {words(error)}") from error
    written = stored is not None and _alike(stored.template, wanted)
    source = _digest(scalable.spec.template) if dry_run else ""
    if stored is not None and source and stored.metadata.annotations.get(MADE_FROM) == source:
        return name, None, True
    if written and not source:
        return name, None, True
    return name, _stored_form(buffer, name, scalable.spec.template, source), written


def _digest(template: Mapping[str, Any]) -> str:
    return blake2b(msgspec.json.encode(template, order="deterministic"), digest_size=16).hexdigest()


def pod_to_complete(template: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the pod that a controller would create from a PodTemplate to be stored."""
    meta, inner = template["metadata"], template["template"]
    name = {"name": meta["name"], "namespace": meta["namespace"]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {**inner["metadata"], **name}, "spec": inner["spec"]}


def completed(template: Mapping[str, Any], pod: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a PodTemplate with what the API server made of its pod; without the token, whose volume has a new name
    every time.
    """
    meta, spec = pod["metadata"], dict(pod.get("spec") or {})
    kept = {key: meta[key] for key in ("labels", "annotations") if meta.get(key)}
    spec["volumes"] = [volume for volume in spec.get("volumes") or [] if not _is_token(volume)]
    for containers in ("containers", "initContainers"):
        if spec.get(containers):
            spec[containers] = [_without_token(container) for container in spec[containers]]
    return {**template, "template": {"metadata": kept, "spec": spec}}


def _is_token(named: Mapping[str, Any]) -> bool:
    return str(named.get("name")).startswith(_TOKEN)


def _without_token(container: Mapping[str, Any]) -> Mapping[str, Any]:
    mounts = [mount for mount in container.get("volumeMounts") or [] if not _is_token(mount)]
    return {**container, "volumeMounts": mounts}


def unfinished(template: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a PodTemplate to be stored as it is written, so that another pass tries to complete it."""
    return {**template, "metadata": {**template["metadata"], "annotations": {}}}


def _alike(stored: PodTemplate, wanted: PodTemplate) -> bool:
    same_marks = stored.metadata.labels == wanted.metadata.labels
    return same_marks and stored.metadata.annotations == wanted.metadata.annotations and stored.spec == wanted.spec


def _stored_form(buffer: CapacityBuffer, name: str, template: Mapping[str, Any], source: str) -> Mapping[str, Any]:
    annotations = {"annotations": {MADE_FROM: source}} if source else {}
    meta = template.get("metadata") or {}
    owner = {
        "apiVersion": buffer.api_version,
        "kind": BUFFER_KIND,
        "name": buffer.name,
        "uid": buffer.uid,
        "controller": True,
        "blockOwnerDeletion": True,
    }
    return {
        "apiVersion": "v1",
        "kind": "PodTemplate",
        "metadata": {"name": name, "namespace": buffer.namespace, "ownerReferences": [owner], **annotations},
        "template": {
            "metadata": {key: meta[key] for key in ("labels", "annotations") if meta.get(key)},
            "spec": template.get("spec") or {},
        },
    }


def _scalable(buffer: CapacityBuffer, related: Related) -> Scalable | None:
    ref = buffer.spec.scalable_ref
    if ref is None:
        return None
    scalable = related.scalables.get(scalable_key(ref.kind, buffer.namespace, ref.name))
    if scalable is None or not _of_group(ref):
        raise Unresolvable(f"there is no {ref.kind} {ref.name}, or it is of no kind that is followed")
    return scalable


def _of_group(ref: ScalableRef) -> bool:
    return ref.api_group.partition("/")[0] == _GROUPS.get(ref.kind, "")


def scalable_key(kind: str, namespace: str, name: str) -> str:
    """Return the key of a controller in `Related.scalables`, which has several kinds."""
    return f"{kind}/{namespace}/{name}"


def chunks(buffer: CapacityBuffer, stored: StoredTemplate, scalable: Scalable | None) -> int:
    """Return how many pods a buffer keeps room for; raises `Unresolvable` where nothing says."""
    spec = buffer.spec
    wanted: list[int] = []
    if spec.replicas is not None:
        wanted.append(max(0, spec.replicas))
    if spec.percentage is not None and scalable is not None:
        wanted.append(max(0, ceil(scalable.size * spec.percentage / 100)))
    caps = [] if spec.limits is None else [_within(spec.limits, stored)]
    if not wanted and not caps:
        raise Unresolvable("none of replicas, percentage and limits says how much room to keep")
    return min([max(wanted), *caps] if wanted else caps)


def _within(limits: Mapping[str, str | int | float], stored: StoredTemplate) -> int:
    """Return how many pods the limits allow: what a pod does not ask for limits nothing."""
    try:
        requests = effective_requests(stored.template.spec)
        rooms = [
            quantity.amount(resource, str(limit)) // requests[resource]
            for resource, limit in limits.items()
            if requests.get(resource, 0) > 0
        ]
    except ValueError as error:
        raise Unresolvable(f"limits: {error}") from error
    if not rooms:
        raise Unresolvable("limits name no resource that the pods ask for")
    return max(0, min(rooms))
