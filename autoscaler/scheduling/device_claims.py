"""What the claims of a class of pods ask for."""

from collections.abc import Mapping, Sequence

import msgspec

from autoscaler.objects.devices import DeviceClass, ResourceClaim, ResourceClaimTemplate
from autoscaler.objects.node import Node
from autoscaler.objects.pod import PodClass
from autoscaler.reasons import NoFit, Rejection
from autoscaler.scheduling.device_wants import DeviceChoice, NoAllocation, Wanted, wanted_of
from autoscaler.snapshot.cluster import Related

_OF_CLASS = "deviceclass.resource.kubernetes.io/"
"""Before the name of a class: the extended resource that always stands for its devices."""
EXTENDED = "for extended resources"
"""In place of the name of the claim that stands for them."""
CANNOT = "cannot allocate all claims"


class ClassClaims(msgspec.Struct, frozen=True):
    """The claims of a class of pods."""

    owned: tuple[Wanted, ...] = ()
    """Made from templates: every pod gets its own."""
    named: tuple[str, ...] = ()
    """Keys of claims that all pods of the class use together."""
    wanted: Mapping[str, Wanted | NoAllocation] = {}
    """What each of them asks for, or what is wrong with it."""
    extended: Mapping[str, Sequence[DeviceChoice]] = {}
    """What stands for requests of extended resources, on nodes that do not offer these; by resource."""
    trouble: Rejection | None = None
    """Why no node will do."""

    def owned_on(self, node: Node) -> tuple[Wanted, ...]:
        """Return the claims that every pod gets on a node."""
        missing = self.delegated(node)
        if not missing:
            return self.owned
        return (*self.owned, Wanted(EXTENDED, [self.extended[one] for one in missing], []))

    def delegated(self, node: Node) -> tuple[str, ...]:
        """Return the extended resources that a node does not offer, so that devices stand for them."""
        return tuple(resource for resource in self.extended if not node.allocatable.get(resource))


def extended_resources(classes: Mapping[str, DeviceClass]) -> Mapping[str, str]:
    """Return the classes whose devices stand for extended resources, by resource.

    Of several for the same resource the newest counts. Source: the scheduler's `extendedresourcecache`.
    """
    found = {f"{_OF_CLASS}{name}": name for name in classes}
    by_name = sorted(classes.items(), reverse=True)
    for name, device_class in sorted(by_name, key=lambda one: one[1].metadata.creation_timestamp or ""):
        if device_class.spec.extended_resource_name:
            found[device_class.spec.extended_resource_name] = name
    return found


def _extended(cls: PodClass, classes: Mapping[str, DeviceClass]) -> Mapping[str, Sequence[DeviceChoice]]:
    wanted: dict[str, Sequence[DeviceChoice]] = {}
    for resource, name in extended_resources(classes).items():
        if (count := cls.requests.get(resource, 0)) > 0:
            selectors = classes[name].spec.selectors
            wanted[resource] = [DeviceChoice(resource, name, selectors, count, admin=False, tolerations=())]
    return dict(sorted(wanted.items()))


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
    extended = _extended(cls, related.device_classes)
    return ClassClaims(tuple(owned), tuple(dict.fromkeys(named)), wanted, extended)


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
