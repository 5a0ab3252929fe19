"""Devices as plain definitions: the slow twin of how much of a node's devices is allocated."""

from fractions import Fraction

from autoscaler.objects.devices import ResourceClaim, ResourceSlice
from autoscaler.objects.node import Node
from autoscaler.objects.pod import Pod
from autoscaler.snapshot.cluster import ClusterView


def slow_device_share(view: ClusterView, node: Node) -> float | str | None:
    """Return how full the fullest pool of a node is, `incomplete`, or None where it has no pool."""
    own = [
        resource_slice
        for resource_slice in view.related.resource_slices.values()
        if resource_slice.spec.node_name == node.name
    ]
    shares: list[Fraction] = []
    for driver, pool in {(one.spec.driver, one.spec.pool.name) for one in own}:
        slices = [one for one in own if (one.spec.driver, one.spec.pool.name) == (driver, pool)]
        newest = max(one.spec.pool.generation for one in slices)
        slices = [one for one in slices if one.spec.pool.generation == newest]
        if len(slices) != slices[0].spec.pool.resource_slice_count:
            return "incomplete"
        shares.append(_share(slices, _taken(view, node, driver, pool)))
    return float(max(shares)) if shares else None


def _taken(view: ClusterView, node: Node, driver: str, pool: str) -> set[str]:
    with_devices = {resource_slice.spec.node_name for resource_slice in view.related.resource_slices.values()}
    placed = [pod for pods in view.pods for pod in pods if pod.node in with_devices]
    return {
        result.device
        for claim in view.related.resource_claims.values()
        if claim.status.allocation is not None and any(_uses(pod, claim) for pod in (*placed, *view.pending))
        for result in claim.status.allocation.devices.results
        if (result.driver, result.pool) == (driver, pool) and not result.admin_access
    }


def _uses(pod: Pod, claim: ResourceClaim) -> bool:
    if pod.namespace != claim.namespace:
        return False
    by_name = any(ref.resource_claim_name == claim.name for ref in pod.cls.resource_claims)
    reserved = any(
        (one.resource, one.name, one.uid) == ("pods", pod.name, pod.uid) for one in claim.status.reserved_for
    )
    return by_name or reserved


def _share(slices: list[ResourceSlice], taken: set[str]) -> Fraction:
    devices = [device for one in slices for device in one.spec.devices]
    whole = [device for device in devices if not device.consumes_counters]
    parts = [device for device in devices if device.consumes_counters]
    cards = {use.counter_set for device in parts for use in device.consumes_counters}
    counted = Fraction(sum(device.name in taken for device in whole))
    used = Fraction(0)
    for card in cards:
        fullest = Fraction(0)
        counters = {
            name for one in slices for own in one.spec.shared_counters if own.name == card for name in own.counters
        }
        for counter in counters:
            total = sum(
                own.counters[counter].whole
                for one in slices
                for own in one.spec.shared_counters
                if own.name == card and counter in own.counters
            )
            consumed = sum(
                use.counters[counter].whole
                for device in parts
                for use in device.consumes_counters
                if device.name in taken and use.counter_set == card and counter in use.counters
            )
            fullest = max(fullest, Fraction(consumed, total) if total else Fraction(0))
        used += fullest
    some_part = any(device.name in taken for device in parts)
    if not some_part:
        return counted / len(whole) if whole else Fraction(0)
    if not counted:
        return used / len(cards)
    return (used + counted) / (len(cards) + len(whole))
