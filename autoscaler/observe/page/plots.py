"""Small charts as inline SVG. Colours come from style classes; no text is inside, so that nothing shrinks on phones."""

from collections.abc import Iterator, Sequence

import msgspec

from autoscaler.observe.page.format import count, percent, time_of_day
from autoscaler.observe.page.markup import NOTHING, Html, html, joined
from autoscaler.observe.status import Decision

_BINS = 96
_SHORTEST_S = 3600.0
_HALF = 50  # half the height of the timeline, in its own units
_MARK = 8
_LEAST = 2.5  # a change of one node stays visible beside one of hundreds


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


def size_bar(least: int, ready: int, target: int, most: int) -> Html:
    """Return a bar from 0 to the maximum size: what is ready, what is asked for, and a mark at the minimum."""
    return amount_bar(f"{ready} ready, target {target}, between {least} and {most}", ready, target, most, least)


def amount_bar(told: str, there: int, target: int, most: int, least: int = 0) -> Html:
    """Return a bar from 0 to `most`: what is there, of what is asked for, and a mark at `least` unless that is 0.

    `told` says the same to those who do not see it.
    """
    scale = 100 / max(1, most, target)
    mark = html('<rect class="mark" x="{}" width="0.8" height="10"/>', f"{min(99.2, least * scale):.1f}")
    return html(
        '<svg class="bar" viewBox="0 0 100 10" preserveAspectRatio="none" role="img" aria-label="{}">'
        '<rect class="track" width="100" height="10"/><rect class="target" width="{}" height="10"/>'
        '<rect class="fill" width="{}" height="10"/>{}</svg>',
        told,
        f"{target * scale:.1f}",
        f"{min(there, target) * scale:.1f}",
        mark if least else NOTHING,
    )


class _Bin(msgspec.Struct):
    added: int = 0
    removed: int = 0
    failed: int = 0


def timeline(history: Sequence[Decision], now_wall: float) -> Html:
    """Return nodes added (upwards) and removed (downwards) over time, from the oldest decision to now.

    Decisions that failed changed nothing: they are marks on the axis.
    """
    start = min([now_wall - _SHORTEST_S, *(one.at for one in history)])
    width_s = (now_wall - start) / _BINS
    bins = [_Bin() for _ in range(_BINS)]
    for one in history:
        into = bins[min(_BINS - 1, max(0, int((one.at - start) / width_s)))]
        if one.failed:
            into.failed += 1
        else:
            into.added += max(0, one.delta)
            into.removed += max(0, -one.delta)
    most = max(1, *(max(one.added, one.removed) for one in bins))
    bars = joined(
        bar for place, one in enumerate(bins) for bar in _bars(place, one, most, time_of_day(start + place * width_s))
    )
    added = f"{count(sum(one.added for one in bins), 'node')} added"
    removed = f"{count(sum(one.removed for one in bins), 'node')} removed"
    failed = f"{count(sum(one.failed for one in bins), 'decision')} failed"
    keys = joined(
        html('<span class="key {}"></span>{} ', style, text)
        for style, text in (("added", added), ("removed", removed), ("failed", failed))
    )
    return html(
        '<figure><svg class="timeline" viewBox="0 0 {} 100" preserveAspectRatio="none" role="img" aria-label="{}">'
        '<line class="axis" x1="0" x2="{}" y1="50" y2="50"/>{}</svg>'
        '<div class="ticks" aria-hidden="true"><span>{}</span><span>{}</span><span>now</span></div>'
        "<figcaption>{}since {} UTC; the tallest bar is {}</figcaption></figure>",
        _BINS,
        f"Nodes over time: {added}, {removed}, {failed}",
        _BINS,
        bars,
        time_of_day(start),
        time_of_day((start + now_wall) / 2),
        keys,
        time_of_day(start),
        count(most, "node"),
    )


def _bars(place: int, one: _Bin, most: int, when: str) -> Iterator[Html]:
    up, down = (max(_LEAST, _HALF * nodes / most) for nodes in (one.added, one.removed))
    if one.added:
        yield _bar("added", place, _HALF - up, up, f"{when} UTC: {count(one.added, 'node')} added")
    if one.removed:
        yield _bar("removed", place, _HALF, down, f"{when} UTC: {count(one.removed, 'node')} removed")
    if one.failed:
        yield _bar("failed", place, _HALF - _MARK / 2, _MARK, f"{when} UTC: {count(one.failed, 'decision')} failed")


def _bar(style: str, place: int, top: float, height: float, text: str) -> Html:
    return html(
        '<rect class="{}" x="{}" y="{}" width="0.8" height="{}"><title>{}</title></rect>',
        style,
        place + 0.1,
        f"{top:.1f}",
        f"{height:.1f}",
        text,
    )
