"""The daemon, ProvisioningRequests and CapacityBuffers, over HTTP."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from autoscaler.sandbox.apiserver.faults import Fault
from tests.e2e.asking import BUFFERS, CRDS, REQUESTS, ask, conditions, consume, define
from tests.e2e.replica import PATIENT_LEADER, Replica, Sandbox, a_cloud, until

FLAGS = (
    "--enable-provisioning-requests",
    "--capacity-buffer-controller-enabled",
    "--capacity-buffer-pod-injection-enabled",
    "--scale-down-enabled=false",
    *PATIENT_LEADER,
)
BOUGHT = ("True", "CapacityIsProvisioned")


@pytest.fixture
def sandbox(tmp_path: Path) -> Iterator[Sandbox]:
    cloud = a_cloud("web")
    with Sandbox(tmp_path, cloud) as running:
        yield running


def test_a_request_buys_its_machines_and_its_pods_use_them(sandbox: Sandbox) -> None:
    define(sandbox)
    with Replica(sandbox.kubeconfig, *FLAGS, provider=sandbox.cloud) as replica:
        ask(sandbox, "job", 2)
        until(lambda: conditions(sandbox, REQUESTS, "job").get("Provisioned") == BOUGHT, "it is provisioned")
        assert sandbox.targets() == {"web": 2}
        consume(sandbox, "job", 2)
        sandbox.until_running(2)
        consumed = ("True", "CapacityBookingConsumed")
        until(lambda: conditions(sandbox, REQUESTS, "job").get("BookingExpired") == consumed, "its booking ends")
        assert sandbox.targets() == {"web": 2}
        assert replica.stop() == 0


def test_statuses_come_through_conflicts_and_outages(sandbox: Sandbox) -> None:
    define(sandbox)
    with Replica(sandbox.kubeconfig, *FLAGS, provider=sandbox.cloud) as replica:
        sandbox.server.faults.add(Fault(verb="update", resource=REQUESTS, code=409, times=1))
        sandbox.server.faults.add(Fault(verb="update", resource=REQUESTS, code=500, times=2))
        ask(sandbox, "job", 2)
        until(lambda: conditions(sandbox, REQUESTS, "job").get("Provisioned", ("", ""))[0] == "True", "it is met")
        assert sandbox.targets() == {"web": 2}
        assert replica.stop() == 0


def test_without_the_kinds_pods_are_served_and_so_are_requests_whose_kind_goes(sandbox: Sandbox) -> None:
    with Replica(sandbox.kubeconfig, *FLAGS, provider=sandbox.cloud) as replica:
        sandbox.deploy("before", 1)
        sandbox.until_running(1)
        assert replica.stop() == 0
    define(sandbox)
    with Replica(sandbox.kubeconfig, *FLAGS, provider=sandbox.cloud) as replica:
        ask(sandbox, "job", 1)
        until(lambda: conditions(sandbox, REQUESTS, "job").get("Provisioned") == BOUGHT, "it is provisioned")
        sandbox.storage.delete(CRDS, "provisioningrequests.autoscaling.x-k8s.io")
        sandbox.deploy("after", 2)
        sandbox.until_running(3)
        assert replica.stop() == 0


def test_a_buffer_keeps_a_machine_ahead_of_its_deployment(sandbox: Sandbox) -> None:
    define(sandbox)
    ref = {"apiGroup": "apps", "kind": "Deployment", "name": "web"}
    with Replica(sandbox.kubeconfig, *FLAGS, provider=sandbox.cloud) as replica:
        sandbox.deploy("web", 1)
        sandbox.storage.create(
            BUFFERS, {"metadata": {"name": "spare"}, "spec": {"scalableRef": ref, "percentage": 100}}
        )
        until(lambda: sandbox.targets() == {"web": 2}, "a machine more than pods")
        sandbox.until_running(1)
        told = conditions(sandbox, BUFFERS, "spare")
        assert {kind: status for kind, (status, _) in told.items()} == {
            "ReadyForProvisioning": "True",
            "Provisioning": "True",
        }
        (template,) = [
            pod_template
            for pod_template in sandbox.storage.list("podtemplates")
            if pod_template["metadata"]["name"] != "worker"
        ]
        assert template["metadata"]["name"] == "capacitybuffer-spare-pod-template"
        assert template["template"]["spec"]["tolerations"], "the API server has completed it, as it does pods"
        assert replica.stop() == 0
    assert {pod["metadata"]["labels"]["app"] for pod in sandbox.storage.list("pods")} == {"web"}
