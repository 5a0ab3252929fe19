import ast
import io
import json
import logging
import re
from collections.abc import Callable, Iterator
from enum import StrEnum
from pathlib import Path

import msgspec
import pytest

from autoscaler.clock import VirtualClock
from autoscaler.logs import DETAIL, Log, LogFormat, configure, silence, unconfigure

Lines = Callable[[], list[str]]
Start = Callable[..., Lines]


class Why(StrEnum):
    FULL = "MaxNodeGroupSizeReached"


class Thing(msgspec.Struct, frozen=True):
    name: str
    token: str


@pytest.fixture
def start() -> Iterator[Start]:
    stream = io.StringIO()

    def begin(v: int = 0, shape: LogFormat = LogFormat.TEXT) -> Lines:
        configure(v, shape, VirtualClock(wall=1_785_578_400.25), stream)
        return lambda: stream.getvalue().splitlines()

    level = logging.getLogger().level
    yield begin
    unconfigure()
    logging.getLogger().setLevel(level)


log = Log("autoscaler.loop")


def test_text_has_a_constant_event_and_fields(start: Start) -> None:
    lines = start()
    log.info("scale_up.decided", group="web", add=3, share=0.5, skipped={"gpu": Why.FULL}, why="no room", by=None)
    (line,) = lines()
    assert line.startswith("I0801 10:00:00.250000 test_logs.py:")
    assert line.endswith(
        '] scale_up.decided group=web add=3 share=0.5 skipped={"gpu":"MaxNodeGroupSizeReached"} why="no room" by=null'
    )


def test_json_is_one_object_a_line(start: Start) -> None:
    lines = start(shape=LogFormat.JSON)
    log.warning("node.stays", reason=Why.FULL, names=("a", "b"), level="x")
    (line,) = lines()
    record = json.loads(line)
    assert record.pop("caller").startswith("test_logs.py:")
    assert record == {
        "ts": "2026-08-01T10:00:00.250000Z",
        "level": "warning",
        "event": "node.stays",
        "reason": "MaxNodeGroupSizeReached",
        "names": ["a", "b"],
        "level_": "x",
    }


@pytest.mark.parametrize(
    ("v", "events"),
    [
        pytest.param(0, ["decided"], id="decisions only"),
        pytest.param(3, ["decided"], id="still decisions only"),
        pytest.param(4, ["decided", "detail"], id="details too"),
        pytest.param(5, ["decided", "detail", "debug"], id="everything"),
    ],
)
def test_verbosity(start: Start, v: int, events: list[str]) -> None:
    lines = start(v)
    log.info("decided")
    log.detail("detail")
    log.debug("debug")
    assert [line.rsplit("] ", 1)[1] for line in lines()] == events
    assert log.shows(DETAIL) is (v >= 4)


def test_disabled_lines_do_not_touch_their_fields(start: Start) -> None:
    lines = start()

    class Explosive:
        def __str__(self) -> str:
            raise AssertionError("formatted although disabled")

    log.debug("quiet", field=Explosive())
    assert lines() == []


@pytest.mark.parametrize("shape", list(LogFormat))
@pytest.mark.parametrize(
    ("fields", "secret"),
    [
        pytest.param({"token": "hunter2"}, "hunter2", id="a field named token"),
        pytest.param({"db_password": "hunter2"}, "hunter2", id="a field whose name contains password"),
        pytest.param({"headers": {"Authorization": "hunter2"}}, "hunter2", id="a header inside a mapping"),
        pytest.param({"items": [{"apiKey": "hunter2"}]}, "hunter2", id="a key inside a list"),
        pytest.param({"thing": Thing("x", "hunter2")}, "hunter2", id="a field of a struct"),
        pytest.param({"error": "got 401 for Bearer abc.def-ghi"}, "abc.def", id="a bearer value in a text"),
        pytest.param({"error": ValueError("Authorization: Basic dXNlcjpw")}, "dXNlcjpw", id="in an error"),
        pytest.param({"jwt": "eyJhbGciOiJSUzI1NiJ9.eyJzdWIi.c2ln"}, "eyJ", id="a web token"),
        pytest.param({"url": "https://me:hunter2@example.com/x"}, "hunter2", id="a password in a URL"),
        pytest.param({"text": "login with password=hunter2 failed"}, "hunter2", id="an assignment in a text"),
    ],
)
def test_secrets_never_show(start: Start, shape: LogFormat, fields: dict[str, object], secret: str) -> None:
    lines = start(shape=shape)
    log.error("x", **fields)
    (line,) = lines()
    assert secret not in line
    assert "[redacted]" in line


def test_numbers_under_a_secret_name_are_kept(start: Start) -> None:
    lines = start()
    log.info("bucket", tokens=3)
    assert lines()[0].endswith("bucket tokens=3")


def test_other_libraries_are_redacted_too_and_cannot_forge_lines(start: Start) -> None:
    lines = start()
    logging.getLogger("urllib3.pool").warning("%s", "Bearer abc\nE0801 forged")
    logging.getLogger("urllib3.pool").info("chatter")
    (line,) = lines()
    assert line.startswith("W0801")
    assert line.endswith(r"] Bearer [redacted]\nE0801 forged")


def test_values_with_line_breaks_stay_on_one_line(start: Start) -> None:
    lines = start()
    log.info("x", message="a\nI0801 forged")
    assert lines()[0].endswith(r'x message="a\nI0801 forged"')


def test_long_values_are_cut(start: Start) -> None:
    lines = start()
    log.info("x", body="y" * 9000)
    assert len(lines()[0]) < 2200
    assert "(9000 characters)" in lines()[0]


@pytest.mark.parametrize("shape", list(LogFormat))
def test_a_crash_shows_its_stack_without_secrets(start: Start, shape: LogFormat) -> None:
    lines = start(shape=shape)
    try:
        raise RuntimeError("token=hunter2")
    except RuntimeError:
        log.crashed("pass.crashed", number=1)
    text = "\n".join(lines())
    assert "pass.crashed" in text
    assert "RuntimeError" in text
    assert "hunter2" not in text


def test_configuring_again_replaces(start: Start) -> None:
    start()
    lines = start(v=4)
    log.detail("once")
    assert len(lines()) == 1


def test_a_silenced_log_writes_nothing(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("autoscaler", "cloudprovider"):
        monkeypatch.setattr(logging.getLogger(name), "handlers", [])
    silence()
    Log("autoscaler.somewhere").error("something.failed")
    assert capsys.readouterr().err == ""


def test_every_event_has_a_constant_name_and_its_data_in_fields() -> None:
    methods = {"error", "crashed", "warning", "info", "detail", "debug"}
    root = Path(__file__).parents[2]
    odd: list[str] = []
    events: set[str] = set()
    for path in sorted((root / "autoscaler").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)):
                continue
            if not (isinstance(node.func.value, ast.Name) and node.func.value.id in {"log", "_log"}):
                continue
            if node.func.attr not in methods:
                continue
            match node.args:
                case [ast.Constant(value=str(name))] if re.fullmatch(r"[a-z_]+(\.[a-z_]+)+", name):
                    events.add(name)
                case [ast.Name()]:  # handed on
                    pass
                case _:
                    odd.append(f"{path.relative_to(root)}:{node.lineno}")
    assert odd == []
    assert {"scale_down.aborted", "kube.watch_failing", "lease.lost"} <= events
