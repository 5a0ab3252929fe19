"""The read-only interface to an API server, which is enough for most parts."""

from collections.abc import Mapping
from typing import Protocol

from autoscaler.kube.call import Call


class ApiReader(Protocol):
    """Sends GET requests; `kube.client.Client` is one."""

    def get(self, path: str, query: Mapping[str, str] | None = None, call: Call = ...) -> bytes:
        """Return the body; raises `AutoscalerError`."""
        ...
