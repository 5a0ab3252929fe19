"""The command itself: finding subcommands, exit status, and output streams."""

import argparse
import importlib.util
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

from autoscaler.cli.arguments import accept_flags, daemon_config
from autoscaler.cli.main import main
from autoscaler.cli.subcommands import SUBCOMMANDS, Subcommand
from autoscaler.errors import ConfigError, RetryLater


class FakeSubcommand(ModuleType):
    """Stands in `sys.modules` for the module of a subcommand."""

    def __init__(self, name: str, takes_flags: bool = False, error: BaseException | None = None) -> None:
        super().__init__(name)
        self.takes_flags = takes_flags
        self.error = error
        self.args: argparse.Namespace | None = None

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("--scenario", action="append")
        if self.takes_flags:
            accept_flags(parser)

    def run(self, args: argparse.Namespace) -> int:
        self.args = args
        if self.error is not None:
            raise self.error
        return 0


TABLE = (
    Subcommand("run", "fake_run", "the daemon", only_flags=True),
    Subcommand("plan", "fake_plan", "a plan"),
)


@pytest.fixture
def fakes() -> object:
    modules = {"fake_run": FakeSubcommand("fake_run"), "fake_plan": FakeSubcommand("fake_plan")}
    sys.modules.update(modules)
    yield modules
    for name in modules:
        del sys.modules[name]


@pytest.mark.parametrize(
    ("words", "flags"),
    [
        pytest.param(["run", "--v=4", "-o"], ["--v=4", "-o"], id="everything after run"),
        pytest.param(["--cloud-provider=aws", "plan"], ["--cloud-provider=aws", "plan"], id="no subcommand but flags"),
        pytest.param(["run"], [], id="run alone"),
    ],
)
def test_the_daemon_gets_all_words(fakes: dict[str, FakeSubcommand], words: list[str], flags: list[str]) -> None:
    assert main(words, TABLE) == 0
    args = fakes["fake_run"].args
    assert args is not None
    assert args.flags == flags


def test_another_subcommand_gets_its_own_options(fakes: dict[str, FakeSubcommand]) -> None:
    assert main(["plan", "--scenario", "a", "--scenario", "b"], TABLE) == 0
    args = fakes["fake_plan"].args
    assert args is not None
    assert args.scenario == ["a", "b"]


def test_unknown_options_are_bad_input(fakes: dict[str, FakeSubcommand], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plan", "--expander=price"], TABLE) == 2
    assert "--expander: unknown option" in capsys.readouterr().err
    assert fakes["fake_plan"].args is None


def test_a_subcommand_may_accept_flags(fakes: dict[str, FakeSubcommand]) -> None:
    fakes["fake_plan"].takes_flags = True
    assert main(["plan", "--expander", "price", "--scenario=a", "--v=4"], TABLE) == 0
    args = fakes["fake_plan"].args
    assert args is not None
    assert (args.flags, args.scenario) == (["--expander", "price", "--v=4"], ["a"])
    assert daemon_config(args).scale_up.expander == ("price",)


@pytest.mark.parametrize(
    ("error", "status", "message"),
    [
        pytest.param(ConfigError(["--a: bad", "--b: bad"]), 2, "--a: bad\n--b: bad\n", id="bad configuration"),
        pytest.param(RetryLater("API server gone"), 1, "autoscaler: API server gone\n", id="failure"),
        pytest.param(KeyboardInterrupt(), 130, "", id="interrupted"),
    ],
)
def test_errors_become_an_exit_status(
    fakes: dict[str, FakeSubcommand],
    capsys: pytest.CaptureFixture[str],
    error: BaseException,
    status: int,
    message: str,
) -> None:
    fakes["fake_plan"].error = error
    assert main(["plan"], TABLE) == status
    captured = capsys.readouterr()
    assert (captured.out, captured.err) == ("", message)


def test_programming_errors_are_not_hidden(fakes: dict[str, FakeSubcommand]) -> None:
    fakes["fake_plan"].error = TypeError("a bug")
    with pytest.raises(TypeError, match="a bug"):
        main(["plan"], TABLE)


@pytest.mark.parametrize("words", [["--help"], ["-h"], ["help"]])
def test_help_lists_the_subcommands(capsys: pytest.CaptureFixture[str], words: list[str]) -> None:
    assert main(words) == 0
    printed = capsys.readouterr().out
    assert all(f"  {command.name} " in printed for command in SUBCOMMANDS)


def test_nothing_typed_is_bad_input_with_help(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 2
    assert "usage: autoscaler" in capsys.readouterr().err


def test_a_misspelt_subcommand_gets_a_hint(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["cofnig"]) == 2
    assert (
        capsys.readouterr().err == "cofnig: unknown subcommand; did you mean config? (autoscaler --help lists them)\n"
    )


def test_help_of_the_daemon_describes_flags(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", "--help"]) == 0
    printed = capsys.readouterr().out
    assert "  --scan-interval duration\n        Time between two passes. (default 15s) [better]" in printed


def test_help_of_a_subcommand(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["config", "check", "--help"]) == 0
    assert "FILE" in capsys.readouterr().out


@pytest.mark.parametrize("words", [["--version"], ["version"], ["run", "--version"], ["demo", "--v=1", "--version"]])
def test_version(capsys: pytest.CaptureFixture[str], words: list[str]) -> None:
    assert main(words) == 0
    assert capsys.readouterr().out.startswith("autoscaler")


@pytest.mark.parametrize("command", SUBCOMMANDS, ids=lambda command: command.name)
def test_every_listed_subcommand_has_a_module(command: Subcommand) -> None:
    assert importlib.util.find_spec(command.module) is not None


def test_a_reader_that_leaves_early_gets_no_traceback() -> None:
    program = "import sys; from autoscaler.cli.main import main; sys.exit(main(['run', '--help']))"
    with subprocess.Popen(
        [sys.executable, "-c", program], cwd=Path(__file__).parents[3], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        assert process.stderr.read() == b""
        assert process.wait(30) == 1
