"""Expired pods, earlier generations and generated load: A16 to A18, A21, A22."""

from typing import Any

import msgspec
import pytest

from autoscaler.clock import Instant, VirtualClock
from autoscaler.config.load import load
from autoscaler.errors import ConfigError, Conflict, NeverStarted, RetryLater, Stopped
from autoscaler.eta.metrics import EXPIRY, ExpiryMetrics
from autoscaler.expiry.keeper import ExpiredPods
from autoscaler.expiry.plan import GENERATION, MANAGED_BY, OURS, Expired, ExpiringPod, ExpiryTerms, plan_sweep
from autoscaler.load.spec import LoadSpec, plan_load
from autoscaler.load.waiting import wait_started
from autoscaler.observe.metrics.metrics import Metrics
from autoscaler.ports import EventType, Subject

NOW = 1_800_000_000.0
TERMS = ExpiryTerms(namespaces=("ci",), generation="2")
OLD = {MANAGED_BY: OURS, GENERATION: "1"}


def a_candidate(name: str, value: str | None = "1799999999", *, namespace: str = "ci", **meta: Any) -> ExpiringPod:
    annotations = {} if value is None else {"delete-at": value}
    fields = {"name": name, "namespace": namespace, "uid": name, "resourceVersion": "7", **meta}
    fields["annotations"] = {**annotations, **meta.get("annotations", {})}
    return msgspec.convert({"metadata": fields}, ExpiringPod)


class SomePods:
    """Pods to sweep; `broken` makes the next calls fail."""

    def __init__(self, *pods: ExpiringPod) -> None:
        self.pods = list(pods)
        self.broken: list[str] = []
        self.deleted: list[str] = []

    def all(self, namespaces: object) -> list[ExpiringPod]:
        if "list" in self.broken:
            self.broken.remove("list")
            raise RetryLater("away")
        return self.pods

    def delete(self, pod: Expired) -> None:
        assert (pod.uid, pod.resource_version) == (pod.name, "7")
        if "delete" in self.broken:
            self.broken.remove("delete")
            raise Conflict("changed")
        self.deleted.append(pod.name)


class Sweeper:
    """The companion with everything around it."""

    def __init__(self, *pods: ExpiringPod, flags: tuple[str, ...] = ()) -> None:
        config = load(["--expired-pod-cleanup", "--expired-pod-namespaces=ci", *flags])
        self.pods = SomePods(*pods)
        self.metrics = Metrics()
        self.metrics.start()
        self.events: list[str] = []
        self.companion = ExpiredPods(config.eta, self.pods, self, ExpiryMetrics(self.metrics.companion(EXPIRY)))

    def event(self, about: Subject, kind: EventType, reason: str, message: str) -> None:
        self.events.append(f"{about.name} {reason}")

    def sweep(self, at: float = 0.0) -> list[str]:
        before = len(self.pods.deleted)
        self.companion.tick(Instant(NOW + at, at))
        return self.pods.deleted[before:]

    def counted(self, name: str) -> float:
        lines = self.metrics.scrape().decode().splitlines()
        return float(next(line for line in lines if line.startswith(f"cluster_autoscaler_{name}")).split()[-1])


def test_a16_only_a_plain_past_deadline_expires() -> None:
    values = ("1799999999", "1800000000", "", "abc", "-5", "1_799_999_999", " 1799999999", "1799999999000")
    world = Sweeper(*(a_candidate(f"p{number}", value) for number, value in enumerate(values)))
    assert world.sweep() == ["p0"]
    assert world.counted("expired_pods_invalid_total") == 6
    assert len(world.events) == 6
    world.sweep(60.0)
    assert len(world.events) == 6
    world.sweep(3601.0)
    assert len(world.events) == 12


def test_digits_of_other_scripts_are_no_deadline() -> None:
    sweep = plan_sweep([a_candidate("p", "١٧٩٩٩٩٩٩٩٩")], TERMS, NOW)
    assert (len(sweep.delete), len(sweep.invalid)) == (0, 1)


def test_a17_a_pod_that_is_expired_and_of_an_old_generation_is_deleted_once() -> None:
    world = Sweeper(a_candidate("p", labels=OLD), flags=("--expired-pod-generation=2",))
    assert world.sweep() == ["p"]
    assert world.counted('expired_pods_deleted_total{reason="expired"}') == 1


def test_a18_a_failed_list_ends_one_sweep_and_the_next_deletes() -> None:
    world = Sweeper(a_candidate("p"))
    world.pods.broken.append("list")
    assert world.companion.interval_s == 60.0
    assert world.sweep() == []
    assert world.counted('expired_pods_sweep_errors_total{op="list"}') == 1
    assert world.sweep(60.0) == ["p"]


def test_a_delete_that_fails_is_tried_again_by_the_next_sweep() -> None:
    world = Sweeper(a_candidate("p"))
    world.pods.broken.append("delete")
    assert world.sweep() == []
    assert world.counted('expired_pods_sweep_errors_total{op="delete"}') == 1
    assert world.sweep(60.0) == ["p"]


@pytest.mark.parametrize(
    "pod",
    [
        a_candidate("x", annotations={"kubernetes.io/config.mirror": "1"}),
        a_candidate("x", annotations={"kubernetes.io/config.source": "file"}),
        a_candidate("x", ownerReferences=[{"kind": "DaemonSet", "name": "d", "controller": True}]),
        a_candidate("x", namespace="other"),
        a_candidate("x", None),
        a_candidate("x", deletionTimestamp="2026-01-01T00:00:00Z"),
    ],
    ids=["mirror", "static", "daemonset", "other namespace", "no deadline", "being deleted"],
)
def test_some_pods_are_never_touched(pod: ExpiringPod) -> None:
    sweep = plan_sweep([pod], TERMS, NOW, earlier_generations=True)
    assert (sweep.delete, sweep.invalid) == ((), ())


@pytest.mark.parametrize(("namespaces", "deleted"), [(("*",), ["a"]), (("*", "kube-system"), ["a", "b"])])
def test_the_system_namespace_must_be_named(namespaces: tuple[str, ...], deleted: list[str]) -> None:
    pods = [a_candidate("a"), a_candidate("b", namespace="kube-system")]
    assert [one.name for one in plan_sweep(pods, ExpiryTerms(namespaces=namespaces), NOW).delete] == deleted


def test_the_oldest_deadlines_come_first_and_only_so_many() -> None:
    pods = [a_candidate(f"p{number}", str(1_799_999_000 - number)) for number in range(5)]
    sweep = plan_sweep(pods, ExpiryTerms(namespaces=("ci",), most=2), NOW)
    assert [one.name for one in sweep.delete] == ["p4", "p3"]


def test_an_earlier_generation_goes_once_and_only_with_a_deadline_that_can_be_read() -> None:
    later = "1900000000"
    world = Sweeper(
        a_candidate("old", later, labels=OLD),
        a_candidate("bare", None, labels=OLD),
        a_candidate("empty", "", labels=OLD),
        a_candidate("current", later, labels={**OLD, GENERATION: "2"}),
        a_candidate("foreign", later, labels={GENERATION: "1"}),
        flags=("--expired-pod-generation=2",),
    )
    assert world.sweep() == ["old"]
    assert world.sweep(60.0) == []
    assert world.counted('expired_pods_deleted_total{reason="old_generation"}') == 1


@pytest.mark.parametrize(
    ("flags", "says"),
    [
        (["--ratio-run-seconds=0"], "must be > 0"),
        (["--ratio-start-seconds=x"], "must be > 0"),
        (["--ratio-run-seconds=-5"], "must be > 0"),
        (["--pod-start-estimator=guess"], "placement, ratio"),
        (["--expired-pod-cleanup"], "--expired-pod-namespaces"),
        (["--expired-pod-cleanup", "--expired-pod-namespaces=a", "--expired-pod-annotation="], "is empty"),
    ],
)
def test_bad_options_are_named(flags: list[str], says: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load(flags)
    assert says in str(caught.value.problems)


def test_a22_load_is_capped_and_carries_its_deadline() -> None:
    batch = plan_load(LoadSpec(count=20, duration_s=300), "b", live=0, most=8, now=NOW)
    assert (len(batch.pods), batch.requested, batch.capped) == (8, 20, True)
    assert {pod["metadata"]["annotations"]["delete-at"] for pod in batch.pods} == {str(int(NOW) + 900)}
    assert len(plan_load(LoadSpec(count=20), "b", live=7, most=8, now=NOW).pods) == 1
    assert not plan_load(LoadSpec(count=5), "b", live=9, most=8, now=NOW).pods
    assert not plan_load(LoadSpec(count=3), "b", live=0, most=8, now=NOW).capped


class APod:
    """A pod whose watch breaks some times before it starts."""

    name = "p"

    def __init__(self, breaks: int, *, starts: bool = True) -> None:
        self.breaks = breaks
        self.asked = 0
        self.deletes = 0
        self._starts = starts

    def until_left_pending(self, timeout_s: float) -> bool:
        self.asked += 1
        if self.asked <= self.breaks:
            raise RetryLater("broken")
        return self._starts

    def delete(self) -> None:
        self.deletes += 1


class Naps:
    """Sleeps in virtual time."""

    def __init__(self, *, stop: bool = False) -> None:
        self.clock = VirtualClock()
        self.slept: list[float] = []
        self._stop = stop

    def sleep(self, seconds: float) -> bool:
        self.slept.append(seconds)
        self.clock.advance(seconds)
        return not self._stop


def test_a21_three_breaks_are_slept_over() -> None:
    pod, naps = APod(3), Naps()
    wait_started(pod, 600.0, naps.clock, naps.sleep)
    assert (naps.slept, pod.deletes) == ([1.0, 2.0, 4.0], 0)


def test_a21_the_fourth_break_deletes_the_pod() -> None:
    pod, naps = APod(4), Naps()
    with pytest.raises(NeverStarted, match='waiting for pod "p" to leave pending state: broken'):
        wait_started(pod, 600.0, naps.clock, naps.sleep)
    assert (sum(naps.slept), pod.deletes, pod.asked) == (7.0, 1, 4)


def test_a_deadline_that_has_passed_is_not_tried_again() -> None:
    pod, naps = APod(0, starts=False), Naps()
    with pytest.raises(NeverStarted, match="not within 5 s"):
        wait_started(pod, 5.0, naps.clock, naps.sleep)
    assert (pod.asked, pod.deletes) == (1, 1)


def test_who_stops_returns_at_once_and_the_pod_is_deleted() -> None:
    pod, naps = APod(4), Naps(stop=True)
    with pytest.raises(Stopped):
        wait_started(pod, 600.0, naps.clock, naps.sleep)
    assert (naps.slept, pod.deletes) == ([1.0], 1)
