"""Claims for devices (dynamic resource allocation).

Which devices of which node could serve a claim is not simulated: buying a node for such a pod might help or not, so
none is bought. Source of the wording: the scheduler's DynamicResources plug-in.
"""

from collections.abc import Iterator

from autoscaler.objects.pod import PodClass
from autoscaler.reasons import NoFit, Rejection
from autoscaler.scheduling.reach import Demand, Nowhere


def device_demands(cls: PodClass) -> Iterator[Demand]:
    """Yield what keeps a pod with claims for devices off every node."""
    if cls.resource_claims:
        names = ", ".join(claim.name for claim in cls.resource_claims)
        detail = f"claims {names}: the allocation of devices is not simulated"
        yield Nowhere(Rejection(NoFit.DEVICES, "cannot allocate all claims", detail))
