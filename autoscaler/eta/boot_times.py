"""Stores boot-time samples in a ConfigMap of their own, as a bounded JSON document that survives restarts."""

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import msgspec

from autoscaler.errors import Gone
from autoscaler.eta.samples import RING, Sample
from autoscaler.kube import paths
from autoscaler.kube.paths import ObjectRef
from autoscaler.kube.reader import ApiReader
from autoscaler.kube.writes import ClusterWrites
from autoscaler.objects.lenient_json import UNREADABLE

CONFIG_MAP = "cluster-autoscaler-boot-times"
_KEY = "boot-times"
_MOST_BYTES = 512 * 1024

Samples = Mapping[str, tuple[Sample, ...]]


class BootTimes(Protocol):
    """A store of samples."""

    def load(self) -> Samples:
        """Return the samples by node group; empty if there are none or they are unreadable. May raise
        `AutoscalerError`.
        """
        ...

    def save(self, samples: Samples) -> None:
        """Replace the samples. May raise `AutoscalerError`."""
        ...


class _Held(msgspec.Struct, frozen=True):
    data: dict[str, str] = {}


def read_samples(data: Mapping[str, str]) -> Samples:
    """Return the samples in the data of a ConfigMap; foreign data counts as none."""
    try:
        pairs_by_group = msgspec.json.decode(data.get(_KEY, "{}"), type=dict[str, list[tuple[float, float]]])
    except msgspec.MsgspecError:
        return {}
    return {
        group: tuple(Sample(ended, seconds) for ended, seconds in pairs if seconds >= 0)[-RING:]
        for group, pairs in pairs_by_group.items()
    }


class ClusterBootTimes:
    """`BootTimes` in the cluster."""

    def __init__(self, reads: ApiReader, writes: ClusterWrites, namespace: str) -> None:
        self._reads = reads
        self._writes = writes
        self._namespace = namespace

    def load(self) -> Samples:
        """Return the samples by node group; foreign data counts as none."""
        try:
            body = self._reads.get(paths.path(ObjectRef("v1", "ConfigMap", CONFIG_MAP, self._namespace)))
        except Gone:
            return {}
        try:
            return read_samples(msgspec.json.decode(body, type=_Held).data)
        except UNREADABLE:
            return {}

    def save(self, samples: Samples) -> None:
        """Replace the samples; if they do not fit, the last groups are left out."""
        kept: dict[str, Any] = {}
        size = 0
        for group, own in samples.items():
            pairs = [(round(sample.at, 1), round(sample.seconds, 1)) for sample in own]
            size += len(msgspec.json.encode({group: pairs}))
            if size > _MOST_BYTES:
                break
            kept[group] = pairs
        self._writes.put_config_map(self._namespace, CONFIG_MAP, {_KEY: msgspec.json.encode(kept).decode()})


class GivenBootTimes:
    """Samples given for an offline run, in seconds by node group; nothing is stored."""

    def __init__(self, seconds: Mapping[str, Sequence[float]], wall: float) -> None:
        self._samples = {group: tuple(Sample(wall, duration_s) for duration_s in own) for group, own in seconds.items()}

    def load(self) -> Samples:
        """Return the samples."""
        return self._samples

    def save(self, samples: Samples) -> None:
        """Store nothing."""
