import random
import threading

import msgspec
import pytest

from autoscaler.clock import Instant, VirtualClock
from autoscaler.errors import AutoscalerError, Conflict, Gone, Refused, RetryLater
from autoscaler.kube.election import LeaderElection, own_identity
from autoscaler.kube.lease import (
    ElectionLease,
    ElectionSpec,
    LeasePhase,
    LeaseState,
    LeaseTimings,
    LeaseWrite,
    micro_time,
)

PATIENCE_S = 20.0


class FakeLeases:
    """One Lease, with the server's optimistic locking, and faults."""

    def __init__(self, clock: VirtualClock) -> None:
        self.clock = clock
        self.stored: ElectionLease | None = None
        self.version = 0
        self.fault: AutoscalerError | None = None
        self.lose_answers = False
        self.takes_s = 0.0
        self.timeouts: list[float] = []
        self.calls: list[str] = []

    def read(self, namespace: str, name: str, timeout_s: float) -> ElectionLease | None:
        self._call("read", timeout_s)
        assert (namespace, name) == ("kube-system", "cluster-autoscaler")
        return self.stored

    def create(self, lease: ElectionLease, timeout_s: float) -> ElectionLease:
        self._call("create", timeout_s)
        if self.stored is not None:
            raise Conflict("already exists")
        return self._store(lease)

    def replace(self, lease: ElectionLease, timeout_s: float) -> ElectionLease:
        self._call("replace", timeout_s)
        if self.stored is None:
            raise Gone("no lease")
        if lease.metadata["resourceVersion"] != self.stored.metadata["resourceVersion"]:
            raise Conflict("changed")
        return self._store(lease)

    def delete(self) -> None:
        self.stored = None

    @property
    def spec(self) -> ElectionSpec:
        assert self.stored is not None
        return self.stored.spec

    def _call(self, name: str, timeout_s: float) -> None:
        self.calls.append(name)
        self.timeouts.append(timeout_s)
        self.clock.advance(self.takes_s)
        if self.fault is not None:
            raise self.fault

    def _store(self, lease: ElectionLease) -> ElectionLease:
        self.version += 1
        metadata = lease.metadata | {"resourceVersion": str(self.version)}
        self.stored = msgspec.structs.replace(lease, metadata=metadata)
        if self.lose_answers:
            raise RetryLater("timed out")
        return self.stored


class Replica:
    def __init__(self, name: str, leases: FakeLeases, clock: VirtualClock, seed: int = 1) -> None:
        self.name = name
        self.lost = 0
        self.clock = clock
        self.state = LeaseState(name, LeaseTimings(), rng=random.Random(seed))
        self.election = LeaderElection(self.state, leases, clock, self._on_lost)
        self.due = clock.now().mono
        self.frozen = False

    def _on_lost(self) -> None:
        self.lost += 1

    def run_due(self) -> None:
        while not self.frozen and self.due <= self.clock.now().mono:
            pause_s = self.election.tick()
            if pause_s is None:
                self.due = float("inf")
            else:
                self.due = self.clock.now().mono + pause_s

    def may_write(self) -> bool:
        return self.election.may_write(self.clock.now(), 0.0)


class TwoReplicas:
    def __init__(self) -> None:
        self.clock = VirtualClock(wall=1_700_000_000, mono=100)
        self.leases = FakeLeases(self.clock)
        self.a = Replica("a", self.leases, self.clock, seed=1)
        self.b = Replica("b", self.leases, self.clock, seed=2)

    def run(self, seconds: float) -> None:
        """Let the replicas act for that long, in steps of a tenth of a second; never may both write."""
        until = self.clock.now().mono + seconds
        while self.clock.now().mono < until:
            self.a.run_due()
            self.b.run_due()
            assert not (self.a.may_write() and self.b.may_write())
            self.clock.advance(0.1)

    def seconds_until_b_leads(self, at_most: float = 60.0) -> float:
        started = self.clock.now().mono
        while not self.b.may_write():
            assert self.clock.now().mono - started < at_most, "nobody took over"
            self.run(0.1)
        return self.clock.now().mono - started


@pytest.fixture
def world() -> TwoReplicas:
    made = TwoReplicas()
    made.a.run_due()
    made.run(5)
    assert made.a.may_write()
    return made


def test_the_first_to_come_leads_with_the_usual_record() -> None:
    world = TwoReplicas()
    world.a.run_due()
    assert world.a.state.phase is LeasePhase.LEADING
    assert world.leases.spec == ElectionSpec(
        holder_identity="a",
        lease_duration_seconds=15,
        acquire_time="2023-11-14T22:13:20.000000Z",
        renew_time="2023-11-14T22:13:20.000000Z",
        lease_transitions=0,
    )
    assert world.leases.stored is not None
    assert world.leases.stored.metadata["name"] == "cluster-autoscaler"
    assert world.leases.stored.metadata["namespace"] == "kube-system"


def test_the_leader_renews_every_two_seconds_in_one_call(world: TwoReplicas) -> None:
    world.leases.calls.clear()
    acquired = world.leases.spec.acquire_time
    before = world.leases.version
    world.run(20)
    assert 9 <= world.leases.version - before <= 10
    assert set(world.leases.calls) == {"replace", "read"}, "the other one only reads"
    assert world.leases.spec.acquire_time == acquired
    assert world.leases.spec.renew_time != acquired
    assert world.leases.spec.lease_transitions == 0


def test_the_other_one_never_leads_while_the_leader_renews(world: TwoReplicas) -> None:
    world.run(300)
    assert world.a.may_write()
    assert world.b.election.holder == "a"
    assert not world.b.election.is_leading


def test_a_dead_leader_is_followed_within_lease_and_retry(world: TwoReplicas) -> None:
    world.a.frozen = True
    assert 10 < world.seconds_until_b_leads() <= 15 + 2 * 1.2 + 2.1
    assert world.leases.spec.holder_identity == "b"
    assert world.leases.spec.lease_transitions == 1


def test_a_clean_release_hands_over_within_a_retry(world: TwoReplicas) -> None:
    world.a.election.release()
    assert not world.a.may_write()
    assert world.leases.spec.holder_identity == ""
    assert world.leases.spec.lease_duration_seconds == 1
    world.a.frozen = True
    assert world.seconds_until_b_leads() <= 2 * 1.2 + 0.2
    assert world.leases.spec.lease_transitions == 1


def test_a_frozen_leader_cannot_write_under_its_successor(world: TwoReplicas) -> None:
    world.a.frozen = True
    world.run(40)
    assert world.b.may_write()
    assert not world.a.may_write(), "even before it has noticed anything"
    world.a.frozen = False
    world.a.due = world.clock.now().mono
    world.run(1)
    assert world.a.state.phase is LeasePhase.LOST
    assert world.a.state.lost_reason.startswith("not renewed for 4")
    assert "beyond the deadline" in world.a.state.lost_reason
    assert world.leases.spec.holder_identity == "b"
    world.run(60)
    assert not world.a.may_write()
    assert world.b.may_write()


def test_a_suspended_machine_is_told_by_its_wall_clock(world: TwoReplicas) -> None:
    now = world.clock.now()
    asleep = Instant(now.wall + 3600, now.mono + 0.1)
    assert world.a.election.may_write(now, 1.0)
    assert not world.a.election.may_write(asleep, 1.0)


def test_a_wall_clock_set_back_does_not_stretch_the_lease(world: TwoReplicas) -> None:
    now = world.clock.now()
    assert not world.a.election.may_write(Instant(now.wall - 3600, now.mono + 20), 0.0)


def test_the_lease_is_counted_from_the_sending() -> None:
    world = TwoReplicas()
    world.leases.takes_s = 4.0
    world.a.election.tick()  # reads, four seconds
    sent = world.clock.now()
    world.a.election.tick()
    assert world.a.election.may_write(sent, 14.9)
    assert not world.a.election.may_write(sent, 15.0)
    assert not world.a.election.may_write(sent.later(4.0), 11.0)


@pytest.mark.parametrize(
    "fault",
    [
        pytest.param(RetryLater("connection refused"), id="server away"),
        pytest.param(Refused("forbidden", 403), id="permission taken away"),
        pytest.param(Conflict("changed"), id="endless conflicts"),
    ],
)
def test_a_leader_that_cannot_renew_gives_up_at_the_deadline(world: TwoReplicas, fault: AutoscalerError) -> None:
    world.b.frozen = True
    renewed = world.clock.now().mono
    world.leases.fault = fault
    while world.a.state.phase is LeasePhase.LEADING:
        assert world.clock.now().mono - renewed < 11
        world.run(0.1)
    assert world.clock.now().mono - renewed > 7.9
    assert not world.a.may_write()
    calls_in_vain = len(world.leases.calls)
    world.leases.fault = None
    world.run(30)
    assert len(world.leases.calls) == calls_in_vain, "it never tries again"
    assert calls_in_vain < 30, "and does not hammer the server meanwhile"


def test_no_request_may_outlive_the_deadline(world: TwoReplicas) -> None:
    world.b.frozen = True
    world.leases.fault = RetryLater("slow")
    world.leases.takes_s = 1.5
    renew_by = world.a.state._renew_by
    starts: list[tuple[float, float]] = []
    while world.a.state.phase is LeasePhase.LEADING:
        calls, now = len(world.leases.calls), world.clock.now().mono
        pause_s = world.a.election.tick()
        if len(world.leases.calls) > calls:
            starts.append((now, world.leases.timeouts[-1]))
        world.clock.advance(pause_s or 0.0)
    assert len(starts) >= 2
    assert all(at + timeout <= renew_by + 1e-6 and 0 < timeout <= 5 for at, timeout in starts)


def test_a_short_outage_is_survived(world: TwoReplicas) -> None:
    world.leases.fault = RetryLater("etcd leader election")
    world.run(6)
    world.leases.fault = None
    world.run(30)
    assert world.a.may_write()
    assert world.leases.spec.lease_transitions == 0


def test_a_renewal_whose_answer_is_lost_is_recognised_as_our_own(world: TwoReplicas) -> None:
    world.leases.lose_answers = True
    world.run(3)
    world.leases.lose_answers = False
    world.run(20)
    assert world.a.may_write()
    assert world.leases.spec.lease_transitions == 0


def test_an_acquisition_whose_answer_is_lost_is_recognised_as_our_own() -> None:
    world = TwoReplicas()
    world.b.frozen = True
    world.leases.lose_answers = True
    world.run(1)
    assert not world.a.may_write()
    world.leases.lose_answers = False
    world.run(3)
    assert world.a.may_write()
    assert world.leases.spec.lease_transitions == 0


def test_a_leader_that_finds_another_holder_stops_at_once(world: TwoReplicas) -> None:
    assert world.leases.stored is not None
    usurped = msgspec.structs.replace(world.leases.spec, holder_identity="usurper")
    world.leases._store(msgspec.structs.replace(world.leases.stored, spec=usurped))
    world.run(2.2)
    assert (world.a.state.phase, world.a.state.lost_reason) == (LeasePhase.LOST, "it has another holder: usurper")
    assert world.leases.spec.holder_identity == "usurper"


def test_a_deleted_lease_does_not_make_two_leaders(world: TwoReplicas) -> None:
    world.leases.delete()
    world.run(60)  # which asserts that never both may write
    assert world.a.may_write()
    assert world.leases.spec.holder_identity == "a"


def test_of_two_that_start_together_one_leads() -> None:
    world = TwoReplicas()
    world.a.election.tick()
    world.b.election.tick()  # both have seen that there is no lease
    world.run(30)
    assert world.a.may_write() is not world.b.may_write()


def test_a_holders_longer_lease_is_respected(world: TwoReplicas) -> None:
    world.a.frozen = True
    assert world.leases.stored is not None
    longer = msgspec.structs.replace(world.leases.spec, lease_duration_seconds=60)
    world.leases._store(msgspec.structs.replace(world.leases.stored, spec=longer))
    assert world.seconds_until_b_leads(at_most=90) > 55


def test_a_holders_clock_is_not_compared_with_ours() -> None:
    world = TwoReplicas()
    ancient = ElectionSpec(holder_identity="z", lease_duration_seconds=15, renew_time="1999-01-01T00:00:00.000000Z")
    world.leases._store(ElectionLease.fresh("kube-system", "cluster-autoscaler", ancient))
    world.a.frozen = True
    assert world.seconds_until_b_leads() >= 15


def test_what_others_wrote_beside_the_spec_survives(world: TwoReplicas) -> None:
    assert world.leases.stored is not None
    labelled = world.leases.stored.metadata | {"labels": {"team": "x"}}
    world.leases._store(msgspec.structs.replace(world.leases.stored, metadata=labelled))
    world.run(10)
    assert world.a.may_write()
    assert world.leases.stored.metadata["labels"] == {"team": "x"}


def test_releasing_what_we_do_not_hold_writes_nothing(world: TwoReplicas) -> None:
    version = world.leases.version
    world.b.election.release()
    assert world.leases.version == version
    assert world.b.state.phase is LeasePhase.RELEASED
    assert world.b.election.tick() is None


def test_a_release_that_fails_still_ends_all_writing(world: TwoReplicas) -> None:
    world.leases.fault = RetryLater("away")
    world.a.election.release()
    assert not world.a.may_write()
    assert world.a.election.tick() is None


def test_release_is_guarded_by_the_version(world: TwoReplicas) -> None:
    step = world.a.state.release(world.clock.now())
    assert isinstance(step, LeaseWrite)
    assert world.leases.stored is not None
    assert step.lease.metadata["resourceVersion"] == world.leases.stored.metadata["resourceVersion"]
    assert not step.create


class TestThread:
    """The thread only repeats `tick`; waits are bounded, and the virtual clock moves when it waits."""

    def election(self, leases: FakeLeases, clock: VirtualClock, lost: threading.Event) -> LeaderElection:
        def wait(event: threading.Event, seconds: float) -> bool:
            clock.advance(seconds)
            return event.wait(0.001)

        state = LeaseState("me", LeaseTimings(), rng=random.Random(1))
        return LeaderElection(state, leases, clock, lost.set, wait)

    def test_wins_and_releases_on_stop(self) -> None:
        clock, lost = VirtualClock(wall=1e9), threading.Event()
        leases = FakeLeases(clock)
        election = self.election(leases, clock, lost)
        election.start()
        assert election.wait_leading(PATIENCE_S)
        assert election.stop(PATIENCE_S)
        assert leases.spec.holder_identity == ""
        assert not lost.is_set()
        assert not election.may_write(clock.now(), 0.0)

    @pytest.mark.parametrize(
        "fault",
        [
            pytest.param(RetryLater("away"), id="an API server that is away"),
            pytest.param(ZeroDivisionError("bug"), id="a bug of ours"),
        ],
    )
    def test_tells_of_the_loss_once(self, fault: Exception) -> None:
        clock, lost = VirtualClock(wall=1e9), threading.Event()
        leases = FakeLeases(clock)
        election = self.election(leases, clock, lost)
        election.start()
        assert election.wait_leading(PATIENCE_S)
        leases.fault = fault  # type: ignore[assignment]
        assert lost.wait(PATIENCE_S)
        assert election.stop(PATIENCE_S)
        assert not election.may_write(clock.now(), 0.0)
        assert not election.wait_leading(0.0)
        assert leases.spec.holder_identity == "me", "a lost lease is not released"


def test_identities_are_unique() -> None:
    assert own_identity() != own_identity()


def test_times_carry_microseconds() -> None:
    assert micro_time(1_700_000_000.25) == "2023-11-14T22:13:20.250000Z"
