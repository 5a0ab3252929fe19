"""Reads directly from the API server, without the watch caches, before a node is deleted."""

from collections.abc import Callable, Sequence
from typing import TypeVar

import msgspec
from msgspec.structs import replace

from autoscaler.errors import Gone, RetryLater
from autoscaler.kube import paths
from autoscaler.kube.call import Call
from autoscaler.kube.reader import ApiReader
from autoscaler.objects.decode import Decoder, Undecoded
from autoscaler.objects.node import Node, node_decoder
from autoscaler.objects.pod import Pod
from autoscaler.objects.pod_interner import PodInterner
from autoscaler.objects.workload import DisruptionBudget, budget_decoder
from autoscaler.snapshot.cluster import Related

_READ = Call(timeout_s=10.0, urgent=True)
"""These reads do not queue behind evictions: objections to a deletion must be known before the deletion."""
_BUDGETS = "/apis/policy/v1/poddisruptionbudgets"

T = TypeVar("T")


class ClusterReader:
    """A `job.FreshReader` on the API server. Safe to share between threads."""

    def __init__(
        self,
        client: ApiReader,
        interner: PodInterner,
        last_seen: Callable[[str], Node | None],
        related: Callable[[], Related | None],
    ) -> None:
        """`last_seen` and `related` return objects from the stores that the watches fill."""
        self._client = client
        self._nodes = node_decoder()
        self._pods = interner.decoder()
        self._budgets = budget_decoder()
        self._last_seen = last_seen
        self._related = related

    def node(self, name: str) -> Node | None:
        """Return the node; None where there is none."""
        try:
            body = self._client.get(paths.node(name), call=_READ)
        except Gone:
            return None
        read = self._nodes.read(body)
        if isinstance(read, Undecoded):
            raise RetryLater(f"node {name} cannot be decoded: {read.why}")
        return read

    def pods_on(self, node: str) -> Sequence[Pod]:
        """Return every pod bound to the node, whatever its phase."""
        body = self._client.get(paths.collection("v1", "Pod"), {"fieldSelector": f"spec.nodeName={node}"}, _READ)
        return _all(self._pods, body, lambda odd: replace(odd, node_name=node))

    def budgets(self) -> Sequence[DisruptionBudget]:
        """Return all disruption budgets."""
        body = self._client.get(_BUDGETS, call=_READ)
        return _all(self._budgets, body)

    def related(self) -> Related | None:
        """Return controllers as the watches last showed them."""
        return self._related()

    def last_seen(self, name: str) -> Node | None:
        """Return the node as the watch last showed it."""
        return self._last_seen(name)


def _all(decoder: Decoder[T], body: bytes, about: Callable[[Undecoded], Undecoded] = lambda odd: odd) -> Sequence[T]:
    """Return the objects of a list, with an `Undecoded` for each one that cannot be decoded."""
    try:
        page = decoder.page(body)
    except msgspec.MsgspecError as error:
        raise RetryLater(f"the API server sent something unreadable: {error}") from error
    stand_ins = (decoder.stand_in(about(odd), None) for odd in page.undecoded)
    return [*page.items, *(item for item in stand_ins if item is not None)]
