"""The report of simulations as one self-contained HTML file."""

from collections.abc import Iterator, Sequence

from autoscaler.observe.page.markup import Html, html, joined
from autoscaler.simulator.simulation.charts import ChartLine, bars, line_chart
from autoscaler.simulator.simulation.result import SimulationResult
from autoscaler.simulator.simulation.text import FIGURES, bounds, figure_text

_STYLE = """
:root{color-scheme:light dark;--page:#f5f6f8;--card:#fff;--ink:#1b2230;--muted:#566173;--line:#dfe3ea;
--one:#2f62c4;--two:#b3580a;--three:#2b7a4b;--four:#8a3ab0}
@media (prefers-color-scheme:dark){:root{--page:#12161d;--card:#1a2029;--ink:#e4e8ee;--muted:#9aa6b6;--line:#2c3542;
--one:#7ba6f5;--two:#e9a15c;--three:#6cc792;--four:#c99be4}}
*{box-sizing:border-box}
body{margin:0 auto;max-width:60rem;padding:1rem 1.25rem 2rem;background:var(--page);color:var(--ink);
font:15px/1.45 system-ui,-apple-system,"Segoe UI",Roboto,"Liberation Sans",sans-serif}
h1{font-size:1.35rem;margin:0 0 .25rem}h2{font-size:1.05rem;margin:0 0 .5rem}p{margin:.25rem 0 1rem}
section{background:var(--card);border:1px solid var(--line);border-radius:.5rem;padding:.9rem 1rem;margin-bottom:1rem;
overflow-x:auto}
table{border-collapse:collapse;font-size:.9rem}
th,td{text-align:left;border-bottom:1px solid var(--line);padding:.3rem 1.2rem .3rem 0;vertical-align:top}
td.n,th.n{text-align:right;font-variant-numeric:tabular-nums}
.muted,figcaption{color:var(--muted)}
figure{margin:0 0 1rem}svg{width:100%;height:auto}text{fill:var(--muted);font-size:11px}
.grid{stroke:var(--line)}.line{fill:none;stroke-width:1.6}
.line.one{stroke:var(--one)}.line.two{stroke:var(--two)}.line.three{stroke:var(--three)}.line.four{stroke:var(--four)}
.bar.one{fill:var(--one)}
.key{display:inline-block;width:.8rem;height:.25rem;margin:0 .3rem .2rem .6rem}
.key.one{background:var(--one)}.key.two{background:var(--two)}.key.three{background:var(--three)}
.key.four{background:var(--four)}
"""


def page(results: Sequence[SimulationResult]) -> str:
    """Return the report of simulations of one file, side by side."""
    first = results[0]
    body = joined(
        [
            html("<h1>{}</h1>", f"Simulation: {first.scenario}"),
            html(
                '<p class="muted">Seed {}, {} hours, {} passes.</p>',
                first.seed,
                f"{first.timeline[-1].at_seconds / 3600:g}" if first.timeline else "0",
                first.summary.passes,
            ),
            html("<section><h2>Figures</h2>{}</section>", _figures(results)),
            *(_expectations(result) for result in results if result.assertions),
            *map(_charts, results),
        ]
    )
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width,initial-scale=1">'
        + html("<title>{}</title><style>", f"Simulation: {first.scenario}")
        + _STYLE
        + "</style></head><body><main>"
        + body
        + "</main></body></html>\n"
    )


def _name(result: SimulationResult) -> str:
    return result.configuration or "as given"


def _figures(results: Sequence[SimulationResult]) -> Html:
    header = joined(html('<th scope="col" class="n">{}</th>', _name(result)) for result in results)
    return html(
        '<table><thead><tr><th scope="col"></th>{}</tr></thead><tbody>{}</tbody></table>',
        header,
        joined(_row(title, [figure_text(figure(result.summary)) for result in results]) for title, figure in FIGURES),
    )


def _row(title: str, cells: Sequence[str]) -> Html:
    return html(
        '<tr><th scope="row">{}</th>{}</tr>', title, joined(html('<td class="n">{}</td>', cell) for cell in cells)
    )


def _expectations(result: SimulationResult) -> Html:
    rows = joined(
        html(
            "<tr><td>{}</td><td>{}</td><td>{}</td><td>{}</td></tr>",
            "met" if assertion.holds else "NOT MET",
            assertion.that,
            figure_text(assertion.value),
            bounds(assertion),
        )
        for assertion in result.assertions
    )
    return html("<section><h2>{}</h2><table><tbody>{}</tbody></table></section>", f"Expected, {_name(result)}", rows)


def _charts(result: SimulationResult) -> Html:
    return html("<section><h2>{}</h2>{}</section>", f"Over time, {_name(result)}", joined(_chart_list(result)))


def _chart_list(result: SimulationResult) -> Iterator[Html]:
    points = result.timeline
    at_s = [point.at_seconds for point in points]
    machines = ChartLine("machines", [point.machines for point in points])
    ready = ChartLine("ready", [point.ready_nodes for point in points])
    yield line_chart("Machines and ready nodes", at_s, [machines, ready])
    running = ChartLine("running", [point.pods_running for point in points])
    pending = ChartLine("pending", [point.pods_pending for point in points])
    yield line_chart("Pods", at_s, [running, pending])
    share = ChartLine("share", [100 * point.cpu_requested_share for point in points])
    yield line_chart("CPU requested of what is allocatable", at_s, [share], " %")
    costs = [point.cost_per_hour for point in points]
    if points and None not in costs:
        yield line_chart("Cost per hour", at_s, [ChartLine("cost", [cost or 0.0 for cost in costs])])
    yield bars("How long pods waited until they ran", list(result.waits.items()))
