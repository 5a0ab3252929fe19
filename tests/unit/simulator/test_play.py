"""Scenarios through the real loop: the contents of the answer."""

import json
from collections.abc import Mapping
from typing import Any

import msgspec
import pytest

from autoscaler.errors import ConfigError
from autoscaler.reasons import Waiting
from autoscaler.scenario.codec import decode
from autoscaler.simulator.answer import PlanAnswer, RunAnswer
from autoscaler.simulator.play import play
from tests.manifests import a_group, a_pod, a_template


def played(**fields: Any) -> PlanAnswer:
    document = {
        "now": "2026-01-05T12:00:00Z",
        "options": {"compatibility": "1.31", "expander": "least-waste"},
        "nodeGroups": [a_group("small", a_template("4")), a_group("full", a_template("64"), maxSize=0)],
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
    assert [(scale_up.group, scale_up.increase) for scale_up in run.scale_ups] == [("small", 2)]
    assert run.target_sizes == {"small": 2, "full": 0}
    assert run.chosen_option == "small"
    assert [(one.group, one.node_count) for one in run.scale_up_options] == [("small", 2)]
    assert run.pods_needing_scale_up == ["default/huge-0", "default/web-0", "default/web-1"]
    assert run.pods_triggered_scale_up == ["default/web-0", "default/web-1"]
    assert run.pods_remain_unschedulable == ["default/huge-0"]


NEW_RULES = {"expander": "least-waste"}


def a_chain(*names: str) -> list[dict[str, Any]]:
    """Pods each of which has to be on the node of the next."""
    pods = [a_pod(f"{name}-0", "1") for name in names]
    for pod, name, after in zip(pods, names, (*names[1:], None), strict=True):
        pod["metadata"]["labels"] = {"app": name}
        if after is not None:
            term = {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": after}}}
            pod["spec"]["affinity"] = {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    return pods


@pytest.mark.parametrize(
    ("names", "remaining"),
    [
        pytest.param(("ui", "cache", "web", "db"), [], id="all on one node"),
        pytest.param(("cli", "ui", "cache", "web", "db"), ["default/cli-0"], id="as many as it takes"),
    ],
)
def test_a_chain_of_pods_gets_its_node_in_one_pass(names: tuple[str, ...], remaining: list[str]) -> None:
    run = the_run(pods=a_chain(*names), options=NEW_RULES)
    assert run.target_sizes["small"] == 1
    assert run.pods_remain_unschedulable == remaining
    assert len(run.pods_triggered_scale_up) == 4


def test_a_chain_is_helped_link_by_link_as_in_cluster_autoscaler() -> None:
    run = the_run(pods=a_chain("ui", "cache", "web", "db"))
    assert run.pods_triggered_scale_up == ["default/db-0"]


def test_a_pod_that_tolerates_everything_takes_a_cordoned_node() -> None:
    node = {
        "metadata": {"name": "n1"},
        "spec": {"unschedulable": True},
        "status": {"allocatable": {"cpu": "4", "memory": "8Gi", "pods": "9"}},
    }
    pod = a_pod("agent-0", "1", tolerations=[{"operator": "Exists"}])
    assert the_run(pods=[pod], nodes=[node], options=NEW_RULES).scale_ups == []
    assert [scale_up.group for scale_up in the_run(pods=[pod], nodes=[node]).scale_ups] == ["small"]


def resizing(asks: str, holds: str, reason: str = "") -> dict[str, Any]:
    """A pod on n1 whose resize in place is not finished."""
    held = {"requests": {"cpu": holds}}
    conditions = [{"type": "PodResizePending", "status": "True", "reason": reason}] if reason else []
    statuses = [{"name": "main", "allocatedResources": {"cpu": min(asks, holds)}, "resources": held}]
    status = {"phase": "Running", "conditions": conditions, "containerStatuses": statuses}
    return {**a_pod("web-0", asks, nodeName="n1"), "status": status}


@pytest.mark.parametrize(
    ("there", "bought"),
    [
        pytest.param(resizing("3500m", "1", "Infeasible"), 0, id="what cannot be given takes no room"),
        pytest.param(resizing("3500m", "1", "Deferred"), 1, id="what waits for room does"),
        pytest.param(resizing("500m", "3"), 1, id="and what has not been given back"),
    ],
)
def test_room_beside_a_pod_that_is_being_resized(there: dict[str, Any], bought: int) -> None:
    node = {"metadata": {"name": "n1"}, "status": {"allocatable": {"cpu": "4", "memory": "8Gi", "pods": "9"}}}
    run = the_run(pods=[there, a_pod("new-0", "2")], nodes=[node], nodeToGroup={"n1": "small"})
    assert sum(scale_up.increase for scale_up in run.scale_ups) == bought


def test_a_gated_pod_waits_for_its_gate() -> None:
    run = the_run(pods=[a_pod("web-0", "1", schedulingGates=[{"name": "quota"}])])
    assert [(one.reason, one.pods) for one in run.reasons.waiting] == [(Waiting.GATED, ["default/web-0"])]


@pytest.mark.parametrize("options", [NEW_RULES, {"compatibility": "1.31"}], ids=["newest", "1.31"])
def test_cloud_tpus_are_no_business_of_nodes(options: dict[str, str]) -> None:
    pod = a_pod("trainer-0", "1")
    pod["spec"]["containers"][0]["resources"]["requests"]["cloud-tpus.google.com/v2"] = "8"
    assert the_run(pods=[pod], options=options).pods_triggered_scale_up == ["default/trainer-0"]


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
    assert [(group.group, group.reason) for group in reasons.skipped_groups] == [("full", "MaxNodeGroupSizeReached")]


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
    groups = [a_group("small", a_template("4"), increaseError="none left")]
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
    run = the_run(nodeGroups=[a_group("small", a_template("4"), targetSize=2)], instances=broken)
    assert [(cloud_delete.group, cloud_delete.id) for cloud_delete in run.cloud_deletes] == [
        ("small", "i-1"),
        ("small", "i-2"),
    ]
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


class TestTheGrpcExpanderOffline:
    OPTIONS = {
        "expander": "grpc,least-waste",
        "grpc-expander-url": "expander:7000",
        "grpc-expander-cert": "/etc/expander/ca.crt",
    }
    GROUPS = [a_group("small", a_template("4"), maxSize=1), a_group("big", a_template("16"))]
    PODS = [a_pod("web-0", "3"), a_pod("web-1", "3")]

    def document(self, *answers: Mapping[str, Any], **fields: Any) -> bytes:
        groups = {"options": self.OPTIONS, "nodeGroups": self.GROUPS, "pods": self.PODS}
        document = {"now": "2026-01-05T12:00:00Z", **groups, "expanderAnswers": list(answers), **fields}
        return json.dumps(document).encode()

    def grown(self, *answers: Mapping[str, Any], **options: Any) -> dict[str, int]:
        scenario = decode(self.document(*answers, options={**self.OPTIONS, **options}), "case.json")
        (run,) = play(scenario).runs
        return {scale_up.group: scale_up.increase for scale_up in run.scale_ups}

    def test_gives_the_recorded_answers_round_by_round(self) -> None:
        both = {"asked": ["big", "small"], "named": ["small"]}
        assert self.grown(both, {"asked": ["big"], "named": ["big"]}) == {"small": 1, "big": 1}

    def test_repeats_that_it_wanted_no_more(self) -> None:
        answers = ({"asked": ["small", "big"], "named": ["small"]}, {"asked": ["big"]})
        assert self.grown(*answers) == {"small": 1}
        assert self.grown(*answers, compatibility="1.31", **{"groups-per-pass": "all"}) == {"small": 1, "big": 1}

    def test_leaves_all_options_where_no_answer_is_recorded(self) -> None:
        assert self.grown() == self.grown({"asked": ["small"], "named": ["small"]}) == {"small": 1, "big": 1}

    def test_says_what_was_answered_so_that_it_can_be_replayed(self) -> None:
        answer = {"asked": ["big", "small"], "named": ["big"]}
        (run,) = play(decode(self.document(answer), "case.json")).runs
        assert json.loads(msgspec.json.encode(run))["expanderAnswers"] == [answer]

    def test_answers_belong_to_a_run(self) -> None:
        late = {"run": 1, "asked": ["big"]}
        scenario = decode(self.document(late, runs=2, options={**self.OPTIONS, "groups-per-pass": "one"}), "case.json")
        first, second = play(scenario).runs
        assert [answer.error for answer in first.expander_answers] == ["no answer is recorded"]
        assert [scale_up.group for scale_up in first.scale_ups] == ["small"]
        assert (second.scale_ups, second.scale_up_result) == ([], "NoOptionsAvailable")

    def test_warns_once_that_nobody_is_asked(self) -> None:
        (warning,) = decode(self.document(), "case.json").warnings
        assert "the grpc expander is not asked offline" in warning

    def test_answers_about_what_is_not_there_are_refused(self) -> None:
        with pytest.raises(ConfigError) as raised:
            decode(self.document({"run": 3, "asked": ["small", "mars"], "named": ["mars"]}), "case.json")
        assert list(raised.value.problems) == [
            "case.json: expanderAnswers[0].run: 3: the runs are 0 to 0",
            "case.json: expanderAnswers[0].asked[1]: there is no group mars",
        ]
