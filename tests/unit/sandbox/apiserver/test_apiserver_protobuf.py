import pytest

from autoscaler.sandbox.apiserver.errors import ApiError
from autoscaler.sandbox.apiserver.protobuf import decode


def field(number: int, value: bytes | int | str) -> bytes:
    if isinstance(value, int):
        return bytes([number << 3]) + bytes([value])
    data = value.encode() if isinstance(value, str) else value
    return bytes([number << 3 | 2, len(data)]) + data


def envelope(api_version: str, kind: str, message: bytes) -> bytes:
    return b"k8s\x00" + field(1, field(1, api_version) + field(2, kind)) + field(2, message)


def test_an_eviction_as_go_clients_send_it() -> None:
    metadata = field(1, "p") + field(3, "default") + field(11, field(1, "a") + field(2, "b")) + field(8, b"")
    options = field(1, 0) + field(2, field(1, "uid-1"))
    assert decode(envelope("policy/v1", "Eviction", field(1, metadata) + field(2, options))) == {
        "apiVersion": "policy/v1",
        "kind": "Eviction",
        "metadata": {"name": "p", "namespace": "default", "labels": {"a": "b"}},
        "deleteOptions": {"gracePeriodSeconds": 0, "preconditions": {"uid": "uid-1"}},
    }


def test_bounds_of_a_budget_are_numbers_or_percentages() -> None:
    spec = field(1, field(1, 0) + field(2, 3)) + field(3, field(1, 1) + field(3, "10%"))
    found = decode(envelope("policy/v1", "PodDisruptionBudget", field(2, spec) + field(3, b"")))
    assert found["spec"] == {"minAvailable": 3, "maxUnavailable": "10%"}


@pytest.mark.parametrize(
    ("body", "code"),
    [
        pytest.param(b"{}", 400, id="no prefix"),
        pytest.param(envelope("v1", "Unicorn", b""), 415, id="an unknown kind"),
        pytest.param(envelope("v1", "Namespace", field(9, field(1, "x"))), 415, id="an unknown field is not dropped"),
        pytest.param(envelope("v1", "Namespace", field(1, "x"))[:-1], 400, id="cut short"),
    ],
)
def test_refused_bodies(body: bytes, code: int) -> None:
    with pytest.raises(ApiError) as caught:
        decode(body)
    assert caught.value.code == code
