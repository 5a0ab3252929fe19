"""Estimates as formulas: the acceptance tests of the reference by id, A1 to A13, and the bound over many pods."""

import math
import random
from collections.abc import Sequence

import pytest

from autoscaler.eta.answers import capacity_answer
from autoscaler.eta.calibration import calibrated
from autoscaler.eta.capacity import ClusterCapacity, capacity
from autoscaler.eta.estimate import LoopIntervals, PodPlacement, WaitLevel, estimate, remaining_boot
from autoscaler.eta.ratio import CpuTotals, RatioConstants, ratio_start
from autoscaler.eta.samples import BOOT, DurationSpread, Knowledge, Ring, Sample, duration_of, quantile, remaining
from autoscaler.objects.node import Node
from autoscaler.objects.pod import Pod
from autoscaler.reasons import UnknownStart
from autoscaler.registry.readiness import ReadyTerms, read
from autoscaler.snapshot.cluster import view_of
from tests.builders import a_node, a_pod
from tests.seeds import seeds

BOOTS = (60.0, 62.0, 64.0, 70.0, 75.0, 80.0, 90.0, 100.0, 120.0, 180.0)
KNOWN = Knowledge(boots={"web": BOOTS})
TIMES = LoopIntervals(scan_s=15.0, max_provision_s=900.0)
GI = 1024**3


def both(place: PodPlacement, knowledge: Knowledge = KNOWN) -> tuple[float | None, float | None]:
    one = estimate(place, "job", knowledge, TIMES)
    return one.expected_s, one.worst_s


def upcoming(age_s: float) -> PodPlacement:
    return PodPlacement(level=WaitLevel.UPCOMING, group="web", age_s=age_s)


def accounted(nodes: Sequence[Node], pods: Sequence[Pod]) -> ClusterCapacity:
    view = view_of(nodes, pods)
    starting = [pod for on_node in view.pods for pod in on_node if pod.phase != "Running"]
    return capacity(view, read(view.nodes, ReadyTerms()), starting, 0.0)


def some_pods() -> list[Pod]:
    first = {"name": "a", "resources": {"requests": {"cpu": "500m", "memory": "1Gi"}}}
    second = {"name": "b", "resources": {"requests": {"cpu": "250m"}}}
    before = {"name": "i", "resources": {"requests": {"cpu": "2"}}}
    return [
        a_pod("r1", cpu="1500m", memory="2Gi", node="n1"),
        a_pod("r2", node="n1", spec={"containers": [first, second], "initContainers": [before]}),
        a_pod("r3", node="n2"),
        a_pod("s", cpu="300m", memory="256Mi", node="n2", phase="Pending"),
        a_pod("p", cpu="700m", memory="512Mi"),
    ]


@pytest.mark.parametrize("first", [False, True], ids=["a1", "a2 finished pod first"])
def test_a1_a2_capacity_is_accounted_for(first: bool) -> None:
    finished = a_pod("done", cpu="1", memory="1Gi", node="n1", phase="Succeeded")
    pods = [finished, *some_pods()] if first else [*some_pods(), finished]
    nodes = [a_node(name, cpu="3800m", memory="15Gi") for name in ("n1", "n2")]
    cluster = accounted(nodes, pods).cluster
    assert (cluster.provisioned["cpu"], cluster.provisioned["memory"]) == (7600, 30 * GI)
    assert (cluster.running["cpu"], cluster.running["memory"]) == (3500, 3 * GI)
    assert (cluster.starting["cpu"], cluster.pending["cpu"]) == (300, 700)
    assert cluster.wanted_ratio("cpu") == pytest.approx(0.592105, abs=1e-6)
    assert cluster.wanted_ratio("memory") == 0.125


def test_a3_something_wanted_of_nothing_is_infinite_and_null_in_json() -> None:
    found = accounted([], [a_pod("p", cpu="1")])
    assert math.isinf(found.cluster.wanted_ratio("cpu"))
    assert capacity_answer(found).wanted_ratio["cpu"] is None
    assert accounted([], []).cluster.wanted_ratio("cpu") == 0.0


@pytest.mark.parametrize(
    ("nodes", "cpu", "pending", "running", "seconds"),
    [
        (3, 8, 4, 6, 90),
        (3, 8, 5, 10, 90),
        (3, 8, 6, 10, 533),
        (3, 8, 20, 16, 1200),
        (3, 8, 0.7, 1.5, 90),
        (1, 4, 0, 0, 90),
        (1, 2, 0, 0, None),
        (2, 1, 8, 8, None),
    ],
)
def test_a4_the_ratio_formula(nodes: int, cpu: int, pending: float, running: float, seconds: float | None) -> None:
    totals = CpuTotals(nodes, nodes * cpu * 1000, round(pending * 1000), round(running * 1000))
    found = ratio_start(totals, 2000, RatioConstants())
    assert found == (None if seconds is None else DurationSpread(seconds, seconds))


def test_a5_quantiles_are_of_nearest_rank() -> None:
    assert (quantile(BOOTS, 0.5), quantile(BOOTS, 0.9)) == (75.0, 120.0)


def test_a6_a_node_on_its_way_has_a_part_of_its_boot_behind_it() -> None:
    assert remaining(duration_of((BOOTS,), BOOT), 65.0, 15.0).spread == DurationSpread(25.0, 115.0)
    assert both(upcoming(65.0)) == (47.0, 180.0)


@pytest.mark.parametrize(
    ("age_s", "left", "overdue"),
    [(110.0, DurationSpread(10.0, 70.0), False), (200.0, DurationSpread(50.0, 50.0), True)],
)
def test_a7_old_requests_go_by_slow_nodes_and_at_last_by_their_age(
    age_s: float, left: DurationSpread, overdue: bool
) -> None:
    found = remaining(duration_of((BOOTS,), BOOT), age_s, 15.0)
    assert (found.spread, found.overdue) == (left, overdue)
    assert estimate(upcoming(age_s), "job", KNOWN, TIMES).overdue is overdue


def test_a8_a_node_that_the_next_pass_asks_for() -> None:
    assert both(PodPlacement(level=WaitLevel.PLANNED, group="web", wait_s=9.0)) == (106.0, 194.0)


def test_a9_room_where_the_image_is() -> None:
    assert both(PodPlacement(level=WaitLevel.ROOM, group="web", cold=False), Knowledge()) == (7.0, 25.0)


def test_a11_too_few_samples_of_a_group_go_by_all_groups() -> None:
    few = {"a": (10.0, 20.0, 30.0, 40.0)}
    many = tuple(float(100 + number) for number in range(40))
    pooled = sorted((*few["a"], *many))
    assert Knowledge(boots={**few, "b": many}).boot("a").spread == DurationSpread(
        quantile(pooled, 0.5), quantile(pooled, 0.9)
    )


@pytest.mark.parametrize(
    ("boots", "spread", "assumed"),
    [
        pytest.param({}, DurationSpread(180.0, 300.0), True, id="none anywhere: a default, said to be one"),
        pytest.param({"a": (9.0,)}, DurationSpread(9.0, 15.0), False, id="one of its own"),
        pytest.param({"a": (8.0, 9.0, 12.0)}, DurationSpread(9.0, 20.0), False, id="three of its own"),
        pytest.param({"b": (9.0,)}, DurationSpread(9.0, 15.0), False, id="one of another group"),
        pytest.param({"a": (60.0,), "b": (9.0, 9.0)}, DurationSpread(60.0, 100.0), False, id="its own before others"),
    ],
)
def test_fewer_samples_than_five_count_with_a_wide_worst_case(
    boots: dict[str, tuple[float, ...]], spread: DurationSpread, assumed: bool
) -> None:
    boot = Knowledge(boots=boots).boot("a")
    assert (boot.spread, boot.assumed) == (spread, assumed)
    planned = PodPlacement(level=WaitLevel.PLANNED, group="a")
    assert estimate(planned, "job", Knowledge(boots=boots), TIMES).assumed is assumed


def test_a12_nobody_counts_on_a_node_beyond_its_provision_time() -> None:
    assert remaining_boot(KNOWN.boot("web"), 901.0, TIMES) is None
    one = estimate(upcoming(901.0), "job", KNOWN, TIMES)
    assert (one.level, one.expected_s) == (WaitLevel.UNKNOWN, None)


def test_a13_what_is_not_known_has_a_reason_and_no_number() -> None:
    one = estimate(PodPlacement(level=WaitLevel.UNKNOWN, reason=UnknownStart.MAX_SIZE), "job", KNOWN, TIMES)
    assert (one.expected_s, one.worst_s, one.reason, one.terms) == (None, None, "max_size", {})


@pytest.mark.parametrize(("workload", "group", "seconds"), [("job", "web", 1.0), ("x", "web", 9.0), ("x", "y", 4.0)])
def test_a_workload_goes_by_its_own_starts_then_by_its_group_then_by_all(
    workload: str, group: str, seconds: float
) -> None:
    known = Knowledge(cold={"job": (1.0,) * 5, "group:web": (9.0,) * 5, "": (4.0,) * 5})
    assert known.start(workload, group, cold=True).spread.expected == seconds


def test_samples_are_the_newest_fifty_of_a_week() -> None:
    ring = Ring(Sample(float(number), float(number)) for number in range(60))
    assert ring.ordered(60.0) == tuple(float(number) for number in range(10, 60))
    assert ring.ordered(7 * 86400.0 + 58.5) == (59.0,)


@pytest.mark.parametrize("slow_starts", [False, True], ids=["boots alone vary", "boots and starts vary"])
@pytest.mark.parametrize("seed", seeds(5))
def test_nine_pods_in_ten_are_ready_by_their_worst_case(seed: int, slow_starts: bool) -> None:
    """5,000 pods that each wait for a new node, learning from every one; boot delays have a long tail."""
    dice = random.Random(seed)
    boots, starts = Ring(), Ring()
    excess, within, pods = 1.0, 0, 5000
    for _ in range(pods):
        known = Knowledge(
            boots={"web": boots.ordered(0.0)}, cold={"job": starts.ordered(0.0)}, bind=(1.0,) * 5, excess=excess
        )
        one = estimate(PodPlacement(level=WaitLevel.PLANNED, group="web"), "job", known, TIMES)
        boot, start = dice.lognormvariate(4.5, 0.4), dice.uniform(5, 100 if slow_starts else 7)
        assert one.worst_s is not None
        came = boot + 1.0 + start <= one.worst_s
        within += came
        excess = calibrated(excess, float(came))
        boots.add(Sample(0.0, boot))
        starts.add(Sample(0.0, start))
    assert 0.88 <= within / pods <= 0.92
