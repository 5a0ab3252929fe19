"""Whatever a valid API server may send is decoded; what cannot be decoded keeps nothing else from being seen."""

import json
import random
from collections import deque
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec
import pytest

from autoscaler.clock import VirtualClock
from autoscaler.kube.call import READ, Call
from autoscaler.kube.store import Store
from autoscaler.kube.watch import KindSource, Reflector
from autoscaler.objects.capacity import ResourceQuota, Scalable, StoredTemplate
from autoscaler.objects.decode import WireDecoder
from autoscaler.objects.devices import ResourceClaim, ResourceSlice
from autoscaler.objects.meta import LAST_KNOWN, UNDECODED
from autoscaler.objects.node import node_decoder
from autoscaler.objects.pod_interner import PodInterner
from autoscaler.objects.storage import CsiNode, PersistentVolume, StorageClass, claim_decoder
from autoscaler.objects.workload import (
    ConfigMap,
    DaemonSet,
    Job,
    Namespace,
    PriorityClass,
    Replicated,
    budget_decoder,
    plain_decoder,
)
from tests.properties.random_objects import an_object

_INTERNER = PodInterner()
DECODERS: Mapping[str, WireDecoder[Any, Any]] = {
    "Node": node_decoder(),
    "Pod": _INTERNER.decoder(),
    "PodDisruptionBudget": budget_decoder(),
    "PersistentVolumeClaim": claim_decoder(),
    "Namespace": plain_decoder(Namespace),
    "DaemonSet": plain_decoder(DaemonSet),
    "ReplicaSet": plain_decoder(Replicated),
    "StatefulSet": plain_decoder(Replicated),
    "ReplicationController": plain_decoder(Replicated),
    "Job": plain_decoder(Job),
    "PersistentVolume": plain_decoder(PersistentVolume),
    "StorageClass": plain_decoder(StorageClass),
    "CSINode": plain_decoder(CsiNode),
    "ResourceSlice": plain_decoder(ResourceSlice),
    "ResourceClaim": plain_decoder(ResourceClaim),
    "PriorityClass": plain_decoder(PriorityClass),
    "PodTemplate": plain_decoder(StoredTemplate),
    "ResourceQuota": plain_decoder(ResourceQuota),
    "Deployment": plain_decoder(Scalable),
    "ConfigMap": plain_decoder(ConfigMap),
}
_POISONS = (
    pytest.param(lambda one: {**one, "spec": 7, "metadata": {**one["metadata"], "labels": [1]}}, id="another shape"),
    pytest.param(lambda one: {**one, "metadata": {"name": one["metadata"]["name"], "labels": {"a": 5}}}, id="a label"),
    pytest.param(lambda one: {**one, "metadata": {**one["metadata"], "annotations": "x"}}, id="annotations"),
)


def stripped(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: stripped(held) for key, held in value.items() if held is not None}
    return [stripped(held) for held in value] if isinstance(value, list) else value


def plain(item: Any) -> Any:
    """Return an object to compare: templates that are kept as they are written keep their nulls too."""
    if not isinstance(item, Scalable):
        return item
    return msgspec.structs.replace(item, spec=msgspec.structs.replace(item.spec, template=stripped(item.spec.template)))


def a_page(*objects: bytes) -> bytes:
    return b'{"metadata": {"resourceVersion": "7"}, "items": [%s]}' % b",".join(objects)


def line(verb: str, obj: bytes) -> bytes:
    return b'{"type": "%s", "object": %s}' % (verb.encode(), obj)


class Stream:
    def __init__(self, *batches: list[bytes]) -> None:
        self._batches = batches

    def batches(self) -> Iterator[list[bytes]]:
        yield from self._batches

    def abort(self) -> None:
        """Nobody blocks here."""

    def close(self) -> None:
        """Nothing to give up."""


class Api:
    def __init__(self, page: bytes, *batches: list[bytes]) -> None:
        self._pages = deque([page])
        self.streams = deque([Stream(*batches)])
        self.resumed_from: list[str] = []

    def get(self, path: str, query: Mapping[str, str] | None = None, call: Call = READ) -> bytes:
        return self._pages.popleft()

    def watch(self, path: str, query: Mapping[str, str], accept: str, read_timeout_s: float) -> Stream:
        self.resumed_from.append(query["resourceVersion"])
        return self.streams.popleft() if self.streams else Stream()


@pytest.mark.parametrize("kind", DECODERS)
def test_every_valid_object_is_decoded_and_null_means_absent(kind: str) -> None:
    rng, decoder = random.Random(kind), DECODERS[kind]
    objects = [an_object(rng, kind, f"o{number}") for number in range(60)]
    found = decoder.page(a_page(*(json.dumps(one).encode() for one in objects)))
    assert [odd.why for odd in found.undecoded] == []
    without = [decoder.read(json.dumps(stripped(one)).encode()) for one in objects]
    assert [plain(item) for item in found.items] == [plain(item) for item in without]
    for one, item in zip(objects, found.items, strict=True):
        assert decoder.change(line("MODIFIED", json.dumps(one).encode())).item == item


@pytest.mark.parametrize("poison", _POISONS)
@pytest.mark.parametrize("kind", DECODERS)
def test_one_poisoned_object_hides_no_other(kind: str, poison: Any) -> None:
    rng = random.Random(kind)
    good = [json.dumps(an_object(rng, kind, f"o{number}")).encode() for number in range(6)]
    bad = [json.dumps(poison(an_object(rng, kind, f"bad{number}"))).encode() for number in range(2)]
    bookmark = line("BOOKMARK", b'{"metadata": {"resourceVersion": "99"}}')
    watched = [line("ADDED", one) for one in (*good[3:5], bad[1], good[5])]
    api = Api(a_page(*good[:2], bad[0], good[2]), watched, [bookmark])
    store: Store[Any] = Store()
    reflector = Reflector(KindSource("/x", DECODERS[kind]), store, api, VirtualClock())
    reflector.step()
    seen = {key.rpartition("/")[2] for key in store.snapshot()}
    assert {f"o{number}" for number in range(6)} <= seen
    assert reflector.stats.undecoded == 2
    assert reflector.stats.relists == 1
    reflector.step()
    assert api.resumed_from == ["7", "99"]


def test_what_was_known_stays_until_it_is_deleted_and_is_named_once(caplog: pytest.LogCaptureFixture) -> None:
    def a_node(labels: Any, version: int) -> bytes:
        meta = {"name": "n", "uid": "u", "resourceVersion": str(version), "labels": labels}
        return json.dumps({"metadata": meta, "status": {"allocatable": {"cpu": "2"}}}).encode()

    odd = [line("MODIFIED", a_node({"a": number}, 8 + number)) for number in range(3)]
    api = Api(a_page(a_node({}, 7)), odd, [line("BOOKMARK", b'{"metadata": {"resourceVersion": "50"}}')])
    store: Store[Any] = Store()
    reflector = Reflector(KindSource("/x", DECODERS["Node"]), store, api, VirtualClock())
    reflector.step()
    held = store.get("n")
    assert held is not None
    assert (held.allocatable, held.annotations) == ({"cpu": 2000}, {UNDECODED: LAST_KNOWN})
    assert reflector.stats.undecoded_examples == {"n": "Expected `str`, got `int` - at `$.metadata.labels[...]`"}
    assert [record.getMessage().split()[0] for record in caplog.records] == ["kube.undecoded"]
    api.streams.append(Stream([line("DELETED", a_node({"a": 1}, 51))]))
    reflector.step()
    assert store.get("n") is None
    assert reflector.stats.undecoded == 0
