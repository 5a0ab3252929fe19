"""Server-side tables (`kubectl get`) and metadata-only answers."""

from typing import Any

from autoscaler.objects.meta import JsonObject
from autoscaler.sandbox.apiserver.columns import COLUMNS, Layout
from autoscaler.sandbox.apiserver.kinds import Kind
from autoscaler.sandbox.apiserver.printers import AGE, NAME, PrinterColumn, age, lookup

_PLAIN = Layout((NAME, AGE), lambda obj, now: [obj["metadata"]["name"], age(obj, now)])


def table(kind: Kind, objects: list[JsonObject], now: float, include: str) -> JsonObject:
    """Lay objects out as a `meta.k8s.io/v1` Table; `include` says what each row carries along."""
    layout = _custom(kind) if kind.columns else COLUMNS.get(kind.store_id, _PLAIN)
    rows = [{"cells": layout.cells(obj, now), "object": _carried(obj, include)} for obj in objects]
    definitions = [_definition(column) for column in layout.columns]
    head = {"kind": "Table", "apiVersion": "meta.k8s.io/v1", "metadata": {}}
    return {**head, "columnDefinitions": definitions, "rows": rows}


def partial(obj: JsonObject) -> JsonObject:
    """The object's metadata alone."""
    return {"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": obj["metadata"]}


def _carried(obj: JsonObject, include: str) -> JsonObject | None:
    if include == "None":
        return None
    return obj if include == "Object" else partial(obj)


def _definition(column: PrinterColumn) -> JsonObject:
    shape = "name" if column.name == "Name" else column.format
    known = {"name": column.name, "type": column.type, "format": shape, "description": column.description}
    return {**known, "priority": 1 if column.wide else 0}


def _custom(kind: Kind) -> Layout:
    """A CRD's own columns after the name; dates show as ages."""

    def cells(obj: JsonObject, now: float) -> list[Any]:
        values: list[Any] = [obj["metadata"]["name"]]
        for column in kind.columns:
            value = lookup(obj, column.path)
            values.append(age(obj, now, value) if column.type == "date" else value)
        return values

    return Layout((NAME, *kind.columns), cells)
