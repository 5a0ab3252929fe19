import pytest

from autoscaler.sandbox.apiserver.kinds import BUILT_IN, Kind
from autoscaler.sandbox.apiserver.pod_status import status_text
from autoscaler.sandbox.apiserver.printers import PrinterColumn, duration
from autoscaler.sandbox.apiserver.table import table
from tests.unit.sandbox.apiserver.apiserver_objects import NOW, Json

CREATED = "2023-11-14T22:13:20Z"


@pytest.mark.parametrize(
    ("length_s", "text"),
    [
        (0, "0s"),
        (119, "119s"),
        (120, "2m"),
        (200, "3m20s"),
        (900, "15m"),
        (3 * 3600, "3h"),
        (5 * 3600 + 180, "5h3m"),
        (20 * 3600, "20h"),
        (2 * 86400 + 4 * 3600, "2d4h"),
        (40 * 86400, "40d"),
        (740 * 86400, "2y10d"),
    ],
)
def test_ages_read_as_in_kubectl(length_s: float, text: str) -> None:
    assert duration(length_s) == text


@pytest.mark.parametrize(
    ("metadata", "status", "word"),
    [
        pytest.param({}, {"phase": "Pending"}, "Pending", id="the phase by default"),
        pytest.param({}, {"phase": "Failed", "reason": "Evicted"}, "Evicted", id="a reason says more"),
        pytest.param({"deletionTimestamp": CREATED}, {"phase": "Running"}, "Terminating", id="being deleted"),
        pytest.param(
            {},
            {"phase": "Running", "containerStatuses": [{"state": {"waiting": {"reason": "CrashLoopBackOff"}}}]},
            "CrashLoopBackOff",
            id="a container that waits",
        ),
        pytest.param(
            {},
            {"phase": "Pending", "initContainerStatuses": [{"state": {"running": {}}}]},
            "Init:0/1",
            id="initialising",
        ),
        pytest.param(
            {},
            {"phase": "Succeeded", "containerStatuses": [{"state": {"terminated": {"reason": "Completed"}}}]},
            "Completed",
            id="done",
        ),
    ],
)
def test_the_status_of_a_pod(metadata: Json, status: Json, word: str) -> None:
    pod = {"metadata": metadata, "spec": {"initContainers": [{"name": "i"}]}, "status": status}
    assert status_text(pod) == word


@pytest.mark.parametrize("kind", BUILT_IN, ids=lambda kind: kind.id)
def test_every_kind_fills_its_columns_even_when_nothing_is_set(kind: Kind) -> None:
    shown = table(kind, [{"metadata": {"name": "x", "creationTimestamp": CREATED}}], NOW + 60, "Metadata")
    (row,) = shown["rows"]
    assert len(row["cells"]) == len(shown["columnDefinitions"])
    assert "x" in row["cells"]


def test_custom_columns_follow_their_paths() -> None:
    columns = (PrinterColumn("First", path=".spec.items[0].name"), PrinterColumn("Made", "date", path=".spec.made"))
    kind = Kind("example.com", "v1", "widgets", "Widget", custom=True, columns=columns)
    obj = {"metadata": {"name": "w"}, "spec": {"items": [{"name": "a"}], "made": CREATED}}
    assert table(kind, [obj], NOW + 300, "None")["rows"][0] == {"cells": ["w", "a", "5m"], "object": None}
