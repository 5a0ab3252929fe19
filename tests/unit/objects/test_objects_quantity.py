import pytest

from autoscaler.objects import quantity


@pytest.mark.parametrize(
    ("resource", "text", "amount"),
    [
        pytest.param("cpu", "2", 2000, id="CPU counts in thousandths"),
        pytest.param("cpu", "250m", 250, id="milli-CPU stays"),
        pytest.param("cpu", "0.1", 100, id="a decimal that no float holds is exact"),
        pytest.param("cpu", "1n", 1, id="a fraction of a thousandth rounds up"),
        pytest.param("cpu", "1000001n", 2, id="anything above a thousandth rounds up"),
        pytest.param("cpu", "-1500u", -2, id="rounding is away from zero"),
        pytest.param("cpu", "9E", 2**63 - 1, id="thousandths beyond 64 bits are the most there can be"),
        pytest.param("memory", "8Ei", 2**63 - 1, id="bytes beyond 64 bits are the most there can be"),
        pytest.param("cpu", "-9E", 1 - 2**63, id="and the least"),
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
    assert quantity.amounts({"cpu": 2, "memory": 1e18, "pods": 1.5}) == {"cpu": 2000, "memory": 10**18, "pods": 2}


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
