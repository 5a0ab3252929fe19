"""README, documentation and Makefile: they must agree with the code and with each other."""

import argparse
import configparser
import contextlib
import functools
import importlib
import io
import os
import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest

from autoscaler.cli.main import SUBCOMMANDS, main
from autoscaler.config.flags import flags

ROOT = Path(__file__).parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])


def name_of(path: Path) -> str:
    return str(path.relative_to(ROOT))


# Documentation


def anchors(page: Path) -> set[str]:
    headings = re.findall(r"^#+ (.*)$", page.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def broken_links(page: Path) -> Iterator[str]:
    for target in re.findall(r"\]\(([^)\s]+)\)", page.read_text()):
        if "://" in target:
            continue
        file, _, anchor = target.partition("#")
        linked = (page.parent / file).resolve() if file else page
        if not linked.exists() or (anchor and anchor not in anchors(linked)):
            yield target


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_links_lead_somewhere(page: Path) -> None:
    assert list(broken_links(page)) == []


def test_a_broken_link_would_be_found(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("# One heading\n[a](page.md#one-heading) [b](#none) [c](absent.md) [d](https://example.com/x)\n")
    assert list(broken_links(page)) == ["#none", "absent.md"]


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_paths_that_pages_name_exist(page: Path) -> None:
    named = re.findall(r"`((?:autoscaler|cloudprovider|tests|docs|manifests)/[^`\s]*)`", page.read_text())
    assert [path for path in named if not (ROOT / path).exists()] == []


def shell_lines(page: Path) -> list[list[str]]:
    blocks = re.findall(r"```sh\n(.*?)```", page.read_text(), re.DOTALL)
    return [shlex.split(line, comments=True) for block in blocks for line in block.splitlines() if line.strip()]


def make_targets() -> set[str]:
    phony = re.search(r"^\.PHONY: (.*)$", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert phony is not None
    return set(phony[1].split())


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_commands_that_pages_show_exist(page: Path) -> None:
    inline = [text.split() for text in re.findall(r"`((?:make|autoscaler) [^`]+)`", page.read_text())]
    known = {command.name for command in SUBCOMMANDS}
    for words in [*shell_lines(page), *inline]:
        match words:
            case ["make", target, *_]:
                assert target in make_targets(), words
            case [program, subcommand, *_] if Path(program).name == "autoscaler" and subcommand[:1] != "-":
                assert subcommand in known, words
            case ["kubectl", "apply", "-k", folder]:
                assert (ROOT / folder / "kustomization.yaml").exists(), words


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_flags_that_pages_name_exist(page: Path) -> None:
    # Those of other programs stand in longer commands; a flag alone in backticks is one of ours.
    named = re.findall(r"`--([a-z0-9-]+)(?:[= ][^`]*)?`", page.read_text())
    assert [name for name in named if name not in flags() and f"--{name}" not in options_of_subcommands()] == []


@functools.cache
def options_of_subcommands() -> frozenset[str]:
    parsers = [argparse.ArgumentParser(command.name) for command in SUBCOMMANDS if not command.only_flags]
    for parser in parsers:
        importlib.import_module(next(one.module for one in SUBCOMMANDS if one.name == parser.prog)).add_arguments(
            parser
        )
    found: set[str] = set()
    while parsers:
        for action in parsers.pop()._actions:
            found.update(action.option_strings)
            if isinstance(action, argparse._SubParsersAction):
                parsers.extend(action.choices.values())
    return frozenset(found)


def test_the_plan_in_the_readme_is_what_the_command_prints(monkeypatch: pytest.MonkeyPatch) -> None:
    command = next(words for words in shell_lines(ROOT / "README.md") if words[:1] == [".venv/bin/autoscaler"])
    shown = re.search(r"```text\n(pending-pods.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    assert shown is not None
    monkeypatch.chdir(ROOT)
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        assert main(command[1:]) == 0
    assert printed.getvalue().strip() == shown[1].strip()


def test_every_layer_is_in_the_floor_plan() -> None:
    config = configparser.ConfigParser()
    config.read(ROOT / "setup.cfg")
    layers = config["importlinter:contract:layers"]["layers"].split("\n")
    wanted = [[name.strip() for name in layer.split("|")] for layer in layers if layer.strip()]
    rows = re.findall(r"^\| \d+ \| ([^|]*) \|", (ROOT / "ARCHITECTURE.md").read_text(), re.MULTILINE)
    assert [re.findall(r"`(\w+)`", row) for row in rows] == wanted


# What must not be in the tree

_TREES = ("autoscaler", "cloudprovider", "tests", "benchmarks", "docs", "manifests", ".ci")
_AT_THE_TOP = ("*.md", "*.cfg", "*.toml", "Makefile", "Dockerfile", ".dockerignore", ".gitignore")
_TEXTS = {".md", ".py", ".yaml", ".json", ".pem", ".txt", ""}


def texts() -> Iterator[Path]:
    for pattern in _AT_THE_TOP:
        yield from ROOT.glob(pattern)
    for tree in _TREES:
        yield from (path for path in (ROOT / tree).rglob("*") if path.suffix in _TEXTS and path.is_file())


def forbidden(text: str) -> list[str]:
    """Return places that exist on one machine only, hosts of package registries, and talk of how the text was made."""
    patterns = (
        r"/(?:home|Users)/\w+",
        r"/(?:work|opt)/(?:main|shared|wheels|pypi)",
        r"\b(?:pypi|pythonhosted|conda)\.[a-z]+",
        r"\b(?:AI|LLM)\b|(?i:\b(?:coding|developer|previous|this) (?:session|agent)\b)",
    )
    return [found[0] for pattern in patterns for found in re.finditer(pattern, text)]


def test_nothing_names_this_machine_a_registry_or_its_makers() -> None:
    found = {
        name_of(path): places
        for path in texts()
        if path != Path(__file__)  # which names them all
        and (places := forbidden(path.read_text()))
    }
    assert found == {}


@pytest.mark.parametrize("text", ["/home/someone/x", "https://pypi.org/simple", "/work/shared/x", "in this session"])
def test_such_words_would_be_found(text: str) -> None:
    assert forbidden(text)


# Commands


def test_the_commands_that_are_promised_exist() -> None:
    assert {"run", "test", "check", "bench", "conformance", "image", "clean"} <= make_targets()


def test_the_gate_is_a_program() -> None:
    assert os.access(ROOT / ".ci" / "run", os.X_OK)
