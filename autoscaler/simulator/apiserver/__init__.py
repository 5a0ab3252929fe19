"""An embedded Kubernetes API server: in memory, over HTTP, faithful enough for kubectl and client libraries.

`storage.Storage(clock)` holds the objects and the rules (admission, optimistic concurrency, graceful deletion, garbage
collection, eviction, binding, scale, watch); simulated controllers call it in process, with plain dicts, and no threads
are needed: `listen` calls back after each write, `watch` gives a subscription to `poll`. Errors are `errors.ApiError`.

`server.ApiServer(storage)` serves it: `.start()`, `.stop()`, `.url`, `.write_kubeconfig(path)`, `.requests` (what was
asked, for comparison with RBAC rules), `.faults` (trouble to inject, `faults.Faults`).
"""

from autoscaler.simulator.apiserver.deletion import Deleted, DeleteOptions, Propagation
from autoscaler.simulator.apiserver.errors import ApiError
from autoscaler.simulator.apiserver.faults import Fault, Faults
from autoscaler.simulator.apiserver.journal import Subscription, WatchEvent
from autoscaler.simulator.apiserver.patch import PatchType
from autoscaler.simulator.apiserver.records import Change, ChangeType
from autoscaler.simulator.apiserver.server import ApiServer, TlsFiles
from autoscaler.simulator.apiserver.storage import Storage

__all__ = [
    "ApiError",
    "ApiServer",
    "Change",
    "ChangeType",
    "DeleteOptions",
    "Deleted",
    "Fault",
    "Faults",
    "PatchType",
    "Propagation",
    "Storage",
    "Subscription",
    "TlsFiles",
    "WatchEvent",
]
