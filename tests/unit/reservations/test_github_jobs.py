"""GitHub's events: their changes and their targets. The names of acceptance tests begin with their id."""

from typing import Any

import pytest

from autoscaler.config.reservations import GitHub, ReservationTarget
from autoscaler.observe.strict_json import read_object
from autoscaler.reasons import NoReservation
from autoscaler.reservations import github_jobs
from autoscaler.reservations.github_jobs import BadField, choose, read_event
from autoscaler.reservations.signature import SignatureCheck, sign, timely

BODY = (
    b'{"action":"queued","workflow_job":{"id":101,"run_id":9,"run_attempt":1,"labels":["self-hosted","gpu"],'
    b'"conclusion":null,"runner_id":null},"repository":{"full_name":"acme/app","name":"app",'
    b'"owner":{"login":"acme","type":"Organization"}}}'
)


def event(action: str = "queued", owner: str = "Organization", **job: Any) -> dict[str, Any]:
    return {
        "action": action,
        "workflow_job": {"id": 101, "run_attempt": 1, "labels": ["gpu"], **job},
        "repository": {"full_name": "acme/app", "owner": {"login": "acme", "type": owner}},
    }


def target(name: str = "t", **rule: Any) -> ReservationTarget:
    return ReservationTarget(
        name=name, github=GitHub(**{"repositories": ("acme/*",), "labels": ("gpu", "linux", "x64"), **rule})
    )


def holds(signature: str, message: bytes, *secrets: bytes) -> bool:
    proof = SignatureCheck(signature, secrets)
    for byte in message:
        proof.update(bytes((byte,)))
    return proof.holds


def test_c17_the_published_vectors_hold_and_one_bit_breaks_them() -> None:
    known = b"It's a Secret to Everybody"
    hello = "sha256=757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17"
    ours = "sha256=84a43788121581a4e16bb15bf62c7ee70fba6ac634160f5b8f8df270a6b39daf"
    assert len(BODY) == 236
    assert holds(hello, b"Hello, World!", known)
    assert holds(ours, BODY, known, b"s3cret-for-tests")
    assert holds(ours.upper().replace("SHA256", "sha256"), BODY, b"s3cret-for-tests")
    assert not holds(ours, BODY[:-1] + b"|", b"s3cret-for-tests")
    assert not holds(ours[:-1] + "e", BODY, b"s3cret-for-tests")
    assert not holds(ours, BODY)


@pytest.mark.parametrize("header", ["", "sha1=" + "0" * 40, "sha256=" + "0" * 63, "0" * 64])
def test_what_is_no_signature_is_none(header: str) -> None:
    with pytest.raises(ValueError, match="64 hexadecimal"):
        SignatureCheck(header, [b"k" * 16])
    assert holds(sign(b"k" * 16, b""), b"", b"k" * 16)


@pytest.mark.parametrize(
    ("stamp", "good"), [("1000", True), ("1300", True), ("1301", False), ("699", False), ("", False)]
)
def test_a_time_stamp_is_good_for_five_minutes(stamp: str, good: bool) -> None:
    assert timely(stamp, 1000.0) is good


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        pytest.param(event(), 1, id="queued adds"),
        pytest.param(event("waiting"), NoReservation.ACTION, id="waiting changes nothing"),
        pytest.param(event("in_progress"), NoReservation.ACTION, id="in_progress changes nothing"),
        pytest.param(event("completed", conclusion="skipped"), NoReservation.SKIPPED, id="c21 skipped"),
        pytest.param(event("completed", conclusion="success"), NoReservation.CHECK_RUN, id="c21 no runner"),
        pytest.param(event("completed", conclusion="cancelled", runner_id=0), -1, id="c21 cancelled"),
        pytest.param(event("completed", conclusion="success", runner_id=4), -1, id="success with a runner"),
    ],
)
def test_what_an_event_changes(data: dict[str, Any], expected: int | NoReservation) -> None:
    assert github_jobs.change(read_event(data)) == expected


@pytest.mark.parametrize(
    ("labels", "expected"),
    [
        pytest.param([], NoReservation.EMPTY_LABELS, id="c22 no labels"),
        pytest.param(["self-hosted", "GPU"], "t", id="c22 some of the labels, in any case"),
        pytest.param(["gpu", "arm64"], NoReservation.NO_TARGET, id="c22 a label that the target has not"),
        pytest.param(["self-hosted"], "t", id="self-hosted alone matches by repository"),
    ],
)
def test_labels_choose(labels: list[str], expected: str) -> None:
    found = choose([target(), ReservationTarget(name="other")], read_event(event(labels=labels)))
    assert (found.name if isinstance(found, ReservationTarget) else found) == expected


def test_the_nearest_pattern_wins_and_two_are_none() -> None:
    by_name = target("name", repositories=("acme/app",))
    by_pattern, twin = target("pattern"), target("twin", labels=("gpu",))
    by_owner = target("owner", repositories=(), organizations=("ACME",))
    found = read_event(event())
    assert choose([by_owner, by_pattern, by_name], found) is by_name
    assert choose([by_owner, by_pattern], found) is by_pattern
    assert choose([by_owner], found) is by_owner
    assert choose([by_owner], read_event(event(owner="User"))) is NoReservation.NO_TARGET
    assert choose([by_pattern, twin, by_owner], found) is NoReservation.AMBIGUOUS_TARGET


@pytest.mark.parametrize(
    ("data", "field"),
    [
        ({"action": "queued"}, "workflow_job"),
        (event(labels="gpu"), "workflow_job.labels"),
        (event(id="101"), "workflow_job.id"),
        (event(id=True), "workflow_job.id"),
        ({**event(), "repository": {"full_name": "a/b"}}, "repository.owner"),
    ],
)
def test_bad_fields_are_named(data: dict[str, Any], field: str) -> None:
    with pytest.raises(BadField) as caught:
        read_event(data)
    assert caught.value.field == field


@pytest.mark.parametrize(
    "body",
    [b"not json", b"[]", b'{"a":1,"a":2}', b'{"a":' + b"[" * 64 + b"]" * 64 + b"}", b'{"a":NaN}', b"\xff", b"", b"{"],
)
def test_json_from_strangers_is_strict(body: bytes) -> None:
    with pytest.raises(ValueError, match=r"^"):
        read_object(body)


def test_depth_inside_texts_does_not_count() -> None:
    assert read_object(b'{"a":"' + b"[" * 100 + b'\\"{"}') == {"a": "[" * 100 + '"{'}
    assert read_object(b'{"a":' + b"[" * 63 + b"]" * 63 + b"}")["a"]
