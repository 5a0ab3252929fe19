"""A thin client of the Compute Engine API: pages, operations, retries of reads, errors in the contract's words."""

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Protocol
from urllib.parse import quote, urlencode

import msgspec

from cloudprovider.gce.faults import http_error, operation_error
from cloudprovider.gce.refs import GroupRef, Place
from cloudprovider.gce.transport import Answer, Transport, Waiting
from cloudprovider.interface import ProviderError, Throttled, Transient
from cloudprovider.moment import retry_after_s

ENDPOINT = "https://compute.googleapis.com/compute/v1/"
_CALL_S = 30.0
_READ_TRIES = 3
_RETRY_S = 0.5
_OPERATION_S = 20.0
_POLL_S = 0.5
_MOST_PAGES = 1000
_LONGEST_PATIENCE_S = 5.0
"""A throttled read is retried only if the cloud asks for no longer wait than this."""
_MANAGER_FIELDS = (
    "nextPageToken,items(name,targetSize,targetSuspendedSize,baseInstanceName,instanceTemplate,"
    "versions(instanceTemplate,targetSize),currentActions,status/autoscaler,distributionPolicy/zones/zone,"
    "updatePolicy(instanceRedistributionType,type))"
)

Data = Mapping[str, Any]


class Compute(Protocol):
    """The calls to Compute Engine. All raise `ProviderError` and its subclasses."""

    def managers(self, place: Place) -> Sequence[Data]:
        """List the instance group managers of a zone or region."""
        ...

    def manager(self, group: GroupRef) -> Data:
        """Return one instance group manager."""
        ...

    def managed_instances(self, group: GroupRef) -> Sequence[Data]:
        """List the instances that a group manages."""
        ...

    def instances(self, zone: Place) -> Sequence[Data]:
        """List all instances of a zone, with status and metadata."""
        ...

    def zones(self, region: Place) -> Sequence[str]:
        """List the names of a region's zones."""
        ...

    def template(self, path: str) -> Data:
        """Return an instance template."""
        ...

    def machine_type(self, zone: Place, name: str) -> Data:
        """Return a predefined machine type."""
        ...

    def create_instances(self, group: GroupRef, names: Sequence[str]) -> None:
        """Add machines of these names; returns when the group has taken the order."""
        ...

    def resize(self, group: GroupRef, size: int) -> None:
        """Set the target size; returns when the group has taken the order."""
        ...

    def delete_instances(self, group: GroupRef, urls: Sequence[str]) -> None:
        """Delete these machines and lower the target by as many; returns when the group has taken the order.

        Machines that are not members or are already being deleted are skipped, and do not lower the target.
        """
        ...

    def close(self) -> None:
        """Let connections go."""
        ...


class RestCompute:
    """`Compute` over HTTP. Safe from any thread."""

    def __init__(self, transport: Transport, waiting: Waiting, endpoint: str = ENDPOINT) -> None:
        self._transport = transport
        self._waiting = waiting
        self._root = endpoint.rstrip("/") + "/"

    def managers(self, place: Place) -> Sequence[Data]:
        """List the instance group managers of a zone or region."""
        return list(self._pages("GET", f"{place.path}/instanceGroupManagers", "items", fields=_MANAGER_FIELDS))

    def manager(self, group: GroupRef) -> Data:
        """Return one instance group manager."""
        return self._read("GET", group.path)

    def managed_instances(self, group: GroupRef) -> Sequence[Data]:
        """List the instances that a group manages."""
        return list(self._pages("POST", f"{group.path}/listManagedInstances", "managedInstances"))

    def instances(self, zone: Place) -> Sequence[Data]:
        """List all instances of a zone, with only the needed fields."""
        fields = "nextPageToken,items(selfLink,status,metadata/items)"
        return list(self._pages("GET", f"{zone.path}/instances", "items", fields=fields))

    def zones(self, region: Place) -> Sequence[str]:
        """List the names of a region's zones."""
        return [str(url).rpartition("/")[2] for url in self._read("GET", region.path).get("zones") or []]

    def template(self, path: str) -> Data:
        """Return an instance template."""
        return self._read("GET", path)

    def machine_type(self, zone: Place, name: str) -> Data:
        """Return a predefined machine type."""
        return self._read("GET", f"{zone.path}/machineTypes/{name}")

    def create_instances(self, group: GroupRef, names: Sequence[str]) -> None:
        """Add machines of these names."""
        self._write(group, "createInstances", {"instances": [{"name": name} for name in names]})

    def resize(self, group: GroupRef, size: int) -> None:
        """Set the target size."""
        self._write(group, "resize", size=str(size))

    def delete_instances(self, group: GroupRef, urls: Sequence[str]) -> None:
        """Delete these machines and lower the target by as many."""
        self._write(group, "deleteInstances", {"instances": list(urls), "skipInstancesOnValidationError": True})

    def close(self) -> None:
        """Let connections go."""
        self._transport.close()

    def _pages(self, method: str, path: str, key: str, **parameters: str) -> Iterator[Data]:
        token = ""
        for _ in range(_MOST_PAGES):
            page = self._read(method, path, **parameters, maxResults="500", **({"pageToken": token} if token else {}))
            yield from page.get(key) or []
            token = str(page.get("nextPageToken") or "")
            if not token:
                return
        raise Transient(f"{path}: the list has no end")

    def _read(self, method: str, path: str, **parameters: str) -> Data:
        """Read, with a few retries after temporary errors."""
        for further in reversed(range(_READ_TRIES)):
            try:
                return self._send(method, path, None, _CALL_S, **parameters)
            except Throttled as error:
                pause = error.retry_after if error.retry_after is not None else _RETRY_S
                if not further or pause > _LONGEST_PATIENCE_S:
                    raise
            except Transient:
                pause = _RETRY_S
                if not further:
                    raise
            self._waiting.sleep(pause)
        raise AssertionError("the last try returns or raises")

    def _write(self, group: GroupRef, verb: str, body: Data | None = None, **parameters: str) -> None:
        """Send an order once, and wait for the operation that it starts."""
        operation = self._send("POST", f"{group.path}/{verb}", body, _CALL_S, **parameters)
        what = f"{verb} of {group.name}"
        name, until = str(operation.get("name") or ""), self._waiting.now() + _OPERATION_S
        while operation.get("status") != "DONE":
            left = until - self._waiting.now()
            if left <= 0 or not name:
                raise Transient(f"{what}: the operation {name} is not done after {_OPERATION_S:g} s")
            operation = self._progress(what, f"{group.place.path}/operations/{name}/wait", left)
            if operation.get("status") != "DONE":
                self._waiting.sleep(min(_POLL_S, max(until - self._waiting.now(), 0.0)))
        if (failed := operation_error(what, operation)) is not None:
            raise failed

    def _progress(self, what: str, path: str, patience_s: float) -> Data:
        """Wait for an operation. The order was accepted, so a failed look at it must not count as a refusal."""
        try:
            return self._send("POST", path, None, patience_s)
        except (Throttled, Transient):
            return {}
        except ProviderError as error:
            raise Transient(f"{what}: ordered, but the operation cannot be read: {error}") from error

    def _send(self, method: str, path: str, body: Data | None, timeout_s: float, **parameters: str) -> Data:
        query = f"?{urlencode(parameters)}" if parameters else ""
        sent = None if body is None else json.dumps(body).encode()
        answer = self._transport.send(method, f"{self._root}{quote(path)}{query}", sent, timeout_s)
        return _decoded(f"{method} {path}", answer)


def _decoded(what: str, answer: Answer) -> Data:
    try:
        data = msgspec.json.decode(answer.body) if answer.body else {}
    except ValueError:  # a proxy's page, or an answer cut short
        data = None
    if 200 <= answer.status < 300:
        if not isinstance(data, dict):
            raise Transient(f"{what}: the answer is no JSON object")
        return data
    raise http_error(
        what,
        answer.status,
        data if isinstance(data, dict) else {},
        retry_after_s(answer.headers.get("retry-after"), answer.headers.get("date")),
    )
