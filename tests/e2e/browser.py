"""A headless Chromium, driven over its DevTools protocol through a pair of pipes."""

import json
import os
import select
import shutil
import signal
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Self

from autoscaler.clock import SystemClock

PATIENCE_S = 60.0
_NAMES = ("chromium", "chromium-browser", "google-chrome")
_QUIET = (
    "--headless",
    "--disable-gpu",
    "--disable-quic",
    "--disable-sync",
    "--disable-dev-shm-usage",
    "--disable-component-update",
    "--disable-background-networking",
    "--no-first-run",
    "--remote-debugging-pipe",
)


class NoBrowserError(Exception):
    """There is none, or it does not start here."""


class Browser:
    """One page of a browser."""

    def __init__(self, to_browser: int, from_browser: int) -> None:
        self._to, self._from = to_browser, from_browser
        self._received = b""
        self._asked = 0
        self._session: dict[str, str] = {}
        self.complaints: list[str] = []
        """What the browser logged since the page was opened, such as violations of the content policy."""
        self._events: list[str] = []

    def attach(self) -> Self:
        """Open an empty page."""
        target = self.ask("Target.createTarget", url="about:blank")["targetId"]
        self._session = {"sessionId": self.ask("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]}
        self.ask("Page.enable")
        self.ask("Log.enable")
        return self

    def open(self, url: str, *, width: int, theme: str) -> None:
        """Show a page at a width, in `light` or `dark`, and wait until it is loaded."""
        self.ask("Emulation.setDeviceMetricsOverride", width=width, height=900, deviceScaleFactor=1, mobile=width < 600)
        self.ask("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": theme}])
        self.complaints.clear()
        self._events.clear()
        self.ask("Page.navigate", url=url)
        while "Page.loadEventFired" not in self._events:
            self._heard(self._next())

    def value(self, expression: str) -> Any:
        """Evaluate an expression in the page."""
        return self.ask("Runtime.evaluate", expression=expression, returnByValue=True)["result"]["value"]

    def roles(self) -> set[str]:
        """Return the roles that assistive technology is told of."""
        nodes = self.ask("Accessibility.getFullAXTree")["nodes"]
        return {node["role"]["value"] for node in nodes if not node.get("ignored") and "role" in node}

    def ask(self, method: str, **parameters: Any) -> Any:
        """Send one command and return its result."""
        self._asked += 1
        command = {"id": self._asked, "method": method, "params": parameters, **self._session}
        os.write(self._to, json.dumps(command).encode() + b"\0")
        while (message := self._next()).get("id") != self._asked:
            self._heard(message)
        if "error" in message:
            raise AssertionError(f"{method}: {message['error']}")
        return message["result"]

    def _heard(self, event: dict[str, Any]) -> None:
        self._events.append(event["method"])
        if event["method"] == "Log.entryAdded":
            self.complaints.append(event["params"]["entry"]["text"])

    def _next(self) -> dict[str, Any]:
        until = SystemClock().now().mono + PATIENCE_S
        while b"\0" not in self._received:
            ready, _, _ = select.select([self._from], [], [], max(0.0, until - SystemClock().now().mono))
            piece = os.read(self._from, 1 << 16) if ready else b""
            if not piece:
                raise NoBrowserError("the browser does not answer")
            self._received += piece
        message, _, self._received = self._received.partition(b"\0")
        found: dict[str, Any] = json.loads(message)
        return found


@contextmanager
def browser() -> Iterator[Browser]:
    """Start a browser, and end it; raises `NoBrowserError`."""
    program = next((found for name in _NAMES if (found := shutil.which(name))), None)
    if program is None:
        raise NoBrowserError(f"none of {', '.join(_NAMES)} is on the PATH")
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        commands_out, commands_in = os.pipe()
        answers_out, answers_in = os.pipe()
        sandbox = ("--no-sandbox",) if os.geteuid() == 0 else ()
        process = os.posix_spawn(
            program,
            [program, *_QUIET, *sandbox, f"--user-data-dir={profile}"],
            os.environ,
            file_actions=[*_moved(commands_out, answers_in), *_silenced()],
            setpgroup=0,
        )
        os.close(commands_out)
        os.close(answers_in)
        try:
            yield Browser(commands_in, answers_out).attach()
        finally:
            os.killpg(process, signal.SIGKILL)
            os.waitpid(process, 0)
            os.close(commands_in)
            os.close(answers_out)


def _moved(commands: int, answers: int) -> list[tuple[int, int, int]]:
    """Give the pipes the numbers at which a browser looks for them, by way of numbers that nobody has."""
    move = os.POSIX_SPAWN_DUP2
    return [(move, commands, 200), (move, answers, 201), (move, 200, 3), (move, 201, 4)]


def _silenced() -> list[tuple[int, int, str, int, int]]:
    return [(os.POSIX_SPAWN_OPEN, number, os.devnull, os.O_WRONLY, 0) for number in (1, 2)]
