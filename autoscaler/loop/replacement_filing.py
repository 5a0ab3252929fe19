"""Ends replacements and files those that begin: their events, and what is remembered of their nodes."""

from msgspec.structs import replace

from autoscaler.actuation.node_removal import NodeRemover
from autoscaler.loop.event_writer import PassEventWriter
from autoscaler.loop.replacement_progress import ReplacementProgress, rest_shortly
from autoscaler.reasons import ReplacementHold, ReplacementStage, ReplacementTrigger
from autoscaler.scaledown import consolidation_backoff, replacement_record
from autoscaler.scaledown import replacement as states
from autoscaler.scaledown.replacement import Replacement, ReplacementForecast


class ReplacementFiling:
    """Puts replacements into the progress of a pass."""

    def __init__(self, removal: NodeRemover, events: PassEventWriter) -> None:
        self._removal = removal
        self._events = events

    def begun(
        self, progress: ReplacementProgress, replacement: Replacement, forecast: ReplacementForecast
    ) -> ReplacementProgress:
        """Add a new replacement, unless it is over at once or nothing could be bought for it."""
        if replacement.over:
            return self.ended(progress, replacement)
        if replacement.stage is ReplacementStage.PROPOSED and replacement.hold is not ReplacementHold.NOT_READY:
            return self.rested(progress, replacement)
        self._events.replacement(replacement, progress.nodes(replacement))
        memory = progress.memory
        return replace(
            progress,
            memory=replace(memory, in_progress=(*memory.in_progress, replacement)),
            forecasts={**progress.forecasts, replacement.id: forecast},
        )

    def rested(self, progress: ReplacementProgress, replacement: Replacement) -> ReplacementProgress:
        """Let the nodes of a replacement rest for a while, and tell people once that a budget keeps them too long."""
        before = (progress.memory.rests.get(name) for name in replacement.nodes)
        known = any(rest is not None and rest.hold is replacement.hold for rest in before)
        if replacement.hold is ReplacementHold.GRACE_OVER and not known:
            self._events.replacement(replacement, progress.nodes(replacement))
        return rest_shortly(progress, replacement)

    def ended(self, progress: ReplacementProgress, replacement: Replacement) -> ReplacementProgress:
        """End a replacement. Nodes that stay rest for a while, and an annotation keeps that through a restart."""
        stage, memory, options = progress.stage, progress.memory, progress.stage.config.replacement
        self._events.replacement(replacement, progress.nodes(replacement))
        progress = replace(progress, ended=(*progress.ended, replacement))
        if replacement.stage is ReplacementStage.DONE:
            return progress
        rests = dict(memory.rests)
        for name in replacement.nodes:
            if stage.view.node(name) is None:
                continue
            if replacement.hold is ReplacementHold.WITHDRAWN:
                self._removal.annotate(name, {replacement_record.STATE: None})
                continue
            rests[name] = states.next_backoff(memory.rests.get(name), replacement, stage.now, options)
            if replacement.bought:
                text = replacement_record.record_of(replacement, rests[name])
                self._removal.annotate(name, {replacement_record.STATE: text})
        memory = replace(memory, rests=rests)
        if replacement.trigger is ReplacementTrigger.CHEAPER:
            memory = consolidation_backoff.backed_off(memory, stage.now, options)
        return progress.remember(memory)
