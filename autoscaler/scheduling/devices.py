"""Claims for devices (dynamic resource allocation).

A claim that is allocated keeps its pods to the nodes from which its devices can be used. Which devices could serve a
claim that is not is left to the scheduler: such a pod fits nowhere, so no node is bought for it, and none is removed
that would make it move. That goes for every claim made from a template too: it ends with its pod, and the next pod
gets another. Source of the wording and the rules: the scheduler's DynamicResources plug-in.
"""

from collections.abc import Iterator, Mapping

from autoscaler.objects.devices import ResourceClaim
from autoscaler.objects.pod import PodClass
from autoscaler.reasons import NoFit, Rejection
from autoscaler.scheduling.node_requirements import NodeRequirement, Nowhere, Within

MAX_CONSUMERS = 256
"""How many pods may share a claim."""


def device_demands(cls: PodClass, claims: Mapping[str, ResourceClaim]) -> Iterator[NodeRequirement]:
    """Yield where the claims of a pod let it go; `claims` are all there are, by key."""
    undecided = []
    for ref in cls.resource_claims:
        name = ref.resource_claim_name
        claim = None if name is None else claims.get(f"{cls.namespace}/{name}")
        if claim is None or claim.status.allocation is None:
            undecided.append(ref.name)
        elif claim.metadata.deletion_timestamp is not None:
            yield Nowhere(Rejection(NoFit.DEVICES, "cannot allocate all claims", f"claim {name} is being deleted"))
        elif len(claim.status.reserved_for) >= MAX_CONSUMERS:
            yield Nowhere(Rejection(NoFit.DEVICES, "cannot allocate all claims", f"claim {name} has all its users"))
        elif claim.status.allocation.node_selector is not None:
            detail = f"the devices of claim {name} cannot be used from there"
            rejection = Rejection(NoFit.DEVICES, "resourceclaim not available on the node", detail)
            yield Within(claim.status.allocation.node_selector, rejection)
    if undecided:
        detail = f"claims {', '.join(undecided)}: the allocation of devices is not simulated"
        yield Nowhere(Rejection(NoFit.DEVICES, "cannot allocate all claims", detail))
