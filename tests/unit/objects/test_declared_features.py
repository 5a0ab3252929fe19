from typing import Any

import pytest

from autoscaler.objects.declared_features import HOST_NETWORK_USERS, RESTART_ALL_CONTAINERS
from autoscaler.objects.encode import PodForms, node_form
from autoscaler.objects.node import node_decoder
from tests.builders import a_node, a_pod, pod_decoder


def containers(*actions: str, kind: str = "containers") -> dict[str, Any]:
    rules = [{"action": action, "exitCodes": {"operator": "In", "values": [42]}} for action in actions]
    return {kind: [{"name": "main", "restartPolicy": "Never", "restartPolicyRules": rules}]}


@pytest.mark.parametrize(
    ("spec", "needed"),
    [
        pytest.param({}, set(), id="an ordinary pod"),
        pytest.param(containers("Restart"), set(), id="a rule that restarts one container"),
        pytest.param(
            containers("Restart", "RestartAllContainers"), {RESTART_ALL_CONTAINERS}, id="one that restarts all"
        ),
        pytest.param(
            containers("RestartAllContainers", kind="initContainers"), {RESTART_ALL_CONTAINERS}, id="an init container"
        ),
        pytest.param({"hostNetwork": True}, set(), id="host network"),
        pytest.param({"hostUsers": False}, set(), id="users of its own"),
        pytest.param({"hostNetwork": True, "hostUsers": True}, set(), id="host network and host users"),
        pytest.param({"hostNetwork": True, "hostUsers": False}, {HOST_NETWORK_USERS}, id="users on the host network"),
    ],
)
def test_what_a_pod_needs_of_its_node(spec: dict[str, Any], needed: set[str]) -> None:
    pod = a_pod(spec=spec)
    assert pod.cls.features == needed
    read_again = pod_decoder().one(PodForms().form(pod))
    assert read_again.cls is pod.cls


def test_users_or_network_alone_make_no_class_of_their_own() -> None:
    assert len({a_pod(spec=spec).cls for spec in ({}, {"hostNetwork": True}, {"hostUsers": False})}) == 1


def test_what_a_node_declares_is_kept_and_written() -> None:
    node = a_node(features=["B", "A", "A"])
    assert node.declared_features == {"A", "B"}
    assert node_form(node)["status"]["declaredFeatures"] == ["A", "B"]
    assert "declaredFeatures" not in node_form(a_node())["status"]
    assert node_decoder().one(node_form(node)).declared_features is node.declared_features
