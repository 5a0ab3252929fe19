"""Simulations: their measurements, and that the same input gives the same bytes."""

import json
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
import yaml

from autoscaler.cli.main import main
from autoscaler.config.load import from_documents
from autoscaler.objects.meta import rfc3339, unix_seconds
from autoscaler.simulator.simulation.charts import ChartLine, line_chart
from autoscaler.simulator.simulation.result import spread, wait_histogram
from autoscaler.simulator.simulation.windows import window_starts

GROUP = {
    "id": "web",
    "minSize": 0,
    "maxSize": 5,
    "targetSize": 1,
    "pricePerHour": 0.5,
    "bootSeconds": 60,
    "template": {"capacity": {"cpu": "4", "memory": "16Gi"}},
}
WEB = {"name": "web", "requests": {"cpu": "1"}, "replicas": 3, "steps": [{"at": "30m", "replicas": 8}]}


def a_file(folder: Path, **fields: Any) -> str:
    path = folder / "sim.yaml"
    content = {"duration": "2h", "nodeGroups": [GROUP], "workloads": [WEB], **fields}
    path.write_text(yaml.safe_dump(content))
    return str(path)


def simulated(capsys: pytest.CaptureFixture[str], *words: str) -> Any:
    assert main(["simulate", "-o", "json", *words]) == 0
    return json.loads(capsys.readouterr().out)


def test_pods_machines_and_money_are_counted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    answer = simulated(capsys, a_file(tmp_path))
    summary, timeline = answer["summary"], answer["timeline"]
    assert (summary["podsCreated"], summary["podsStarted"], summary["podsWaitingAtEnd"]) == (8, 8, 0)
    assert (summary["nodesBought"], summary["nodesAtEnd"]) == (1, 2)
    assert 60 < summary["pendingSeconds"]["most"] < 180
    assert sum(answer["waits"].values()) == 8
    assert timeline[-1] == {
        "atSeconds": 7200.0,
        "machines": 2,
        "readyNodes": 2,
        "podsRunning": 8,
        "podsPending": 0,
        "costPerHour": 1.0,
        "cpuRequestedShare": 1.0,
    }
    assert summary["cost"] == pytest.approx(0.5 * summary["nodeHours"])
    assert summary["nodeHours"] == pytest.approx(sum(one["machines"] for one in timeline) / 60, abs=0.001)


def test_the_same_seed_gives_the_same_bytes_and_another_one_others(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    noisy = {**WEB, "wave": {"low": 2, "high": 9, "peak": "01:00", "noise": 0.3}}
    path = a_file(tmp_path, workloads=[noisy])
    first = simulated(capsys, path, "--seed", "7")
    assert simulated(capsys, path, "--seed", "7") == first
    assert simulated(capsys, path, "--seed", "8")["timeline"] != first["timeline"]


def test_trouble_happens_and_is_survived(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    events = [
        {"at": "20m", "apiDown": "5m"},
        {"at": "40m", "interruption": {"group": "web"}},
        {"at": "60m", "leaderLost": "2m"},
        {"at": "70m", "restart": "1m"},
        {"at": "80m", "clockJump": "-1h"},
    ]
    summary = simulated(capsys, a_file(tmp_path, events=events))["summary"]
    assert summary["podsWaitingAtEnd"] == 0
    assert summary["podsCreated"] > 8  # those of the machine that the cloud took back came again
    assert summary["nodesBought"] >= 2


def test_an_announced_interruption_finds_the_machine_replaced(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    deaf, aware = tmp_path / "deaf.yaml", tmp_path / "aware.yaml"
    deaf.write_text("replacement: {maxReplacements: 2}\n")
    aware.write_text("notices: {nodeNotices: spot-interruption}\n")
    path = a_file(tmp_path, events=[{"at": "40m", "interruption": {"group": "web", "notice": "2m"}}])
    answers = simulated(capsys, path, "--compare", str(deaf), str(aware))
    evicted = [answer["summary"]["podsEvicted"] for answer in answers]
    assert evicted[0] < evicted[1]
    assert [answer["summary"]["podsWaitingAtEnd"] for answer in answers] == [0, 0]


def test_configurations_stand_side_by_side(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    slow, none = tmp_path / "slow.yaml", tmp_path / "none.yaml"
    slow.write_text("pods: {newPodScaleUpDelay: 20m}\n")
    none.write_text("limits: {maxNodesTotal: 1}\n")
    path, page = a_file(tmp_path), tmp_path / "report.html"
    answers = simulated(capsys, path, "--compare", str(slow), str(none))
    assert [answer["configuration"] for answer in answers] == ["slow", "none"]
    assert answers[0]["summary"]["pendingSeconds"]["most"] > 1200
    assert answers[1]["summary"]["podsWaitingAtEnd"] == 4
    assert main(["simulate", path, "--compare", str(slow), str(none), "--html", str(page)]) == 0
    lines = [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()]
    assert "waiting at the end 0 4" in lines
    seen = _Page()
    seen.feed(page.read_text())
    assert seen.open == []
    assert seen.charts == 10
    assert not seen.foreign


def test_announced_work_finds_its_nodes_booted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    announced = {"target": "builds", "ahead": "4m", "lasts": "10m"}
    job = {"name": "build", "every": "45m", "pods": 4, "runsFor": "5m", "jitter": "20m", "requests": {"cpu": "2"}}
    path = a_file(
        tmp_path, nodeGroups=[{**GROUP, "targetSize": 0}], workloads=[], jobs=[{**job, "announced": announced}]
    )
    target = {
        "name": "builds",
        "podTemplate": {"spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": "2"}}}]}},
        "podSelector": "app=build",
        "podNamespaces": ["default"],
    }
    silent, told = tmp_path / "silent.yaml", tmp_path / "told.yaml"
    silent.write_text("scaleUp: {expander: [least-waste]}\n")
    told.write_text(yaml.safe_dump({"reservations": {"listen": "", "targets": [target]}}))
    without, with_word = simulated(capsys, path, "--compare", str(silent), str(told))
    assert without["summary"]["pendingSeconds"]["p50"] > 60
    assert with_word["summary"]["pendingSeconds"]["p50"] < 15


class _Page(HTMLParser):
    """Counts what matters of a report: charts, elements left open, and anything fetched from elsewhere."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.charts = 0
        self.foreign: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.charts += tag == "svg"
        self.foreign.extend(value or "" for name, value in attrs if name in {"src", "href"})
        if tag == "script":
            self.foreign.append(tag)
        if tag != "meta":
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        pass

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def test_an_expectation_that_is_not_met_fails(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = a_file(
        tmp_path,
        assertions=[
            {"that": "podsWaitingAtEnd", "atMost": 0},
            {"that": "pendingSeconds.most", "atMost": 10},
            {"that": "price", "atLeast": 1},
        ],
    )
    assert main(["simulate", path]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert "met: podsWaitingAtEnd is 0, expected at most 0" in lines
    assert any(line.startswith("NOT MET: pendingSeconds.most is ") for line in lines)
    assert "NOT MET: price: the summary has no such figure" in lines


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (["absent.yaml"], "absent.yaml: cannot be read"),
        (["{path}", "--compare", "absent.yaml"], "absent.yaml: cannot be read"),
        (["{path}", "{path}", "--html", "x.html"], "--html: takes one simulation"),
        (["{path}", "--html", "/nowhere/x.html"], "--html /nowhere/x.html: cannot be written"),
        (["{path}", "--compare", "{bad}"], "{bad}: scaleUp.expandr: unknown key"),
    ],
)
def test_bad_words_are_one_clear_line(
    words: list[str], complaint: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    bad = tmp_path / "bad.yaml"
    bad.write_text("scaleUp: {expandr: [random]}\n")
    path = a_file(tmp_path, duration="2m")
    filled = [word.replace("{path}", path).replace("{bad}", str(bad)) for word in words]
    assert main(["simulate", *filled]) == 2
    assert complaint.replace("{bad}", str(bad)) in capsys.readouterr().err


NIGHTLY = {"name": "nightly", "every": "24h", "between": "02:00-02:10", "requests": {"cpu": "2"}}


@pytest.mark.parametrize(
    ("fields", "complaint"),
    [
        pytest.param(
            {"jobs": [NIGHTLY], "duration": "48h", "timeZone": "Europe/Berlin"},
            "jobs[0].between: no Job of nightly comes within 02:00-02:10: the first is due on Mon at 01:00 "
            '(Europe/Berlin); write for example cron: "0 2 * * *"',
            id="Job never within its hours",
        ),
        pytest.param(
            {"jobs": [{"name": "j", "every": "24h", "days": "sat"}]},
            "jobs[0].days: no Job of j comes within sat: the first is due on Mon at 00:00 (UTC); "
            'write for example cron: "0 0 * * 6"',
            id="Job never on its days",
        ),
        pytest.param(
            {"jobs": [{"name": "j", "cron": "0 2 1 2 *"}]},
            "jobs[0].cron: 0 2 1 2 * holds at no minute of the simulation; change it, or make duration longer",
            id="cron that never holds",
        ),
        pytest.param(
            {"jobs": [{"name": "j", "at": "3h"}]},
            "jobs[0].at: 3h is after the end and does not happen; make duration (2h) longer, or let it come earlier",
            id="Job after the end",
        ),
        pytest.param({"jobs": [{"name": "j"}]}, "jobs[0]: no Job comes; write every, at or cron", id="no moment"),
        pytest.param(
            {"jobs": [{"name": "j", "every": "1h", "cron": "* * * * *"}]},
            "jobs[0].cron: goes without",
            id="two moments",
        ),
        pytest.param({"jobs": [{"name": "j", "cron": "61 * * * *"}]}, "jobs[0].cron: minute: 61", id="bad cron"),
        pytest.param(
            {"events": [{"at": "1h", "interruption": {"group": "web", "nodes": 0}}]},
            "events[0].interruption.nodes: 0 is below 1",
            id="interruption of nothing",
        ),
    ],
)
def test_what_could_never_happen_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], fields: dict[str, Any], complaint: str
) -> None:
    path = a_file(tmp_path, **fields)
    assert main(["simulate", path]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    [line] = captured.err.splitlines()
    assert line.startswith(f"{path}: {complaint}")


@pytest.mark.parametrize(
    ("stream", "pods"),
    [
        pytest.param({"at": "30m"}, 1, id="once"),
        pytest.param({"at": "30m", "every": "45m"}, 3, id="from a moment on"),
        pytest.param({"every": "45m"}, 3, id="from the start on"),
        pytest.param({"cron": "15,45 1 * * mon"}, 2, id="cron"),
        pytest.param({"cron": "15 2 * * *", "timeZone": "Europe/Berlin"}, 1, id="cron in a time zone"),
    ],
)
def test_jobs_come_when_they_are_due(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], stream: dict[str, Any], pods: int
) -> None:
    zone = stream.pop("timeZone", "UTC") if "timeZone" in stream else "UTC"
    job = {"name": "j", "runsFor": "1m", "requests": {"cpu": "1"}, **stream}
    answer = simulated(capsys, a_file(tmp_path, workloads=[], jobs=[job], timeZone=zone))
    assert answer["summary"]["podsCreated"] == pods


def test_an_unhealthy_node_is_repaired_if_a_policy_says_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    group = {**GROUP, "minSize": 2, "targetSize": 2}
    events = [{"at": "10m", "unhealthy": {"group": "web"}}]
    still = {"nodeGroups": [group], "workloads": [{**WEB, "steps": []}], "events": events}
    bought = [
        simulated(capsys, a_file(tmp_path, **still, options=options))["summary"]["nodesBought"]
        for options in ({}, {"node-repair-policy": ["Ready=Unknown;10m"]})
    ]
    assert bought == [0, 1]


def test_an_interruption_that_finds_nobody_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    spot = {**GROUP, "id": "spot", "targetSize": 0, "maxSize": 0}
    events = [{"at": "20m", "every": "40m", "interruption": {"group": "spot", "nodes": 5}}]
    path = a_file(tmp_path, nodeGroups=[GROUP, spot], events=events)
    assert main(["simulate", "-o", "json", path]) == 0
    captured = capsys.readouterr()
    said = "events[0].interruption: the group had no machine at 20m and 2 more times; choose a time when it has some"
    assert json.loads(captured.out)["warnings"] == [said]
    assert f"sim: warning: {said}" in captured.err.splitlines()


def test_what_comes_after_the_end_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    steps = [{"at": "1m", "replicas": 1}, {"at": "3h", "replicas": 2}]
    path = a_file(tmp_path, workloads=[{**WEB, "steps": steps}], events=[{"at": "3h", "apiDown": "1m"}])
    assert main(["simulate", path]) == 0
    told = capsys.readouterr().err
    assert [line.split(" is ")[0] for line in told.splitlines() if line.startswith("sim: ")] == [
        "sim: warning: workloads[0].steps[1].at: 3h",
        "sim: warning: events[0].at: 3h",
    ]


def test_a_report_that_cannot_be_written_is_found_before_the_simulation(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["simulate", a_file(tmp_path, duration="8000h"), "--html", str(tmp_path)]) == 2
    assert capsys.readouterr().err == f"--html {tmp_path}: cannot be written: Is a directory\n"
    late = {"jobs": [{"name": "j"}]}
    page = tmp_path / "page.html"
    assert main(["simulate", a_file(tmp_path, **late), "--html", str(page)]) == 2
    assert not page.exists()


def test_percentiles_are_values_that_occur() -> None:
    found = spread([float(value) for value in range(100, 0, -1)])
    assert (found.count, found.p50, found.p90, found.p99, found.most) == (100, 51.0, 91.0, 100.0, 100.0)
    assert spread([]).count == 0


def test_waits_are_counted_up_to_and_with_each_limit() -> None:
    assert wait_histogram([0.0, 5.0, 5.1, 60.0, 901.0]) == {
        "5 s": 2, "30 s": 1, "1 min": 1, "2 min": 0, "5 min": 0, "15 min": 0, "more": 1
    }  # fmt: skip


def test_names_in_charts_are_escaped() -> None:
    drawn = line_chart("<b>", [0.0, 1.0], [ChartLine("<i>", [1.0, 2.0])])
    assert "<b>" not in drawn
    assert "<i>" not in drawn


def windows_of(section: dict[str, Any], start: str, duration_s: float) -> list[tuple[str, str]]:
    config = from_documents({}, {"f": yaml.safe_dump(section)})
    found = sorted(window_starts(config, unix_seconds(start), duration_s), key=lambda one: one.wall)
    return [(rfc3339(one.wall), one.lead) for one in found]


def test_windows_begin_where_more_is_wanted_than_before() -> None:
    policies = [
        {"name": "base", "idleCount": 1},
        {"name": "day", "periods": ["* 8-17 * * *"], "timezone": "Europe/Berlin", "idleCount": 4},
        {"name": "noon", "periods": ["* 12 * * *"], "timezone": "Europe/Berlin", "idleCount": 2},
    ]
    pool = {"name": "ci", "namespace": "ci", "resources": {"cpu": 1}, "policies": policies}
    section = {"headroom": {"pools": [pool]}}
    found = windows_of(section, "2026-01-05T00:00:00Z", 86_400)
    assert found == [("2026-01-05T07:00:00Z", "headroom/ci"), ("2026-01-05T12:00:00Z", "headroom/ci")]
    assert windows_of(section, "2026-01-05T07:00:00Z", 3600) == []


def test_overrides_begin_windows_where_they_raise_the_floor() -> None:
    def override(day: int, first: int, last: int, floor: int) -> dict[str, Any]:
        begin, end = (f"2026-01-{day:02}T{hour:02}:00:00Z" for hour in (first, last))
        return {"startTime": begin, "endTime": end, "minReplicas": floor, "recurrenceRule": {"frequency": "Daily"}}

    container = {"name": "c", "resources": {"requests": {"cpu": 1}}}
    target = {
        "name": "t",
        "podTemplate": {"spec": {"containers": [container]}},
        "minReplicas": 1,
        "scheduledOverrides": [override(5, 8, 9, 3), override(5, 20, 22, 0)],
    }
    found = windows_of({"reservations": {"targets": [target]}}, "2026-01-05T07:30:00Z", 86_400)
    times = ["2026-01-05T08:00:00Z", "2026-01-05T22:00:00Z"]
    assert found == [(time, "reservations/t") for time in times]
