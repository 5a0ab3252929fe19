import datetime
from collections.abc import Callable
from enum import StrEnum
from typing import Any

import pytest

from cloudprovider.fields import Fields, Problems
from cloudprovider.interface import Misconfigured


class Colour(StrEnum):
    RED = "red"
    BLUE = "blue"


@pytest.mark.parametrize(
    ("value", "read", "problem"),
    [
        (1, lambda f: f.text("x"), "a.x: must be a string, not the number 1"),
        ("yes", lambda f: f.flag("x"), "a.x: must be true or false, not a string"),
        (1.5, lambda f: f.integer("x", least=0), "a.x: must be a whole number, not the number 1.5"),
        ([], lambda f: f.number("x"), "a.x: must be a number, not a list"),
        (float("nan"), lambda f: f.number("x"), "a.x: nan is not a number from 0"),
        ("-1s", lambda f: f.duration_s("x"), "a.x: -1s is negative"),
        ("green", lambda f: f.choice("x", Colour), "a.x: 'green' is none of red, blue"),
        ({}, lambda f: f.texts("x"), "a.x: must be a list, not a mapping"),
        ([True], lambda f: f.texts("x"), "a.x[0]: must be a string, not the boolean true"),
        ([], lambda f: f.mapping("x"), "a.x: must be a mapping, not a list"),
        ({1: "b"}, lambda f: f.mapping("x"), "a.x: has the key 1, which is not a string"),
        ({"k": None}, lambda f: f.string_map("x"), "a.x[k]: must be a string, not nothing"),
        ({"cpu": True}, lambda f: f.quantities("x"), "a.x[cpu]: must be a quantity, not the boolean true"),
        (datetime.date(2024, 1, 1), lambda f: f.text("x"), "a.x: must be a string, not a date"),
    ],
    ids=lambda value: value if isinstance(value, str) and ":" in value else "",
)
def test_a_wrong_value_is_named_with_its_path(value: Any, read: Callable[[Fields], Any], problem: str) -> None:
    problems = Problems()
    result = read(Fields({"x": value}, "a", problems))
    assert problems.lines == (problem,)
    assert not result


def test_a_good_document_raises_nothing() -> None:
    problems = Problems()
    fields = Fields({"n": 2, "d": "1m", "c": "red", "q": {"cpu": 0.5}}, "", problems)
    assert (fields.integer("n", least=2), fields.duration_s("d"), fields.choice("c", Colour)) == (2, 60.0, Colour.RED)
    assert fields.quantities("q") == {"cpu": "0.5"}
    fields.close()
    problems.raise_if_any()


def test_a_problem_said_twice_counts_once() -> None:
    problems = Problems()
    problems.add("a", "is bad")
    problems.add("a", "is bad")
    problems.add("", "all is bad")
    with pytest.raises(Misconfigured) as caught:
        problems.raise_if_any()
    assert str(caught.value) == "a: is bad\nall is bad"
