"""Reading a collection once."""

import json
from collections.abc import Mapping

import pytest

from autoscaler.errors import Gone, Refused
from autoscaler.kube.call import Call
from autoscaler.kube.listing import read_all


class Pages:
    """Answers with one chunk after the other; an exception among them is raised."""

    def __init__(self, *answers: bytes | Exception) -> None:
        self.asked: list[dict[str, str]] = []
        self._answers = list(answers)

    def get(self, path: str, query: Mapping[str, str] | None = None, call: Call = Call()) -> bytes:  # noqa: B008
        self.asked.append(dict(query or {}))
        answer = self._answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer


def a_page(following: str = "") -> bytes:
    return json.dumps({"kind": "PodList", "metadata": {"continue": following}, "items": []}).encode()


def test_all_chunks_are_read() -> None:
    server = Pages(a_page("two"), a_page("three"), a_page())
    assert read_all(server, "/api/v1/pods") == [a_page("two"), a_page("three"), a_page()]
    assert server.asked == [{"limit": "500"}, *({"limit": "500", "continue": token} for token in ("two", "three"))]


def test_a_list_that_took_too_long_is_read_at_once() -> None:
    server = Pages(a_page("two"), Gone("expired"), a_page())
    assert read_all(server, "/api/v1/pods") == (a_page(),)
    assert server.asked[-1] == {}


@pytest.mark.parametrize("error", [Gone("no such path"), Refused("forbidden", 403)])
def test_what_cannot_be_read_at_all_is_an_error(error: Exception) -> None:
    with pytest.raises(type(error)):
        read_all(Pages(error), "/api/v1/pods")
