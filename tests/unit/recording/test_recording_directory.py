"""Recordings on disk: only the newest, each complete, and never a delay for a pass."""

from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from autoscaler.clock import Instant
from autoscaler.observe.metrics.metrics import Metrics
from autoscaler.recording.directory import RecordingDirectory

WALL_S = 1_767_614_400.0


class Later:
    """An executor that does nothing until told."""

    def __init__(self) -> None:
        self.works: list[Callable[[], None]] = []

    def submit(self, work: Callable[[], None]) -> None:
        self.works.append(work)

    def run_all(self, works: object) -> None:
        raise NotImplementedError

    def sleep(self, seconds: float) -> bool:
        raise NotImplementedError

    def call_at(self, when: Instant, work: Callable[[], None]) -> None:
        raise NotImplementedError

    def catch_up(self) -> None:
        while self.works:
            self.works.pop(0)()


def counted(metrics: Metrics) -> dict[str, float]:
    lines = metrics.scrape().decode().splitlines()
    found = (line.rpartition(" ") for line in lines if line.startswith("cluster_autoscaler_record"))
    return {name.removeprefix("cluster_autoscaler_"): float(value) for name, _, value in found if float(value)}


def a_shelf(directory: Path, keep: int = 3) -> tuple[RecordingDirectory, Later, Metrics]:
    later, metrics = Later(), Metrics()
    metrics.start()
    return RecordingDirectory(directory, keep, later, metrics), later, metrics


def test_the_newest_are_kept_by_number_and_time(tmp_path: Path) -> None:
    shelf, later, metrics = a_shelf(tmp_path / "made" / "here")
    for number in range(5):
        shelf.put(WALL_S + number, partial(bytes, b"%d" % number))
        later.catch_up()
    files = sorted((tmp_path / "made" / "here").iterdir())
    assert [file.name for file in files] == [
        f"pass-{number + 1:08d}-20260105T12000{number}Z.json" for number in (2, 3, 4)
    ]
    assert [file.read_bytes() for file in files] == [b"2", b"3", b"4"]
    assert counted(metrics) == {'recordings_total{result="written"}': 5, "recorded_bytes_total": 5}


def test_one_may_be_all_that_is_kept(tmp_path: Path) -> None:
    shelf, later, _ = a_shelf(tmp_path, keep=1)
    for number in range(3):
        shelf.put(WALL_S, partial(bytes, b"%d" % number))
        later.catch_up()
    assert [file.read_bytes() for file in tmp_path.iterdir()] == [b"2"]


def test_another_process_goes_on_where_the_last_one_stopped(tmp_path: Path) -> None:
    for name in ("pass-00000041-20260105T115959Z.json", "pass-00000042-20260105T115959Z.part", "notes.txt"):
        (tmp_path / name).write_bytes(b"old")
    shelf, later, _ = a_shelf(tmp_path)
    shelf.put(WALL_S - 3600, lambda: b"new")
    later.catch_up()
    assert sorted(file.name for file in tmp_path.iterdir()) == [
        "notes.txt",
        "pass-00000041-20260105T115959Z.json",
        "pass-00000042-20260105T110000Z.json",
    ]


def test_while_one_is_being_written_others_are_dropped_and_nobody_waits(tmp_path: Path) -> None:
    shelf, later, metrics = a_shelf(tmp_path)
    for body in (b"a", b"b", b"c"):
        shelf.put(WALL_S, partial(bytes, body))
    assert len(later.works) == 1
    later.catch_up()
    shelf.put(WALL_S, lambda: b"d")
    later.catch_up()
    assert sorted(file.read_bytes() for file in tmp_path.iterdir()) == [b"a", b"d"]
    assert counted(metrics)['recordings_total{result="dropped"}'] == 2


def test_a_disk_that_refuses_is_counted_and_tried_again(tmp_path: Path) -> None:
    blocked = tmp_path / "recordings"
    blocked.write_text("a file where the directory should be")
    shelf, later, metrics = a_shelf(blocked)
    shelf.put(WALL_S, lambda: b"a")
    later.catch_up()
    assert counted(metrics) == {'recordings_total{result="failed"}': 1}
    blocked.unlink()
    shelf.put(WALL_S, lambda: b"b")
    later.catch_up()
    assert counted(metrics)['recordings_total{result="written"}'] == 1


def test_a_full_disk_leaves_no_half_file(tmp_path: Path) -> None:
    full = Path("/dev/full")
    if not full.exists():
        pytest.skip("there is no device that is always full")
    shelf, later, metrics = a_shelf(tmp_path)
    shelf.put(WALL_S, lambda: b"a")
    later.catch_up()
    (tmp_path / "pass-00000002-20260105T120000Z.part").symlink_to(full)
    shelf.put(WALL_S, lambda: b"b" * 100_000)
    later.catch_up()
    assert counted(metrics)['recordings_total{result="failed"}'] == 1
    assert [file.name for file in tmp_path.iterdir()] == ["pass-00000001-20260105T120000Z.json"]


def test_a_bug_in_the_making_ends_nothing(tmp_path: Path) -> None:
    def broken() -> bytes:
        raise RuntimeError("a bug")

    shelf, later, metrics = a_shelf(tmp_path)
    shelf.put(WALL_S, broken)
    later.catch_up()
    shelf.put(WALL_S, lambda: b"a")
    later.catch_up()
    assert counted(metrics)['recordings_total{result="failed"}'] == 1
    assert len(list(tmp_path.iterdir())) == 1


def test_nothing_to_write_is_no_failure(tmp_path: Path) -> None:
    shelf, later, metrics = a_shelf(tmp_path)
    shelf.put(WALL_S, lambda: None)
    later.catch_up()
    assert counted(metrics) == {}
