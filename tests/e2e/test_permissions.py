"""The permissions in the manifests allow all that the daemon asks for."""

import threading
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from autoscaler.app.daemon import Daemon
from autoscaler.clock import SystemClock
from autoscaler.config.load import load
from autoscaler.simulator.apiserver.requests import Asked
from autoscaler.simulator.apiserver.server import ApiServer
from autoscaler.simulator.apiserver.storage import Storage

MANIFESTS = Path(__file__).parents[2] / "manifests"
HOME = "kube-system"
PATIENCE_S = 60.0

POD: Mapping[str, Any] = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "waiting", "namespace": "default", "creationTimestamp": "2024-01-01T00:00:00Z"},
    "spec": {
        "tolerations": [{"operator": "Exists"}],
        "containers": [{"name": "main", "image": "none", "resources": {"requests": {"cpu": "1"}}}],
    },
    "status": {
        "phase": "Pending",
        "conditions": [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}],
    },
}
PRIORITIES: Mapping[str, Any] = {
    "metadata": {"name": "cluster-autoscaler-priority-expander", "namespace": HOME},
    "data": {"priorities": "10: [small]\n1: [large]\n"},
}


def documents(*parts: str) -> list[Any]:
    return [one for one in yaml.safe_load_all(MANIFESTS.joinpath(*parts).read_text()) if one]


def roles(*files: tuple[str, ...]) -> list[Any]:
    return [one for file in files for one in documents(*file) if "rules" in one]


def allows(role: Mapping[str, Any], asked: Asked) -> bool:
    """Whether RBAC would let the request pass, the role being bound in its own namespace or everywhere."""
    if role["kind"] == "Role" and asked.namespace != HOME:
        return False
    resource = "/".join(filter(None, (asked.resource, asked.subresource)))
    # Of these the log has no name; a real server takes it from the field selector `metadata.name`.
    nameless = asked.verb in {"list", "watch"}
    return any(
        asked.group in rule["apiGroups"]
        and resource in rule["resources"]
        and asked.verb in rule["verbs"]
        and ("resourceNames" not in rule or nameless or asked.name in rule["resourceNames"])
        for rule in role["rules"]
    )


def wait_until(condition: Callable[[], bool]) -> None:
    never = threading.Event()
    for _ in range(int(PATIENCE_S / 0.05)):
        if condition():
            return
        never.wait(0.05)
    pytest.fail(f"not within {PATIENCE_S:g} s")


@pytest.fixture(scope="module")
def asked_for(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[Asked]]:
    """Everything that the daemon asks while it buys a fake node for one pod, and cleans up."""
    kubeconfig = tmp_path_factory.mktemp("cluster") / "kubeconfig"
    storage = Storage(SystemClock())
    for config_map in documents("overlays", "kwok", "node-groups.yaml"):
        storage.create("configmaps", {**config_map, "metadata": {**config_map["metadata"], "namespace": HOME}})
    storage.create("configmaps", dict(PRIORITIES))
    storage.load("pods", [dict(POD)])
    with ApiServer(storage) as server:
        server.write_kubeconfig(kubeconfig)
        flags = ["--cloud-provider=kwok", "--expander=priority", "--scan-interval=1s", "--address=127.0.0.1:0"]
        daemon = Daemon(load([f"--kubeconfig={kubeconfig}", *flags]), SystemClock(), {})
        thread = threading.Thread(target=daemon.run)
        thread.start()
        try:
            wait_until(lambda: bool(storage.list("nodes")))
            wait_until(lambda: bool(storage.list("events")))
        finally:
            daemon.stop()
            thread.join(PATIENCE_S)
        assert not thread.is_alive()
        assert storage.list("nodes") == []
        yield server.requests.entries(user_agent="cluster-autoscaler")


def test_everything_asked_for_is_allowed(asked_for: list[Asked]) -> None:
    bound = roles(("base", "cluster-role.yaml"), ("base", "role.yaml"), ("overlays", "kwok", "role.yaml"))
    denied = {
        (one.verb, one.group, one.resource, one.subresource, one.namespace, one.name)
        for one in asked_for
        if one.resource and not any(allows(role, one) for role in bound)
    }
    assert denied == set()


def test_only_the_kwok_provider_needs_its_role(asked_for: list[Asked]) -> None:
    base = roles(("base", "cluster-role.yaml"), ("base", "role.yaml"))
    denied = {(one.verb, one.resource) for one in asked_for if not any(allows(role, one) for role in base)}
    assert denied == {("create", "nodes"), ("delete", "nodes"), ("get", "configmaps")}
