"""The DaemonSets that bring a pod to each new node, as templates need them."""

import msgspec

from autoscaler.objects.meta import ObjectMeta, OwnerReference
from autoscaler.objects.pod import PodClass
from autoscaler.objects.pod_interner import PodInterner
from autoscaler.objects.workload import DaemonSet

_CRITICAL = "system-node-critical"
_PREEMPTS = "PreemptLowerPriority"


class TemplateDaemonSet(msgspec.Struct, frozen=True):
    """A DaemonSet as far as templates care."""

    name: str
    uid: str
    cls: PodClass
    critical: bool
    """Whether it makes room for itself on nodes that are full."""


def template_daemon(daemon_set: DaemonSet, interner: PodInterner) -> TemplateDaemonSet:
    """Return a DaemonSet with the class of the pods that its controller would create."""
    pods = daemon_set.spec.template
    owner = OwnerReference(
        kind="DaemonSet", name=daemon_set.name, uid=daemon_set.uid, api_version="apps/v1", controller=True
    )
    meta = ObjectMeta(
        name=daemon_set.name,
        namespace=daemon_set.namespace,
        labels=pods.metadata.labels,
        annotations=pods.metadata.annotations,
        owner_references=[owner],
    )
    cls = interner.class_of(meta, pods.spec, node_name=pods.spec.node_name)
    critical = cls.priority_class_name == _CRITICAL and cls.preemption_policy in (None, _PREEMPTS)
    return TemplateDaemonSet(daemon_set.name, daemon_set.uid, cls, critical)
