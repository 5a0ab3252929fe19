import json
import random
import threading
from collections import deque
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec
import pytest

from autoscaler.clock import VirtualClock
from autoscaler.errors import Gone, Refused, RetryLater
from autoscaler.kube.call import JSON, READ, Call
from autoscaler.kube.feed import ClusterFeed
from autoscaler.kube.store import Store
from autoscaler.kube.watch import KindSource, Reflector
from autoscaler.objects.decode import DecodedEvent, ListChunk, Undecoded, WatchEventType
from tests.unit.kube.scripted import PATIENCE_S, Reply, client_of, ok, scripted_api, status

PATH = "/api/v1/things"


class Thing(msgspec.Struct, frozen=True):
    key: str
    uid: str = "u"
    size: int = 0


class ThingDecoder:
    def page(self, body: bytes) -> ListChunk[Thing]:
        value = json.loads(body)
        meta = value["metadata"]
        return ListChunk([self.one(v) for v in value["items"]], meta["resourceVersion"], meta.get("continue", ""))

    def change(self, line: bytes) -> DecodedEvent[Thing]:
        value = msgspec.json.decode(line)
        verb, thing = WatchEventType(value["type"]), value["object"]
        if verb is WatchEventType.ERROR:
            return DecodedEvent(verb, None, code=thing["code"], message=thing["message"])
        version = thing["metadata"]["resourceVersion"]
        return DecodedEvent(verb, None if verb is WatchEventType.BOOKMARK else self.one(thing), version)

    def stand_in(self, odd: Undecoded, held: Thing | None) -> Thing | None:
        return held

    def one(self, value: Any) -> Thing:
        return Thing(value["metadata"]["name"], size=value.get("size", 0))


def a_thing(name: str, version: int, size: int = 0) -> dict[str, Any]:
    return {"metadata": {"name": name, "resourceVersion": str(version)}, "size": size}


def a_list(version: int, *names: str, more: str = "") -> bytes:
    meta = {"resourceVersion": str(version)} | ({"continue": more} if more else {})
    return json.dumps({"metadata": meta, "items": [a_thing(n, version) for n in names]}).encode()


def an_event(verb: str, name: str = "", version: int = 0, size: int = 0) -> bytes:
    return json.dumps({"type": verb, "object": a_thing(name, version, size)}).encode()


def an_error(code: int) -> bytes:
    return json.dumps({"type": "ERROR", "object": {"code": code, "message": "said so"}}).encode()


class FakeStream:
    def __init__(self, clock: VirtualClock, lasts_s: float, *batches: list[bytes] | Exception) -> None:
        self._clock, self._lasts_s, self._batches = clock, lasts_s, batches
        self.closed = False

    def batches(self) -> Iterator[list[bytes]]:
        self._clock.advance(self._lasts_s)
        for batch in self._batches:
            if isinstance(batch, Exception):
                raise batch
            yield batch

    def abort(self) -> None:
        raise AssertionError("nobody aborts here")

    def close(self) -> None:
        self.closed = True


class FakeApi:
    """Gives the scripted answers in turn; a watch whose stream is not scripted ends empty after five minutes."""

    def __init__(self, clock: VirtualClock) -> None:
        self.clock = clock
        self.pages: deque[bytes | Exception] = deque()
        self.streams: deque[FakeStream | Exception] = deque()
        self.lists: list[dict[str, str]] = []
        self.list_calls: list[Call] = []
        self.watches: list[dict[str, str]] = []
        self.accepts: list[str] = []
        self.renewed_after_s = 0.0

    def get(self, path: str, query: Mapping[str, str] | None = None, call: Call = READ) -> bytes:
        assert path == PATH
        self.lists.append(dict(query or {}))
        self.list_calls.append(call)
        page = self.pages.popleft()
        if isinstance(page, Exception):
            raise page
        return page

    def watch(self, path: str, query: Mapping[str, str], accept: str, read_timeout_s: float) -> FakeStream:
        assert path == PATH
        self.renewed_after_s = read_timeout_s
        self.watches.append(dict(query))
        self.accepts.append(accept)
        stream = self.streams.popleft() if self.streams else FakeStream(self.clock, 300)
        if isinstance(stream, Exception):
            raise stream
        return stream


class Bench:
    def __init__(self, **source: Any) -> None:
        self.clock = VirtualClock(wall=1_000_000)
        self.api = FakeApi(self.clock)
        self.store: Store[Thing] = Store()
        kind = KindSource(path=PATH, decoder=ThingDecoder(), **source)
        self.reflector = Reflector(kind, self.store, self.api, self.clock, rng=random.Random(1))

    def stream(self, *batches: list[bytes] | Exception, lasts_s: float = 1.0) -> FakeStream:
        made = FakeStream(self.clock, lasts_s, *batches)
        self.api.streams.append(made)
        return made

    @property
    def keys(self) -> set[str]:
        return set(self.store.snapshot())

    @property
    def resumed_from(self) -> list[str]:
        return [w["resourceVersion"] for w in self.api.watches]


@pytest.fixture
def bench() -> Bench:
    return Bench()


def torn() -> RetryLater:
    return RetryLater("the stream broke")


class TestList:
    def test_comes_in_chunks_and_the_watch_starts_at_its_version(self, bench: Bench) -> None:
        bench.api.pages += [a_list(7, "a", "b", more="next"), a_list(7, "c")]
        bench.reflector.step()
        assert bench.keys == {"a", "b", "c"}
        assert bench.api.lists == [{"limit": "500"}, {"limit": "500", "continue": "next"}]
        assert bench.resumed_from == ["7"]
        assert bench.reflector.has_synced
        assert all(call.urgent for call in bench.api.list_calls), "lists do not queue behind the rate limit"

    def test_starts_again_when_its_continue_token_expires(self, bench: Bench) -> None:
        bench.api.pages += [a_list(7, "a", more="x"), Gone("expired"), a_list(9, "b")]
        bench.reflector.step()
        assert bench.keys == {"b"}
        assert bench.resumed_from == ["9"]

    def test_is_asked_for_in_one_piece_when_tokens_keep_expiring(self, bench: Bench) -> None:
        bench.api.pages += [a_list(1, more="x"), Gone("expired"), a_list(2, more="y"), Gone("expired"), a_list(3, "a")]
        bench.reflector.step()
        assert "limit" not in bench.api.lists[-1]
        assert bench.keys == {"a"}

    def test_is_tried_for_ever_with_growing_pauses(self, bench: Bench) -> None:
        bench.api.pages += [RetryLater("connection refused")] * 40
        pauses = [bench.reflector.step() for _ in range(40)]
        assert 0.25 <= pauses[0] <= 0.5
        assert all(15 <= p <= 30 for p in pauses[8:])
        assert len(set(pauses[8:])) > 20, "jittered"
        assert bench.reflector.stats.last_error == "connection refused"
        assert not bench.reflector.has_synced

    def test_waits_as_long_as_the_server_wishes(self, bench: Bench) -> None:
        bench.api.pages += [RetryLater("busy", 9.0), RetryLater("busy", 9000.0)]
        assert [bench.reflector.step() for _ in range(2)] == [9.0, 30.0]

    def test_takes_not_found_for_a_reason_to_wait(self, bench: Bench) -> None:
        bench.api.pages += [Gone("no such resource")] * 3
        assert bench.reflector.step() > 0

    def test_of_garbage_is_counted_and_tried_again(self, bench: Bench) -> None:
        class Picky(ThingDecoder):
            def page(self, body: bytes) -> ListChunk[Thing]:
                msgspec.json.decode(body)
                return super().page(body)

        bench = Bench()
        bench.reflector = Reflector(KindSource(path=PATH, decoder=Picky()), bench.store, bench.api, bench.clock)
        bench.api.pages += [b"<html>", a_list(3, "a")]
        assert bench.reflector.step() > 0
        bench.reflector.step()
        assert bench.keys == {"a"}
        assert bench.reflector.stats.failures == 1


class TestWatch:
    def test_applies_events_in_order(self, bench: Bench) -> None:
        bench.api.pages += [a_list(1, "a", "b")]
        bench.stream(
            [an_event("ADDED", "c", 2), an_event("MODIFIED", "a", 3, size=5)],
            [an_event("DELETED", "b", 4), an_event("MODIFIED", "never-seen", 5), an_event("DELETED", "unknown", 6)],
        )
        assert bench.reflector.step() == 0.0
        assert bench.keys == {"a", "c", "never-seen"}
        held = bench.store.get("a")
        assert held is not None
        assert held.size == 5
        assert bench.reflector.stats.events == 5

    def test_asks_for_bookmarks_and_a_random_length(self, bench: Bench) -> None:
        bench.api.pages += [a_list(1)]
        for _ in range(20):
            bench.reflector.step()
        lengths = {int(w["timeoutSeconds"]) for w in bench.api.watches}
        assert len(lengths) > 10
        assert min(lengths) >= 300
        assert max(lengths) <= 600
        assert all(w["allowWatchBookmarks"] == "true" and w["watch"] == "true" for w in bench.api.watches)

    @pytest.mark.parametrize(
        ("batches", "version"),
        [
            pytest.param([[an_event("ADDED", "b", 5)]], "5", id="an event"),
            pytest.param([[an_event("BOOKMARK", "", 8)]], "8", id="a bookmark"),
            pytest.param([[an_event("ADDED", "b", 5)], torn()], "5", id="an event before the stream tore"),
            pytest.param([torn()], "1", id="the list, if nothing came"),
        ],
    )
    def test_resumes_from_the_last_version_seen(
        self, bench: Bench, batches: list[list[bytes] | Exception], version: str
    ) -> None:
        bench.api.pages += [a_list(1, "a")]
        bench.stream(*batches)
        bench.reflector.step()
        bench.reflector.step()
        assert bench.resumed_from == ["1", version]
        assert bench.reflector.stats.relists == 1
        assert bench.reflector.stats.watch_restarts == 1

    @pytest.mark.parametrize(
        "end",
        [
            pytest.param(Gone("too old"), id="HTTP 410"),
            pytest.param([an_error(410)], id="a 410 event"),
            pytest.param([an_error(500)], id="any other error event"),
            pytest.param(Refused("invalid resource version", 400), id="HTTP 400"),
            pytest.param([b"{"], id="an event that cannot be decoded"),
        ],
    )
    def test_lists_again_without_a_storm(self, bench: Bench, end: list[bytes] | Exception) -> None:
        bench.api.pages += [a_list(1, "a", "b"), a_list(9, "a", "c")]
        bench.stream([an_event("BOOKMARK", "", 2)])
        if isinstance(end, Exception):
            bench.api.streams.append(end)
        else:
            bench.stream(end)
        bench.reflector.step()
        bench.store.drain_changes()
        bench.reflector.step()
        bench.reflector.step()
        assert bench.keys == {"a", "c"}
        assert set(bench.store.drain_changes()) == {"b", "c"}, "a did not change and is not reported"
        assert bench.resumed_from[-1] == "9"

    def test_keeps_the_events_before_one_it_cannot_decode(self, bench: Bench) -> None:
        bench.api.pages += [a_list(1)]
        bench.stream([an_event("ADDED", "a", 2), b"{", an_event("ADDED", "b", 3)])
        assert bench.reflector.step() > 0
        assert bench.keys == {"a"}
        assert bench.reflector.stats.failures == 1

    def test_does_not_list_again_and_again_on_a_server_that_forgets_at_once(self, bench: Bench) -> None:
        bench.api.pages += [a_list(n) for n in range(10)]
        bench.api.streams += [Gone("too old")] * 10
        pauses = [bench.reflector.step() for _ in range(10)]
        assert all(p > 0 for p in pauses)
        assert pauses[-1] >= 15

    def test_that_was_forbidden_keeps_its_version(self, bench: Bench) -> None:
        bench.api.pages += [a_list(4)]
        bench.api.streams += [Refused("forbidden", 403)]
        assert bench.reflector.step() > 0
        bench.reflector.step()
        assert bench.resumed_from == ["4", "4"]

    def test_that_ends_at_once_is_not_reopened_in_a_hurry(self, bench: Bench) -> None:
        bench.api.pages += [a_list(1)]
        for _ in range(8):
            bench.stream(lasts_s=0.0)
        pauses = [bench.reflector.step() for _ in range(8)]
        assert pauses[-1] >= 15

    def test_that_makes_progress_resets_the_backoff(self, bench: Bench) -> None:
        bench.api.pages += [a_list(1)]
        bench.api.streams += [RetryLater("refused")] * 6
        bench.stream([an_event("ADDED", "a", 2)], torn())
        pauses = [bench.reflector.step() for _ in range(7)]
        assert pauses[5] > 5
        assert pauses[6] <= 0.5

    def test_that_was_quiet_to_its_end_is_healthy(self, bench: Bench) -> None:
        bench.api.pages += [a_list(1)]
        assert [bench.reflector.step() for _ in range(3)] == [0.0, 0.0, 0.0]
        assert bench.reflector.stats.failures == 0

    def test_closes_every_stream(self, bench: Bench) -> None:
        bench.api.pages += [a_list(1), a_list(2), a_list(3)]
        streams = [bench.stream([an_event("ADDED", "a", 2)], torn()), bench.stream([b"{"]), bench.stream()]
        for _ in streams:
            bench.reflector.step()
        assert [s.closed for s in streams] == [True] * 3


def test_an_outage_is_told_once_and_so_is_its_end(bench: Bench, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    bench.api.pages += [RetryLater("API server is unreachable")] * 5 + [a_list(1)]
    for _ in range(6):
        bench.reflector.step()
    assert [r.getMessage().split()[0] for r in caplog.records] == ["kube.watch_failing", "kube.watch_recovered"]
    assert "API server is unreachable" in vars(caplog.records[0])["fields"]["error"]
    assert bench.reflector.stats.last_error is None


def test_selectors_and_partial_metadata_go_with_list_and_watch() -> None:
    bench = Bench(field_selector="status.phase!=Failed", label_selector="a=b", partial_metadata=True)
    bench.api.pages += [a_list(1)]
    bench.reflector.step()
    for query in (*bench.api.lists, *bench.api.watches):
        assert query["fieldSelector"] == "status.phase!=Failed"
        assert query["labelSelector"] == "a=b"
    assert bench.api.list_calls[0].accept.startswith("application/json;as=PartialObjectMetadataList;")
    assert bench.api.accepts[0].startswith("application/json;as=PartialObjectMetadata;")


def test_whole_objects_are_plain_json(bench: Bench) -> None:
    bench.api.pages += [a_list(1)]
    bench.reflector.step()
    assert [bench.api.list_calls[0].accept, bench.api.accepts[0]] == [JSON, JSON]


class Waits:
    """Lets no time pass between steps, but no endless loop either."""

    def __init__(self) -> None:
        self.pauses: list[float] = []

    def __call__(self, event: threading.Event, seconds: float) -> bool:
        self.pauses.append(seconds)
        return event.wait(0.01 if seconds else 0)


class Heard:
    def __init__(self, key: str) -> None:
        self._key = key
        self.there = threading.Event()

    def changed(self, old: Thing | None, new: Thing | None) -> None:
        if new is not None and new.key == self._key:
            self.there.set()


class TestFeed:
    def test_follows_a_real_stream_over_its_tears_and_stops(self) -> None:
        clock = VirtualClock()
        with scripted_api() as api, client_of(api.url, clock) as client:
            event = an_event("ADDED", "b", 2) + b"\n"
            last = an_event("ADDED", "c", 3) + b"\n"
            api.script(
                f"GET {PATH}",
                Reply(body=a_list(1, "a")),
                Reply(chunks=[event + b'{"type": "ADD'], torn=True),
                status(503, "starting"),
                Reply(chunks=[last[:20], last[20:]], held=True),
            )
            feed = ClusterFeed(client, clock, wait=Waits(), rng=random.Random(1))
            store = feed.add(KindSource(path=PATH, decoder=ThingDecoder()))
            heard = Heard("c")
            store.subscribe(heard)
            feed.start()
            assert feed.wait_synced(PATIENCE_S) == {}
            assert heard.there.wait(PATIENCE_S)
            assert set(store.snapshot()) == {"a", "b", "c"}
            assert [a.query.get("resourceVersion") for a in api.asked] == [None, "1", "2", "2"]
            assert feed.stats()[PATH].relists == 1
            assert feed.stop(PATIENCE_S), "a watch that is held open does not hold up the end"

    def test_names_what_is_not_synced_and_why(self) -> None:
        clock = VirtualClock()
        with scripted_api() as api, client_of(api.url, clock) as client:
            api.script("GET /a", Reply(body=a_list(1)), Reply(chunks=[], held=True))
            api.script("GET /b", status(403, "may not list b"))
            feed = ClusterFeed(client, clock, wait=Waits())
            feed.add(KindSource(path="/a", decoder=ThingDecoder()))
            feed.add(KindSource(path="/b", decoder=ThingDecoder()))
            feed.start()
            api.wait_asked(4)
            late = feed.wait_synced(0.05)
            assert list(late) == ["/b"]
            assert "may not list b" in late["/b"]
            assert not feed.has_synced
            assert feed.stop(PATIENCE_S)

    def test_survives_a_listener_that_raises(self, caplog: pytest.LogCaptureFixture) -> None:
        class Bad:
            def changed(self, old: Thing | None, new: Thing | None) -> None:
                raise ZeroDivisionError

        clock = VirtualClock()
        with scripted_api() as api, client_of(api.url, clock) as client:
            api.script(
                f"GET {PATH}", Reply(body=a_list(1, "a")), ok(json.loads(a_list(2, "a"))), Reply(chunks=[], held=True)
            )
            feed = ClusterFeed(client, clock, wait=Waits())
            store = feed.add(KindSource(path=PATH, decoder=ThingDecoder()))
            store.subscribe(Bad())
            feed.start()
            api.wait_asked(3)
            assert feed.stop(PATIENCE_S)
        assert "kube.watch_crashed" in caplog.text
        assert set(store.snapshot()) == {"a"}


class TestSilence:
    def test_a_quiet_watch_is_opened_anew_and_nothing_is_wrong_with_it(self, bench: Bench) -> None:
        bench.api.pages += [a_list(1)]
        bench.stream(lasts_s=90.0)
        assert bench.reflector.step() == 0.0
        stats = bench.reflector.stats
        assert (stats.failures, stats.last_error, bench.api.renewed_after_s) == (0, None, 90.0)

    def test_a_watch_that_is_granted_is_heard_of_and_one_that_is_refused_is_not(self, bench: Bench) -> None:
        bench.api.pages += [a_list(1)]
        bench.stream(lasts_s=100.0)
        bench.reflector.step()
        listed = bench.reflector.stats.last_received_mono
        bench.api.streams.append(torn())
        bench.reflector.step()
        bench.clock.advance(20.0)
        stats = bench.reflector.stats
        assert (stats.last_received_mono, stats.failing_since_mono) == (listed, 100.0)
        bench.stream(lasts_s=5.0)
        bench.reflector.step()
        assert (bench.reflector.stats.last_received_mono, bench.reflector.stats.failing_since_mono) == (120.0, 125.0)

    def test_a_kind_that_the_server_does_not_have_is_not_silent(self) -> None:
        clock = VirtualClock()
        api = FakeApi(clock)
        feed = ClusterFeed(api, clock, max_silence_s=10.0)
        feed.add(KindSource(path=PATH, decoder=ThingDecoder(), optional=True))
        api.pages += [Gone("no such kind")] * 3
        (reflector,) = feed._reflectors
        reflector.step()
        clock.advance(1000.0)
        assert feed.silence_s() == {}

    def test_watches_are_opened_anew_well_within_the_limit(self) -> None:
        clock = VirtualClock()
        api = FakeApi(clock)
        feed = ClusterFeed(api, clock, max_silence_s=10.0)
        feed.add(KindSource(path=PATH, decoder=ThingDecoder()))
        api.pages += [a_list(1)]
        api.streams.append(FakeStream(clock, 5.0))
        (reflector,) = feed._reflectors
        assert reflector.step() == 0.0
        assert (api.renewed_after_s, feed.silence_s()) == (5.0, {PATH: 5.0})
