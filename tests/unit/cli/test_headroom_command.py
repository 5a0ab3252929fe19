"""`autoscaler headroom`, without a cluster."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from autoscaler.cli.main import main
from tests.manifests import Json, running

POLICY = {"name": "office", "periods": ["* 8-17 * * mon-fri"], "idleCount": 2, "scaleFactor": "0.5"}


@pytest.fixture
def file(tmp_path: Path) -> Path:
    pool = {"name": "ci", "namespace": "ci", "resources": {"cpu": 1}, "policies": [POLICY]}
    path = tmp_path / "autoscaler.yaml"
    path.write_text(yaml.safe_dump({"headroom": {"pools": [{**pool, "active": {"selector": "app=job"}}]}}))
    return path


def planned(capsys: pytest.CaptureFixture[str], *words: object) -> dict[str, Any]:
    assert main(["headroom", "plan", *map(str, words), "-o", "json"]) == 0
    (answer,) = json.loads(capsys.readouterr().out)
    return dict(answer)


def test_a_plan_has_the_numbers_of_the_daemon(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    answer = planned(capsys, file, "--now", "2026-11-20T10:00:00Z", "--active", "ci=7")
    assert answer == {
        "pool": "ci",
        "namespace": "ci",
        "at": "2026-11-20T10:00:00Z",
        "policy": "office",
        "leadSeconds": 0.0,
        "leadBasis": "NothingLearned",
        "earlyPolicy": "",
        "earlyFrom": "",
        "active": 7,
        "desired": 4,
        "target": 4,
        "reason": "ScaleFactor",
        "lowerAt": "2026-11-20T10:05:00Z",
        "replicas": 0,
        "action": "create",
        "drift": [],
    }


def test_active_pods_and_deployments_are_counted_in_what_kubectl_printed(
    file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    labels = {"app.kubernetes.io/managed-by": "cluster-autoscaler", "headroom-pool": "ci", "headroom-cluster": ""}
    there = {
        "kind": "Deployment",
        "metadata": {"name": "headroom-ci", "namespace": "ci", "labels": labels},
        "spec": {"replicas": 9},
    }
    objects = tmp_path / "objects.json"
    job: Json = {"labels": {"app": "job"}, "meta": {"namespace": "ci"}}
    ended = running("ended", **job, status={"phase": "Succeeded"})
    items = [*(running(f"p{number}", **job, status={"phase": "Running"}) for number in range(5)), ended, there]
    objects.write_text(json.dumps({"kind": "List", "items": items}))
    answer = planned(capsys, file, "--now", "2026-11-20T10:00:00Z", "--objects", objects)
    assert (answer["active"], answer["desired"], answer["target"]) == (5, 3, 9)
    assert (answer["reason"], answer["replicas"], answer["action"]) == ("CoolDown", 9, "update")


def test_moments_that_yaml_has_without_quotes_are_read_as_well(
    file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pod = running("p", labels={"app": "job"}, meta={"namespace": "ci", "creationTimestamp": "AT"})
    objects = tmp_path / "objects.yaml"
    objects.write_text(yaml.safe_dump(pod).replace("AT", "2026-11-20T09:00:00Z"))
    assert planned(capsys, file, "--now", "2026-11-20T10:00:00Z", "--objects", objects)["active"] == 1


def test_a_table_is_for_people(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["headroom", "plan", str(file), "--now", "2026-11-21T10:00:00Z"]) == 0
    header, row = capsys.readouterr().out.splitlines()
    assert header.split()[:4] == ["POOL", "NAMESPACE", "AT", "POLICY"]
    assert row.split()[3] == "none"


def test_a_good_file_is_valid(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["headroom", "validate", str(file)]) == 0
    assert capsys.readouterr().out == f"{file}: valid, 1 pool\n"


@pytest.mark.parametrize(
    ("words", "says"),
    [
        pytest.param(["--active", "nobody=1"], "--active: there is no pool nobody", id="unknown pool"),
        pytest.param(["--objects", "/nowhere.json"], "--objects: /nowhere.json cannot be read", id="no file"),
        pytest.param(["--activ", "ci=1"], "--activ: unknown option", id="unknown option"),
        pytest.param(["--now", "noon"], "'noon' is not a time", id="no time"),
    ],
)
def test_bad_input_is_status_2(file: Path, words: list[str], says: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["headroom", "plan", str(file), *words]) == 2
    assert says in capsys.readouterr().err


def test_swapped_policies_are_status_2_with_a_line_that_names_both(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "autoscaler.yaml"
    pool = {"name": "ci", "namespace": "ci", "resources": {"cpu": 1}, "policies": [POLICY, {"name": "base"}]}
    path.write_text(yaml.safe_dump({"headroom": {"pools": [pool]}}))
    assert main(["headroom", "validate", str(path)]) == 2
    assert capsys.readouterr().err == (
        "config: headroom.pools[0].policies[0]: unreachable, policies[1] always matches and the last match wins\n"
    )


def test_a_file_without_pools_cannot_be_planned(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "autoscaler.yaml"
    path.write_text("loop: {scanInterval: 10s}\n")
    assert main(["headroom", "plan", str(path)]) == 2
    assert "has no headroom section" in capsys.readouterr().err


# Before a policy begins.

SOON = "2026-11-20T07:57:00Z"


def boot_times(folder: Path, **groups: list[float]) -> str:
    """Return a file with the ConfigMap of boot times, noted an hour before."""
    noted = {group: [[1_795_157_820.0, seconds] for seconds in samples] for group, samples in groups.items()}
    metadata = {"name": "cluster-autoscaler-boot-times", "namespace": "kube-system"}
    path = folder / "boots.json"
    path.write_text(json.dumps({"kind": "ConfigMap", "metadata": metadata, "data": {"boot-times": json.dumps(noted)}}))
    return str(path)


def test_a_stated_lead_time_brings_the_coming_policy_in(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    asked = ("leadSeconds", "leadBasis", "policy", "desired", "earlyPolicy", "earlyFrom")
    answer = planned(capsys, file, "--now", SOON, "--lead", "ci=3m")
    told = [answer[key] for key in asked]
    assert told == [180.0, "Configured", "none", 2, "office", "2026-11-20T08:00:00Z"]
    answer = planned(capsys, file, "--now", SOON, "--lead", "ci=2m")
    assert [answer[key] for key in asked] == [120.0, "Configured", "none", 0, "", ""]


def test_boot_times_as_the_daemon_keeps_them_make_the_lead_time(
    file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    few = boot_times(tmp_path, web=[100.0] * 4)
    assert planned(capsys, file, "--now", SOON, "--objects", few)["leadBasis"] == "NothingLearned"
    enough = boot_times(tmp_path, web=[100.0] * 4, spot=[100.0])
    answer = planned(capsys, file, "--now", SOON, "--objects", enough)
    # 10 s until the pool is looked at, three passes of 15 s, the boot, and what is assumed of bind and start.
    assert (answer["leadSeconds"], answer["leadBasis"], answer["desired"]) == (220.0, "Learned", 2)


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--lead", "nobody=1m"], "--lead: there is no nobody"),
        (["--lead", "ci"], "'ci' is not NAME=DURATION, such as ci=4m"),
        (["--lead", "ci=-1m"], "'ci=-1m' is not NAME=DURATION, such as ci=4m"),
    ],
)
def test_lead_times_that_will_not_do_are_status_2(
    file: Path, words: list[str], says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["headroom", "plan", str(file), *words]) == 2
    assert says in capsys.readouterr().err
