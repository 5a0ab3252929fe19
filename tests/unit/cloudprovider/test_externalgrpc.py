"""The external gRPC provider: the wire in both formats, errors, caches, TLS, bad configuration."""

import subprocess
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import grpc
import pytest

from cloudprovider.catalog import create_provider
from cloudprovider.externalgrpc import protocol
from cloudprovider.externalgrpc.calls import Calls
from cloudprovider.externalgrpc.provider import ExternalProvider, PricedExternalProvider, PriceListedExternalProvider
from cloudprovider.externalgrpc.server import Credentials, Server
from cloudprovider.externalgrpc.settings import Settings
from cloudprovider.interface import (
    CloudProvider,
    ErrorClass,
    GroupSettings,
    Instance,
    InstanceError,
    Misconfigured,
    NodeRef,
    NodeTemplate,
    NotFound,
    OutOfCapacity,
    ProviderContext,
    ProviderError,
    QuotaExceeded,
    State,
    TaintSpec,
    Throttled,
    Transient,
)
from cloudprovider.protobuf import codec, wire
from cloudprovider.static import CloudSpec, GroupSpec, Prices, StaticCloud, open_cloud
from cloudprovider.static.spec import MachineSpec

PATIENT_S = 60.0
NOW = 1_000.0
TEMPLATE = NodeTemplate(
    labels={"pool": "web", "node.kubernetes.io/instance-type": "m5.large"},
    annotations={"a": "b"},
    taints=(TaintSpec("dedicated", "web", "NoSchedule"),),
    capacity={"cpu": "4", "memory": "16Gi", "pods": "110"},
    allocatable={"cpu": "3900m", "memory": "15Gi", "pods": "110"},
)
SETTINGS = GroupSettings(scale_down_utilization_threshold=0.7, scale_down_unneeded_time_s=120.0)


def a_cloud(**fields: Any) -> StaticCloud:
    group = GroupSpec(id="web", min_size=0, max_size=6, template=TEMPLATE, settings=SETTINGS)
    machines = [MachineSpec(group="web", provider_id=f"id-{number}", name=f"node-{number}") for number in range(2)]
    return open_cloud(CloudSpec(groups=[group], machines=machines, **fields), now=lambda: NOW)


class GoServer:
    """Answers some calls with bytes, as a server of whatever version would; keeps the requests. Others it lacks."""

    def __init__(self, answers: Mapping[str, bytes | grpc.StatusCode]) -> None:
        self.answers = dict(answers)
        self.asked: list[tuple[str, bytes]] = []
        self._pool = ThreadPoolExecutor(4)
        self._server = grpc.server(self._pool)
        handlers = {
            method: grpc.unary_unary_rpc_method_handler(self._handler(method), bytes, bytes)
            for method in protocol.METHODS
        }
        self._server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(protocol.SERVICE, handlers),))
        self.port = self._server.add_insecure_port("127.0.0.1:0")
        self._server.start()

    def stop(self) -> None:
        self._server.stop(None).wait()
        self._pool.shutdown()

    def count(self, method: str) -> int:
        return sum(one == method for one, _ in self.asked)

    def _handler(self, method: str) -> Callable[[bytes, grpc.ServicerContext], bytes]:
        def answer(content: bytes, context: grpc.ServicerContext) -> bytes:
            self.asked.append((method, content))
            found = self.answers.get(method, grpc.StatusCode.UNIMPLEMENTED)
            if isinstance(found, grpc.StatusCode):
                context.abort(found, "no luck")
            return found

        return answer


Serve = Callable[[CloudProvider], PricedExternalProvider]
Go = Callable[..., tuple[GoServer, ExternalProvider]]


@pytest.fixture
def serve() -> Iterator[Serve]:
    """Serve a provider, and return a client of it that has refreshed once."""
    with ExitStack() as stack:

        def start(cloud: CloudProvider) -> PricedExternalProvider:
            server = Server(cloud, "127.0.0.1:0", now=lambda: NOW)
            server.start()
            stack.callback(server.stop)
            calls = Calls(Settings(f"127.0.0.1:{server.port}", PATIENT_S))
            stack.callback(calls.close)
            client = PricedExternalProvider(calls, GroupSettings(), lambda: NOW)
            client.refresh(NOW)
            return client

        yield start


@pytest.fixture
def go() -> Iterator[Go]:
    """Start a server that knows one group, `web`, with one machine, and a client of it."""
    with ExitStack() as stack:

        def start(**answers: bytes | grpc.StatusCode) -> tuple[GoServer, ExternalProvider]:
            group = wire.text(1, "web") + wire.varint(2, 1) + wire.varint(3, 9)
            status = wire.varint(1, 1)
            needed: dict[str, bytes | grpc.StatusCode] = {
                "Refresh": b"",
                "NodeGroups": wire.block(1, group),
                "NodeGroupForNode": wire.block(1, b""),
                "NodeGroupTargetSize": wire.varint(1, 2),
                "NodeGroupNodes": wire.block(1, wire.text(1, "id-0") + wire.block(2, status)),
            }
            server = GoServer({**needed, **answers})
            stack.callback(server.stop)
            calls = Calls(Settings(f"127.0.0.1:{server.port}", PATIENT_S))
            stack.callback(calls.close)
            return server, ExternalProvider(calls, GroupSettings(scale_down_unneeded_time_s=600.0))

        yield start


# Both ends of ours.


def test_a_group_comes_through_as_it_is(serve: Serve) -> None:
    (group,) = serve(a_cloud()).groups()
    assert (group.id, group.min_size, group.max_size, group.target_size()) == ("web", 0, 6, 2)
    assert group.instances() == (Instance("id-0"), Instance("id-1"))
    assert group.template() == TEMPLATE
    assert group.settings() == SETTINGS


def test_resizing_is_read_back_at_once(serve: Serve) -> None:
    cloud = a_cloud()
    (group,) = serve(cloud).groups()
    group.increase(2)
    assert group.target_size() == 4
    assert cloud.groups()[0].target_size() == 4
    group.decrease_target(1)
    assert group.target_size() == 3
    group.delete([NodeRef("node-1", "id-1")])
    assert group.target_size() == 2
    assert [instance.provider_id for instance in group.instances() if instance.state is not State.DELETING] == ["id-0"]


@pytest.mark.parametrize("nodes", [["id-0", "elsewhere"], ["id-0", "id-1"]], ids=["a stranger", "below the minimum"])
def test_a_deletion_that_should_not_be_never_reaches_the_server(go: Go, nodes: list[str]) -> None:
    two = b"".join(wire.block(1, wire.text(1, f"id-{number}")) for number in range(2))
    server, client = go(NodeGroupNodes=two, NodeGroupDeleteNodes=b"")
    client.refresh(NOW)
    with pytest.raises(ProviderError):
        client.groups()[0].delete([NodeRef(node, node) for node in nodes])
    assert server.count("NodeGroupDeleteNodes") == 0


def test_prices_are_told_from_the_labels_of_a_node(serve: Serve) -> None:
    client = serve(a_cloud(prices=Prices(instance_types={"m5.large": 0.1})))
    assert client.node_price(TEMPLATE, 2.0) == pytest.approx(0.2)
    assert client.pod_price({"cpu": "2"}, 1.0) == pytest.approx(0.066)


def test_a_node_without_a_type_costs_what_its_group_s_nodes_hold(serve: Serve) -> None:
    bare = NodeTemplate(labels={"pool": "web"}, capacity={"cpu": "2", "memory": "0"})
    group = GroupSpec(id="web", min_size=0, max_size=6, template=bare)
    client = serve(open_cloud(CloudSpec(groups=[group], prices=Prices()), now=lambda: NOW))
    like_a_node = NodeTemplate(labels={"pool": "web", "kubernetes.io/hostname": "n"})
    assert client.node_price(like_a_node, 1.0) == pytest.approx(0.066)


def test_the_label_of_gpus_comes_through(serve: Serve) -> None:
    client = serve(a_cloud(gpu_label="accelerator", gpu_types=["t4", "a100"]))
    assert (client.gpu_label, client.gpu_types()) == ("accelerator", ("a100", "t4"))


class FailingGroup:
    """A group whose every change fails."""

    id, min_size, max_size = "web", 0, 9

    def __init__(self, error: ProviderError) -> None:
        self._error = error

    def target_size(self) -> int:
        return 0

    def instances(self) -> Sequence[Instance]:
        return ()

    def template(self) -> None:
        return None

    def increase(self, delta: int) -> None:
        raise self._error

    def decrease_target(self, delta: int) -> None:
        raise self._error

    def delete(self, nodes: Sequence[NodeRef]) -> None:
        raise self._error


class FailingCloud:
    """A cloud of that group."""

    name = "failing"

    def __init__(self, error: ProviderError) -> None:
        self._group = FailingGroup(error)

    def refresh(self, now: float) -> None:
        """Nothing to learn."""

    def groups(self) -> Sequence[FailingGroup]:
        return (self._group,)

    def group_of(self, node: NodeRef) -> str | None:
        return None

    def close(self) -> None:
        """Nothing to give up."""


@pytest.mark.parametrize(
    "error",
    [
        OutOfCapacity("sold out"),
        QuotaExceeded("too many"),
        Throttled("slow down", 30.0),
        NotFound("gone"),
        Transient("try again"),
        Misconfigured("broken"),
        ProviderError("strange", "STRANGE"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_errors_keep_their_kind(serve: Serve, error: ProviderError) -> None:
    (group,) = serve(FailingCloud(error)).groups()
    assert group.template() is None
    with pytest.raises(ProviderError) as caught:
        group.increase(1)
    assert type(caught.value) is type(error)
    assert caught.value.code == error.code
    assert str(error) in str(caught.value)
    if isinstance(error, Throttled):
        assert getattr(caught.value, "retry_after", None) == 30.0


# A server of somebody else.


def test_calls_that_a_server_lacks_are_not_asked_for_again(go: Go) -> None:
    server, client = go()
    for _ in range(3):
        client.refresh(NOW)
    (group,) = client.groups()
    assert (group.template(), group.settings(), client.gpu_label) == (None, GroupSettings(), "")
    for method in ("NodeGroupTemplateNodeInfo", "NodeGroupGetOptions", "GPULabel", "GetAvailableGPUTypes"):
        assert server.count(method) == 1, method
    assert server.count("Refresh") == 3


def test_the_label_of_gpus_is_asked_for_once(go: Go) -> None:
    label, types = wire.text(1, "accelerator"), wire.block(1, wire.text(1, "t4") + wire.block(2, b""))
    server, client = go(GPULabel=label, GetAvailableGPUTypes=types)
    for _ in range(3):
        client.refresh(NOW)
    assert (client.gpu_label, client.gpu_types()) == ("accelerator", ("t4",))
    assert (server.count("GPULabel"), server.count("GetAvailableGPUTypes")) == (1, 1)


def test_an_idle_refresh_costs_a_fixed_number_of_calls(go: Go) -> None:
    server, client = go()
    client.refresh(NOW)
    server.asked.clear()
    client.refresh(NOW)
    (group,) = client.groups()
    assert (group.target_size(), len(group.instances())) == (2, 1)
    assert client.group_of(NodeRef("node-0", "id-0")) == "web"
    assert sorted(method for method, _ in server.asked) == [
        "NodeGroupNodes",
        "NodeGroupTargetSize",
        "NodeGroups",
        "Refresh",
    ]


@pytest.mark.parametrize("number", [1, 2], ids=["up to 1.33", "since 1.34"])
def test_a_template_is_read_in_both_formats(go: Go, number: int) -> None:
    capacity = wire.block(1, wire.text(1, "cpu") + wire.block(2, wire.text(1, "4")))
    labels = wire.block(11, wire.text(1, "pool") + wire.text(2, "web"))
    kubelet = wire.block(7, wire.text(7, "v1.34.0"))  # a field that nobody here reads
    node = wire.block(1, labels) + wire.block(3, capacity + kubelet)
    _, client = go(NodeGroupTemplateNodeInfo=wire.block(number, node))
    client.refresh(NOW)
    assert client.groups()[0].template() == NodeTemplate(labels={"pool": "web"}, capacity={"cpu": "4"}, allocatable={})


@pytest.mark.parametrize(
    ("number", "duration"),
    [
        pytest.param(3, wire.varint(1, 120 * 10**9), id="up to 1.33: nanoseconds"),
        pytest.param(8, wire.varint(1, 120), id="since 1.34: google.protobuf.Duration"),
    ],
)
def test_options_are_read_in_both_formats_and_what_is_not_told_stays_as_it_was(
    go: Go, number: int, duration: bytes
) -> None:
    server, client = go(NodeGroupGetOptions=wire.block(1, wire.block(number, duration)))
    client.refresh(NOW)
    assert client.groups()[0].settings() == GroupSettings(scale_down_unneeded_time_s=120.0)
    asked = dict(server.asked)["NodeGroupGetOptions"]
    defaults = dict(wire.fields(dict(wire.fields(asked))[2]))
    assert dict(wire.fields(defaults[3])) == {1: 600 * 10**9}
    assert dict(wire.fields(defaults[8])) == {1: 600}


def test_a_decrease_is_negative_on_the_wire(go: Go) -> None:
    server, client = go(NodeGroupDecreaseTargetSize=b"", NodeGroupIncreaseSize=b"")
    client.refresh(NOW)
    (group,) = client.groups()
    group.decrease_target(1)
    group.increase(3)
    asked = {method: dict(wire.fields(content)) for method, content in server.asked}
    assert asked["NodeGroupDecreaseTargetSize"] == {1: (1 << 64) - 1, 2: b"web"}
    assert asked["NodeGroupIncreaseSize"] == {1: 3, 2: b"web"}


def test_machines_are_named_by_the_numbers_of_the_protocol(go: Go) -> None:
    server, client = go(NodeGroupDeleteNodes=b"")
    client.refresh(NOW)
    client.groups()[0].delete([NodeRef("node-0", "id-0", {"l": "1"}, {"a": "2"})])
    asked = dict(wire.fields(dict(server.asked)["NodeGroupDeleteNodes"]))
    assert asked[2] == b"web"
    node = dict(wire.fields(asked[1]))
    assert (node[1], node[2]) == (b"id-0", b"node-0")
    assert dict(wire.fields(node[3])) == {1: b"l", 2: b"1"}
    assert dict(wire.fields(node[4])) == {1: b"a", 2: b"2"}


def test_instances_have_states_and_errors(go: Go) -> None:
    error = wire.text(1, "SOLD_OUT") + wire.text(2, "none left") + wire.varint(3, 1)
    told = (
        wire.text(1, "a"),
        wire.text(1, "b") + wire.block(2, wire.varint(1, 3)),
        wire.text(1, "c") + wire.block(2, wire.varint(1, 2) + wire.block(2, error)),
    )
    _, client = go(NodeGroupNodes=b"".join(wire.block(1, one) for one in told))
    client.refresh(NOW)
    assert client.groups()[0].instances() == (
        Instance("a", None),
        Instance("b", State.DELETING),
        Instance("c", State.CREATING, InstanceError(ErrorClass.OUT_OF_RESOURCES, "SOLD_OUT", "none left")),
    )


def test_nodes_that_no_group_lists_are_asked_about_in_the_next_refresh(go: Go) -> None:
    server, client = go(NodeGroupForNode=wire.block(1, wire.text(1, "web")))
    odd = NodeRef("odd", "other://odd", {"l": "1"})
    client.refresh(NOW)
    assert client.group_of(odd) is None
    assert server.count("NodeGroupForNode") == 0
    client.refresh(NOW)
    assert client.group_of(odd) == "web"
    assert server.count("NodeGroupForNode") == 1


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (grpc.StatusCode.UNAVAILABLE, Transient),
        (grpc.StatusCode.ABORTED, Transient),
        (grpc.StatusCode.NOT_FOUND, NotFound),
        (grpc.StatusCode.RESOURCE_EXHAUSTED, OutOfCapacity),
        (grpc.StatusCode.UNKNOWN, ProviderError),
        (grpc.StatusCode.PERMISSION_DENIED, ProviderError),
    ],
)
def test_statuses_of_servers_that_know_no_better(go: Go, status: grpc.StatusCode, kind: type[ProviderError]) -> None:
    server, client = go(NodeGroupIncreaseSize=status)
    client.refresh(NOW)
    (group,) = client.groups()
    server.answers["NodeGroupTargetSize"] = wire.varint(1, 5)
    with pytest.raises(ProviderError, match="no luck") as caught:
        group.increase(1)
    assert type(caught.value) is kind
    assert group.target_size() == 5, "what became of a call that failed is read back"


def test_a_server_that_is_not_there_is_transient() -> None:
    calls = Calls(Settings("127.0.0.1:1", PATIENT_S))
    with pytest.raises(Transient):
        calls("Refresh")
    calls.close()
    with pytest.raises(ProviderError, match="given up"):
        calls("Refresh")


def test_a_server_that_does_not_answer_in_time_is_transient() -> None:
    released = threading.Event()

    class Slow(StaticCloud):
        def refresh(self, now: float) -> None:
            released.wait(PATIENT_S)

    server = Server(Slow(CloudSpec(groups=[])), "127.0.0.1:0")
    server.start()
    calls = Calls(Settings(f"127.0.0.1:{server.port}", 0.2))
    with pytest.raises(Transient, match="Refresh: Deadline Exceeded"):
        calls("Refresh")
    released.set()
    calls.close()
    server.stop()


def test_an_answer_that_is_no_message_is_an_error(go: Go) -> None:
    _, client = go(NodeGroups=b"\xff")
    with pytest.raises(ProviderError, match="NodeGroups: the answer cannot be read"):
        client.refresh(NOW)


def test_a_failed_refresh_leaves_what_was_known(go: Go) -> None:
    server, client = go()
    client.refresh(NOW)
    server.answers["NodeGroups"] = grpc.StatusCode.UNAVAILABLE
    with pytest.raises(Transient):
        client.refresh(NOW)
    assert [group.id for group in client.groups()] == ["web"]


# What our server does with calls of others.


def raw(server: Server, method: str, content: bytes) -> bytes:
    with grpc.insecure_channel(f"127.0.0.1:{server.port}") as channel:
        call = channel.unary_unary(f"/{protocol.SERVICE}/{method}", bytes, bytes)
        return bytes(call(content, timeout=PATIENT_S))


@pytest.fixture
def served() -> Iterator[Server]:
    server = Server(a_cloud(prices=Prices()), "127.0.0.1:0", now=lambda: NOW)
    server.start()
    yield server
    server.stop()


def test_a_template_is_written_in_both_formats(served: Server) -> None:
    answer = dict(wire.fields(raw(served, "NodeGroupTemplateNodeInfo", wire.text(1, "web"))))
    assert answer[1] == answer[2]
    node = codec.decode("Node", answer[2])
    assert node["metadata"]["labels"]["pool"] == "web"
    assert node["status"]["allocatable"]["cpu"] == "3900m"
    assert node["status"]["conditions"][0]["type"] == "Ready"


def test_options_given_as_defaults_come_back_under_what_the_group_overrides(served: Server) -> None:
    defaults = codec.encode("Options", {"scaleDownUnreadyDuration": 60.0}, protocol._TABLE)
    answer = raw(served, "NodeGroupGetOptions", wire.text(1, "web") + wire.block(2, defaults))
    options = protocol.read_response("NodeGroupGetOptions", answer)["options"]
    assert (options["scaleDownUtilizationThreshold"], options["scaleDownUnneededDuration"]) == (0.7, 120.0)
    assert (options["scaleDownUnreadyDuration"], options["scaleDownUnreadyTime"]) == (60.0, 60.0)


@pytest.mark.parametrize(
    ("method", "content", "status"),
    [
        ("NodeGroupTargetSize", wire.text(1, "nope"), grpc.StatusCode.NOT_FOUND),
        ("NodeGroupTargetSize", b"\xff", grpc.StatusCode.INVALID_ARGUMENT),
        ("NodeGroupIncreaseSize", wire.text(2, "web") + wire.varint(1, -1), grpc.StatusCode.INTERNAL),
        ("NodeGroupDecreaseTargetSize", wire.text(2, "web") + wire.varint(1, 1), grpc.StatusCode.INTERNAL),
        ("NodeGroupIncreaseSize", wire.text(2, "web") + wire.varint(1, 100), grpc.StatusCode.INTERNAL),
    ],
)
def test_calls_that_make_no_sense_are_refused(
    served: Server, method: str, content: bytes, status: grpc.StatusCode
) -> None:
    with pytest.raises(grpc.RpcError) as caught:
        raw(served, method, content)
    assert caught.value.code() is status


def test_a_node_of_nobody_has_an_empty_group(served: Server) -> None:
    node = wire.block(1, wire.text(1, "other://x") + wire.text(2, "x"))
    answer = protocol.read_response("NodeGroupForNode", raw(served, "NodeGroupForNode", node))
    assert answer["nodeGroup"].get("id", "") == ""


# Configuration and TLS.


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Make an authority, and certificates that it and a stranger vouch for."""
    folder = tmp_path_factory.mktemp("tls")

    def openssl(*words: str) -> None:
        subprocess.run(["openssl", *words], cwd=folder, check=True, capture_output=True)

    for authority, names in (("ca", ("server", "client")), ("stranger", ("intruder",))):
        curve = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes")
        openssl("req", "-x509", *curve, "-keyout", f"{authority}.key", "-out", f"{authority}.crt", "-subj", "/CN=ca")
        for name in names:
            openssl("req", *curve, "-keyout", f"{name}.key", "-out", f"{name}.csr", "-subj", f"/CN={name}")
            (folder / f"{name}.ext").write_text("subjectAltName=IP:127.0.0.1")
            signer = ("-CA", f"{authority}.crt", "-CAkey", f"{authority}.key", "-CAcreateserial")
            openssl("x509", "-req", "-in", f"{name}.csr", *signer, "-extfile", f"{name}.ext", "-out", f"{name}.crt")
    return folder


def a_file(tmp_path: Path, **fields: object) -> str:
    path = tmp_path / "cloud.yaml"
    path.write_text("\n".join(f"{key}: {value}" for key, value in fields.items()))
    return str(path)


@pytest.mark.parametrize(("who", "welcome"), [("client", True), ("intruder", False)])
def test_both_sides_show_certificates(tmp_path: Path, certificates: Path, who: str, welcome: bool) -> None:
    mine = Credentials(*((certificates / name).read_bytes() for name in ("server.key", "server.crt", "ca.crt")))
    server = Server(a_cloud(), "127.0.0.1:0", mine, now=lambda: NOW)
    server.start()
    files = {"key": certificates / f"{who}.key", "cert": certificates / f"{who}.crt", "cacert": certificates / "ca.crt"}
    path = a_file(tmp_path, address=f"127.0.0.1:{server.port}", grpc_timeout="10s", **files)
    context = ProviderContext(config_file=path, now=lambda: NOW)
    try:
        if welcome:
            client = create_provider("externalgrpc", context)
            client.refresh(NOW)
            assert [group.id for group in client.groups()] == ["web"]
            assert not isinstance(client, PricedExternalProvider)
            client.close()
        else:
            with pytest.raises(Transient):
                create_provider("externalgrpc", context)
    finally:
        server.stop()


def test_abilities_follow_the_server_and_the_price_list(tmp_path: Path) -> None:
    server = Server(a_cloud(prices=Prices()), "127.0.0.1:0", now=lambda: NOW)
    server.start()
    try:
        path = a_file(tmp_path, address=f"127.0.0.1:{server.port}", grpc_timeout="60s")
        priced = create_provider("externalgrpc", ProviderContext(config_file=path, now=lambda: NOW))
        assert type(priced) is PricedExternalProvider
        priced.close()
        prices = tmp_path / "prices.yaml"
        prices.write_text("instanceTypes: {m5.large: 0.5}")
        listed = create_provider("externalgrpc", ProviderContext(config_file=path, price_file=str(prices)))
        assert isinstance(listed, PriceListedExternalProvider)
        assert listed.node_price(TEMPLATE, 1.0) == 0.5
        listed.close()
    finally:
        server.stop()


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ({}, "address: is required"),
        ({"address": "somewhere"}, "address: 'somewhere' is not host:port"),
        ({"address": "a:1", "cert": "/nowhere"}, "cert: /nowhere cannot be read: No such file or directory"),
        ({"address": "a:1", "cert": "/nowhere"}, "key: is required beside cert"),
        ({"address": "a:1", "grpc_timeout": "soon"}, "grpc_timeout: "),
        ({"address": "a:1", "grpc_timeout": "0s"}, "grpc_timeout: must be above 0"),
        ({"address": "a:1", "adress": "b:1"}, "adress: unknown key; did you mean address?"),
    ],
)
def test_bad_files_are_misconfigured(tmp_path: Path, fields: dict[str, object], says: str) -> None:
    path = a_file(tmp_path, **fields) if fields else a_file(tmp_path, grpc_timeout="5s")
    with pytest.raises(Misconfigured) as caught:
        create_provider("externalgrpc", ProviderContext(config_file=path))
    assert says in str(caught.value)


def test_groups_are_the_server_s_business(tmp_path: Path) -> None:
    path = a_file(tmp_path, address="a:1")
    with pytest.raises(Misconfigured, match="cloud-config: "):
        create_provider("externalgrpc", ProviderContext())
    with pytest.raises(Misconfigured, match=r"^nodes: "):
        create_provider("externalgrpc", ProviderContext(config_file=path, node_specs=["1:2:web"]))
    with pytest.raises(Misconfigured, match=r"^node-group-auto-discovery: "):
        create_provider("externalgrpc", ProviderContext(config_file=path, discovery_specs=["asg:tag=x"]))


def test_a_taken_address_is_misconfigured(served: Server) -> None:
    with pytest.raises(Misconfigured, match=f"address: cannot listen at 127.0.0.1:{served.port}"):
        Server(a_cloud(), f"127.0.0.1:{served.port}")
