"""Scenarios through the real loop: what the answer says of it."""

import json
from typing import Any

import msgspec
import pytest

from autoscaler.errors import ConfigError
from autoscaler.scenario.codec import decode
from autoscaler.simulator.answer import Answer, RunAnswer
from autoscaler.simulator.play import play


def a_pod(name: str, cpu: str, **spec: Any) -> dict[str, Any]:
    owner = {"kind": "ReplicaSet", "name": name.partition("-")[0]}
    containers = [{"resources": {"requests": {"cpu": cpu}}}]
    return {"metadata": {"name": name, "ownerReferences": [owner]}, "spec": {"containers": containers, **spec}}


def a_group(name: str, cpu: str, **fields: Any) -> dict[str, Any]:
    template = {"status": {"capacity": {"cpu": cpu, "memory": "8Gi"}}}
    return {"id": name, "minSize": 0, "maxSize": 5, "targetSize": 0, "template": template, **fields}


def played(**fields: Any) -> Answer:
    document = {
        "now": "2026-01-05T12:00:00Z",
        "options": {"compatibility": "1.31", "expander": "least-waste"},
        "nodeGroups": [a_group("small", "4"), a_group("full", "64", maxSize=0)],
        **fields,
    }
    return play(decode(json.dumps(document).encode(), "case.json"))


def the_run(**fields: Any) -> RunAnswer:
    (run,) = played(**fields).runs
    return run


FITTING = [a_pod("web-0", "3"), a_pod("web-1", "3")]
HUGE = a_pod("huge-0", "32")


def test_pods_that_need_nodes_get_them() -> None:
    run = the_run(pods=[*FITTING, HUGE])
    assert run.scale_up_result == "Successful"
    assert [(one.group, one.increase) for one in run.scale_ups] == [("small", 2)]
    assert run.target_sizes == {"small": 2, "full": 0}
    assert run.chosen_option == "small"
    assert [(one.group, one.node_count) for one in run.scale_up_options] == [("small", 2)]
    assert run.pods_needing_scale_up == ["default/huge-0", "default/web-0", "default/web-1"]
    assert run.pods_triggered_scale_up == ["default/web-0", "default/web-1"]
    assert run.pods_remain_unschedulable == ["default/huge-0"]


def test_reasons_are_typed_and_name_the_owner_once() -> None:
    reasons = the_run(pods=[*FITTING, HUGE]).reasons
    (helped,) = reasons.helped
    assert (helped.owner, helped.groups, helped.pods) == (
        "ReplicaSet default/web",
        ["small"],
        ["default/web-0", "default/web-1"],
    )
    (stuck,) = reasons.unschedulable
    assert stuck.owner == "ReplicaSet default/huge"
    assert [one.reason for one in stuck.rejected["small"]] == ["NodeResourcesFit"]
    assert [(one.group, one.reason) for one in reasons.skipped_groups] == [("full", "MaxNodeGroupSizeReached")]


def test_messages_for_each_pod_are_there_too() -> None:
    messages = the_run(pods=[HUGE]).no_scale_up_reasons["default/huge-0"]
    assert list(messages.rejected) == ["small"]
    assert messages.skipped == {"full": ["max node group size reached"]}


def test_a_pod_that_fits_an_existing_node_needs_none() -> None:
    node = {"metadata": {"name": "n1"}, "status": {"allocatable": {"cpu": "8"}}}
    run = the_run(nodes=[node], pods=[FITTING[0]])
    assert run.scale_up_result == "NotNeeded"
    assert run.pods_needing_scale_up == []
    assert [(one.reason, one.pods) for one in run.reasons.waiting] == [
        ("FitsOnExistingOrUpcomingNode", ["default/web-0"])
    ]


def test_an_increase_that_fails_never_reached_the_cloud() -> None:
    groups = [a_group("small", "4", increaseError="none left")]
    run = the_run(nodeGroups=groups, pods=FITTING)
    assert run.scale_ups == []
    assert run.target_sizes == {"small": 0}
    assert run.scale_up_result == "Error"
    assert "none left" in run.scale_up_error


def test_failed_machines_are_deleted_and_named() -> None:
    broken = [
        {"group": "small", "id": name, "state": "creating", "errorClass": "OutOfResources", "errorCode": "X"}
        for name in ("i-2", "i-1")
    ]
    run = the_run(nodeGroups=[a_group("small", "4", targetSize=2)], instances=broken)
    assert [(one.group, one.id) for one in run.cloud_deletes] == [("small", "i-1"), ("small", "i-2")]
    assert run.target_sizes == {"small": 0}


def test_later_runs_go_on_from_earlier_ones() -> None:
    change = {"beforeRun": 1, "addPods": [a_pod("late-0", "3")]}
    first, second = played(pods=FITTING, runs=2, step="30s", changes=[change]).runs
    assert first.target_sizes["small"] == 2
    assert second.target_sizes["small"] == 3
    assert second.pods_needing_scale_up == ["default/late-0"]
    assert (first.at, second.at) == ("2026-01-05T12:00:01Z", "2026-01-05T12:00:31Z")


def test_the_same_scenario_gives_the_same_bytes_but_for_timings() -> None:
    def answer() -> bytes:
        found = played(pods=[*FITTING, HUGE], runs=3)
        bare = [msgspec.structs.replace(run, timings={}) for run in found.runs]
        return msgspec.json.encode(msgspec.structs.replace(found, runs=bare))

    assert answer() == answer()


def test_every_run_is_timed() -> None:
    for run in played(pods=FITTING, runs=2).runs:
        assert {"pass", "snapshot", "filter_schedulable"} <= run.timings.keys()


def test_options_that_do_not_suit_the_cloud_are_refused() -> None:
    with pytest.raises(ConfigError, match="prices"):
        played(options={"expander": "price"})
