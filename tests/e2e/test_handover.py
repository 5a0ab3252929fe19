"""Two replicas: one acts, and when it ends the other continues its work."""

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from autoscaler.clock import SystemClock
from autoscaler.objects.meta import unix_seconds
from autoscaler.sandbox.apiserver.faults import Fault
from autoscaler.sandbox.apiserver.request_log import RequestAttributes
from cloudprovider.static.cloud import StaticCloud
from tests.e2e.replica import LEASE_S, READING, RETRY_S, Process, Replica, Sandbox, a_cloud, until

SLACK_S = 5.0
"""What a busy machine may add to a delay that the timings promise."""


@pytest.fixture
def cloud() -> StaticCloud:
    return a_cloud("web")


@pytest.fixture
def sandbox(tmp_path: Path, cloud: StaticCloud) -> Iterator[Sandbox]:
    with Sandbox(tmp_path, cloud) as made:
        yield made


def stands_by(sandbox: Sandbox, name: str) -> bool:
    """Whether a replica has asked for the lease, and follows the cluster."""
    resources = {one.resource for one in sandbox.asked(name) if one.verb in ("get", "watch")}
    return {"leases", "nodes", "pods"} <= resources


def took_lease(asked: RequestAttributes, name: str) -> bool:
    return (asked.user_agent, asked.verb, asked.resource) == (name, "update", "leases")


def test_a_killed_leader_is_replaced_when_its_lease_has_run_out(tmp_path: Path) -> None:
    flags = ("run", "--cloud-provider=kwok")
    with (
        Sandbox(tmp_path) as kwok,
        Process.daemon(tmp_path, kwok.kubeconfig, *flags, name="first") as first,
    ):
        until(kwok.holder, "the first replica leads")
        leader = kwok.holder()
        with Process.daemon(tmp_path, kwok.kubeconfig, *flags, name="second") as second:
            until(lambda: stands_by(kwok, "second"), "the second replica stands by")
            kwok.deploy("web", 3)
            kwok.until_running(3)
            assert kwok.written("second") == []
            first.send(signal.SIGKILL)
            assert first.end() == -signal.SIGKILL
            last_renewed = unix_seconds(kwok.lease()["renewTime"])
            kwok.deploy("more", 2)
            until(lambda: kwok.holder() not in ("", leader), "the second replica leads")
            lease = kwok.lease()
            kwok.until_running(5)
            assert len(kwok.nodes()) == 5
            assert [what for what in kwok.written("first") if what[1] == "nodes"] == [("create", "nodes")] * 3
            assert [what for what in kwok.written("second") if what[1] == "nodes"] == [("create", "nodes")] * 2
            second.send(signal.SIGTERM)
            assert second.end() == 0, second.err
    took_s = unix_seconds(lease["acquireTime"]) - last_renewed
    assert LEASE_S - 1 <= took_s <= LEASE_S + 1.2 * RETRY_S + SLACK_S
    assert lease["leaseTransitions"] == 1


def test_a_clean_stop_hands_over_without_waiting_for_the_lease(sandbox: Sandbox, cloud: StaticCloud) -> None:
    long = ("--leader-elect-lease-duration=90s", "--leader-elect-renew-deadline=60s")
    with Replica(sandbox.kubeconfig, *long, provider=cloud, name="first") as first:
        until(sandbox.holder, "the first replica leads")
        leader = sandbox.holder()
        with Replica(sandbox.kubeconfig, *long, provider=cloud, name="second") as second:
            until(lambda: stands_by(sandbox, "second"), "the second replica stands by")
            sandbox.deploy("web", 2)
            sandbox.until_running(2)
            assert sandbox.written("second") == []
            began = SystemClock().now().mono
            assert first.stop() == 0
            sandbox.deploy("more", 2)
            until(lambda: sandbox.holder() not in ("", leader), "the second replica leads")
            assert SystemClock().now().mono - began <= 1.2 * RETRY_S + SLACK_S
            sandbox.until_running(4)
            assert sandbox.targets() == {"web": 4}
            assert second.stop() == 0
    assert sandbox.holder() == ""
    assert len(cloud.machines()) == 4


def test_a_leader_cut_off_from_the_server_gives_up_before_another_takes_over(
    sandbox: Sandbox, cloud: StaticCloud
) -> None:
    with Replica(sandbox.kubeconfig, provider=cloud, name="first") as first:
        until(sandbox.holder, "the first replica leads")
        leader = sandbox.holder()
        with Replica(sandbox.kubeconfig, provider=cloud, name="second") as second:
            until(lambda: stands_by(sandbox, "second"), "the second replica stands by")
            sandbox.deploy("web", 1)
            sandbox.until_running(1)
            sandbox.server.faults.add(Fault(user_agent="first", drop=True))
            sandbox.deploy("more", 2)
            assert first.end() == 1
            until(lambda: sandbox.holder() not in ("", leader), "the second replica leads")
            sandbox.until_running(3)
            assert sandbox.targets() == {"web": 3}
            assert second.stop() == 0
    everything = sandbox.asked("")
    assert ("update", "leases") in sandbox.written("first")
    taken_over = next(position for position, one in enumerate(everything) if took_lease(one, "second"))
    assert [one for one in everything[taken_over:] if one.user_agent == "first" and one.verb not in READING] == []


def test_only_the_leader_says_that_it_leads(sandbox: Sandbox, cloud: StaticCloud) -> None:
    with Replica(sandbox.kubeconfig, provider=cloud, name="first") as first:
        until(lambda: first.get("/readyz")[0] == 200, "the first replica is ready")
        with Replica(sandbox.kubeconfig, provider=cloud, name="second") as second:
            until(lambda: stands_by(sandbox, "second"), "the second replica stands by")
            until(lambda: second.json("/api/v1/status")["process"]["leader"] == sandbox.holder(), "it knows the leader")
            assert not second.json("/api/v1/status")["process"]["leading"]
            assert first.json("/api/v1/status")["process"]["leading"]
            assert (first.daemon.leading, second.daemon.leading) == (True, False)
            assert second.get("/health-check") == (200, "OK")
            assert 'leader_election_master_status{name="cluster-autoscaler"} 1' in first.get("/metrics")[1]
            assert 'leader_election_master_status{name="cluster-autoscaler"} 1' not in second.get("/metrics")[1]
