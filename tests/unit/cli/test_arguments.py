"""Errors on a command line: one clear line per problem, in our words, status 2, and no other output."""

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from autoscaler.cli.main import main

ROOT = Path(__file__).parents[3]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        pytest.param(
            ["plan", "-o", "jsn"],
            "--output: 'jsn' is none of table, wide, json, yaml; did you mean json?",
            id="no such format",
        ),
        pytest.param(["plan", "--run", "x"], "--run: 'x' is not a whole number", id="no number"),
        pytest.param(
            ["plan", "--runs", "0"], "--runs: '0' is not a whole number from 1 to 1000000", id="out of bounds"
        ),
        pytest.param(["plan", "--scenario"], "--scenario: needs a value (FILE)", id="no value"),
        pytest.param(["simulate", "x", "--compare"], "--compare: needs a value (CONFIG)", id="no value of many"),
        pytest.param(["plan", "--scenari=x"], "--scenari: unknown flag; did you mean --scenario?", id="own option"),
        pytest.param(["plan", "--expandr=x"], "--expandr: unknown flag; did you mean --expander?", id="misspelt flag"),
        pytest.param(["demo", "--until-settled=1"], "--until-settled: takes no value", id="value of a switch"),
        pytest.param(
            ["simulate", "x", "--htm", "y"],
            "--htm: unknown option of autoscaler simulate; did you mean --html?",
            id="abbreviated",
        ),
        pytest.param(["simulate"], "SCENARIO: is missing (autoscaler simulate --help describes it)", id="no file"),
        pytest.param(
            ["config"], "autoscaler config: say what to do: check, flags, migration, rules, schema", id="no action"
        ),
        pytest.param(
            ["config", "chek", "x"],
            "chek: unknown action of autoscaler config; did you mean check?",
            id="misspelt action",
        ),
        pytest.param(
            ["config", "check", "a", "b"],
            "b: is one word too many (autoscaler config check --help describes the arguments)",
            id="word too many",
        ),
        pytest.param(
            ["headroom", "plan", "x", "--kubeconfig", "y"],
            "--kubeconfig: unknown option of autoscaler headroom plan",
            id="flag where none is taken",
        ),
        pytest.param(
            ["provider", "serve", "--cloud-provider=static"],
            "--listen: is missing (autoscaler provider serve --help describes it)",
            id="required option",
        ),
        pytest.param(
            ["eta", "plan", "--qqq=3", "--scan-interval=1", "x"],
            "--qqq: unknown flag\n"
            "x: is not a flag; write a switch as --flag=false, and values with spaces in quotes\n"
            '--scan-interval: "1" is not a duration; write a number with a unit, such as 90s, 10m or 1h30m',
            id="three at once",
        ),
    ],
)
def test_a_wrong_word_is_one_line(capsys: pytest.CaptureFixture[str], words: list[str], said: str) -> None:
    assert main(words) == 2
    captured = capsys.readouterr()
    assert (captured.out, captured.err) == ("", said + "\n")


@pytest.mark.parametrize("words", [["plan", "--help"], ["config", "check", "-h"]])
def test_help_is_no_mistake(capsys: pytest.CaptureFixture[str], words: list[str]) -> None:
    assert main(words) == 0
    assert "usage: autoscaler" in capsys.readouterr().out


@pytest.mark.parametrize("slow", ["numpy", "msgspec", "autoscaler.cli.arguments", "autoscaler.simulator.play"])
def test_ctrl_c_while_modules_are_imported_is_quiet(slow: str) -> None:
    """The import of one module signals that it has begun, and does not end before the interruption."""
    program = (
        "import builtins, runpy, sys, threading\n"
        "class Slow:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        f"        if name == {slow!r}:\n"
        "            print('importing', flush=True)\n"
        "            threading.Event().wait(60)\n"
        "sys.meta_path.insert(0, Slow())\n"
        "sys.argv = ['autoscaler', 'plan', '--scenario', 'x']\n"
        "runpy.run_module('autoscaler', run_name='__main__')\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", program],
        cwd=ROOT,
        env={"PATH": os.environ["PATH"]},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "importing\n"
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=60)
    assert (process.returncode, said) == (130, "")


def test_a_command_can_be_run_beside_the_main_thread() -> None:
    statuses: list[int] = []
    thread = threading.Thread(target=lambda: statuses.append(main(["config", "check", "/nowhere"])))
    thread.start()
    thread.join(60)
    assert statuses == [2]
