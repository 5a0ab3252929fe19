"""A loopback API server that says what a real one said: it answers from recorded exchanges."""

import contextlib
import functools
import gzip
import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

import msgspec

from tests.unit.kube.scripted import Asked, Reply, ScriptedApi

RECORDED = Path(__file__).parent / "recorded"
_PACE = ("timeoutSeconds", "allowWatchBookmarks")
"""How long and how chatty a watch is: any recorded one will do."""
_ALL_RECORDED_PODS = {"fieldSelector": "status.phase!=Succeeded,status.phase!=Failed"}
"""A selection that no recorded pod falls out of."""
_FRAMING = ("Content-Length", "Transfer-Encoding")


class Question(msgspec.Struct, frozen=True, rename="camel"):
    """What was sent; `path` includes the query, `body` is the text that was sent or the object that it said."""

    method: str
    path: str
    accept: str = ""
    content_type: str = ""
    body: Any = None

    @property
    def place(self) -> str:
        """The path alone."""
        return unquote(urlsplit(self.path).path)

    @property
    def query(self) -> dict[str, str]:
        return dict(parse_qsl(urlsplit(self.path).query, keep_blank_values=True))

    @property
    def data(self) -> bytes | None:
        """The body as it went over the wire."""
        if self.body is None:
            return None
        return self.body.encode() if isinstance(self.body, str) else json.dumps(self.body).encode()


class Said(msgspec.Struct, frozen=True):
    """What came back: a body or, from a watch, lines."""

    status: int
    headers: Mapping[str, str]
    body: str = ""
    lines: Sequence[str] | None = None

    @property
    def json(self) -> Any:
        return json.loads(self.body)


class Exchange(msgspec.Struct, frozen=True):
    name: str
    request: Question
    response: Said

    @property
    def reply(self) -> Reply:
        said = self.response
        headers = {name: value for name, value in said.headers.items() if name not in _FRAMING}
        if said.lines is None:
            return Reply(said.status, said.body.encode(), headers)
        return Reply(said.status, headers=headers, chunks=[line.encode() for line in said.lines])


@functools.cache
def exchanges() -> Mapping[str, Exchange]:
    """Every recorded exchange by name."""
    with gzip.open(RECORDED / "exchanges.jsonl.gz") as lines:
        read = [msgspec.json.decode(line, type=Exchange) for line in lines]
    return {exchange.name: exchange for exchange in read}


def collection(name: str) -> Any:
    """The list that the exchange answered with."""
    return exchanges()[name].response.json


class RecordedApi(ScriptedApi):
    """Answers as recorded to the same call, and before that whatever `expect` has lined up for its path.

    Recordings that answer the same call differently are told apart by `expect`; else the first that succeeded counts.
    A watch from another version than the recorded one gets the recorded lines that are newer, and then stays open.
    """

    def expect(self, *names: str) -> None:
        """Answer the next calls of these exchanges' methods and paths so, in order."""
        for name in names:
            exchange = exchanges()[name]
            self.script(f"{exchange.request.method} {exchange.request.place}", exchange.reply)

    def reply(self, asked: Asked) -> Reply:
        queue = self._replies[f"{asked.method} {asked.path}"]
        watching = asked.query.get("watch") in ("1", "true")
        if queue and not (watching and queue[0].status == 200 and not queue[0].chunks):  # a list answers no watch
            return queue.popleft()
        alike = [e for e in exchanges().values() if (e.request.method, e.request.place) == (asked.method, asked.path)]
        same = [e for e in alike if _is_same(e.request, asked)]
        if same:
            return min(same, key=lambda e: (e.response.status >= 300, not _is_body(e.request, asked))).reply
        if watching:
            return _newer(alike, int(asked.query.get("resourceVersion") or 0))
        return exchanges()["list-kind-absent"].reply


def _is_same(question: Question, asked: Asked) -> bool:
    """Whether query and, where a list has several forms, what is accepted are the same; what fits in one chunk counts
    as unlimited."""
    matters = {name: value for name, value in asked.query.items() if name not in _PACE}
    if matters.get("limit") == "500":
        del matters["limit"]
    recorded = {name: value for name, value in question.query.items() if name not in _PACE}
    if "continue" in matters:  # the token says all, the size of chunks may change
        recorded.pop("limit", None)
    spare = _ALL_RECORDED_PODS.items() if question.place.endswith("/pods") else ()
    matters = {name: value for name, value in matters.items() if (name, value) not in spare}
    if {**matters, "watch": matters.get("watch", "").replace("true", "1")} != {"watch": "", **recorded}:
        return False
    return ("as=" in question.accept) is ("as=" in asked.headers.get("Accept", ""))


def _is_body(question: Question, asked: Asked) -> bool:
    try:
        return bool(question.body == asked.json)
    except ValueError:
        return asked.body == (question.data or b"")


def _newer(alike: Sequence[Exchange], version: int) -> Reply:
    lines = next((e.response.lines for e in alike if e.name == "watch-pods"), None) or ()
    fresh = [line for line in lines if int(json.loads(line)["object"]["metadata"]["resourceVersion"]) > version]
    return Reply(chunks=[line.encode() for line in fresh], held=True)


@contextlib.contextmanager
def recorded_api() -> Iterator[RecordedApi]:
    api = RecordedApi()
    try:
        yield api
    finally:
        api.close()
