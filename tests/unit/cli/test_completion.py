"""Completion: what may follow is read off the parsers, and the scripts hand it to their shells."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from autoscaler.cli.completion import completions
from autoscaler.cli.main import main
from autoscaler.cli.subcommands import SUBCOMMANDS, Subcommand
from autoscaler.config.flags import flags
from cloudprovider.catalog import BUILT_IN

COMMANDS = {command.name: command for command in SUBCOMMANDS}
FILES, WORDS = ":0", ":4"


def offered(*words: str) -> list[str]:
    """Return the words that may come last, without their meanings; the directive is the last of them."""
    return [line.partition("\t")[0] for line in completions(words, COMMANDS)]


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        pytest.param((), [*COMMANDS, WORDS], id="nothing typed"),
        pytest.param(("",), [*COMMANDS, WORDS], id="subcommands"),
        pytest.param(("sim",), ["simulate", WORDS], id="a subcommand"),
        pytest.param(("--dry",), ["--dry-run", WORDS], id="flags without a subcommand"),
        pytest.param(("run", "--v=3", "--dry"), ["--dry-run", WORDS], id="flags of the daemon"),
        pytest.param(("nothing", ""), [WORDS], id="no such subcommand"),
        pytest.param(("config", ""), ["check", "flags", "rules", "migration", "schema", WORDS], id="actions"),
        pytest.param(("provider", "serve", "--ins"), ["--insecure", WORDS], id="options of an action"),
        pytest.param(("plan", "--expl"), ["--explain", WORDS], id="own options"),
        pytest.param(("plan", "--tie"), ["--tie-break", WORDS], id="flags beside own options"),
        pytest.param(("simulate", "--tie"), [WORDS], id="no flags where none are taken"),
        pytest.param(("plan", "-o", ""), ["table", "wide", "json", "yaml", WORDS], id="choices of an option"),
        pytest.param(("plan", "--output=j"), ["json", WORDS], id="choices behind an equals sign"),
        pytest.param(("plan", "--tie-break", "s"), ["stable", WORDS], id="choices of a flag"),
        pytest.param(("run", "--dry-run="), ["true", "false", WORDS], id="values of a switch"),
        pytest.param(("run", "--dry-run", "--tie"), ["--tie-break", WORDS], id="a switch takes no word"),
        pytest.param(("run", "--expander=cost,l"), ["cost,least-nodes", "cost,least-waste", WORDS], id="a list"),
        pytest.param(("completion", ""), ["bash", "zsh", "fish", WORDS], id="choices of an argument"),
        pytest.param(("plan", "--scenario", "x"), [FILES], id="a file"),
        pytest.param(("plan", "--scenario=x"), [FILES], id="a file behind an equals sign"),
        pytest.param(("config", "check", ""), [FILES], id="a file without an option"),
        pytest.param(("run", "--kubeconfig", ""), [FILES], id="the file of a flag"),
        pytest.param(("plan", "--run", ""), [WORDS], id="a number"),
        pytest.param(("plan", "--nothing=x"), [WORDS], id="an unknown option"),
    ],
)
def test_what_may_follow(words: tuple[str, ...], expected: list[str]) -> None:
    assert offered(*words) == expected


def test_every_flag_is_offered_with_its_meaning() -> None:
    lines = list(completions(("run", "--"), COMMANDS))
    assert {f"--{flag.name}\t{flag.help}" for flag in flags().values()} <= set(lines)


def test_providers_are_offered() -> None:
    assert {entry.name for entry in BUILT_IN} <= set(offered("run", "--cloud-provider", ""))


@pytest.mark.parametrize("command", SUBCOMMANDS, ids=lambda command: command.name)
def test_every_option_of_every_subcommand_is_offered(command: Subcommand) -> None:
    parser = command.parser("autoscaler")
    for path, inner in [((), parser), *(((name,), action.parser) for name, action in parser.actions().items())]:
        names = {name for argument in inner.arguments() for name in argument.names}
        assert names <= set(offered(command.name, *path, "-"))


def test_the_hidden_command_prints_the_answer(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["__complete", "config", "che"]) == 0
    assert capsys.readouterr().out == "check\tvalidate a configuration file\n:4\n"


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_each_script_asks_the_program(capsys: pytest.CaptureFixture[str], shell: str) -> None:
    assert main(["completion", shell]) == 0
    script = capsys.readouterr().out
    assert "__complete" in script
    assert "--" not in script.replace(" -- ", "")  # it knows no flag itself


@pytest.mark.parametrize(
    "shell",
    [
        pytest.param(name, marks=pytest.mark.skipif(shutil.which(name) is None, reason=f"{name} is not on the PATH"))
        for name in ("bash", "zsh", "fish")
    ],
)
def test_each_shell_can_read_its_script(capsys: pytest.CaptureFixture[str], tmp_path: Path, shell: str) -> None:
    main(["completion", shell])
    script = tmp_path / "script"
    script.write_text(capsys.readouterr().out)
    done = subprocess.run([shell, "-n", script], capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_a_misspelt_shell_gets_a_hint(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["completion", "fihs"]) == 2
    assert capsys.readouterr().err == "bash|zsh|fish: 'fihs' is none of bash, zsh, fish; did you mean fish?\n"


@pytest.mark.parametrize(
    ("line", "said"),
    [
        pytest.param("autoscaler provider se", "serve\ncompopt +o default\n", id="a word"),
        pytest.param("autoscaler config ", "check\nflags\nrules\nmigration\nschema\ncompopt +o default\n", id="words"),
        pytest.param("X=1 autoscaler run --tie-break=s", "stable\ncompopt +o default\n", id="behind an equals sign"),
        pytest.param("autoscaler plan --scenario ", "\n", id="files are left to bash"),
    ],
)
def test_bash_gets_what_may_follow(capsys: pytest.CaptureFixture[str], tmp_path: Path, line: str, said: str) -> None:
    main(["completion", "bash"])
    program = tmp_path / "autoscaler"
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -m autoscaler "$@"\n')
    program.chmod(0o755)
    script = f"""
compopt() {{ told="compopt $*"; }}
{capsys.readouterr().out}
COMP_LINE=$1 COMP_POINT=${{#1}} COMP_WORDS=("{program}") COMP_CWORD=0
_autoscaler
printf '%s\\n' "${{COMPREPLY[@]}}" "$told"
"""
    typed = line.replace("autoscaler", str(program))
    done = subprocess.run(
        ["bash", "-c", script, "bash", typed],
        cwd=Path(__file__).parents[3],
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    assert (done.stdout, done.stderr) == (said, "")
