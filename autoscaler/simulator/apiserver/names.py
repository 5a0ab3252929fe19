"""What Kubernetes accepts as names, label keys and label values."""

import re
from collections.abc import Iterator, Mapping

from autoscaler.simulator.apiserver.errors import JsonObject, invalid_value

_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?")
_SUBDOMAIN = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_SERVICE = re.compile(r"[a-z]([-a-z0-9]*[a-z0-9])?")
_QUALIFIED = re.compile(r"([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]")

_SUBDOMAIN_HELP = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', "
    "and must start and end with an alphanumeric character"
)
_LABEL_HELP = (
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', "
    "and must start and end with an alphanumeric character"
)
_SERVICE_HELP = (
    "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, "
    "and end with an alphanumeric character"
)
_QUALIFIED_HELP = (
    "name part must consist of alphanumeric characters, '-', '_' or '.', "
    "and must start and end with an alphanumeric character"
)
_VALUE_HELP = (
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', "
    "and must start and end with an alphanumeric character"
)


def is_dns_label(text: str) -> bool:
    """RFC 1123 label, at most 63 characters."""
    return len(text) <= 63 and _LABEL.fullmatch(text) is not None


def name_problem(kind_id: str, name: str) -> str | None:
    """Why this is no name for an object of the kind, or `None`."""
    if kind_id == "namespaces":
        return None if is_dns_label(name) else _LABEL_HELP
    if kind_id == "services":
        return None if len(name) <= 63 and _SERVICE.fullmatch(name) else _SERVICE_HELP
    return None if len(name) <= 253 and _SUBDOMAIN.fullmatch(name) else _SUBDOMAIN_HELP


def dns_label_problem(text: str) -> str | None:
    """Why this is no DNS label, or `None`."""
    return None if is_dns_label(text) else _LABEL_HELP


def key_problem(key: str) -> str | None:
    """Why this is no label, annotation or taint key, or `None`."""
    prefix, slash, name = key.rpartition("/")
    if slash and (len(prefix) > 253 or _SUBDOMAIN.fullmatch(prefix.lower()) is None):
        return f"prefix part {_SUBDOMAIN_HELP}"
    return None if len(name) <= 63 and _QUALIFIED.fullmatch(name) else _QUALIFIED_HELP


def value_problem(value: object) -> str | None:
    """Why this is no label value, or `None`."""
    if not isinstance(value, str) or len(value) > 63:
        return "must be a string of no more than 63 characters"
    return None if not value or _QUALIFIED.fullmatch(value) else _VALUE_HELP


def label_causes(labels: Mapping[str, object] | None, field: str) -> Iterator[JsonObject]:
    """Everything wrong with a map of labels."""
    for key, value in (labels or {}).items():
        if (problem := key_problem(key)) is not None:
            yield invalid_value(field, key, problem)
        if (problem := value_problem(value)) is not None:
            yield invalid_value(field, value, problem)
