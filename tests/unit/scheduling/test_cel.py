"""Selectors for devices."""

from fractions import Fraction

import pytest

from autoscaler.scheduling.cel import LONGEST_EXPRESSION, selector
from autoscaler.scheduling.cel_values import MOST_STEPS, CelError, Domains, Quantity, Value, Version

DEVICE: dict[str, Value] = {
    "driver": "gpu.example.com",
    "attributes": Domains(
        {
            "gpu.example.com": {"model": "A100", "slots": 3, "shared": True, "firmware": Version((1, 10, 2))},
            "rack.example.com": {"name": "r1"},
        }
    ),
    "capacity": Domains({"gpu.example.com": {"memory": Quantity(Fraction(40 * 1024**3))}}),
    "allowMultipleAllocations": False,
}
GPU = "device.attributes['gpu.example.com']"
MEMORY = "device.capacity['gpu.example.com'].memory"


@pytest.mark.parametrize(
    "expression",
    [
        "true",
        "device.driver == 'gpu.example.com'",
        f"{GPU}.model == 'A100' && {GPU}.slots >= 3",
        f'{GPU}.model != "H100" && !({GPU}.slots > 3)',
        f"{GPU}['model'].startsWith('A') && {GPU}.model.endsWith('100') && {GPU}.model.contains('10')",
        f"{GPU}.shared",
        f"{GPU}.shared == true && {GPU}.shared != 1",
        f"{GPU}.model in ['H100', 'A100']",
        "'rack.example.com' in device.attributes && !('disk.example.com' in device.attributes)",
        f"has({GPU}.model) && !has({GPU}.colour)",
        "!has(device.attributes['disk.example.com'].size)",
        f"{GPU}.?colour.orValue('red') == 'red' && {GPU}[?'model'].orValue('') == 'A100'",
        f"{GPU}.?model.hasValue() && {GPU}.?model.value() == 'A100'",
        f"{MEMORY}.compareTo(quantity('40Gi')) == 0 && {MEMORY}.isGreaterThan(quantity('39Gi'))",
        f"{MEMORY}.isLessThan(quantity('41Gi')) && {MEMORY} == quantity('40960Mi') && {MEMORY} > quantity('1')",
        f"{MEMORY}.asInteger() == 42949672960 && {MEMORY}.sign() == 1 && {MEMORY}.isInteger()",
        f"{MEMORY}.add(quantity('2Gi')).sub(2147483648) == {MEMORY}",
        f"{GPU}.firmware.isGreaterThan(semver('1.9.0')) && {GPU}.firmware.compareTo(semver('1.10.2')) == 0",
        f"{GPU}.firmware.major() == 1 && {GPU}.firmware.minor() == 10 && {GPU}.firmware.patch() == 2",
        "semver('1.0.0-rc.2').isLessThan(semver('1.0.0')) && semver('1.0.0-rc.2').isLessThan(semver('1.0.0-rc.10'))",
        "isQuantity('5Gi') && !isQuantity('five') && isSemver('1.2.3') && !isSemver('1.2')",
        f"cel.bind(gpu, {GPU}, gpu.model == 'A100' && gpu.slots == 3)",
        "['a', 'b'].exists(x, x == 'b') && ['a', 'b'].all(x, x < 'c') && [1, 2, 2].exists_one(x, x == 1)",
        "[1, 2, 3].filter(x, x > 1).map(x, x * 2) == [4, 6] && [1, 2].map(x, x > 1, x) == [2]",
        "1 + 2 * 3 == 7 && 7 / 2 == 3 && -7 / 2 == -3 && -7 % 2 == -1 && (1 + 2) * 3 == 9",
        "1.5 + 1.5 == 3.0 && 1 == 1.0 && 0x10 == 16 && 1e2 > 99 && double(1) == 1.0 && int('12') == 12",
        "'a' + 'b' == 'ab' && size('abc') == 3 && 'abc'.size() == 3 && string(5) == '5' && string(true) == 'true'",
        "'Ab '.lowerAscii().trim() == 'ab' && 'a'.upperAscii() == 'A'",
        r"'a\n\u0062\x63' == 'a\nbc' && r'\n'.size() == 2",
        "true ? true : false",
        "device.attributes['none.example.com'].x == 1 || true",
        "!(device.attributes['none.example.com'].x == 1 && false)",
        "device.allowMultipleAllocations == false // and a remark",
        "null == null && [1, ['a']] == [1, ['a']] && 'a' != 1",
    ],
)
def test_holds(expression: str) -> None:
    assert selector(expression)(DEVICE)


@pytest.mark.parametrize(
    ("expression", "why"),
    [
        ("", "has 'its end' where a value should be"),
        ("device.driver ==", "has 'its end' where a value should be"),
        ("device.driver = 'x'", "cannot be read from character 14 on"),
        ("(true", "lacks '\\)' before ''"),
        ("true true", "has 'true' where it should end"),
        ("device.", "lacks a name before ''"),
        ("shell('rm')", r"calls shell\(\), which is not read"),
        ("'a'.format([1])", r"calls format\(\), which is not read"),
        ("cel.other(1, 2)", "calls a function of cel that is not read"),
        ("has(device)", "needs a field"),
        ("has(device.driver == 'x')", "needs a field"),
        ("[1].all(x)", "lacks ','"),
        ("[1].all(x, true, true)", r"all\(\) has a wrong number of arguments"),
        ("99999999999999999999 > 1", "too large"),
        ("9" * 40 + " > 1", "too large"),
        ("(" * 60 + "true" + ")" * 60, "nested deeper than 40 levels"),
        ("!" * 60 + "true", "nested deeper than 40 levels"),
        ("true " * LONGEST_EXPRESSION, "longer than"),
    ],
)
def test_what_cannot_be_read_says_why(expression: str, why: str) -> None:
    with pytest.raises(CelError, match=why):
        selector(expression)


@pytest.mark.parametrize(
    ("expression", "why"),
    [
        (f"{GPU}.colour == 'red'", "there is no 'colour'"),
        ("device.attributes['none'].x > 1", "there is no 'x'"),
        ("cluster.name == 'x'", "cluster is not known"),
        ("device.driver", "neither true nor false"),
        ("device.driver > 3", "a number is missing"),
        ("1 / 0 == 1", "division by zero"),
        ("9223372036854775807 + 1 > 0", "too large"),
        ("1 + 1.0 == 2.0", "not calculated with together"),
        ("1.5 % 1.0 == 0.5", "only whole numbers"),
        ("[1][2] == 1", "no such entry"),
        ("'a' in 'abc'", "needs a list or a map"),
        ("quantity('much') == quantity('1')", "is not a quantity"),
        ("semver('1.2') == semver('1.2')", "no semantic version"),
        (f"{GPU}.?colour.value() == 'red'", "no such value"),
        ("int(1e300) == 1", "no whole number"),
        ("int('x') == 1", "no whole number"),
        ("'a'.matches('(a?)+$')", "calls matches"),
        ("quantity('1').major() == 1", "a version is missing"),
    ],
)
def test_what_has_no_value_says_why(expression: str, why: str) -> None:
    with pytest.raises(CelError, match=why):
        selector(expression)(DEVICE)


def test_an_expression_that_grows_without_end_is_stopped() -> None:
    loops = "[1,1,1,1,1,1,1,1,1,1]"
    nested = "true"
    for level in range(6):
        nested = f"{loops}.all(x{level}, {nested})"
    with pytest.raises(CelError, match=f"takes more than {MOST_STEPS} steps"):
        selector(nested)(DEVICE)
    doubled = "cel.bind(a, 'xxxxxxxxxx', "
    for _ in range(20):
        doubled += "cel.bind(a, a + a, "
    with pytest.raises(CelError, match="more than 10000 entries"):
        selector(doubled + "a.size() > 1" + ")" * 21)(DEVICE)
    held = "cel.bind(a, [1], "
    for _ in range(30):
        held += "cel.bind(a, [a, a], "
    with pytest.raises(CelError, match="steps"):
        selector(held + "a == a" + ")" * 31)(DEVICE)
    has = "device"
    for _ in range(30):
        has = f"has({has}.driver)"
    with pytest.raises(CelError, match="needs a"):
        selector(has)(DEVICE)
