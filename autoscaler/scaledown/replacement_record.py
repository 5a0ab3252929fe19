"""The annotation on nodes that records their replacement, so that a new process can continue it."""

from collections.abc import Iterable

import msgspec

from autoscaler.clock import Instant
from autoscaler.objects.node import Node
from autoscaler.reasons import ReplacementHold, ReplacementStage, ReplacementTrigger
from autoscaler.scaledown.replacement import Purchase, Replacement, ReplacementBackoff, ReplacementMemory

STATE = "replacement.autoscaler/state"
"""Annotation on a node that we write: what was bought for it, or until when it rests."""


class _Record(msgspec.Struct, frozen=True, omit_defaults=True):
    """What the annotation holds; times in Unix seconds."""

    trigger: ReplacementTrigger
    nodes: tuple[str, ...]
    began: float
    cause: str = ""
    bought: tuple[Purchase, ...] = ()
    buys: int = 0
    price_before: float | None = None
    price_after: float | None = None
    until: float | None = None
    """Set: given up, and the node rests."""
    hold: ReplacementHold | None = None
    failures: int = 0


_decoder = msgspec.json.Decoder(_Record)


def record_of(replacement: Replacement, rest: ReplacementBackoff | None = None) -> str:
    """Return what to write to each of the old nodes before buying, or (with a rest) after giving up."""
    record = _Record(
        trigger=replacement.trigger,
        nodes=replacement.nodes,
        began=round(replacement.began.wall, 3),
        cause=replacement.cause,
        bought=replacement.bought,
        buys=replacement.buys,
        price_before=replacement.price_before,
        price_after=replacement.price_after,
        until=None if rest is None else round(rest.until.wall, 3),
        hold=None if rest is None else rest.hold,
        failures=0 if rest is None else rest.failures,
    )
    return msgspec.json.encode(record).decode()


def restored(nodes: Iterable[Node], now: Instant) -> ReplacementMemory:
    """Return the memory of a process that starts now, read from the annotations on nodes.

    A record counts only where all nodes it names carry it, as far as they still exist: it is written to all of them
    before anything is bought. What cannot be read is ignored.
    """
    present: dict[str, str | None] = {node.name: node.annotations.get(STATE) for node in nodes}
    replacements: dict[str, Replacement] = {}
    rests: dict[str, ReplacementBackoff] = {}
    for name, text in present.items():
        record = None if text is None else _read(text)
        if record is None or name not in record.nodes:
            continue
        if record.until is not None:
            until = now.later(record.until - now.wall)
            rests[name] = ReplacementBackoff(
                until=until, hold=record.hold or ReplacementHold.TIMED_OUT, failures=record.failures
            )
        elif all(present.get(other, text) == text for other in record.nodes):
            replacements[record.nodes[0]] = Replacement(
                trigger=record.trigger,
                nodes=record.nodes,
                began=now.later(min(0.0, record.began - now.wall)),
                cause=record.cause,
                stage=ReplacementStage.BOUGHT,
                bought=record.bought,
                buys=record.buys,
                price_before=record.price_before,
                price_after=record.price_after,
            )
    in_progress = sorted(replacements.values(), key=lambda replacement: (replacement.began.wall, replacement.id))
    return ReplacementMemory(in_progress=tuple(in_progress), rests=rests)


def _read(text: str) -> _Record | None:
    try:
        record = _decoder.decode(text)
    except msgspec.MsgspecError:
        return None
    return record if record.nodes else None
