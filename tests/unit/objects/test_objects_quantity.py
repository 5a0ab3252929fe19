from fractions import Fraction

import pytest

from autoscaler.objects import quantity
from autoscaler.objects.quantity import BadQuantity


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("0", 0),
        ("7", 7),
        ("+7", 7),
        ("-7", -7),
        ("007", 7),
        ("1.5", Fraction(3, 2)),
        ("1.", 1),
        (".5", Fraction(1, 2)),
        ("1n", Fraction(1, 10**9)),
        ("1u", Fraction(1, 10**6)),
        ("1m", Fraction(1, 1000)),
        ("1k", 10**3),
        ("1M", 10**6),
        ("1G", 10**9),
        ("1T", 10**12),
        ("1P", 10**15),
        ("1E", 10**18),
        ("1Ki", 2**10),
        ("1Mi", 2**20),
        ("1Gi", 2**30),
        ("1Ti", 2**40),
        ("1Pi", 2**50),
        ("1Ei", 2**60),
        ("0.5Gi", 2**29),
        ("1e3", 1000),
        ("1E3", 1000),
        ("1e+3", 1000),
        ("1e-3", Fraction(1, 1000)),
        ("2.5E-1", Fraction(1, 4)),
        ("1e+21", 10**21),
    ],
)
def test_a_quantity_is_read_exactly(text: str, value: int | Fraction) -> None:
    assert quantity.parse(text) == value


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("", id="nothing"),
        pytest.param(" 1", id="a space"),
        pytest.param("1 Gi", id="a space before the suffix"),
        pytest.param("1_000", id="an underscore"),
        pytest.param("1,5", id="a comma"),
        pytest.param("1g", id="a small g"),
        pytest.param("1K", id="a big K without i"),
        pytest.param("1ki", id="a small k with i"),
        pytest.param("1mi", id="a small m with i"),
        pytest.param("1Gib", id="a unit too long"),
        pytest.param("1GG", id="two suffixes"),
        pytest.param("1e", id="an exponent without digits"),
        pytest.param("1e3Mi", id="an exponent and a suffix"),
        pytest.param("1e1.5", id="a broken exponent"),
        pytest.param("0x10", id="another base"),
        pytest.param("--1", id="two signs"),
        pytest.param("nan", id="not a number"),
        pytest.param("1e31", id="an exponent that would make a huge integer"),
        pytest.param("1e-31", id="an exponent that would make a huge fraction"),
        pytest.param("five", id="a word"),
    ],
)
def test_what_is_no_quantity_is_refused_by_name(text: str) -> None:
    with pytest.raises(BadQuantity) as caught:
        quantity.parse(text)
    assert repr(text) in str(caught.value)


@pytest.mark.parametrize(
    ("resource", "text", "amount"),
    [
        pytest.param("cpu", "2", 2000, id="CPU counts in thousandths"),
        pytest.param("cpu", "250m", 250, id="milli-CPU stays"),
        pytest.param("cpu", "0.1", 100, id="a decimal that no float holds is exact"),
        pytest.param("cpu", "1n", 1, id="a fraction of a thousandth rounds up"),
        pytest.param("cpu", "1000001n", 2, id="anything above a thousandth rounds up"),
        pytest.param("cpu", "-1500u", -1, id="rounding up is towards plus infinity"),
        pytest.param("memory", "100", 100, id="memory counts in bytes"),
        pytest.param("memory", "1500m", 2, id="a fraction of a byte rounds up"),
        pytest.param("memory", "128974848", 128974848, id="plain bytes"),
        pytest.param("memory", "129e6", 129_000_000, id="bytes with an exponent"),
        pytest.param("memory", "123Mi", 123 * 2**20, id="binary bytes"),
        pytest.param("example.com/dongle", "3", 3, id="extended resources count pieces"),
        pytest.param("ephemeral-storage", "1Gi", 2**30, id="storage counts in bytes"),
        pytest.param("memory", "9007199254740993", 9007199254740993, id="no float takes part"),
    ],
)
def test_an_amount_is_in_the_unit_of_its_resource(resource: str, text: str, amount: int) -> None:
    assert quantity.amount(resource, text) == amount


def test_numbers_stand_for_their_decimal_text() -> None:
    assert quantity.amounts({"cpu": 2, "memory": 1e21, "pods": 1.5}) == {"cpu": 2000, "memory": 10**21, "pods": 2}


@pytest.mark.parametrize(
    ("resource", "value", "text"),
    [
        ("cpu", 2000, "2"),
        ("cpu", 2500, "2500m"),
        ("cpu", 0, "0"),
        ("memory", 4 * 2**30, "4Gi"),
        ("memory", 1536 * 2**20, "1536Mi"),
        ("memory", 1000, "1000"),
        ("memory", 0, "0"),
        ("ephemeral-storage", 2**60, "1Ei"),
        ("pods", 1024, "1024"),
        ("cpu", -500, "-500m"),
    ],
)
def test_the_short_form_says_the_same_amount(resource: str, value: int, text: str) -> None:
    assert quantity.text(resource, value) == text
    assert quantity.amount(resource, text) == value
