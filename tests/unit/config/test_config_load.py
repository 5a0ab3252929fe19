"""From flags, file, environment and options to one configuration."""

from pathlib import Path
from typing import Any

import msgspec
import pytest

from autoscaler.config.document import to_options
from autoscaler.config.flags import flags, without_effect
from autoscaler.config.load import from_options, load, load_file
from autoscaler.config.process import Compatibility
from autoscaler.config.rules import Rules, changes, rules_at, rules_of_1_31
from autoscaler.config.scaleup import GroupsPerPass, TieBreak
from autoscaler.config.syntax import Range, Support
from autoscaler.config.tree import Config
from autoscaler.errors import ConfigError


def problems_of(argv: list[str], environ: dict[str, str] | None = None) -> tuple[str, ...]:
    with pytest.raises(ConfigError) as caught:
        load(argv, environ)
    return caught.value.problems


def a_file(folder: Path, text: str) -> str:
    path = folder / "autoscaler.yaml"
    path.write_text(text)
    return str(path)


def test_nothing_given_is_the_tree_of_defaults() -> None:
    assert load([]) == Config() == from_options({})


@pytest.mark.parametrize(
    "argv",
    [
        pytest.param(
            [
                "--cloud-provider=aws",
                "--namespace=kube-system",
                "--node-group-auto-discovery=asg:tag=k8s.io/cluster-autoscaler/enabled,k8s.io/cluster-autoscaler/prod",
                "--logtostderr=true",
                "--stderrthreshold=info",
                "--v=4",
                "--balance-similar-node-groups",
                "--skip-nodes-with-system-pods=false",
                "--aws-use-static-instance-list=true",
                "--expander=priority,least-waste",
            ],
            id="aws by discovery",
        ),
        pytest.param(
            [
                "--cloud-provider=gce",
                "--nodes=1:10:https://content.googleapis.com/compute/v1/projects/p/zones/z/instanceGroups/a",
                "--node-group-auto-discovery=mig:namePrefix=gke-prod,min=0,max=10",
                "--regional=true",
                "--gce-concurrent-refreshes=4",
                "--gce-mig-instances-min-refresh-wait-time=30s",
                "--stderrthreshold=info",
            ],
            id="gce",
        ),
        pytest.param(
            [
                "--cloud-provider=azure",
                "--cloud-config=/etc/kubernetes/azure.json",
                "--nodes=1:10:vmss-a",
                "--nodes=0:5:vmss-b",
                "--node-group-auto-discovery=label:cluster-autoscaler-enabled=true,cluster-autoscaler-name=prod",
                "--user-agent=me",
            ],
            id="azure",
        ),
        pytest.param(
            [
                "--cloud-provider=clusterapi",
                "--namespace=capi",
                "--node-group-auto-discovery=clusterapi:namespace=capi,clusterName=prod",
                "--kubeconfig=/mnt/kubeconfig",
                "--clusterapi-cloud-config-authoritative",
                "--cloud-config=/mnt/management",
                "--leader-elect-resource-name=capi-prod",
            ],
            id="cluster api",
        ),
        pytest.param(
            ["--cloud-provider=kwok", "--scan-interval", "1m", "-v=4", "--max-empty-bulk-delete=5"], id="kwok"
        ),
        pytest.param(
            [
                "--parallel-drain=true",
                "--node-autoprovisioning-enabled=false",
                "--max-autoprovisioned-node-group-count=15",
                "--gce-expander-ephemeral-storage-support",
                "--filter-out-schedulable-pods-uses-packing=false",
                "--configmap=sizes",
                "--unregistered-node-removal-time=15m",
                "--scale-down-non-empty-candidates-count=30",
                "--leader-elect-resource-namespace=default",
                "--one_output",
                "--log_file=/dev/null",
            ],
            id="flags of older versions",
        ),
    ],
)
def test_command_lines_of_existing_deployments_load(argv: list[str]) -> None:
    config = load(argv)
    names = {word.lstrip("-").partition("=")[0].replace("_", "-") for word in argv if word.startswith("-")}
    assert set(config.given) == names


def test_a_flag_lands_in_its_section() -> None:
    config = load(["--scale-down-unneeded-time=5m", "--cores-total=1:2", "--max-graceful-termination-sec=7"])
    assert config.scale_down.scale_down_unneeded_time_s == 300.0
    assert config.limits.cores_total == Range(1, 2)
    assert config.drain.max_graceful_termination_sec == 7


@pytest.mark.parametrize(
    ("argv", "problems"),
    [
        pytest.param(
            ["--expander=least-wast"],
            [
                '--expander: "least-wast" is not an expander; known are random, most-pods, least-nodes, least-waste, '
                "price, cost, priority, preferred, grpc; did you mean least-waste?"
            ],
            id="unknown expander",
        ),
        pytest.param(
            ["--expander=price,price"], ['--expander: "price" is there twice; name it once'], id="repeated expander"
        ),
        pytest.param(
            ["--expander=random,price"],
            ['--expander: nothing can follow "random", which leaves one option; move random behind price or drop it'],
            id="unreachable expander",
        ),
        pytest.param(
            ["--expander="],
            [
                "--expander: names no expander; write one or more of random, most-pods, least-nodes, least-waste, "
                "price, cost, priority, preferred, grpc"
            ],
            id="no expander",
        ),
        pytest.param(
            ["--expander=grpc"],
            [
                "--grpc-expander-url: is missing; the grpc expander needs it",
                "--grpc-expander-cert: is missing; the grpc expander needs it",
            ],
            id="grpc expander without address",
        ),
        pytest.param(
            ["--allowed-scheduler-names=a", "--bypassed-scheduler-names=a,b"],
            ["--bypassed-scheduler-names: b is not among allowed-scheduler-names; add it there or drop it here"],
            id="bypassed scheduler that is not allowed",
        ),
        pytest.param(
            ["--drain-priority-config=0:60", "--max-graceful-termination-sec=30"],
            ["--drain-priority-config: excludes max-graceful-termination-sec (30); give one of the two"],
            id="two ways to limit termination",
        ),
        pytest.param(
            ["--enable-dynamic-resource-allocation=false"],
            ["--enable-dynamic-resource-allocation: false is no longer possible; drop it, or use --compatibility=1.31"],
            id="dynamic resources off",
        ),
        pytest.param(
            ["--leader-elect-lease-duration=10s"],
            ["--leader-elect-lease-duration: 10s must be longer than leader-elect-renew-deadline (10s)"],
            id="lease shorter than its renewal",
        ),
        pytest.param(
            ["--leader-elect-retry-period=9s"],
            ["--leader-elect-renew-deadline: 10s must be longer than 1.2 times leader-elect-retry-period (9s)"],
            id="retry too slow",
        ),
        pytest.param(
            ["--leader-elect-retry-period=0s"],
            ["--leader-elect-retry-period: must be longer than 0; write for example 2s"],
            id="retry without pause",
        ),
        pytest.param(
            ["--scan-interval=0"],
            ["--scan-interval: 0 would leave no time between passes; write for example 10s"],
            id="no scan interval",
        ),
        pytest.param(
            ["--min-pass-interval=20s"],
            ["--min-pass-interval: 20s is longer than scan-interval (15s); make it at most that"],
            id="pass interval above scan interval",
        ),
        pytest.param(
            ["--scheduler-config-file=/nowhere/file"],
            ["--scheduler-config-file: /nowhere/file cannot be read: No such file or directory"],
            id="scheduler configuration missing",
        ),
        pytest.param(
            ["--config=/nowhere/file"], ["/nowhere/file: cannot be read: No such file or directory"], id="file missing"
        ),
    ],
)
def test_start_up_errors(argv: list[str], problems: list[str]) -> None:
    assert list(problems_of(argv)) == problems


def test_what_would_be_wrong_may_be_fine_in_context() -> None:
    load(["--enable-dynamic-resource-allocation=false", "--compatibility=1.31"])
    load(["--leader-elect=false", "--leader-elect-lease-duration=1s"])
    load(["--drain-priority-config=0:60", "--max-graceful-termination-sec=600"])
    load(["--bypassed-scheduler-names=b"])
    load(["--expander=price,random"])
    load(["--expander=grpc", "--grpc-expander-url=x:1", "--grpc-expander-cert=/c"])


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("kind: KubeSchedulerConfiguration\nprofiles: [{}, {}]", "must have exactly one profile"),
        ("kind: KubeSchedulerConfiguration", "must have exactly one profile"),
        ("kind: Pod", "is not a KubeSchedulerConfiguration"),
        ("a: [", "is not YAML: did not find expected node content (line 2, column 1)"),
        ("kind: KubeSchedulerConfiguration\nprofiles: [{schedulerName: default-scheduler}]", None),
    ],
)
def test_scheduler_configuration(tmp_path: Path, text: str, problem: str | None) -> None:
    path = a_file(tmp_path, text)
    argv = [f"--scheduler-config-file={path}"]
    if problem is None:
        assert load(argv).templates.scheduler_config_file == path
    else:
        assert problems_of(argv) == (f"--scheduler-config-file: {path} {problem}",)


def test_flag_wins_over_file_over_environment_over_preset(tmp_path: Path) -> None:
    path = a_file(
        tmp_path, 'compatibility: "1.31"\nloop: {scanInterval: 20s}\nscaleUp: {expander: [price, priority]}\n'
    )
    environ = {"AUTOSCALER_SCAN_INTERVAL": "30s", "AUTOSCALER_V": "3", "AUTOSCALER_EXPANDER": "random"}
    config = load([f"--config={path}", "--scan-interval=40s"], environ)
    assert config.loop.scan_interval_s == 40.0
    assert config.scale_up.expander == ("price", "priority")
    assert config.observe.v == 3
    assert config.scale_up.groups_per_pass is GroupsPerPass.ONE
    assert not config.rules.hints_by_priority
    assert config.given == ("compatibility", "config", "expander", "scan-interval", "v")


def test_the_file_may_be_named_by_the_environment(tmp_path: Path) -> None:
    path = a_file(tmp_path, "loop: {scanInterval: 20s}")
    assert load([], {"AUTOSCALER_CONFIG": path}).loop.scan_interval_s == 20.0


def test_the_problems_of_all_sources_come_together(tmp_path: Path) -> None:
    path = a_file(tmp_path, "loop: {scanIntervall: 20s}\nscaleUp: {expander: [random, price]}\n")
    problems = problems_of([f"--config={path}", "--v=x"], {"AUTOSCALER_NAMESPACE": "a", "AUTOSCALER_DRY_RUN": "?"})
    assert problems == (
        '$AUTOSCALER_DRY_RUN: "?" is not a boolean; write true or false',
        f"{path}: loop.scanIntervall: unknown key; did you mean loop.scanInterval?",
        '--v: "x" is not a whole number; write digits only, such as 10',
        f'{path}: scaleUp.expander: nothing can follow "random", which leaves one option; '
        "move random behind price or drop it",
    )


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        pytest.param("lop: {scanInterval: 1s}", "lop: unknown key; did you mean loop?", id="unknown group"),
        pytest.param("3: {}", "3: unknown key", id="a number as group"),
        pytest.param("source: {config: x}", "source: unknown key", id="a file cannot name a file"),
        pytest.param(
            "loop: {scanInterval: {null: 1}}",
            "loop.scanInterval: a map is not a duration; write text with a unit, such as 90s, 10m or 1h30m",
            id="a map for one value",
        ),
        pytest.param(
            "? [a]\n: 1", "is not YAML: a list or mapping cannot be a key (line 1, column 5)", id="a list as key"
        ),
        pytest.param("loop: 10s", "loop: is not a group of keys", id="group without keys"),
        pytest.param("- a", "holds no groups; write for example `loop: {scanInterval: 10s}`", id="a list"),
        pytest.param(
            "loop: {scanInterval: [10s]}",
            "loop.scanInterval: a list is not a duration; write text with a unit, such as 90s, 10m or 1h30m",
            id="a list for one value",
        ),
        pytest.param(
            "loop: {scanInterval: 10}",
            "loop.scanInterval: 10 is not a duration; write text with a unit, such as 90s, 10m or 1h30m",
            id="a duration without unit",
        ),
        pytest.param(
            "loop: {dryRun: 1}", "loop.dryRun: 1 is not a boolean; write true or false", id="a number as switch"
        ),
        pytest.param("observe: {v: true}", "observe.v: true is not a whole number", id="a boolean as number"),
        pytest.param("observe: {v: 1.5}", "observe.v: 1.5 is not a whole number", id="a fraction as whole number"),
        pytest.param("observe: {v: null}", "observe.v: null is not a whole number", id="nothing as number"),
        pytest.param(
            "limits: {coresTotal: {min: 1}}",
            "limits.coresTotal: a map is not text of the form min:max cores",
            id="map",
        ),
        pytest.param(
            "limits: {gpuTotal: [[a]]}",
            "limits.gpuTotal: holds an entry that is neither text nor a number",
            id="nested",
        ),
        pytest.param(
            "loop: {scanInterval: 1x}",
            'loop.scanInterval: "1x" is not a duration; write a number with a unit, such as 90s, 10m or 1h30m',
            id="bad text",
        ),
        pytest.param(
            "loop:\n  dryRun: true\n  dryRun: false",
            "is not YAML: key dryRun is there twice (line 3, column 3)",
            id="twice",
        ),
        pytest.param("loop: {", "is not YAML: did not find expected node content (line 2, column 1)", id="not YAML"),
    ],
)
def test_a_file_that_is_wrong(tmp_path: Path, text: str, problem: str) -> None:
    path = a_file(tmp_path, text)
    with pytest.raises(ConfigError) as caught:
        load_file(path)
    assert caught.value.problems == (f"{path}: {problem}",)


def test_a_file_holds_natural_values(tmp_path: Path) -> None:
    path = a_file(
        tmp_path,
        "loop: {dryRun: true, scanInterval: 20s, maxInactivity: 0}\n"
        "compatibility: 1.31\n"
        "kube:\n"
        "balancing: {maxFreeDifferenceRatio: 1, memoryDifferenceRatio: 0.5, balancingIgnoreLabel: [a, b]}\n"
        "limits: {maxNodesTotal: 7, coresTotal: '1:2', gpuTotal: ['a:0:1']}\n"
        "pods: {allowedSchedulerNames: 'a,b'}\n",
    )
    config = load_file(path)
    assert config.loop == msgspec.structs.replace(
        config.loop, dry_run=True, scan_interval_s=20.0, max_inactivity_s=0.0, frequent_loops_enabled=False
    )
    assert (config.balancing.max_free_difference_ratio, config.balancing.memory_difference_ratio) == (1.0, 0.5)
    assert config.balancing.balancing_ignore_label == ("a", "b")
    assert (config.limits.max_nodes_total, config.limits.cores_total) == (7, Range(1, 2))
    assert config.limits.gpu_total == (("a", 0, 1),)
    assert config.pods.allowed_scheduler_names == ("a", "b")
    assert config.rules == rules_of_1_31()


def test_options_of_a_scenario() -> None:
    options: dict[str, Any] = {
        "expander": "least-waste,priority",
        "compatibility": 1.31,
        "status-taint": ["x", "y"],
        "scale-down-utilization-threshold": 0.7,
        "max-nodes-total": 3,
        "scale-up-from-zero": False,
        "new-pod-scale-up-delay": "5m",
    }
    config = from_options(options)
    assert config.scale_up.expander == ("least-waste", "priority")
    assert config.templates.status_taint == ("x", "y")
    assert config.scale_down.scale_down_utilization_threshold == 0.7
    assert (config.limits.max_nodes_total, config.scale_up.scale_up_from_zero) == (3, False)
    assert config.pods.new_pod_scale_up_delay_s == 300.0
    assert set(config.given) == set(options)


def test_a_command_line_wins_over_the_options_of_a_scenario() -> None:
    config = from_options({"expander": "price", "v": 1}, ["--expander=random", "--compatibility=1.31"])
    assert (config.scale_up.expander, config.observe.v, config.rules) == (("random",), 1, rules_of_1_31())


def test_options_that_are_wrong_name_their_path() -> None:
    with pytest.raises(ConfigError) as caught:
        from_options({"expandr": "x", "config": "f", "max-inactivity": 600, "expander": "price,price", "v": "x"})
    assert caught.value.problems == (
        "options.expandr: unknown flag; did you mean expander?",
        "options.config: a scenario reads no file; write its options here",
        "options.max-inactivity: 600 is not a duration; write text with a unit, such as 90s, 10m or 1h30m",
        'options.v: "x" is not a whole number; write digits only, such as 10',
        'options.expander: "price" is there twice; name it once',
    )


@pytest.mark.parametrize(
    "options",
    [
        pytest.param({}, id="defaults"),
        pytest.param({"compatibility": "1.31"}, id="preset"),
        pytest.param(
            {"compatibility": "1.31", "expander": "least-waste", "scan-interval": "15s"}, id="preset changed back"
        ),
        pytest.param({"gpu-total": ["a:0:1", "b:1:2"], "drain-priority-config": "0:5,7:8"}, id="lists"),
        pytest.param(
            {"allowed-scheduler-names": "a,b", "dry-run": True, "new-pod-scale-up-delay": "0.1s"}, id="values"
        ),
    ],
)
def test_a_configuration_survives_as_options(options: dict[str, Any]) -> None:
    config = from_options(options)
    again = from_options(to_options(config))
    assert msgspec.structs.replace(again, given=config.given) == config
    assert to_options(from_options({})) == {}


def test_the_preset_1_31() -> None:
    config = load(["--compatibility=1.31"])
    assert config.loop.scan_interval_s == 10.0
    assert not config.loop.frequent_loops_enabled
    assert config.scale_up.expander == ("random",)
    assert (config.scale_up.groups_per_pass, config.scale_up.tie_break) == (GroupsPerPass.ONE, TieBreak.RANDOM)
    assert config.scale_down.node_deletion_candidate_ttl_s == 0.0
    assert not config.drain.cordon_node_before_terminating
    assert not config.features.enable_dynamic_resource_allocation
    assert config.rules == rules_of_1_31()


@pytest.mark.parametrize(
    ("version", "expander", "cordons", "loops", "devices"),
    [
        pytest.param("1.32", "random", False, False, False, id="1.32"),
        pytest.param("1.33", "least-waste", False, False, False, id="1.33"),
        pytest.param("1.34", "least-waste", True, False, False, id="1.34"),
        pytest.param("1.35", "least-waste", True, True, True, id="1.35"),
        pytest.param("1.36", "least-waste", True, True, True, id="1.36"),
        pytest.param("1.37", "least-waste", True, True, True, id="1.37"),
    ],
)
def test_the_defaults_of_later_versions(version: str, expander: str, cordons: bool, loops: bool, devices: bool) -> None:
    config = load([f"--compatibility={version}"])
    assert config.scale_up.expander == (expander,)
    assert config.drain.cordon_node_before_terminating == cordons
    assert config.loop.frequent_loops_enabled == loops
    assert config.features.enable_dynamic_resource_allocation == devices
    assert (config.loop.scan_interval_s, config.scale_up.groups_per_pass) == (10.0, GroupsPerPass.ONE)
    assert config.rules == rules_at(version)


def test_each_version_has_the_behaviours_that_versions_up_to_it_introduced() -> None:
    newest, versions = Rules(), [version.value for version in Compatibility if version is not Compatibility.HEAD]
    for number, version in enumerate(versions):
        rules = rules_at(version)
        newer = {name for name, change in changes().items() if getattr(rules, name) == getattr(newest, name)}
        assert newer == {name for name, change in changes().items() if change.since in versions[: number + 1]}


def test_versions_of_behaviours_are_those_of_presets_after_the_first() -> None:
    _, *later = [version.value for version in Compatibility if version is not Compatibility.HEAD]
    assert {change.since for change in changes().values()} <= {None, *later}


def test_the_preset_head_changes_nothing() -> None:
    assert msgspec.structs.replace(load(["--compatibility=head"]), given=()) == Config()


def test_an_explicit_flag_wins_over_the_preset() -> None:
    config = load(["--compatibility=1.31", "--scan-interval=1m", "--cordon-node-before-terminating"])
    assert config.loop.scan_interval_s == 60.0
    assert config.drain.cordon_node_before_terminating


def test_every_rule_differs_between_the_versions() -> None:
    old, new = rules_of_1_31(), Rules()
    assert [name for name in changes() if getattr(old, name) == getattr(new, name)] == []
    assert list(changes()) == list(Rules.__struct_fields__)


def test_the_older_name_of_scale_down_parallelism_counts_unless_the_newer_is_given() -> None:
    assert load(["--max-empty-bulk-delete=4"]).scale_down.max_scale_down_parallelism == 4
    both = load(["--max-empty-bulk-delete=4", "--max-scale-down-parallelism=6"])
    assert both.scale_down.max_scale_down_parallelism == 6


def test_flags_without_effect_are_named_when_set_to_something_else() -> None:
    config = load(
        ["--profiling", "--vmodule=a=1", "--regional=false", "--scan-interval=20s", "--max-bulk-soft-taint-count=10"]
    )
    expected = {"profiling", "vmodule"} & {
        name for name, flag in flags().items() if flag.support in (Support.ACCEPTED, Support.NOT_APPLICABLE)
    }
    assert set(without_effect(config)) == expected
    assert "vmodule" in expected


def test_every_flag_has_a_help_sentence_and_keys_are_unique() -> None:
    assert [flag.name for flag in flags().values() if not flag.help.endswith(".") and flag.name != "vmodule"] == []
    assert len({flag.key for flag in flags().values()}) == len(flags())


def test_every_leaf_of_the_tree_is_a_flag() -> None:
    tree = Config()
    leaves = {
        (section, field)
        for section in Config.__struct_fields__
        if section not in ("rules", "given", "scheduler", "headroom", "reservations")
        for field in getattr(tree, section).__struct_fields__
    }
    assert leaves == {(flag.section, flag.field) for flag in flags().values()}
