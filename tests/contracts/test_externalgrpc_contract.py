"""A simulated cloud behind a gRPC server on the loopback interface passes the suite through our client."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import pytest

from cloudprovider.conformance import CHECKS, Check, run_check
from cloudprovider.externalgrpc.calls import Calls
from cloudprovider.externalgrpc.provider import PricedExternalProvider
from cloudprovider.externalgrpc.server import Server
from cloudprovider.externalgrpc.settings import Settings
from cloudprovider.interface import CloudProvider, GroupSettings, Instance, NodeRef, NodeTemplate
from cloudprovider.static import BootDelay, CloudSpec, GroupSpec, Prices, StaticCloud, open_cloud

_TEMPLATE = NodeTemplate(
    labels={"pool": "web", "cloud.google.com/gke-accelerator": "t4"},
    capacity={"cpu": "4", "memory": "16Gi", "pods": "110"},
)
_PATIENT_S = 60.0


class CountingCalls(Calls):
    """Counts what is sent."""

    sent = 0

    def all(self, method: str, requests: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
        self.sent += len(requests)
        return super().all(method, requests)


class ExternalHarness:
    def __init__(self, boot_s: float | None) -> None:
        self._now = 1_000.0
        boot = None if boot_s is None else BootDelay(boot_s, boot_s)
        shape: dict[str, Any] = {"max_size": 6, "template": _TEMPLATE, "boot": boot}
        groups = [GroupSpec(id="web", min_size=1, **shape), GroupSpec(id="batch", min_size=0, **shape)]
        self.cloud: StaticCloud = open_cloud(CloudSpec(groups=groups, prices=Prices()), now=self._wall)
        self.server = Server(self.cloud, "127.0.0.1:0", now=self._wall)
        self.server.start()
        self.calls = CountingCalls(Settings(f"127.0.0.1:{self.server.port}", _PATIENT_S))
        self._client = PricedExternalProvider(self.calls, GroupSettings(), self._wall)
        self._client.refresh(self._now)

    def _wall(self) -> float:
        return self._now

    @property
    def provider(self) -> CloudProvider:
        return self._client

    @property
    def group_ids(self) -> Sequence[str]:
        return ("web", "batch")

    def settle(self) -> None:
        self._now += 600.0
        self._client.refresh(self._now)

    def node_for(self, instance: Instance) -> NodeRef:
        names = {machine.provider_id: machine.name for machine in self.cloud.machines()}
        return NodeRef(names[instance.provider_id], instance.provider_id, labels=_TEMPLATE.labels)

    def remote_calls(self) -> int:
        return self.calls.sent


Make = Callable[[float | None], ExternalHarness]


@pytest.fixture
def harness() -> Iterator[Make]:
    made: list[ExternalHarness] = []

    def build(boot_s: float | None) -> ExternalHarness:
        made.append(ExternalHarness(boot_s))
        return made[-1]

    yield build
    for one in made:
        one.calls.close()
        one.server.stop()


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.name)
@pytest.mark.parametrize("boot_s", [60.0, None], ids=["machines appear", "no machine appears"])
def test_contract(harness: Make, boot_s: float | None, check: Check) -> None:
    result = run_check(check, harness(boot_s))
    assert result.passed is not False, result.detail


def test_all_is_tried_but_what_the_protocol_lacks_and_machines_rule_out(
    harness: Make,
) -> None:
    one = harness(60.0)
    skipped = {check.name for check in CHECKS if run_check(check, one).passed is None}
    assert skipped == {
        "AtomicIncrease: all or nothing",
        "ForceDelete: deletes below the minimum, but nothing that belongs elsewhere",
        "KnowsInstances: a machine exists until it is deleted",
        "PrepareDelete: asking changes nothing",
        "Versioned: a new machine is as new machines are",
        "decrease_target cancels requests that no machine answers yet",
    }
