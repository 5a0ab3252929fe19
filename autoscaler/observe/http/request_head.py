"""Parses heads of HTTP/1 requests strictly, and refuses those that two parsers could read differently.

Source: RFC 9110 and 9112. Beyond what these forbid, this refuses bare line feeds, folded header lines, and more than
one Content-Length even if they agree.
"""

import re
from collections.abc import Mapping
from http import HTTPStatus
from urllib.parse import parse_qsl

import msgspec

from autoscaler.observe.http.routing import HttpProblem, Response

LINE_BYTES = 8 * 1024
"""Maximum length of a request line."""
HEAD_BYTES = 32 * 1024
"""Maximum length of a request line and all header lines."""
_HEADERS = 100
_QUERY_FIELDS = 20
_LENGTH_DIGITS = 10

_TOKEN = r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+"
_REQUEST = re.compile(rf"({_TOKEN}) ([!-~]+) HTTP/([0-9])\.([0-9])")
_HEADER = re.compile(rf"({_TOKEN}):[ \t]*([\t -~\x80-\xff]*)")
_HOST = re.compile(r"[A-Za-z0-9.\-_~%!$&'()*+,;=:\[\]]*")
_ABSOLUTE = re.compile(r"https?://[^/?#]+", re.IGNORECASE)
_ONCE = frozenset({"content-length", "content-type", "expect", "host", "transfer-encoding"})
_METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "CONNECT"})


class RequestHead(msgspec.Struct, frozen=True, kw_only=True):
    """A request without its body; header names are lower case."""

    method: str
    path: str
    query: Mapping[str, str]
    headers: Mapping[str, str]
    length: int | None
    """Length of the body in bytes; None if it is chunked."""
    keep_alive: bool
    """Whether the client wants to keep the connection open."""
    expects_continue: bool
    """Whether the client waits for `100 Continue` before it sends the body."""


def read_head(head: bytes) -> RequestHead:
    """Parse a head without its final empty line; raises `HttpProblem`."""
    first, *lines = head.decode("latin-1").split("\r\n")
    matched = _REQUEST.fullmatch(first)
    if matched is None:
        raise _bad("the request line is not METHOD TARGET HTTP/1.1")
    method, target, major, minor = matched.groups()
    if major != "1":
        raise HttpProblem(HTTPStatus.HTTP_VERSION_NOT_SUPPORTED, "unknown_version", "only HTTP/1.0 and 1.1 are spoken")
    if method not in _METHODS:
        raise HttpProblem(501, "unknown_method", "the method is not known")
    http_1_1, headers = minor != "0", _headers(lines)
    if "host" not in headers and http_1_1:
        raise _bad("the Host header is missing")
    if not _HOST.fullmatch(headers.get("host", "")):
        raise _bad("the Host header is not a host")
    path, query = _target(method, target)
    length = _length(headers, http_1_1)
    expect = headers.get("expect", "").lower()
    if expect not in ("", "100-continue"):
        raise HttpProblem(417, "unknown_expectation", "only 100-continue can be expected")
    options = {option.strip().lower() for option in headers.get("connection", "").split(",")}
    return RequestHead(
        method=method,
        path=path,
        query=query,
        headers=headers,
        length=length,
        keep_alive=http_1_1 and "close" not in options,
        expects_continue=http_1_1 and expect != "" and length != 0,
    )


def write_head(response: Response, more: Mapping[str, str]) -> bytes:
    """Return the head of a response; the response's own headers override `more`."""
    phrase = HTTPStatus(response.status).phrase
    fields = {**more, **response.headers}
    lines = [f"HTTP/1.1 {response.status} {phrase}", *(f"{name}: {value}" for name, value in fields.items())]
    return "\r\n".join([*lines, "", ""]).encode("latin-1")


def _headers(lines: list[str]) -> Mapping[str, str]:
    """Return headers by name; the values of repeated headers are joined by commas."""
    if len(lines) > _HEADERS:
        raise HttpProblem(431, "head_too_large", f"the request has more than {_HEADERS} header lines")
    headers: dict[str, str] = {}
    for line in lines:
        matched = _HEADER.fullmatch(line)
        if matched is None:
            raise _bad("a header line is folded, or is not NAME: VALUE")
        name, value = matched[1].lower(), matched[2].rstrip(" \t")
        if name in headers and name in _ONCE:
            code = "invalid_length" if name == "content-length" else "bad_request"
            raise HttpProblem(400, code, f"the {name.title()} header came more than once")
        headers[name] = f"{headers[name]}, {value}" if name in headers else value
    return headers


def _target(method: str, target: str) -> tuple[str, Mapping[str, str]]:
    """Return path and parameters of a target in origin or absolute form; other forms match no path."""
    absolute = _ABSOLUTE.match(target)
    path, _, query = (target[absolute.end() :] if absolute else target).partition("?")
    path = path or ("/" if absolute else "")
    if (not path.startswith("/") and method not in ("OPTIONS", "CONNECT")) or "#" in target:
        raise HttpProblem(400, "invalid_url", "the URL cannot be parsed")
    try:
        return path, dict(parse_qsl(query, keep_blank_values=True, max_num_fields=_QUERY_FIELDS))
    except ValueError:
        raise HttpProblem(400, "invalid_url", f"the URL has more than {_QUERY_FIELDS} parameters") from None


def _length(headers: Mapping[str, str], http_1_1: bool) -> int | None:
    length = headers.get("content-length")
    if "transfer-encoding" in headers:
        if length is not None or not http_1_1:
            raise HttpProblem(
                400, "invalid_length", "send either a Content-Length or, in HTTP/1.1, a Transfer-Encoding"
            )
        if headers["transfer-encoding"].lower() != "chunked":
            raise HttpProblem(411, "length_required", "send a Content-Length instead of this Transfer-Encoding")
        return None
    if length is None:
        return 0
    if not (length.isascii() and length.isdigit()):
        raise HttpProblem(400, "invalid_length", "the Content-Length is not a number")
    # More digits than any body needs: Python would refuse to parse very long numbers.
    return int(length) if len(length) <= _LENGTH_DIGITS else 10**_LENGTH_DIGITS


def _bad(message: str) -> HttpProblem:
    return HttpProblem(400, "bad_request", message)
