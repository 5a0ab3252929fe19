"""Names, owners, times, labels and selectors."""

import datetime
import re
from collections.abc import Mapping, Sequence
from enum import StrEnum
from functools import lru_cache
from typing import Any, TypeVar

import msgspec

from cloudprovider.moment import parse_time
from cloudprovider.quoted import quoted

JsonObject = dict[str, Any]
"""An object of the API as plain JSON data."""


class Wire(msgspec.Struct, frozen=True, gc=False, rename="camel", omit_defaults=True):
    """Base of everything that is decoded as the API spells it; unknown fields are ignored."""


class OwnerReference(Wire, frozen=True):
    """An owner of an object."""

    kind: str = ""
    name: str = ""
    uid: str = ""
    api_version: str = "v1"
    controller: bool | None = None


class ObjectMeta(Wire, frozen=True):
    """The part of an object's metadata that anything here reads. Times are RFC 3339 texts."""

    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    generation: int = 0
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}
    owner_references: list[OwnerReference] = []
    creation_timestamp: str | None = None
    deletion_timestamp: str | None = None
    deletion_grace_period_seconds: int | None = None


class Resource(Wire, frozen=True):
    """An object that is kept as it comes."""

    metadata: ObjectMeta

    def check(self) -> None:
        """Raise `ValueError` where a quantity or a time in it, read later on, cannot be read."""

    @property
    def key(self) -> str:
        """`namespace/name`, or the name where the kind has no namespace."""
        meta = self.metadata
        return f"{meta.namespace}/{meta.name}" if meta.namespace else meta.name

    @property
    def name(self) -> str:
        """The name alone."""
        return self.metadata.name

    @property
    def namespace(self) -> str:
        """The namespace; empty for kinds without one."""
        return self.metadata.namespace

    @property
    def uid(self) -> str:
        """Identity across deletion and re-creation under the same name."""
        return self.metadata.uid


R = TypeVar("R", bound=Resource)


@lru_cache(maxsize=65536)
def unix_seconds(text: str) -> float:
    """Return an RFC 3339 time as Unix seconds; raises `ValueError`, for a time without a zone too."""
    try:
        return parse_time(text).timestamp()
    except ValueError as error:
        raise ValueError(f"{quoted(text)} {error}") from None


def optional_seconds(text: str | None) -> float | None:
    """Return an RFC 3339 time as Unix seconds, or None where there is none."""
    return None if text is None else unix_seconds(text)


def rfc3339(wall: float) -> str:
    """Return Unix seconds as the API writes times: UTC, whole seconds."""
    return datetime.datetime.fromtimestamp(int(wall), datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def read_annotations(annotations: Mapping[str, str]) -> dict[str, str]:
    """Return the annotations that decisions read, on an object of any kind; others may be secret."""
    return {key: value for key, value in annotations.items() if key.startswith(_READ_ANNOTATIONS)}


_READ_ANNOTATIONS = (
    "cluster-autoscaler.kubernetes.io/",
    "delay-deletion.cluster-autoscaler.kubernetes.io/",
    "autoscaling.x-k8s.io/",
    "karpenter.sh/do-not-disrupt",
    "pause.autoscaler/",
    "replacement.autoscaler/",
    "static.autoscaler/",
    "volume.beta.kubernetes.io/storage-class",
    "pv.kubernetes.io/bind-completed",
    "volume.kubernetes.io/selected-node",
)


def published(resource: R) -> R:
    """Return an object without the annotations that no decision reads: some hold whole manifests."""
    meta = resource.metadata
    kept = read_annotations(meta.annotations)
    if len(kept) == len(meta.annotations):
        return resource
    return msgspec.structs.replace(resource, metadata=msgspec.structs.replace(meta, annotations=kept))


UNDECODED = "cluster-autoscaler.kubernetes.io/undecoded"
"""Annotation of the substitute of an object that cannot be decoded; it is never set in the cluster."""
NEVER_KNOWN = "never-known"
LAST_KNOWN = "last-known"


def controller_of(owners: Sequence[OwnerReference]) -> OwnerReference | None:
    """Return the managing owner, if there is one."""
    for owner in owners:
        if owner.controller:
            return owner
    return None


def integer(text: str) -> int | None:
    """Return a text as the API's integer comparisons read it: decimal ASCII digits with a sign, within 64 bits."""
    if _INTEGER.fullmatch(text) is None:
        return None
    value = int(text)
    return value if -(1 << 63) <= value < 1 << 63 else None


_INTEGER = re.compile(r"[+-]?[0-9]{1,20}")


class Operator(StrEnum):
    """Operators of label selectors and of node affinity."""

    IN = "In"
    NOT_IN = "NotIn"
    EXISTS = "Exists"
    DOES_NOT_EXIST = "DoesNotExist"
    GT = "Gt"
    LT = "Lt"


class Requirement(Wire, frozen=True):
    """One expression of a selector: key, operator, values."""

    key: str = ""
    operator: str = ""
    values: list[str] = []

    def matches(self, value: str | None) -> bool:
        """Whether a label value (None: the key is absent) satisfies the expression.

        `NotIn` holds for an absent key; `Gt` and `Lt` compare integers and fail on anything else. An operator that is
        none of `Operator` holds for nothing.
        """
        match self.operator:
            case Operator.IN:
                return value is not None and value in self.values
            case Operator.NOT_IN:
                return value is None or value not in self.values
            case Operator.EXISTS:
                return value is not None
            case Operator.DOES_NOT_EXIST:
                return value is None
            case Operator.GT | Operator.LT:
                return self._compares(value)
            case _:
                return False

    def _compares(self, value: str | None) -> bool:
        if value is None or len(self.values) != 1:
            return False
        have, bound = integer(value), integer(self.values[0])
        if have is None or bound is None:
            return False
        return have > bound if self.operator == Operator.GT else have < bound


class LabelSelector(Wire, frozen=True):
    """A metav1.LabelSelector: every entry must hold; an empty one selects everything."""

    match_labels: dict[str, str] = {}
    match_expressions: list[Requirement] = []

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Whether the labels satisfy every entry."""
        for key, value in self.match_labels.items():
            if labels.get(key) != value:
                return False
        return all(expression.matches(labels.get(expression.key)) for expression in self.match_expressions)

    @property
    def empty(self) -> bool:
        """Whether there is nothing to satisfy."""
        return not self.match_labels and not self.match_expressions


def selects(selector: LabelSelector | None, labels: Mapping[str, str]) -> bool:
    """Whether a selector that may be absent matches; an absent one selects nothing."""
    return selector is not None and selector.matches(labels)
