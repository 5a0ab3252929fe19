"""Reads and writes the Lease of the leader election. These writes do not require leadership."""

from typing import TYPE_CHECKING

import msgspec

from autoscaler.errors import Gone, RetryLater
from autoscaler.kube import paths
from autoscaler.kube.call import Call
from autoscaler.kube.lease import ElectionLease, ElectionSpec
from autoscaler.kube.whole_objects import whole_object
from autoscaler.objects.lenient_json import UNREADABLE, without_nulls, words

if TYPE_CHECKING:
    from autoscaler.kube.client import Client

_encode = msgspec.json.encode


class LeaseWrites:
    """The election's calls.

    They never wait for the rate limit, and are never repeated here, because the election retries.
    """

    def __init__(self, client: "Client") -> None:
        self._client = client

    def read(self, namespace: str, name: str, timeout_s: float) -> ElectionLease | None:
        """Return the Lease; None if it does not exist."""
        try:
            body = self._client.get(
                ElectionLease.fresh(namespace, name, ElectionSpec()).path, call=_lease_call(timeout_s)
            )
        except Gone:
            return None
        return _lease(body, namespace, name)

    def create(self, lease: ElectionLease, timeout_s: float) -> ElectionLease:
        """Create the Lease; raises `Conflict` if it already exists."""
        where = paths.collection(lease.api_version, lease.kind, lease.metadata["namespace"])
        return self._answer(lease, self._client.post(where, _encode(lease), _lease_call(timeout_s)))

    def replace(self, lease: ElectionLease, timeout_s: float) -> ElectionLease:
        """Replace the Lease; raises `Conflict` if it has changed since it was read."""
        return self._answer(lease, self._client.put(lease.path, _encode(lease), _lease_call(timeout_s)))

    @staticmethod
    def _answer(sent: ElectionLease, body: bytes) -> ElectionLease:
        return _lease(body, sent.metadata["namespace"], sent.metadata["name"])


def _lease(body: bytes, namespace: str, name: str) -> ElectionLease:
    try:
        lease = msgspec.convert(without_nulls(whole_object(body)), ElectionLease)
    except UNREADABLE as error:
        raise RetryLater(f"the API server sent something that is no Lease: {words(error)}") from error
    return msgspec.structs.replace(lease, metadata={**lease.metadata, "namespace": namespace, "name": name})


def _lease_call(timeout_s: float) -> Call:
    return Call(timeout_s=timeout_s, urgent=True, repeatable=False)
