"""The read-only interface to an API server, which is all that most parts need."""

from collections.abc import Mapping
from typing import Protocol

from autoscaler.kube.call import Call


class ApiReader(Protocol):
    """Answers GET requests; `kube.client.Client` is one."""

    def get(self, path: str, query: Mapping[str, str] | None = None, call: Call = ...) -> bytes:
        """Return the body; raises `AutoscalerError`."""
        ...
