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
    end_s = max(at_s, default=1.0) or 1.0
    top = _round_up(max((value for line in lines for value in line.values), default=1.0))
    to_x = _scale(0.0, end_s, _LEFT, _WIDTH)
    to_y = _scale(0.0, top, _HEIGHT - _BOTTOM, _TOP)
    paths = joined(
        html(
            '<polyline class="line {}" points="{}"/>',
            COLOURS[index % len(COLOURS)],
            " ".join(f"{to_x(x):.1f},{to_y(y):.1f}" for x, y in zip(at_s, line.values, strict=True)),
        )
        for index, line in enumerate(lines)
    )
    grid = joined(_grid_line(top * step / _TICKS, to_y, unit) for step in range(_TICKS + 1))
    hours = joined(_hour_label(end_s * step / 6, to_x) for step in range(7))
    return html(
        "<figure><figcaption>{} {}</figcaption>"
        '<svg viewBox="0 0 {} {}" role="img" aria-label="{}">{}{}{}</svg></figure>',
        title,
        joined(_key(index, line.name) for index, line in enumerate(lines)),
        f"{_WIDTH:g}",
        f"{_HEIGHT:g}",
        _aria_label(title, lines, unit),
        grid,
        hours,
        paths,
    )


def bars(title: str, counts: Sequence[tuple[str, int]]) -> Html:
    """Return a bar for each named count."""
    maximum = max((count for _, count in counts), default=0) or 1
    width = (_WIDTH - _LEFT) / max(1, len(counts))
    rects = joined(
        html(
            '<rect class="bar one" x="{}" y="{}" width="{}" height="{}"><title>{}: {}</title></rect>'
            '<text x="{}" y="{}" text-anchor="middle">{}</text>',
            f"{_LEFT + width * index + 2:.1f}",
            f"{_HEIGHT - _BOTTOM - (_HEIGHT - _BOTTOM - _TOP) * count / maximum:.1f}",
            f"{width - 4:.1f}",
            f"{(_HEIGHT - _BOTTOM - _TOP) * count / maximum:.1f}",
            name,
            count,
            f"{_LEFT + width * (index + 0.5):.1f}",
            f"{_HEIGHT - 6:g}",
            name,
        )
        for index, (name, count) in enumerate(counts)
    )
    description = ", ".join(f"{name}: {count}" for name, count in counts)
    return html(
        '<figure><figcaption>{}</figcaption><svg viewBox="0 0 {} {}" role="img" aria-label="{}">{}</svg></figure>',
        title,
        f"{_WIDTH:g}",
        f"{_HEIGHT:g}",
        f"{title}. {description}",
        rects,
    )


def _scale(low: float, high: float, begin: float, end: float) -> Callable[[float], float]:
    return lambda value: begin + (end - begin) * (value - low) / ((high - low) or 1.0)


def _round_up(value: float) -> float:
    """Return a round number not below the value."""
    if value <= 0:
        return 1.0
    power = 10.0 ** math.floor(math.log10(value))
    return next(step * power for step in (1.0, 2.0, 4.0, 5.0, 8.0, 10.0) if step * power >= value)


def _grid_line(value: float, to_y: Callable[[float], float], unit: str) -> Html:
    y = f"{to_y(value):.1f}"
    return html(
        '<line class="grid" x1="{}" x2="{}" y1="{}" y2="{}"/><text x="{}" y="{}" text-anchor="end">{}{}</text>',
        f"{_LEFT:g}",
        f"{_WIDTH:g}",
        y,
        y,
        f"{_LEFT - 6:g}",
        f"{to_y(value) + 4:.1f}",
        f"{value:g}",
        unit,
    )


def _hour_label(at_s: float, to_x: Callable[[float], float]) -> Html:
    anchor = "start" if at_s == 0 else "middle"
    x = f"{min(to_x(at_s), _WIDTH - 16):.1f}"
    return html('<text x="{}" y="{}" text-anchor="{}">{} h</text>', x, f"{_HEIGHT - 4:g}", anchor, f"{at_s / 3600:.3g}")


def _key(index: int, name: str) -> Html:
    return html('<span class="key {}"></span>{} ', COLOURS[index % len(COLOURS)], name)


def _aria_label(title: str, lines: Sequence[ChartLine], unit: str) -> str:
    ends = (f"{line.name} up to {max(line.values, default=0.0):g}{unit}" for line in lines)
    return f"{title}: {', '.join(ends)}"
