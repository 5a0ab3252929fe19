import json
from collections.abc import Iterator
from datetime import UTC, datetime

import pytest

from autoscaler.clock import VirtualClock
from autoscaler.errors import AutoscalerError, Blocked, Conflict, Gone, LeadershipLost, Refused, RetryLater
from autoscaler.kube.call import JSON, Call
from autoscaler.kube.client import Client, ClientSettings
from autoscaler.kube.throttle import TokenBucket
from tests.unit.kube.scripted import (
    Reply,
    ScriptedApi,
    Sleeps,
    client_of,
    ok,
    read_until_aborted,
    scripted_api,
    status,
)

POD = "/api/v1/namespaces/n/pods/p"


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock(wall=1_000_000, mono=500)


@pytest.fixture
def api() -> Iterator[ScriptedApi]:
    with scripted_api() as server:
        yield server


@pytest.fixture
def client(api: ScriptedApi, clock: VirtualClock) -> Iterator[Client]:
    with client_of(api.url, clock) as made:
        yield made


def test_a_read_says_who_asks_and_wants_the_answer_unpacked(api: ScriptedApi, client: Client) -> None:
    api.script(f"GET {POD}", ok({"kind": "Pod"}))
    body = client.get(POD, {"fieldSelector": "a=b,c!=d"})
    assert json.loads(body) == {"kind": "Pod"}
    asked = api.asked[0]
    assert asked.query == {"fieldSelector": "a=b,c!=d"}
    assert asked.headers["User-Agent"] == "cluster-autoscaler"
    assert asked.headers["Accept-Encoding"] == "identity"
    assert "Authorization" not in asked.headers


PLAIN = Reply(429, b"Too many requests, please try again later.\n")


@pytest.mark.parametrize(
    ("reply", "error", "words"),
    [
        pytest.param(status(409, "object has been modified"), Conflict, "object has been modified", id="409"),
        pytest.param(status(404, "not found"), Gone, "not found", id="404"),
        pytest.param(status(410, "too old"), Gone, "too old", id="410"),
        pytest.param(status(403, "forbidden: no verb"), Refused, "HTTP 403: forbidden: no verb", id="403"),
        pytest.param(status(422, "invalid"), Refused, "invalid", id="422"),
        pytest.param(status(500, "etcd"), RetryLater, "etcd", id="500"),
        pytest.param(Reply(503, b"<html>down</html>"), RetryLater, "<html>down", id="a proxy's 503"),
        pytest.param(PLAIN, RetryLater, "Too many requests", id="429 without a wish"),
        pytest.param(Reply(302, b"", {"Location": "/x"}), Refused, "HTTP 302", id="redirects are not followed"),
    ],
)
def test_an_answer_becomes_the_error_for_what_to_do_next(
    api: ScriptedApi, client: Client, reply: Reply, error: type[AutoscalerError], words: str
) -> None:
    api.script(f"GET {POD}", reply)
    with pytest.raises(error, match=words) as raised:
        client.get(POD)
    assert type(raised.value) is error
    assert str(raised.value).startswith(f"GET {POD}: HTTP ")
    assert len(api.asked) == 1


def test_a_budgets_429_blocks_an_eviction_but_flood_control_does_not(api: ScriptedApi, client: Client) -> None:
    api.script(f"POST {POD}/eviction", status(429, "would violate the budget"), PLAIN)
    eviction = Call(eviction=True, repeatable=False)
    with pytest.raises(Blocked, match="violate"):
        client.post(f"{POD}/eviction", b"{}", eviction)
    with pytest.raises(RetryLater):
        client.post(f"{POD}/eviction", b"{}", eviction)


@pytest.mark.parametrize(
    ("off_by_s", "lines"),
    [
        pytest.param(0.0, 0, id="right"),
        pytest.param(55.0, 0, id="a little wrong"),
        pytest.param(300.0, 1, id="ahead"),
        pytest.param(-300.0, 1, id="behind"),
    ],
)
def test_a_clock_that_differs_from_the_server_s_is_said_once(
    api: ScriptedApi, off_by_s: float, lines: int, caplog: pytest.LogCaptureFixture
) -> None:
    wall = datetime(2026, 8, 1, 10, 0, 0, tzinfo=UTC).timestamp()
    api.script("GET /a", Reply(headers={"Date": "Sat, 01 Aug 2026 10:00:00 GMT"}))
    with client_of(api.url, VirtualClock(wall=wall + off_by_s)) as client:
        for _ in range(3):
            client.get("/a")
        assert client.clock_ahead_s == off_by_s
    assert caplog.text.count("kube.clocks_differ") == lines


@pytest.mark.parametrize("date", ["", "soon", "Sat, 99 Aug 2026 10:00:00 GMT", "x" * 10_000])
def test_a_date_that_is_none_tells_nothing(api: ScriptedApi, clock: VirtualClock, date: str) -> None:
    api.script("GET /a", Reply(headers={"Date": date}))
    with client_of(api.url, clock) as client:
        client.get("/a")
        assert client.clock_ahead_s is None


class TestRetryAfter:
    def test_is_waited_out_and_the_call_made_again(self, api: ScriptedApi, clock: VirtualClock) -> None:
        sleep = Sleeps(clock)
        api.script(f"GET {POD}", Reply(429, b"", {"Retry-After": "3"}), ok({"n": 1}))
        with client_of(api.url, clock, sleep) as client:
            assert json.loads(client.get(POD)) == {"n": 1}
            assert client.retries == {("GET", "sent"): 1}
        assert sleep.slept == [3.0]

    def test_is_waited_out_a_bounded_number_of_times(self, api: ScriptedApi, clock: VirtualClock) -> None:
        sleep = Sleeps(clock)
        api.script(f"GET {POD}", Reply(429, b"", {"Retry-After": "1"}))
        with client_of(api.url, clock, sleep) as client, pytest.raises(RetryLater) as raised:
            client.get(POD)
        assert (len(api.asked), sleep.slept) == (3, [1.0, 1.0])
        assert raised.value.retry_after_s == 1.0
        assert client.retries == {("GET", "sent"): 2, ("GET", "given_up"): 1}

    @pytest.mark.parametrize(
        ("call", "reply"),
        [
            pytest.param(
                Call(repeatable=False), Reply(429, b"", {"Retry-After": "1"}), id="call that is not repeatable"
            ),
            pytest.param(Call(), Reply(429, b"", {"Retry-After": "120"}), id="wish of two minutes"),
            pytest.param(Call(), Reply(503, b"", {"Retry-After": "1"}), id="503, which may have happened"),
        ],
    )
    def test_is_left_to_the_caller(self, api: ScriptedApi, clock: VirtualClock, call: Call, reply: Reply) -> None:
        api.script(f"POST {POD}", reply)
        with client_of(api.url, clock) as client, pytest.raises(RetryLater) as raised:
            client.post(POD, b"{}", call)
        assert len(api.asked) == 1
        assert raised.value.retry_after_s == float(reply.headers["Retry-After"])

    def test_is_not_waited_out_when_the_program_stops(self, api: ScriptedApi, clock: VirtualClock) -> None:
        sleep = Sleeps(clock)
        sleep.stopping = True
        api.script(f"GET {POD}", Reply(429, b"", {"Retry-After": "1"}))
        with client_of(api.url, clock, sleep) as client, pytest.raises(RetryLater, match="stopping"):
            client.get(POD)
        assert len(api.asked) == 1


def test_the_guard_is_asked_after_every_wait_and_right_before_sending(api: ScriptedApi, clock: VirtualClock) -> None:
    sleep = Sleeps(clock)
    asked_at: list[float] = []

    def guard() -> float:
        asked_at.append(clock.now().mono)
        if len(asked_at) == 2:
            raise LeadershipLost("gone")
        return 1.0

    api.script(f"PUT {POD}", Reply(429, b"", {"Retry-After": "4"}))
    with client_of(api.url, clock, sleep) as client, pytest.raises(LeadershipLost):
        client.put(POD, b"{}", Call(guard=guard))
    assert asked_at == [500, 504]
    assert len(api.asked) == 1


def test_a_server_that_is_not_there_is_a_reason_to_retry(clock: VirtualClock) -> None:
    with scripted_api() as api:
        url = api.url
    with client_of(url, clock) as client, pytest.raises(RetryLater, match=f"API server {url} is unreachable"):
        client.get(POD)


@pytest.mark.parametrize(
    ("reply", "words"),
    [
        pytest.param(Reply(silent=True), "did not answer in time", id="server that says nothing"),
        pytest.param(Reply(body=b'{"a":', torn=True), "unreachable", id="answer that breaks off"),
    ],
)
def test_half_an_answer_is_no_answer(api: ScriptedApi, client: Client, reply: Reply, words: str) -> None:
    api.script(f"GET {POD}", reply)
    with pytest.raises(RetryLater, match=words):
        client.get(POD, call=Call(timeout_s=0.2))


class TestRateLimit:
    def test_lets_a_burst_through_then_paces(self, api: ScriptedApi, clock: VirtualClock) -> None:
        sleep = Sleeps(clock)
        api.script(f"GET {POD}", ok({}))
        with client_of(api.url, clock, sleep, ClientSettings(qps=2, burst=3)) as client:
            for _ in range(5):
                client.get(POD)
        assert sleep.slept == [0.5, 0.5]

    def test_does_not_hold_up_urgent_calls(self, api: ScriptedApi, clock: VirtualClock) -> None:
        sleep = Sleeps(clock)
        api.script(f"GET {POD}", ok({}))
        with client_of(api.url, clock, sleep, ClientSettings(qps=0.001, burst=1)) as client:
            client.get(POD)
            client.get(POD, call=Call(urgent=True))
        assert sleep.slept == []

    def test_serves_in_the_order_of_asking(self) -> None:
        bucket = TokenBucket(qps=10, burst=1)
        assert [round(bucket.reserve(0.0), 3) for _ in range(4)] == [0.0, 0.1, 0.2, 0.3]

    def test_does_not_save_up_more_than_a_burst(self) -> None:
        bucket = TokenBucket(qps=10, burst=2)
        bucket.reserve(0.0)
        assert [round(bucket.reserve(1000.0), 3) for _ in range(3)] == [0.0, 0.0, 0.1]

    def test_is_lifted_by_zero(self) -> None:
        bucket = TokenBucket(qps=0, burst=1)
        assert [bucket.reserve(0.0) for _ in range(100)] == [0.0] * 100


class TestWatchStream:
    def test_lines_are_put_together_across_reads(self, api: ScriptedApi, client: Client) -> None:
        api.script("GET /w", Reply(chunks=[b'{"a":1}\n{"b"', b":2", b"}\n\n", b'{"c":3}\n']))
        with client.watch("/w", {"watch": "true"}, JSON, 5) as stream:
            lines = [line for batch in stream.batches() for line in batch]
        assert lines == [b'{"a":1}', b'{"b":2}', b'{"c":3}']

    def test_a_stream_torn_in_a_line_gives_what_was_whole(self, api: ScriptedApi, client: Client) -> None:
        api.script("GET /w", Reply(chunks=[b'{"a":1}\n{"b"'], torn=True))
        with client.watch("/w", {}, JSON, 5) as stream:
            batches = stream.batches()
            assert next(batches) == [b'{"a":1}']
            with pytest.raises(RetryLater, match="the stream broke"):
                next(batches)

    def test_silence_ends_a_stream(self, api: ScriptedApi, client: Client) -> None:
        api.script("GET /w", Reply(chunks=[b'{"a":1}\n'], held=True))
        with client.watch("/w", {}, JSON, 0.2) as stream:
            batches = stream.batches()
            assert next(batches) == [b'{"a":1}']
            assert list(batches) == []

    def test_a_refused_watch_raises_at_once(self, api: ScriptedApi, client: Client) -> None:
        api.script("GET /w", status(410, "too old resource version"))
        with pytest.raises(Gone):
            client.watch("/w", {}, JSON, 5)

    def test_a_blocked_reader_is_woken_from_outside(self, api: ScriptedApi, client: Client) -> None:
        api.script("GET /w", Reply(chunks=[b'{"a":1}\n'], held=True))
        stream = client.watch("/w", {}, JSON, 600)
        read_until_aborted(stream)
        stream.abort()  # harmless once it is closed
