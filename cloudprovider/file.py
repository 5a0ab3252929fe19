"""Reads files from others, with a size limit and one-line errors."""

import os
import stat
from typing import BinaryIO

MOST_BYTES = 4 << 30
"""Of a dump in JSON: one of 5,000 nodes and 150,000 pods has about 1 GiB."""
MOST_TEXT_BYTES = 64 << 20
"""Of a file that people write."""
_UTF16 = (b"\xff\xfe", b"\xfe\xff")
_FROM_SHELL = "/dev/fd/"
"""Where shells put pipes from commands, such as `<(kubectl get pods -o json)`. These have a writer."""
_BOM = b"\xef\xbb\xbf"


def read_file(path: str, most: int = MOST_TEXT_BYTES) -> bytes:
    """Return a file's content without a byte order mark.

    Raises `ValueError` with why it cannot be read; the message follows the path.
    """
    try:
        # Nobody might ever write to a pipe; to open it would wait for that.
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        with os.fdopen(descriptor, "rb") as file:
            mode = os.fstat(descriptor).st_mode
            if stat.S_ISFIFO(mode) and path.startswith(_FROM_SHELL):
                os.set_blocking(descriptor, True)
            elif not stat.S_ISREG(mode):
                raise ValueError("cannot be read: it is not a regular file")
            return read_stream(file, most)
    except OSError as error:
        raise ValueError(f"cannot be read: {error.strerror or error}") from error


def read_stream(stream: BinaryIO, most: int = MOST_TEXT_BYTES) -> bytes:
    """Return the rest of a stream; otherwise as `read_file`."""
    body = stream.read(most + 1)
    if len(body) > most:
        raise ValueError(f"cannot be read: it has more than {most >> 20} MiB")
    return body.removeprefix(_BOM)


def read_pem(path: str) -> bytes:
    """Return the keys or certificates in a file, as they are; raises `ValueError` as `read_file`."""
    content = read_file(path)
    if b"-----BEGIN " not in content:
        raise ValueError("holds nothing in PEM form")
    return content


def read_text(path: str, most: int = MOST_TEXT_BYTES) -> str:
    """Return a file's text; raises `ValueError` as `read_file`."""
    return text_of(read_file(path, most))


def text_of(body: bytes) -> str:
    """Return content as text; raises `ValueError` as `read_file`."""
    if body.startswith(_UTF16):
        raise ValueError("cannot be read: it is UTF-16; save it as UTF-8")
    try:
        return body.decode()
    except UnicodeDecodeError as error:
        raise ValueError(f"cannot be read: it is not UTF-8 text (byte {error.start + 1})") from error
