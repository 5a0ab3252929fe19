import msgspec
import pytest

from autoscaler.config.disruption_budgets import NodeDisruptionBudget
from autoscaler.config.document import parse_document, to_options
from autoscaler.config.load import from_options, load
from autoscaler.config.windows import MaintenanceWindow
from autoscaler.errors import ConfigError

OFFICE = MaintenanceWindow(None, "0 9 * * 1-5", 8 * 3600.0, "Europe/Berlin")


@pytest.mark.parametrize(
    ("text", "budget"),
    [
        pytest.param("2", NodeDisruptionBudget(nodes="2"), id="a number"),
        pytest.param("010%", NodeDisruptionBudget(nodes="10%"), id="a share"),
        pytest.param(
            " 0 ; start=0  9 * * 1-5;duration=8h ; timeZone=Europe/Berlin",
            NodeDisruptionBudget(nodes="0", window=OFFICE),
            id="in a window",
        ),
        pytest.param(
            "1;group=web;zone=a;reason=NodeDrifted, Empty",
            NodeDisruptionBudget(nodes="1", group="web", zone="a", reasons=("NodeDrifted", "Empty")),
            id="of a group, a zone and reasons",
        ),
    ],
)
def test_a_budget_is_read(text: str, budget: NodeDisruptionBudget) -> None:
    config = load([f"--disruption-budget={text}"])
    assert config.disruption.disruption_budget == (budget,)
    assert from_options(to_options(config)) == msgspec.structs.replace(config, given=("disruption-budget",))


@pytest.mark.parametrize(
    ("text", "words"),
    [
        pytest.param("", 'begins with ""', id="nothing"),
        pytest.param("-1", 'begins with "-1"', id="below nothing"),
        pytest.param("101%", 'begins with "101%"', id="more than all"),
        pytest.param("1;of=web", 'has a part "of=web"', id="an unknown key"),
        pytest.param("1;group=a;group=b", 'has a part "group=b"', id="a key twice"),
        pytest.param("1;reason=Drift", 'has a reason "Drift" that does not exist', id="an unknown reason"),
        pytest.param("1;start=0 9 * * *", "needs both start and duration", id="half a window"),
        pytest.param("1;start=soon;duration=1h", 'has a start "soon"', id="no cron expression"),
        pytest.param("1;start=0 9 * * *;duration=8", 'has a duration "8"', id="no duration"),
    ],
)
def test_a_wrong_budget_is_one_line(text: str, words: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load([f"--disruption-budget={text}"])
    (line,) = caught.value.problems
    assert line.startswith("--disruption-budget")
    assert words in line


def test_a_file_has_a_budget_as_text_or_as_a_map() -> None:
    text = """
disruption:
  disruptionBudget:
    - 10%
    - {nodes: 0, reason: NodeDrifted, start: 0 9 * * 1-5, duration: 8h, timeZone: Europe/Berlin}
"""
    given = parse_document(text, "file").values["disruption-budget"]
    assert given == (
        NodeDisruptionBudget(nodes="10%"),
        NodeDisruptionBudget(nodes="0", reasons=("NodeDrifted",), window=OFFICE),
    )


@pytest.mark.parametrize(("nodes", "total", "limit"), [("3", 100, 3), ("10%", 10, 1), ("10%", 11, 2), ("0%", 50, 0)])
def test_a_share_is_rounded_up(nodes: str, total: int, limit: int) -> None:
    assert NodeDisruptionBudget(nodes=nodes).limit(total) == limit
