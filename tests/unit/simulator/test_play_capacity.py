"""Scenario files with ProvisioningRequests and CapacityBuffers: the contents of the answer."""

import json
from typing import Any

import pytest

from autoscaler.errors import ConfigError
from autoscaler.scenario.codec import decode
from autoscaler.scenario.encode import encode
from autoscaler.simulator.answer import PlanAnswer, RunAnswer
from autoscaler.simulator.play import play
from autoscaler.snapshot.cluster import view_of
from tests.manifests import a_node
from tests.unit.capacity import ATOMIC, CHECK

BUFFERS = {"capacity-buffer-controller-enabled": True, "capacity-buffer-pod-injection-enabled": True}
QUICK = {
    "scale-down-unneeded-time": "1m",
    "scale-down-delay-after-add": "0s",
    "unremovable-node-recheck-timeout": "1s",
}


def a_pod_template(cpu: str) -> dict[str, Any]:
    containers = [{"resources": {"requests": {"cpu": cpu}}}]
    return {"metadata": {"name": "worker"}, "template": {"spec": {"containers": containers}}}


def a_request(name: str, count: int, kind: str = CHECK) -> dict[str, Any]:
    pod_sets = [{"count": count, "podTemplateRef": {"name": "worker"}}]
    return {"metadata": {"name": name}, "spec": {"provisioningClassName": kind, "podSets": pod_sets}}


def played(options: dict[str, Any], **fields: Any) -> PlanAnswer:
    group = {"id": "web", "maxSize": 5, "targetSize": 1, "template": {"status": {"capacity": {"cpu": 4}}}}
    document = {
        "now": "2026-01-05T12:00:00Z",
        "options": options,
        "nodeGroups": [{"minSize": 0, **group}],
        "nodes": [a_node("n1")],
        "nodeToGroup": {"n1": "web"},
        "podTemplates": [a_pod_template("3")],
        **fields,
    }
    return play(decode(json.dumps(document).encode(), "case.json"))


def told(run: RunAnswer) -> list[tuple[str, str, str, str]]:
    return [(one.object, one.type, one.status, one.reason) for one in run.conditions_set]


def test_requests_are_served_in_turn_and_the_answer_has_their_conditions() -> None:
    requests = [a_request("check", 1), a_request("atomic", 2, ATOMIC)]
    answer = played({"enable-provisioning-requests": True}, provisioningRequests=requests, runs=3)
    first, second, third = answer.runs
    assert told(first) == [
        ("default/check", "Accepted", "True", "Accepted"),
        ("default/check", "Provisioned", "True", "CapacityIsFound"),
    ]
    assert first.pods_needing_scale_up == ["default/check-0-0"]
    assert told(second) == [
        ("default/atomic", "Accepted", "True", "Accepted"),
        ("default/atomic", "Provisioned", "True", "CapacityIsProvisioned"),
    ]
    assert [(scale_up.group, scale_up.increase) for scale_up in second.scale_ups] == [("web", 2)]
    assert (told(third), third.scale_ups) == ([], [])


def test_a_node_goes_when_a_buffer_has_room_elsewhere_and_nothing_is_evicted() -> None:
    buffer = {"metadata": {"name": "spare"}, "spec": {"podTemplateRef": {"name": "worker"}, "replicas": 1}}
    answer = played(
        {**BUFFERS, **QUICK},
        nodes=[a_node("n1"), a_node("foreign")],
        podTemplates=[a_pod_template("1")],
        capacityBuffers=[buffer],
        runs=12,
    )
    deletes = [cloud_delete.id for run in answer.runs for cloud_delete in run.cloud_deletes]
    assert deletes == ["n1"]
    assert [one.evicted_pods for run in answer.runs for one in (*run.deleted_empty, *run.deleted_drain)] == [[]]


def test_a_node_stays_while_a_buffer_has_room_nowhere_else() -> None:
    buffer = {"metadata": {"name": "spare"}, "spec": {"podTemplateRef": {"name": "worker"}, "replicas": 1}}
    answer = played({**BUFFERS, **QUICK}, podTemplates=[a_pod_template("1")], capacityBuffers=[buffer], runs=12)
    assert [run.cloud_deletes for run in answer.runs] == [[]] * 12


def test_a_template_may_be_a_deployments() -> None:
    spec = {"replicas": 3, "template": a_pod_template("3")["template"]}
    ref = {"apiGroup": "apps", "kind": "Deployment", "name": "web"}
    answer = played(
        BUFFERS,
        deployments=[{"metadata": {"name": "web"}, "spec": spec}],
        capacityBuffers=[{"metadata": {"name": "spare"}, "spec": {"scalableRef": ref, "percentage": 100}}],
        runs=4,
    )
    assert [(scale_up.group, scale_up.increase) for run in answer.runs for scale_up in run.scale_ups] == [("web", 2)]


def test_names_are_used_once() -> None:
    with pytest.raises(ConfigError, match=r"provisioningRequests\[1\].metadata.name: default/a is used"):
        played({}, provisioningRequests=[a_request("a", 1), a_request("a", 2)])


def test_a_recorded_pass_has_them() -> None:
    document = {"now": "2026-01-05T12:00:00Z", "podTemplates": [a_pod_template("3")]}
    buffer = {"metadata": {"name": "spare"}, "spec": {"podTemplateRef": {"name": "worker"}, "replicas": 1}}
    asking = {"provisioningRequests": [a_request("job", 1)], "capacityBuffers": [buffer]}
    scenario = decode(json.dumps({**document, **asking}).encode(), "case.json")
    view = view_of(scenario.nodes, scenario.pods, related=scenario.related)
    again = decode(encode(view, name="again", at_s=scenario.now_s + 1, options={}), "again.json")
    assert again.related == scenario.related
