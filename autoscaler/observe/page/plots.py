"""Small charts as inline SVG. Colours come from style classes. Charts contain no text, so no text shrinks on phones."""

from collections.abc import Iterator, Sequence

import msgspec

from autoscaler.observe.figures import count, percent, time_of_day
from autoscaler.observe.page.markup import NOTHING, Html, html, joined
from autoscaler.observe.status import Decision

_BIN_COUNT = 96
_MIN_SPAN_S = 600.0
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


def demand_bars(label: str, demand: tuple[int, int], supply: tuple[int, int]) -> Html:
    """Return two bars of one scale: requested (running, pending) above available (now, coming)."""
    scale = 100 / max(1, sum(demand), sum(supply))
    return html(
        '<svg class="bar tall" viewBox="0 0 100 20" preserveAspectRatio="none" role="img" aria-label="{}">'
        '<rect class="track" width="100" height="9"/><rect class="track" y="11" width="100" height="9"/>{}{}</svg>',
        label,
        _stacked(0, demand, scale, ("fill", "pending")),
        _stacked(11, supply, scale, ("supply", "target")),
    )


def _stacked(top: int, amounts: tuple[int, int], scale: float, styles: tuple[str, str]) -> Html:
    first, second = amounts
    parts = ((0, first, styles[0]), (first, second, styles[1]))
    return joined(
        html(
            '<rect class="{}" x="{}" y="{}" width="{}" height="9"/>',
            style,
            f"{start * scale:.2f}",
            top,
            f"{amount * scale:.2f}",
        )
        for start, amount, style in parts
        if amount > 0
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
    bins = _bins(history, start, (now_wall - start) / _BIN_COUNT)
    up, down = max(bin_.added for bin_ in bins), max(bin_.removed for bin_ in bins)
    height = 100 / max(1, up + down)
    axis = max(_MARK_HEIGHT / 2, min(100 - _MARK_HEIGHT / 2, up * height))
    bars = joined(
        bar
        for position, bin_ in enumerate(bins)
        for bar in _bars(position, bin_, axis, height, time_of_day(start + position * (now_wall - start) / _BIN_COUNT))
    )
    added = f"{count(sum(bin_.added for bin_ in bins), 'node')} added"
    removed = f"{count(sum(bin_.removed for bin_ in bins), 'node')} removed"
    failures = sum(bin_.failed for bin_ in bins)
    failed = f"{count(failures, 'decision')} failed"
    keys = joined(
        html('<span class="key {}"></span>{} ', style, text)
        for style, text in (("added", added), ("removed", removed), *((("failed", failed),) if failures else ()))
    )
    ticks = joined(html("<span>{}</span>", time_of_day(start + (now_wall - start) * part / 4)) for part in range(4))
    scale = html(
        '<div class="scale" aria-hidden="true"><span>{}</span><span>{}</span></div>',
        f"+{up:,}" if up else "0",
        f"\N{MINUS SIGN}{down:,}" if down else "0",
    )
    return html(
        '<figure><div class="plot">{}<svg class="timeline" viewBox="0 0 {} 100" preserveAspectRatio="none" role="img" '
        'aria-label="{}"><line class="axis" x1="0" x2="{}" y1="{}" y2="{}"/>{}</svg></div>'
        '<div class="ticks" aria-hidden="true">{}<span>now</span></div>'
        "<figcaption>{}since {} UTC</figcaption></figure>",
        scale,
        _BIN_COUNT,
        f"Nodes over time: {added}, {removed}, {failed}",
        _BIN_COUNT,
        f"{axis:.1f}",
        f"{axis:.1f}",
        bars,
        ticks,
        keys,
        time_of_day(start),
    )


def _bins(history: Sequence[Decision], start: float, width_s: float) -> list[_Bin]:
    bins = [_Bin() for _ in range(_BIN_COUNT)]
    for decision in history:
        bin_ = bins[min(_BIN_COUNT - 1, max(0, int((decision.at - start) / width_s)))]
        if decision.failed:
            bin_.failed += 1
        else:
            bin_.added += max(0, decision.delta)
            bin_.removed += max(0, -decision.delta)
    return bins


def _bars(position: int, bin_: _Bin, axis: float, height: float, when: str) -> Iterator[Html]:
    """Yield the bars of one moment; `height` is that of one node."""
    up, down = (max(_MIN_HEIGHT, height * nodes) for nodes in (bin_.added, bin_.removed))
    if bin_.added:
        yield _bar("added", position, axis - up, up, f"{when} UTC: {count(bin_.added, 'node')} added")
    if bin_.removed:
        yield _bar("removed", position, axis, down, f"{when} UTC: {count(bin_.removed, 'node')} removed")
    if bin_.failed:
        text = f"{when} UTC: {count(bin_.failed, 'decision')} failed"
        yield _bar("failed", position, axis - _MARK_HEIGHT / 2, _MARK_HEIGHT, text)


def _bar(style: str, position: int, top: float, height: float, text: str) -> Html:
    return html(
        '<rect class="{}" x="{}" y="{}" width="0.8" height="{}"><title>{}</title></rect>',
        style,
        position + 0.1,
        f"{top:.1f}",
        f"{height:.1f}",
        text,
    )
