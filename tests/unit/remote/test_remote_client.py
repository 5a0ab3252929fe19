"""The gRPC expander's client against a real server, over TLS."""

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from typing import Any

import certifi
import pytest

from autoscaler.config.scaleup import ScaleUp
from autoscaler.config.tree import Config
from autoscaler.ports import ExpanderAnswer
from autoscaler.reasons import ScaleUpResult
from autoscaler.remote.client import GrpcExpanderClient
from autoscaler.remote.messages import AS_BYTES, AS_MESSAGES, FieldNumbers
from autoscaler.sandbox.apiserver.protobuf import decode
from autoscaler.scaleup.option import Option
from autoscaler.snapshot.template import Template
from cloudprovider.protobuf import wire
from tests.builders import a_group, a_node, a_pod
from tests.unit.loop.loop_world import LoopWorld, a_spec, waiting
from tests.unit.remote.server import CERTIFICATE, ExpanderServer, response

PATIENT_S = 60.0
"""For calls that do end: machines may be slow."""
NODES = {
    "web": Template(a_node("web-new", zone="a")),
    "gpu": Template(a_node("gpu-new", extra={"nvidia.com/gpu": "8"})),
}
POD = a_pod("p1", namespace="shop", cpu="500m", labels={"app": "shop"}, unschedulable=True)

Serve = Callable[[Callable[[bytes], bytes]], ExpanderServer]
Connect = Callable[..., GrpcExpanderClient]


@pytest.fixture
def serve() -> Iterator[Serve]:
    with ExitStack() as stack:

        def start(answer: Callable[[bytes], bytes]) -> ExpanderServer:
            server = ExpanderServer(answer)
            stack.callback(server.stop)
            return server

        yield start


@pytest.fixture
def connect() -> Iterator[Connect]:
    with ExitStack() as stack:

        def make(
            url: str, form: FieldNumbers = AS_BYTES, timeout_s: float = PATIENT_S, ca: bytes = CERTIFICATE
        ) -> GrpcExpanderClient:
            client = GrpcExpanderClient(url, ca, form, timeout_s)
            stack.callback(client.close)
            return client

        yield make


def options() -> list[Option]:
    return [Option(group=a_group(name), template=template, nodes=2, pods=(POD,)) for name, template in NODES.items()]


def an_object(kind: str, message: bytes) -> Any:
    """Read a Kubernetes object as the API server does."""
    head = wire.block(1, wire.text(1, "v1") + wire.text(2, kind))
    return decode(b"k8s\x00" + head + wire.block(2, message))


def by_number(message: bytes) -> Mapping[int, list[Any]]:
    found: dict[int, list[Any]] = {}
    for number, value in wire.fields(message):
        found.setdefault(number, []).append(value)
    return found


@pytest.mark.parametrize(
    ("form", "nodes", "pods"),
    [
        pytest.param(AS_MESSAGES, 2, 4, id="nodeMap and pod, up to 1.33"),
        pytest.param(AS_BYTES, 3, 5, id="nodeBytesMap and podBytes, since 1.34"),
    ],
)
def test_the_server_is_told_options_pods_and_nodes(
    serve: Serve, connect: Connect, form: FieldNumbers, nodes: int, pods: int
) -> None:
    server = serve(lambda request: response("gpu"))
    answer = connect(server.url, form).ask(options(), NODES)
    assert answer == ExpanderAnswer(asked=("web", "gpu"), named=("gpu",))
    (request,) = map(by_number, server.requests)
    assert set(request) == {1, nodes}
    first = by_number(request[1][0])
    assert (first[1], first[2], set(first)) == ([b"web"], [2], {1, 2, pods})
    pod = an_object("Pod", first[pods][0])
    assert (pod["metadata"]["name"], pod["metadata"]["namespace"]) == ("p1", "shop")
    assert pod["spec"]["containers"][0]["resources"]["requests"] == {"cpu": "500m"}
    told = {entry[1][0].decode(): an_object("Node", entry[2][0]) for entry in map(by_number, request[nodes])}
    assert told["web"]["metadata"]["labels"]["topology.kubernetes.io/zone"] == "a"
    assert told["gpu"]["status"]["allocatable"]["nvidia.com/gpu"] == "8"


@pytest.mark.parametrize(
    ("body", "named"),
    [
        pytest.param(b"", (), id="none of them"),
        pytest.param(response("gpu", "web"), ("gpu", "web"), id="in its own order"),
        pytest.param(response("mars"), ("mars",), id="a group nobody asked about"),
        pytest.param(wire.block(1, b""), ("",), id="an option without a group"),
        pytest.param(response("web") + wire.varint(9, 1), ("web",), id="fields of a later version"),
    ],
)
def test_answers(serve: Serve, connect: Connect, body: bytes, named: tuple[str, ...]) -> None:
    server = serve(lambda request: body)
    assert connect(server.url).ask(options(), NODES) == ExpanderAnswer(asked=("web", "gpu"), named=named)


@pytest.mark.parametrize(
    "body",
    [
        pytest.param(b"\x0a\x7fshort", id="cut short"),
        pytest.param(wire.varint(1, 7), id="a number for an option"),
        pytest.param(wire.block(1, wire.varint(1, 7)), id="a number for a group"),
        pytest.param(wire.block(1, wire.block(1, b"\xff\xfe")), id="a group that is no text"),
    ],
)
def test_answers_that_cannot_be_read(serve: Serve, connect: Connect, body: bytes) -> None:
    answer = connect(serve(lambda request: body).url).ask(options(), NODES)
    assert answer.named == ()
    assert answer.error.startswith("the answer cannot be read: ")


def test_a_server_that_takes_too_long_is_not_waited_for(serve: Serve, connect: Connect) -> None:
    done = threading.Event()

    def answer(request: bytes) -> bytes:
        done.wait(PATIENT_S)
        return response("web")

    server = serve(answer)
    try:
        assert connect(server.url, timeout_s=0.1).ask(options(), NODES).error.startswith("DEADLINE_EXCEEDED")
    finally:
        done.set()


def test_a_server_that_fails_is_quoted(serve: Serve, connect: Connect) -> None:
    def answer(request: bytes) -> bytes:
        raise RuntimeError("out of ideas")

    assert "out of ideas" in connect(serve(answer).url).ask(options(), NODES).error


def test_a_server_that_is_gone_is_no_answer(serve: Serve, connect: Connect) -> None:
    server = serve(lambda request: response("web"))
    server.stop()
    assert connect(server.url).ask(options(), NODES).error.startswith("UNAVAILABLE")


@pytest.mark.parametrize(
    ("host", "ca"),
    [
        pytest.param("127.0.0.1", certifi.contents().encode(), id="an authority that nobody named"),
        pytest.param("localhost", CERTIFICATE, id="another name than the certificate's"),
    ],
)
def test_a_server_that_cannot_prove_itself_is_told_nothing(
    serve: Serve, connect: Connect, host: str, ca: bytes
) -> None:
    server = serve(lambda request: response("web"))
    answer = connect(f"{host}:{server.port}", ca=ca).ask(options(), NODES)
    assert answer.error.startswith("UNAVAILABLE")
    assert server.requests == []


def chained(*expanders: str) -> Config:
    return Config(scale_up=ScaleUp(expander=expanders))


class TestInAPass:
    def test_the_group_that_it_names_grows(self, serve: Serve, connect: Connect) -> None:
        server = serve(lambda request: response("big"))
        world = LoopWorld(
            a_spec("big", cpu="16"), a_spec("small"), config=chained("grpc", "least-waste"), remote=connect(server.url)
        )
        world.submit(waiting("p1"))
        report = world.run()
        assert world.calls == [("increase", "big", 1)]
        assert report.scale_up.plan is not None
        assert report.scale_up.plan.answers == (ExpanderAnswer(asked=("big", "small"), named=("big",)),)

    def test_the_next_expander_decides_between_what_it_leaves(self, serve: Serve, connect: Connect) -> None:
        server = serve(lambda request: response("huge", "big"))
        specs = (a_spec("small"), a_spec("big", cpu="16"), a_spec("huge", cpu="64"))
        world = LoopWorld(*specs, config=chained("grpc", "least-waste"), remote=connect(server.url))
        world.submit(waiting("p1"))
        world.run()
        assert world.calls == [("increase", "big", 1)]

    def test_without_an_answer_the_next_expander_decides_and_it_is_asked_once(
        self, serve: Serve, connect: Connect
    ) -> None:
        server = serve(lambda request: b"\x0a\x7fshort")
        specs = (a_spec("big", cpu="16"), a_spec("small", max_size=1))
        world = LoopWorld(*specs, config=chained("grpc", "least-waste"), remote=connect(server.url))
        world.submit(waiting("p1"), waiting("p2", cpu="4"), waiting("p3", cpu="4"))
        report = world.run()
        assert report.scale_up.plan is not None
        assert len(report.scale_up.plan.rounds) > 1
        assert report.scale_up.result is ScaleUpResult.SUCCESSFUL
        assert len(server.requests) == 1
