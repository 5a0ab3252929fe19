"""Addresses of listeners and servers, as `host:port`."""

import ipaddress

from cloudprovider.number import parse_count

LAST_PORT = 65535


def parse_address(text: str) -> tuple[str, int]:
    """Return host and port; an empty host means every interface, port 0 any free port.

    Raises `ValueError` with what is wrong and how to write it; the message follows the text.
    """
    host, colon, port = text.rpartition(":")
    bare = host[1:-1] if host.startswith("[") and host.endswith("]") else host
    number = parse_count(port, LAST_PORT)
    if not colon or number is None or (":" in host and bare == host):
        raise ValueError("is not host:port; write for example :8085, 127.0.0.1:8085 or [::1]:8085")
    return bare, number


def is_loopback(host: str) -> bool:
    """Whether a host, as `parse_address` returns it, can be reached from this machine alone."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
