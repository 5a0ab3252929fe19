import msgspec
import pytest

from autoscaler.config.document import parse_document, to_options
from autoscaler.config.load import from_options, load
from autoscaler.config.syntax import GroupLimit
from autoscaler.config.tree import Config
from autoscaler.config.windows import MaintenanceWindow
from autoscaler.errors import ConfigError

NIGHTS = MaintenanceWindow(None, "0 22 * * 1-5", 8 * 3600.0, "Europe/Berlin")


def problem_of(*argv: str) -> str:
    with pytest.raises(ConfigError) as caught:
        load(argv)
    (line,) = caught.value.problems
    return line


@pytest.mark.parametrize(
    ("text", "window"),
    [
        pytest.param("0 22 * * 1-5;8h;Europe/Berlin", NIGHTS, id="start, duration and zone"),
        pytest.param("  0 22  * * 1-5 ; 8h ; Europe/Berlin", NIGHTS, id="spaces do not matter"),
        pytest.param("0 2 * * *;90m", MaintenanceWindow(None, "0 2 * * *", 5400.0, "UTC"), id="UTC without a zone"),
        pytest.param("web=0 2 * * *;1h", MaintenanceWindow("web", "0 2 * * *", 3600.0, "UTC"), id="of one group"),
        pytest.param(
            "a/b=c=0 2 * * *;1h", MaintenanceWindow("a/b=c", "0 2 * * *", 3600.0, "UTC"), id="whatever its name"
        ),
    ],
)
def test_a_window_is_read(text: str, window: MaintenanceWindow) -> None:
    config = load([f"--scale-down-window={text}"])
    assert config.scale_down.scale_down_window == (window,)
    assert from_options(to_options(config)) == msgspec.structs.replace(config, given=("scale-down-window",))


@pytest.mark.parametrize(
    ("text", "words"),
    [
        pytest.param("0 22 * * *", "is not [group=]start;duration[;time zone]", id="no duration"),
        pytest.param("0 22 * * *;1h;UTC;x", "is not [group=]start;duration[;time zone]", id="too many parts"),
        pytest.param("0 25 * * *;1h", "that is no cron expression: hour: 25 is not within 0-23", id="hour"),
        pytest.param("0 0 22 * * *;1h", "no cron expression: is not five fields but 6", id="seconds"),
        pytest.param("@daily;1h", "no cron expression: is not five fields but 1", id="a word"),
        pytest.param("0 0 30 2 *;1h", "30 is not within the days 1-31 of those months", id="never"),
        pytest.param("0 22 * * *;soon", 'duration "soon" that is not a duration', id="no duration at all"),
        pytest.param("0 22 * * *;0s", 'duration "0s" that is not above 0', id="nothing"),
        pytest.param("0 22 * * *;-1h", 'duration "-1h" that is not above 0', id="backwards"),
        pytest.param("0 22 * * *;745h", 'duration "745h" that is not above 0 and at most 744h', id="over a month"),
        pytest.param(
            "0 22 * * *;1h;Europe/Berlon", 'time zone "Europe/Berlon" that is not a known time zone', id="zone"
        ),
        pytest.param(
            "0 22 * * *;1h;../etc/passwd",
            'time zone "../etc/passwd" that is not a known time zone',
            id="a path is no zone",
        ),
        pytest.param(
            "0 22 * * *;1h;Europe", 'time zone "Europe" that is not a known time zone', id="a continent is no zone"
        ),
    ],
)
def test_a_window_that_cannot_be_is_refused_with_the_part_that_is_wrong(text: str, words: str) -> None:
    line = problem_of(f"--scale-down-window={text}")
    assert line.startswith(f'--scale-down-window: "{text}" ')
    assert words in line


def test_a_file_has_windows_as_text_or_as_maps() -> None:
    settings = parse_document(
        """
        scaleDown:
          scaleDownWindow:
          - 0 22 * * 1-5;8h;Europe/Berlin
          - {start: 0 22 * * 1-5, duration: 8h, timeZone: Europe/Berlin}
          - {group: web, start: 0 2 * * *, duration: 1h}
          maxNodeDeletionsPerMinute: [10, web=2]
        """,
        "f.yaml",
    )
    assert settings.problems == ()
    assert settings.values["scale-down-window"] == (
        NIGHTS,
        NIGHTS,
        MaintenanceWindow("web", "0 2 * * *", 3600.0, "UTC"),
    )
    assert settings.values["max-node-deletions-per-minute"] == (GroupLimit(None, 10), GroupLimit("web", 2))


@pytest.mark.parametrize(
    "entry", ["{start: 0 2 * * *}", "{start: 0 2 * * *, duration: 60}", "{start: x, duration: 1h, zone: UTC}", "[a]"]
)
def test_a_map_that_is_no_window_is_refused(entry: str) -> None:
    settings = parse_document(f"scaleDown: {{scaleDownWindow: [{entry}]}}", "f.yaml")
    (problem,) = settings.problems
    assert problem.startswith("f.yaml: scaleDown.scaleDownWindow: holds an entry that is ")


def test_nothing_is_limited_by_default() -> None:
    options = Config().scale_down
    limits = (options.scale_down_window, options.max_node_deletions_per_minute)
    assert (limits, options.named_groups) == (((), ()), frozenset())


@pytest.mark.parametrize("text", ["0", "-1", "web=0", "=3", "web", "web=", "1.5"])
def test_a_limit_is_a_count_from_one(text: str) -> None:
    assert "is not [group=]count with a count of 1 or more" in problem_of(f"--max-node-deletions-per-minute={text}")


@pytest.mark.parametrize(("limit", "what"), [("3", "the whole cluster"), ("web=3", "group web")])
def test_two_limits_of_one_thing_contradict_each_other(limit: str, what: str) -> None:
    flag = f"--max-node-deletions-per-minute={limit}"
    assert problem_of(flag, flag) == (f"--max-node-deletions-per-minute: limits {what} twice; give one of the two")


def test_groups_that_options_name_are_known() -> None:
    config = load(["--scale-down-window=web=0 2 * * *;1h", "--max-node-deletions-per-minute=db=1"])
    assert config.scale_down.named_groups == {"web", "db"}
