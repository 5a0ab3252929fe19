"""Serves any adapter by the protocol, to this autoscaler or to Cluster Autoscaler."""

import threading
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import grpc
import msgspec

from cloudprovider.externalgrpc import protocol
from cloudprovider.externalgrpc.status import status_of
from cloudprovider.interface import (
    Accelerators,
    CloudProvider,
    GroupOptions,
    GroupSettings,
    Misconfigured,
    NodeGroup,
    NodeRef,
    NodeTemplate,
    NotFound,
    Pricing,
    ProviderError,
)

_THREADS = 8
_GRACE_S = 5.0
_HOUR_S = 3600.0
_HOSTNAME = "kubernetes.io/hostname"
_Fields = Mapping[str, Any]


class Credentials(msgspec.Struct, frozen=True):
    """Content of the PEM files. Clients must present a certificate signed by `cacert`."""

    key: bytes
    cert: bytes
    cacert: bytes


class _Absent(Exception):
    """The adapter does not have the ability that the call needs."""


class Server:
    """Answers calls from one provider. Refreshes are serialized, and so are changes of one group."""

    def __init__(
        self,
        provider: CloudProvider,
        address: str,
        credentials: Credentials | None = None,
        now: Callable[[], float] = lambda: 0.0,
    ) -> None:
        """Listen at `address` (host:port), unencrypted without `credentials`; `Misconfigured` if that fails."""
        self._service = _Service(provider, now)
        self._pool = ThreadPoolExecutor(_THREADS, "externalgrpc")
        options = [
            ("grpc.max_receive_message_length", protocol.MOST_BYTES),
            ("grpc.so_reuseport", 0),
        ]
        self._server = grpc.server(self._pool, options=options)
        handlers = {
            method: grpc.unary_unary_rpc_method_handler(self._handler(method), bytes, bytes)
            for method in protocol.METHODS
        }
        service = grpc.method_handlers_generic_handler(protocol.SERVICE, handlers)
        self._server.add_generic_rpc_handlers((service,))
        try:
            if credentials is None:
                self.port = self._server.add_insecure_port(address)
            else:
                pair = [(credentials.key, credentials.cert)]
                secure = grpc.ssl_server_credentials(pair, credentials.cacert, require_client_auth=True)
                self.port = self._server.add_secure_port(address, secure)
        except RuntimeError as error:
            self._pool.shutdown()
            raise Misconfigured(f"address: cannot listen at {address}") from error

    def start(self) -> None:
        """Start to answer calls."""
        self._server.start()

    def stop(self) -> None:
        """Finish the running calls within a few seconds, and accept no more."""
        self._server.stop(_GRACE_S).wait()
        self._pool.shutdown()

    def _handler(self, method: str) -> Callable[[bytes, grpc.ServicerContext], bytes]:
        def answer(content: bytes, context: grpc.ServicerContext) -> bytes:
            try:
                asked = protocol.read_request(method, content)
            except ValueError as error:
                context.abort(grpc.StatusCode.INVALID_ARGUMENT, f"the request cannot be read: {error}")
            try:
                return protocol.response(method, self._service.answer(method, asked))
            except _Absent as error:
                context.abort(grpc.StatusCode.UNIMPLEMENTED, str(error))
            except ProviderError as error:
                status, metadata = status_of(error)
                context.set_trailing_metadata(tuple(metadata))
                context.abort(status, str(error))

        return answer


class _Service:
    """What each call does."""

    def __init__(self, provider: CloudProvider, now: Callable[[], float]) -> None:
        self._provider = provider
        self._now = now
        self._refreshing = threading.Lock()
        self._changing: dict[str, threading.Lock] = {}
        self._answers: Mapping[str, Callable[[_Fields], _Fields]] = {
            "NodeGroups": lambda _: {"nodeGroups": [_group(group) for group in provider.groups()]},
            "NodeGroupForNode": self._group_for_node,
            "PricingNodePrice": self._node_price,
            "PricingPodPrice": self._pod_price,
            "GPULabel": lambda _: {"label": provider.gpu_label if isinstance(provider, Accelerators) else ""},
            "GetAvailableGPUTypes": self._gpu_types,
            "Cleanup": lambda _: {},
            "Refresh": self._refresh,
            "NodeGroupTargetSize": lambda asked: {"targetSize": self._named(asked).target_size()},
            "NodeGroupIncreaseSize": self._increase,
            "NodeGroupDeleteNodes": self._delete,
            "NodeGroupDecreaseTargetSize": self._decrease,
            "NodeGroupNodes": self._nodes,
            "NodeGroupTemplateNodeInfo": self._template,
            "NodeGroupGetOptions": self._options,
        }

    def answer(self, method: str, asked: _Fields) -> _Fields:
        """Execute a call and return its answer; raises `ProviderError` and `_Absent`."""
        return self._answers[method](asked)

    def _named(self, asked: _Fields) -> NodeGroup:
        group_id = asked.get("id", "")
        for group in self._provider.groups():
            if group.id == group_id:
                return group
        raise NotFound(f"there is no node group {group_id!r}")

    def _refresh(self, _: _Fields) -> _Fields:
        with self._refreshing:
            self._provider.refresh(self._now())
        return {}

    def _group_for_node(self, asked: _Fields) -> _Fields:
        owner = self._provider.group_of(protocol.node_of(asked.get("node", {})))
        return {"nodeGroup": _group(self._named({"id": owner})) if owner is not None else {"id": ""}}

    def _change(self, asked: _Fields, change: Callable[[NodeGroup], None]) -> _Fields:
        group = self._named(asked)
        with self._changing.setdefault(group.id, threading.Lock()):
            change(group)
        return {}

    def _increase(self, asked: _Fields) -> _Fields:
        delta = asked.get("delta", 0)
        if delta <= 0:
            raise ProviderError(f"an increase is above 0, not {delta}")
        return self._change(asked, lambda group: group.increase(delta))

    def _decrease(self, asked: _Fields) -> _Fields:
        delta = asked.get("delta", 0)
        if delta >= 0:
            raise ProviderError(f"a decrease is below 0, not {delta}")
        return self._change(asked, lambda group: group.decrease_target(-delta))

    def _delete(self, asked: _Fields) -> _Fields:
        nodes = [protocol.node_of(fields) for fields in asked.get("nodes", [])]
        return self._change(asked, lambda group: group.delete(nodes)) if nodes else {}

    def _nodes(self, asked: _Fields) -> _Fields:
        return {"instances": [protocol.instance_fields(instance) for instance in self._named(asked).instances()]}

    def _template(self, asked: _Fields) -> _Fields:
        group = self._named(asked)
        template = group.template()
        if template is None:
            raise _Absent(f"{group.id} has no template")
        content = protocol.template_bytes(f"{group.id}-template", template)
        return {"nodeInfo": content, "nodeBytes": content}

    def _options(self, asked: _Fields) -> _Fields:
        group = self._named(asked)
        if not isinstance(group, GroupOptions):
            raise _Absent(f"{group.id} overrides no options")
        defaults = protocol.settings_of(asked.get("defaults", {}))
        own, none = group.settings(), GroupSettings()
        given = {
            field: value
            for field in GroupSettings.__struct_fields__
            if (value := getattr(own, field)) != getattr(none, field)
        }
        return {"options": protocol.options_fields(msgspec.structs.replace(defaults, **given))}

    def _pricing(self) -> Pricing:
        if not isinstance(self._provider, Pricing):
            raise _Absent("the provider knows no prices")
        return self._provider

    def _node_price(self, asked: _Fields) -> _Fields:
        pricing = self._pricing()
        node = protocol.node_of(asked.get("node", {}))
        return {"price": pricing.node_price(self._as_template(node), _hours(asked))}

    def _as_template(self, node: NodeRef) -> NodeTemplate:
        """Return a node for pricing. The message lacks its capacity, so the template of its group provides it."""
        owner = self._provider.group_of(node)
        like = self._named({"id": owner}).template() if owner is not None else self._like(node)
        bare = NodeTemplate() if like is None else like
        return msgspec.structs.replace(bare, labels=node.labels, annotations={**bare.annotations, **node.annotations})

    def _like(self, node: NodeRef) -> NodeTemplate | None:
        """Return the template whose labels the node has. The node may not exist yet."""
        own = {key: value for key, value in node.labels.items() if key != _HOSTNAME}
        for group in self._provider.groups():
            template = group.template()
            if template is not None and {k: v for k, v in template.labels.items() if k != _HOSTNAME} == own:
                return template
        return None

    def _pod_price(self, asked: _Fields) -> _Fields:
        pricing = self._pricing()
        try:
            containers = protocol.containers_of(asked.get("podBytes") or asked.get("pod") or b"")
        except ValueError as error:
            raise ProviderError(f"the pod cannot be read: {error}") from error
        return {"price": sum(pricing.pod_price(requests, _hours(asked)) for requests in containers)}

    def _gpu_types(self, _: _Fields) -> _Fields:
        types = self._provider.gpu_types() if isinstance(self._provider, Accelerators) else ()
        return {"gpuTypes": dict.fromkeys(types, b"")}


def _group(group: NodeGroup) -> _Fields:
    return {"id": group.id, "minSize": group.min_size, "maxSize": group.max_size, "debug": ""}


def _hours(asked: _Fields) -> float:
    start = asked.get("startTimestamp", asked.get("startTime", 0.0))
    end = asked.get("endTimestamp", asked.get("endTime", 0.0))
    return max(0.0, float(end - start) / _HOUR_S)
