"""CustomResourceDefinitions: the rows they add to the table of kinds."""

from autoscaler.objects.meta import JsonObject
from autoscaler.sandbox.apiserver.kinds import Kind
from autoscaler.sandbox.apiserver.printers import PrinterColumn


def rows(crd: JsonObject) -> list[Kind]:
    """One row per served version; the storage version comes first, so that it names the kind."""
    spec = crd["spec"]
    versions = sorted(spec["versions"], key=lambda version: not version.get("storage"))
    return [_row(spec, version) for version in versions if version.get("served", True)]


def _row(spec: JsonObject, version: JsonObject) -> Kind:
    names = spec["names"]
    subresources = version.get("subresources") or {}
    return Kind(
        group=spec["group"],
        version=version["name"],
        plural=names["plural"],
        kind=names["kind"],
        singular=names.get("singular") or names["kind"].lower(),
        namespaced=spec["scope"] == "Namespaced",
        short_names=tuple(names.get("shortNames") or ()),
        subresources=tuple(name for name in ("status", "scale") if name in subresources),
        categories=tuple(names.get("categories") or ()),
        generation=True,
        status_on_create="status" not in subresources,
        custom=True,
        columns=tuple(_column(definition) for definition in version.get("additionalPrinterColumns") or ()),
    )


def _column(column: JsonObject) -> PrinterColumn:
    return PrinterColumn(
        name=column["name"],
        type=column.get("type", "string"),
        wide=int(column.get("priority") or 0) > 0,
        description=column.get("description", ""),
        path=column.get("jsonPath", ""),
    )


def established(crd: JsonObject, now: str) -> JsonObject:
    """The status of a definition that is served."""
    names = dict(crd["spec"]["names"])
    names.setdefault("singular", names["kind"].lower())
    names.setdefault("listKind", names["kind"] + "List")

    def condition(name: str, reason: str, message: str) -> JsonObject:
        known = {"type": name, "status": "True", "lastTransitionTime": now}
        return {**known, "reason": reason, "message": message}

    return {
        "acceptedNames": names,
        "conditions": [
            condition("NamesAccepted", "NoConflicts", "no conflicts found"),
            condition("Established", "InitialNamesAccepted", "the initial names have been accepted"),
        ],
        "storedVersions": [version["name"] for version in crd["spec"]["versions"] if version.get("storage")],
    }
