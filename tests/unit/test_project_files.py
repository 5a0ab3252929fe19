"""README, documentation, Makefile, locks and workflow: they must agree with the code and with each other."""

import ast
import configparser
import functools
import gzip
import os
import re
import shlex
import subprocess
import sys
import tomllib
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from autoscaler.cli.subcommands import SUBCOMMANDS
from tests import shown_examples

ROOT = Path(__file__).parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "charts").rglob("*.md")])


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
    lines = [line for block in blocks for line in block.replace("\\\n", " ").splitlines()]
    return [shlex.split(line, comments=True) for line in lines if line.strip()]


def make_targets() -> set[str]:
    phony = re.search(r"^\.PHONY: (.*)$", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert phony is not None
    return set(phony[1].split())


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_commands_that_pages_show_exist(page: Path) -> None:
    inline = [text.split() for text in re.findall(r"`((?:make|autoscaler) [^`]+)`", page.read_text())]
    known = {command.name for command in SUBCOMMANDS}
    shown = shell_lines(page)
    made = [words[-1] for words in shown if words[:1] == ["mkdir"]]
    for words in [*shown, *inline]:
        match words:
            case ["make", target, *_]:
                assert target in make_targets(), words
            case [program, subcommand, *_] if Path(program).name == "autoscaler" and subcommand[:1] != "-":
                assert subcommand in known, words
            case ["kubectl", "apply", "-k", folder] if folder not in made:
                assert (ROOT / folder / "kustomization.yaml").exists(), words


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_flags_that_pages_name_exist(page: Path) -> None:
    # Those of other programs stand in longer commands; a flag alone in backticks is one of ours.
    named = re.findall(r"`--([a-z0-9-]+)(?:[= ][^`]*)?`", page.read_text())
    assert [name for name in named if f"--{name}" not in options_of_subcommands()] == []


@functools.cache
def options_of_subcommands() -> frozenset[str]:
    parsers = [command.parser("autoscaler") for command in SUBCOMMANDS]
    found: set[str] = set()
    while parsers:
        parser = parsers.pop()
        found.update(name for argument in parser.arguments() for name in argument.names)
        parsers.extend(action.parser for action in parser.actions().values())
    return frozenset(found)


@pytest.mark.parametrize("page", shown_examples.pages(), ids=name_of)
def test_pages_show_what_commands_print(page: Path) -> None:
    assert page.read_text() == shown_examples.refreshed(page), "run: make docs"


def test_the_examples_are_found() -> None:
    assert len(shown_examples.shown(ROOT / "README.md")) == 1
    assert len(shown_examples.shown(ROOT / "docs" / "faq.md")) == 4


def lines_of(recording: str) -> int:
    return len(gzip.decompress((ROOT / "tests" / recording).read_bytes()).splitlines())


def test_the_compatibility_page_counts_what_is_recorded() -> None:
    counts = {
        "recorded exchanges": lines_of("recorded/exchanges.jsonl.gz"),
        "recorded verdicts": lines_of("unit/scheduling/kube_scheduler_verdicts.jsonl.gz"),
        "recorded clusters": len(list((ROOT / "tests" / "conformance" / "cases").glob("*.json"))),
    }
    page = (ROOT / "docs" / "compatibility.md").read_text()
    assert {name: int(count) for count, name in re.findall(r"(\d+) (recorded \w+)", page)} == counts


def test_the_manifests_and_the_chart_ask_for_what_the_page_on_sizing_says() -> None:
    row = re.search(
        r"^\| up to [\d,]+ \| (\S+) \| (\S+) \| (\S+) \|$", (ROOT / "docs/sizing.md").read_text(), re.MULTILINE
    )
    assert row is not None
    wanted = {"requests": {"cpu": row[1], "memory": row[2]}, "limits": {"memory": row[3]}}
    deployment = yaml.safe_load((ROOT / "manifests/base/deployment.yaml").read_text())
    assert deployment["spec"]["template"]["spec"]["containers"][0]["resources"] == wanted
    assert yaml.safe_load((ROOT / "charts/node-autoscaler/values.yaml").read_text())["resources"] == wanted


def test_every_layer_is_in_the_floor_plan() -> None:
    config = configparser.ConfigParser()
    config.read(ROOT / "setup.cfg")
    layers = config["importlinter:contract:layers"]["layers"].split("\n")
    wanted = [[name.strip() for name in layer.split("|")] for layer in layers if layer.strip()]
    rows = re.findall(r"^\| \d+ \| ([^|]*) \|", (ROOT / "ARCHITECTURE.md").read_text(), re.MULTILINE)
    assert [re.findall(r"`(\w+)`", row) for row in rows] == wanted


def class_names() -> Iterator[str]:
    for path in (ROOT / "autoscaler").rglob("*.py"):
        yield from (node.name for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.ClassDef))


def test_no_two_classes_have_one_name() -> None:
    counts = Counter(class_names())
    assert len(counts) > 500
    assert [name for name, count in counts.items() if count > 1] == []


# What must not be in the tree

_TREES = (
    "autoscaler",
    "cloudprovider",
    "tests",
    "benchmarks",
    "docs",
    "charts",
    "manifests",
    "requirements",
    "changelog.d",
    ".ci",
    ".github",
)
_AT_THE_TOP = (
    "*.md",
    "*.cfg",
    "*.toml",
    ".pre-commit-config.yaml",
    "Makefile",
    "Dockerfile",
    ".dockerignore",
    ".gitignore",
)
_TEXTS = {".md", ".py", ".yaml", ".yml", ".json", ".pem", ".tpl", ".txt", ""}


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
    assert {"run", "test", "check", "bench", "conformance", "docs", "wheel", "sbom", "image", "clean"} <= make_targets()


def make_would_run(target: str) -> str:
    """Return what make says it would do in a fresh clone."""
    command = ["make", "--dry-run", "--always-make", target]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60, check=True).stdout


def test_running_installs_no_development_tools() -> None:
    assert "requirements/dev.txt" not in make_would_run("run")
    assert "requirements/dev.txt" in make_would_run("test")


def test_the_gate_is_a_program() -> None:
    assert os.access(ROOT / ".ci" / "run", os.X_OK)


WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))


def workflow(path: Path) -> dict[str, Any]:
    read: dict[str, Any] = yaml.safe_load(path.read_text())
    return read


def steps(path: Path) -> list[dict[str, Any]]:
    return [step for job in workflow(path)["jobs"].values() for step in job.get("steps", ())]


def test_there_are_workflows_for_changes_and_releases() -> None:
    assert [path.name for path in WORKFLOWS] == ["ci.yml", "release.yml"]
    assert ".ci/run" in [step.get("run") for step in steps(WORKFLOWS[0])]
    assert {"uses": "./.github/workflows/ci.yml"} in workflow(WORKFLOWS[1])["jobs"].values()


@pytest.mark.parametrize("path", WORKFLOWS, ids=name_of)
def test_a_workflow_may_only_read_and_only_a_release_job_may_write(path: Path) -> None:
    read = workflow(path)
    assert read["permissions"] == {"contents": "read"}
    assert {name for name, job in read["jobs"].items() if "permissions" in job} <= {"release"}
    assert all("timeout-minutes" in job or "uses" in job for job in read["jobs"].values())


@pytest.mark.parametrize("path", WORKFLOWS, ids=name_of)
def test_what_a_workflow_uses_cannot_change_unseen(path: Path) -> None:
    used = [step["uses"] for step in steps(path) if "uses" in step]
    assert used
    assert [action for action in used if not re.search(r"@[0-9a-f]{40}$", action)] == []


@pytest.mark.parametrize("path", WORKFLOWS, ids=name_of)
def test_commands_of_a_workflow_exist(path: Path) -> None:
    texts = "\n".join(step.get("run", "") for step in steps(path))
    assert {
        target for line in re.findall(r"^make (.*)$", texts, re.M) for target in line.split() if "=" not in target
    } <= (make_targets())
    assert "${{" not in texts, "what an expression puts into a script is run by the shell; give it as a variable"


def test_hooks_call_targets_that_exist() -> None:
    read = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text())
    entries = [hook["entry"].split() for repo in read["repos"] for hook in repo["hooks"]]
    assert entries
    assert [entry for entry in entries if entry[0] != "make" or entry[1] not in make_targets()] == []


def test_notes_for_the_changelog_have_names_that_a_release_understands() -> None:
    command = [sys.executable, "-m", "towncrier", "build", "--draft", "--version", "next", "--dir", str(ROOT)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    notes = [path.read_text().splitlines()[0] for path in (ROOT / "changelog.d").glob("*.md")]
    assert [note for note in notes if note not in done.stdout] == []


# What is installed


def required(*extras: str) -> list[Requirement]:
    """Return what setup.cfg asks for: what running needs, and the extras."""
    config = configparser.ConfigParser()
    config.read(ROOT / "setup.cfg")
    texts = [config["options"]["install_requires"], *(config["options.extras_require"][name] for name in extras)]
    found = [Requirement(line) for text in texts for line in text.splitlines() if line]
    ours = [one for one in found if one.name == config["metadata"]["name"]]
    return [one for one in found if one not in ours] + [each for one in ours for each in required(*sorted(one.extras))]


PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())


def pins(lock: str) -> set[tuple[str, str]]:
    """Return names and versions; a package has several versions where its newest needs a newer Python."""
    text = (ROOT / "requirements" / f"{lock}.txt").read_text()
    return set(re.findall(r"^([a-z0-9-]+)(?:\[.*\])?==(\S+)(?: ; .*)? \\$", text, re.MULTILINE))


LOCKS = {
    "build": [Requirement(text) for text in PYPROJECT["build-system"]["requires"]],
    "run": required(),
    "image": required("aws", "azure", "gce", "grpc"),
    "dev": required("dev"),
    "release": [Requirement(text) for text in PYPROJECT["dependency-groups"]["release"]],
    "helm": [Requirement(text) for text in PYPROJECT["dependency-groups"]["helm"]],
}


@pytest.mark.parametrize("lock", LOCKS)
def test_the_locks_pin_what_is_asked_for(lock: str) -> None:
    for wanted in LOCKS[lock]:
        versions = [version for name, version in pins(lock) if name == canonicalize_name(wanted.name)]
        assert versions, f"{wanted} is not in requirements/{lock}.txt; run: make lock"
        assert all(wanted.specifier.contains(version) for version in versions), f"{wanted}: {versions}; run: make lock"


def test_what_is_tested_is_what_runs() -> None:
    assert pins("run") | pins("image") <= pins("dev")


@pytest.mark.parametrize("lock", LOCKS)
def test_the_locks_name_no_server(lock: str) -> None:
    assert "://" not in (ROOT / "requirements" / f"{lock}.txt").read_text()


def test_dependencies_have_an_upper_bound() -> None:
    bounded = {"<", "<=", "==", "~="}
    free = {one.name for one in required("dev") if not bounded & {part.operator for part in one.specifier}}
    assert free == {"tzdata"}
