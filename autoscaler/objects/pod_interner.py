"""Decodes pods of the API and interns their classes."""

import threading
import weakref
from collections.abc import Collection, Mapping, Sequence
from functools import lru_cache
from hashlib import blake2b

import msgspec

from autoscaler.config.headroom import MANAGED_BY, MANAGER, POOL
from autoscaler.objects import quantity
from autoscaler.objects.class_form import ClassForm, form_of, nameless, spec_of
from autoscaler.objects.declared_features import features_needed
from autoscaler.objects.decode import Undecoded, WireDecoder
from autoscaler.objects.gang import GANG_ANNOTATIONS, gang_of
from autoscaler.objects.meta import (
    LAST_KNOWN,
    UNDECODED,
    ObjectMeta,
    optional_seconds,
    unix_seconds,
)
from autoscaler.objects.pod import (
    COMMON_SAFE_TO_EVICT,
    DEFAULT_GRACE_S,
    DELETION_COST,
    DO_NOT_DISRUPT,
    MIRROR,
    OURS,
    SOURCE,
    Pod,
    PodClass,
    Unscheduled,
)
from autoscaler.objects.podspec import (
    Affinity,
    HostPort,
    PodCondition,
    PodSpec,
    PodWire,
    SoftConstraints,
    SpreadConstraint,
    undecoded_pod,
)
from autoscaler.objects.requests import (
    NO_RESIZE,
    PodResize,
    add_amounts,
    effective_requests,
    held_for_resize,
    resize_of,
    without_cloud_tpus,
)
from cloudprovider.number import parse_count

_KEPT_ANNOTATIONS = (
    OURS,
    "autoscaling.x-k8s.io/",
    SOURCE,
    "podtype",
    "podType",
    DO_NOT_DISRUPT,
    COMMON_SAFE_TO_EVICT,
    *GANG_ANNOTATIONS,
)


@lru_cache(maxsize=8192)
def _shared(text: str) -> str:
    """Return one string for all that are equal; unlike `sys.intern`, which some versions of Python never forget."""
    return text


class PodInterner:
    """Makes kept pods of decoded ones; owns the table of classes. Safe to share between threads.

    A class is forgotten when no pod is left that has it.
    """

    def __init__(self) -> None:
        self._classes: weakref.WeakValueDictionary[bytes, PodClass] = weakref.WeakValueDictionary()
        self._encoder = msgspec.msgpack.Encoder(order="deterministic")
        self._lock = threading.Lock()

    def keep(self, wire: PodWire) -> Pod:
        """Turn a pod of the API into a kept one; raises `ValueError` on bad values."""
        meta, spec, status = wire.metadata, wire.spec, wire.status
        if not spec.node_name:
            spec = without_cloud_tpus(spec)
        return Pod(
            name=meta.name,
            cls=self.class_of(meta, spec, resize_of(spec, status)),
            uid=meta.uid,
            node=spec.node_name or None,
            phase=status.phase,
            created=unix_seconds(meta.creation_timestamp) if meta.creation_timestamp else 0.0,
            deleted=optional_seconds(meta.deletion_timestamp),
            unscheduled=None if spec.node_name else _unscheduled(status.conditions),
            nominated_node=status.nominated_node_name or None,
            started=optional_seconds(status.start_time),
            scheduled=_since(status.conditions, "PodScheduled") if spec.node_name else None,
            ready=_since(status.conditions, "Ready") if spec.node_name else None,
            image=_shared(spec.containers[0].image) if spec.containers else "",
            disruption=_disruption(status.conditions),
            deletion_cost=_deletion_cost(meta.annotations),
        )

    def class_of(
        self,
        meta: ObjectMeta,
        spec: PodSpec,
        resize: PodResize = NO_RESIZE,
        node_name: str = "",
    ) -> PodClass:
        """Return the one class of pods with this metadata and spec."""
        annotations = relevant_annotations(meta.annotations) if meta.annotations else {}
        return self._interned(form_of(meta, spec, annotations, resize, node_name), spec)

    def class_from(self, form: ClassForm) -> PodClass:
        """Return the one class of this form; raises `ValueError` on bad values."""
        return self._interned(form, spec_of(form))

    def _interned(self, form: ClassForm, spec: PodSpec) -> PodClass:
        with self._lock:
            key = self._encoder.encode(form)
            known = self._classes.get(key)
            if known is None:
                bare = nameless(form)
                alike = b"" if bare is None else blake2b(self._encoder.encode(bare), digest_size=16).digest()
                known = self._classes[key] = _new_class(key, form, spec, alike)
            return known

    def merged(self, cls: PodClass, own_claims: Collection[str], dropped: Collection[str]) -> PodClass:
        """Return the class of pods like those of `cls` that each have claims of their own, without some labels."""
        form = msgspec.msgpack.decode(cls.key, type=ClassForm)
        labels = {key: value for key, value in form.labels.items() if key not in dropped}
        return self.class_from(msgspec.structs.replace(form, labels=labels, own_claims=sorted(own_claims) or None))

    def decoder(self) -> WireDecoder[PodWire, Pod]:
        """Return the decoder of v1.Pod that keeps its classes here."""
        return WireDecoder(PodWire, self.keep, self._stand_in)

    def _stand_in(self, odd: Undecoded, held: Pod | None) -> Pod | None:
        if held is None:
            wire = undecoded_pod(odd)
            return None if wire is None else self.keep(wire)
        form = msgspec.msgpack.decode(held.cls.key, type=ClassForm)
        marked = msgspec.structs.replace(form, annotations={**form.annotations, UNDECODED: LAST_KNOWN})
        cls = held.cls if held.cls.undecoded else self.class_from(marked)
        unscheduled = None if odd.node_name else held.unscheduled
        return msgspec.structs.replace(held, cls=cls, node=odd.node_name or held.node, unscheduled=unscheduled)

    def __len__(self) -> int:
        """Return the number of classes alive."""
        return len(self._classes)


def _new_class(key: bytes, form: ClassForm, spec: PodSpec, alike: bytes) -> PodClass:
    resize = form.resize
    container_requests: dict[str, int] = {}
    for container in form.containers:
        add_amounts(container_requests, quantity.amounts(container.resources.requests))
    affinity = form.affinity or Affinity()
    grace = form.termination_grace_period_seconds
    return PodClass(
        key=key,
        alike=alike,
        namespace=form.namespace,
        labels=form.labels,
        annotations=form.annotations,
        owner=form.owner,
        requests=effective_requests(spec, resize),
        held_for_resize=held_for_resize(spec, resize),
        resize_pending=form.resize_pending,
        container_requests=container_requests,
        host_ports=_host_ports(form),
        node_selector=form.node_selector,
        node_affinity=affinity.node_affinity.required if affinity.node_affinity else None,
        pod_affinity=tuple(affinity.pod_affinity.required) if affinity.pod_affinity else (),
        pod_anti_affinity=tuple(affinity.pod_anti_affinity.required) if affinity.pod_anti_affinity else (),
        spreads_itself=bool(form.topology_spread_constraints),
        spread=tuple(c for c in form.topology_spread_constraints if c.when_unsatisfiable == "DoNotSchedule"),
        soft=_soft(affinity, form.topology_spread_constraints),
        tolerations=tuple(form.tolerations),
        volumes=tuple(form.volumes),
        claims=tuple(form.claims),
        own_claims=frozenset(form.own_claims or ()),
        resource_claims=tuple(form.resource_claims),
        node_name=form.node_name,
        priority=form.priority,
        priority_class_name=form.priority_class_name,
        preemption_policy=form.preemption_policy,
        scheduler_name=form.scheduler_name,
        restart_policy=form.restart_policy,
        grace_s=DEFAULT_GRACE_S if grace is None else grace,
        features=features_needed(spec),
        gang=gang_of(form),
        headroom=form.labels.get(POOL) if form.labels.get(MANAGED_BY) == MANAGER else None,
    )


def _soft(affinity: Affinity, constraints: Sequence[SpreadConstraint]) -> SoftConstraints | None:
    nodes, near, away = affinity.node_affinity, affinity.pod_affinity, affinity.pod_anti_affinity
    soft = SoftConstraints(
        nodes=tuple(nodes.preferred) if nodes else (),
        near=tuple(near.preferred) if near else (),
        away=tuple(away.preferred) if away else (),
        spread=tuple(c for c in constraints if c.when_unsatisfiable == "ScheduleAnyway"),
    )
    return None if soft == SoftConstraints() else soft


def _host_ports(form: ClassForm) -> tuple[HostPort, ...]:
    lasting = [*form.containers, *(container for container in form.init_containers if container.sidecar)]
    ports = {
        HostPort(port.host_port, port.protocol or "TCP", port.host_ip or "0.0.0.0")
        for container in lasting
        for port in container.ports
        if port.host_port > 0
    }
    return tuple(sorted(ports))


def relevant_annotations(annotations: Mapping[str, str]) -> dict[str, str]:
    """Return the annotations of a pod that decisions read; what else there is may be secret."""
    kept = {key: value for key, value in annotations.items() if key.startswith(_KEPT_ANNOTATIONS)}
    if MIRROR in annotations:
        kept[MIRROR] = ""
    return kept


def _since(conditions: Sequence[PodCondition], kind: str) -> float | None:
    """Return since when a condition has been true; None where it is not."""
    for condition in conditions:
        if condition.type == kind and condition.status == "True":
            return optional_seconds(condition.last_transition_time)
    return None


def _deletion_cost(annotations: Mapping[str, str]) -> int:
    """Return the pod's deletion cost; 0 without one or with a text that the ReplicaSet controller ignores too."""
    text = annotations.get(DELETION_COST, "") if annotations else ""
    cost = parse_count(text.removeprefix("-"), most=2**31 - 1) or 0
    return -cost if text.startswith("-") else cost


def _disruption(conditions: Sequence[PodCondition]) -> str | None:
    for condition in conditions:
        if condition.type == "DisruptionTarget":
            return condition.reason
    return None


def _unscheduled(conditions: Sequence[PodCondition]) -> Unscheduled | None:
    for condition in conditions:
        if condition.type == "PodScheduled" and condition.status == "False":
            return Unscheduled(condition.reason, optional_seconds(condition.last_transition_time))
    return None
