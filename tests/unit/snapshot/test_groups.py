"""Node groups, looked up and resized."""

import msgspec

from autoscaler.snapshot.groups import Groups
from tests.builders import a_group


def test_groups_are_found_by_id() -> None:
    groups = Groups((a_group("web", target=2), a_group("batch", target=5)))

    assert list(groups.by_id) == ["web", "batch"]
    assert groups.get("batch") is groups.all[1]
    assert groups.get("other") is None


def test_groups_get_other_target_sizes_and_keep_the_rest() -> None:
    groups = msgspec.structs.replace(
        Groups((a_group("web", target=2), a_group("batch", target=5))), of_node={"n1": "web"}, gpu_label="gpu"
    )
    assert groups.by_id["web"].target_size == 2  # asked before: the resized ones must not answer with it

    resized = groups.sized({"web": 7})

    assert {group.id: group.target_size for group in resized.all} == {"web": 7, "batch": 5}
    assert resized.by_id["web"].target_size == 7
    assert (resized.of_node, resized.gpu_label) == ({"n1": "web"}, "gpu")
    assert groups.by_id["web"].target_size == 2
