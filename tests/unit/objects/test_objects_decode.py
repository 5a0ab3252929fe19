import json
from typing import Any

import msgspec
import pytest

from autoscaler.objects.decode import DecodedEvent, WatchEventType
from autoscaler.objects.node import node_decoder
from autoscaler.objects.pod_interner import PodInterner
from autoscaler.objects.workload import (
    DisruptionBudget,
    Replicated,
    plain_decoder,
)


def body(value: Any) -> bytes:
    return json.dumps(value).encode()


def a_wire_node(name: str, version: str = "1") -> dict[str, Any]:
    return {"metadata": {"name": name, "resourceVersion": version}, "status": {"allocatable": {"cpu": "1"}}}


@pytest.mark.parametrize(
    ("value", "names", "version", "more"),
    [
        pytest.param(
            {"kind": "NodeList", "metadata": {"resourceVersion": "9"}, "items": [a_wire_node("a"), a_wire_node("b")]},
            ["a", "b"],
            "9",
            "",
            id="the last page",
        ),
        pytest.param(
            {
                "metadata": {"resourceVersion": "9", "continue": "tok", "remainingItemCount": 7},
                "items": [a_wire_node("a")],
            },
            ["a"],
            "9",
            "tok",
            id="a page before others",
        ),
        pytest.param({"metadata": {"resourceVersion": "9"}, "items": []}, [], "9", "", id="an empty list"),
        pytest.param({"metadata": {"resourceVersion": "9"}, "items": None}, [], "9", "", id="null for no items"),
        pytest.param({"metadata": {}}, [], "", "", id="no items and no version"),
    ],
)
def test_a_page(value: Any, names: list[str], version: str, more: str) -> None:
    page = node_decoder().page(body(value))
    assert [node.name for node in page.items] == names
    assert (page.resource_version, page.continue_token) == (version, more)


@pytest.mark.parametrize("verb", [WatchEventType.ADDED, WatchEventType.MODIFIED, WatchEventType.DELETED])
def test_a_change_of_an_object(verb: WatchEventType) -> None:
    change = node_decoder().change(body({"type": verb.value, "object": a_wire_node("a", "12")}))
    assert (change.verb, change.resource_version) == (verb, "12")
    assert change.item is not None
    assert (change.item.name, change.item.allocatable) == ("a", {"cpu": 1000})


def test_a_bookmark_has_a_version_only() -> None:
    line = body({"type": "BOOKMARK", "object": {"kind": "Pod", "metadata": {"resourceVersion": "44"}, "spec": {}}})
    assert PodInterner().decoder().change(line) == DecodedEvent(WatchEventType.BOOKMARK, None, "44")


def test_an_error_has_code_and_message() -> None:
    status = {"kind": "Status", "code": 410, "message": "too old", "reason": "Expired", "metadata": {}}
    change = node_decoder().change(body({"type": "ERROR", "object": status}))
    assert (change.verb, change.item, change.code, change.message) == (WatchEventType.ERROR, None, 410, "too old")


@pytest.mark.parametrize(
    "line",
    [
        pytest.param(b"", id="nothing"),
        pytest.param(b"{", id="half of it"),
        pytest.param(b"<html>", id="a proxy's page"),
        pytest.param(b'{"type": "RENAMED", "object": {}}', id="an unknown verb"),
        pytest.param(b'{"type": "ADDED"}', id="no object"),
        pytest.param(b'{"type": "ADDED", "object": {"metadata": "x"}}', id="another shape"),
        pytest.param(b'{"type": "ADDED", "object": {}}', id="no metadata"),
    ],
)
def test_what_is_no_change_is_refused(line: bytes) -> None:
    with pytest.raises(msgspec.MsgspecError):
        node_decoder().change(line)


@pytest.mark.parametrize("text", [b"", b"[]", b'{"items": 7}'])
def test_what_is_no_page_is_refused(text: bytes) -> None:
    with pytest.raises(msgspec.MsgspecError):
        node_decoder().page(text)


def test_nulls_stand_for_absent_values_as_the_api_writes_them() -> None:
    pod = (
        PodInterner()
        .decoder()
        .one(
            {
                "metadata": {"name": "a", "creationTimestamp": None, "deletionTimestamp": None},
                "spec": {"priority": None, "affinity": None, "terminationGracePeriodSeconds": None},
                "status": {"startTime": None},
            }
        )
    )
    assert (pod.created, pod.deleted, pod.started, pod.cls.priority) == (0.0, None, None, None)


def test_plain_kinds_are_kept_as_they_come() -> None:
    decoder = plain_decoder(Replicated)
    found = decoder.one({"metadata": {"name": "web", "namespace": "shop", "resourceVersion": "3"}, "spec": {}})
    assert (found.key, found.replicas) == ("shop/web", 1)
    assert decoder.one({"metadata": {"name": "web"}, "spec": {"replicas": 0}}).replicas == 0


@pytest.mark.parametrize(
    ("spec", "protects"),
    [
        pytest.param({}, False, id="no selector protects nothing"),
        pytest.param({"selector": {}}, True, id="an empty selector protects the namespace"),
        pytest.param({"selector": {"matchLabels": {"app": "web"}}}, True, id="a selector that matches"),
        pytest.param({"selector": {"matchLabels": {"app": "db"}}}, False, id="a selector that does not"),
    ],
)
def test_whom_a_budget_protects(spec: dict[str, Any], protects: bool) -> None:
    budget = plain_decoder(DisruptionBudget).one({"metadata": {"name": "b", "namespace": "shop"}, "spec": spec})
    assert budget.protects("shop", {"app": "web"}) is protects
    assert not budget.protects("other", {"app": "web"})
