"""What people see of plans, at the widths of a small and a large terminal.

`plans` holds answers as `plan -o json` prints them, shortened, and what a terminal of so many columns shows of them.
"""

from pathlib import Path

import msgspec
import pytest

from autoscaler.cli.plan_text import plan_text
from autoscaler.cli.table import Terminal, laid_out
from autoscaler.simulator.answer import PlanAnswer

PLANS = Path(__file__).parent / "plans"


def shown(name: str, terminal: Terminal, *, wide: bool = False) -> list[str]:
    answer = msgspec.json.decode((PLANS / f"{name}.json").read_bytes(), type=PlanAnswer)
    return [line for block in plan_text(answer, wide=wide) for line in laid_out(block, terminal)]


@pytest.mark.parametrize("width", [80, 160])
@pytest.mark.parametrize("name", ["dump-of-200-nodes", "pending-pods", "too-few-nodes-allowed", "consolidation"])
def test_a_plan_looks_right(name: str, width: int) -> None:
    lines = shown(name, Terminal(width))
    text = "\n".join(lines) + "\n"
    path = PLANS / f"{name}.{width}.txt"
    assert text == path.read_text(encoding="utf-8"), f"if this is right, write it to {path}:\n{text}"
    assert max(map(len, lines)) <= width


def test_without_a_terminal_nothing_is_cut_and_each_row_is_a_line() -> None:
    lines = shown("dump-of-200-nodes", Terminal())
    assert "…" not in "".join(lines)
    stuck = [line for line in lines if line.startswith("ReplicaSet api/huge-6f7c8d ")]
    assert len(stuck) == 2  # one for each run


def test_a_stuck_workload_has_one_row_and_wide_output_has_one_for_each_group() -> None:
    usual, wide = shown("pending-pods", Terminal()), shown("pending-pods", Terminal(), wide=True)
    assert sum("monolith" in line for line in usual) == 1
    assert [line.split()[3:5] for line in wide if "monolith" in line][1:] == [
        ["general", "NodeResourcesFit"],
        ["general", "NodeResourcesFit"],
        ["gpu", "TaintToleration"],
        ["gpu", "NodeResourcesFit"],
    ]


def test_wide_output_names_every_node_that_stays() -> None:
    answer = msgspec.json.decode((PLANS / "dump-of-200-nodes.json").read_bytes(), type=PlanAnswer)
    wide = "\n".join(shown("dump-of-200-nodes", Terminal(), wide=True))
    assert all(name in wide for name in answer.runs[0].unremovable)
    assert "-o wide names them" not in wide


def test_pods_of_one_workload_that_differ_are_one_row() -> None:
    answer = msgspec.json.decode((PLANS / "pending-pods.json").read_bytes(), type=PlanAnswer)
    (run,) = answer.runs
    (stuck,) = run.reasons.unschedulable
    other = msgspec.structs.replace(stuck, pods=["default/monolith-2", "default/monolith-3"], advice=None)
    reasons = msgspec.structs.replace(run.reasons, unschedulable=[stuck, other])
    changed = msgspec.structs.replace(answer, runs=[msgspec.structs.replace(run, reasons=reasons)])
    lines = [line for block in plan_text(changed, wide=False) for line in laid_out(block, Terminal())]
    (row,) = (line for line in lines if "monolith" in line)
    assert row.startswith("ReplicaSet default/monolith  3     TaintToleration")


def test_pods_that_only_wait_are_not_among_those_that_are_stuck() -> None:
    answer = msgspec.json.decode((PLANS / "too-few-nodes-allowed.json").read_bytes(), type=PlanAnswer)
    (run,) = answer.runs
    (held,) = run.reasons.held
    assert held.advice is not None
    waiting = msgspec.structs.replace(held, advice=msgspec.structs.replace(held.advice, waits=True))
    reasons = msgspec.structs.replace(run.reasons, held=[waiting])
    changed = msgspec.structs.replace(answer, runs=[msgspec.structs.replace(run, reasons=reasons)])
    lines = [line for block in plan_text(changed, wide=False) for line in laid_out(block, Terminal())]
    title = lines.index("Pods that get no node yet")
    assert [line.split()[1] for line in lines[title + 2 : title + 4]] == ["default/web", "default/trainer"]
    assert "monolith" in "".join(lines[:title])


def test_a_node_is_in_one_table_only() -> None:
    answer = msgspec.json.decode((PLANS / "consolidation.json").read_bytes(), type=PlanAnswer)
    (run,) = answer.runs
    assert "small-1" in run.unremovable
    assert sum("small-1" in line for line in shown("consolidation", Terminal())) == 1


def test_red_is_for_what_needs_a_person() -> None:
    stuck, quiet = (shown(name, Terminal(coloured=True)) for name in ("pending-pods", "consolidation"))
    assert stuck[0].startswith("\x1b[31m")
    assert quiet[0].startswith("\x1b[1m")
    assert any("\x1b[31mTaintToleration" in line for line in stuck)
