"""Alerts and dashboard: they have the form that Prometheus and Grafana want, and name nothing that does not exist."""

import json
import re
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from autoscaler.eta.metrics import ETA, EXPIRY
from autoscaler.headroom.metrics import HEADROOM
from autoscaler.observe.metrics import definitions
from autoscaler.observe.metrics.definitions import Metric, MetricType
from autoscaler.reservations.metrics import RESERVATIONS
from tests.promql import Aggregate, Selector, parse, parts
from tests.promtool import promtool

ROOT = Path(__file__).parents[2]
RULES = ROOT / "manifests" / "prometheus" / "cluster-autoscaler.rules.yml"
COMPONENTS = ROOT / "manifests" / "components"
DASHBOARD = json.loads((COMPONENTS / "dashboard" / "cluster-autoscaler.json").read_text())
PANELS = [panel for panel in DASHBOARD["panels"] if panel["type"] != "row"]
ALERTS = [rule for group in yaml.safe_load(RULES.read_text())["groups"] for rule in group["rules"]]

TARGET = {"job", "instance", "namespace", "pod"}
"""Labels that Prometheus adds to whatever it scrapes."""
OF_PROCESS = {"process_resident_memory_bytes", "process_cpu_seconds_total"}
"""Metrics of the Prometheus client's own."""


def a_map(required: Mapping[str, Any], **optional: Any) -> dict[str, Any]:
    properties = {**required, **optional}
    return {"type": "object", "properties": properties, "required": list(required), "additionalProperties": False}


TEXT = {"type": "string", "minLength": 1}
DURATION = {"type": "string", "pattern": r"^\d+[smhd]$"}
RULE = a_map(
    {
        "alert": {"type": "string", "pattern": "^ClusterAutoscaler[A-Z][A-Za-z]+$"},
        "expr": TEXT,
        "labels": a_map({"severity": {"enum": ["critical", "warning"]}}),
        "annotations": a_map({"summary": {"type": "string", "pattern": r"\.$"}, "runbook": TEXT}),
    },
    **{"for": DURATION},
)
RULES_FILE = a_map(
    {
        "groups": {
            "type": "array",
            "minItems": 1,
            "items": a_map({"name": TEXT, "rules": {"type": "array", "items": RULE}}),
        }
    }
)
PANEL = {
    "type": "object",
    "required": ["id", "title", "type", "gridPos"],
    "properties": {
        "id": {"type": "integer"},
        "title": TEXT,
        "type": {"enum": ["row", "stat", "timeseries"]},
        "gridPos": a_map({key: {"type": "integer", "minimum": 0} for key in "hwxy"}),
        "targets": {
            "type": "array",
            "minItems": 1,
            "items": a_map({"expr": TEXT, "refId": TEXT, "legendFormat": {"type": "string"}, "datasource": {}}),
        },
    },
    "if": {"properties": {"type": {"const": "row"}}},
    "else": {"required": ["targets", "datasource", "fieldConfig", "options", "description"]},
}
BOARD = {
    "type": "object",
    "required": ["uid", "title", "schemaVersion", "templating", "time", "panels"],
    "properties": {"schemaVersion": {"type": "integer", "minimum": 36}, "panels": {"type": "array", "items": PANEL}},
}


def dashboard_expressions() -> Iterator[str]:
    for panel in PANELS:
        yield from (target["expr"].replace("$__rate_interval", "5m") for target in panel["targets"])


EXPRESSIONS = [*(rule["expr"] for rule in ALERTS), *dashboard_expressions()]


# Form


def test_the_rules_have_the_form_of_a_rules_file() -> None:
    jsonschema.validate(yaml.safe_load(RULES.read_text()), RULES_FILE)
    assert len({rule["alert"] for rule in ALERTS}) == len(ALERTS)


def test_the_operator_gets_the_same_rules() -> None:
    rule = yaml.safe_load((COMPONENTS / "monitoring" / "alerts.yaml").read_text())
    assert (rule["apiVersion"], rule["kind"]) == ("monitoring.coreos.com/v1", "PrometheusRule")
    assert rule["spec"] == yaml.safe_load(RULES.read_text()), "indent the groups of the rules file below `spec`"


def test_prometheus_accepts_the_rules() -> None:
    if shutil.which("promtool") is None:
        pytest.skip("no promtool on the PATH")
    assert promtool("check", "rules", str(RULES)) == ""


def test_the_dashboard_has_the_form_of_one() -> None:
    jsonschema.validate(DASHBOARD, BOARD)
    ids = [panel["id"] for panel in DASHBOARD["panels"]]
    assert len(set(ids)) == len(ids)
    for panel in PANELS:
        assert [target["refId"] for target in panel["targets"]] == list("ABCDEFGH"[: len(panel["targets"])])
        assert {target["datasource"]["uid"] for target in panel["targets"]} == {"${datasource}"}


def test_panels_do_not_overlap() -> None:
    taken: set[tuple[int, int]] = set()
    for panel in DASHBOARD["panels"]:
        grid = panel["gridPos"]
        assert grid["x"] + grid["w"] <= 24
        cells = {(grid["x"] + x, grid["y"] + y) for x in range(grid["w"]) for y in range(grid["h"])}
        assert not cells & taken, panel["title"]
        taken |= cells


def test_variables_that_panels_use_are_defined() -> None:
    defined = {one["name"] for one in DASHBOARD["templating"]["list"]} | {"__rate_interval"}
    assert set(re.findall(r"\$\{?(\w+)", json.dumps(DASHBOARD))) <= defined


# Names


def metric_of(name: str) -> Metric:
    """Return the metric that a series is of."""
    tables = (definitions.TABLE, HEADROOM, RESERVATIONS, ETA, EXPIRY)
    known = {metric.full_name: metric for table in tables for metric in table}
    base = re.sub(r"_(bucket|sum|count)$", "", name)
    if name not in known and base in known:
        assert known[base].kind is MetricType.HISTOGRAM, name
        return known[base]
    return known[name]


def selectors(text: str) -> Iterator[Selector]:
    yield from (part for part in parts(parse(text)) if isinstance(part, Selector))


@pytest.mark.parametrize("text", EXPRESSIONS)
def test_expressions_name_metrics_and_labels_that_exist(text: str) -> None:
    labels = set(TARGET)
    for selector in selectors(text):
        if selector.name in OF_PROCESS:
            assert selector.equal == {"job": "$job"}
            continue
        metric = metric_of(selector.name)
        labels |= {*metric.labels, *(["le"] if selector.name.endswith("_bucket") else [])}
        for label, value in selector.equal.items():
            assert label in metric.labels
            listed = re.findall(r"`([^`]+)`", metric.labels[label])
            assert not listed or value in listed
        assert {*selector.unequal, *selector.alike} <= set(metric.labels)
    by = {label for part in parts(parse(text)) if isinstance(part, Aggregate) for label in part.by}
    assert by <= labels


@pytest.mark.parametrize("text", EXPRESSIONS)
def test_only_counters_are_counted_and_only_gauges_compared(text: str) -> None:
    for selector in selectors(text):
        if selector.name not in OF_PROCESS:
            kind = metric_of(selector.name).kind
            assert (selector.range_s is not None) == (kind in (MetricType.COUNTER, MetricType.HISTOGRAM)), selector.name


@pytest.mark.parametrize("rule", ALERTS, ids=lambda rule: str(rule["alert"]))
def test_words_use_labels_that_the_alert_has(rule: Mapping[str, Any]) -> None:
    kept = {label for part in parts(parse(rule["expr"])) if isinstance(part, Aggregate) for label in part.by}
    assert set(re.findall(r"\$labels\.(\w+)", rule["annotations"]["summary"])) == kept


@pytest.mark.parametrize("panel", PANELS, ids=lambda panel: str(panel["title"]))
def test_legends_use_labels_that_are_left(panel: Mapping[str, Any]) -> None:
    for target in panel["targets"]:
        expression = parse(target["expr"].replace("$__rate_interval", "5m"))
        kept = {label for part in parts(expression) if isinstance(part, Aggregate) for label in part.by}
        assert set(re.findall(r"\{\{(\w+)\}\}", target["legendFormat"])) <= kept | TARGET


# Runbooks


def runbooks() -> dict[str, str]:
    """Return the text below each heading."""
    text = (ROOT / "docs" / "alerts.md").read_text()
    return dict(re.findall(r"^## (\w+)\n(.*?)(?=^## |\Z)", text, re.MULTILINE | re.DOTALL))


def test_every_alert_has_its_runbook_and_leads_there() -> None:
    assert list(runbooks()) == [rule["alert"] for rule in ALERTS]
    for rule in ALERTS:
        assert rule["annotations"]["runbook"] == f"docs/alerts.md#{rule['alert'].lower()}"


@pytest.mark.parametrize("name", runbooks())
def test_runbooks_say_what_to_look_at_and_what_to_do(name: str) -> None:
    assert re.findall(r"^\*\*([^*]+)\.\*\*", runbooks()[name], re.MULTILINE) == ["What it says", "Look at", "Do"]
