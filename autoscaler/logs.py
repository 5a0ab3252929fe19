"""A thin structured log over the standard library's: a constant event name plus fields.

`log.info("scale_up.decided", group="web", add=3)` can be counted and searched; a sentence cannot. Three verbosities as
`--v` gives them: decisions (0), details (4), debugging (5 and more). Lines are klog-like text or JSON; secrets are
redacted in both, in lines of other libraries too.
"""

import json
import logging
import re
from datetime import UTC, datetime
from enum import StrEnum
from typing import IO, Any

import msgspec

from autoscaler.clock import Clock
from autoscaler.printable import in_one_line, spelled_out
from autoscaler.redaction import redacted, redacted_text

DETAIL = 15
"""Level between the standard library's DEBUG and INFO."""

_PACKAGES = ("autoscaler", "cloudprovider")
_LONGEST_VALUE = 2000
_BARE = re.compile(r"[\w.:/@+-]+", re.ASCII)
_CALLER = 3  # frames between the caller and the standard library's logger
_OWN_KEYS = frozenset({"ts", "level", "caller", "event", "stack"})


class LogFormat(StrEnum):
    """Shapes of a log line."""

    TEXT = "text"
    JSON = "json"


class Log:
    """Writes events of one module. Disabled levels cost one comparison."""

    def __init__(self, name: str) -> None:
        self._logger = logging.getLogger(name)

    def error(self, event: str, **fields: object) -> None:
        """Report what somebody should look at."""
        self._write(logging.ERROR, event, fields)

    def crashed(self, event: str, **fields: object) -> None:
        """Report the exception being handled, with its stack: at the top of a loop or thread."""
        self._write(logging.ERROR, event, fields, with_stack=True)

    def warning(self, event: str, **fields: object) -> None:
        """Report what is odd but handled."""
        self._write(logging.WARNING, event, fields)

    def info(self, event: str, **fields: object) -> None:
        """Report a decision or a change of state."""
        self._write(logging.INFO, event, fields)

    def detail(self, event: str, **fields: object) -> None:
        """Report how a decision came about (`--v=4`)."""
        self._write(DETAIL, event, fields)

    def debug(self, event: str, **fields: object) -> None:
        """Report what only developers want (`--v=5`)."""
        self._write(logging.DEBUG, event, fields)

    def shows(self, level: int) -> bool:
        """Whether lines of this level are written: for fields that are expensive to gather."""
        return self._logger.isEnabledFor(level)

    def _write(self, level: int, event: str, fields: dict[str, object], with_stack: bool = False) -> None:
        if self._logger.isEnabledFor(level):
            self._logger.log(level, event, extra={"fields": fields}, exc_info=with_stack, stacklevel=_CALLER)


def level_of(v: int) -> int:
    """Return the standard library's level for a verbosity."""
    if v >= 5:
        return logging.DEBUG
    return DETAIL if v >= 4 else logging.INFO


class _Handler(logging.StreamHandler[IO[str]]):
    pass


def silence() -> None:
    """Write nothing, unless something else has been configured: offline, the answer says what the log would."""
    for name in _PACKAGES:
        logger = logging.getLogger(name)
        if not logger.handlers:
            logger.addHandler(logging.NullHandler())


def configure(v: int, shape: LogFormat, clock: Clock, stream: IO[str]) -> None:
    """Send all log lines to `stream`; other libraries only warnings. Replaces an earlier configuration."""
    unconfigure()
    handler = _Handler(stream)
    handler.setFormatter(JsonLines(clock) if shape is LogFormat.JSON else TextLines(clock))
    root = logging.getLogger()
    root.addHandler(handler)
    root.setLevel(logging.WARNING)
    for package in _PACKAGES:
        logging.getLogger(package).setLevel(level_of(v))


def unconfigure() -> None:
    """Take back what `configure` did."""
    root = logging.getLogger()
    for handler in [handler for handler in root.handlers if isinstance(handler, _Handler)]:
        root.removeHandler(handler)
    for package in _PACKAGES:
        logging.getLogger(package).setLevel(logging.NOTSET)


class TextLines(logging.Formatter):
    """`I0801 10:00:00.123456 loop.py:88] scale_up.decided group=web add=3`; times are UTC."""

    def __init__(self, clock: Clock) -> None:
        super().__init__()
        self._clock = clock

    def format(self, record: logging.LogRecord) -> str:
        """Return one line, and the stack below it if there is one."""
        moment = datetime.fromtimestamp(self._clock.now().wall, UTC)
        letter = "E" if record.levelno >= logging.ERROR else "W" if record.levelno >= logging.WARNING else "I"
        fields = "".join(f" {name}={_text(value)}" for name, value in _fields(record).items())
        head = spelled_out(
            f"{letter}{moment:%m%d %H:%M:%S.%f} {record.filename}:{record.lineno}] {_message(record)}{fields}"
        )
        stack = _stack(self, record)
        return f"{head}\n{stack}" if stack else head


class JsonLines(logging.Formatter):
    """One JSON object a line: ts, level, caller, event, then the fields."""

    def __init__(self, clock: Clock) -> None:
        super().__init__()
        self._clock = clock

    def format(self, record: logging.LogRecord) -> str:
        """Return one line."""
        moment = datetime.fromtimestamp(self._clock.now().wall, UTC)
        line: dict[str, Any] = {
            "ts": f"{moment:%Y-%m-%dT%H:%M:%S.%f}Z",
            "level": record.levelname.lower() if record.levelno != DETAIL else "detail",
            "caller": f"{record.filename}:{record.lineno}",
            "event": _message(record),
        }
        line |= {f"{name}_" if name in _OWN_KEYS else name: value for name, value in _fields(record).items()}
        if stack := _stack(self, record):
            line["stack"] = stack
        return spelled_out(_encoded(line))


def _message(record: logging.LogRecord) -> str:
    # One event is one line, whatever a server or a user put into the text.
    return in_one_line(redacted_text(record.getMessage()).replace("\r", r"\r"))


def _fields(record: logging.LogRecord) -> dict[str, Any]:
    fields: dict[str, object] = getattr(record, "fields", {})
    return {name: _short(redacted(name, _plain(value))) for name, value in fields.items()}


def _plain(value: object) -> Any:
    if isinstance(value, BaseException):
        return f"{type(value).__name__}: {value}"
    return msgspec.to_builtins(value, enc_hook=str, str_keys=True)


def _short(value: Any) -> Any:
    if isinstance(value, str) and len(value) > _LONGEST_VALUE:
        return f"{value[:_LONGEST_VALUE]}...({len(value)} characters)"
    return value


def _text(value: Any) -> str:
    if isinstance(value, str) and _BARE.fullmatch(value):
        return value
    return _encoded(value)


def _encoded(value: Any) -> str:
    try:
        return msgspec.json.encode(value, enc_hook=str).decode()
    except UnicodeEncodeError:  # half of a surrogate pair
        return json.dumps(value, default=str)


def _stack(formatter: logging.Formatter, record: logging.LogRecord) -> str:
    info = record.exc_info
    if not info or info[0] is None:
        return ""
    return spelled_out(redacted_text(formatter.formatException(info)))
