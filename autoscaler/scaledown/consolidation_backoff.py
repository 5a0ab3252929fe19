"""Whether consolidations last: what keeps them from being made, undone and made again."""

import msgspec

from autoscaler.clock import Instant
from autoscaler.config.scaledown import ReplacementOptions as Options
from autoscaler.objects.pod import PodClass
from autoscaler.scaledown.replacement import MAX_DOUBLINGS, ConsolidationBackoff, ReplacementMemory, WorkloadKey


def prove_or_back_off(
    memory: ReplacementMemory, grown_for: frozenset[PodClass], now: Instant, options: Options
) -> ReplacementMemory:
    """Return the memory after a look at whether the last consolidation lasts; `grown_for` got new nodes just now.

    Where a simulation finds room the scheduler may not, for it spreads pods where we pack them. A plan that is undone
    by scale-up would be made again and again; so it is not, until other pods run, and less often each time.
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
    """Return the memory after a consolidation that came to nothing: a pause, twice as long each time."""
    unproven = memory.settling
    if unproven is None:
        return memory
    failures = (0 if memory.doubt is None else memory.doubt.failures) + 1
    until = now.later(options.replacement_retry_delay_s * 2 ** min(failures - 1, MAX_DOUBLINGS))
    doubt = ConsolidationBackoff(until=until, failures=failures, workload=unproven.workload)
    return msgspec.structs.replace(memory, settling=None, doubt=doubt)


def may_consolidate(memory: ReplacementMemory, workload: WorkloadKey, now: Instant, options: Options) -> bool:
    """Whether cheaper nodes may be looked for: not too often, and not while the last plan may yet be undone."""
    last, doubt = memory.consolidated, memory.doubt
    if last is not None and now.mono - last.mono < options.consolidation_interval_s:
        return False
    if memory.settling is not None:
        return False
    return doubt is None or (doubt.until.mono <= now.mono and doubt.workload != workload)
