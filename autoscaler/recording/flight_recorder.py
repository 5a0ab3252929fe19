"""The flight recorder: keeps the last passes as files that replay them, and serves the newest."""

import threading
from collections.abc import Callable

from autoscaler.clock import Instant
from autoscaler.loop.ended_pass import EndedPass
from autoscaler.loop.stages import Observed
from autoscaler.objects.meta import rfc3339
from autoscaler.observe.http.endpoint import Endpoint, EndpointRoutes, JsonMapping, Nothing, SuccessResponse
from autoscaler.observe.http.routing import JSON, HttpProblem, Request, Response
from autoscaler.recording.directory import RecordingDirectory
from autoscaler.recording.pass_file import record

LATEST = "/api/v1/recordings/latest"


class FlightRecorder:
    """A `loop.companion.Companion`. A pass that did not see the cluster, or not as it is, is not recorded."""

    name = "recorder"
    interval_s = None

    def __init__(self, shelf: RecordingDirectory | None, publish: Callable[[bytes], bytes]) -> None:
        """Without a `shelf` only the newest pass is kept, and only in memory. `publish` has the last word on files."""
        self._shelf = shelf
        self._publish = publish
        self._latest: EndedPass | None = None
        self._made: tuple[EndedPass, bytes | None] | None = None
        self._making = threading.Lock()

    def before_pass(self, observed: Observed) -> Observed:
        """Leave the pass as it is."""
        return observed

    def after_pass(self, p: EndedPass) -> None:
        """Keep the pass; writing it down is work for another thread."""
        if p.report.view is None or p.report.silent_s:
            return
        self._latest = p
        if self._shelf is not None:
            self._shelf.put(p.report.now.wall, lambda: self._file(p))

    def tick(self, now: Instant) -> None:
        """Nothing is due."""

    def leave(self) -> None:
        """Recordings stay where they are."""

    def latest(self) -> bytes | None:
        """Return the newest recording; None before the first. From any thread."""
        latest = self._latest
        return None if latest is None else self._file(latest)

    def routes(self) -> EndpointRoutes:
        """Return the route of the newest recording."""

        def serve(_: Nothing, __: Request) -> Response:
            body = self.latest()
            if body is None:
                raise HttpProblem(404, "no_recording", "this replica has not run a pass that saw the cluster")
            headers = {"Content-Disposition": 'attachment; filename="recording.json"'}
            return Response(body, JSON, headers=headers)

        endpoint = Endpoint(
            summary="The newest pass as a scenario file, which `autoscaler plan --scenario` replays.",
            exposes="all cluster data that decisions read, labels, prices and options; with `--anonymize` pseudonyms",
            query=Nothing,
            serve=serve,
            responses={200: SuccessResponse(forms=(JsonMapping,))},
            errors={404: "This replica has not run a pass that saw the cluster."},
            when="with `--serve-recordings`",
        )
        return {LATEST: {"GET": endpoint}}

    def _file(self, p: EndedPass) -> bytes | None:
        """Return the file of a pass, made once however many ask for it."""
        with self._making:
            if self._made is None or self._made[0] is not p:
                body = record(p, p.config, f"pass-{rfc3339(p.report.now.wall)}")
                self._made = p, None if body is None else self._publish(body)
            return self._made[1]
