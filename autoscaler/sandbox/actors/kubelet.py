"""The kubelets of all nodes: bound pods start, run, end and stop by virtual time; no container runs.

Two annotations steer a pod that is not restarted for ever: `sandbox.autoscaler/duration` (such as `30s`) is how long
its containers run, `sandbox.autoscaler/exit-code` how they end. Pods of Jobs run for some seconds if they do not say.
"""

import msgspec

from autoscaler.clock import Instant
from autoscaler.objects.meta import JsonObject
from autoscaler.sandbox.actors import pod_status
from autoscaler.sandbox.actors.informers import SharedInformers
from autoscaler.sandbox.actors.timing import Timing
from autoscaler.sandbox.actors.wire import (
    controller_of,
    is_finished,
    is_silent,
    is_terminating,
    key_of,
    node_of,
    phase_of,
    spec_of,
    uid_of,
)
from autoscaler.sandbox.actors.workqueue import QueueActor, WorkQueue
from autoscaler.sandbox.apiserver.deletion import DeleteOptions
from autoscaler.sandbox.apiserver.patch import PatchType
from autoscaler.sandbox.apiserver.records import Key
from autoscaler.sandbox.apiserver.storage import Storage
from cloudprovider.duration import parse_duration_s
from cloudprovider.number import parse_count

DURATION = "sandbox.autoscaler/duration"
EXIT_CODE = "sandbox.autoscaler/exit-code"
_NO_HOST = "10.0.0.1"
_LAST_EXIT_CODE = 255


class _KubeletState(msgspec.Struct):
    """One node's kubelet: what it has pulled, and how many addresses it has given out."""

    images: set[str]
    addresses: int = 0


class Kubelets(QueueActor[Key]):
    """Runs the pods of every node, regardless of its creator, unless the node's kubelet is silent."""

    def __init__(self, storage: Storage, informers: SharedInformers, timing: Timing) -> None:
        self._storage = storage
        self._timing = timing
        self._pods = informers.informer("pods")
        self._nodes = informers.informer("nodes")
        self._on_node = self._pods.index(node_of)
        self._queue = WorkQueue()
        self._kubelets: dict[str, _KubeletState] = {}
        self._due: dict[tuple[str, str], float] = {}
        self._pods.subscribe(self._pod_changed)
        self._nodes.subscribe(self._node_changed)

    def _pod_changed(self, old: JsonObject | None, new: JsonObject | None) -> None:
        if old is not None and (new is None or uid_of(new) != uid_of(old)):
            for stage in ("start", "end", "stop"):
                self._due.pop((uid_of(old), stage), None)
        if new is not None and node_of(new):
            self._queue.add(key_of(new))

    def _node_changed(self, old: JsonObject | None, new: JsonObject | None) -> None:
        if new is None and old is not None:
            self._kubelets.pop(old["metadata"]["name"], None)
        elif new is not None and not is_silent(new) and (old is None or is_silent(old)):
            for key in self._on_node.of(new["metadata"]["name"]):
                self._queue.add(key)

    def _sync(self, key: Key, now: Instant) -> None:
        pod = self._pods.objects.get(key)
        node = self._nodes.objects.get(("", node_of(pod) or "")) if pod is not None else None
        if pod is None or node is None or is_silent(node):
            return
        if is_terminating(pod):
            self._stop(pod, now)
        elif phase_of(pod) == "Pending":
            self._start(pod, node, now)
        elif not is_finished(pod):
            self._run(pod, now)

    def _start(self, pod: JsonObject, node: JsonObject, now: Instant) -> None:
        kubelet = self._kubelets.setdefault(node["metadata"]["name"], _KubeletState(set()))
        if (uid_of(pod), "start") not in self._due:
            images = {str(container["image"]) for container in pod["spec"]["containers"]} - kubelet.images
            kubelet.images |= images
            self._is_due(pod, "start", self._timing.start_s + self._timing.pull_s * len(images), now)
            self._report(pod, pod_status.starting(pod, _address_of(node), now.wall))
        elif self._is_due(pod, "start", 0.0, now):
            self._report(pod, pod_status.running(pod, self._new_address(pod, node, kubelet), now.wall))

    def _run(self, pod: JsonObject, now: Instant) -> None:
        lasts_s = self._lasts_s(pod)
        if lasts_s is not None and self._is_due(pod, "end", lasts_s, now):
            code = (pod["metadata"].get("annotations") or {}).get(EXIT_CODE, "0")
            exit_code = parse_count(code, _LAST_EXIT_CODE)
            self._report(pod, pod_status.ended(pod, 1 if exit_code is None else exit_code, now.wall))

    def _stop(self, pod: JsonObject, now: Instant) -> None:
        grace_s = pod["metadata"].get("deletionGracePeriodSeconds") or 0
        if is_finished(pod) or self._is_due(pod, "stop", min(grace_s, self._timing.stop_s), now):
            options = DeleteOptions(grace_s=0, uid=uid_of(pod))
            self._storage.delete("pods", pod["metadata"]["name"], namespace=key_of(pod)[0], options=options)

    def _is_due(self, pod: JsonObject, stage: str, after_s: float, now: Instant) -> bool:
        """Whether `after_s` have passed since the first call; if not, schedule the pod for that time."""
        due = self._due.setdefault((uid_of(pod), stage), now.mono + after_s)
        if now.mono < due:
            self._queue.add_at(key_of(pod), due)
        return now.mono >= due

    def _lasts_s(self, pod: JsonObject) -> float | None:
        """How long the containers run; None means without end."""
        if pod["spec"].get("restartPolicy") == "Always":
            return None
        text = (pod["metadata"].get("annotations") or {}).get(DURATION)
        owner = controller_of(pod)
        if text is None:
            return self._timing.job_s if owner is not None and owner["kind"] == "Job" else None
        try:
            return parse_duration_s(text)
        except ValueError:
            return None

    def _new_address(self, pod: JsonObject, node: JsonObject, kubelet: _KubeletState) -> str:
        if pod["spec"].get("hostNetwork"):
            return _address_of(node)
        subnet = str(spec_of(node).get("podCIDR") or "10.255.0.0/24")
        kubelet.addresses = kubelet.addresses % 253 + 1
        return f"{subnet.rpartition('.')[0]}.{kubelet.addresses + 1}"

    def _report(self, pod: JsonObject, status: JsonObject) -> None:
        namespace, name = key_of(pod)
        patch = {"metadata": {"uid": uid_of(pod)}, "status": status}
        self._storage.patch(
            "pods", name, patch, namespace=namespace, patch_type=PatchType.STRATEGIC, subresource="status"
        )


def _address_of(node: JsonObject) -> str:
    addresses = (node.get("status") or {}).get("addresses") or ()
    return next((str(address["address"]) for address in addresses if address.get("type") == "InternalIP"), _NO_HOST)
