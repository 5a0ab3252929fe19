from fractions import Fraction

import pytest

from cloudprovider.duration import parse_duration_s
from cloudprovider.quantity import parse_quantity


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("0", 0),
        ("500m", Fraction(1, 2)),
        ("1.5", Fraction(3, 2)),
        (".5", Fraction(1, 2)),
        ("5.", 5),
        ("+2", 2),
        ("-2k", -2000),
        ("4Gi", 4 * 1024**3),
        ("1.5Ki", 1536),
        ("1e3", 1000),
        ("1E-3", Fraction(1, 1000)),
        ("1E", 10**18),
        ("3n", Fraction(3, 10**9)),
        ("7u", Fraction(7, 10**6)),
    ],
)
def test_a_quantity_has_its_exact_value(text: str, value: Fraction | int) -> None:
    assert parse_quantity(text) == value


@pytest.mark.parametrize(
    "text",
    ["", ".", "m", "1.2.3", "1K", "1ki", "1 Gi", " 1", "1\n", "4x", "1e", "0x10", "1e9999999", "1e41", "٣", "1" * 65],
)
def test_what_is_no_quantity_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"quantity|exponent"):
        parse_quantity(text)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("0", 0.0), ("10s", 10.0), ("1h30m", 5400.0), ("1.5h", 5400.0), ("300ms", 0.3), ("-2m", -120.0), ("+.5s", 0.5)],
)
def test_a_duration_has_its_seconds(text: str, seconds: float) -> None:
    assert parse_duration_s(text) == pytest.approx(seconds)


@pytest.mark.parametrize("text", ["", "10", "s", "1d", "1h 30m", "-", "+-1s", "--1s", "1s!", "1.2.3s"])
def test_what_is_no_duration_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="duration"):
        parse_duration_s(text)
