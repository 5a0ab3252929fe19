"""The image, without an engine: the steps that the Dockerfile names are run below a folder that stands for `/`.

Both stages share that folder, so what is copied between them is there already. An instruction that is not known here is
an error: whoever adds one to the Dockerfile says here what it means.
"""

import configparser
import itertools
import json
import os
import re
import shlex
import shutil
import stat
import subprocess
import sys
import tempfile
import threading
import zipfile
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import msgspec
import pytest

pytestmark = pytest.mark.xdist_group("image")  # which is built once
ROOT = Path(__file__).parents[2]
NOBODY = 65532
NO_INDEX = re.compile(r"NewConnectionError|NameResolutionError|ConnectTimeout|No matching distribution.*setuptools")
BELOW_ROOT = re.compile(r"(?<![\w./])/(?=(?:source|build|wheels|autoscaler|cluster-autoscaler)\b)")


class Instruction(msgspec.Struct, frozen=True):
    word: str
    rest: str

    @property
    def exec_form(self) -> list[str]:
        """The words of a command in brackets."""
        words: list[str] = json.loads(self.rest[self.rest.index("[") :])
        return words


def instructions() -> list[Instruction]:
    text = re.sub(r"^\s*#.*\n", "", (ROOT / "Dockerfile").read_text(), flags=re.MULTILINE)
    lines = text.replace("\\\n", " ").splitlines()
    return [Instruction(*line.split(maxsplit=1)) for line in lines if line.strip()]


def only(word: str) -> Instruction:
    (found,) = (instruction for instruction in instructions() if instruction.word == word)
    return found


class Image:
    """A folder that looks like the root of the image, and how processes in it are run."""

    def __init__(self, root: Path, interpreter: Path) -> None:
        self.root = root
        self.env = {"PATH": f"{root}/tools:/usr/bin:/bin", "HOME": "/nonexistent"}
        self._cwd = root
        tools = root / "tools"
        tools.mkdir()
        _script(tools / "python", interpreter)
        _script(tools / "pip", Path(sys.executable), "-m", "pip")

    def build(self) -> None:
        for instruction in instructions():
            self._take(instruction)

    def _take(self, one: Instruction) -> None:
        match one.word:
            case "WORKDIR":
                self._cwd = self.root / one.rest.strip("/")
                self._cwd.mkdir(exist_ok=True)
            case "COPY" if one.rest.startswith("--from="):
                stage, source, target = one.rest.split()
                assert (stage, source) == ("--from=build", target)
            case "COPY":
                (source, target) = one.rest.split()
                assert source == target
                copy_context(self._cwd, sent() if source == "." else [source])
            case "RUN":
                self._run_step(one.rest)
            case "ENV":
                values = dict(pair.split("=", 1) for pair in shlex.split(one.rest))
                values["PATH"] = self._here(values["PATH"]).replace("$PATH", self.env["PATH"])
                self.env |= values
            case "ARG" | "FROM" | "LABEL" | "USER" | "EXPOSE" | "HEALTHCHECK" | "ENTRYPOINT":
                pass  # of these the tests ask
            case word:
                raise ValueError(f"what does {word} mean for this test?")

    def _here(self, text: str) -> str:
        return BELOW_ROOT.sub(f"{self.root}/", text)

    def _run_step(self, command: str) -> None:
        env = {**os.environ, **self.env, "HOME": os.environ.get("HOME", "/")}  # where pip is told of its index
        step = ["sh", "-ec", self._here(command)]
        done = subprocess.run(step, cwd=self._cwd, env=env, capture_output=True, text=True, timeout=600, check=False)
        if done.returncode and NO_INDEX.search(done.stderr):
            pytest.skip("no package index can be reached")
        assert done.returncode == 0, f"{command}\n{done.stderr}"

    def start(self, *words: str, **env: str) -> subprocess.CompletedProcess[str]:
        """Run a command as a container does: not as root, in `/`, with no more environment than the image has."""
        return subprocess.run(
            words,
            cwd=self.root,
            env={**self.env, **env},
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
            **as_nobody(),
        )


def as_nobody() -> dict[str, Any]:
    """Return how to become nobody; whoever is not root stays himself, and has lost the right to write."""
    return {"user": NOBODY, "group": NOBODY, "extra_groups": []} if os.geteuid() == 0 else {}


def _script(path: Path, *words: object) -> None:
    path.write_text(f'#!/bin/sh\nexec {" ".join(map(str, words))} "$@"\n')
    path.chmod(0o755)


def sent() -> list[str]:
    """Return what at the top of the tree the engine would be sent."""
    rules = [line for line in (ROOT / ".dockerignore").read_text().splitlines() if line and line[0] != "#"]
    names = [rule[1:] for rule in rules if rule[0] == "!"]
    assert rules[0] == "*"
    assert set(rules[1:]) - {f"!{name}" for name in names} == {"**/__pycache__", "**/*.pyc"}
    return names


def copy_context(target: Path, names: list[str]) -> None:
    assert set(names) <= set(sent())
    for name in names:
        if (ROOT / name).is_dir():
            ignored = shutil.ignore_patterns("__pycache__", "*.pyc")
            shutil.copytree(ROOT / name, target / name, ignore=ignored, dirs_exist_ok=True)
        else:
            shutil.copy(ROOT / name, target / name)


def an_interpreter() -> Path:
    """Return a Python like this one that nobody can start."""
    same = f"import sys, venv; sys.exit(sys.version_info[:2] != {sys.version_info[:2]})"
    for found in (Path(sys.executable).resolve(), Path("/usr/bin/python3")):
        try:
            probe = subprocess.run([found, "-c", same], cwd="/", capture_output=True, check=False, **as_nobody())
        except OSError:
            continue
        if probe.returncode == 0:
            return found
    pytest.skip("no Python that a user without rights can start")


@pytest.fixture(scope="module")
def image() -> Iterator[Image]:
    # Not below pytest's folder, which others may not enter.
    root = Path(tempfile.mkdtemp(prefix="image-"))
    root.chmod(0o755)
    try:
        made = Image(root, an_interpreter())
        made.build()
        for path in [root, *root.rglob("*")]:
            if not path.is_symlink():
                path.chmod(path.stat().st_mode & ~(stat.S_IWUSR | stat.S_IWGRP | stat.S_IWOTH))
        yield made
    finally:
        for path in [root, *(one for one in root.rglob("*") if one.is_dir() and not one.is_symlink())]:
            path.chmod(0o755)
        shutil.rmtree(root)


def setup() -> configparser.ConfigParser:
    config = configparser.ConfigParser()
    config.read(ROOT / "setup.cfg")
    return config


def build_arguments() -> dict[str, str]:
    """Return the arguments that `make image` gives the build."""
    command = ["make", "--dry-run", "image", "ENGINE=true", "SOURCE=https://example.com/code"]
    shown = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60, check=True).stdout
    words = shlex.split(shown)
    return dict(after.split("=", 1) for word, after in itertools.pairwise(words) if word == "--build-arg")


def test_both_stages_start_from_one_digest() -> None:
    base = "${PYTHON_IMAGE}@${PYTHON_DIGEST}"
    assert [instruction.rest for instruction in instructions() if instruction.word == "FROM"] == [
        f"{base} AS build",
        base,
    ]
    name, digest = (instruction.rest for instruction in instructions()[:2] if instruction.word == "ARG")
    assert re.fullmatch(r"PYTHON_IMAGE=docker\.io/library/python:3\.\d+\.\d+-slim-\w+", name)
    assert re.fullmatch(r"PYTHON_DIGEST=sha256:[0-9a-f]{64}", digest)


def test_the_labels_say_what_the_package_says_and_the_build_fills_in() -> None:
    labels = dict(pair.split("=", 1) for pair in shlex.split(only("LABEL").rest))
    labels = {name.removeprefix("org.opencontainers.image."): value for name, value in labels.items()}
    metadata = setup()["metadata"]
    assert labels.pop("title") == "Node autoscaler"
    assert (labels.pop("description"), labels.pop("licenses")) == (metadata["description"], metadata["license"])
    assert (labels.pop("base.name"), labels.pop("base.digest")) == ("${PYTHON_IMAGE}", "${PYTHON_DIGEST}")
    given = build_arguments()
    assert labels == {name.lower(): f"${{{name}}}" for name in given}
    assert (given["VERSION"], given["SOURCE"]) == (metadata["version"], "https://example.com/code")
    declared = [instruction.rest for instruction in instructions() if instruction.word == "ARG"]
    assert set(declared[2:]) == {"PYTHON_IMAGE", "PYTHON_DIGEST", *given}


def test_the_last_stage_takes_no_source_and_has_no_root() -> None:
    made = instructions()
    last = made[max(place for place, one in enumerate(made) if one.word == "FROM") :]
    assert [one.rest for one in last if one.word == "COPY"] == ["--from=build /autoscaler /autoscaler"]
    assert only("USER").rest == f"{NOBODY}:{NOBODY}"
    assert last.index(only("USER")) < last.index(only("ENTRYPOINT"))


def test_the_entry_point_starts_without_rights(image: Image) -> None:
    done = image.start(*only("ENTRYPOINT").exec_form, "--version")
    assert (done.returncode, done.stdout.strip()) == (0, f"autoscaler {setup()['metadata']['version']}"), done.stderr


def test_the_command_of_other_installations_starts_the_same(image: Image) -> None:
    done = image.start("./cluster-autoscaler", "--help")
    assert done.returncode == 0, done.stderr
    assert "autoscaler" in done.stdout
    assert image.start("./cluster-autoscaler", "--cloud-provider=none-such").returncode == 2


@pytest.mark.parametrize("folder", [".", "autoscaler", "autoscaler/bin"])
def test_nothing_in_it_can_be_written(image: Image, folder: str) -> None:
    done = image.start("python", "-c", f"open({folder + '/new'!r}, 'w')")
    assert "Permission denied" in done.stderr


def test_the_wheel_holds_every_file_of_the_packages(image: Image) -> None:
    (wheel,) = (image.root / "wheels").glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        packed = {name for name in archive.namelist() if ".dist-info/" not in name}
    files = {path.relative_to(ROOT) for top in ("autoscaler", "cloudprovider") for path in (ROOT / top).rglob("*.*")}
    assert packed == {str(path) for path in files if path.suffix != ".pyc"}


def test_it_holds_all_that_the_code_imports(image: Image) -> None:
    every = (
        "import importlib, pkgutil, autoscaler, cloudprovider, grpc\n"
        "for package in (autoscaler, cloudprovider):\n"
        "    for module in pkgutil.walk_packages(package.__path__, package.__name__ + '.'):\n"
        "        if module.name != 'autoscaler.__main__':\n"
        "            importlib.import_module(module.name)\n"
        "print(autoscaler.__file__)\n"
    )
    done = image.start("python", "-c", every)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(f"{image.root}/autoscaler/lib/"), "what is installed, not the source"


def test_a_whole_cluster_settles_with_nothing_but_a_folder_for_temporary_files(image: Image) -> None:
    with tempfile.TemporaryDirectory(prefix="image-tmp-") as writable:
        Path(writable).chmod(0o777)
        words = ("demo", "--until-settled", "--timeout", "120s", "-o", "json")
        done = image.start(*only("ENTRYPOINT").exec_form, *words, TMPDIR=writable)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["settled"] is True


class Answering(BaseHTTPRequestHandler):
    status = 200

    def do_GET(self) -> None:
        self.send_response(self.status if self.path == "/health-check" else 404)
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """Nobody reads it."""


def checked(image: Image, status: int) -> int:
    handler = type("Handler", (Answering,), {"status": status})
    with HTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            words = [word.replace(":8085", f":{server.server_port}") for word in only("HEALTHCHECK").exec_form]
            return image.start(*words).returncode
        finally:
            server.shutdown()
            thread.join()


@pytest.mark.parametrize(("status", "healthy"), [(200, True), (500, False)])
def test_the_health_check_is_that_of_the_liveness_probe(image: Image, status: int, healthy: bool) -> None:
    assert (checked(image, status) == 0) is healthy
