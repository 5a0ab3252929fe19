"""Requests to the Azure Resource Manager: pages, tokens, what is tried again, and what errors become."""

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import msgspec
import pytest

from cloudprovider.azure.arm import Arm
from cloudprovider.azure.errors import ChangedMeanwhile, error_of, failure_of
from cloudprovider.azure.http import HttpTransport, Reply
from cloudprovider.azure.resources import ScaleSet
from cloudprovider.interface import (
    ErrorClass,
    NotFound,
    OutOfCapacity,
    ProviderError,
    QuotaExceeded,
    Throttled,
    Transient,
)
from tests.fakes.azure import HOST, FakeAzure, FakeScaleSet, StaticTokens

_PATH = "/subscriptions/11111111-2222-3333-4444-555555555555/resourceGroups/MC_Shop/providers/Microsoft.Compute"
_SETS = f"{_PATH}/virtualMachineScaleSets"
_LIST = "GET /virtualMachineScaleSets$"


def an_arm(azure: FakeAzure) -> Arm:
    return Arm(HOST, azure, StaticTokens(), "tester", lambda: azure.now)


def names(arm: Arm) -> list[str]:
    return [page.name for page in arm.pages("listing", _SETS, "2024-07-01", ScaleSet)]


def three_sets() -> FakeAzure:
    azure = FakeAzure(*map(FakeScaleSet, "abc"))
    azure.page_size = 1
    return azure


def test_lists_are_read_page_by_page() -> None:
    azure = three_sets()
    assert names(an_arm(azure)) == ["a", "b", "c"]
    assert [seen.query.get("$skiptoken") for seen in azure.requests] == [None, "1", "2"]
    assert {seen.headers["User-Agent"] for seen in azure.requests} == {"tester"}


def test_a_token_goes_to_no_other_host() -> None:
    azure = three_sets()
    azure.next_link_host = "https://management.azure.com.example"
    with pytest.raises(ProviderError, match=r"leads to another host, management\.azure\.com\.example"):
        names(an_arm(azure))
    assert len(azure.requests) == 1
    with pytest.raises(ProviderError, match="another host"):
        an_arm(azure).progress("asking", "https://example.com/operations/1")


@pytest.mark.parametrize("status", [500, 502, 503, 504, 408])
def test_a_read_is_tried_twice(status: int) -> None:
    azure = three_sets()
    azure.fail(_LIST, status, "InternalServerError")
    assert names(an_arm(azure)) == ["a", "b", "c"]
    azure.fail(_LIST, status, "InternalServerError", times=2)
    with pytest.raises(Transient):
        names(an_arm(azure))


def test_a_write_is_tried_once() -> None:
    azure = three_sets()
    azure.lose("PUT")
    with pytest.raises(Transient):
        an_arm(azure).write("growing", "PUT", f"{_SETS}/a", "v", {})
    assert azure.asked() == ["PUT /virtualMachineScaleSets/a"]


def test_a_token_that_is_refused_is_replaced_once() -> None:
    azure = three_sets()
    azure.fail(_LIST, 401, "ExpiredAuthenticationToken")
    assert len(names(an_arm(azure))) == 3
    assert [seen.headers["Authorization"] for seen in azure.requests[:2]] == ["Bearer token-1", "Bearer token-2"]
    azure.fail(_LIST, 401, "InvalidAuthenticationToken", "no", times=2)
    with pytest.raises(ProviderError, match="InvalidAuthenticationToken: no") as caught:
        names(an_arm(azure))
    assert (type(caught.value), caught.value.code) == (ProviderError, "InvalidAuthenticationToken")


@pytest.mark.parametrize("body", [b"", b"<html>", b"[]", b'{"value": [{"id": 1}]}'])
def test_an_answer_of_another_shape_is_a_passing_fault(body: bytes) -> None:
    def odd(method: str, url: str, headers: Mapping[str, str], sent: bytes | None) -> Reply:
        return Reply(200, {}, body)

    odd.close = lambda: None  # type: ignore[attr-defined]
    arm = Arm(HOST, odd, StaticTokens(), "tester", lambda: 0.0)  # type: ignore[arg-type]
    with pytest.raises(Transient, match="not what was asked for"):
        names(arm)


# Errors


def error(status: int, code: str, message: str = "", headers: Mapping[str, str] = {}, **more: object) -> ProviderError:
    failure = failure_of({"error": {"code": code, "message": message, **more}}, status)
    return error_of("trying", status, failure, headers)


@pytest.mark.parametrize(
    ("status", "code", "message", "expected"),
    [
        (409, "AllocationFailed", "", OutOfCapacity),
        (409, "ZonalAllocationFailed", "", OutOfCapacity),
        (409, "OverconstrainedZonalAllocationRequest", "", OutOfCapacity),
        (409, "OverconstrainedAllocationRequest", "", OutOfCapacity),
        (409, "SkuNotAvailable", "", OutOfCapacity),
        (400, "SkuNotAvailable", "", OutOfCapacity),
        (409, "OperationNotAllowed", "exceeding approved Total Regional Cores Quota", QuotaExceeded),
        (403, "QuotaExceeded", "", QuotaExceeded),
        (400, "SubnetIsFull", "", QuotaExceeded),
        (409, "OperationNotAllowed", "the VM is being migrated", Transient),
        (409, "Conflict", "", Transient),
        (412, "ConditionNotMet", "", ChangedMeanwhile),
        (429, "TooManyRequests", "", Throttled),
        (403, "OperationThrottled", "", Throttled),
        (404, "ResourceNotFound", "", NotFound),
        (500, "InternalServerError", "", Transient),
        (503, "ServiceUnavailable", "", Transient),
        (403, "AuthorizationFailed", "no action over scope", ProviderError),
        (400, "InvalidParameter", "", ProviderError),
    ],
)
def test_errors_are_those_of_the_contract(status: int, code: str, message: str, expected: type[ProviderError]) -> None:
    found = error(status, code, message)
    assert type(found) is expected
    assert found.code in {code, "THROTTLED", "NOT_FOUND"}


def test_a_lack_is_found_among_the_details() -> None:
    details = [{"code": "Other"}, {"code": "ZonalAllocationFailed", "message": "zone 2\n is full"}]
    found = error(409, "ResourceDeploymentFailure", "see details", details=details)
    assert type(found) is OutOfCapacity
    assert (found.code, str(found)) == ("ZonalAllocationFailed", "trying: ZonalAllocationFailed: zone 2 is full")


def test_codes_are_fit_for_metric_labels() -> None:
    assert error(400, "x y\n" * 100).code == ("xy" * 32)
    assert error(418, "").code == "HTTP418"
    assert failure_of("no mapping", 502).code == "HTTP502"
    assert failure_of({"error": "text"}, 502).code == "HTTP502"


def test_a_throttled_answer_says_how_long_to_wait() -> None:
    told = {"retry-after": "Thu, 01 Jan 1970 00:17:40 GMT", "date": "Thu, 01 Jan 1970 00:16:40 GMT"}
    throttled = error(429, "TooManyRequests", headers=told)
    assert isinstance(throttled, Throttled)
    assert throttled.retry_after == 60.0


def test_failed_operations_tell_the_class_of_a_failed_machine() -> None:
    short = failure_of({"error": {"code": "AllocationFailed", "message": "m"}}, 200).instance_error()
    other = failure_of({"error": {"code": "VMExtensionProvisioningError"}}, 200).instance_error()
    assert (short.error_class, short.code, short.message) == (ErrorClass.OUT_OF_RESOURCES, "AllocationFailed", "m")
    assert other.error_class is ErrorClass.OTHER


# HTTP


@contextmanager
def server(answer: Callable[[BaseHTTPRequestHandler], None]) -> Iterator[str]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:  # the base class's name
            answer(self)

        do_PUT = do_GET  # noqa: N815

        def log_message(self, *_: object) -> None:
            pass

    httpd = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=httpd.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{httpd.server_address[1]}"
    finally:
        httpd.shutdown()
        httpd.server_close()
        thread.join()


def test_requests_travel_over_http() -> None:
    asked: list[tuple[str, str, bytes]] = []

    def answer(handler: BaseHTTPRequestHandler) -> None:
        body = handler.rfile.read(int(handler.headers.get("Content-Length") or 0))
        asked.append((handler.command, handler.headers["Authorization"], body))
        handler.send_response(307)
        handler.send_header("Retry-After", "5")
        handler.send_header("Location", "http://127.0.0.1:1/elsewhere")
        handler.end_headers()

    with server(answer) as url:
        transport = HttpTransport(url, {"HTTPS_PROXY": "http://127.0.0.1:1", "NO_PROXY": "example.com, 127.0.0.1"})
        reply = transport("PUT", f"{url}/x", {"Authorization": "Bearer t"}, msgspec.json.encode({"a": 1}))
        transport.close()
    assert (reply.status, reply.headers["retry-after"]) == (307, "5")
    assert asked == [("PUT", "Bearer t", b'{"a":1}')]


def test_a_proxy_is_used_but_for_hosts_that_need_none() -> None:
    seen: list[str] = []

    def answer(handler: BaseHTTPRequestHandler) -> None:
        seen.append(handler.path)
        handler.send_response(200)
        handler.end_headers()

    with server(answer) as url:
        transport = HttpTransport("http://arm.invalid", {"https_proxy": url.removeprefix("http://")})
        assert transport("GET", "http://arm.invalid/x", {}, None).status == 200
        transport.close()
    assert seen == ["http://arm.invalid/x"]


def test_no_answer_is_a_passing_fault_and_tells_no_query() -> None:
    transport = HttpTransport("http://127.0.0.1:1", {"NO_PROXY": "*"})
    with pytest.raises(Transient, match=r"GET http://127\.0\.0\.1:1/x: ") as caught:
        transport("GET", "http://127.0.0.1:1/x?secret=1", {}, None)
    assert "secret" not in str(caught.value)
    transport.close()
