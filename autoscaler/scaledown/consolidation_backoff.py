"""Back-off of consolidations: it keeps them from being made, undone and made again."""

import msgspec

from autoscaler.clock import Instant
from autoscaler.config.scaledown import ReplacementOptions as Options
from autoscaler.objects.pod import PodClass
from autoscaler.scaledown.replacement import MAX_DOUBLINGS, ConsolidationBackoff, ReplacementMemory, WorkloadKey


def prove_or_back_off(
    memory: ReplacementMemory, grown_for: frozenset[PodClass], now: Instant, options: Options
) -> ReplacementMemory:
    """Return the memory after a check of the last consolidation; new nodes were just bought for pods of `grown_for`.

    The scheduler spreads pods that a simulation packs, so it may find no room where the simulation did. A plan that
    scale-up undoes would be repeated for ever: it is not repeated until other pods run, and less often each time.
    """
    unproven = memory.settling
    if unproven is None:
        return memory
    replace = msgspec.structs.replace
    if unproven.classes & grown_for:
        return backed_off(memory, now, options)
    if unproven.until is None:
        if any(replacement.id == unproven.id for replacement in memory.in_progress):
            return memory
        return replace(memory, settling=replace(unproven, until=now.later(options.consolidation_interval_s)))
    return replace(memory, settling=None, doubt=None) if unproven.until.mono <= now.mono else memory


def backed_off(memory: ReplacementMemory, now: Instant, options: Options) -> ReplacementMemory:
    """Return the memory after a consolidation that failed: a pause, twice as long each time."""
    unproven = memory.settling
    if unproven is None:
        return memory
    failures = (0 if memory.doubt is None else memory.doubt.failures) + 1
    until = now.later(options.replacement_retry_delay_s * 2 ** min(failures - 1, MAX_DOUBLINGS))
    doubt = ConsolidationBackoff(until=until, failures=failures, workload=unproven.workload)
    return msgspec.structs.replace(memory, settling=None, doubt=doubt)


def may_consolidate(memory: ReplacementMemory, workload: WorkloadKey, now: Instant, options: Options) -> bool:
    """Whether cheaper nodes may be looked for: not too often, and not while the last plan is unproven."""
    last, doubt = memory.consolidated, memory.doubt
    if last is not None and now.mono - last.mono < options.consolidation_interval_s:
        return False
    if memory.settling is not None:
        return False
    return doubt is None or (doubt.until.mono <= now.mono and doubt.workload != workload)
