"""Prometheus' own opinion: what a `Monitored` world saw, as a test for `promtool`, where that is installed."""

import json
import math
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from tests.promql import Database, Labels, Series, Watchman

_STEP_S = 30
_MOMENTS = {"cluster_autoscaler_last_activity", "cluster_autoscaler_headroom_last_reconcile_timestamp_seconds"}
"""Gauges whose values are times."""


def promtool(*arguments: str) -> str:
    """Return what went wrong, nothing where all is well; needs promtool on the PATH."""
    done = subprocess.run(["promtool", *arguments], capture_output=True, text=True, timeout=120, check=False)
    return "" if done.returncode == 0 else done.stdout + done.stderr


def disagreement(groups: Sequence[Mapping[str, Any]], database: Database, watchman: Watchman, folder: Path) -> str:
    """Return where Prometheus, given the same samples, evaluates alerts otherwise than the watchman did."""
    bare = [
        {"name": group["name"], "rules": [_bare(rule) for rule in group["rules"]]}  # annotations would be compared
        for group in groups
    ]
    start = watchman.looked[0]
    test = {
        "interval": f"{_STEP_S}s",
        "input_series": list(_inputs(database, start)),
        "alert_rule_test": list(_expected(watchman, start)),
    }
    (folder / "rules.json").write_text(json.dumps({"groups": bare}))
    file = folder / "test.json"
    file.write_text(json.dumps({"rule_files": ["rules.json"], "evaluation_interval": "1m", "tests": [test]}))
    return promtool("test", "rules", str(file))


def _bare(rule: Mapping[str, Any]) -> dict[str, Any]:
    return {field: rule[field] for field in ("alert", "expr", "for") if field in rule}


def _inputs(database: Database, start: float) -> Iterator[dict[str, str]]:
    for name, family in database.series.items():
        # Such a test begins at second 0.
        since = start if name in _MOMENTS else 0.0
        for labels, series in family.items():
            pairs = ",".join(f"{label}={json.dumps(value)}" for label, value in sorted(labels))
            yield {"series": f"{name}{{{pairs}}}", "values": " ".join(_values(series, start, since))}


def _values(series: Series, start: float, since: float) -> Iterator[str]:
    step = 0
    for at, value in zip(series.times, series.values, strict=True):
        place = round((at - start) / _STEP_S)
        yield from ["_"] * (place - step)
        yield "stale" if math.isnan(value) else repr(value - since)
        step = place + 1


def _expected(watchman: Watchman, start: float) -> Iterator[dict[str, Any]]:
    for alert in watchman.alerts:
        fired: Mapping[float, set[Labels]] = watchman.firing.get(alert.name, {})
        for at in watchman.looked:
            found = [{"exp_labels": dict(labels)} for labels in fired.get(at, ())]
            yield {"alertname": alert.name, "eval_time": f"{round(at - start)}s", "exp_alerts": found}
