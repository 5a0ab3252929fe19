"""One connection: reads requests, writes answers, streams watches in chunks."""

import select
import socket
import ssl
from http.server import BaseHTTPRequestHandler
from typing import cast
from urllib.parse import parse_qsl, unquote, urlsplit

from autoscaler.sandbox.apiserver.dispatch import ApiDispatcher, Dropped
from autoscaler.sandbox.apiserver.errors import LARGEST_BODY_BYTES, ApiError, bad_request, too_large
from autoscaler.sandbox.apiserver.http_messages import ApiRequest, ApiResponse, refusal
from cloudprovider.number import parse_count

_IDLE_S = 300.0


class RequestHandler(BaseHTTPRequestHandler):
    """HTTP/1.1 with keep-alive."""

    protocol_version = "HTTP/1.1"
    server_version = "sandbox-apiserver"
    disable_nagle_algorithm = True
    wbufsize = -1
    timeout = _IDLE_S

    def handle(self) -> None:
        """Serve requests until either side closes; clients that vanish end the connection quietly."""
        try:
            super().handle()
        except (ConnectionError, TimeoutError, ssl.SSLError, Dropped):
            self.close_connection = True

    def finish(self) -> None:
        """Close the streams; what a vanished client did not read is lost."""
        try:
            super().finish()
        except OSError:
            self.rfile.close()

    def do_GET(self) -> None:
        """Serve any method."""
        dispatcher = self._dispatcher
        if dispatcher.faults.is_down:
            raise Dropped
        try:
            request = self._request()
        except ApiError as error:
            self.close_connection = True
            self._write(refusal(error))
            return
        answer = dispatcher.serve(request, self.headers.get("Authorization", ""))
        if answer.stream is not None:
            self._stream(answer)
        else:
            self._write(answer)

    do_POST = do_GET  # noqa: N815 - the base class's names
    do_PUT = do_GET  # noqa: N815
    do_PATCH = do_GET  # noqa: N815
    do_DELETE = do_GET  # noqa: N815

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class's name
        """Requests are recorded elsewhere."""

    @property
    def _dispatcher(self) -> ApiDispatcher:
        return cast("ApiDispatcher", self.server.dispatcher)  # type: ignore[attr-defined]

    def _request(self) -> ApiRequest:
        url = urlsplit(self.path)
        headers = self.headers
        return ApiRequest(
            method=self.command,
            path=unquote(url.path),
            query=dict(parse_qsl(url.query, keep_blank_values=True)),
            accept=headers.get("Accept", ""),
            content_type=headers.get("Content-Type", ""),
            user_agent=headers.get("User-Agent", ""),
            host=headers.get("Host", ""),
            body=self._body(),
        )

    def _body(self) -> bytes:
        if "chunked" in self.headers.get("Transfer-Encoding", ""):
            return self._chunked_body()
        length = parse_count(self.headers.get("Content-Length", "0"))
        if length is None:
            raise bad_request("invalid Content-Length")
        if length > LARGEST_BODY_BYTES:
            raise too_large()
        return self.rfile.read(length)

    def _chunked_body(self) -> bytes:
        body = bytearray()
        while True:
            try:
                size = int(self.rfile.readline(64).split(b";")[0], 16)
            except ValueError:
                raise bad_request("invalid chunk") from None
            if size < 0 or len(body) + size > LARGEST_BODY_BYTES:
                raise too_large()
            body += self.rfile.read(size)
            self.rfile.readline(64)
            if size == 0:
                return bytes(body)

    def _write(self, answer: ApiResponse) -> None:
        self.send_response(answer.code)
        self.send_header("Content-Type", answer.content_type)
        self.send_header("Content-Length", str(len(answer.body)))
        for name, value in answer.headers.items():
            self.send_header(name, value)
        if self.close_connection:
            self.send_header("Connection", "close")
        self.end_headers()
        self.wfile.write(answer.body)
        self.wfile.flush()

    def _stream(self, answer: ApiResponse) -> None:
        self.send_response(answer.code)
        self.send_header("Content-Type", answer.content_type)
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        self.wfile.flush()
        stream = answer.stream or iter(())
        try:
            for chunk in stream:
                if (
                    self._dispatcher.stopping.is_set()
                    or self._dispatcher.faults.is_down
                    or (chunk is None and self._peer_left())
                ):
                    raise Dropped
                if chunk:
                    self.wfile.write(b"%x\r\n%s\r\n" % (len(chunk), chunk))
                    self.wfile.flush()
        finally:
            close = getattr(stream, "close", None)
            if close is not None:
                close()
        self.wfile.write(b"0\r\n\r\n")
        self.wfile.flush()

    def _peer_left(self) -> bool:
        """Whether the client has hung up; a watch without news would not notice otherwise."""
        connection = self.connection
        if isinstance(connection, ssl.SSLSocket):
            return False
        readable, _, _ = select.select([connection], [], [], 0)
        return bool(readable) and connection.recv(1, socket.MSG_PEEK) == b""
