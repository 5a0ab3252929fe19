import msgspec
import pytest

from autoscaler.config.scaledown import ScaleDown
from autoscaler.reasons import BlockingReason, UnremovableNode, UnremovableReason
from autoscaler.registry.memory import LastActions
from autoscaler.scaledown.cooldown import group_in_cooldown, in_cooldown
from autoscaler.scaledown.memory import ScaleDownMemory, StartedRemoval, forgotten, remembered
from autoscaler.snapshot.hints import Hints
from tests.unit.scaledown.pieces import NOW

KEPT = UnremovableNode("n", UnremovableReason.BLOCKED_BY_POD, "bare", "default/bare", BlockingReason.NOT_REPLICATED)
MEMORY = ScaleDownMemory(
    unneeded={"a": NOW.later(-30)},
    unremovable={"n": remembered(KEPT, NOW.later(300))},
    begun=(StartedRemoval("g", NOW.later(-5)),),
    since=NOW.later(-900),
    hints=Hints({"uid": "b"}, {}),
    last_update=NOW.later(-10),
    shortest_interval_s=10.0,
)


def test_a_memory_can_be_written_and_read_back() -> None:
    assert msgspec.json.decode(msgspec.json.encode(MEMORY), type=ScaleDownMemory) == MEMORY


def test_forgetting_leaves_what_was_found_unremovable() -> None:
    assert forgotten(MEMORY) == msgspec.structs.replace(MEMORY, unneeded={})


@pytest.mark.parametrize(
    ("last", "options", "waits"),
    [
        pytest.param(LastActions(), {}, False, id="nothing ever happened"),
        pytest.param(LastActions(scale_up=NOW.later(-599)), {}, True, id="after a scale-up"),
        pytest.param(LastActions(scale_up=NOW.later(-600)), {}, False, id="ten minutes after one"),
        pytest.param(LastActions(scale_down_failure=NOW.later(-179)), {}, True, id="after a failure"),
        pytest.param(LastActions(scale_down_failure=NOW.later(-180)), {}, False, id="three minutes after one"),
        pytest.param(LastActions(scale_down=NOW), {}, False, id="a removal delays nothing by default"),
        pytest.param(
            LastActions(scale_down=NOW), {"scale_down_delay_after_delete_s": 1.0}, True, id="unless asked for"
        ),
    ],
)
def test_cooldown(last: LastActions, options: dict[str, float], waits: bool) -> None:
    everywhere = msgspec.convert(options, ScaleDown)
    locally = msgspec.convert({**options, "scale_down_delay_type_local": True}, ScaleDown)
    assert in_cooldown(last, everywhere, NOW) is waits
    assert not in_cooldown(last, locally, NOW)
    assert group_in_cooldown(last, locally, NOW) is waits
    assert not group_in_cooldown(last, everywhere, NOW)


def test_a_group_to_which_nothing_happened_does_not_wait() -> None:
    assert not group_in_cooldown(None, ScaleDown(scale_down_delay_type_local=True), NOW)
