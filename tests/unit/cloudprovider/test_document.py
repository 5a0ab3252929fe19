"""YAML of strangers: what Kubernetes reads, and texts made to fill the memory or the stack."""

import math
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from cloudprovider.document import parse_documents, parse_yaml
from cloudprovider.file import read_file, read_text

_BOMB = "a: &a [x,x,x,x,x,x,x,x,x]\n" + "".join(
    f"{this}: &{this} [{','.join([f'*{before}'] * 9)}]\n" for before, this in zip("abcdefghi", "bcdefghij", strict=True)
)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        *(("~", None), ("null", None), ("yes", True), ("Off", False), ("'yes'", "yes"), ("!!str 5", "5"), ("! 5", "5")),
        *(("10", 10), ("+1", 1), ("-0x1", -1), ("010", 8), ("0o17", 15), ("0b11", 3), ("1_000", 1000)),
        *((".5", 0.5), ("1.", 1.0), ("1e3", 1000.0), ("-.inf", -math.inf), ("!!float 5", 5.0)),
        pytest.param("99999999999999999999", 1e20, id="beyond 64 bits a number is one of floating point"),
        pytest.param("12:30:00", "12:30:00", id="no number to the base of 60"),
        pytest.param("2020-01-01", "2020-01-01", id="no date"),
        pytest.param("9" * 5000, "9" * 5000, id="what is too long to be a number is text"),
        pytest.param('{"a": [1, {"b": null}]}', {"a": [1, {"b": None}]}, id="JSON"),
        pytest.param("x: &x {a: 1, b: 2}\n<<: *x\nb: 3", {"x": {"a": 1, "b": 2}, "a": 1, "b": 3}, id="merge"),
        pytest.param("{<<: [{a: 1}, {a: 2, b: 2}]}", {"a": 1, "b": 2}, id="the first of merged mappings wins"),
        pytest.param("- &a [1]\n- *a", [[1], [1]], id="alias"),
        pytest.param("- <<\n- '<<'", ["<<", "<<"], id="a sign of merging that is none"),
    ],
)
def test_a_text_is_read_as_kubernetes_reads_it(text: str, value: object) -> None:
    assert parse_yaml(text) == value


def test_scalars_can_stay_as_they_are_written() -> None:
    assert parse_documents("10: [1, ~, yes, 'x', <<]\n<<: 1", as_written=True) == [
        {"10": ["1", "~", "yes", "x", "<<"], "<<": "1"}
    ]


def test_empty_documents_are_left_out() -> None:
    assert parse_documents("---\na: 1\n---\n---\nb\n") == [{"a": 1}, "b"]
    assert parse_yaml("# nothing") is None


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        pytest.param("a: 1\na: 2", "key a is there twice (line 2, column 1)", id="a key twice"),
        pytest.param("[" * 100_000, "is nested deeper than 200", id="brackets"),
        pytest.param("{a: " * 100_000, "is nested deeper than 200", id="braces"),
        pytest.param("- " * 100_000, "is nested deeper than 200", id="dashes"),
        pytest.param("? " * 100_000, "is nested deeper than 200", id="question marks"),
        pytest.param(_BOMB, "aliases repeat more than a megabyte", id="aliases of aliases"),
        pytest.param(
            f"- &a {'x' * 999_999}\n" + "- *a\n" * 2, "aliases repeat more than a megabyte", id="aliases of a long text"
        ),
        pytest.param("a: &a\n  b: *a", "has no anchor before it", id="a mapping within itself"),
        pytest.param("*a", "has no anchor before it", id="an alias of nothing"),
        pytest.param("? [a]\n: 1", "a list or mapping cannot be a key", id="a list as a key"),
        pytest.param("<<: 3", "<< is for mappings", id="a number to merge"),
        pytest.param("!!python/object:os.system x", "is not JSON", id="an object of Python"),
        pytest.param("!!set {a}", "is not JSON", id="a set"),
        pytest.param("!!binary aGVsbG8=", "is not JSON", id="bytes"),
        pytest.param("!!timestamp x", "is not JSON", id="a time"),
        pytest.param("!!bool x", "is not JSON", id="no boolean"),
        pytest.param("!!int ''", "is not JSON", id="no number"),
        pytest.param("a: \0", "control characters are not allowed", id="NUL"),
        pytest.param("a: \ud800", "surrogate", id="half of a pair"),
        pytest.param("a: [", "did not find expected node content (line 2, column 1)", id="no end"),
        pytest.param("a: b: c", "mapping values are not allowed", id="two colons"),
        pytest.param("x" * 65 * 2**20, "characters, more than", id="too long"),
    ],
)
def test_what_is_wrong_is_one_short_line(text: str, problem: str) -> None:
    with pytest.raises(ValueError, match=r".+") as caught:
        parse_documents(text)
    assert problem in str(caught.value)
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 300


@pytest.mark.parametrize(
    "repeated",
    [
        lambda n: "[" + "1," * n + "]",
        lambda n: "- a: 1\n  b: x\n" * n,
        lambda n: "- &a x\n" + "- *a\n" * n,
        lambda n: ("[" * 190 + "]" * 190 + "\n---\n") * (n // 100),
        lambda n: "\n".join(f"k{number}: 1" for number in range(n)),
    ],
    ids=["entries", "mappings", "aliases", "depth", "keys"],
)
def test_twice_the_text_takes_twice_the_steps(repeated: Callable[[int], str]) -> None:
    def calls_for(text: str) -> int:
        count = 0

        def notice(*_: object) -> None:
            nonlocal count
            count += 1

        before = sys.getprofile()
        sys.setprofile(notice)
        try:
            parse_documents(text)
        finally:
            sys.setprofile(before)
        return count

    assert calls_for(repeated(2000)) < 2.2 * calls_for(repeated(1000))


def _unreadable(path: Path, make: Callable[[Path], Any]) -> str:
    make(path)
    with pytest.raises(ValueError, match="cannot be read") as caught:
        read_text(str(path), most=1 << 20)
    return str(caught.value)


@pytest.mark.parametrize(
    ("make", "problem"),
    [
        pytest.param(lambda path: None, "No such file or directory", id="nothing there"),
        pytest.param(lambda path: path.mkdir(), "Is a directory", id="a directory"),
        pytest.param(lambda path: os.mkfifo(path), "it is not a regular file", id="a pipe that nobody writes to"),
        pytest.param(lambda path: path.symlink_to("/dev/zero"), "it is not a regular file", id="a device without end"),
        pytest.param(lambda path: path.symlink_to(path), "symbolic link", id="a link to itself"),
        pytest.param(lambda path: path.write_bytes(b"\xff"), "it is not UTF-8 text (byte 1)", id="no UTF-8"),
        pytest.param(lambda path: path.write_text("a: 1", "utf-16"), "it is UTF-16; save it as UTF-8", id="UTF-16"),
        pytest.param(lambda path: _sparse(path, 10 << 30), "it has more than 1 MiB", id="10 GiB"),
    ],
)
def test_a_file_that_cannot_be_read_is_one_line(tmp_path: Path, make: Callable[[Path], Any], problem: str) -> None:
    assert problem in _unreadable(tmp_path / "file", make)


def _sparse(path: Path, size: int) -> None:
    with path.open("wb") as file:
        file.truncate(size)


def test_a_name_with_a_nul_is_one_line() -> None:
    with pytest.raises(ValueError, match="null byte"):
        read_file("a\0b")


def test_a_mark_of_the_byte_order_is_dropped(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("a: 1", "utf-8-sig")
    assert read_text(str(tmp_path / "file")) == "a: 1"


def test_a_pipe_from_the_shell_is_read_to_its_end() -> None:
    read_fd, write_fd = os.pipe()
    with os.fdopen(read_fd), os.fdopen(write_fd, "w") as writer:
        writer.write("kind: Pod")
        writer.close()
        assert read_text(f"/dev/fd/{read_fd}") == "kind: Pod"
