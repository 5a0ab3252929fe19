"""A cloud behind a gRPC server."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from cloudprovider.externalgrpc import protocol
from cloudprovider.externalgrpc.calls import Calls
from cloudprovider.externalgrpc.group import ExternalGroup, GroupState
from cloudprovider.externalgrpc.settings import read_settings
from cloudprovider.externalgrpc.status import Unimplemented
from cloudprovider.interface import (
    GroupSettings,
    Instance,
    Misconfigured,
    NodeRef,
    NodeTemplate,
    ProviderContext,
    ProviderError,
    Transient,
)
from cloudprovider.prices import PriceListed, read_price_file

_HOSTNAME = "kubernetes.io/hostname"
_MOST_LOOKUPS = 200
"""How many unknown nodes one refresh asks the server about."""
_Fields = Mapping[str, Any]


class ExternalProvider:
    """A `CloudProvider` with `Accelerators`.

    A refresh reads everything, with concurrent calls for the groups. The groups' instances tell which group a node
    belongs to. The next refresh asks the server about nodes that are not among them.
    """

    name = "externalgrpc"

    def __init__(self, calls: Calls, defaults: GroupSettings) -> None:
        self._calls = calls
        self._defaults = protocol.options_fields(defaults)
        self._groups: dict[str, ExternalGroup] = {}
        self._owners: Mapping[str, str] = {}
        self._told: Mapping[tuple[str, str], str] = {}
        self._wondered: dict[str, NodeRef] = {}
        self._lacks: set[str] = set()
        self._gpu_label: str | None = None
        self._gpu_types: tuple[str, ...] | None = None

    def refresh(self, now: float) -> None:
        """Let the server refresh, then read its groups."""
        self._calls("Refresh")
        listed = [group for group in self._calls("NodeGroups").get("nodeGroups", []) if group.get("id")]
        named = [{"id": group["id"]} for group in listed]
        targets = self._calls.all("NodeGroupTargetSize", named)
        instances = self._calls.all("NodeGroupNodes", named)
        templates = self._optional("NodeGroupTemplateNodeInfo", named, _template)
        wanted = [{**ref, "defaults": self._defaults} for ref in named]
        settings = self._optional("NodeGroupGetOptions", wanted, _settings)
        self._ask_for_gpus()
        self._owners_of_strangers()
        groups: dict[str, ExternalGroup] = {}
        for index, group in enumerate(listed):
            state = GroupState(
                min_size=group.get("minSize", 0),
                max_size=group.get("maxSize", 0),
                target_size=targets[index].get("targetSize", 0),
                instances=tuple(protocol.instance_of(fields) for fields in instances[index].get("instances", [])),
                template=templates[index],
                settings=settings[index] or GroupSettings(),
            )
            groups[group["id"]] = self._group(group["id"], state)
        self._groups = groups
        self._owners = {instance.provider_id: group.id for group in groups.values() for instance in group.instances()}

    def groups(self) -> Sequence[ExternalGroup]:
        """All groups, in the server's order."""
        return tuple(self._groups.values())

    def group_of(self, node: NodeRef) -> str | None:
        """Id of the group that has the node's machine. For other nodes, the server's last answer."""
        owner = self._owners.get(node.provider_id)
        if owner is not None:
            return owner
        self._wondered[node.name] = node
        return self._told.get((node.name, node.provider_id))

    @property
    def gpu_label(self) -> str:
        """The server's label; empty until the server has answered."""
        return self._gpu_label or ""

    def gpu_types(self) -> Sequence[str]:
        """Return the server's types; empty until the server has answered."""
        return self._gpu_types or ()

    def close(self) -> None:
        """Let the server clean up, and close the connection."""
        if self._calls.closed:
            return
        try:
            self._calls("Cleanup")
        finally:
            self._calls.close()

    def _group(self, group_id: str, state: GroupState) -> ExternalGroup:
        group = self._groups.get(group_id)
        if group is None:
            return ExternalGroup(group_id, state, self._calls, self._claim)
        group.take(state)
        return group

    def _claim(self, group_id: str, instances: Sequence[Instance]) -> None:
        self._owners = {**self._owners, **{instance.provider_id: group_id for instance in instances}}

    def _optional(self, method: str, requests: Sequence[_Fields], read: Callable[[_Fields], Any]) -> Sequence[Any]:
        """Make calls that are optional for a server. The answers are None if it does not have them."""
        if method not in self._lacks:
            try:
                return [read(answer) for answer in self._calls.all(method, requests)]
            except Unimplemented:
                self._lacks.add(method)
            except ValueError as error:
                raise ProviderError(f"{method}: the answer cannot be read: {error}") from error
        return [None] * len(requests)

    def _ask_for_gpus(self) -> None:
        if self._gpu_label is None:
            for answer in self._optional("GPULabel", [{}], lambda fields: fields.get("label", "")):
                self._gpu_label = answer or ""
        if self._gpu_types is None:
            for answer in self._optional(
                "GetAvailableGPUTypes", [{}], lambda fields: sorted(fields.get("gpuTypes", {}))
            ):
                self._gpu_types = tuple(answer or ())

    def _owners_of_strangers(self) -> None:
        asked = list(self._wondered.values())[:_MOST_LOOKUPS]
        self._wondered = {}
        answers = self._calls.all("NodeGroupForNode", [{"node": protocol.node_fields(node)} for node in asked])
        owners = [answer.get("nodeGroup", {}).get("id", "") for answer in answers]
        self._told = {(node.name, node.provider_id): owner for node, owner in zip(asked, owners, strict=True) if owner}


class PriceListedExternalProvider(PriceListed, ExternalProvider):
    """An `ExternalProvider` that also has `Pricing`, from a price list."""


class PricedExternalProvider(ExternalProvider):
    """An `ExternalProvider` that also has `Pricing`: the server knows prices."""

    def __init__(self, calls: Calls, defaults: GroupSettings, now: Callable[[], float]) -> None:
        super().__init__(calls, defaults)
        self._now = now

    def node_price(self, node: NodeTemplate, hours: float) -> float:
        """Price of such a node for `hours`, by its labels and annotations."""
        name = node.labels.get(_HOSTNAME, "")
        ref = NodeRef(name, "", node.labels, node.annotations)
        return _price(self._calls("PricingNodePrice", {"node": protocol.node_fields(ref), **self._span(hours)}))

    def pod_price(self, requests: Mapping[str, str], hours: float) -> float:
        """Price of a pod with these requests for `hours`."""
        pod = protocol.pod_bytes(requests)
        return _price(self._calls("PricingPodPrice", {"pod": pod, "podBytes": pod, **self._span(hours)}))

    def _span(self, hours: float) -> dict[str, float]:
        start = self._now()
        end = start + hours * 3600.0
        return {"startTime": start, "endTime": end, "startTimestamp": start, "endTimestamp": end}


def create(
    context: ProviderContext,
) -> ExternalProvider | PriceListedExternalProvider | PricedExternalProvider:
    """Connect to the server that the file of `--cloud-config` names.

    Asks the server at once whether it knows prices; `Transient` if it does not answer. Size and discovery flags have
    no effect here. Raises `Misconfigured`.
    """
    if context.config_file is None:
        raise Misconfigured("cloud-config: the externalgrpc provider needs a file with the server's address")
    if context.node_specs or context.discovery_specs:
        flag = "nodes" if context.node_specs else "node-group-auto-discovery"
        raise Misconfigured(f"{flag}: the groups of the externalgrpc provider are its server's; configure them there")
    calls = Calls(read_settings(context.config_file), context.user_agent)
    if context.price_file is not None:
        listed = PriceListedExternalProvider(calls, context.defaults)
        return listed.priced_by(read_price_file(context.price_file))
    priced = PricedExternalProvider(calls, context.defaults, context.now)
    try:
        priced.pod_price({"cpu": "1"}, 1.0)
    except Transient:
        calls.close()
        raise
    except ProviderError:
        return ExternalProvider(calls, context.defaults)
    return priced


def _template(fields: _Fields) -> NodeTemplate | None:
    content = fields.get("nodeBytes") or fields.get("nodeInfo")
    return protocol.template_of(content) if content else None


def _settings(fields: _Fields) -> GroupSettings | None:
    options = fields.get("options")
    return None if options is None else protocol.settings_of(options)


def _price(fields: _Fields) -> float:
    return float(fields.get("price", 0.0))
