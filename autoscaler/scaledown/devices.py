"""Computes how much of each node's devices is allocated (dynamic resource allocation).

Source of the rules: Cluster Autoscaler's `simulator/dynamicresources/utils`. Nodes without local pools of devices
cost nothing here.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Set

import msgspec

from autoscaler.objects.devices import CounterSet, Device, ResourceClaim
from autoscaler.snapshot.cluster import ClusterView
from autoscaler.snapshot.devices import DevicePool, exposes_gpus, pools_by_node


class DeviceUse(msgspec.Struct, frozen=True):
    """What a node's devices say of its use."""

    share: float
    """Of the pool that is used most, 0 to 1."""
    pool: str
    """That pool, `driver/pool`."""
    gpus: bool
    """Whether GPUs are among the devices."""
    unreadable: str = ""
    """Why `share` is unknown; empty where it is known."""


def device_uses(view: ClusterView) -> Mapping[int, DeviceUse]:
    """Return the use of every node that has pools of its own, by position."""
    slices = view.related.resource_slices
    if not slices:
        return {}
    pools = {view.positions[name]: own for name, own in pools_by_node(slices).items() if name in view.positions}
    allocated = _allocated(view, pools)
    return {position: _use(own, allocated) for position, own in pools.items()}


def _use(pools: tuple[DevicePool, ...], allocated: Mapping[tuple[str, str], Set[str]]) -> DeviceUse:
    gpus = exposes_gpus(pools)
    for pool in pools:
        if not pool.complete:
            there, wanted = len(pool.slices), pool.slices[0].spec.pool.resource_slice_count
            return DeviceUse(0.0, pool.label, gpus, f"pool {pool.label} has {there} of its {wanted} ResourceSlices")
    shares = [(pool_share(pool, allocated.get((pool.driver, pool.name), frozenset())), pool.label) for pool in pools]
    share, label = max(shares, key=lambda pair: pair[0])
    return DeviceUse(share, label, gpus)


def _allocated(view: ClusterView, positions: Iterable[int]) -> Mapping[tuple[str, str], Set[str]]:
    """Return the names of allocated devices by driver and pool.

    Only claims of pods that are on these nodes or have no node yet count: not those of pods that the view leaves out.
    """
    pods = [*(pod for position in positions for pod in view.pods[position]), *view.pending]
    uids = {pod.key: pod.uid for pod in pods}
    classes = {pod.cls for pod in pods}
    named = {f"{cls.namespace}/{ref.resource_claim_name}" for cls in classes for ref in cls.resource_claims}
    allocated: dict[tuple[str, str], set[str]] = defaultdict(set)
    for key, claim in view.related.resource_claims.items():
        if claim.status.allocation is None or not (key in named or _is_used(claim, uids)):
            continue
        for result in claim.status.allocation.devices.results:
            if not result.admin_access:
                allocated[result.driver, result.pool].add(result.device)
    return allocated


def _is_used(claim: ResourceClaim, uids: Mapping[str, str]) -> bool:
    """Whether it is reserved for one of the pods, given by key and uid, or belongs to one."""
    users = [(consumer.name, consumer.uid) for consumer in claim.status.reserved_for if consumer.resource == "pods"]
    users += [(owner.name, owner.uid) for owner in claim.metadata.owner_references if owner.kind == "Pod"]
    for name, uid in users:
        known = uids.get(f"{claim.namespace}/{name}")
        if known is not None and (not uid or not known or uid == known):
            return True
    return False


def pool_share(pool: DevicePool, allocated: Set[str]) -> float:
    """Return how much of a complete pool is allocated, 0 to 1.

    Devices without shared counters are counted. Of hardware that devices cut up among them, each piece, which is a
    counter set, counts as much as its scarcest counter is consumed. Where devices of both sorts are allocated, both
    shares count by how many devices and pieces there are; where only one sort is, its share alone does.
    """
    devices = list(pool.devices())
    whole = [device for device in devices if not device.uses]
    whole_taken = sum(1 for device in whole if device.name in allocated)
    cut_taken = [device for device in devices if device.uses and device.name in allocated]
    whole_share = whole_taken / len(whole) if whole else 0.0
    if not cut_taken:
        return whole_share
    pieces = len({use.counter_set for device in devices for use in device.uses})
    cut_share = _consumed(pool, cut_taken) / pieces
    if not whole_taken:
        return cut_share
    return (cut_share * pieces + whole_share * len(whole)) / (pieces + len(whole))


def _consumed(pool: DevicePool, taken: Iterable[Device]) -> float:
    """Return how many pieces of hardware, in fractions, the taken devices use up."""
    consumed: dict[tuple[str, str], int] = defaultdict(int)
    for device in taken:
        for use in device.uses:
            for name, counter in use.counters.items():
                consumed[use.counter_set, name] += counter.whole
    sets: Iterable[CounterSet] = (counter_set for part in pool.slices for counter_set in part.spec.shared_counters)
    available: dict[str, dict[str, int]] = defaultdict(lambda: defaultdict(int))
    for counter_set in sets:
        for name, counter in counter_set.counters.items():
            available[counter_set.name][name] += counter.whole
    return sum(
        max((consumed[piece, name] / total for name, total in counters.items() if total), default=0.0)
        for piece, counters in available.items()
    )
