"""Line charts and histograms as self-contained inline SVG."""

import math
from collections.abc import Callable, Sequence

import msgspec

from autoscaler.observe.page.markup import Html, html, joined

_WIDTH, _HEIGHT = 720.0, 170.0
_LEFT, _BOTTOM, _TOP = 52.0, 20.0, 8.0
_TICKS = 4
COLOURS = ("one", "two", "three", "four")


class ChartLine(msgspec.Struct, frozen=True):
    """One line of a chart."""

    name: str
    values: Sequence[float]


def line_chart(title: str, at_s: Sequence[float], lines: Sequence[ChartLine], unit: str = "") -> Html:
    """Return a chart of values over time; `at_s` are seconds since the start, equal for all lines."""
    last = max(at_s, default=1.0) or 1.0
    top = _nice(max((value for line in lines for value in line.values), default=1.0))
    across = _scale(0.0, last, _LEFT, _WIDTH)
    up = _scale(0.0, top, _HEIGHT - _BOTTOM, _TOP)
    paths = joined(
        html(
            '<polyline class="line {}" points="{}"/>',
            COLOURS[number % len(COLOURS)],
            " ".join(f"{across(x):.1f},{up(y):.1f}" for x, y in zip(at_s, line.values, strict=True)),
        )
        for number, line in enumerate(lines)
    )
    grid = joined(_level(top * step / _TICKS, up, unit) for step in range(_TICKS + 1))
    hours = joined(_hour(last * step / 6, across) for step in range(7))
    return html(
        "<figure><figcaption>{} {}</figcaption>"
        '<svg viewBox="0 0 {} {}" role="img" aria-label="{}">{}{}{}</svg></figure>',
        title,
        joined(_key(number, line.name) for number, line in enumerate(lines)),
        f"{_WIDTH:g}",
        f"{_HEIGHT:g}",
        _described(title, lines, unit),
        grid,
        hours,
        paths,
    )


def bars(title: str, counted: Sequence[tuple[str, int]]) -> Html:
    """Return a bar for each named count."""
    most = max((count for _, count in counted), default=0) or 1
    width = (_WIDTH - _LEFT) / max(1, len(counted))
    shown = joined(
        html(
            '<rect class="bar one" x="{}" y="{}" width="{}" height="{}"><title>{}: {}</title></rect>'
            '<text x="{}" y="{}" text-anchor="middle">{}</text>',
            f"{_LEFT + width * number + 2:.1f}",
            f"{_HEIGHT - _BOTTOM - (_HEIGHT - _BOTTOM - _TOP) * count / most:.1f}",
            f"{width - 4:.1f}",
            f"{(_HEIGHT - _BOTTOM - _TOP) * count / most:.1f}",
            name,
            count,
            f"{_LEFT + width * (number + 0.5):.1f}",
            f"{_HEIGHT - 6:g}",
            name,
        )
        for number, (name, count) in enumerate(counted)
    )
    words = ", ".join(f"{name}: {count}" for name, count in counted)
    return html(
        '<figure><figcaption>{}</figcaption><svg viewBox="0 0 {} {}" role="img" aria-label="{}">{}</svg></figure>',
        title,
        f"{_WIDTH:g}",
        f"{_HEIGHT:g}",
        f"{title}. {words}",
        shown,
    )


def _scale(low: float, high: float, begin: float, end: float) -> Callable[[float], float]:
    return lambda value: begin + (end - begin) * (value - low) / ((high - low) or 1.0)


def _nice(value: float) -> float:
    """Return a round number not below the value."""
    if value <= 0:
        return 1.0
    power = 10.0 ** math.floor(math.log10(value))
    return next(step * power for step in (1.0, 2.0, 4.0, 5.0, 8.0, 10.0) if step * power >= value)


def _level(value: float, up: Callable[[float], float], unit: str) -> Html:
    y = f"{up(value):.1f}"
    return html(
        '<line class="grid" x1="{}" x2="{}" y1="{}" y2="{}"/><text x="{}" y="{}" text-anchor="end">{}{}</text>',
        f"{_LEFT:g}",
        f"{_WIDTH:g}",
        y,
        y,
        f"{_LEFT - 6:g}",
        f"{up(value) + 4:.1f}",
        f"{value:g}",
        unit,
    )


def _hour(at_s: float, across: Callable[[float], float]) -> Html:
    anchor = "start" if at_s == 0 else "middle"
    x = f"{min(across(at_s), _WIDTH - 16):.1f}"
    return html('<text x="{}" y="{}" text-anchor="{}">{} h</text>', x, f"{_HEIGHT - 4:g}", anchor, f"{at_s / 3600:.3g}")


def _key(number: int, name: str) -> Html:
    return html('<span class="key {}"></span>{} ', COLOURS[number % len(COLOURS)], name)


def _described(title: str, lines: Sequence[ChartLine], unit: str) -> str:
    ends = (f"{line.name} up to {max(line.values, default=0.0):g}{unit}" for line in lines)
    return f"{title}: {', '.join(ends)}"
