"""Values as Go's flag libraries read them."""

from typing import Any

import pytest

from autoscaler.config.arguments import parse_environment, parse_flags
from autoscaler.config.flags import flags
from autoscaler.config.syntax import (
    DrainPriority,
    GpuRange,
    Range,
)
from cloudprovider.duration import parse_duration_s, show_duration


@pytest.mark.parametrize("text", ["0s", "5s", "1m", "1h30m", "2m30.5s", "87600h", "-3m", "0.1s", "0.00025s"])
def test_durations_are_shown_as_they_are_written(text: str) -> None:
    assert show_duration(parse_duration_s(text)) == text


@pytest.mark.parametrize(
    ("argv", "flag", "value"),
    [
        pytest.param(["--scan-interval", "20s"], "scan-interval", 20.0, id="value in the next word"),
        pytest.param(["--scan-interval=20s"], "scan-interval", 20.0, id="value after the equals sign"),
        pytest.param(["-scan-interval=20s"], "scan-interval", 20.0, id="one dash"),
        pytest.param(["-v", "4"], "v", 4, id="one letter"),
        pytest.param(["--skip_headers"], "skip-headers", True, id="underscores stand for dashes"),
        pytest.param(["--v=1", "--v=2"], "v", 2, id="the last of several wins"),
        pytest.param(
            ["--expendable-pods-priority-cutoff", "-10"], "expendable-pods-priority-cutoff", -10, id="negative"
        ),
        pytest.param(["--v=0x10"], "v", 16, id="hexadecimal"),
        pytest.param(["--v=010"], "v", 8, id="a leading zero means octal"),
        pytest.param(["--kube-client-qps=1e2"], "kube-client-qps", 100.0, id="exponent"),
        pytest.param(["--leader-elect"], "leader-elect", True, id="a switch alone is on"),
        pytest.param(["--leader-elect=false"], "leader-elect", False, id="a switch off"),
        pytest.param(["--leader-elect=F"], "leader-elect", False, id="a switch off by letter"),
        pytest.param(["--leader-elect=1"], "leader-elect", True, id="a switch on by digit"),
        pytest.param(["--cloud-config="], "cloud-config", None, id="empty text is not set"),
        pytest.param(["--expander=a, b,"], "expander", ("a", "b"), id="names lose spaces and empty entries"),
        pytest.param(["--expander=a", "--expander=b"], "expander", ("b",), id="name lists do not add up"),
        pytest.param(
            ["--bypassed-scheduler-names=a,b", "--bypassed-scheduler-names=c"],
            "bypassed-scheduler-names",
            ("a", "b", "c"),
            id="slices split and add up",
        ),
        pytest.param(
            ['--bypassed-scheduler-names="a,b",c'], "bypassed-scheduler-names", ("a,b", "c"), id="quotes protect commas"
        ),
        pytest.param(
            ["--node-group-auto-discovery=asg:tag=a,b", "--node-group-auto-discovery=asg:tag=c"],
            "node-group-auto-discovery",
            ("asg:tag=a,b", "asg:tag=c"),
            id="arrays add up and do not split",
        ),
        pytest.param(["--nodes=1:10:https://x/y:z"], "nodes", ("1:10:https://x/y:z",), id="colons in a group's name"),
        pytest.param(["--cores-total=8:64"], "cores-total", Range(8, 64), id="range"),
        pytest.param(
            ["--gpu-total=a:0:4", "--gpu-total", "b:1:2"],
            "gpu-total",
            (GpuRange("a", 0, 4), GpuRange("b", 1, 2)),
            id="gpus",
        ),
        pytest.param(
            ["--drain-priority-config=1000:300,0:60"],
            "drain-priority-config",
            (DrainPriority(0, 60), DrainPriority(1000, 300)),
            id="drain priorities ascend",
        ),
        pytest.param(["--feature-gates=A=true,B=false"], "feature-gates", ("A=true", "B=false"), id="feature gates"),
        pytest.param(["--address=127.0.0.1:0"], "address", "127.0.0.1:0", id="address"),
    ],
)
def test_a_command_line(argv: list[str], flag: str, value: Any) -> None:
    settings = parse_flags(argv)
    assert settings.problems == ()
    assert settings.values == {flag: value}


@pytest.mark.parametrize(
    ("argv", "problem"),
    [
        pytest.param(
            ["--scan-intervall=1s"], "--scan-intervall: unknown flag; did you mean --scan-interval?", id="nearest name"
        ),
        pytest.param(
            ["--zzzzzzzz", "12"], "--zzzzzzzz: unknown flag", id="the value of an unknown flag is no second mistake"
        ),
        pytest.param(["--expander"], "--expander: needs a value (names, comma-separated)", id="value missing"),
        pytest.param(
            ["--leader-elect", "false"],
            "false: is not a flag; write a switch as --flag=false, and values with spaces in quotes",
            id="a switch does not take the next word",
        ),
        pytest.param(["--leader-elect=no"], '--leader-elect: "no" is not a boolean; write true or false', id="boolean"),
        pytest.param(["--v=1.5"], '--v: "1.5" is not a whole number; write digits only, such as 10', id="integer"),
        pytest.param(["--v= 4"], '--v: " 4" is not a whole number; write digits only, such as 10', id="no spaces"),
        pytest.param(
            ["--v=9223372036854775808"], '--v: "9223372036854775808" does not fit into 64 bits', id="overflow"
        ),
        pytest.param(
            ["--kube-client-qps=NaN"],
            '--kube-client-qps: "NaN" is not a number; write for example 0.5',
            id="not a number",
        ),
        pytest.param(
            ["--scan-interval=10"],
            '--scan-interval: "10" is not a duration; write a number with a unit, such as 90s, 10m or 1h30m',
            id="duration without unit",
        ),
        pytest.param(
            ["--scan-interval=-1s"], '--scan-interval: "-1s" is too small; write 0 or more', id="negative duration"
        ),
        pytest.param(
            ["--predicate-parallelism=0"],
            '--predicate-parallelism: "0" is too small; write 1 or more',
            id="parallelism",
        ),
        pytest.param(
            ["--max-total-unready-percentage=101"],
            '--max-total-unready-percentage: "101" is out of range; write a number from 0 to 100',
            id="percentage",
        ),
        pytest.param(
            ["--cores-total=8"],
            '--cores-total: "8" is not min:max; write two whole numbers, such as 0:100',
            id="no range",
        ),
        pytest.param(
            ["--cores-total=8:4"],
            '--cores-total: "8:4" has a minimum above its maximum; write the smaller number first',
            id="range upside down",
        ),
        pytest.param(["--memory-total=-1:4"], '--memory-total: "-1:4" holds a negative limit', id="negative range"),
        pytest.param(
            ["--memory-total=1:x"],
            '--memory-total: "1:x" holds a limit that is not a whole number',
            id="range of words",
        ),
        pytest.param(
            ["--gpu-total=4:8"],
            '--gpu-total: "4:8" is not type:min:max; write for example nvidia-tesla-t4:0:16',
            id="gpu",
        ),
        pytest.param(
            ["--nodes=1:2"], '--nodes: "1:2" is not min:max:name; write for example 1:10:my-group', id="no name"
        ),
        pytest.param(
            ["--nodes=3:2:a"],
            '--nodes: "3:2:a" has a minimum above its maximum; write the smaller number first',
            id="group upside down",
        ),
        pytest.param(
            ["--drain-priority-config=5"],
            '--drain-priority-config: "5" is not priority:seconds,...; write for example 0:60,1000:300',
            id="drain priorities",
        ),
        pytest.param(
            ["--drain-priority-config=5:1,5:2"],
            '--drain-priority-config: "5:1,5:2" names priority 5 twice',
            id="drain priority twice",
        ),
        pytest.param(["--tie-break=fair"], '--tie-break: "fair" is not one of stable, random', id="choice"),
        pytest.param(["--estimator=magic"], '--estimator: "magic" is not one of binpacking', id="estimator"),
        pytest.param(["--feature-gates=A"], '--feature-gates: "A" is not Name=true|false,...', id="feature gate"),
        pytest.param(
            ["--address=8085"],
            '--address: "8085" is not host:port; write for example :8085, 127.0.0.1:8085 or [::1]:8085',
            id="address",
        ),
    ],
)
def test_a_command_line_that_is_wrong(argv: list[str], problem: str) -> None:
    assert parse_flags(argv).problems == (problem,)


def test_all_problems_are_reported_and_good_flags_still_count() -> None:
    settings = parse_flags(["--v=x", "--nope", "--cores-total=1", "--expander=price"])
    assert [line.partition(":")[0] for line in settings.problems] == ["--nope", "--v", "--cores-total"]
    assert settings.values == {"expander": ("price",)}


def test_every_default_is_shown_as_text_that_reads_back() -> None:
    shown = {flag.name: flag.show(flag.default) for flag in flags().values() if flag.default not in (None, ())}
    read = {name: flags()[name].read(text) for name, text in shown.items()}
    assert read == {name: flags()[name].default for name in shown}
    assert len(shown) > 100


def test_environment_variables_are_named_for_flags() -> None:
    settings = parse_environment({"AUTOSCALER_SCAN_INTERVAL": "20s", "AUTOSCALER_PORT": "tcp://1", "AUTOSCALER_V": "x"})
    assert settings.values == {"scan-interval": 20.0}
    assert settings.problems == ('$AUTOSCALER_V: "x" is not a whole number; write digits only, such as 10',)


@pytest.mark.parametrize("text", ["a\nb", '"a', "a\rb", "x" * 200_000])
def test_a_list_that_cannot_be_read_is_one_line(text: str) -> None:
    (problem,) = parse_flags([f"--cloud-provider-gce-lb-src-cidrs={text}"]).problems
    assert "is not text between commas" in problem
    assert len(problem.splitlines()) == 1
    assert len(problem) < 500
