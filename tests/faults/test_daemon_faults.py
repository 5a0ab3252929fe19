"""The whole daemon during failures around it: nothing is lost, and nothing is bought twice."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from autoscaler.sandbox.apiserver.faults import Fault
from cloudprovider.interface import ErrorClass, InstanceError, OutOfCapacity, ProviderError, Throttled, Transient
from cloudprovider.static.cloud import StaticCloud
from cloudprovider.static.spec import Call
from tests.e2e.replica import PATIENT_LEADER, Replica, Sandbox, a_cloud, a_spec, now_wall, until

_SILENCE = "cluster_autoscaler_watch_silence_seconds{"
SHORT_BACKOFF = ("--initial-node-group-backoff-duration=1s", "--max-node-group-backoff-duration=1s")


class RunningDaemon:
    """A cluster in which one pod runs already, thanks to the daemon."""

    def __init__(self, sandbox: Sandbox, cloud: StaticCloud, replica: Replica) -> None:
        self.sandbox = sandbox
        self.cloud = cloud
        self.replica = replica
        self.faults = sandbox.server.faults

    def last_pass(self) -> dict[str, Any]:
        return dict(self.replica.json("/api/v1/status")["lastPass"] or {})

    def least_silence_s(self) -> float:
        """Return for how long the watch that heard last has been silent, as `ClusterAutoscalerApiServerSilent` asks."""
        lines = self.replica.get("/metrics")[1].splitlines()
        return min(float(line.rpartition(" ")[2]) for line in lines if line.startswith(_SILENCE))

    def until_passes(self, count: int) -> None:
        """Wait until that many passes more have ended."""
        begun = int(self.last_pass()["number"])
        until(lambda: self.last_pass()["number"] >= begun + count, f"{count} more passes")

    def serves(self, replicas: int) -> None:
        """Find every pod running, on exactly as many machines as are needed."""
        self.sandbox.until_running(replicas)
        assert sum(self.sandbox.targets().values()) == replicas
        assert len(self.cloud.machines()) == replicas

    def put_by_now(self, reason: str) -> bool:
        return any(one["reason"] == reason for one in self.sandbox.storage.list("events"))


@pytest.fixture
def stage(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[RunningDaemon]:
    cloud = a_cloud(*getattr(request, "param", ("web",)))
    with Sandbox(tmp_path, cloud) as sandbox:
        flags = (*PATIENT_LEADER, *SHORT_BACKOFF)
        with Replica(sandbox.kubeconfig, *flags, provider=cloud) as replica:
            made = RunningDaemon(sandbox, cloud, replica)
            sandbox.deploy("before", 1)
            made.serves(1)
            yield made
            sandbox.server.faults.clear()
            assert replica.stop() == 0


class TestApiServer:
    def test_pods_that_come_while_it_is_down_are_served_when_it_is_back(self, stage: RunningDaemon) -> None:
        stage.faults.down()
        stage.sandbox.deploy("meanwhile", 2)
        stage.until_passes(2)
        assert stage.sandbox.targets() == {"web": 1}, "nobody can know of the new pods"
        stage.faults.up()
        stage.serves(3)
        assert stage.sandbox.holder() != ""

    def test_passes_go_on_while_it_is_down_and_every_watch_is_told_to_be_silent(self, stage: RunningDaemon) -> None:
        stage.faults.down()
        until(lambda: stage.least_silence_s() > 3.0, "no watch has heard anything")
        stage.until_passes(1)
        assert stage.last_pass().get("error") is None, "so nothing but the silence tells of it"
        stage.faults.up()
        until(lambda: stage.least_silence_s() < 1.0, "watches hear again")

    def test_it_comes_and_goes(self, stage: RunningDaemon) -> None:
        for count in range(3):
            stage.faults.down()
            stage.sandbox.deploy(f"round-{count}", 1)
            stage.until_passes(1)
            stage.faults.up()
        stage.serves(4)

    @pytest.mark.parametrize(
        "fault",
        [
            pytest.param(Fault(verb="watch", watch_lines=1, times=30), id="torn in the middle of a line"),
            pytest.param(Fault(verb="watch", watch_lines=0, code=410, times=30), id="too old"),
            pytest.param(Fault(verb="watch", drop=True, times=30), id="refused"),
        ],
    )
    def test_watches_that_break_lose_nothing(self, stage: RunningDaemon, fault: Fault) -> None:
        stage.faults.add(fault)
        stage.faults.down()  # so that the open watches end and the next ones meet the rule
        stage.faults.up()
        stage.sandbox.deploy("meanwhile", 2)
        stage.serves(3)

    def test_writes_that_have_to_wait_are_made_later(self, stage: RunningDaemon) -> None:
        for verb, resource in (("create", "events"), ("update", "configmaps"), ("update", "leases")):
            stage.faults.add(Fault(verb=verb, resource=resource, code=429, retry_after_s=1, times=2))
        stage.sandbox.deploy("meanwhile", 1)
        stage.serves(2)
        until(lambda: "meanwhile" in self.told(stage), "the pod's event is written")

    @staticmethod
    def told(stage: RunningDaemon) -> str:
        events = stage.sandbox.storage.list("events")
        return " ".join(one["involvedObject"]["name"] for one in events if one["reason"] == "TriggeredScaleUp")

    def test_a_status_map_that_others_write_too_is_written_all_the_same(self, stage: RunningDaemon) -> None:
        until(stage.sandbox.status_map, "the status ConfigMap is there")
        stage.faults.add(Fault(verb="update", resource="configmaps", code=409, times=3))
        found = stage.sandbox.status_map()
        assert found is not None
        found["data"] = {"status": "somebody else's"}
        stage.sandbox.storage.update("configmaps", found)
        until(lambda: "autoscalerStatus: Running" in self.status_text(stage), "it is the autoscaler's again")

    @staticmethod
    def status_text(stage: RunningDaemon) -> str:
        found = stage.sandbox.status_map()
        return "" if found is None else str(found["data"]["status"])

    def test_a_status_map_that_may_not_be_written_stops_nothing(self, stage: RunningDaemon) -> None:
        stage.faults.add(Fault(resource="configmaps", code=403))
        stage.sandbox.deploy("meanwhile", 1)
        stage.serves(2)
        assert stage.last_pass()["error"] is None


class TestProvider:
    @pytest.mark.parametrize("takes_effect", [True, False], ids=["that took effect", "that did not"])
    def test_an_answer_that_is_lost_buys_nothing_twice(self, stage: RunningDaemon, takes_effect: bool) -> None:
        stage.cloud.fail_next("web", Transient("no answer in time"), takes_effect=takes_effect)
        stage.sandbox.deploy("more", 3)
        stage.serves(4)

    @pytest.mark.parametrize(
        "error",
        [
            pytest.param(Throttled("slow down", retry_after=1.0), id="throttled"),
            pytest.param(OutOfCapacity("none left"), id="out of capacity for a moment"),
            pytest.param(ProviderError("no"), id="anything"),
        ],
    )
    def test_a_refusal_is_tried_again_after_the_back_off(self, stage: RunningDaemon, error: ProviderError) -> None:
        stage.cloud.fail_next("web", error)
        stage.sandbox.deploy("more", 2)
        stage.serves(3)
        until(lambda: stage.put_by_now("FailedToScaleUpGroup"), "the failure is told")

    @pytest.mark.parametrize("stage", [("one", "other")], indirect=True)
    def test_another_group_helps_where_one_is_out_of_capacity(self, stage: RunningDaemon) -> None:
        for group in stage.sandbox.targets():
            stage.cloud.fail_next(group, OutOfCapacity("none left"))
        stage.sandbox.deploy("more", 2)
        stage.serves(3)

    def test_a_machine_that_cannot_be_made_is_removed_and_replaced(self, stage: RunningDaemon) -> None:
        stage.cloud.fail_next("web", InstanceError(ErrorClass.OUT_OF_RESOURCES, "STOCKOUT", "none left"))
        stage.sandbox.deploy("more", 1)
        stage.serves(2)

    def test_a_refresh_that_fails_skips_passes_and_no_more(self, stage: RunningDaemon) -> None:
        stage.cloud.fail_next("web", Throttled("slow down"), Call.REFRESH)
        until(lambda: "slow down" in (stage.last_pass()["error"] or ""), "a pass fails, and says why")
        until(lambda: stage.last_pass()["error"] is None, "the next one does not")
        stage.sandbox.deploy("more", 1)
        stage.serves(2)


class Buggy(StaticCloud):
    """A plug-in with a mistake in it that shows once."""

    mistakes = 0

    def refresh(self, now: float) -> None:
        if self.mistakes:
            self.mistakes -= 1
            raise TypeError("a mistake of the plug-in's author")
        super().refresh(now)


def test_a_mistake_in_a_plug_in_costs_a_pass_and_no_more(tmp_path: Path) -> None:
    cloud = Buggy(a_spec("web"), now=now_wall)
    with Sandbox(tmp_path, cloud) as sandbox, Replica(sandbox.kubeconfig, *PATIENT_LEADER, provider=cloud) as replica:
        until(lambda: replica.get("/readyz")[0] == 200, "it runs")
        cloud.mistakes = 1
        until(lambda: "author" in replica.get("/api/v1/status")[1], "the failure is shown")
        sandbox.deploy("web", 1)
        sandbox.until_running(1)
        assert replica.stop() == 0


def test_fake_nodes_that_could_not_be_made_are_made_later(tmp_path: Path) -> None:
    flags = ("--cloud-provider=kwok", *PATIENT_LEADER, *SHORT_BACKOFF)
    with Sandbox(tmp_path) as sandbox, Replica(sandbox.kubeconfig, *flags) as replica:
        until(lambda: replica.get("/readyz")[0] == 200, "it runs")
        for code in (500, 409, 429):
            sandbox.server.faults.add(Fault(verb="create", resource="nodes", code=code, times=1))
        sandbox.deploy("web", 3)
        sandbox.until_running(3)
        assert len(sandbox.nodes()) == 3
        assert replica.stop() == 0
