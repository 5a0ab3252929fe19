from collections.abc import Mapping
from enum import StrEnum

import pytest

from autoscaler.objects.meta import ObjectMeta
from autoscaler.objects.workload import ConfigMap
from autoscaler.ports import Subject
from autoscaler.scaleup.priority import CONFIG_MAP, PriorityExpander, PriorityWarning, config_map_in
from tests.builders import an_option

ABOUT = Subject(kind="ConfigMap", name=CONFIG_MAP, namespace="kube-system", uid="u")


def a_config_map(data: Mapping[str, str]) -> ConfigMap:
    return ConfigMap(metadata=ObjectMeta(name=CONFIG_MAP, namespace="kube-system", uid="u"), data=dict(data))


def weighed(text: str | None, *groups: str) -> tuple[list[str], list[StrEnum]]:
    config_map = None if text is None else a_config_map({"priorities": text})
    found = PriorityExpander(config_map).weigh([an_option(group) for group in groups])
    assert all(occurrence.about == ABOUT for occurrence in found.occurrences)
    return [option.group.id for option in found.options], [occurrence.reason for occurrence in found.occurrences]


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        pytest.param("10: [web]\n20: [db]\n", ["db"], id="the higher number wins"),
        pytest.param("10: [web, db]\n", ["web", "db"], id="all at one number stay"),
        pytest.param("10: ['.*']\n50: [db$]\n", ["db"], id="the highest match of a group counts"),
        pytest.param("-10: [web]\n-20: [db]\n", ["web"], id="numbers may be negative"),
        pytest.param("10: [e]\n5: ['.*']\n", ["web"], id="expressions are not anchored"),
        pytest.param("10: ['^eb']\n5: ['.*']\n", ["web", "db"], id="unless they say so"),
        pytest.param("10: ['^[[:alpha:]]{3}\\z']\n5: ['.*']\n", ["web"], id="as Go spells classes and ends"),
        pytest.param("10:\n5: ['.*']\n", ["web", "db"], id="a number without expressions matches nothing"),
    ],
)
def test_ranking(text: str, kept: list[str]) -> None:
    assert weighed(text, "web", "db") == (kept, [])


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("", id="empty"),
        pytest.param("10: ['[']\n", id="not a regular expression"),
        pytest.param("high: [web]\n", id="not a number"),
        pytest.param("- web\n", id="not a map"),
        pytest.param("10: web\n", id="not a list"),
        pytest.param("10: [[web]]\n", id="not a list of texts"),
        pytest.param("10: [web\n", id="not YAML"),
        pytest.param("[" * 100_000, id="too deep"),
        pytest.param("10: &a [x]\n" + "20: *a\n" * 2, id="a number twice"),
        pytest.param("10: [web]\n" + "#" * 300_000, id="too long"),
        pytest.param("9" * 5000 + ": [web]\n", id="a number beyond 64 bits"),
        pytest.param("\u0661: [web]\n", id="a number in another script"),
        pytest.param("10: ['(?=web)']\n", id="a look ahead, which Go does not have"),
    ],
)
def test_a_bad_config_map_filters_nothing_and_says_so(text: str) -> None:
    assert weighed(text, "web", "db") == (["web", "db"], [PriorityWarning.INVALID])


def test_an_expression_that_never_ends_elsewhere_ends() -> None:
    assert weighed("10: ['(w+)+$']\n20: ['^db']", "w" * 200 + "!", "db")[0] == ["db"]


def test_a_config_map_without_the_entry_is_bad() -> None:
    found = PriorityExpander(a_config_map({"prioritys": "10: [web]"})).weigh([an_option("web")])
    assert [occurrence.reason for occurrence in found.occurrences] == [PriorityWarning.INVALID]
    assert "priorities" in found.occurrences[0].message


def test_a_missing_config_map_filters_nothing_silently() -> None:
    assert weighed(None, "web", "db") == (["web", "db"], [])


def test_groups_that_nothing_matches_are_not_used() -> None:
    found = PriorityExpander(a_config_map({"priorities": "10: [web]"})).weigh([an_option("web"), an_option("db")])
    assert [option.group.id for option in found.options] == ["web"]
    (occurrence,) = found.occurrences
    assert occurrence.reason is PriorityWarning.NOT_MATCHED
    assert "db" in occurrence.message


def test_where_nothing_matches_at_all_every_option_stays() -> None:
    kept, warnings = weighed("10: [nothing]", "web", "db")
    assert kept == ["web", "db"]
    assert warnings == [PriorityWarning.NOT_MATCHED, PriorityWarning.NOT_MATCHED, PriorityWarning.NONE_MATCHED]


def test_no_options_stay_none() -> None:
    assert PriorityExpander(a_config_map({"priorities": "10: [web]"})).best([]) == ()


def test_the_config_map_is_looked_up_in_the_namespace_of_the_autoscaler() -> None:
    config_map = a_config_map({})
    known = {f"kube-system/{CONFIG_MAP}": config_map}
    assert config_map_in(known, "kube-system") is config_map
    assert config_map_in(known, "default") is None
