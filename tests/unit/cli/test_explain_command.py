"""`autoscaler explain`: what may be asked about, and who answers: a daemon, the cluster, or a file."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from autoscaler.cli.main import main
from autoscaler.clock import SystemClock
from autoscaler.explain.api import Explanation
from autoscaler.explain.explain import parse_targets
from autoscaler.observe.http.public_json import public
from autoscaler.sandbox.apiserver.server import ApiServer
from autoscaler.sandbox.apiserver.storage import Storage
from autoscaler.scenario.codec import load
from autoscaler.simulator.play import play_and_explain
from tests.unit.cli.test_plan_explain import a_file
from tests.unit.kube.scripted import Reply, ScriptedApi, ok, scripted_api, status

LEADS = ok({"process": {"leading": True, "identity": "me"}})
STANDS_BY = ok({"process": {"leading": False, "identity": "me"}})
STATUS, EXPLAIN = "/api/v1/status", "/api/v1/explain"
INSIDE = "/api/v1/namespaces/kube-system"
POD = f"{INSIDE}/pods/ca-1:8085/proxy"
SERVICE = f"{INSIDE}/services/cluster-autoscaler:http/proxy"
FORBIDDEN = status(403, "pods is forbidden: you may not")
PODS = ok({"items": [{"metadata": {"name": "ca-1"}, "spec": {"containers": [{"ports": [
    {"name": "http", "containerPort": 8085}]}]}}]})  # fmt: skip


@pytest.fixture
def api() -> Iterator[ScriptedApi]:
    with scripted_api() as api:
        yield api


def an_answer(folder: Path, target: str = "pod/default/huge") -> dict[str, Any]:
    """Return what a daemon answers about the cluster of `a_file`."""
    (explained,) = play_and_explain(load(a_file(folder)), parse_targets([target])).explained
    answer: dict[str, Any] = public(Explanation(pass_started_at=1767614400.0, explanation=explained))
    return answer


def a_kubeconfig(folder: Path, url: str, **context: str) -> str:
    document = {
        "current-context": "here",
        "clusters": [{"name": "c", "cluster": {"server": url}}],
        "contexts": [{"name": "here", "context": {"cluster": "c", **context}}],
    }
    path = folder / "kubeconfig"
    path.write_text(json.dumps(document))
    return f"--kubeconfig={path}"


@pytest.mark.parametrize(
    "words",
    [
        pytest.param(("pod/default/huge",), id="in full"),
        pytest.param(("pod/huge",), id="in the default namespace"),
        pytest.param(("pod", "huge"), id="as two words"),
        pytest.param(("po/huge", "-n", "default"), id="a short kind"),
        pytest.param(("pods", "huge", "--namespace=default"), id="a plural"),
    ],
)
def test_a_pod_is_named_in_many_ways(tmp_path: Path, capsys: pytest.CaptureFixture[str], words: tuple[str]) -> None:
    path = a_file(tmp_path)
    assert main(["plan", "--scenario", path, "--explain", "pod/default/huge"]) == 0
    expected = capsys.readouterr().out
    assert main(["explain", *words, "--scenario", path]) == 0
    assert capsys.readouterr().out == expected


def test_several_things_are_explained_at_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", "no/n1", "group/small", "--scenario", a_file(tmp_path), "-o", "json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert [one["target"] for one in answer["explained"]] == ["node/n1", "group/small"]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        pytest.param(("huge",), "huge: write pod/NAMESPACE/NAME, node/NAME or group/ID", id="no kind"),
        pytest.param(("deploy/web",), "deploy/web: write pod/NAMESPACE/NAME, node/NAME or group/ID", id="other kind"),
        pytest.param(("pod",), "pod: write pod/NAMESPACE/NAME, node/NAME or group/ID", id="no name"),
        pytest.param(("node/x",), "node/x: no such node; nodes are: n1", id="not there"),
        pytest.param((), "TARGET: is missing (autoscaler explain --help describes it)", id="nothing"),
        pytest.param(
            ("pod/huge", "--daemon=localhost:8085"),
            "--daemon: 'localhost:8085' is not a URL such as http://127.0.0.1:8085",
            id="no URL",
        ),
    ],
)
def test_bad_input_is_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], words: tuple[str, ...], said: str
) -> None:
    source = () if "--daemon" in " ".join(words) else ("--scenario", a_file(tmp_path))
    assert main(["explain", *words, *source]) == 2
    assert capsys.readouterr().err == f"{said}\n"


class TestADaemonByItsAddress:
    def test_it_answers_like_the_plan(
        self, api: ScriptedApi, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        api.script(f"GET {STATUS}", LEADS)
        api.script(f"GET {EXPLAIN}", ok(an_answer(tmp_path)))
        assert main(["explain", "pod/huge", "--daemon", api.url, "-o", "json"]) == 0
        answer = json.loads(capsys.readouterr().out)
        assert main(["plan", "--scenario", a_file(tmp_path), "--explain", "pod/default/huge", "-o", "json"]) == 0
        assert answer["explained"] == json.loads(capsys.readouterr().out)["explained"]
        assert (answer["name"], answer["at"]) == (api.url, "2026-01-05T12:00:00.000Z")
        assert api.asked[-1].query == {"pod": "default/huge"}

    def test_it_has_not_seen_what_is_asked_for(self, api: ScriptedApi, capsys: pytest.CaptureFixture[str]) -> None:
        api.script(f"GET {STATUS}", LEADS)
        api.script(f"GET {EXPLAIN}", Reply(404, b'{"error": {"code": "not_found"}}'))
        assert main(["explain", "node", "a", "b", "--daemon", api.url]) == 2
        assert capsys.readouterr().err.splitlines() == [
            f"node/{name}: the last pass of {api.url} saw no such node" for name in "ab"
        ]

    @pytest.mark.parametrize(
        ("replies", "said"),
        [
            pytest.param([STANDS_BY], "{url} does not lead", id="standby"),
            pytest.param(
                [status(404)],
                "{url} is not the address of this autoscaler: it has no /api/v1/status",
                id="other server",
            ),
            pytest.param(
                [LEADS, ok({"explanation": None, "notExplained": "busy\x1b[2J", "passStartedAt": None})],
                r"{url} does not explain node/a: busy\u001b[2J",
                id="no time",
            ),
            pytest.param(
                [ok([])],
                "{url} gives an answer that this version does not understand: Expected `object`, got `array`",
                id="another form",
            ),
            pytest.param(
                [Reply(200, b'{"x": ' + b"[" * 100_000)],
                "{url} gives an answer that this version does not understand: it is nested too deeply",
                id="nested deeply",
            ),
            pytest.param(
                [Reply(200, b" " * (4 * 1024**2 + 1))],
                "the daemon {url}: an answer of more than 4194304 bytes",
                id="endless",
            ),
        ],
    )
    def test_it_cannot_be_used(
        self, api: ScriptedApi, capsys: pytest.CaptureFixture[str], replies: list[Reply], said: str
    ) -> None:
        for path, reply in zip((STATUS, EXPLAIN), replies, strict=False):
            api.script(f"GET {path}", reply)
        assert main(["explain", "node/a", "--daemon", api.url]) == 1
        assert capsys.readouterr().err == f"autoscaler: {said.format(url=api.url)}\n"

    def test_nothing_in_an_answer_reaches_the_terminal_raw(
        self, api: ScriptedApi, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        answer = an_answer(tmp_path)
        answer["explanation"]["message"] = "\x1b]0;title\x07"
        api.script(f"GET {STATUS}", LEADS)
        api.script(f"GET {EXPLAIN}", ok(answer))
        assert main(["explain", "pod/huge", "--daemon", api.url]) == 0
        assert r"\u001b]0;title\u0007" in capsys.readouterr().out


class TestADaemonInTheCluster:
    def test_its_pod_is_asked(self, api: ScriptedApi, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        api.script(f"GET {INSIDE}/pods", PODS)
        api.script(f"GET {POD}{STATUS}", LEADS)
        api.script(f"GET {POD}{EXPLAIN}", ok(an_answer(tmp_path)))
        assert main(["explain", "pod/huge", a_kubeconfig(tmp_path, api.url, namespace="shop")]) == 0
        captured = capsys.readouterr()
        assert captured.err == "the autoscaler kube-system/ca-1 answers\n"
        assert captured.out.startswith("kube-system/ca-1, run 0 at 2026-01-05T12:00:00.000Z: pod/default/huge: NoGroup")
        assert api.asked[-1].query == {"pod": "shop/huge"}

    @pytest.mark.parametrize(
        ("pods", "of_pod"),
        [
            pytest.param(FORBIDDEN, None, id="pods may not be listed"),
            pytest.param(PODS, FORBIDDEN, id="the proxy of pods may not be used"),
            pytest.param(PODS, STANDS_BY, id="the pod does not lead"),
            pytest.param(PODS, status(404), id="the pod is Cluster Autoscaler's"),
        ],
    )
    def test_its_service_is_asked_next(
        self, api: ScriptedApi, tmp_path: Path, pods: Reply, of_pod: Reply | None
    ) -> None:
        api.script(f"GET {INSIDE}/pods", pods)
        if of_pod is not None:
            api.script(f"GET {POD}{STATUS}", of_pod)
        api.script(f"GET {SERVICE}{STATUS}", LEADS)
        api.script(f"GET {SERVICE}{EXPLAIN}", ok(an_answer(tmp_path)))
        assert main(["explain", "pod/huge", a_kubeconfig(tmp_path, api.url)]) == 0
        assert api.asked[-1].path == f"{SERVICE}{EXPLAIN}"

    def test_a_service_is_asked_until_the_leader_answers(self, api: ScriptedApi, tmp_path: Path) -> None:
        api.script(f"GET {INSIDE}/pods", FORBIDDEN)
        api.script(f"GET {SERVICE}{STATUS}", STANDS_BY, LEADS)
        api.script(f"GET {SERVICE}{EXPLAIN}", status(404), ok(an_answer(tmp_path)))
        assert main(["explain", "pod/huge", a_kubeconfig(tmp_path, api.url)]) == 0

    def test_a_service_that_fails_is_asked_once(self, api: ScriptedApi, tmp_path: Path) -> None:
        api.script(f"GET {INSIDE}/pods", FORBIDDEN)
        api.script(f"GET {SERVICE}{STATUS}", status(503, "no endpoints available"))
        assert main(["explain", "pod/huge", a_kubeconfig(tmp_path, api.url)]) == 1
        assert [asked.path for asked in api.asked].count(f"{SERVICE}{STATUS}") == 1

    def test_it_is_looked_for_in_another_namespace(self, api: ScriptedApi, tmp_path: Path) -> None:
        place = "/api/v1/namespaces/scaling/services/node-autoscaler:http/proxy"
        api.script("GET /api/v1/namespaces/scaling/pods", ok({"items": []}))
        api.script("GET /api/v1/namespaces/scaling/services/cluster-autoscaler:http/proxy/api/v1/status", status(404))
        api.script(f"GET {place}{STATUS}", LEADS)
        api.script(f"GET {place}{EXPLAIN}", ok(an_answer(tmp_path)))
        flags = (a_kubeconfig(tmp_path, api.url), "--daemon-namespace=scaling")
        assert main(["explain", "pod/huge", *flags]) == 0


def test_without_a_daemon_the_cluster_is_read(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    storage = Storage(SystemClock())
    storage.create("nodes", {"metadata": {"name": "n1"}})
    with ApiServer(storage) as server:
        server.write_kubeconfig(tmp_path / "kubeconfig")
        assert main(["explain", "node/n1", "--kubeconfig", str(tmp_path / "kubeconfig"), "--context=sandbox"]) == 0
    captured = capsys.readouterr()
    assert captured.err.splitlines()[0] == (
        "no autoscaler answers at kube-system/cluster-autoscaler, kube-system/node-autoscaler; "
        "reading the cluster instead"
    )
    assert ": node/n1: " in captured.out.splitlines()[0]


def test_an_api_server_that_is_away_is_told_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", "node/n1", a_kubeconfig(tmp_path, "http://127.0.0.1:1")]) == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("autoscaler: API server http://127.0.0.1:1 is unreachable: ")


def test_the_plugin_of_kubectl_names_itself(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", "--help"], program="kubectl autoscaler") == 0
    assert capsys.readouterr().out.startswith("usage: kubectl autoscaler explain ")
    assert main(["explian"], program="kubectl autoscaler") == 2
    assert "(kubectl autoscaler --help lists them)" in capsys.readouterr().err
