from typing import Any

import pytest

from autoscaler.sandbox.apiserver.quantities import canonical, respell


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        pytest.param("0.5", "500m", id="parts are thousandths"),
        pytest.param("1500m", "1500m", id="no whole number"),
        pytest.param("2000m", "2", id="a whole number"),
        pytest.param(128974848, "128974848", id="numbers become text"),
        pytest.param("129000000", "129M", id="thousands are counted"),
        pytest.param("129e6", "129e6", id="exponents stay"),
        pytest.param(2.5, "2500m", id="a float"),
        pytest.param("1.5Gi", "1536Mi", id="binary"),
        pytest.param("1024Mi", "1Gi", id="the largest unit"),
        pytest.param("0.5Ki", "512", id="small binary amounts are decimal"),
        pytest.param("0", "0", id="nothing"),
        pytest.param("0.1n", "1n", id="nothing is smaller than a billionth"),
        pytest.param("9223372036854775807", "9223372036854775807", id="huge"),
        pytest.param("1E", "1E", id="an exa is no exponent"),
        pytest.param("many", "many", id="no amount"),
        pytest.param("-1", "-1", id="less than nothing is left to validation"),
        pytest.param("1e999", "9223372036854775807", id="beyond any machine"),
        pytest.param(None, None, id="null"),
        pytest.param({"value": "1000m"}, {"value": "1000m"}, id="an object"),
    ],
)
def test_an_amount_is_spelled_as_the_server_does(given: Any, kept: Any) -> None:
    assert canonical(given) == kept


def test_amounts_are_found_wherever_they_are() -> None:
    containers = [{"resources": {"requests": {"cpu": "1000m"}}, "args": []}]
    obj = {"spec": {"containers": containers, "volumes": [{"emptyDir": {"sizeLimit": "1024Ki"}}]}}
    respell(obj)
    assert obj["spec"] == {
        "containers": [{"resources": {"requests": {"cpu": "1"}}}],
        "volumes": [{"emptyDir": {"sizeLimit": "1Mi"}}],
    }
