"""What Kubernetes accepts as the name of an object and as the value of a label."""

import re

_DNS_LABEL = re.compile(r"[a-z0-9](?:[a-z0-9-]*[a-z0-9])?")
_LABEL_VALUE = re.compile(r"(?:[A-Za-z0-9](?:[A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?)?")


def is_dns_label(text: str, longest: int = 63) -> bool:
    """Whether a text is an RFC 1123 label of at most `longest` characters, such as the name of a namespace."""
    return len(text) <= longest and _DNS_LABEL.fullmatch(text) is not None


def is_label_value(text: str) -> bool:
    """Whether a text can be the value of a label."""
    return _LABEL_VALUE.fullmatch(text) is not None
