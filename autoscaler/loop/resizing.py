"""Carrying out planned increases: what is told of them, and what is remembered."""

from collections.abc import Sequence

from msgspec.structs import replace

from autoscaler.actuation.cloud import Cloud
from autoscaler.config.scaleup import GroupsPerPass
from autoscaler.config.tree import Config
from autoscaler.loop.event_writer import PassEventWriter
from autoscaler.loop.passing import PassState
from autoscaler.registry import memory as memories
from autoscaler.registry.buckets import provision_time_s
from autoscaler.registry.memory import Memory
from autoscaler.scaleup.plan import Increase, Resized


class Resizing:
    """Makes groups grow: one after the other, or at the same time (`--parallel-scale-up`)."""

    def __init__(self, config: Config, cloud: Cloud, herald: PassEventWriter) -> None:
        self._config = config
        self._cloud = cloud
        self._herald = herald

    @property
    def carries_on(self) -> bool:
        """Whether a failure leaves other groups to be tried in the same pass."""
        one = self._config.scale_up.groups_per_pass is GroupsPerPass.ONE
        return self._config.rules.next_group_after_failed_increase and not one

    def run(
        self, p: PassState, increases: Sequence[Increase], *, atomic: bool = False
    ) -> tuple[PassState, tuple[Resized, ...]]:
        """Return the pass with each increase that was tried in its report, and what became of these.

        What grew stays, whatever fails. Where a result says that all else waits the rest is not tried; nor is it after
        any failure where rules say so.
        """
        done: list[Resized] = []
        step = max(1, len(increases)) if self._config.scale_up.parallel_scale_up else 1
        for start in range(0, len(increases), step):
            together = increases[start : start + step]
            for increase in together:
                self._herald.resizing(increase)
            for increase, resized in zip(together, self._cloud.increase_together(together, atomic=atomic), strict=True):
                p = p.with_memory(self._noted(p, increase, resized))
                self._herald.resized(resized, increase.max_size)
                done.append(resized)
            if any(one.hold or (one.error is not None and not self.carries_on) for one in done):
                break
        return p.with_report(replace(p.report, increases=(*p.report.increases, *done))), tuple(done)

    def _noted(self, p: PassState, increase: Increase, resized: Resized) -> Memory:
        """Return the memories with what a resize came to: the size read back counts, whatever the error says."""
        health, now, memory = self._config.health, p.report.now, p.remembered.registry
        group = p.view.groups.get(increase.group)
        provision_s = health.max_node_provision_time_s if group is None else provision_time_s(group, health)
        grown = resized.after - resized.before
        if grown > 0:
            memory = memories.scaled_up(memory, increase.group, grown, now, provision_s)
        if resized.error is not None:
            memory = memories.scale_up_failed(memory, increase.group, resized.error, now, health)
        return memory
