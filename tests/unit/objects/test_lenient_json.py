"""Null means absent wherever it stands, and JSON that decoders refuse costs one object at the most."""

import copy
import json
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest

from autoscaler.objects.capacity import Scalable
from autoscaler.objects.decode import Undecoded, WireDecoder
from autoscaler.objects.meta import LAST_KNOWN, NEVER_KNOWN, UNDECODED
from autoscaler.objects.node import node_decoder, readiness
from autoscaler.objects.pod import Pod
from autoscaler.objects.pod_interner import PodInterner
from autoscaler.objects.storage import claim_decoder
from autoscaler.objects.workload import ConfigMap, budget_decoder
from autoscaler.scenario.kinds import KINDS

OPAQUE = ("Scalable", "ResourceQuota")
"""They hold data that is kept as it is written."""
Path = tuple[str | int, ...]
WIRES: dict[str, Any] = {
    **{name: kind.type for name, kind in KINDS.items()},
    "Scalable": Scalable,
    "ConfigMap": ConfigMap,
}


def filled(kind: Any, name: str = "") -> Any:
    """Return plain data for a type with every field there."""
    match kind:
        case msgspec.inspect.StructType():
            return {field.encode_name: filled(field.type, field.encode_name) for field in kind.fields}
        case msgspec.inspect.ListType():
            return [filled(kind.item_type, name)]
        case msgspec.inspect.DictType():
            return {"cpu": filled(kind.value_type)}
        case msgspec.inspect.UnionType():
            return filled(next(one for one in kind.types if not isinstance(one, msgspec.inspect.NoneType)), name)
        case msgspec.inspect.BoolType():
            return True
        case msgspec.inspect.IntType():
            return 3
        case msgspec.inspect.AnyType():
            return {"x": 1}
        case _:
            return "2026-01-05T12:00:00Z" if "ime" in name else "1"


def paths(value: Any, at: Path = ()) -> Iterator[Path]:
    """Yield the path of every entry."""
    entries = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, held in entries:
        yield (*at, key)
        yield from paths(held, (*at, key))


def changed(value: Any, path: Path, *, null: bool) -> bytes:
    whole = copy.deepcopy(value)
    part = whole
    for key in path[:-1]:
        part = part[key]
    if null:
        part[path[-1]] = None
    else:
        del part[path[-1]]
    return json.dumps(whole).encode()


@pytest.mark.parametrize("name", WIRES)
def test_null_means_absent_in_every_field_of_every_type(name: str) -> None:
    decoder: WireDecoder[Any, Any] = WireDecoder(WIRES[name], lambda wire: wire)
    whole = filled(msgspec.inspect.type_info(WIRES[name]))
    assert not isinstance(decoder.read(json.dumps(whole).encode()), Undecoded)
    looked_at = [
        path for path in paths(whole) if not {"template", "scopeSelector"}.intersection(path[:-1]) or name not in OPAQUE
    ]
    assert len(looked_at) >= 9
    for path in looked_at:
        assert decoder.read(changed(whole, path, null=True)) == decoder.read(changed(whole, path, null=False)), path


GOOD = b'{"metadata": {"name": "good"}}'


@pytest.mark.parametrize(
    ("odd", "names"),
    [
        pytest.param(b'{"metadata": {"name": "x"}, "deep": %s1%s}' % (b'{"a":' * 5000, b"}" * 5000), "x", id="deep"),
        pytest.param(b'{"metadata": {"name": "x"}, "status": {"capacity": null}}', "x", id="null"),
        pytest.param(b'{"metadata": {"name": "x", "labels": {"a": "\xff"}}}', "x", id="no UTF-8"),
        pytest.param(b'{"metadata": {"name": "x", "labels": {"a": "\\ud800"}}}', "x", id="half a character"),
        pytest.param(b'{"metadata": {"name": "x", "generation": %s}}' % (b"9" * 5000), "", id="a huge integer"),
        pytest.param(b'{"metadata": {"name": "x", "other": %s, "labels": null}}' % (b"9" * 5000), "x", id="unread"),
        pytest.param(b'{"metadata": {"name": "y", "name": "x"}}', "x", id="a key twice"),
        pytest.param(b"null", None, id="no object at all"),
        pytest.param(b"{}", "", id="an empty one"),
        pytest.param(b"5", "", id="a number"),
    ],
)
def test_an_odd_object_costs_at_most_itself(odd: bytes, names: str | None) -> None:
    decoder = node_decoder()
    page = decoder.page(b'{"metadata": null, "items": [%s,%s,%s]}' % (GOOD, odd, GOOD))
    assert [node.name for node in page.items] == ["good", *([names] if names else []), "good"]
    assert len(page.undecoded) == (names == "")
    json.dumps([dict(node.labels) for node in page.items]).encode()


def test_why_repeats_no_content_and_is_bounded() -> None:
    secret = "hunter2" * 100
    for odd in (
        {"metadata": {"name": "x"}, "status": {"allocatable": {"cpu": secret}}},
        {"metadata": {"name": "x"}, "spec": {"taints": [{"timeAdded": secret}]}},
        {"metadata": {"name": "x", "labels": secret}},
    ):
        found = node_decoder().read(json.dumps(odd).encode())
        assert isinstance(found, Undecoded)
        assert "hunter2" not in found.why
        assert 0 < len(found.why) <= 200


def odd_of(decoder: WireDecoder[Any, Any], obj: dict[str, Any]) -> Undecoded:
    found = decoder.read(
        json.dumps({**obj, "metadata": {"name": "x", "namespace": "shop", **obj["metadata"]}}).encode()
    )
    assert isinstance(found, Undecoded)
    return found


ODD_META: dict[str, Any] = {"metadata": {"creationTimestamp": "yesterday"}}


class TestStandIns:
    def test_a_node_stays_has_no_room_and_counts_as_ready(self) -> None:
        odd = odd_of(node_decoder(), {**ODD_META, "spec": {"providerID": "cloud:///x"}})
        node = node_decoder().stand_in(odd, None)
        assert node is not None
        assert (node.provider_id, node.allocatable, node.annotations[UNDECODED]) == ("cloud:///x", {}, NEVER_KNOWN)
        assert node.unschedulable
        assert readiness(node).ready

    def test_a_node_that_was_known_keeps_its_room(self) -> None:
        decoder = node_decoder()
        held = decoder.read(b'{"metadata": {"name": "x"}, "status": {"allocatable": {"cpu": "2"}}}')
        assert not isinstance(held, Undecoded)
        node = decoder.stand_in(odd_of(decoder, ODD_META), held)
        assert node is not None
        assert (node.allocatable, node.annotations) == ({"cpu": 2000}, {UNDECODED: LAST_KNOWN})

    def test_a_pod_on_a_node_is_there_and_one_without_is_not(self) -> None:
        decoder = PodInterner().decoder()
        placed = decoder.stand_in(odd_of(decoder, {**ODD_META, "spec": {"nodeName": "n1"}}), None)
        assert placed is not None
        assert (placed.node, placed.cls.undecoded, placed.cls.unmeasured) == ("n1", True, True)
        assert decoder.stand_in(odd_of(decoder, ODD_META), None) is None

    def test_a_pod_that_was_known_keeps_its_requests_and_moves_to_its_node(self) -> None:
        decoder = PodInterner().decoder()
        spec = {"containers": [{"name": "c", "resources": {"requests": {"cpu": "1"}}}]}
        held = decoder.read(json.dumps({"metadata": {"name": "x", "namespace": "shop"}, "spec": spec}).encode())
        assert isinstance(held, Pod)
        pod = decoder.stand_in(odd_of(decoder, {**ODD_META, "spec": {"nodeName": "n1"}}), held)
        assert pod is not None
        assert (pod.node, pod.cls.requests, pod.cls.unmeasured) == ("n1", {"cpu": 1000}, False)
        assert pod.cls.undecoded
        assert decoder.stand_in(odd_of(decoder, {**ODD_META, "spec": {"nodeName": "n1"}}), pod) == pod

    def test_a_budget_spares_its_whole_namespace(self) -> None:
        odd = odd_of(budget_decoder(), {"metadata": {}, "spec": {"selector": 5}})
        budget = budget_decoder().stand_in(odd, None)
        assert budget is not None
        assert budget.protects("shop", {"any": "label"})
        assert not budget.protects("elsewhere", {})
        assert budget.status.disruptions_allowed == 0

    def test_a_claim_is_marked(self) -> None:
        odd = odd_of(claim_decoder(), {"metadata": {}, "spec": {"resources": {"requests": {"storage": "much"}}}})
        claim = claim_decoder().stand_in(odd, None)
        assert claim is not None
        assert claim.metadata.annotations == {UNDECODED: NEVER_KNOWN}
