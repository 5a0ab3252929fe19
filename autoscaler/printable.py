"""Escapes invisible characters, and those that reverse other text, in foreign text."""

import re

_UNSEEN = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\xad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb"
    "\ud800-\udfff\U000e0000-\U000e007f]"
)


def spelled_out(text: str) -> str:
    r"""Return a text with `\u202e` and the like in place of control characters; tabs and line breaks stay.

    In JSON what comes out means the same.
    """
    return _UNSEEN.sub(_code, text)


def in_one_line(text: str) -> str:
    r"""Return a text as `spelled_out`, with `\n` and `\t` as well."""
    return spelled_out(text).replace("\n", r"\n").replace("\t", r"\t")


def _code(match: re.Match[str]) -> str:
    units = match[0].encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[index]:02x}{units[index + 1]:02x}" for index in range(0, len(units), 2))
