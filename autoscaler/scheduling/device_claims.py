"""What the claims of a class of pods ask for."""

from collections.abc import Mapping

import msgspec

from autoscaler.objects.devices import ResourceClaim, ResourceClaimTemplate
from autoscaler.objects.pod import PodClass
from autoscaler.reasons import NoFit, Rejection
from autoscaler.scheduling.device_allocation import NoAllocation, Wanted, wanted_of
from autoscaler.snapshot.cluster import Related

CANNOT = "cannot allocate all claims"


class ClassClaims(msgspec.Struct, frozen=True):
    """The claims of a class of pods."""

    owned: tuple[Wanted, ...] = ()
    """Made from templates: every pod gets its own."""
    named: tuple[str, ...] = ()
    """Keys of claims that all pods of the class use together."""
    wanted: Mapping[str, Wanted | NoAllocation] = {}
    """What each of them asks for, or what is wrong with it."""
    trouble: Rejection | None = None
    """Why no node will do."""


def claims_of(cls: PodClass, related: Related) -> ClassClaims:
    """Return the claims of a class."""
    owned = list[Wanted]()
    named = list[str]()
    wanted = dict[str, Wanted | NoAllocation]()
    for ref in cls.resource_claims:
        if ref.resource_claim_name is None:
            found = _templated(f"{cls.namespace}/{ref.resource_claim_template_name}", ref.name, related)
            if isinstance(found, NoAllocation):
                return ClassClaims(trouble=refusal(found.detail))
            owned.append(found)
            continue
        key = f"{cls.namespace}/{ref.resource_claim_name}"
        claim = related.resource_claims.get(key)
        if claim is None:
            return ClassClaims(trouble=refusal(f"there is no claim {ref.resource_claim_name}"))
        if claim.metadata.deletion_timestamp is not None:
            return ClassClaims(trouble=refusal(f"claim {ref.resource_claim_name} is being deleted"))
        named.append(key)
        wanted[key] = wanted_of(ref.resource_claim_name, claim.spec, related.device_classes)
    return ClassClaims(tuple(owned), tuple(dict.fromkeys(named)), wanted)


def _templated(key: str, name: str, related: Related) -> Wanted | NoAllocation:
    template: ResourceClaimTemplate | None = related.resource_claim_templates.get(key)
    if template is None:
        return NoAllocation(f"claim {name}: there is no ResourceClaimTemplate {key.partition('/')[2]}")
    return wanted_of(name, template.spec.spec, related.device_classes)


def refusal(detail: str) -> Rejection:
    """Return the scheduler's words for a node without the devices, with what is missing."""
    return Rejection(NoFit.DEVICES, CANNOT, detail)


def owner_of(claim: ResourceClaim) -> str:
    """Return the key of the pod that a claim was made for; empty for a claim that pods name."""
    owners = (one.name for one in claim.metadata.owner_references if one.kind == "Pod")
    return next((f"{claim.namespace}/{name}" for name in owners), "")
