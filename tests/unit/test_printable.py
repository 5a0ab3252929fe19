"""Text from outside in logs, tables, pages and metrics: nothing is hidden, nothing secret is shown, and all of it is
short.
"""

import logging

import pytest
from prometheus_client import CollectorRegistry

from autoscaler.cli import output
from autoscaler.cli.table import Table, Terminal, laid_out
from autoscaler.clock import VirtualClock
from autoscaler.logs import JsonLines, TextLines
from autoscaler.observe.metrics.definitions import gauge
from autoscaler.observe.metrics.exposition import exposition
from autoscaler.observe.metrics.labels import ScaleUpFailure
from autoscaler.observe.metrics.metrics import failure_label
from autoscaler.observe.metrics.series import MetricSeries
from autoscaler.observe.page.markup import html
from autoscaler.printable import in_one_line, spelled_out
from autoscaler.redaction import redacted_text

HOSTILE = "web\u202egpj\u2066\x1b[2J\x9b1m\x00\u2028\ud800\u200b"
SPELLED = r"web\u202egpj\u2066\u001b[2J\u009b1m\u0000\u2028\ud800\u200b"


def test_what_nobody_sees_is_spelled_out() -> None:
    assert spelled_out(HOSTILE + "\n\tüñ") == SPELLED + "\n\tüñ"
    assert in_one_line("a\n\tb") == r"a\n\tb"
    assert spelled_out("\U000e0001") == r"\udb40\udc01"


def test_every_output_spells_it_out(capsys: pytest.CaptureFixture[str]) -> None:
    assert html("<p>{}</p>", HOSTILE) == f"<p>{SPELLED}</p>"
    assert list(laid_out(Table(("NAME",), [(HOSTILE + "\n",)]), Terminal())) == ["NAME", f"{SPELLED}\\n"]
    assert list(laid_out(HOSTILE + "\n", Terminal())) == [f"{SPELLED}\\n"]
    output.write(HOSTILE)
    assert capsys.readouterr().out == SPELLED + "\n"
    assert "\u202e" not in output.to_yaml({"name": "a\u202e"})


@pytest.mark.parametrize("lines", [TextLines, JsonLines])
def test_a_log_line_spells_it_out(lines: type[TextLines | JsonLines]) -> None:
    record = logging.LogRecord("autoscaler", logging.INFO, "a.py", 1, HOSTILE, None, None)
    record.fields = {"name": HOSTILE, "names": [HOSTILE]}
    line = lines(VirtualClock(0.0)).format(record)
    assert line.isprintable()
    assert line.count(r"\u202e") == 3


def test_a_label_spells_it_out_and_has_an_end() -> None:
    registry, series = CollectorRegistry(), MetricSeries()
    series.add_metric(gauge("things", "Things.", name=""), registry)
    series.set("things", 1, HOSTILE + "x" * 100_000)
    text = exposition(registry.collect()).decode()
    assert text.replace("\n", "").isprintable()
    assert len(text) < 1000


def test_only_known_codes_of_clouds_become_labels() -> None:
    given = (*ScaleUpFailure, "RESOURCE_POOL_EXHAUSTED", "AllocationFailed", "THROTTLED", "unknown")
    assert [failure_label(code) for code in given] == list(given)
    assert {failure_label(f"Error-{number}") for number in range(1000)} == {"other"}
    assert failure_label(HOSTILE) == "other"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("https://user:secret@host/x", "https://user:[redacted]@host/x"),
        ("https://user:secr", "https://user:[redacted]@"),
        ("https://host:8080", "https://host:8080"),
        ("https://host:8080/x", "https://host:8080/x"),
        ("eyJhbGciOiJIUzI1NiJ9.eyJzdWIi.c2ln", "[redacted]"),
        ("eyJhbGciOiJIUzI1", "[redacted]"),
        ("Bearer ab", "Bearer [redacted]"),
        ("url=http://x?token=abc&a=1", "url=http://x?token=[redacted]&a=1"),
        ("client.secret = s3", "client.secret = [redacted]"),
    ],
)
def test_a_secret_is_redacted_even_where_its_end_was_cut_off(text: str, shown: str) -> None:
    assert redacted_text(text) == shown


def test_a_secret_across_the_longest_text_is_redacted() -> None:
    told = redacted_text(" " * 65_520 + "password=hunter2hunter2hunter2")
    assert "hunter" not in told
    assert told.endswith("(65550 characters)")
