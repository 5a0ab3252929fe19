"""Reloads the configuration while the daemon runs, on a file change or on request."""

import threading
from collections import deque
from collections.abc import Callable
from hashlib import sha256

from autoscaler.config.flags import without_effect
from autoscaler.config.headroom import Headroom
from autoscaler.config.live import transition
from autoscaler.config.tree import Config
from autoscaler.errors import ConfigError
from autoscaler.logs import Log
from autoscaler.observe.metrics.labels import Reload
from autoscaler.observe.metrics.metrics import Metrics
from autoscaler.ports import EventSink, EventType, Subject
from cloudprovider.file import read_file

log = Log(__name__)


class ConfigReloader:
    """Notices changes by content, because a mounted ConfigMap changes its links and not its times.

    Only the deciding thread may call `look`; any thread may call `ask`. A bad file changes nothing, and is reported
    once for each content.
    """

    def __init__(
        self, config: Config, read: Callable[[], Config] | None, metrics: Metrics, events: EventSink, status: Subject
    ) -> None:
        """`read` reads everything again, including flags and environment; with None, nothing ever changes."""
        self._started = config
        self.config = config
        """The configuration in use."""
        self._read = read
        self._metrics = metrics
        self._events = events
        self._status = status
        self._asked = threading.Event()
        self._known = self._digest()
        self._waiting: tuple[str, ...] = ()
        metrics.reload_ended(None, waiting=0)

    def ask(self) -> None:
        """Let the next look read the files even if they have not changed."""
        self._asked.set()

    def look(self, accept: Callable[[Config], None]) -> None:
        """Read the configuration if it may have changed, and pass a different one to `accept`.

        `accept` may reject it with `ConfigError`; then the old one stays in use.
        """
        if self._read is None or not self._due():
            return
        try:
            step = transition(self._started, self.config, self._read())
            if step.changed:
                accept(step.config)
        except ConfigError as error:
            self._refused(error)
            return
        idle = sorted({*without_effect(step.config)} - {*without_effect(self.config)})
        self.config, self._waiting = step.config, step.waiting
        self._metrics.reload_ended(Reload.APPLIED, waiting=len(step.waiting))
        log.info("config.reloaded", changed=step.changed, needs_restart=step.waiting)
        if idle:
            log.warning("config.flags_without_effect", flags=", ".join(idle))
        if step.changed:
            self._send_event(EventType.NORMAL, "ConfigReloaded", f"In use from now on: {', '.join(step.changed)}")
        if step.waiting:
            log.warning("config.needs_restart", options=step.waiting)
            self._send_event(
                EventType.WARNING, "ConfigNeedsRestart", f"In use after a restart: {', '.join(step.waiting)}"
            )

    def _due(self) -> bool:
        asked, digest = self._asked.is_set(), self._digest()
        self._asked.clear()
        changed, self._known = digest != self._known, digest
        return asked or changed

    def _refused(self, error: ConfigError) -> None:
        self._metrics.reload_ended(Reload.REFUSED, waiting=len(self._waiting))
        for problem in error.problems:
            log.error("config.not_reloaded", problem=problem, next="the configuration in use stays")
        self._send_event(EventType.WARNING, "ConfigNotReloaded", "; ".join(error.problems))

    def _send_event(self, kind: EventType, reason: str, message: str) -> None:
        if self.config.observe.write_status_configmap:
            self._events.event(self._status, kind, reason, message)

    def _digest(self) -> bytes:
        """Return a value that changes with the content of the configuration's files, even of unreadable ones."""
        whole = sha256()
        for path in (self.config.source.config, self.config.templates.scheduler_config_file):
            if path is not None:
                try:
                    content = read_file(path)
                except ValueError as error:
                    content = repr(error).encode()
                whole.update(sha256(content).digest())
        return whole.digest()


class FreshHeadroom:
    """Passes the newest headroom from the deciding thread to the thread of its keeper."""

    def __init__(self) -> None:
        self._fresh: deque[Headroom | None] = deque(maxlen=1)

    def put(self, headroom: Headroom | None) -> None:
        """Store the headroom to use from now on."""
        self._fresh.append(headroom)

    def take(self) -> Headroom | None:
        """Return the headroom stored since the last call; None if there is none."""
        return self._fresh.pop() if self._fresh else None
