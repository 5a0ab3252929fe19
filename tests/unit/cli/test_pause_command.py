"""`autoscaler pause` and `autoscaler resume`: what they write to a cluster, and what they refuse."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from autoscaler.cli.main import main
from autoscaler.clock import SystemClock
from autoscaler.reasons import PauseScope
from autoscaler.sandbox.apiserver.faults import Fault
from autoscaler.sandbox.apiserver.server import ApiServer
from autoscaler.sandbox.apiserver.storage import Storage
from autoscaler.scaledown.pause import Pause, read_entry

NAME = "cluster-autoscaler-pause"
STATUS = "autoscalerStatus: Running\nnodeGroups:\n- name: web\n- name: batch\n"


@pytest.fixture
def server() -> Iterator[ApiServer]:
    with ApiServer(Storage(SystemClock())) as made:
        yield made


class Commands:
    """The two commands against one server."""

    def __init__(self, server: ApiServer, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self.server = server
        self._capsys = capsys
        self._kubeconfig = str(folder / "kubeconfig")
        server.write_kubeconfig(folder / "kubeconfig")

    def run(self, *words: str) -> tuple[int, str]:
        """Return the exit status, and what was printed."""
        status = main([*words, f"--kubeconfig={self._kubeconfig}"])
        said = self._capsys.readouterr()
        return status, said.out + said.err

    def put(self, data: dict[str, str], name: str = NAME, **meta: Any) -> None:
        self.server.storage.create(
            "configmaps", {"metadata": {"name": name, "namespace": "kube-system", **meta}, "data": data}
        )

    @property
    def held(self) -> dict[str, Any]:
        found: dict[str, Any] = self.server.storage.get("configmaps", NAME, "kube-system")
        return found

    @property
    def pauses(self) -> list[Pause]:
        return [read_entry(name, text) for name, text in self.held["data"].items()]


@pytest.fixture
def commands(server: ApiServer, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Commands:
    return Commands(server, tmp_path, capsys)


def test_a_pause_is_written_with_its_end_its_reason_and_who_set_it(commands: Commands) -> None:
    status, said = commands.run("pause", "--for=2h", "--reason=release 1.2: freeze")
    assert status == 0
    (pause,) = commands.pauses
    assert (pause.name, pause.scope, pause.groups) == ("scale-down", PauseScope.SCALE_DOWN, ())
    assert pause.reason == "release 1.2: freeze"
    assert pause.by
    assert pause.since is not None
    assert pause.until == pause.since + 7200
    assert said == f"scale-down: {pause.words}\n"


@pytest.mark.parametrize("scope", list(PauseScope))
def test_each_scope_has_its_option(commands: Commands, scope: PauseScope) -> None:
    assert commands.run("pause", "--for=1m", "--reason=x", f"--{scope}")[0] == 0
    assert [pause.scope for pause in commands.pauses] == [scope]


def test_others_pauses_stay_and_those_that_are_over_go(commands: Commands) -> None:
    commands.put({"freeze": "scope: all", "old": "until: 2020-01-01T00:00:00Z", "odd": "?!: ["})
    assert commands.run("pause", "--for=1m", "--reason=x", "--group=web", "--group=batch")[0] == 0
    assert {"freeze", "odd"} < commands.held["data"].keys()
    assert "old" not in commands.held["data"]
    (ours,) = (pause for pause in commands.pauses if pause.reason == "x")
    assert ours.groups == ("web", "batch")


def test_a_group_that_does_not_exist_is_refused(commands: Commands) -> None:
    commands.put({"status": STATUS}, "cluster-autoscaler-status")
    assert commands.run("pause", "--for=1m", "--reason=x", "--group=wed") == (
        2,
        "--group: there is no group wed; did you mean web?\n",
    )
    assert commands.run("pause", "--for=1m", "--reason=x", "--group=web")[0] == 0


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("--reason=x",), "--for: is missing (autoscaler pause --help describes it)"),
        (("--for=2h",), "--reason: is missing (autoscaler pause --help describes it)"),
        (("--for=2 hours", "--reason=x"), "--for: '2 hours' is not a duration; write a number with a unit, such as"),
        (("--for=0s", "--reason=x"), "--for: '0s' is not above 0 and at most a year; write for example 2h"),
        (("--for=9000h", "--reason=x"), "--for: '9000h' is not above 0 and at most a year"),
        (("--for=1h", "--reason=x", "--all", "--disruption"), "--disruption: not allowed with argument --all"),
        (("--for=1h", "--reason=x", "web"), "web: is not a flag"),
    ],
)
def test_bad_input_is_one_clear_line(commands: Commands, words: tuple[str, ...], says: str) -> None:
    status, said = commands.run("pause", *words)
    assert status == 2
    assert said.startswith(says)
    assert said.count("\n") == 1


def test_somebody_who_may_not_write_is_told(commands: Commands) -> None:
    commands.server.faults.add(Fault(resource="configmaps", code=403))
    status, said = commands.run("pause", "--for=1m", "--reason=x")
    assert status == 1
    assert "403" in said


def test_a_change_in_between_is_not_lost(commands: Commands) -> None:
    commands.put({"freeze": "scope: all"})
    commands.server.faults.add(Fault(resource="configmaps", verb="update", code=409, times=1))
    assert commands.run("pause", "--for=1m", "--reason=x")[0] == 0
    assert set(commands.held["data"]) == {"freeze", "scale-down"}


def test_resume_lifts_everything_annotations_too(commands: Commands) -> None:
    until = {"pause.autoscaler/until": "2099-01-01T00:00:00Z", "team": "a"}
    commands.put({"freeze": "scope: all", "drift": "scope: drift"}, annotations=until)
    assert commands.run("resume") == (
        0,
        "freeze: resumed\ndrift: resumed\nthe annotations of the ConfigMap: resumed\n",
    )
    assert commands.held.get("data", {}) == {}
    assert commands.held["metadata"]["annotations"] == {"team": "a"}
    assert commands.run("resume") == (0, "nothing is paused\n")


def test_resume_lifts_pauses_by_name(commands: Commands) -> None:
    commands.put({"freeze": "scope: all", "drift": "scope: drift"})
    assert commands.run("resume", "drift") == (0, "drift: resumed\n")
    assert set(commands.held["data"]) == {"freeze"}
    assert commands.run("resume", "freese") == (2, "freese: no pause has that name; did you mean freeze?\n")


def test_resume_lifts_pauses_of_groups_and_leaves_the_others_of_the_same_pause(commands: Commands) -> None:
    commands.put({"a": "{groups: [web, batch], reason: x}", "b": "groups: [web]", "everything": "scope: drift"})
    assert commands.run("resume", "--group=web") == (0, "a: resumed for these groups\nb: resumed\n")
    assert {pause.name: pause.groups for pause in commands.pauses} == {"a": ("batch",), "everything": ()}
    assert commands.run("resume", "--group=web") == (
        2,
        "--group: no pause is of group web alone; the whole cluster is paused by everything\n",
    )


def test_where_nothing_was_ever_paused_resume_says_so(commands: Commands) -> None:
    assert commands.run("resume") == (0, "nothing is paused\n")
