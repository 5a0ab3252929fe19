"""`autoscaler provider`: lists installed providers, and checks whether a plug-in keeps the contract."""

import json
from pathlib import Path
from typing import Any

import pytest

from autoscaler.cli.main import main
from cloudprovider.interface import NodeRef
from cloudprovider.static.cloud import StaticCloud
from cloudprovider.static.file import load_cloud
from cloudprovider.static.group import StaticGroup

GROUP = {"id": "a", "minSize": 0, "maxSize": 6, "template": {"capacity": {"cpu": "4", "memory": "16Gi"}}}


class Forgetful(StaticCloud):
    """A provider that does not know its own machines."""

    def group_of(self, node: NodeRef) -> str | None:
        return None

    def groups(self) -> tuple[StaticGroup, ...]:
        return tuple(super().groups())


def forgetful(context: Any) -> Forgetful:
    """Make one from a groups file."""
    return Forgetful(load_cloud(context.config_file), context.now)


def a_number() -> int:
    return 3


def provider(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str, str]:
    status = main(["provider", *words])
    captured = capsys.readouterr()
    return status, captured.out, captured.err


@pytest.fixture
def groups_file(tmp_path: Path) -> str:
    path = tmp_path / "groups.json"
    groups = [{**GROUP, "bootSeconds": 0}, {**GROUP, "id": "b", "bootSeconds": 0}]
    path.write_text(json.dumps({"groups": groups}))
    return str(path)


class TestList:
    def test_json_has_the_documented_keys(self, capsys: pytest.CaptureFixture[str]) -> None:
        status, out, err = provider(capsys, "list", "-o", "json")
        listed = {one["name"]: one for one in json.loads(out)}
        assert (status, err) == (0, "")
        assert list(listed) == sorted(listed)
        assert {"kwok", "static"} <= set(listed)
        assert list(listed["static"]) == ["name", "module", "extra", "abilities"]
        assert listed["static"]["module"] == "cloudprovider.static"
        assert "Pricing" in listed["static"]["abilities"]

    def test_a_table_is_for_people(self, capsys: pytest.CaptureFixture[str]) -> None:
        status, out, _ = provider(capsys, "list")
        assert status == 0
        assert out.splitlines()[0].split() == ["NAME", "MODULE", "EXTRA", "ABILITIES"]
        assert [line.split()[:2] for line in out.splitlines() if line.startswith("kwok")] == [
            ["kwok", "cloudprovider.kwok"]
        ]


class TestCheck:
    def test_a_good_provider_passes(self, capsys: pytest.CaptureFixture[str], groups_file: str) -> None:
        words = ("check", "cloudprovider.static:create", "--cloud-config", groups_file, "-o", "json")
        status, out, err = provider(capsys, *words)
        results = json.loads(out)
        assert (status, err) == (0, "")
        assert len(results) > 5
        assert [one["check"] for one in results if one["passed"] is False] == []
        assert any(one["passed"] for one in results)

    def test_a_bad_one_fails_and_is_told_why(self, capsys: pytest.CaptureFixture[str], groups_file: str) -> None:
        words = ("check", f"{__name__}:forgetful", "--cloud-config", groups_file)
        status, out, _ = provider(capsys, *words)
        assert status == 1
        assert [line for line in out.splitlines() if "FAILED" in line] != []

    @pytest.mark.parametrize(
        ("words", "said"),
        [
            pytest.param(["nonsense"], "nonsense", id="not MODULE:NAME"),
            pytest.param(["no.such.module:X"], "no.such.module", id="no such module"),
            pytest.param(["cloudprovider.static:nope"], "nope", id="no such name"),
            pytest.param([f"{__name__}:a_number"], "neither a CloudProvider nor a Harness", id="not a provider"),
            pytest.param(["cloudprovider.static:create"], "cloud-config", id="no configuration"),
            pytest.param(["cloudprovider.static:create", "--cloud-config=/nope"], "/nope", id="no such file"),
        ],
    )
    def test_mistakes_are_bad_input(self, capsys: pytest.CaptureFixture[str], words: list[str], said: str) -> None:
        status, out, err = provider(capsys, "check", *words)
        assert (status, out) == (2, "")
        assert said in err
        assert "Traceback" not in err

    def test_an_unknown_disposable_group_is_bad_input(
        self, capsys: pytest.CaptureFixture[str], groups_file: str
    ) -> None:
        words = ("check", "cloudprovider.static:create", "--cloud-config", groups_file, "--group", "c")
        status, _, err = provider(capsys, *words)
        assert status == 2
        assert "has no node group c; it has: a, b" in err


@pytest.mark.parametrize("words", [[], ["nope"], ["check"]], ids=["no action", "unknown action", "no target"])
def test_what_is_missing_is_bad_input(capsys: pytest.CaptureFixture[str], words: list[str]) -> None:
    assert provider(capsys, *words)[0] == 2


def test_the_table_has_abilities_as_words(capsys: pytest.CaptureFixture[str]) -> None:
    _, out, _ = provider(capsys, "list")
    (line,) = (line for line in out.splitlines() if line.startswith("externalgrpc"))
    assert line.endswith("  grpc   Pricing, Accelerators, GroupOptions")


class TestServe:
    @pytest.mark.parametrize(
        ("words", "says"),
        [
            pytest.param(["--listen=8086"], "--listen: '8086' is not host:port", id="no host"),
            pytest.param(["--listen=0.0.0.0:8086"], "0.0.0.0 is reachable from other machines", id="in the clear"),
            pytest.param(["--tls-key=/k"], "--tls-cert: is required beside", id="half of what TLS needs"),
            pytest.param(
                ["--tls-key=/k", "--tls-cert=/c", "--tls-client-ca=/a"],
                "--tls-key: /k cannot be read",
                id="no such file",
            ),
            pytest.param(["--cloud-provider=cloud9"], "'cloud9' is not installed", id="unknown provider"),
            pytest.param([], "cloud-provider: none is chosen", id="no provider"),
            pytest.param(["--colour=red"], "--colour", id="unknown flag"),
        ],
    )
    def test_bad_input_is_status_2(self, words: list[str], says: str, capsys: pytest.CaptureFixture[str]) -> None:
        listening = [] if any(word.startswith("--listen") for word in words) else ["--listen=127.0.0.1:0"]
        status, out, err = provider(capsys, "serve", *listening, *words)
        assert (status, out) == (2, "")
        assert says in err
        assert "Traceback" not in err

    def test_other_actions_take_no_flags_of_the_daemon(self, capsys: pytest.CaptureFixture[str]) -> None:
        status, _, err = provider(capsys, "list", "--cloud-provider=static")
        assert status == 2
        assert "--cloud-provider: unknown option of autoscaler provider list" in err
