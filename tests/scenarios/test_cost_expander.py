"""The cost expander in whole passes: what it buys, and what it leaves to limits, other expanders and other passes."""

import json
from pathlib import Path
from typing import Any

import pytest

from autoscaler.errors import ConfigError
from autoscaler.scenario.codec import decode
from autoscaler.simulator.answer import PlanAnswer
from autoscaler.simulator.play import play
from benchmarks.cost import SCENARIOS, bill
from tests.manifests import Json, a_group, a_template, replicas

HOST = "kubernetes.io/hostname"


def priced(name: str, cpu: str, memory: str, price: float, **fields: Any) -> Json:
    template = a_template(cpu, memory, labels={"pool": name})
    return a_group(name, template, **{"maxSize": 50, "pricePerHour": price, **fields})


def played(groups: list[Json], backlog: list[Json], options: Json | None = None, runs: int = 1) -> PlanAnswer:
    document = {
        "now": "2026-01-05T12:00:00Z",
        "options": {"expander": "cost", **(options or {})},
        "nodeGroups": groups,
        "pods": backlog,
        "runs": runs,
    }
    return play(decode(json.dumps(document).encode(), "cost.json"))


def bought(answer: PlanAnswer) -> list[dict[str, int]]:
    return [{change.group: change.increase for change in run.scale_ups} for run in answer.runs]


COMPUTE, MEMORY = priced("compute", "8", "16Gi", 0.30), priced("memory", "8", "64Gi", 0.50)
ENCODERS, CACHES = (
    replicas("encoder", 8, "1900m", more={"memory": "1Gi"}),
    replicas("cache", 4, "500m", more={"memory": "15Gi"}),
)


@pytest.mark.parametrize("path", SCENARIOS, ids=lambda path: path.stem)
def test_no_example_costs_more_than_with_least_waste_and_no_pod_is_left(path: Path) -> None:
    ours, theirs = bill(path, "cost"), bill(path, "least-waste")
    assert (ours.left, theirs.left) == (0, 0)
    assert ours.price < theirs.price


def test_each_part_of_a_backlog_goes_where_it_is_cheapest() -> None:
    first, second = played([COMPUTE, MEMORY], [*ENCODERS, *CACHES], runs=2).runs
    assert {change.group: change.increase for change in first.scale_ups} == {"compute": 2, "memory": 1}
    assert len(first.pods_triggered_scale_up) == 12
    assert (second.pods_needing_scale_up, second.scale_ups) == ([], [])


def test_the_same_backlog_gets_the_same_plan() -> None:
    assert len({json.dumps(bought(played([COMPUTE, MEMORY], [*ENCODERS, *CACHES]))) for _ in range(3)}) == 1


def test_more_groups_than_one_must_save_more_than_the_margin() -> None:
    groups = [priced("one", "4", "16Gi", 1.0), priced("half", "2", "8Gi", 0.51)]
    backlog = replicas("web", 3, "1900m", more={"memory": "2Gi"})
    assert bought(played(groups, backlog, {"cost-stability-margin": 0})) == [{"one": 1, "half": 1}]
    assert bought(played(groups, backlog, {"cost-stability-margin": 0.4})) == [{"half": 3}]


def test_earlier_expanders_say_which_groups_come_first() -> None:
    groups = [priced("dear", "4", "16Gi", 9.0, maxSize=1), priced("cheap", "4", "16Gi", 1.0)]
    document = {
        "now": "2026-01-05T12:00:00Z",
        "options": {"expander": "priority,cost"},
        "priorityConfig": "10: [dear]\n1: [cheap]\n",
        "nodeGroups": groups,
        "pods": replicas("web", 4, "2", more={"memory": "2Gi"}),
    }
    answer = play(decode(json.dumps(document).encode(), "cost.json"))
    assert bought(answer) == [{"dear": 1, "cheap": 1}]


def test_one_group_a_pass_takes_the_lowest_price_for_a_pod() -> None:
    groups = [priced("wide", "8", "64Gi", 1.0), priced("narrow", "2", "4Gi", 0.1)]
    backlog = [*replicas("web", 2, "1500m", more={"memory": "1Gi"}), *replicas("db", 1, "2", more={"memory": "32Gi"})]
    answer = played(groups, backlog, {"groups-per-pass": "one"})
    assert bought(answer) == [{"narrow": 2}]


def test_groups_share_only_with_similar_ones_that_cost_no_more() -> None:
    balancing: Json = {"balance-similar-node-groups": True, "balancing-ignore-label": ["pool", "kind"]}
    groups = [
        priced("a", "4", "16Gi", 1.0),
        priced("b", "4", "16Gi", 1.0),
        priced("dear", "4", "16Gi", 1.5),
    ]
    (answer,) = bought(played(groups, replicas("web", 8, "2", more={"memory": "2Gi"}), balancing))
    assert answer == {"a": 2, "b": 2}


def test_a_group_that_grows_at_once_is_paid_for_as_a_whole() -> None:
    whole = priced("whole", "4", "16Gi", 0.5, maxSize=4, options={"zero-or-max-node-scaling": True})
    single = priced("single", "4", "16Gi", 1.0)
    assert bought(played([whole, single], replicas("web", 1, "3", more={"memory": "2Gi"}))) == [{"single": 1}]
    assert bought(played([whole, single], replicas("web", 4, "3", more={"memory": "2Gi"}))) == [{"whole": 4}]


@pytest.mark.parametrize(
    ("options", "each", "most"),
    [
        pytest.param({"max-nodes-total": 2}, {"compute": 1, "memory": 1}, 2, id="nodes"),
        pytest.param({"cores-total": "0:16"}, {"compute": 8, "memory": 8}, 16, id="cores"),
        pytest.param({"memory-total": "0:80"}, {"compute": 16, "memory": 64}, 80, id="memory"),
    ],
)
def test_limits_of_the_cluster_hold_for_the_whole_combination(options: Json, each: dict[str, int], most: int) -> None:
    (answer,) = bought(played([COMPUTE, MEMORY], [*ENCODERS, *CACHES], options))
    assert 0 < sum(each[group] * count for group, count in answer.items()) <= most


def test_pods_that_keep_apart_get_nodes_of_their_own() -> None:
    term = {"labelSelector": {"matchLabels": {"app": "queue"}}, "topologyKey": HOST}
    apart = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    groups = [priced("small", "2", "8Gi", 0.11), priced("large", "16", "64Gi", 0.7)]
    answer = played(
        groups,
        [
            *replicas("queue", 5, "500m", more={"memory": "1Gi"}, affinity=apart),
            *replicas("web", 5, "1400m", more={"memory": "2Gi"}),
        ],
    )
    assert bought(answer) == [{"small": 5}]


def test_prices_that_nobody_knows_keep_it_from_starting_and_the_groups_are_named() -> None:
    groups = [a_group("web"), a_group("db")]
    with pytest.raises(ConfigError) as raised:
        played(groups, replicas("web", 1, "1", more={"memory": "1Gi"}))
    assert len(raised.value.problems) == 1
    assert '"cost" needs prices (of web, db)' in raised.value.problems[0]
