"""The configuration file changes while the daemon runs."""

from pathlib import Path

import msgspec
import pytest

from autoscaler.app.build import begin, build_autoscaler
from autoscaler.app.reload import ConfigReloader, FreshHeadroom
from autoscaler.config.flags import flags
from autoscaler.config.headroom import Headroom
from autoscaler.config.live import is_live
from autoscaler.config.load import load
from autoscaler.config.scaledown import ScaleDown
from autoscaler.config.tree import Config
from autoscaler.errors import ConfigError
from autoscaler.objects.pod_interner import PodInterner
from autoscaler.observe.metrics.metrics import Metrics
from autoscaler.ports import EventType, Subject
from tests.builders import a_node
from tests.unit.loop.loop_world import NOW, LoopWorld, a_spec

STATUS = Subject(kind="ConfigMap", name="cluster-autoscaler-status", namespace="kube-system")
POOL = """
headroom:
  pools:
    - name: spare
      namespace: default
      resources: {cpu: 100m}
      policies: [{name: always, idleCount: 1, idleTime: 0s}]
"""


class Running:
    """What a daemon does about its file: takes new options up, unless it must not."""

    def __init__(self, folder: Path, text: str, *flags: str) -> None:
        self.file = folder / "autoscaler.yaml"
        self.file.write_text(text)
        self.told: list[tuple[EventType, str, str]] = []
        self.metrics = Metrics()
        self.metrics.start()
        self.accepted: list[Config] = []
        self.refuses = False
        self.reads = 0
        self._argv = [f"--config={self.file}", *flags]
        self.reloading = ConfigReloader(load(self._argv), self._read, self.metrics, self, STATUS)

    def _read(self) -> Config:
        self.reads += 1
        return load(self._argv)

    def event(self, about: Subject, kind: EventType, reason: str, message: str) -> None:
        assert about == STATUS
        self.told.append((kind, reason, message))

    def accept(self, config: Config) -> None:
        if self.refuses:
            raise ConfigError("expander: price needs prices")
        self.accepted.append(config)

    def becomes(self, text: str) -> Config:
        self.file.write_text(text)
        self.reloading.look(self.accept)
        return self.reloading.config

    def series(self) -> dict[str, float]:
        lines = (line for line in self.metrics.scrape().decode().splitlines() if "_config_" in line and line[0] != "#")
        return {
            name.removeprefix("cluster_autoscaler_config_"): float(value)
            for name, value in (line.rsplit(" ", 1) for line in lines)
        }


@pytest.fixture
def running(tmp_path: Path) -> Running:
    return Running(tmp_path, "scaleDown: {scaleDownUnneededTime: 10m}")


def test_a_file_that_says_the_same_is_not_read_again(running: Running) -> None:
    before = running.reloading.config
    assert running.becomes(running.file.read_text()) is before
    assert (running.reads, running.told, running.accepted) == (0, [], [])
    assert running.series()["last_reload_successful"] == 1


def test_thresholds_expander_limits_and_windows_change_at_once(running: Running) -> None:
    config = running.becomes(
        "scaleDown: {scaleDownUnneededTime: 1m, scaleDownWindow: ['0 22 * * *;8h']}\n"
        "scaleUp: {expander: most-pods}\nlimits: {maxNodesTotal: 7}\nloop: {scanInterval: 30s}\n"
    )
    assert running.accepted == [config]
    assert config.scale_down.scale_down_unneeded_time_s == 60.0
    assert (config.scale_up.expander, config.limits.max_nodes_total) == (("most-pods",), 7)
    names = "scan-interval, expander, max-nodes-total, scale-down-unneeded-time, scale-down-window"
    assert running.told == [(EventType.NORMAL, "ConfigReloaded", f"In use from now on: {names}")]
    assert running.series()['reloads_total{result="applied"}'] == 1


def test_what_needs_a_restart_is_named_and_left_as_it_is(running: Running) -> None:
    config = running.becomes("provider: {cloudProvider: kwok}\npods: {expendablePodsPriorityCutoff: -5}")
    assert config.provider.cloud_provider is None
    assert config.pods.expendable_pods_priority_cutoff == -10
    assert config.scale_down == Config().scale_down
    named = "In use after a restart: cloud-provider, expendable-pods-priority-cutoff"
    assert running.told == [(EventType.WARNING, "ConfigNeedsRestart", named)]
    assert running.series()["restart_needed"] == 2
    running.becomes("scaleDown: {scaleDownUnneededTime: 10m}")
    assert running.series()["restart_needed"] == 0


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        pytest.param("loop: {scanInterval: soon}", "scanInterval", id="bad value"),
        pytest.param("loop: {", "not YAML", id="no YAML"),
        pytest.param("loop: {scanInterval: 100ms}", "min-pass-interval", id="contradiction"),
    ],
)
def test_a_bad_file_changes_nothing_and_is_told_once(running: Running, text: str, problem: str) -> None:
    before = running.reloading.config
    assert running.becomes(text) is before
    assert running.becomes(text) is before
    [(kind, reason, message)] = running.told
    assert (kind, reason) == (EventType.WARNING, "ConfigNotReloaded")
    assert problem in message
    assert (running.series()["last_reload_successful"], running.accepted) == (0, [])
    assert running.becomes("loop: {scanInterval: 20s}").loop.scan_interval_s == 20.0
    assert running.series()["last_reload_successful"] == 1


def test_a_file_that_is_gone_changes_nothing(running: Running) -> None:
    before = running.reloading.config
    running.file.unlink()
    running.reloading.look(running.accept)
    assert running.reloading.config is before
    assert [reason for _, reason, _ in running.told] == ["ConfigNotReloaded"]


def test_options_that_do_not_suit_the_provider_are_refused(running: Running) -> None:
    before = running.reloading.config
    running.refuses = True
    assert running.becomes("scaleUp: {expander: price}") is before
    assert running.told[0][2] == "expander: price needs prices"
    assert running.series()['reloads_total{result="refused"}'] == 1


def test_new_options_that_only_a_restart_would_allow_are_refused(running: Running) -> None:
    before = running.reloading.config
    older = "compatibility: '1.31'\nfeatures: {enableDynamicResourceAllocation: false}"
    assert load(["--compatibility=1.31", "--enable-dynamic-resource-allocation=false"])
    assert running.becomes(older) is before
    assert "--enable-dynamic-resource-allocation: false is no longer possible" in running.told[0][2]


@pytest.mark.parametrize("expander", ["priority", "grpc"])
def test_an_expander_that_asks_others_needs_a_restart(running: Running, expander: str) -> None:
    more = ", grpcExpanderUrl: 'x:1', grpcExpanderCert: x.pem" if expander == "grpc" else ""
    config = running.becomes(f"scaleUp: {{expander: {expander}{more}}}")
    assert config.scale_up.expander == ("least-waste",)
    assert "expander" in running.told[-1][2]


def test_options_without_effect_are_named_once_they_are_set(running: Running, caplog: pytest.LogCaptureFixture) -> None:
    running.becomes("features: {predicateParallelism: 8}")
    running.becomes("features: {predicateParallelism: 8}\nlimits: {maxNodesTotal: 3}")
    [said] = [record for record in caplog.records if record.getMessage() == "config.flags_without_effect"]
    assert "predicate-parallelism" in str(vars(said))


def test_a_flag_wins_over_the_file_then_too(tmp_path: Path) -> None:
    running = Running(tmp_path, "", "--max-nodes-total=3")
    assert running.becomes("limits: {maxNodesTotal: 7}").limits.max_nodes_total == 3
    assert running.accepted == []


def test_somebody_may_ask_for_it(running: Running) -> None:
    running.reloading.ask()
    running.reloading.look(running.accept)
    running.reloading.look(running.accept)
    assert (running.reads, running.accepted) == (1, [])


def test_the_scheduler_profile_is_read_again_when_its_file_changes(tmp_path: Path) -> None:
    profile = tmp_path / "profile.yaml"
    kind = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
    profile.write_text(f"{kind}profiles: [{{schedulerName: a}}]\n")
    running = Running(tmp_path, f"templates: {{schedulerConfigFile: {profile}}}")
    disabled = "plugins: {filter: {disabled: [{name: TaintToleration}]}}"
    profile.write_text(f"{kind}profiles: [{{schedulerName: a, {disabled}}}]\n")
    running.reloading.look(running.accept)
    assert running.told[0][2] == "In use from now on: scheduler"
    assert running.accepted[0].scheduler != load([]).scheduler


def test_headroom_changes_and_goes_at_once_but_begins_with_a_restart(tmp_path: Path, running: Running) -> None:
    config = running.becomes(POOL)
    assert config.headroom is None
    assert running.told[-1][2] == "In use after a restart: headroom"
    folder = tmp_path / "other"
    folder.mkdir()
    keeping = Running(folder, POOL)
    changed = keeping.becomes(POOL.replace("idleCount: 1", "idleCount: 2"))
    assert changed.headroom is not None
    assert keeping.told[-1][2] == "In use from now on: headroom"
    assert keeping.becomes("").headroom == Headroom()
    assert keeping.series()["restart_needed"] == 0


def test_fresh_headroom_is_handed_over_once() -> None:
    fresh = FreshHeadroom()
    assert fresh.take() is None
    fresh.put(Headroom())
    assert fresh.take() == Headroom()
    assert fresh.take() is None


def test_every_flag_that_was_used_to_build_the_process_needs_a_restart() -> None:
    live = {flag.name for flag in flags().values() if is_live(flag)}
    assert {"scan-interval", "expander", "max-nodes-total", "scale-down-utilization-threshold"} <= live
    assert not {"namespace", "cloud-provider", "leader-elect", "address", "dry-run", "v", "kubeconfig"} & live


def test_without_anything_to_read_from_nothing_changes() -> None:
    metrics = Metrics()
    reloading = ConfigReloader(Config(), None, metrics, _Nobody(), STATUS)
    reloading.ask()
    reloading.look(_Nobody().accept)
    assert reloading.config == Config()


class _Nobody:
    def event(self, about: Subject, kind: EventType, reason: str, message: str) -> None:
        raise AssertionError(msgspec.to_builtins(about))

    def accept(self, config: Config) -> None:
        raise AssertionError(config)


def test_a_loop_with_other_options_goes_on_with_what_is_under_way() -> None:
    options = ScaleDown(scale_down_unneeded_time_s=0.0, scale_down_delay_after_add_s=0.0)
    node = a_node("n1", cpu="4", created=NOW - 3600)
    world = LoopWorld(a_spec(target=1), config=Config(scale_down=options), nodes=[(node, "web")])
    underway = begin(Config(scale_down=options), world.around)
    world.autoscaler = build_autoscaler(Config(scale_down=options), world.around, PodInterner(), underway)
    world.run()
    first = world.run(after_s=15)
    assert [one.node.name for one in first.scale_down.deletions.empty] == ["n1"]
    remembered = world.remembered
    world.autoscaler = build_autoscaler(Config(), world.around, PodInterner(), underway)
    world.autoscaler.memory = remembered
    again = world.run(after_s=15)
    assert again.scale_down.deletions.empty == ()
    world.executor.run_until(world.clock.now().mono + 600)
    assert world.calls == [("delete", "web", -1)]
    assert underway.tracker.under_way().nodes == set()
    world.run()
    assert underway.tracker.drain_results() == (), "the loop has taken in what became of it"
