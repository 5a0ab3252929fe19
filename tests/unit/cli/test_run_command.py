"""What `autoscaler run` answers to a user's mistakes: a line for each, status 2, and no traceback."""

import json
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from autoscaler.cli.main import main

ROOT = Path(__file__).parents[3]
NOBODY = "http://127.0.0.1:1"
"""No API server listens there: mistakes have to be found without one."""

Files = Mapping[str, str]
Run = Callable[[Sequence[str], Files], int]


def a_kubeconfig(**cluster: str) -> str:
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "here",
        "contexts": [{"name": "here", "context": {"cluster": "here"}}],
        "clusters": [{"name": "here", "cluster": {"server": NOBODY, **cluster}}],
    }
    return json.dumps(document)


def a_group(**fields: Any) -> dict[str, Any]:
    template = {"capacity": {"cpu": "4", "memory": "16Gi"}}
    return {"id": "web", "minSize": 0, "maxSize": 3, "template": template, **fields}


def groups(*listed: Any, **more: Any) -> str:
    return json.dumps({"groups": list(listed), **more})


GOOD: Files = {"kubeconfig": a_kubeconfig(), "groups": groups(a_group())}
STATIC = ("--cloud-provider=static", "--cloud-config=groups")

CASES = [
    pytest.param([], {}, ["cloud-provider: none is chosen"], id="no provider"),
    pytest.param(["--cloud-provider=awz"], {}, ["cloud-provider: 'awz' is not installed"], id="unknown provider"),
    pytest.param(
        ["--cloud-provider=awz", "--scan-interval=soon"],
        {},
        ["cloud-provider: 'awz' is not installed", "--scan-interval: "],
        id="unknown provider and a bad value at once",
    ),
    pytest.param(
        ["--scan-interval=soon"],
        {"kubeconfig": ""},
        ["cloud-provider: none is chosen", "--scan-interval: "],
        id="no provider and a bad value, before any other file is read",
    ),
    pytest.param([*STATIC, "--scan-intervall=1s"], {}, ["--scan-intervall: ", "scan-interval"], id="misspelt flag"),
    pytest.param(
        [*STATIC, "--scan-interval=soon", "--expander=best", "--max-nodes-total=all"],
        {},
        ["--scan-interval: ", "--expander: ", "--max-nodes-total: "],
        id="three bad values at once",
    ),
    pytest.param([*STATIC, "--address=nowhere"], {}, ["--address: "], id="address without a port"),
    pytest.param([*STATIC, "--config=settings"], {"settings": "a: ["}, ["settings"], id="broken configuration file"),
    pytest.param([*STATIC, "--config=nope"], {}, ["nope: cannot be read: No such file"], id="no configuration file"),
    pytest.param(
        [*STATIC, "--leader-elect-lease-duration=5s"],
        {},
        ["--leader-elect-lease-duration: 5s must be longer than leader-elect-renew-deadline"],
        id="lease shorter than deadline",
    ),
    pytest.param([*STATIC, "--expander=price"], {}, ["expander", "price"], id="price expander without prices"),
    pytest.param(
        [*STATIC, "--expander=grpc", "--grpc-expander-url=127.0.0.1:1", "--grpc-expander-cert=nope.pem"],
        {},
        ["grpc-expander-cert: nope.pem cannot be read: No such file"],
        id="certificate of the gRPC expander not there",
    ),
    pytest.param([*STATIC, "--kubernetes=ftp://x"], {}, ["--kubernetes", "ftp://x"], id="API server of another kind"),
    pytest.param(STATIC, {"kubeconfig": ""}, ["kubeconfig", "no mapping"], id="empty kubeconfig"),
    pytest.param(STATIC, {"kubeconfig": "a: [\n"}, ["kubeconfig", "not YAML"], id="kubeconfig that is not YAML"),
    pytest.param(
        STATIC, {"kubeconfig": "contexts: []"}, ["kubeconfig", "current-context is not set"], id="without a context"
    ),
    pytest.param(
        STATIC, {"kubeconfig": a_kubeconfig(server="here")}, ["cluster.server 'here'"], id="server that is no URL"
    ),
    pytest.param(
        STATIC,
        {"kubeconfig": a_kubeconfig(server="https://127.0.0.1:1", **{"certificate-authority": "nope.pem"})},
        ["kubeconfig kubeconfig: ", "nope.pem"],
        id="authority's certificate not there",
    ),
    pytest.param(["--cloud-provider=static"], {}, ["cloud-config: "], id="no groups file named"),
    pytest.param(
        ["--cloud-provider=static", "--cloud-config=nope"], {}, ["nope: cannot be read"], id="no such groups file"
    ),
    pytest.param(STATIC, {"groups": "groups: ["}, ["neither YAML nor JSON"], id="broken groups file"),
    pytest.param(STATIC, {"groups": "groups: []"}, ["groups", "at least one"], id="no groups"),
    pytest.param(
        STATIC,
        {"groups": groups(a_group(minSize="one"))},
        ["groups[0].minSize: must be a whole number"],
        id="wrong type",
    ),
    pytest.param(STATIC, {"groups": groups(a_group(minsize=1))}, ["groups[0].minsize: ", "minSize"], id="unknown key"),
    pytest.param(STATIC, {"groups": groups(a_group(minSize=-1))}, ["groups[0].minSize: "], id="negative size"),
    pytest.param(STATIC, {"groups": groups(a_group(minSize=4))}, ["groups[0].maxSize: 3 is below"], id="min over max"),
    pytest.param(
        STATIC, {"groups": groups(a_group(), a_group())}, ["groups[1].id: web is used by an earlier"], id="same id"
    ),
    pytest.param(
        STATIC,
        {"groups": groups(a_group(template={"capacity": {"cpu": "4 cores"}}))},
        ["groups[0].template.capacity[cpu]: ", "4 cores"],
        id="unparsable quantity",
    ),
    pytest.param(
        STATIC,
        {"groups": groups(a_group(minSize=-1), a_group(id="b", colour="red"), seed="x")},
        ["groups[0].minSize: ", "groups[1].colour: ", "seed: "],
        id="every problem of a groups file at once",
    ),
]


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Run in a folder with good files, replaced by those given."""
    monkeypatch.chdir(tmp_path)

    def run(flags: Sequence[str], files: Files) -> int:
        for name, text in {**GOOD, **files}.items():
            Path(name).write_text(text)
        return main(["run", "--kubeconfig=kubeconfig", "--address=127.0.0.1:0", *flags])

    return run


@pytest.mark.parametrize(("flags", "files", "said"), CASES)
def test_a_mistake_is_named_before_anything_starts(
    run: Run, capsys: pytest.CaptureFixture[str], flags: list[str], files: Files, said: list[str]
) -> None:
    assert run(flags, files) == 2
    printed = capsys.readouterr()
    problems = [line for line in printed.err.splitlines() if "daemon.started" not in line]
    assert [text for text in said if not any(text in line for line in problems)] == []
    assert len(problems) <= len(said), "one line for each problem"
    assert printed.out == ""


def test_a_process_ends_with_the_status_and_no_traceback(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "autoscaler", "run", "--cloud-provider=awz"],
        cwd=tmp_path,
        env={"PYTHONPATH": str(ROOT), "PATH": ""},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 2
    assert "cloud-provider: 'awz' is not installed" in done.stderr
    assert "Traceback" not in done.stderr


def test_no_kubeconfig_outside_a_cluster_says_what_to_do(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", "--kubeconfig=/nowhere/at/all", "--cloud-provider=static"]) == 2
    said = capsys.readouterr().err
    assert said.splitlines() == [
        "kubeconfig /nowhere/at/all: no such file; name an existing one with --kubeconfig",
    ]


@pytest.fixture
def taken_port() -> Iterator[int]:
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen()
        yield int(listening.getsockname()[1])


def test_a_port_in_use_is_named(run: Run, capsys: pytest.CaptureFixture[str], taken_port: int) -> None:
    assert run([*STATIC, f"--address=127.0.0.1:{taken_port}"], {}) == 2
    assert capsys.readouterr().err == f"address: cannot listen on 127.0.0.1:{taken_port}: Address already in use\n"


@pytest.mark.parametrize("option", ["--port", "--api-port"])
def test_a_port_of_the_demo_in_use_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], taken_port: int, option: str
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    assert main(["demo", option, str(taken_port)]) == 2
    assert "Address already in use" in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == []


@pytest.mark.parametrize(
    ("words", "said"),
    [
        pytest.param(["--port", "65536"], "--port", id="port beyond the last"),
        pytest.param(["--api-port", "-1"], "--api-port", id="port below the first"),
        pytest.param(["--timeout", "soon"], "--timeout", id="time that is none"),
        pytest.param(["--nope"], "--nope", id="unknown flag"),
        pytest.param(["-o", "html"], "html", id="unknown format"),
        pytest.param(
            ["--cloud-provider=kwok"], "--cloud-provider: the demo has a simulated cloud of its own", id="another cloud"
        ),
        pytest.param(["--nodes=1:3:web"], "--nodes: the demo has", id="groups of another cloud"),
        pytest.param(["--kubeconfig=/etc/x"], "--kubeconfig: the demo has a cluster", id="another cluster"),
    ],
)
def test_mistakes_of_the_demo_are_named(capsys: pytest.CaptureFixture[str], words: list[str], said: str) -> None:
    assert main(["demo", *words]) == 2
    assert said in capsys.readouterr().err


@pytest.mark.parametrize(
    ("scenario", "said"),
    [
        pytest.param("nodeGroups: [", "scenario", id="broken YAML"),
        pytest.param("name: x\nnodegroups: []", "nodegroups", id="unknown key"),
        pytest.param("name: x\nnodeGroups: 3", "nodeGroups", id="wrong type"),
        pytest.param("name: x\noptions: {scan-intervall: 1s}", "scan-intervall", id="unknown option"),
    ],
)
def test_mistakes_of_a_scenario_are_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], scenario: str, said: str
) -> None:
    path = tmp_path / "scenario.yaml"
    path.write_text(scenario)
    assert main(["plan", "--scenario", str(path), "-o", "json"]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert said in captured.err
    assert str(path) in captured.err
