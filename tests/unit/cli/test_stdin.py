"""`-` is standard input wherever a command reads a file."""

import io
import json
import tempfile
from pathlib import Path

import pytest

from autoscaler.cli.main import main

ROOT = Path(__file__).parents[3]
SCENARIO = (ROOT / "docs/scenarios/pending-pods.yaml").read_text()
SIMULATION = """
duration: 2m
nodeGroups: [{id: a, minSize: 0, maxSize: 1, template: {capacity: {cpu: 1, memory: 1Gi}}}]
"""
HEADROOM = """
headroom:
  pools:
    - name: spare
      namespace: default
      resources: {cpu: 100m}
      policies: [{name: always, idleCount: 1, idleTime: 0s}]
"""
RESERVATIONS = """
reservations:
  targets:
    - name: runners
      podTemplate: {spec: {containers: [{name: c, resources: {requests: {cpu: 1}}}]}}
      podSelector: app=x
      podNamespaces: [default]
"""
GROUPS = """
groups: [{id: web, minSize: 0, maxSize: 3, template: {capacity: {cpu: "4", memory: 16Gi}}}]
"""
POD = json.dumps({"spec": {"containers": [{"resources": {"requests": {"cpu": "1"}}}]}})
_NODE = {"name": "n", "creationTimestamp": "2026-01-05T12:00:00Z"}
_STATUS = {"allocatable": {"cpu": "4", "memory": "16Gi", "pods": "110"}}
NODE = json.dumps({"items": [{"apiVersion": "v1", "kind": "Node", "metadata": _NODE, "status": _STATUS}]})


class _Stdin:
    def __init__(self, text: str) -> None:
        self.buffer = io.BytesIO(text.encode())


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "tmp"))
    (tmp_path / "tmp").mkdir()
    for name, text in {"scenario.yaml": SCENARIO, "headroom.yaml": HEADROOM, "node.json": NODE}.items():
        (tmp_path / name).write_text(text)
    return tmp_path


@pytest.mark.parametrize(
    ("words", "text"),
    [
        pytest.param(["plan", "--scenario", "-"], SCENARIO, id="scenario"),
        pytest.param(["plan", "--scenario=-"], SCENARIO, id="scenario behind ="),
        pytest.param(["plan", "--objects", "-"], NODE, id="objects"),
        pytest.param(["plan", "--objects", "{}/node.json", "--groups", "-"], GROUPS, id="groups"),
        pytest.param(["scenario", "anonymize", "-"], SCENARIO, id="to make anonymous"),
        pytest.param(["scenario", "from-dump", "-"], NODE, id="to import"),
        pytest.param(["simulate", "-"], SIMULATION, id="simulation"),
        pytest.param(["eta", "plan", "--scenario", "-"], SCENARIO, id="scenario of estimates"),
        pytest.param(["eta", "plan", "--scenario", "{}/scenario.yaml", "--pod", "-"], POD, id="pod"),
        pytest.param(["eta", "plan", "--scenario", "{}/scenario.yaml", "--boots", "-"], '{"web": [60]}', id="boots"),
        pytest.param(["config", "check", "-"], "loop: {scanInterval: 20s}", id="configuration"),
        pytest.param(["headroom", "plan", "-"], HEADROOM, id="headroom"),
        pytest.param(["headroom", "plan", "{}/headroom.yaml", "--objects=-"], NODE, id="objects of headroom"),
        pytest.param(["headroom", "validate", "-"], HEADROOM, id="headroom to check"),
        pytest.param(["reservations", "plan", "-"], RESERVATIONS, id="reservations"),
        pytest.param(
            ["plan", "--objects={}/node.json", "--config", "-"], "loop: {scanInterval: 20s}", id="daemon's file"
        ),
    ],
)
def test_it_is_read(
    files: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], words: list[str], text: str
) -> None:
    monkeypatch.setattr("sys.stdin", _Stdin(text))
    assert main([word.replace("{}", str(files)) for word in words]) == 0, capsys.readouterr().err
    assert capsys.readouterr().out
    assert list((files / "tmp").iterdir()) == []


def test_a_mistake_in_it_is_one_line(
    files: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.stdin", _Stdin("loop: {scanIntervall: 20s}"))
    assert main(["config", "check", "-"]) == 2
    said = "standard input: loop.scanIntervall: unknown key; did you mean loop.scanInterval?\n"
    assert capsys.readouterr().err == said
    assert list((files / "tmp").iterdir()) == []


def test_a_file_that_is_written_may_have_that_name(
    files: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(files)
    assert main(["scenario", "anonymize", "scenario.yaml", "--to", "-"]) == 0
    assert Path("-").read_text()


def test_nowhere_to_keep_it_is_one_line(
    files: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(files / "gone"))
    monkeypatch.setattr("sys.stdin", _Stdin(""))
    assert main(["config", "check", "-"]) == 2
    said = "-: standard input cannot be stored in a temporary file: No such file or directory\n"
    assert capsys.readouterr().err == said
