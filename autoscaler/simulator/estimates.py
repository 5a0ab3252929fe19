"""Estimates pod starts of a scenario: it plays the passes with the daemon's own companion."""

from collections.abc import Mapping, Sequence
from typing import Any

from autoscaler.clock import Instant
from autoscaler.errors import ConfigError
from autoscaler.eta.answers import WhatIf, pod_answers, summary
from autoscaler.eta.boot_times import GivenBootTimes
from autoscaler.eta.keeper import EtaKeeper
from autoscaler.eta.metrics import ETA, EtaMetrics
from autoscaler.loop.companion import Companions
from autoscaler.objects.pod import Pod
from autoscaler.observe.http.public_json import public
from autoscaler.observe.metrics.metrics import Metrics
from autoscaler.scenario.scenario import Scenario
from autoscaler.simulator.play import SilentEvents, play_with


def estimates(
    scenario: Scenario, boots: Mapping[str, Sequence[float]] | None = None, new: Sequence[Pod] = ()
) -> dict[str, Any]:
    """Return the estimates of the last run, as `/api/v1/eta` shows them, and those of hypothetical pods.

    `boots` are boot times in seconds by node group; a group without any gets the defaults.
    """
    failures: list[str] = []
    boot_times = GivenBootTimes(boots or {}, scenario.now_s)
    keeper = EtaKeeper(scenario.config, EtaMetrics(Metrics().companion(ETA)), SilentEvents(), boot_times)
    keeper.tick(Instant(scenario.now_s, 0.0))
    play_with(scenario, Companions([keeper], failures.append))
    if failures:
        raise ConfigError(f"{scenario.name}: no estimates could be made; the log says why")
    status = keeper.status
    answer: dict[str, Any] = public(summary(status, status.computed_at or scenario.now_s))
    answer["items"] = public(pod_answers(status))
    if new:
        what_if = WhatIf()
        answer["new"] = [public(what_if.ask(status, pod)) for pod in new]
    return answer
