"""An embedded Kubernetes API server: in memory, over HTTP, faithful enough for kubectl and client libraries.

`storage.Storage(clock)` holds the objects and the rules (admission, optimistic concurrency, graceful deletion, garbage
collection, eviction, binding, scale, watch); simulated controllers call it in process, with plain dicts, and no threads
are needed: `listen` calls back after each write, `watch` gives a subscription to `poll`. Errors are `errors.ApiError`.

`server.ApiServer(storage)` serves it: `.start()`, `.stop()`, `.url`, `.write_kubeconfig(path)`, `.requests` (what was
asked, for comparison with RBAC rules), `.faults` (trouble to inject, `faults.Faults`).
"""

from autoscaler.sandbox.apiserver.deletion import DeletedObject, DeleteOptions, Propagation
from autoscaler.sandbox.apiserver.errors import ApiError
from autoscaler.sandbox.apiserver.faults import Fault, Faults
from autoscaler.sandbox.apiserver.journal import Subscription, WatchEvent
from autoscaler.sandbox.apiserver.patch import PatchType
from autoscaler.sandbox.apiserver.records import ChangeType, StoreChange
from autoscaler.sandbox.apiserver.server import ApiServer, TlsFiles
from autoscaler.sandbox.apiserver.storage import Storage

__all__ = [
    "ApiError",
    "ApiServer",
    "ChangeType",
    "DeleteOptions",
    "DeletedObject",
    "Fault",
    "Faults",
    "PatchType",
    "Propagation",
    "Storage",
    "StoreChange",
    "Subscription",
    "TlsFiles",
    "WatchEvent",
]
