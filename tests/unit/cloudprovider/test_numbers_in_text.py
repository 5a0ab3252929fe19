"""What others write as a number, a duration, a quantity or a time: Go's rules, and texts made to hurt."""

import sys
from collections.abc import Callable
from datetime import UTC, datetime
from fractions import Fraction
from typing import Any

import pytest

from cloudprovider.duration import parse_duration_s
from cloudprovider.moment import parse_time, retry_after_s
from cloudprovider.number import parse_count, parse_float, parse_int
from cloudprovider.quantity import parse_quantity

_NOW = "Thu, 01 Jan 1970 00:16:40 GMT"


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("0", 0),
        ("7", 7),
        ("007", 7),
        ("500m", Fraction(1, 2)),
        ("1.5", Fraction(3, 2)),
        (".5", Fraction(1, 2)),
        ("5.", 5),
        ("+2", 2),
        ("-2k", -2000),
        ("1M", 10**6),
        ("1G", 10**9),
        ("1T", 10**12),
        ("1P", 10**15),
        ("1E", 10**18),
        ("1Ki", 2**10),
        ("1Mi", 2**20),
        ("4Gi", 4 * 1024**3),
        ("0.5Gi", 2**29),
        ("1.5Ki", 1536),
        ("1Ti", 2**40),
        ("1Pi", 2**50),
        ("1Ei", 2**60),
        ("1e3", 1000),
        ("1E+3", 1000),
        ("1E-3", Fraction(1, 1000)),
        ("2.5E-1", Fraction(1, 4)),
        ("3n", Fraction(3, 10**9)),
        ("7u", Fraction(7, 10**6)),
        pytest.param("0.1n", Fraction(1, 10**9), id="what is finer than a billionth counts as one"),
        pytest.param("1e-40", Fraction(1, 10**9), id="however fine"),
        pytest.param("-1.1n", Fraction(-2, 10**9), id="and is rounded away from zero"),
        pytest.param("9223372036854775807", 2**63 - 1, id="the largest of 64 bits"),
        pytest.param("9223372036854775808", 2**63 - 1, id="more is as much as there can be"),
        pytest.param("1e999999999", 2**63 - 1, id="however much"),
        pytest.param("-10E", 1 - 2**63, id="and likewise below zero"),
        pytest.param("0e999999999", 0, id="nothing, times anything"),
    ],
)
def test_a_quantity_has_its_exact_value(text: str, value: Fraction | int) -> None:
    assert parse_quantity(text) == value


@pytest.mark.parametrize(
    "text",
    [
        *("", ".", "+", "m", "1.2.3", "1K", "1g", "1ki", "1mi", "1 Gi", " 1", "1\n", "4x", "1e", "0x10", "--1", "1,5"),
        *(
            "1_000",
            "1GG",
            "1Gib",
            "1e3Mi",
            "1e1.5",
            "nan",
            "inf",
            "five",
            "٣",
            "\uff11",
            "1e٣",
            "1e9999999999",
            "1" * 65,
        ),
    ],
)
def test_what_is_no_quantity_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is not a quantity"):
        parse_quantity(text)


@pytest.mark.parametrize(
    ("text", "nanoseconds"),
    [
        ("0", 0),
        ("-0", 0),
        ("+0", 0),
        ("0s", 0),
        ("5s", 5 * 10**9),
        ("1478s", 1478 * 10**9),
        ("-5s", -5 * 10**9),
        ("+5s", 5 * 10**9),
        ("5.0s", 5 * 10**9),
        ("5.s", 5 * 10**9),
        (".5s", 5 * 10**8),
        ("-.5h", -1800 * 10**9),
        ("1.0040s", 1_004_000_000),
        ("100.00100s", 100_001_000_000),
        ("10ns", 10),
        ("11us", 11_000),
        ("12µs", 12_000),
        ("12μs", 12_000),
        ("13ms", 13_000_000),
        ("15m", 15 * 60 * 10**9),
        ("16h", 16 * 3600 * 10**9),
        ("3h30m", 12600 * 10**9),
        ("10.5s4m", 250_500_000_000),
        ("-2m3.4s", -123_400_000_000),
        ("1h2m3s4ms5us6ns", 3_723_004_005_006),
        ("39h9m14.425s", 140_954_425_000_000),
        ("52763797000ns", 52_763_797_000),
        ("0.3333333333333333333h", 20 * 60 * 10**9),
        ("9007199254740993ns", 2**53 + 1),
        ("9223372036854775807ns", 2**63 - 1),
        ("9223372036854775.807us", 2**63 - 1),
        ("-9223372036854775808ns", -(2**63)),
        ("-2562047h47m16.854775808s", -(2**63)),
        ("0.100000000000000000000h", 360 * 10**9),
        ("0.830103483285477580700h", 2_988_372_539_827),
    ],
)
def test_a_duration_is_as_long_as_in_go(text: str, nanoseconds: int) -> None:
    assert parse_duration_s(text) == nanoseconds / 10**9


@pytest.mark.parametrize(
    "text",
    [
        *("", "3", "10", "-", "s", ".", "-.", ".s", "+.s", "1d", "1w", "10sec", "1h 30m", " 1s", "1s ", "+-1s", "--1s"),
        *("1s!", "1.2.3s", "1e3s", "1h5", "1_0s", "٣s", "1\u2028s", "inf", "nan", "0x1s", "9e18h", "1S", "1 s"),
    ],
)
def test_what_is_no_duration_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is not a duration"):
        parse_duration_s(text)


@pytest.mark.parametrize(
    "text",
    [
        *("9223372036854775808ns", "9223372036854775.808us", "-9223372036854775809ns", "2562047h47m16.854775808s"),
        *("9999999h", "3000000h", "99999999999999999999ns", "9223372036854ms775us808ns"),
    ],
)
def test_a_duration_beyond_64_bits_of_nanoseconds_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is too long"):
        parse_duration_s(text)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("10", 10),
        ("-10", -10),
        ("+7", 7),
        ("010", 8),
        ("0o17", 15),
        ("0x1F", 31),
        ("0b101", 5),
        ("-9223372036854775808", -(2**63)),
    ],
)
def test_a_whole_number_is_read_as_in_go(text: str, value: int) -> None:
    assert parse_int(text) == value


@pytest.mark.parametrize("text", ["", "+", "1_000", "٣", "\uff11", "²", " 1", "1\n", "0x", "1.0", "1e3", "9" * 5000])
def test_what_is_no_whole_number_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is not a whole number"):
        parse_int(text)
    assert parse_count(text) is None


def test_a_whole_number_has_64_bits() -> None:
    with pytest.raises(ValueError, match="64 bits"):
        parse_int("9223372036854775808")
    assert [parse_count(text, 9) for text in ("0", "9", "10", "-1")] == [0, 9, None, None]


@pytest.mark.parametrize(
    "text", ["", ".", "e5", "nan", "inf", "-Infinity", "1e999", "1_0.5", "0x1p-2", "٣.٣", "1" * 65]
)
def test_what_is_no_finite_number_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is not a number"):
        parse_float(text)


def test_a_number_is_read() -> None:
    assert [parse_float(text) for text in ("0.5", ".5", "5.", "-1e2", "+3")] == [0.5, 0.5, 5.0, -100.0, 3.0]


@pytest.mark.parametrize(
    ("text", "moment"),
    [
        ("2026-01-05T12:00:00Z", datetime(2026, 1, 5, 12, tzinfo=UTC)),
        ("2026-01-05T12:00:00.5Z", datetime(2026, 1, 5, 12, 0, 0, 500_000, tzinfo=UTC)),
        ("2026-01-05T12:00:00.123456789Z", datetime(2026, 1, 5, 12, 0, 0, 123_456, tzinfo=UTC)),
        ("2026-01-05T14:00:00+02:00", datetime(2026, 1, 5, 12, tzinfo=UTC)),
        ("0001-01-01T00:00:00Z", datetime(1, 1, 1, tzinfo=UTC)),
        ("9999-12-31T23:59:59Z", datetime(9999, 12, 31, 23, 59, 59, tzinfo=UTC)),
    ],
)
def test_a_time_is_a_moment(text: str, moment: datetime) -> None:
    assert parse_time(text) == moment


@pytest.mark.parametrize(
    "text",
    [
        *("", "2026-01-05", "2026-01-05T12:00:00", "2026-01-05 12:00:00Z", "2026-W02-1T12:00:00Z", "20260105T120000Z"),
        *("2026-13-05T12:00:00Z", "2026-02-30T12:00:00Z", "2026-01-05T24:00:00Z", "2026-01-05T12:00:60Z"),
        *("0000-01-05T12:00:00Z", "10000-01-05T12:00:00Z", "٢٠٢٦-01-05T12:00:00Z", "2026-01-05T12:00:00+25:00"),
        *("2026-01-05T12:00:00.Z", "2026-01-05t12:00:00z", "2026-01-05T12:00Z", "2026-01-05T12:00:00Z\n"),
    ],
)
def test_what_is_no_time_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is not a time with a zone"):
        parse_time(text)


@pytest.mark.parametrize(
    ("text", "date", "seconds"),
    [
        pytest.param("17", None, 17.0, id="seconds"),
        pytest.param(" 17 ", None, 17.0, id="seconds between spaces"),
        pytest.param("0", None, 0.0, id="at once"),
        pytest.param("86400", None, 3600.0, id="an hour at most"),
        pytest.param("9" * 5000, None, 3600.0, id="however long the number"),
        pytest.param("Thu, 01 Jan 1970 00:17:40 GMT", _NOW, 60.0, id="a date counts from the answer's own"),
        pytest.param("Thursday, 01-Jan-70 00:17:40 GMT", _NOW, 60.0, id="the old form of a date"),
        pytest.param("Thu, 01 Jan 1970 00:00:00 GMT", _NOW, 0.0, id="a date that has passed"),
        pytest.param("Thu, 01 Jan 2099 00:00:00 GMT", _NOW, 3600.0, id="a date far away"),
        pytest.param("Thu, 01 Jan 1970 00:17:40 GMT", None, None, id="a date without a date"),
        pytest.param(None, _NOW, None, id="nothing"),
        pytest.param("", _NOW, None, id="an empty text"),
        pytest.param("soon", _NOW, None, id="a word"),
        pytest.param("-5", None, None, id="a negative number"),
        pytest.param("1.5", None, None, id="a broken number"),
        pytest.param("٣", None, None, id="digits of another script"),
        pytest.param("1_000", None, None, id="an underscore"),
        pytest.param("inf", None, None, id="for ever"),
        pytest.param("nan", None, None, id="no number"),
        pytest.param("Thu, 01 Jan 99999999999 00:00:00 GMT", _NOW, None, id="a year that no calendar has"),
    ],
)
def test_how_long_an_answer_asks_to_wait(text: str | None, date: str | None, seconds: float | None) -> None:
    assert retry_after_s(text, date) == seconds


@pytest.mark.parametrize(
    "parse", [parse_duration_s, parse_quantity, parse_int, parse_float, parse_count, parse_time, retry_after_s]
)
@pytest.mark.parametrize("piece", ["0", "9", ".", "1s", "1.", "-", "1e", " ", "a", "T", ",", "٣", "\0"])
def test_a_text_of_a_million_characters_takes_no_more_steps_than_one_of_a_hundred(
    parse: Callable[[str], Any], piece: str
) -> None:
    def lines_for(text: str) -> int:
        count = 0

        def trace(*_: object) -> Callable[..., Any]:
            nonlocal count
            count += 1
            return trace

        before = sys.gettrace()
        sys.settrace(trace)
        try:
            parse(text)
        except ValueError as error:
            count += len(str(error)) // 400
        finally:
            sys.settrace(before)
        return count

    assert lines_for(piece * (1_000_000 // len(piece))) <= lines_for(piece * (100 // len(piece))) + 20
