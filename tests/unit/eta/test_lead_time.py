"""Lead times: how long before a window its capacity is requested, by chances and samples, and their limits."""

import random
from collections.abc import Callable, Sequence

import pytest

from autoscaler.config.headroom import Headroom, HeadroomPool, read_headroom
from autoscaler.eta.estimate import LoopIntervals
from autoscaler.eta.lead_time import NO_LEAD, Ahead, configured_lead, learned_lead, longest_lead_s, suitable, unlikely
from autoscaler.eta.samples import ALL, Knowledge
from autoscaler.headroom.pods import ahead_of, class_of
from autoscaler.objects.pod_interner import PodInterner
from autoscaler.reasons import LeadBasis
from autoscaler.snapshot.template import Template
from tests.builders import a_node

TIMES = LoopIntervals(scan_s=10.0, max_provision_s=900.0)
ROOM = Ahead()
PODS = Ahead(asks_s=10.0, workload="ci/headroom/ci")
STEADY = (100.0,) * 5

Draw = Callable[[random.Random], float]


def exceeded(draw: Draw, count: int, chance: float, rounds: int = 20_000) -> float:
    """Return how often a draw exceeds what so many draws before it make unlikely."""
    rng = random.Random(f"{count}/{chance}")
    late = 0
    for _ in range(rounds):
        ordered = sorted(draw(rng) for _ in range(count))
        late += draw(rng) > unlikely(ordered, chance)
    return late / rounds


def exponential(rng: random.Random) -> float:
    return 60 + rng.expovariate(1 / 40)


@pytest.mark.parametrize("count", [5, 20, 50])
def test_the_chance_holds_exactly_for_an_exponential_tail(count: int) -> None:
    assert exceeded(exponential, count, 0.01) == pytest.approx(0.01, abs=0.0025)


@pytest.mark.parametrize(
    "draw",
    [
        pytest.param(lambda rng: rng.uniform(60, 150), id="even"),
        pytest.param(lambda rng: rng.gauss(120, 20), id="bell"),
        pytest.param(lambda rng: rng.triangular(60, 300, 90), id="skewed"),
    ],
)
def test_lighter_tails_are_exceeded_less_often(draw: Draw) -> None:
    assert max(exceeded(draw, count, 0.01, 5_000) for count in (5, 50)) <= 0.01


def test_the_longest_of_a_full_ring_alone_would_be_exceeded_twice_in_a_hundred() -> None:
    assert exceeded(exponential, 50, 1 / 51) == pytest.approx(1 / 51, abs=0.004)
    ordered = sorted(exponential(random.Random(number)) for number in range(50))
    assert unlikely(ordered, 1 / 51) == pytest.approx(ordered[-1], abs=0.01)
    assert unlikely(ordered, 0.5) == ordered[-1]


def test_fewer_samples_need_a_wider_margin_and_equal_ones_none() -> None:
    few, many = [60.0, 70.0, 80.0, 90.0, 100.0], [60.0, 70.0, 80.0, 90.0, 100.0] * 10
    assert unlikely(few, 0.01) > unlikely(sorted(many), 0.01) > 100
    assert unlikely(STEADY, 0.001) == 100


def boots(**groups: Sequence[float]) -> Knowledge:
    return Knowledge(boots={group: sorted(samples) for group, samples in groups.items()})


@pytest.mark.parametrize("knowledge", [Knowledge(), boots(a=(90.0,) * 2, b=(90.0,) * 2)])
def test_with_fewer_than_five_boots_in_all_nothing_is_learned(knowledge: Knowledge) -> None:
    assert learned_lead(knowledge, ("a", "b"), PODS, TIMES) == NO_LEAD
    assert (NO_LEAD.seconds, NO_LEAD.basis) == (0, LeadBasis.NOTHING_LEARNED)


def test_the_slowest_group_counts_of_those_that_the_pods_can_go_to() -> None:
    known = boots(web=STEADY, gpu=(600.0,) * 9, spot=(70.0,) * 5)
    lead = learned_lead(known, ("web", "spot"), ROOM, TIMES)
    assert (lead.group, lead.samples, lead.basis) == ("web", 5, LeadBasis.LEARNED)
    assert lead.terms == {"ask": 0, "passes": 30, "boot": 100}
    assert lead.seconds == 130


def test_groups_that_nothing_is_known_of_fall_back_on_all_together() -> None:
    known = boots(web=(100.0,) * 3, spot=(100.0,) * 3)
    assert learned_lead(known, ("web",), ROOM, TIMES).seconds == 130
    assert (learned_lead(known, (), ROOM, TIMES).group, learned_lead(known, (), ROOM, TIMES).samples) == ("", 6)


def test_pods_that_have_to_run_take_their_bind_and_start_too() -> None:
    defaults = learned_lead(boots(web=STEADY), ("web",), PODS, TIMES)
    assert defaults.terms == {"ask": 10, "passes": 30, "boot": 100, "bind": 5, "start": 60}
    known = Knowledge(boots={"web": STEADY}, bind=(1.0,) * 5, cold={"ci/headroom/ci": (3.0,) * 5, ALL: (200.0,) * 5})
    learned = learned_lead(known, ("web",), PODS, TIMES)
    assert (learned.terms["bind"], learned.terms["start"], learned.seconds) == (1, 3, 144)


def test_a_lead_is_no_longer_than_nodes_are_waited_for_and_five_minutes() -> None:
    wild = boots(web=(60.0, 60.0, 60.0, 60.0, 890.0))
    lead = learned_lead(wild, ("web",), Ahead(asks_s=600.0, workload="w"), TIMES)
    assert lead.terms["boot"] == 900
    assert lead.seconds == longest_lead_s(TIMES) == 1200


def test_what_somebody_sets_is_not_learned() -> None:
    lead = configured_lead(90.0)
    assert (lead.seconds, lead.basis, lead.terms) == (90, LeadBasis.CONFIGURED, {})


def a_pool(**fields: object) -> tuple[HeadroomPool, Headroom]:
    headroom = read_headroom({"pools": [{"name": "ci", "namespace": "ci", "resources": {"cpu": "2"}, **fields}]}, -10)
    return headroom.pools[0], headroom


def test_a_pool_can_go_where_its_selector_its_tolerations_and_its_size_allow() -> None:
    templates = {
        "builds": Template(a_node("b", cpu="8", labels={"pool": "builds"}, taints=["builds=true"])),
        "small": Template(a_node("s", cpu="1", labels={"pool": "builds"})),
        "web": Template(a_node("w", cpu="8")),
    }
    for fields, groups in (
        ({}, ("web",)),
        ({"nodeSelector": {"pool": "builds"}}, ()),
        ({"nodeSelector": {"pool": "builds"}, "tolerations": [{"operator": "Exists"}]}, ("builds",)),
    ):
        pool, headroom = a_pool(**fields)
        assert suitable(class_of(pool, headroom, PodInterner()), templates) == groups
    pool, headroom = a_pool(tolerations=[{"key": ["not", "a", "key"]}])
    assert suitable(class_of(pool, headroom, PodInterner()), templates) == ()
    assert ahead_of(pool, headroom) == PODS
