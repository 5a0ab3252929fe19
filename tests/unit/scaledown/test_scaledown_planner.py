from typing import Any

import msgspec
import pytest

from autoscaler.config.rules import Rules
from autoscaler.config.scaledown import ScaleDown
from autoscaler.objects.node import ZONES
from autoscaler.objects.pod import SAFE_TO_EVICT, Pod
from autoscaler.objects.workload import DisruptionBudget, Replicated, plain_decoder
from autoscaler.reasons import BlockingReason, UnremovableReason
from autoscaler.scaledown.memory import ScaleDownMemory
from autoscaler.scaledown.planner import plan_unneeded, unneeded_limit
from autoscaler.scheduling.placement import Placer
from autoscaler.snapshot.cluster import Related
from autoscaler.snapshot.hints import Hints
from tests.builders import a_budget, a_node, a_pod, a_template, over, replicas, term
from tests.unit.scaledown.pieces import (
    FRESH,
    NEW,
    NOW,
    OLD,
    Begun,
    Cluster,
    full,
    group_with,
    names,
    reasons,
)

WEB = {"app": "web"}


def on(pod: Pod, node: str, number: int = 0) -> Pod:
    name = f"{pod.name}-{node}-{number}"
    return msgspec.structs.replace(pod, name=name, uid=name, node=node, phase="Running")


def nodes(text: str, **about: Any) -> list[Any]:
    return [a_node(name, **about) for name in text.split()]


ONE = a_pod("web", cpu="1", labels=WEB)


@pytest.mark.parametrize("rules", [NEW, OLD], ids=["newest", "1.31"])
def test_an_empty_node_is_unneeded(rules: Rules) -> None:
    update = Cluster(nodes("a b"), full("b")).look(rules=rules)
    assert names(update.unneeded) == ["a"]
    assert update.memory.unneeded == {"a": NOW}
    assert not update.unneeded[0].drained


@pytest.mark.parametrize("rules", [NEW, OLD], ids=["newest", "1.31"])
def test_a_node_whose_pods_fit_elsewhere_is_unneeded(rules: Rules) -> None:
    cluster = Cluster(nodes("a b"), [on(ONE, "a"), *replicas_on("b", 3)])
    update = cluster.look(rules=rules)
    assert names(update.unneeded) == ["a"]
    removal = update.unneeded[0]
    assert [pod.key for pod in removal.pods] == ["default/web-a-0"]
    assert (removal.group, removal.utilization, removal.ready, removal.risky) == ("g", 0.25, True, False)


def replicas_on(node: str, count: int) -> list[Pod]:
    return [on(ONE, node, number) for number in range(count)]


def test_a_node_whose_pods_fit_nowhere_stays() -> None:
    update = Cluster(nodes("a b"), [on(ONE, "a"), *full("b")]).look()
    assert reasons(update)["a"] is UnremovableReason.NO_PLACE
    assert (update.kept["a"].pod, update.kept["a"].utilization) == ("default/web-a-0", 0.25)
    assert update.memory.unremovable["a"].until == NOW.later(300.0)


def test_a_pod_that_blocks_is_told() -> None:
    update = Cluster(nodes("a b"), [a_pod("bare", owner=None, cpu="1", node="a")]).look()
    kept = update.kept["a"]
    assert (kept.reason, kept.pod, kept.pod_reason) == (
        UnremovableReason.BLOCKED_BY_POD,
        "default/bare",
        BlockingReason.NOT_REPLICATED,
    )
    assert "a" in update.memory.unremovable


def roomy(*names: str) -> tuple[list[Any], list[Pod]]:
    """Nodes that are too used to be candidates, each with room for three pods."""
    return [a_node(name, cpu="8") for name in names], [pod for name in names for pod in full(name, "5")]


def test_removals_add_up() -> None:
    """Each of three half-used nodes could go alone; once the first has gone there is no room for another."""
    update = Cluster(nodes("a b c"), [pod for node in "abc" for pod in replicas_on(node, 2)]).look()
    assert names(update.unneeded) == ["a"]
    assert reasons(update) == {"b": UnremovableReason.NO_PLACE, "c": UnremovableReason.NO_PLACE}


def test_a_removed_node_is_no_destination_for_the_next() -> None:
    """The pod of a goes to b; c has room for one pod more, so b could only go if a were still there."""
    update = Cluster(nodes("a b c"), [*replicas_on("a", 1), *replicas_on("b", 1), *full("c", "3")]).look()
    assert names(update.unneeded) == ["a"]
    assert reasons(update)["b"] is UnremovableReason.NO_PLACE


def test_pods_moved_onto_a_node_move_on_with_it() -> None:
    more, used = roomy("c")
    update = Cluster([*nodes("a b"), *more], [on(ONE, "a"), on(ONE, "b"), *used]).look()
    assert names(update.unneeded) == ["a", "b"]
    assert [pod.name for pod in update.unneeded[1].pods] == ["web-b-0", "web-a-0"]


def test_daemons_need_no_place() -> None:
    daemon = a_pod("daemon", cpu="1", owner="DaemonSet", node="a")
    update = Cluster(nodes("a b"), [daemon, *full("b")]).look()
    assert names(update.unneeded) == ["a"]
    assert (update.unneeded[0].pods, update.unneeded[0].daemons) == ((), (daemon,))


def test_upcoming_nodes_are_no_destinations() -> None:
    cluster = Cluster(nodes("a b"), [on(ONE, "a"), *full("b")])
    trial = cluster.trial()
    trial.add(a_template(), 3, "upcoming-")
    update = plan_unneeded(Placer(trial), cluster.situation(), FRESH)
    assert reasons(update)["a"] is UnremovableReason.NO_PLACE


def test_nodes_being_removed_are_no_destinations() -> None:
    cluster = Cluster(nodes("a b"), [on(ONE, "a")])
    update = cluster.look(under_way=Begun(empty={"b": "g"}))
    assert reasons(update) == {"a": UnremovableReason.NO_PLACE, "b": UnremovableReason.BEING_DELETED}


def test_cordoned_and_tainted_nodes_are_no_destinations() -> None:
    cluster = Cluster(
        [a_node("a"), a_node("b", cordoned=True), a_node("c", taints=["dedicated=x"])],
        [on(ONE, "a"), *replicas_on("b", 3), *replicas_on("c", 3)],
    )
    assert reasons(cluster.look())["a"] is UnremovableReason.NO_PLACE


def test_a_pending_pod_placed_on_a_node_moves_with_it() -> None:
    pending = a_pod("pending", cpu="1", owner=None)
    cluster = Cluster(nodes("a b"), [pending])
    trial = cluster.trial()
    trial.place(pending.cls, 0)
    update = plan_unneeded(Placer(trial), cluster.situation(), FRESH)
    assert update.kept["a"].pod == "default/pending"
    assert names(update.unneeded) == ["b"]


def test_the_trial_is_left_as_it_was() -> None:
    spread = a_pod("s", cpu="100m", labels=WEB, spread=[over(labels=WEB)])
    cluster = Cluster(nodes("a b c"), [on(spread, "a"), on(spread, "b")])
    trial = cluster.trial()
    before = trial.free.copy()
    update = plan_unneeded(Placer(trial), cluster.situation(), FRESH)
    assert update.unneeded
    assert (trial.free == before).all()
    assert trial.alive.all()


@pytest.mark.parametrize("rules", [NEW, OLD], ids=["newest", "1.31"])
def test_anti_affinity_keeps_a_node(rules: Rules) -> None:
    lonely = a_pod("lonely", cpu="100m", labels=WEB, away=[term(labels=WEB)])
    cluster = Cluster(nodes("a b"), [on(lonely, "a"), on(lonely, "b")])
    assert names(cluster.look(rules=rules).unneeded) == []


def test_where_a_node_stays_as_a_domain_spread_may_still_forbid() -> None:
    """In 1.31 the emptied node stays in the view while its pods move: a domain with nothing in it."""
    spread = a_pod("s", cpu="100m", labels=WEB, spread=[over(labels=WEB)])
    cluster = Cluster(nodes("a b c"), [on(spread, "a"), on(spread, "b"), on(spread, "c")])
    assert names(cluster.look(rules=OLD).unneeded) == []


def test_an_emptied_node_is_a_domain_only_until_its_removal() -> None:
    """An empty zone keeps the pods of the other from moving within it; once removed, it is no zone any more."""
    spread = a_pod("s", cpu="1", labels=WEB, spread=[over(ZONES[0], labels=WEB)])
    zones = [a_node("empty", zone="1"), a_node("b", zone="2"), a_node("c", cpu="8", zone="2")]
    cluster = Cluster(zones, [on(spread, "b"), *full("c", "5")])
    assert names(cluster.look(rules=NEW).unneeded) == ["empty", "b"]
    cluster = Cluster(zones, [on(spread, "b"), on(spread, "c"), *full("c", "5")])
    assert names(cluster.look(rules=NEW).unneeded) == ["empty", "b"]
    assert names(cluster.look(rules=OLD).unneeded) == ["empty"]


@pytest.mark.parametrize(
    ("budgets", "unneeded", "risky"),
    [
        pytest.param([], ["a"], False, id="no budget, no risk"),
        pytest.param([a_budget(2)], ["a"], False, id="enough for both pods at once"),
        pytest.param([a_budget(1)], ["a"], True, id="enough for one after the other"),
        pytest.param([a_budget(0)], [], False, id="not enough for any"),
        pytest.param([a_budget(5), a_budget(1, labels=WEB)], ["a"], True, id="the tightest budget tells"),
    ],
)
def test_budgets(budgets: list[DisruptionBudget], unneeded: list[str], risky: bool) -> None:
    more, used = roomy("b")
    update = Cluster([a_node("a"), *more], [*replicas_on("a", 2), *used], budgets=budgets).look()
    assert names(update.unneeded) == unneeded
    assert [one.risky for one in update.unneeded] == [risky] * len(unneeded)


def test_a_budget_is_shared_by_all_removals_of_a_pass() -> None:
    more, used = roomy("d")
    pods = [*(on(ONE, node) for node in "abc"), *used]
    update = Cluster([*nodes("a b c", cpu="2", pods=1), *more], pods, budgets=[a_budget(2, labels=WEB)]).look()
    assert names(update.unneeded) == ["a", "b"]
    assert update.kept["c"].pod_reason is BlockingReason.BUDGET


def test_a_node_keeps_its_time_as_long_as_it_stays_removable() -> None:
    cluster = Cluster(nodes("a b"), full("b"))
    before = cluster.look()
    after = cluster.look(before.memory, now=NOW.later(10))
    assert after.memory.unneeded == {"a": NOW}


def test_a_node_that_is_needed_once_starts_again() -> None:
    quiet, busy = Cluster(nodes("a b"), full("b")), Cluster(nodes("a b"), [*full("a"), *full("b")])
    memory = quiet.look().memory
    memory = busy.look(memory, now=NOW.later(10)).memory
    assert memory.unneeded == {}
    assert quiet.look(memory, now=NOW.later(20)).memory.unneeded == {"a": NOW.later(20)}


def test_an_unremovable_node_is_looked_at_again_when_its_time_is_over() -> None:
    cluster = Cluster(nodes("a b"), [on(ONE, "a"), *full("b")])
    memory = cluster.look().memory
    soon = cluster.look(memory, now=NOW.later(299.0))
    assert reasons(soon)["a"] is UnremovableReason.RECENTLY_UNREMOVABLE
    late = cluster.look(soon.memory, now=NOW.later(300.0))
    assert reasons(late)["a"] is UnremovableReason.NO_PLACE


def test_a_node_that_is_gone_is_forgotten() -> None:
    memory = Cluster(nodes("a b"), [on(ONE, "a"), *full("b")]).look().memory
    assert Cluster(nodes("b")).look(memory).memory.unremovable == {}


def test_a_pod_goes_where_it_went_before() -> None:
    more, used = roomy("b", "c", "d")
    cluster = Cluster([a_node("a"), *more], [on(ONE, "a"), *used])
    assert cluster.look().memory.hints.newer == {"web-a-0": "b"}
    hinted = ScaleDownMemory(hints=Hints(older={"web-a-0": "d"}))
    memory = cluster.look(hinted).memory
    assert memory.hints == Hints(newer={"web-a-0": "d"}, older={})
    assert cluster.look(memory).memory.hints == Hints(newer={"web-a-0": "d"}, older={"web-a-0": "d"})


def test_searches_go_round() -> None:
    more, used = roomy("c", "d")
    pods = [*replicas_on("a", 2), on(ONE, "b"), *used]
    hints = Cluster([*more, a_node("a"), a_node("b")], pods).look().memory.hints.newer
    assert hints == {"web-b-0": "c", "web-a-0": "d", "web-a-1": "c"}


def test_a_hint_that_no_longer_fits_is_passed_over() -> None:
    hinted = ScaleDownMemory(hints=Hints(newer={"web-a-0": "b"}))
    cluster = Cluster(nodes("a b c"), [on(ONE, "a"), *full("b"), *replicas_on("c", 3)])
    assert cluster.look(hinted).memory.hints.newer["web-a-0"] == "c"


def test_pods_to_wait_for_stay_until_they_have_ended() -> None:
    waits = a_pod("waits", cpu="1", annotations={SAFE_TO_EVICT: "on-completion"}, node="a")
    update = Cluster(nodes("a b"), [waits, *full("b")]).look()
    assert names(update.unneeded) == ["a"]
    assert update.unneeded[0].wait_for == (waits,)


@pytest.mark.parametrize(
    ("unneeded", "interval_s", "parallelism", "unneeded_s", "limit"),
    [
        pytest.param(0, None, 10, 600.0, 20, id="twice the parallelism to begin with"),
        pytest.param(20, 10.0, 10, 600.0, 40, id="twice more each pass"),
        pytest.param(1000, 10.0, 10, 600.0, 610, id="as many as can go within the unneeded time, and some to spare"),
        pytest.param(1000, 11.0, 10, 600.0, 550, id="counted in whole passes"),
        pytest.param(1000, 900.0, 10, 600.0, 20, id="a pass longer than that counts as that long"),
        pytest.param(1000, 10.0, 10, 0.0, 20, id="no unneeded time"),
        pytest.param(5, 10.0, 0, 600.0, 0, id="nothing may be removed"),
        pytest.param(5, 0.0, 1, 600.0, 7, id="passes without time between them"),
    ],
)
def test_limit(unneeded: int, interval_s: float | None, parallelism: int, unneeded_s: float, limit: int) -> None:
    memory = ScaleDownMemory(unneeded={str(number): NOW for number in range(unneeded)}, shortest_interval_s=interval_s)
    options = ScaleDown(max_scale_down_parallelism=parallelism, scale_down_unneeded_time_s=unneeded_s)
    assert unneeded_limit(memory, options) == limit


def test_nodes_beyond_the_limit_are_not_looked_at() -> None:
    cluster = Cluster(nodes("a b c d"))
    update = cluster.look(max_scale_down_parallelism=1)
    assert names(update.unneeded) == ["a", "b"]
    assert reasons(update) == {"c": UnremovableReason.NOT_TRIED, "d": UnremovableReason.NOT_TRIED}
    assert cluster.look(max_scale_down_parallelism=1, rules=OLD).kept == {}


def test_nodes_of_groups_that_go_as_a_whole_do_not_count_towards_the_limit() -> None:
    cluster = Cluster(nodes("a b c d"), groups=[group_with(target=4, zero_or_max_node_scaling=True)])
    update = cluster.look(max_scale_down_parallelism=1)
    assert names(update.unneeded) == ["a", "b", "c", "d"]
    assert all(one.atomic for one in update.unneeded)


def test_time_may_run_out() -> None:
    cluster = Cluster(nodes("a b c"))
    left = iter([False, True])
    update = plan_unneeded(Placer(cluster.trial()), cluster.situation(), FRESH, lambda: next(left))
    assert names(update.unneeded) == ["a"]


def test_the_shortest_interval_is_remembered() -> None:
    cluster = Cluster(nodes("a"))
    memory = cluster.look().memory
    assert memory.shortest_interval_s is None
    memory = cluster.look(memory, now=NOW.later(20)).memory
    memory = cluster.look(memory, now=NOW.later(30)).memory
    memory = cluster.look(memory, now=NOW.later(60)).memory
    assert (memory.shortest_interval_s, memory.last_update) == (10.0, NOW.later(60))


def test_same_input_same_plan() -> None:
    pods = [pod for node in "abcd" for pod in replicas(on(ONE, node), 2)]
    cluster = Cluster(nodes("a b c d"), pods)
    assert cluster.look() == cluster.look()


def test_higher_priorities_and_hinted_pods_choose_first() -> None:
    """The small pod, placed first, takes the only room that the big one could have."""
    small = a_pod("small", cpu="1", priority=0)
    big = a_pod("big", cpu="2", priority=9)
    pods = [on(small, "a"), on(big, "a"), *full("b", "6"), *full("c", "7")]
    cluster = Cluster([a_node("a", cpu="8"), a_node("b", cpu="8"), a_node("c", cpu="8")], pods)
    assert names(cluster.look(rules=NEW).unneeded) == ["a"]
    assert reasons(cluster.look(rules=OLD))["a"] is UnremovableReason.NO_PLACE
    hinted = ScaleDownMemory(hints=Hints(newer={"small-a-0": "c"}))
    assert names(cluster.look(hinted, rules=OLD).unneeded) == ["a"]


def test_a_plan_for_nothing_remembers_that_it_looked() -> None:
    update = Cluster([]).look()
    assert (update.unneeded, update.memory.last_update, update.candidates) == ((), NOW, 0)


def a_set(name: str, count: int) -> dict[str, Replicated]:
    """A ReplicaSet that wants so many pods."""
    data = {"metadata": {"name": name, "namespace": "default"}, "spec": {"replicas": count}}
    return {f"default/{name}": plain_decoder(Replicated).one(data)}


def evicted_from_a_node(
    *, wanted: int | None, recreated: int, rules: Rules = NEW, owner: str = "ReplicaSet/web"
) -> bool:
    """Whether `spare` may go while `web`, evicted from the node that is gone already, would fit nowhere else."""
    web = a_pod("web", cpu="3", owner=owner)
    others = [msgspec.structs.replace(web, name=f"web-{n}", uid=f"web-{n}", node="busy") for n in range(recreated)]
    cluster = Cluster(
        [a_node("spare"), a_node("busy", cpu="40")],
        [*others, a_pod("rest", cpu=f"{39 - 3 * recreated}", owner="ReplicaSet/rest", node="busy")],
        related=Related(replica_sets={} if wanted is None else a_set("web", wanted)),
    )
    update = cluster.look(under_way=Begun(drained={"gone": "g"}, evicted=(web,)), rules=rules)
    return names(update.unneeded) == ["spare"]


@pytest.mark.parametrize(
    ("about", "goes"),
    [
        pytest.param({"wanted": 1, "recreated": 0}, False, id="not made anew yet"),
        pytest.param({"wanted": 1, "recreated": 1}, True, id="made anew"),
        pytest.param({"wanted": 3, "recreated": 2}, False, id="one of three is missing"),
        pytest.param({"wanted": 0, "recreated": 0}, True, id="not wanted any more"),
        pytest.param({"wanted": None, "recreated": 0}, False, id="nobody knows how many are wanted"),
        pytest.param({"wanted": None, "recreated": 0, "owner": "Custom/web"}, False, id="by a controller of any kind"),
        pytest.param({"wanted": None, "recreated": 0, "owner": "DaemonSet/web"}, True, id="belonged to its node"),
        pytest.param({"wanted": 1, "recreated": 0, "rules": OLD}, True, id="forgotten by older versions"),
    ],
)
def test_a_node_that_an_evicted_pod_will_need_stays(about: dict[str, Any], goes: bool) -> None:
    assert evicted_from_a_node(**about) is goes


@pytest.mark.parametrize("rules", [NEW, OLD], ids=["new", "old"])
@pytest.mark.parametrize(
    ("deleted", "under_way", "goes"),
    [
        pytest.param(None, Begun(drained={"drained": "g"}), False, id="still there"),
        pytest.param(NOW.wall - 1, Begun(drained={"drained": "g"}), True, id="evicted, its successor counts itself"),
        pytest.param(None, Begun(), True, id="unless nothing is removed"),
    ],
)
def test_a_node_that_pods_of_a_node_being_drained_will_need_stays(
    deleted: float | None, under_way: Begun, goes: bool, rules: Rules
) -> None:
    cluster = Cluster(
        [a_node("spare"), a_node("drained"), a_node("busy")],
        [a_pod("web", cpu="3", node="drained", deleted=deleted), a_pod("rest", cpu="3", node="busy")],
    )
    assert ("spare" in names(cluster.look(under_way=under_way, rules=rules).unneeded)) is goes
