import datetime
from collections.abc import Mapping
from enum import StrEnum
from typing import Annotated, Any

import msgspec
import pytest

from cloudprovider.interface import Misconfigured
from cloudprovider.problems import Problems
from cloudprovider.structure import Amount, Count, Lenient, Quantity, Seconds, Share, Strict, StructReader, key_of


class Colour(StrEnum):
    RED = "red"
    BLUE = "blue"


class Part(Strict, frozen=True, kw_only=True):
    size: Count
    note: str = ""


class Shared(Lenient, frozen=True, kw_only=True):
    size: Count = 0


class Whole(Strict, frozen=True, kw_only=True):
    text: str = ""
    flag: bool = False
    count: Count = 0
    few: Annotated[int, msgspec.Meta(ge=1, le=9)] = 1
    amount: Amount = 0.0
    share: Share | None = None
    wait_s: Seconds = 0.0
    colour: Colour | None = None
    texts: tuple[str, ...] = ()
    labels: Mapping[str, str] = {}
    requests: dict[str, Quantity] = {}
    parts: list[Part] = []
    shared: Shared = Shared()
    anything: Any = None


def reading(data: object, path: str = "a") -> tuple[Whole | None, tuple[str, ...]]:
    problems = Problems()
    return StructReader(problems).read(Whole, data, path), problems.lines


@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        ({"text": 1}, "a.text: must be a string, not the number 1"),
        ({"text": datetime.date(2024, 1, 1)}, "a.text: must be a string, not a date"),
        ({"flag": "yes"}, "a.flag: must be true or false, not a string"),
        ({"count": 1.5}, "a.count: must be a whole number, not the number 1.5"),
        ({"count": True}, "a.count: must be a whole number, not the boolean true"),
        ({"count": -1}, "a.count: -1 is below 0"),
        ({"few": 10}, "a.few: 10 is not within 1 and 9"),
        ({"amount": []}, "a.amount: must be a number, not a list"),
        ({"amount": float("nan")}, "a.amount: nan is not a finite number"),
        ({"share": 1.5}, "a.share: 1.5 is not within 0 and 1"),
        ({"wait": "-1s"}, 'a.wait: "-1s" is too small; write 0 or more'),
        ({"wait": "soon"}, 'a.wait: "soon" is not a duration; write a number with a unit, such as 90s, 10m or 1h30m'),
        ({"wait": 5}, "a.wait: 5 is not a duration; write text with a unit, such as 90s, 10m or 1h30m"),
        ({"colour": "green"}, "a.colour: 'green' is none of red, blue"),
        ({"colour": 3}, "a.colour: must be a string, not the number 3"),
        ({"texts": {}}, "a.texts: must be a list, not a mapping"),
        ({"texts": [True]}, "a.texts[0]: must be a string, not the boolean true"),
        ({"labels": []}, "a.labels: must be a mapping, not a list"),
        ({"labels": {1: "b"}}, "a.labels: has the key 1, which is not a string"),
        ({"labels": {"k": None}}, "a.labels[k]: must be a string, not nothing"),
        ({"requests": {"cpu": True}}, "a.requests[cpu]: true is not a number"),
        ({"requests": {"cpu": "-1"}}, 'a.requests[cpu]: "-1" is negative'),
        ({"parts": [{"size": 1}, {}]}, "a.parts[1].size: is required"),
        ({"parts": [{"size": 1, "nite": "x"}]}, "a.parts[0].nite: unknown key; did you mean note?"),
        ({"parts": ["x"]}, "a.parts[0]: must be a mapping, not a string"),
        ({"shared": {"size": "x"}}, "a.shared.size: must be a whole number, not a string"),
        ({"wait_s": "1s"}, "a.wait_s: unknown key; did you mean wait?"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_wrong_value_is_named_with_its_path(fields: dict[str, Any], problem: str) -> None:
    assert reading(fields) == (None, (problem,))


@pytest.mark.parametrize(("data", "kind"), [([], "a list"), (None, "nothing"), ("x", "a string")])
def test_what_is_no_mapping_is_named_as_what_it_is(data: object, kind: str) -> None:
    assert reading(data, "") == (None, (f"must be a mapping, not {kind}",))


def test_a_good_document_is_read_as_it_is_meant() -> None:
    found, problems = reading(
        {
            "count": 2,
            "amount": 1,
            "wait": "1m",
            "colour": "red",
            "requests": {"cpu": 0.5},
            "texts": None,
            "parts": [{"size": 3}],
            "shared": {"size": 1, "others": True},
            "anything": {"x": [1]},
        }
    )
    assert problems == ()
    assert found == Whole(
        count=2,
        amount=1.0,
        wait_s=60.0,
        colour=Colour.RED,
        requests={"cpu": "0.5"},
        parts=[Part(size=3)],
        shared=Shared(size=1),
        anything={"x": [1]},
    )


def test_what_is_well_formed_is_kept_with_its_place() -> None:
    reader = StructReader(Problems())
    fields = reader.fields(Whole, {"parts": [{"size": 1}, {}, {"size": 2, "note": 3}], "flag": 1, "count": 7}, "a")
    assert fields == {"count": 7, "parts": [Part(size=1), Part(size=2)]}
    assert reader.places == {"a.parts": ["a.parts[0]", "a.parts[2]"]}
    assert reader.problems.lines == (
        "a.flag: must be true or false, not the number 1",
        "a.parts[1].size: is required",
        "a.parts[2].note: must be a string, not the number 3",
    )


@pytest.mark.parametrize(
    ("field", "key"), [("name", "name"), ("scan_interval_s", "scanInterval"), ("max_pods", "maxPods")]
)
def test_keys_are_in_camel_case_without_the_unit_of_a_duration(field: str, key: str) -> None:
    assert key_of(field) == key


def test_a_problem_said_twice_counts_once() -> None:
    problems = Problems()
    problems.add("a", "is bad")
    problems.add("a", "is bad")
    problems.add("", "all is bad")
    with pytest.raises(Misconfigured) as caught:
        problems.raise_if_any()
    assert str(caught.value) == "a: is bad\nall is bad"
