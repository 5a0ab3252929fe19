"""Creates the static provider from the engine's context."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import msgspec

from cloudprovider.interface import Misconfigured, NodeApi, NodeRef, ProviderContext
from cloudprovider.prices import read_price_file
from cloudprovider.problems import Problems
from cloudprovider.sizes import read_sizes
from cloudprovider.static.cloud import PricedStaticCloud, StaticCloud, open_cloud
from cloudprovider.static.file import load_cloud
from cloudprovider.static.spec import CloudSpec, GroupSpec


def create(context: ProviderContext) -> StaticCloud | PricedStaticCloud:
    """Open the cloud that the groups file (`--cloud-config`) describes.

    `--nodes=min:max:id` overrides the sizes of a group in the file. Nodes of the cluster that a group claims are its
    first machines. Raises `Misconfigured` with a line for every problem.
    """
    if context.config_file is None:
        raise Misconfigured("cloud-config: the static provider needs the path of a groups file")
    if context.discovery_specs:
        raise Misconfigured("node-group-auto-discovery: the static provider takes its groups from the groups file")
    spec = with_sizes(load_cloud(context.config_file), context.node_specs)
    if context.price_file is not None:
        if spec.prices is not None:
            raise Misconfigured("price-file: the groups file has prices of its own; leave one of them out")
        spec = msgspec.structs.replace(spec, prices=read_price_file(context.price_file))
    return open_cloud(spec, now=context.now, list_nodes=_lister(context.node_api))


def with_sizes(spec: CloudSpec, node_specs: Sequence[str]) -> CloudSpec:
    """Apply `min:max:id` specifications; `Misconfigured` for malformed ones and unknown ids."""
    problems = Problems()
    groups: dict[str, GroupSpec] = {group.id: group for group in spec.groups}
    for size in read_sizes(node_specs, problems):
        if (group := groups.get(size.name)) is None:
            problems.add("nodes", f"{size.name!r} is no group of the groups file")
        else:
            groups[size.name] = msgspec.structs.replace(group, min_size=size.min_size, max_size=size.max_size)
    problems.raise_if_any()
    return msgspec.structs.replace(spec, groups=tuple(groups.values()))


def node_ref(node: Mapping[str, Any]) -> NodeRef:
    """Return the `NodeRef` of a v1.Node in plain JSON data."""
    metadata, spec = node.get("metadata") or {}, node.get("spec") or {}
    return NodeRef(
        name=metadata.get("name", ""),
        provider_id=spec.get("providerID", ""),
        labels=metadata.get("labels") or {},
        annotations=metadata.get("annotations") or {},
    )


def _lister(api: NodeApi | None) -> Callable[[], Iterable[NodeRef]] | None:
    if api is None:
        return None
    return lambda: [node_ref(node) for node in api.list_nodes()]
