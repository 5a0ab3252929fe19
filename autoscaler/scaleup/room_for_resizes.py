"""Asks for room elsewhere for pods whose resize in place is deferred (`--room-for-deferred-resizes`).

A fake pod as large as the resized one keeps the room, so that the pod can start there at once when somebody replaces
it, such as the VerticalPodAutoscaler. Nothing is evicted for it.
"""

from itertools import islice

import msgspec

from autoscaler.objects.class_form import ClassForm
from autoscaler.objects.pod import FAKE_POD, Pod, Unscheduled
from autoscaler.objects.pod_interner import PodInterner
from autoscaler.scaleup.fake_pods import is_recreated
from autoscaler.scheduling.deferred_resizes import deferred_resizes
from autoscaler.snapshot.cluster import ClusterView


def room_for_resizes(view: ClusterView, limit: int, interner: PodInterner) -> tuple[Pod, ...]:
    """Return a fake pod for each pod that waits on a full node and that its controller would create again; at most
    `limit`.
    """
    waiting = (resize.pod for resize in deferred_resizes(view) if resize.lacks)
    moving = (pod for pod in waiting if pod.deleted is None and is_recreated(pod.cls))
    return tuple(_resized(pod, interner) for pod in islice(moving, limit))


def _resized(pod: Pod, interner: PodInterner) -> Pod:
    form = msgspec.structs.replace(
        msgspec.msgpack.decode(pod.cls.key, type=ClassForm), allocated=None, allocated_to_pod={}, resize_pending=""
    )
    cls = interner.class_from(msgspec.structs.replace(form, annotations={**form.annotations, **FAKE_POD}))
    return Pod(
        name=f"{pod.name}-resized",
        cls=cls,
        uid=f"{pod.uid}-resized",
        created=pod.created,
        unscheduled=Unscheduled("Unschedulable", None),
    )
