"""The real transport, over loopback: tokens, refusals, servers that are away."""

import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import google.auth.credentials
import google.auth.exceptions
import pytest

from cloudprovider.gce.factory import create
from cloudprovider.gce.google import GoogleTransport, read_metadata
from cloudprovider.interface import Misconfigured, ProviderContext, ProviderError, Transient

URL = "https://www.googleapis.com/compute/v1/projects/acme/zones/us-central1-b/instanceGroups/web"
Seen = tuple[str, str, dict[str, str], bytes]


class Tokens(google.auth.credentials.Credentials):
    """Credentials whose tokens are numbered."""

    def __init__(self, error: Exception | None = None) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.refreshed = 0
        self._error = error

    def refresh(self, request: object) -> None:
        if self._error is not None:
            raise self._error
        self.refreshed += 1
        self.token = f"token-{self.refreshed}"


@pytest.fixture
def server() -> Iterator[tuple[str, list[Seen], list[int]]]:
    """An HTTP server: its address, what it was sent, and with which statuses it answers; then with 200."""
    seen: list[Seen] = []
    statuses: list[int] = []

    class Handler(BaseHTTPRequestHandler):
        def _answer(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            seen.append((self.command, self.path, dict(self.headers), body))
            self.send_response(statuses.pop(0) if statuses else 200)
            self.send_header("Content-Length", "2")
            self.send_header("Retry-After", "3")
            self.end_headers()
            self.wfile.write(b"{}")

        do_GET = do_POST = _answer  # noqa: N815  # the standard library's names

        def log_message(self, *args: object) -> None:
            pass

    http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=http.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{http.server_port}", seen, statuses
    http.shutdown()
    http.server_close()
    thread.join()


@pytest.fixture
def opened() -> Iterator[Callable[[Tokens], GoogleTransport]]:
    made: list[GoogleTransport] = []

    def make(tokens: Tokens) -> GoogleTransport:
        made.append(GoogleTransport(tokens, "node-autoscaler/1", threads=1))
        return made[-1]

    yield make
    for one in made:
        one.close()


Server = tuple[str, list[Seen], list[int]]
Open = Callable[[Tokens], GoogleTransport]


def test_requests_carry_a_token_and_who_asks(server: Server, opened: Open) -> None:
    url, seen, _ = server
    answer = opened(Tokens()).send("POST", f"{url}/x?a=b", b'{"c": 1}', 5.0)
    assert (answer.status, answer.body, answer.headers["retry-after"]) == (200, b"{}", "3")
    ((method, path, headers, body),) = seen
    assert (method, path, body) == ("POST", "/x?a=b", b'{"c": 1}')
    assert headers["authorization"] == "Bearer token-1"
    assert headers["User-Agent"] == "node-autoscaler/1"
    assert headers["Content-Type"] == "application/json"


def test_a_token_that_is_not_accepted_is_replaced_once(server: Server, opened: Open) -> None:
    url, seen, statuses = server
    tokens = Tokens()
    statuses += [401]
    assert opened(tokens).send("GET", url, None, 5.0).status == 200
    assert [headers["authorization"] for _, _, headers, _ in seen] == ["Bearer token-1", "Bearer token-2"]
    statuses += [401, 401]
    assert opened(tokens).send("GET", url, None, 5.0).status == 401
    assert len(seen) == 4


def test_a_server_that_is_away_is_a_passing_fault(server: Server, opened: Open) -> None:
    with pytest.raises(Transient, match=r"GET http://127\.0\.0\.1:9/x: "):
        opened(Tokens()).send("GET", "http://127.0.0.1:9/x?secret=1", None, 5.0)


def behind(error: Exception, cause: Exception) -> Exception:
    """Return an error that a library raised because of another."""
    error.__cause__ = cause
    return error


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (google.auth.exceptions.TransportError("no route"), Transient),  # type: ignore[no-untyped-call]
        (google.auth.exceptions.RefreshError("busy", retryable=True), Transient),  # type: ignore[no-untyped-call]
        (google.auth.exceptions.RefreshError("revoked"), ProviderError),  # type: ignore[no-untyped-call]
        (
            behind(
                google.auth.exceptions.RefreshError("failed"),  # type: ignore[no-untyped-call]
                google.auth.exceptions.TransportError("no such host"),  # type: ignore[no-untyped-call]
            ),
            Transient,
        ),
        (
            behind(
                google.auth.exceptions.RefreshError("failed"),  # type: ignore[no-untyped-call]
                google.auth.exceptions.TransportError("Status: 404", object()),  # type: ignore[no-untyped-call]
            ),
            ProviderError,
        ),
    ],
)
def test_without_a_token_nothing_is_sent(
    server: Server, opened: Open, error: Exception, expected: type[ProviderError]
) -> None:
    url, seen, _ = server
    with pytest.raises(ProviderError) as caught:
        opened(Tokens(error)).send("GET", url, None, 5.0)
    assert type(caught.value) is expected
    assert seen == []


def test_the_metadata_server_is_asked_as_it_wants(server: Server) -> None:
    url, seen, statuses = server
    environment = {"GCE_METADATA_HOST": url.removeprefix("http://")}
    assert read_metadata(environment, "instance/zone") == "{}"
    assert (seen[0][1], seen[0][2]["Metadata-Flavor"]) == ("/computeMetadata/v1/instance/zone", "Google")
    statuses += [404]
    with pytest.raises(Transient, match="HTTP 404"):
        read_metadata(environment, "instance/zone")


def test_without_credentials_the_start_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", "/nowhere/key.json")
    with pytest.raises(
        Misconfigured, match=r"finds no Google Cloud credentials: File /nowhere/key\.json was not found"
    ):
        create(ProviderContext(node_specs=[f"0:3:{URL}"]))
