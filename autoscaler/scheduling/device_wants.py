"""What claims ask for, request by request."""

from collections.abc import Mapping, Sequence

import msgspec

from autoscaler.objects.devices import DeviceClaimSpec, DeviceClass, DeviceConstraint, DeviceSelector, DeviceToleration
from autoscaler.scheduling.device_shares import Amounts
from autoscaler.scheduling.device_stock import OfferedDevice
from cloudprovider.quantity import parse_quantity


class DeviceChoice(msgspec.Struct, frozen=True):
    """Something that would satisfy a request."""

    name: str
    """`request`, or `request/alternative`."""
    device_class: str
    selectors: Sequence[DeviceSelector]
    """Of the class and of the request."""
    count: int
    """0: all that match."""
    admin: bool
    """Whether the devices are used beside others, and not taken."""
    tolerations: Sequence[DeviceToleration]
    capacity: Amounts = {}
    """How much each device must give, by the names that drivers write."""

    def share(self, offer: OfferedDevice) -> Amounts | None:
        """Return how much the request takes of each capacity of a device; None where it may not."""
        if not self.capacity.keys() <= offer.capacities.keys():
            return None
        granted = {name: held.granted(self.capacity.get(name)) for name, held in offer.capacities.items()}
        known = {name: amount for name, amount in granted.items() if amount is not None}
        return known if len(known) == len(granted) else None

    def tolerates(self, offer: OfferedDevice) -> bool:
        """Whether the taints of the device do not matter."""
        return all(any(one.tolerates(taint) for one in self.tolerations) for taint in offer.taints)


class Wanted(msgspec.Struct, frozen=True):
    """What one claim asks for."""

    claim: str
    requests: Sequence[Sequence[DeviceChoice]]
    """The choices of each request, the best first."""
    constraints: Sequence[DeviceConstraint]


class NoAllocation(msgspec.Struct, frozen=True):
    """Why there is no solution."""

    detail: str


def wanted_of(claim: str, spec: DeviceClaimSpec, classes: Mapping[str, DeviceClass]) -> Wanted | NoAllocation:
    """Return what a claim asks for, or what is wrong with it."""
    requests = list[list[DeviceChoice]]()
    for request in spec.devices.requests:
        choices = list[DeviceChoice]()
        for name, body in request.alternatives:
            device_class = classes.get(body.device_class_name)
            if device_class is None:
                return NoAllocation(f"claim {claim}: there is no DeviceClass {body.device_class_name}")
            if body.allocation_mode not in ("ExactCount", "All", ""):
                return NoAllocation(
                    f"claim {claim}: allocationMode {body.allocation_mode} of request {name} is not known here"
                )
            choices.append(
                DeviceChoice(
                    name=name,
                    device_class=body.device_class_name,
                    selectors=[*device_class.spec.selectors, *body.selectors],
                    count=0 if body.allocation_mode == "All" else max(1, body.count),
                    admin=bool(body.admin_access),
                    tolerations=body.tolerations,
                    capacity={} if body.capacity is None else _amounts(body.capacity.requests),
                )
            )
        requests.append(choices)
    for constraint in spec.devices.constraints:
        if constraint.match_attribute is None and constraint.distinct_attribute is None:
            return NoAllocation(f"claim {claim}: one of its constraints is not known here")
    return Wanted(claim, requests, spec.devices.constraints)


def _amounts(quantities: Mapping[str, str | int | float]) -> Amounts:
    return {name: parse_quantity(str(amount)) for name, amount in quantities.items()}
