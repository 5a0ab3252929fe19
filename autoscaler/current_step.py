"""Records the work of the deciding thread where another process can read it.

A note changes no decision. It costs about a microsecond, so a loop over groups or nodes may make one in each turn.
Without `keep_notes_on` none is made.
"""

import threading
from typing import Protocol

NOTE_BYTES = 256


class SharedMemory(Protocol):
    """Bytes that can be replaced in place, such as memory shared with another process."""

    def __setitem__(self, index: slice, value: bytes, /) -> None:
        """Replace as many bytes."""
        ...


class _Notes:
    board: SharedMemory | None = None
    offset = 0
    thread = 0
    step = ""


def keep_notes_on(board: SharedMemory | None, offset: int = 0) -> None:
    """Write what this thread has in hand to the board, `NOTE_BYTES` from index `offset`; None: nowhere any more."""
    _Notes.board, _Notes.offset, _Notes.thread = board, offset, threading.get_ident()


def begin_step(name: str) -> None:
    """Note which step begins; nothing else is in hand yet."""
    if _Notes.board is not None and threading.get_ident() == _Notes.thread:
        _Notes.step = name
        _write(_Notes.board, name)


def in_hand(kind: str, name: str) -> None:
    """Note what the step is at, such as `group` and its id; the text is cut where it is long."""
    if _Notes.board is not None and threading.get_ident() == _Notes.thread:
        _write(_Notes.board, f"{_Notes.step}: {kind} {name[:NOTE_BYTES]}")


def _write(board: SharedMemory, text: str) -> None:
    note = text.encode("utf-8", "replace")[:NOTE_BYTES].ljust(NOTE_BYTES, b"\0")
    board[_Notes.offset : _Notes.offset + NOTE_BYTES] = note
