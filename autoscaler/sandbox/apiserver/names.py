"""What Kubernetes accepts as names, label keys and label values."""

import re
from collections.abc import Iterator, Mapping

from autoscaler.objects.meta import JsonObject
from autoscaler.sandbox.apiserver.errors import invalid_value

_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?")
_SUBDOMAIN = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_SERVICE = re.compile(r"[a-z]([-a-z0-9]*[a-z0-9])?")
_QUALIFIED = re.compile(r"([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]")


def _help(text: str, pattern: str, *examples: str) -> str:
    shown = " or ".join(f"'{example}', " for example in examples)
    return f"{text} (e.g. {shown}regex used for validation is '{pattern}')"


_SUBDOMAIN_HELP = _help(
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', "
    "and must start and end with an alphanumeric character",
    _SUBDOMAIN.pattern,
    "example.com",
)
_LABEL_HELP = _help(
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', "
    "and must start and end with an alphanumeric character",
    _LABEL.pattern,
    "my-name",
    "123-abc",
)
_SERVICE_HELP = _help(
    "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, "
    "and end with an alphanumeric character",
    _SERVICE.pattern,
    "my-name",
    "abc-123",
)
_QUALIFIED_HELP = _help(
    "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character",
    _QUALIFIED.pattern,
    "MyName",
    "my.name",
    "123-abc",
)
_VALUE_HELP = _help(
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', "
    "and must start and end with an alphanumeric character",
    f"({_QUALIFIED.pattern})?",
    "MyValue",
    "my_value",
    "12345",
)


def _longer_than(most: int) -> str:
    return f"must be no more than {most} characters"


def is_dns_label(text: str) -> bool:
    """RFC 1123 label, at most 63 characters."""
    return len(text) <= 63 and _LABEL.fullmatch(text) is not None


def name_problem(kind_id: str, name: str) -> str | None:
    """Why this is no name for an object of the kind, or `None`."""
    if kind_id == "namespaces":
        return dns_label_problem(name)
    if kind_id == "services":
        return _longer_than(63) if len(name) > 63 else None if _SERVICE.fullmatch(name) else _SERVICE_HELP
    return _longer_than(253) if len(name) > 253 else None if _SUBDOMAIN.fullmatch(name) else _SUBDOMAIN_HELP


def dns_label_problem(text: str) -> str | None:
    """Why this is no DNS label, or `None`."""
    return _longer_than(63) if len(text) > 63 else None if is_dns_label(text) else _LABEL_HELP


def key_problem(key: str) -> str | None:
    """Why this is no label, annotation or taint key, or `None`."""
    prefix, slash, name = key.rpartition("/")
    if slash and (len(prefix) > 253 or _SUBDOMAIN.fullmatch(prefix.lower()) is None):
        return f"prefix part {_SUBDOMAIN_HELP}"
    if not name:
        return "name part must be non-empty"
    if len(name) > 63:
        return f"name part {_longer_than(63)}"
    return None if _QUALIFIED.fullmatch(name) else f"name part {_QUALIFIED_HELP}"


def value_problem(value: object) -> str | None:
    """Why this is no label value, or `None`."""
    if not isinstance(value, str) or len(value) > 63:
        return _longer_than(63)
    return None if not value or _QUALIFIED.fullmatch(value) else _VALUE_HELP


def label_causes(labels: Mapping[str, object] | None, field: str) -> Iterator[JsonObject]:
    """Everything wrong with a map of labels."""
    for key, value in (labels or {}).items():
        if (problem := key_problem(key)) is not None:
            yield invalid_value(field, key, problem)
        if (problem := value_problem(value)) is not None:
            yield invalid_value(field, value, problem)
