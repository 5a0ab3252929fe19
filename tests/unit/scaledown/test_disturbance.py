from typing import Any

import msgspec
import pytest

from autoscaler.scaledown.disturbance import disturbance
from tests.builders import a_pod
from tests.unit.scaledown.pieces import NOW

HOUR_S = 3600.0


@pytest.mark.parametrize(
    ("about", "own", "weight"),
    [
        pytest.param({}, {}, 1.0, id="a pod of a Deployment"),
        pytest.param({"priority": 2**25}, {}, 2.0, id="priority counts as with Karpenter"),
        pytest.param({"priority": 2_000_000_000}, {}, 10.0, id="up to a limit"),
        pytest.param({"priority": -(2**30)}, {}, 0.1, id="and never nothing"),
        pytest.param({}, {"deletion_cost": 2**27}, 2.0, id="so does the deletion cost"),
        pytest.param({}, {"deletion_cost": -(2**27)}, 0.1, id="a low one as well"),
        pytest.param({"owner": "StatefulSet"}, {}, 2.0, id="a pod of a StatefulSet counts twice"),
        pytest.param({"owner": "Job"}, {"started": NOW.wall - 3 * HOUR_S}, 4.0, id="a Job loses its work"),
        pytest.param({"owner": "Job"}, {"started": NOW.wall - 99 * HOUR_S}, 11.0, id="up to ten hours"),
        pytest.param({"owner": "Job"}, {"started": NOW.wall + HOUR_S}, 1.0, id="a clock that runs ahead adds nothing"),
    ],
)
def test_the_weight_of_a_pod(about: dict[str, Any], own: dict[str, Any], weight: float) -> None:
    pod = msgspec.structs.replace(a_pod("p", **about), **own)
    assert disturbance([pod], NOW.wall) == pytest.approx(weight)
    assert disturbance([pod, pod], NOW.wall) == pytest.approx(2 * weight)
