"""Every regular expression of the project takes time in proportion to the text, whoever wrote that.

Expressions are found in the source, so that none escapes, and run on texts made of their own pieces by an engine that
counts steps instead of seconds: what a backtracking engine may have to try, without any of its short cuts.
"""

import ast
import importlib
import itertools
import math
import pkgutil
import re
import re._constants as codes  # type: ignore[import-not-found]
import re._parser as parser  # type: ignore[import-not-found]
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeGuard

import pytest

import autoscaler
import cloudprovider

_FUNCTIONS = {"compile", "match", "fullmatch", "search", "sub", "subn", "split", "findall", "finditer"}
_HARMLESS = {"escape", "Pattern", "Match", "error", *("ASCII", "I", "IGNORECASE", "DOTALL", "MULTILINE")}
_MADE_AT_RUN_TIME = {
    ("cloudprovider.expression", "__init__"): "falls back to a linear engine where there are many choices",
    ("cloudprovider.expression", "_taker"): "one character",
}
"""Where expressions are not constant, by module and function, and why that is good enough."""
_BRIEF = {
    ("cloudprovider.gce.faults", "_named"): "searches messages that are cut to 1,000 characters",
}
_MODULES = sorted(
    module.name
    for package in (autoscaler, cloudprovider)
    for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}.")
    if not module.name.endswith("__main__")
)
_SHORT, _LONG = 40, 80
_SUSPECT_SHORT, _SUSPECT_LONG = 600, 1200
_LINEAR = 2.6
"""How many times as many steps a text may take that is twice as long: short ones have a share that is fixed."""
_STEPS_A_CHARACTER = 400
"""More than any expression takes that does not take longer and longer."""


def _calls(tree: ast.AST, function: str = "") -> Iterator[tuple[str, ast.Attribute, ast.Call | None]]:
    """Yield every use of the module `re`: the function that it stands in, the name, and the call if it is one."""
    inside = tree.name if isinstance(tree, ast.FunctionDef) else function
    children = list(ast.iter_child_nodes(tree))
    if isinstance(tree, ast.Call) and _is_of_re(tree.func):
        children.remove(tree.func)
        yield inside, tree.func, tree
    for child in children:
        if _is_of_re(child):
            yield inside, child, None
        yield from _calls(child, inside)


def _is_of_re(node: ast.AST) -> TypeGuard[ast.Attribute]:
    return isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "re"


def _tree_of(module: str) -> ast.AST:
    return ast.parse(Path(str(importlib.import_module(module).__file__)).read_text(encoding="utf-8"))


def _patterns_of(module: str) -> Iterator[tuple[str, int, str]]:
    """Yield expression, flags and how it is run, of every expression in a module's source."""
    loaded = importlib.import_module(module)
    tree = _tree_of(module)
    for node in ast.walk(tree):
        assert not (isinstance(node, ast.ImportFrom) and node.module == "re"), f"{module}: write re.compile"
        renamed = isinstance(node, ast.Import) and any(one.name == "re" and one.asname for one in node.names)
        assert not renamed, f"{module}: leave re its name"
    for function, name, call in _calls(tree):
        assert name.attr in _FUNCTIONS | _HARMLESS, f"{module}: re.{name.attr} is not looked at here"
        if name.attr not in _FUNCTIONS:
            continue
        assert call is not None, f"{module}: re.{name.attr} is handed on"
        if (module, function) in _MADE_AT_RUN_TIME or (module, function) in _BRIEF:
            continue
        expression = _evaluated(call.args[0], vars(loaded), f"{module}:{call.lineno}")
        given = [keyword.value for keyword in call.keywords if keyword.arg == "flags"]
        given += call.args[1:2] if name.attr == "compile" else []
        flags = _evaluated(given[0], vars(loaded), module) if given else 0
        found = expression if isinstance(expression, str) else expression.decode("latin-1")
        yield found, int(flags), "fullmatch" if _only_matched(tree, call) else "search"


def _only_matched(tree: ast.AST, call: ast.Call) -> bool:
    """Whether an expression has a name, and under it is matched only, from where a text begins."""
    if isinstance(call.func, ast.Attribute) and call.func.attr in ("match", "fullmatch"):
        return True
    names = [
        node.targets[0].id
        for node in ast.walk(tree)
        if isinstance(node, ast.Assign) and node.value is call and isinstance(node.targets[0], ast.Name)
    ]
    loads = [node for node in ast.walk(tree) if isinstance(node, ast.Name) and [node.id] == names]
    used = [
        node.attr
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and [node.value.id] == names
    ]
    return len(used) == len(loads) - 1 > 0 and set(used) <= {"match", "fullmatch"}


def _evaluated(node: ast.expr, names: dict[str, Any], where: str) -> Any:
    try:
        return eval(compile(ast.Expression(node), where, "eval"), dict(names))
    except NameError as error:
        raise AssertionError(f"{where}: an expression that is made while it runs: {error}") from error


_PATTERNS = [(module, *found) for module in _MODULES for found in _patterns_of(module)]


class _TooMany(Exception):
    pass


class _Engine:
    """Backtracks over a parsed expression, counting the items that it tries."""

    def __init__(self, expression: str, flags: int, limit: int) -> None:
        self.tree = parser.parse(expression, flags)
        self.steps = 0
        self._limit = limit
        self._ignoring_case = bool((flags | self.tree.state.flags) & re.I)

    def search(self, text: str) -> None:
        """Find all matches, as `findall` would."""
        at = 0
        while at <= len(text):
            end = next(self._sequence(list(self.tree), 0, text, at), None)
            at = at + 1 if end is None else max(end, at + 1)

    def fullmatch(self, text: str) -> None:
        """Match the whole text."""
        next((end for end in self._sequence(list(self.tree), 0, text, 0) if end == len(text)), None)

    def _sequence(self, items: list[Any], index: int, text: str, at: int) -> Iterator[int]:
        if index == len(items):
            yield at
            return
        for end in self._item(items[index], text, at):
            yield from self._sequence(items, index + 1, text, end)

    def _item(self, item: tuple[Any, Any], text: str, at: int) -> Iterator[int]:
        self.steps += 1
        if self.steps > self._limit:
            raise _TooMany
        kind, of = item
        if kind in (codes.MAX_REPEAT, codes.MIN_REPEAT, codes.POSSESSIVE_REPEAT):
            yield from self._repeated(kind, of, text, at)
        elif kind is codes.SUBPATTERN:
            yield from self._sequence(list(of[3]), 0, text, at)
        elif kind is codes.ATOMIC_GROUP:
            yield from itertools.islice(self._sequence(list(of), 0, text, at), 1)
        elif kind is codes.BRANCH:
            for way in of[1]:
                yield from self._sequence(list(way), 0, text, at)
        elif kind in (codes.ASSERT, codes.ASSERT_NOT):
            yield from self._looked(kind, of, text, at)
        elif kind is codes.AT:
            yield from [at] * self._stands(of, text, at)
        elif at < len(text) and self._takes(item, text[at]):
            yield at + 1

    def _looked(self, kind: Any, of: Any, text: str, at: int) -> Iterator[int]:
        behind, tree = of
        start = at if behind > 0 else at - tree.getwidth()[0]
        found = start >= 0 and next(self._sequence(list(tree), 0, text, start), None) is not None
        yield from [at] * (found is (kind is codes.ASSERT))

    def _repeated(self, kind: Any, of: Any, text: str, at: int) -> Iterator[int]:
        least, most, inner = of
        items = list(inner)
        if kind is codes.POSSESSIVE_REPEAT:
            count = 0
            while count < most:
                end = next(self._sequence(items, 0, text, at), None)
                if end is None or end == at:
                    break
                at, count = end, count + 1
            yield from [at] * (count >= least)
            return
        if len(items) == 1 and items[0][0] in (codes.LITERAL, codes.NOT_LITERAL, codes.ANY, codes.IN):
            ends = [at]
            while len(ends) <= most and next(self._item(items[0], text, ends[-1]), None) is not None:
                ends.append(ends[-1] + 1)
            found = ends[least:]
            for end in found if kind is codes.MIN_REPEAT else reversed(found):
                self.steps += 1
                yield end
            return
        yield from self._rounds(items, least, most, text, at, kind is codes.MIN_REPEAT)

    def _rounds(self, items: list[Any], least: int, most: int, text: str, at: int, lazy: bool) -> Iterator[int]:
        if lazy and least <= 0:
            yield at
        if most > 0:
            for end in self._sequence(items, 0, text, at):
                if end > at:
                    yield from self._rounds(items, least - 1, most - 1, text, end, lazy)
        if not lazy and least <= 0:
            yield at

    def _stands(self, where: Any, text: str, at: int) -> bool:
        if where in (codes.AT_BEGINNING, codes.AT_BEGINNING_STRING):
            return at == 0
        if where in (codes.AT_END, codes.AT_END_STRING):
            return at == len(text)
        before, after = (bool(re.match(r"\w", piece)) for piece in (text[at - 1 : at], text[at : at + 1]))
        return (before != after) is (where is codes.AT_BOUNDARY)

    def _takes(self, item: tuple[Any, Any], char: str) -> bool:
        kind, of = item
        if self._ignoring_case and kind is codes.LITERAL:
            return chr(of).lower() == char.lower()
        if kind is codes.LITERAL:
            return bool(chr(of) == char)
        if kind is codes.NOT_LITERAL:
            return bool(chr(of) != char)
        if kind is codes.ANY:
            return char != "\n"
        if kind is codes.IN:
            wanted = (char.lower(), char.upper()) if self._ignoring_case else (char,)
            inverted = of[0][0] is codes.NEGATE
            return any(self._in(one, piece) for one in of[inverted:] for piece in wanted) != inverted
        raise AssertionError(f"{kind} is not known here: teach this engine")

    def _in(self, one: tuple[Any, Any], char: str) -> bool:
        kind, of = one
        if kind is codes.LITERAL:
            return bool(ord(char) == of)
        if kind is codes.RANGE:
            return bool(of[0] <= ord(char) <= of[1])
        return re.match(_CATEGORIES[of], char) is not None


_CATEGORIES = {
    codes.CATEGORY_DIGIT: r"\d",
    codes.CATEGORY_NOT_DIGIT: r"\D",
    codes.CATEGORY_SPACE: r"\s",
    codes.CATEGORY_NOT_SPACE: r"\S",
    codes.CATEGORY_WORD: r"\w",
    codes.CATEGORY_NOT_WORD: r"\W",
}


def _pieces(items: Any) -> Iterator[str]:
    """Yield short texts that parts of an expression match: its own alphabet, and its own words."""
    word = ""
    for kind, of in items:
        if kind is codes.LITERAL:
            word += chr(of)
            continue
        inner = _own(kind, of)
        yield from inner
        word += inner[0] if inner and kind is not codes.ASSERT_NOT else ""
    if word:
        yield word[:20]


def _own(kind: Any, of: Any) -> list[str]:
    if kind is codes.IN:
        return [
            char for char in "a0-. \t,=:/@\"'\\_[](){}A+!\n;xn%" if _Engine("a", 0, 10**9)._takes((kind, of), char)
        ][:6]
    if kind in (codes.ANY, codes.NOT_LITERAL):
        return ["a", " "]
    if kind in (codes.MAX_REPEAT, codes.MIN_REPEAT, codes.POSSESSIVE_REPEAT):
        return list(_pieces(of[2]))
    if kind is codes.SUBPATTERN:
        return list(_pieces(of[3]))
    if kind is codes.BRANCH:
        return [piece for way in of[1][:6] for piece in _pieces(way)]
    if kind in (codes.ASSERT, codes.ASSERT_NOT):
        return list(_pieces(of[1]))
    return list(_pieces(of)) if kind is codes.ATOMIC_GROUP else []


def _attacks(expression: str, flags: int) -> Iterator[Callable[[int], str]]:
    """Yield texts of any length: a beginning, pieces over and over, and an end that fails."""
    pieces = list(dict.fromkeys(piece for piece in _pieces(list(parser.parse(expression, flags))) if piece))[:16]
    units = [*pieces, *(left + right for left, right in itertools.permutations(pieces[:5], 2))]
    for head, unit in itertools.product(("", *pieces[:1]), units):
        yield lambda length, head=head, unit=unit: f"{head}{unit * (length // len(unit))}\0"  # type: ignore[misc]


def _growth(expression: str, flags: int, run: str) -> float:
    """Return how many times the steps grow when an attack gets twice as long, if they grow faster than that.

    It stops to count as soon as that is certain.
    """

    def steps(text: str, limit: int) -> int:
        engine = _Engine(expression, flags, limit)
        try:
            getattr(engine, run)(text)
        except (_TooMany, RecursionError):
            return limit
        return engine.steps

    def grows(attack: Callable[[int], str], short: int, long: int) -> float:
        most = _STEPS_A_CHARACTER * short
        few = steps(attack(short), most)
        if few >= most:
            return math.inf
        expected = max(few, long)
        return steps(attack(long), int(_LINEAR * expected) + 1) / expected

    suspects = (attack for attack in _attacks(expression, flags) if grows(attack, _SHORT, _LONG) > _LINEAR)
    growths = (grows(attack, _SUSPECT_SHORT, _SUSPECT_LONG) for attack in suspects)
    return next((growth for growth in growths if growth > _LINEAR), 0.0)


@pytest.mark.parametrize(
    ("module", "expression", "flags", "run"), _PATTERNS, ids=[pattern[1][:40] for pattern in _PATTERNS]
)
def test_a_text_twice_as_long_takes_twice_the_steps(module: str, expression: str, flags: int, run: str) -> None:
    assert _growth(expression, flags, run) <= _LINEAR, f"{module}: {expression}"


@pytest.mark.parametrize(
    ("expression", "run"),
    [
        ("(a+)+b", "fullmatch"),
        ("(a|aa)*b", "fullmatch"),
        (r"[0-9]+\.?[0-9]*", "fullmatch"),
        (r"\s*(\w*)\s*\s*x", "fullmatch"),
        (r"[\w.-]*(token)", "search"),
        (r"([0-9]+\.?[0-9]*|\.[0-9]+)(ns|us|ms|s|m|h)", "search"),
        (r",(?![^(]*\))", "search"),
    ],
)
def test_expressions_that_take_longer_are_noticed(expression: str, run: str) -> None:
    assert _growth(expression, 0, run) > _LINEAR


def test_every_exception_is_still_there() -> None:
    uses = {(module, function) for module in _MODULES for function, _, _ in _calls(_tree_of(module))}
    assert {*_MADE_AT_RUN_TIME, *_BRIEF} <= uses
