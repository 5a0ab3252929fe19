"""Creates the parts of reservations: their store, their listener, and the companion that plans for them.

Every replica listens and stores; only the leader plans.
"""

import ssl
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path

import msgspec

from autoscaler.clock import Clock, ThreadExecutor
from autoscaler.config.load import load_reservations
from autoscaler.config.reservations import Reservations
from autoscaler.config.tree import Config
from autoscaler.errors import ConfigError
from autoscaler.eta.lead_times import Leads
from autoscaler.kube.client import Client
from autoscaler.kube.dry_run import open_writes
from autoscaler.kube.election import Unopposed
from autoscaler.logs import Log
from autoscaler.observe.http.connection import RequestLimits
from autoscaler.observe.http.connection_limits import ServerLimits
from autoscaler.observe.http.server import WebServer
from autoscaler.ports import EventSink, Executor
from autoscaler.reservations.api import BODY_S, ReservationApi
from autoscaler.reservations.inbox import ReservationInbox
from autoscaler.reservations.keeper import ReservationKeeper
from autoscaler.reservations.metrics import ReservationMetrics
from autoscaler.reservations.secret_files import SecretFiles
from autoscaler.reservations.store import ConfigMapStore
from cloudprovider.file import read_text

log = Log(__name__)

_LOAD_AGAIN_S = 1.0
_RELOAD_S = 5.0
_SPARE_THREADS = 4
_MOST_THREADS = 64
_MOST_ANSWERS = 112
"""Maximum number of responses at a time; each announcement waits until it is stored."""
_BODIES = 4
"""This number of the largest bodies fits in memory at a time, and many more small ones."""


class SectionFile:
    """The section of the configuration file. Every replica follows its changes, also on standby.

    Changes are noticed by content, because a mounted ConfigMap changes its links and not its times.
    """

    def __init__(self, path: str, cutoff: int) -> None:
        """`cutoff` is the priority below which pods are expendable."""
        self._path = Path(path)
        self._cutoff = cutoff
        self._known = self._content()

    def changed(self) -> Reservations | None:
        """Return the new contents of the file; None if they have not changed. Raises `ConfigError` once for each
        invalid content.
        """
        content = self._content()
        if content == self._known:
            return None
        self._known = content
        if content is None:
            raise ConfigError(f"{self._path}: cannot be read")
        return load_reservations(content, str(self._path), self._cutoff)

    def _content(self) -> str | None:
        try:
            return read_text(str(self._path))
        except ValueError:
            return None


class ReservationService:
    """The reservations of one replica, from `start` to `close`, leading or standby."""

    def __init__(
        self,
        config: Config,
        client: Client,
        events: EventSink,
        metrics: ReservationMetrics,
        clock: Clock,
        executor: Executor | None,
        leads: Leads,
    ) -> None:
        """With `executor` None, it creates threads of its own. Raises `ConfigError` for unusable templates."""
        section = _placed(config)
        self._config = config
        self._metrics = metrics
        self._clock = clock
        self._threads = ThreadExecutor(min(_MOST_THREADS, 2 * len(section.targets) + _SPARE_THREADS))
        self._executor: Executor = executor or self._threads
        writes = open_writes(client, Unopposed(), clock, self._executor.sleep, dry_run=config.loop.dry_run)
        store = ConfigMapStore(client, writes, section.store)
        self.commits = ReservationInbox(section, store, self._executor, clock, metrics, events)
        self.keeper = ReservationKeeper(self.commits, store, metrics, clock, leads)
        self._web: WebServer | None = None
        self._closed = False
        path, cutoff = config.source.config, config.pods.expendable_pods_priority_cutoff
        self._file = None if path is None else SectionFile(path, cutoff)

    def listen(self) -> None:
        """Open the configured port, if any; raises `ConfigError` for unusable secrets and addresses."""
        section = self.commits.section
        if section.listen and self._config.loop.dry_run:
            log.warning("reservations.not_listening", why="a dry run stores nothing, so nothing can be acknowledged")
        elif section.listen:
            self._web = self._listener(section)

    @property
    def port(self) -> int | None:
        """The port of the listener; None if there is none."""
        return None if self._web is None else self._web.port

    def start(self) -> None:
        """Begin to answer. Until the stored state has been read, the answer is `starting`."""
        if self._web is not None:
            self._web.start()
            self._executor.submit(self._load)
        if self._file is not None:
            self._executor.submit(partial(self._follow, self._file))

    def close(self) -> None:
        """Accept nothing more, store accepted operations, and answer waiting requests. A second call does nothing."""
        if self._closed:
            return
        self._closed = True
        if self._web is not None:
            self._web.close_port()
        self.commits.close()
        if self._web is not None:
            self._web.stop()
        self._threads.stop()

    def _load(self) -> None:
        while not self.commits.load():
            if not self._executor.sleep(_LOAD_AGAIN_S):
                return
        log.info("reservations.loaded", targets=len(self.commits.section.targets))

    def _follow(self, file: SectionFile) -> None:
        while self._executor.sleep(_RELOAD_S):
            self.reload(file.changed)

    def reload(self, changed: Callable[[], Reservations | None]) -> None:
        """Use a changed configuration file. Settings of the listener, its clients and the store stay until a restart.

        If the section disappears, the last one stays in force until the next start.
        """
        try:
            fresh = changed()
            if fresh is None:
                return
            held = self.commits.section
            self.keeper.configure(
                msgspec.structs.replace(
                    fresh,
                    listen=held.listen,
                    tls=held.tls,
                    store=held.store,
                    auth=held.auth,
                    trusted_proxies=held.trusted_proxies,
                )
            )
        except ConfigError as error:
            for problem in error.problems:
                log.error("config.not_reloaded", problem=problem)
            return
        log.info("config.reloaded", targets=len(fresh.targets))

    def _listener(self, section: Reservations) -> WebServer:
        auth = section.auth
        secrets: list[Iterable[bytes]] = []
        problems: list[str] = []
        for files in (auth.github_secrets, auth.api_secrets):
            try:
                secrets.append(SecretFiles([file.file for file in files]))
            except ConfigError as error:
                problems += error.problems
        if problems:
            raise ConfigError(problems)
        github, api = secrets
        if not auth.files:
            log.warning("reservations.unsigned", listen=section.listen, why="anybody on this machine can announce work")
        made = ReservationApi(self.commits, self.keeper.fresh_statuses, github, api, self._metrics, self._clock)
        limits = RequestLimits(
            body_bytes=section.max_body_bytes,
            body_s=BODY_S,
            chunks=True,
            server=ServerLimits(answers=_MOST_ANSWERS, body_bytes_total=_BODIES * section.max_body_bytes),
            on_answered=self._metrics.answered,
        )
        return WebServer(section.listen, made.routes, self._clock, limits, _tls(section))


def _placed(config: Config) -> Reservations:
    """Return the section with the store's namespace filled in."""
    section = config.reservations
    assert section is not None
    if section.store.namespace:
        return section
    store = msgspec.structs.replace(section.store, namespace=config.kube.namespace)
    return msgspec.structs.replace(section, store=store)


def _tls(section: Reservations) -> ssl.SSLContext | None:
    if not section.tls.cert_file:
        return None
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    try:
        context.load_cert_chain(section.tls.cert_file, section.tls.key_file)
    except (OSError, ssl.SSLError) as error:
        raise ConfigError(f"config: reservations.tls: certificate and key cannot be used: {error}") from error
    return context
