"""Finds what is wrong with the PersistentVolumeClaims of a pod, and where its volumes can be used."""

from collections.abc import Iterator, Mapping

from autoscaler.explain.remedies.changes import AnyChange, CreateClaim, CreateStorageClass
from autoscaler.explain.remedies.spot import Spot
from autoscaler.objects.meta import Operator
from autoscaler.objects.node import REGIONS, ZONES
from autoscaler.objects.pod import PodClass
from autoscaler.objects.storage import PersistentVolume, PersistentVolumeClaim, StorageClass
from autoscaler.scheduling.claims import ClaimFault, FaultyClaim, faulty_claims
from autoscaler.snapshot.cluster import Related


def storage_changes(spot: Spot) -> Iterator[AnyChange]:
    """Yield the objects to create for the claims of the pod; yields nothing if objects alone do not help."""
    related = spot.ended.view.related
    changes = [_creation(faulty, spot.cls, related) for faulty in faulty_claims(spot.cls, related)]
    yield from (change for change in changes if change is not None and None not in changes)


def _creation(faulty: FaultyClaim, cls: PodClass, related: Related) -> AnyChange | None:
    if faulty.fault is ClaimFault.MISSING:
        return CreateClaim(claim=f"{cls.namespace}/{faulty.name}")
    if faulty.fault is ClaimFault.UNBOUND and (missing := _missing_class(faulty, cls, related)):
        return CreateStorageClass(name=missing)
    return None


def _missing_class(faulty: FaultyClaim, cls: PodClass, related: Related) -> str:
    claim = related.claims[f"{cls.namespace}/{faulty.name}"]
    name = "" if claim.spec.volume_name else claim.storage_class
    return "" if name in related.storage_classes else name


def storage_trouble(spot: Spot) -> tuple[str, str] | None:
    """Return the problem of the first claim that no node can serve, and its fix; None if all claims are good."""
    related = spot.ended.view.related
    faulty = next(faulty_claims(spot.cls, related), None)
    if faulty is None:
        return None
    key = f"{spot.pod.namespace}/{faulty.name}"
    claim = related.claims.get(key)
    if faulty.fault is ClaimFault.UNBOUND and claim is not None:
        return _unbound(faulty, claim, spot.cls, related)
    volume = "" if claim is None else claim.spec.volume_name
    cause, advice = _TROUBLES[faulty.fault]
    return cause.format(claim=key, volume=volume), advice.format(claim=key, volume=volume)


_TROUBLES: Mapping[ClaimFault, tuple[str, str]] = {
    ClaimFault.MISSING: (
        "needs PersistentVolumeClaim {claim}, which does not exist",
        "Create PersistentVolumeClaim {claim}.",
    ),
    ClaimFault.NOT_MADE_YET: (
        "needs PersistentVolumeClaim {claim}, which does not exist yet",
        "Wait for the controller manager to create PersistentVolumeClaim {claim}; if it does not, see its log.",
    ),
    ClaimFault.UNDECODED: (
        "needs PersistentVolumeClaim {claim}, which cannot be decoded",
        "Correct PersistentVolumeClaim {claim}; the log has the error.",
    ),
    ClaimFault.LOST: (
        "needs PersistentVolumeClaim {claim}, whose PersistentVolume {volume} is lost",
        "Restore PersistentVolume {volume}, or delete PersistentVolumeClaim {claim} and create it again.",
    ),
    ClaimFault.LEAVING: (
        "needs PersistentVolumeClaim {claim}, which is being deleted",
        "Create PersistentVolumeClaim {claim} again once it is gone.",
    ),
    ClaimFault.VOLUME_MISSING: (
        "needs PersistentVolumeClaim {claim}, whose PersistentVolume {volume} does not exist",
        "Restore PersistentVolume {volume}, or delete PersistentVolumeClaim {claim} and create it again.",
    ),
}


def _unbound(faulty: FaultyClaim, claim: PersistentVolumeClaim, cls: PodClass, related: Related) -> tuple[str, str]:
    key, name = f"{cls.namespace}/{faulty.name}", claim.storage_class
    if missing := _missing_class(faulty, cls, related):
        return (
            f"needs PersistentVolumeClaim {key}, whose StorageClass {missing} does not exist",
            f"Create StorageClass {missing}.",
        )
    if not name:
        return (
            f"needs PersistentVolumeClaim {key}, which has neither a volume nor a StorageClass",
            f"Name a StorageClass in PersistentVolumeClaim {key}, or create a PersistentVolume for it.",
        )
    return (
        f"needs PersistentVolumeClaim {key}, which is not bound yet",
        f"See the events of PersistentVolumeClaim {key}: StorageClass {name} binds it before the pod has a node.",
    )


def storage_labels(spot: Spot) -> tuple[str, dict[str, str]] | None:
    """Return the first volume of the pod that cannot be used on the node, and the labels of a node that can use it."""
    related, labels = spot.ended.view.related, spot.node.labels
    for name in spot.cls.claims:
        claim = related.claims.get(f"{spot.pod.namespace}/{name}")
        if claim is None:
            continue
        volume, storage = related.volumes.get(claim.spec.volume_name), related.storage_classes.get(claim.storage_class)
        if volume is not None:
            words, asked = f"can use PersistentVolume {volume.name}", _asked(volume)
        elif storage is not None:
            words, asked = f"needs a volume of StorageClass {storage.name}, which makes them", _allowed(storage)
        else:
            continue
        if any(labels.get(key) != value for key, value in asked.items()):
            return words, asked
    return None


def _allowed(storage: StorageClass) -> dict[str, str]:
    """Return the labels of nodes for which a class creates volumes, as far as the class names some."""
    expressions = storage.allowed_topologies[0].match_label_expressions if storage.allowed_topologies else []
    return {expression.key: expression.values[0] for expression in expressions if expression.values}


def _asked(volume: PersistentVolume) -> dict[str, str]:
    """Return the labels of nodes that can use a volume, as far as the volume names some."""
    named = volume.metadata.labels
    asked = {key: named[key].split("__")[0].strip() for key in (*ZONES, *REGIONS) if key in named}
    affinity = volume.spec.node_affinity
    terms = [] if affinity is None or affinity.required is None else affinity.required.node_selector_terms
    expressions = terms[0].match_expressions if terms else []
    required = (expression for expression in expressions if expression.operator == Operator.IN and expression.values)
    return asked | {expression.key: expression.values[0] for expression in required}
