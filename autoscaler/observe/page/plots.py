"""Small charts as inline SVG. Colours come from style classes. Charts contain no text, so no text shrinks on phones."""

from collections.abc import Iterator, Sequence

import msgspec

from autoscaler.observe.figures import count, percent, time_of_day
from autoscaler.observe.page.markup import NOTHING, Html, html, joined
from autoscaler.observe.status import Decision

_BIN_COUNT = 96
_MIN_SPAN_S = 3600.0
_HALF_HEIGHT = 50  # half the height of the timeline, in its own units
_MARK_HEIGHT = 8
_MIN_HEIGHT = 2.5  # a change of one node stays visible beside one of hundreds


def share_bar(share: float, label: str) -> Html:
    """Return a bar filled to `share` (0..1; more shows as full)."""
    return html(
        '<svg class="bar" viewBox="0 0 100 10" preserveAspectRatio="none" role="img" aria-label="{}: {}">'
        '<rect class="track" width="100" height="10"/><rect class="{}" width="{}" height="10"/></svg>',
        label,
        percent(share),
        "fill high" if share > 0.9 else "fill",
        f"{100 * min(1.0, max(0.0, share)):.1f}",
    )


def size_bar(minimum: int, ready: int, target: int, maximum: int) -> Html:
    """Return a bar from 0 to the maximum size, with the ready nodes, the target size, and a mark at the minimum."""
    return amount_bar(
        f"{ready} ready, target {target}, between {minimum} and {maximum}", ready, target, maximum, minimum
    )


def amount_bar(label: str, ready: int, target: int, maximum: int, minimum: int = 0) -> Html:
    """Return a bar from 0 to `maximum`, with the ready amount, the target amount, and a mark at `minimum` unless it is
    0.

    `label` is the description for screen readers.
    """
    scale = 100 / max(1, maximum, target)
    mark = html('<rect class="mark" x="{}" width="0.8" height="10"/>', f"{min(99.2, minimum * scale):.1f}")
    return html(
        '<svg class="bar" viewBox="0 0 100 10" preserveAspectRatio="none" role="img" aria-label="{}">'
        '<rect class="track" width="100" height="10"/><rect class="target" width="{}" height="10"/>'
        '<rect class="fill" width="{}" height="10"/>{}</svg>',
        label,
        f"{target * scale:.1f}",
        f"{min(ready, target) * scale:.1f}",
        mark if minimum else NOTHING,
    )


class _Bin(msgspec.Struct):
    added: int = 0
    removed: int = 0
    failed: int = 0


def timeline(history: Sequence[Decision], now_wall: float) -> Html:
    """Return nodes added (upwards) and removed (downwards) over time, from the oldest decision to now.

    Failed decisions changed nothing; they are marks on the axis.
    """
    start = min([now_wall - _MIN_SPAN_S, *(decision.at for decision in history)])
    width_s = (now_wall - start) / _BIN_COUNT
    bins = [_Bin() for _ in range(_BIN_COUNT)]
    for decision in history:
        bin_ = bins[min(_BIN_COUNT - 1, max(0, int((decision.at - start) / width_s)))]
        if decision.failed:
            bin_.failed += 1
        else:
            bin_.added += max(0, decision.delta)
            bin_.removed += max(0, -decision.delta)
    maximum = max(1, *(max(bin_.added, bin_.removed) for bin_ in bins))
    bars = joined(
        bar
        for position, bin_ in enumerate(bins)
        for bar in _bars(position, bin_, maximum, time_of_day(start + position * width_s))
    )
    added = f"{count(sum(bin_.added for bin_ in bins), 'node')} added"
    removed = f"{count(sum(bin_.removed for bin_ in bins), 'node')} removed"
    failed = f"{count(sum(bin_.failed for bin_ in bins), 'decision')} failed"
    keys = joined(
        html('<span class="key {}"></span>{} ', style, text)
        for style, text in (("added", added), ("removed", removed), ("failed", failed))
    )
    return html(
        '<figure><svg class="timeline" viewBox="0 0 {} 100" preserveAspectRatio="none" role="img" aria-label="{}">'
        '<line class="axis" x1="0" x2="{}" y1="50" y2="50"/>{}</svg>'
        '<div class="ticks" aria-hidden="true"><span>{}</span><span>{}</span><span>now</span></div>'
        "<figcaption>{}since {} UTC; the tallest bar is {}</figcaption></figure>",
        _BIN_COUNT,
        f"Nodes over time: {added}, {removed}, {failed}",
        _BIN_COUNT,
        bars,
        time_of_day(start),
        time_of_day((start + now_wall) / 2),
        keys,
        time_of_day(start),
        count(maximum, "node"),
    )


def _bars(position: int, bin_: _Bin, maximum: int, when: str) -> Iterator[Html]:
    up, down = (max(_MIN_HEIGHT, _HALF_HEIGHT * nodes / maximum) for nodes in (bin_.added, bin_.removed))
    if bin_.added:
        yield _bar("added", position, _HALF_HEIGHT - up, up, f"{when} UTC: {count(bin_.added, 'node')} added")
    if bin_.removed:
        yield _bar("removed", position, _HALF_HEIGHT, down, f"{when} UTC: {count(bin_.removed, 'node')} removed")
    if bin_.failed:
        yield _bar(
            "failed",
            position,
            _HALF_HEIGHT - _MARK_HEIGHT / 2,
            _MARK_HEIGHT,
            f"{when} UTC: {count(bin_.failed, 'decision')} failed",
        )


def _bar(style: str, position: int, top: float, height: float, text: str) -> Html:
    return html(
        '<rect class="{}" x="{}" y="{}" width="0.8" height="{}"><title>{}</title></rect>',
        style,
        position + 0.1,
        f"{top:.1f}",
        f"{height:.1f}",
        text,
    )
