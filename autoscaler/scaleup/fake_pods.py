"""Fake pods take part in a pass and exist only inside the autoscaler; this module builds them."""

from collections.abc import Mapping

from msgspec.structs import replace

from autoscaler.objects.capacity import CapacityBuffer, ProvisioningRequest, StoredTemplate
from autoscaler.objects.meta import ObjectMeta, OwnerReference
from autoscaler.objects.pod import Pod, PodClass
from autoscaler.objects.pod_interner import PodInterner

BUFFER_KIND = "CapacityBuffer"
REQUEST_KIND = "ProvisioningRequest"
RESERVATION_KIND = "CapacityReservation"


def class_of_fake_pods(
    name: str,
    owner: ProvisioningRequest | CapacityBuffer,
    kind: str,
    stored: StoredTemplate,
    marks: Mapping[str, str],
    interner: PodInterner,
) -> PodClass:
    """Return the class of pods made from a PodTemplate: of one family with `owner`, an object of that `kind`.

    `marks` are annotations beside the template's. Raises `ValueError` for amounts that cannot be read.
    """
    reference = OwnerReference(
        kind=kind, name=owner.name, uid=owner.uid, api_version=owner.api_version, controller=True
    )
    template = stored.template
    meta = ObjectMeta(
        name=name,
        namespace=owner.namespace,
        labels=template.metadata.labels,
        annotations={**template.metadata.annotations, **marks},
        owner_references=[reference],
    )
    return interner.class_of(meta, replace(template.spec, node_name=""))


_CREATORS = ("ReplicaSet", "StatefulSet", "Job")


def is_recreated(cls: PodClass) -> bool:
    """Whether a controller that is no DaemonSet creates a new pod for each that has gone."""
    return cls.owner is not None and cls.owner.kind in _CREATORS


def to_come(cls: PodClass) -> bool:
    """Whether pods of a class stand for those that their controller has yet to create."""
    return cls.simulated and is_recreated(cls)


def stands_for(kind: str, pod: Pod) -> bool:
    """Whether a pod does not exist and keeps room for an object of a kind: `BUFFER_KIND`, `RESERVATION_KIND`."""
    return pod.cls.simulated and pod.cls.owner is not None and pod.cls.owner.kind == kind
