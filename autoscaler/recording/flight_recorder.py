"""The flight recorder: stores the last passes as files that replay them, and serves the newest."""

import threading
from collections.abc import Callable

from autoscaler.loop.companion import Companion
from autoscaler.loop.ended_pass import EndedPass
from autoscaler.objects.meta import rfc3339
from autoscaler.observe.http.endpoint import Endpoint, EndpointRoutes, JsonMapping, Nothing, SuccessResponse
from autoscaler.observe.http.routing import JSON, HttpProblem, Request, Response
from autoscaler.recording.directory import RecordingDirectory
from autoscaler.recording.pass_file import record

LATEST = "/api/v1/recordings/latest"


class FlightRecorder(Companion):
    """Records every pass, unless it did not see the cluster, or its data was outdated."""

    name = "recorder"

    def __init__(self, directory: RecordingDirectory | None, publish: Callable[[bytes], bytes]) -> None:
        """Without `directory`, it keeps only the newest pass, in memory. `publish` changes files just before they are
        served.
        """
        self._directory = directory
        self._publish = publish
        self._latest: EndedPass | None = None
        self._encoded: tuple[EndedPass, bytes | None] | None = None
        self._encoding = threading.Lock()

    def after_pass(self, ended: EndedPass) -> None:
        """Keep the pass; another thread writes the file."""
        if ended.report.view is None or ended.report.silent_s:
            return
        self._latest = ended
        if self._directory is not None:
            self._directory.put(ended.report.now.wall, lambda: self._recording(ended))

    def latest(self) -> bytes | None:
        """Return the newest recording; None before the first. Any thread may call this."""
        latest = self._latest
        return None if latest is None else self._recording(latest)

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

    def _recording(self, ended: EndedPass) -> bytes | None:
        """Return the file of a pass; it is made once for all requests."""
        with self._encoding:
            if self._encoded is None or self._encoded[0] is not ended:
                body = record(ended, ended.config, f"pass-{rfc3339(ended.report.now.wall)}")
                self._encoded = ended, None if body is None else self._publish(body)
            return self._encoded[1]
