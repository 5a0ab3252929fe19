import random
import re
from re import _parser as parser

import pytest

from cloudprovider.expression import Expression, _Program


@pytest.mark.parametrize(
    ("expression", "text", "found", "whole"),
    [
        ("spot", "a-spot-b", True, False),
        (".*spot.*large.*", "a-spot-b-large", True, True),
        ("^a(-[0-9]+)*$", "a-1-22", True, True),
        ("[[:alpha:]]+-[[:digit:]]{2,3}", "web-12", True, True),
        (r"web\z", "my-web", True, False),
        ("(?i)WEB|(?:x|y)+", "web", True, True),
        (r"\bweb\b.*(a|b).*(c|d)", "my web a d", True, False),
        ("", "anything", True, False),
    ],
)
def test_an_expression_matches_as_in_go(expression: str, text: str, found: bool, whole: bool) -> None:
    assert (Expression(expression).found_in(text), Expression(expression).is_all_of(text)) == (found, whole)


@pytest.mark.parametrize(
    "expression",
    ["(a+)+$", "(a|a)*b", "(a?){40}a{40}b", ".*a.*a.*a.*a.*a.*b", "(a*)*(a*)*c", "(a|aa)+$", "(?:(?:){65535}){65535}b"],
)
def test_an_expression_made_to_hurt_takes_no_time(expression: str) -> None:
    assert not Expression(expression).found_in("a" * 300 + "!")


@pytest.mark.parametrize(
    ("expression", "problem"),
    [
        ("(", "unterminated"),
        ("a" * 1001, "1001 characters"),
        ("(?=a)", "Go does not know"),
        (r"(a)\1", "Go does not know"),
        ("((a{100}){100}){100}", "too large"),
        ("(" * 900, "."),
    ],
)
def test_what_is_no_expression_is_refused(expression: str, problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        Expression(expression)


def _some(chance: random.Random, depth: int = 0) -> str:
    choice = chance.random()
    if depth > 3 or choice < 0.3:
        return chance.choice(["a", "b", "[ab]", "[^a]", ".", r"\w", r"\d", "-", "^", "$", r"\b"])
    if choice < 0.5:
        return _some(chance, depth + 1) + _some(chance, depth + 1)
    if choice < 0.65:
        return f"(?:{_some(chance, depth + 1)}|{_some(chance, depth + 1)})"
    return f"(?:{_some(chance, depth + 1)})" + chance.choice(["*", "+", "?", "{2}", "{1,3}", "{2,}"])


def test_following_every_way_at_once_finds_what_trying_one_after_the_other_finds() -> None:
    chance = random.Random(1)
    for _ in range(500):
        expression = _some(chance)
        pattern = re.compile(expression, re.ASCII)
        program = _Program(list(parser.parse(expression, re.ASCII)), pattern.flags)
        for _ in range(5):
            text = "".join(chance.choice("ab-1") for _ in range(chance.randrange(7)))
            assert program.matches(text, whole=False) is (pattern.search(text) is not None), (expression, text)
            assert program.matches(text, whole=True) is (pattern.fullmatch(text) is not None), (expression, text)
