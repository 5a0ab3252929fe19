"""`autoscaler reservations`: the daemon's numbers without a daemon."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from autoscaler.cli.main import main
from autoscaler.reservations.state import Reservation, TargetState, write_state

NOW = "2026-11-20T10:00:00Z"
AT = 1_795_168_800.0


def a_file(folder: Path, **fields: Any) -> str:
    container = {"name": "c", "resources": {"requests": {"cpu": 2}}}
    target = {"name": "gpu", "podTemplate": {"spec": {"containers": [container]}}, "maxReplicas": 3, **fields}
    path = folder / "autoscaler.yaml"
    path.write_text(yaml.safe_dump({"reservations": {"targets": [target]}}))
    return str(path)


def dumped(folder: Path, *objects: dict[str, Any]) -> str:
    path = folder / "objects.json"
    path.write_text(json.dumps({"kind": "List", "items": list(objects)}))
    return str(path)


def test_a_plan_has_what_is_stored_what_is_asked_for_and_the_pods_that_use_it_up(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    state = TargetState(entries=(Reservation(id="old", accepted=AT - 599, length_s=600.0, activated=AT - 599),))
    kept = {
        "kind": "ConfigMap",
        "metadata": {"name": "capacity-reservations-gpu"},
        "data": {"state.json": write_state(state)},
    }
    pod = {"kind": "Pod", "metadata": {"name": "p", "labels": {"app": "job"}}, "spec": {"containers": []}}
    file = a_file(tmp_path, podSelector="app=job")
    words = [
        "reservations",
        "plan",
        file,
        "--now",
        NOW,
        "--objects",
        dumped(tmp_path, kept, pod),
        "--scale",
        "gpu=3,5m",
    ]
    assert main([*words, "-o", "json"]) == 0
    (answer,) = json.loads(capsys.readouterr().out)
    assert (answer["active"], answer["queued"], answer["planned"], answer["real"], answer["virtual"]) == (3, 1, 3, 1, 2)
    assert answer["entries"][0]["expiration"] == "2026-11-20T10:00:01.000Z"
    assert answer["entries"][3]["expiration"] == "2026-11-20T10:05:00.000Z"
    assert main(words) == 0
    assert "added 3" in capsys.readouterr().out


def test_files_and_wishes_that_will_not_do_are_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = a_file(tmp_path)
    assert main(["reservations", "validate", file]) == 0
    assert main(["reservations", "plan", file, "--scale", "other=1"]) == 2
    assert main(["reservations", "validate", a_file(tmp_path, maxReplicas=-1)]) == 2
    assert "there is no target other" in capsys.readouterr().err
    assert main(["reservations", "plan", file, "--scale", "gpu=x"]) == 2


def test_a_floor_about_to_hold_is_planned_for_from_the_lead_time_on(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    override = {"startTime": "2026-11-20T10:05:00Z", "endTime": "2026-11-20T12:00:00Z", "minReplicas": 2}
    file = a_file(tmp_path, scheduledOverrides=[override])
    noted = {"web": [[AT - 3600, 250.0]] * 5}
    boots = {
        "kind": "ConfigMap",
        "metadata": {"name": "cluster-autoscaler-boot-times"},
        "data": {"boot-times": json.dumps(noted)},
    }
    told = []
    for words in (["--lead", "gpu=299s"], ["--lead", "gpu=5m"], ["--objects", dumped(tmp_path, boots)], []):
        assert main(["reservations", "plan", file, "--now", NOW, *words, "-o", "json"]) == 0
        (answer,) = json.loads(capsys.readouterr().out)
        told.append((answer["lead_seconds"], answer["lead_basis"], answer["early_floor"], answer["planned"]))
        assert (answer["early_from"] == "2026-11-20T10:05:00.000Z") is (answer["early_floor"] == 2)
    assert told == [
        (299.0, "Configured", 0, 0),
        (300.0, "Configured", 2, 2),
        (295.0, "Learned", 0, 0),
        (0.0, "NothingLearned", 0, 0),
    ]
