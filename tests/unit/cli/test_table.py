"""How text and tables are laid out for a terminal."""

import io
from collections.abc import Mapping

import pytest

from autoscaler.cli.output import Colour, terminal_of
from autoscaler.cli.table import Block, Style, Styled, Table, Terminal, laid_out


def shown(block: Block, width: int | None = None, *, coloured: bool = False) -> list[str]:
    return list(laid_out(block, Terminal(width, coloured)))


NODE = "ip-10-0-111-31.eu-west-1.compute.internal"


def test_a_table_that_fits_is_as_wide_as_its_content() -> None:
    table = Table(("NAME", "PODS"), [("web", 3), ("checkout", 200)], "Pods")
    assert shown(table, 80) == shown(table) == ["Pods", "NAME      PODS", "web       3", "checkout  200"]


def test_a_long_name_is_cut_in_the_middle_and_its_end_stays() -> None:
    (line,) = shown(Table((), [(NODE, "general")]), 34)
    assert line == "ip-10-0-111-31.e…internal  general"


def test_a_long_text_is_wrapped_under_its_column() -> None:
    table = Table(("NODE", "WHY"), [("a", "92% of its cpu is requested, the threshold is 50%"), ("b", "it is busy")])
    assert shown(table, 32) == [
        "NODE  WHY",
        "a     92% of its cpu is",
        "      requested, the threshold",
        "      is 50%",
        "b     it is busy",
    ]


def test_sentences_give_way_before_names() -> None:
    lines = shown(Table(("NODE", "WHY"), [(NODE, "the pods on it have no other place to go to")]), 70)
    assert lines[1:] == [f"{NODE}  the pods on it have no", f"{' ' * len(NODE)}  other place to go to"]


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("ScaleDownDisabledAnnotation", id="a reason"),
        pytest.param("2026-11-20T09:57:00.000Z", id="a time"),
    ],
)
def test_what_people_look_up_is_never_cut(text: str) -> None:
    lines = shown(Table(("NODE", "REASON"), [(NODE, text)]), 44)
    assert lines[1].endswith(f"  {text}")


def test_a_long_word_of_a_sentence_is_broken_at_a_separator_and_nothing_is_lost() -> None:
    text = "selector wants eks.amazonaws.com/nodegroup=memory"
    lines = shown(text, 24)
    assert lines == ["selector wants", "eks.amazonaws.com/", "nodegroup=memory"]


def test_indented_text_stays_indented() -> None:
    assert shown("  one two three", 9) == ["  one two", "  three"]


def test_rows_that_cannot_be_columns_become_facts() -> None:
    heads = ("WORKLOAD", "CAUSE", "FIX")
    rows = [
        ("Job ci/build", "Taint", "tolerate the taint of it"),
        ("", "", "or remove the taint"),
        ("Job b", "", "x y"),
    ]
    assert shown(Table(heads, rows), 40) == [
        "WORKLOAD  Job ci/build",
        "CAUSE     Taint",
        "FIX       tolerate the taint of it",
        "FIX       or remove the taint",
        "",
        "WORKLOAD  Job b",
        "FIX       x y",
    ]


def test_a_row_of_many_lines_is_shown_as_facts_instead() -> None:
    table = Table(("NAME", "MEANING"), [("rule-with-a-long-name-of-its-own", "word " * 50)])
    assert shown(table, 60)[0].startswith("NAME     rule-with")


def test_east_asian_characters_take_two_columns_and_combining_marks_none() -> None:
    lines = shown(Table(("NAME", "N"), [("节点", 1), ("e\u0301te", 2), ("node", 3)]))
    assert lines == ["NAME  N", "节点  1", "e\u0301te   2", "node  3"]


def test_a_name_of_wide_characters_is_cut_to_its_width() -> None:
    (line,) = shown("节" * 30, 21)
    assert line == "节" * 7 + "…" + "节" * 3


def test_names_cannot_bring_lines_or_colours_of_their_own() -> None:
    hostile = "a\x1b[31mb\nc\u202ed"
    lines = shown(Table(("NAME",), [(hostile,), (Styled(hostile, Style.BAD),)], hostile), coloured=True)
    assert len(lines) == 4
    assert all(line.count("\x1b") in (0, 2) and "\u202e" not in line for line in lines)
    assert lines[2] == r"a\u001b[31mb\nc\u202ed"


def test_colours_do_not_move_columns() -> None:
    table = Table(("NAME", "STATE"), [(Styled("web", Style.FINE), "up"), ("checkout", "up")])
    coloured = shown(table, coloured=True)
    assert coloured[1] == "\x1b[32mweb\x1b[0m       up"
    assert [line.replace("\x1b[32m", "").replace("\x1b[1m", "").replace("\x1b[0m", "") for line in coloured] == shown(
        table
    )


@pytest.mark.parametrize("width", range(40, 200, 7))
def test_no_line_is_longer_than_the_terminal_and_no_word_of_a_sentence_is_lost(width: int) -> None:
    why = "selector wants eks.amazonaws.com/nodegroup=genral, the node has arm"
    lines = shown(Table(("WORKLOAD", "PODS", "NODE", "WHY"), [("ReplicaSet web/typo", 1, NODE, why)] * 3), width)
    assert max(map(len, lines)) <= width
    letters = "".join("".join(lines).split())
    assert "genral," in letters


class Screen(io.StringIO):
    """A stream that says it is a terminal, and has no size of its own."""

    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(
    ("out", "environ", "colour", "terminal"),
    [
        pytest.param(io.StringIO(), {}, Colour.AUTO, Terminal(None, coloured=False), id="a pipe"),
        pytest.param(io.StringIO(), {"COLUMNS": "90"}, Colour.AUTO, Terminal(90), id="a pipe of watch"),
        pytest.param(io.StringIO(), {}, Colour.ALWAYS, Terminal(None, coloured=True), id="a pipe to less -R"),
        pytest.param(Screen(), {}, Colour.AUTO, Terminal(None, coloured=True), id="a terminal"),
        pytest.param(Screen(), {"COLUMNS": "90"}, Colour.NEVER, Terminal(90), id="never in colour"),
        pytest.param(Screen(), {"NO_COLOR": "1"}, Colour.AUTO, Terminal(None), id="NO_COLOR"),
        pytest.param(Screen(), {"NO_COLOR": ""}, Colour.AUTO, Terminal(None, coloured=True), id="an empty NO_COLOR"),
        pytest.param(
            Screen(), {"NO_COLOR": "1"}, Colour.ALWAYS, Terminal(None, coloured=True), id="the flag goes first"
        ),
        pytest.param(Screen(), {"TERM": "dumb"}, Colour.AUTO, Terminal(None), id="a dumb terminal"),
        pytest.param(Screen(), {"COLUMNS": "many"}, Colour.NEVER, Terminal(None), id="COLUMNS that is no number"),
        pytest.param(Screen(), {"COLUMNS": "1"}, Colour.NEVER, Terminal(40), id="COLUMNS that is too small"),
    ],
)
def test_what_is_known_of_a_terminal(
    out: io.StringIO, environ: Mapping[str, str], colour: Colour, terminal: Terminal
) -> None:
    assert terminal_of(out, environ, colour) == terminal
