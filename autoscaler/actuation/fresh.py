"""Reads past the watches: the API server itself is asked, because a node is about to be deleted."""

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol, TypeVar

import msgspec

from autoscaler.errors import Gone, RetryLater
from autoscaler.kube import paths
from autoscaler.kube.client import Call
from autoscaler.objects.node import Node, node_decoder
from autoscaler.objects.pod import Pod, PodInterner
from autoscaler.objects.workload import DisruptionBudget, plain_decoder
from autoscaler.snapshot.cluster import Related

_READ = Call(timeout_s=10.0, urgent=True)
"""Nothing of this queues behind evictions: what speaks against a deletion has to be known before it, not after."""
_BUDGETS = "/apis/policy/v1/poddisruptionbudgets"

T = TypeVar("T")


class Gets(Protocol):
    """What this needs of `kube.client.Client`."""

    def get(self, path: str, query: Mapping[str, str] | None = None, call: Call = ...) -> bytes:
        """Read; returns the body."""
        ...


class ClusterReader:
    """A `job.FreshReader` on the API server. Safe to share between threads."""

    def __init__(
        self,
        client: Gets,
        interner: PodInterner,
        last_seen: Callable[[str], Node | None],
        related: Callable[[], Related | None],
    ) -> None:
        """`last_seen` and `related` answer from the stores that the watches fill."""
        self._client = client
        self._nodes = node_decoder()
        self._pods = interner.decoder()
        self._budgets = plain_decoder(DisruptionBudget)
        self._last_seen = last_seen
        self._related = related

    def node(self, name: str) -> Node | None:
        """Return the node; None where there is none."""
        try:
            body = self._client.get(paths.node(name), call=_READ)
        except Gone:
            return None
        return _decoded(lambda: self._nodes.one(msgspec.json.decode(body)))

    def pods_on(self, node: str) -> Sequence[Pod]:
        """Return every pod bound to the node, whatever its phase."""
        body = self._client.get(paths.collection("v1", "Pod"), {"fieldSelector": f"spec.nodeName={node}"}, _READ)
        return _decoded(lambda: self._pods.page(body)).items

    def budgets(self) -> Sequence[DisruptionBudget]:
        """Return all disruption budgets."""
        body = self._client.get(_BUDGETS, call=_READ)
        return _decoded(lambda: self._budgets.page(body)).items

    def related(self) -> Related | None:
        """Return controllers as the watches last showed them."""
        return self._related()

    def last_seen(self, name: str) -> Node | None:
        """Return the node as the watch last showed it."""
        return self._last_seen(name)


def _decoded(decode: Callable[[], T]) -> T:
    try:
        return decode()
    except (msgspec.MsgspecError, ValueError) as error:
        raise RetryLater(f"the API server sent something unreadable: {error}") from error
