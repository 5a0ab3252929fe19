"""Computes how long before a window its capacity has to be requested, so that it is ready when the window begins.

The next boot is a draw that no sample has seen. The next draw exceeds the longest of n samples with chance 1/(n+1), for
every distribution. With the 50 samples of a ring, this is 2 in 100. That is too often, because 99 of 100 windows should
be served, and no rank of the samples does better. So the longest sample is stretched by a multiple of the mean excess
over the shortest; the multiple makes the chance exact for draws with an exponential tail. Distributions with a shorter
tail (uniform, normal) exceed the result less often. Distributions with a longer tail exceed it more often, as do boots
unlike any of the past seven days. The chances of boot, bind and start add up to 1 in 100.
"""

import math
from collections.abc import Collection, Mapping, Sequence
from functools import cache
from itertools import chain

import msgspec

from autoscaler.eta.estimate import LoopIntervals
from autoscaler.eta.placements import suits
from autoscaler.eta.samples import BIND, COLD_START, FEWEST, Knowledge
from autoscaler.objects.pod import PodClass
from autoscaler.reasons import LeadBasis
from autoscaler.snapshot.template import Template

_LATE_BOOT, _LATE_BIND, _LATE_START = 0.008, 0.001, 0.001
"""Chances that each part takes longer than the lead allows."""
_PASSES = 3
"""The first pass buys nodes, the second learns that the group has no machines, the third buys nodes of another group.
"""
_BESIDE_BOOT_S = 300.0
"""Maximum seconds in a lead for everything but the boot."""


class Lead(msgspec.Struct, frozen=True, kw_only=True):
    """How long before a window its capacity is requested."""

    seconds: float = 0.0
    basis: LeadBasis = LeadBasis.NOTHING_LEARNED
    group: str = ""
    """The group whose boots determine the lead; empty for the boots of all groups, or if nothing is learned."""
    samples: int = 0
    """The number of these boots."""
    terms: Mapping[str, float] = {}
    """The parts of the sum in seconds, before the maximum applies."""


NO_LEAD = Lead()


def longest_lead_s(times: LoopIntervals) -> float:
    """Return the longest lead that can be learned."""
    return times.max_provision_s + _BESIDE_BOOT_S


class Ahead(msgspec.Struct, frozen=True, kw_only=True):
    """What happens in a window before its nodes are requested, and after they are ready."""

    asks_s: float = 0.0
    """Maximum seconds from the beginning of the lead until a pass sees the demand."""
    workload: str | None = None
    """Key of the pods that have to run on the nodes when the window begins; None if ready nodes are enough."""


def configured_lead(seconds: float) -> Lead:
    """Return the lead that the configuration sets."""
    return Lead(seconds=seconds, basis=LeadBasis.CONFIGURED)


def learned_lead(knowledge: Knowledge, groups: Collection[str], ahead: Ahead, times: LoopIntervals) -> Lead:
    """Return the lead from samples of boots, binds and starts; `NO_LEAD` if there are too few boots.

    `groups` are the groups that can take the pods. The slowest of them counts; if too little is known about one of
    them, all groups count together.
    """
    known = {group: boots for group in sorted(groups) if len(boots := knowledge.boots.get(group, ())) >= FEWEST}
    if not known and len(pooled := knowledge.pooled_boots) >= FEWEST:
        known = {"": pooled}
    if not known:
        return NO_LEAD
    bounds = {group: unlikely(boots, _LATE_BOOT) for group, boots in known.items()}
    group = max(bounds, key=lambda candidate: bounds[candidate])
    terms = {"ask": ahead.asks_s, "passes": _PASSES * times.scan_s, "boot": min(bounds[group], times.max_provision_s)}
    if ahead.workload is not None:
        bind, start = knowledge.binding(), knowledge.start(ahead.workload, group or None, cold=True)
        terms["bind"] = unlikely(bind.samples, _LATE_BIND) if bind.samples else BIND.worst
        terms["start"] = unlikely(start.samples, _LATE_START) if start.samples else COLD_START.worst
    return Lead(
        seconds=float(math.ceil(min(sum(terms.values()), longest_lead_s(times)))),
        basis=LeadBasis.LEARNED,
        group=group,
        samples=len(known[group]),
        terms={name: round(seconds, 1) for name, seconds in terms.items()},
    )


def suitable(cls: PodClass | None, templates: Mapping[str, Template]) -> tuple[str, ...]:
    """Return the groups whose nodes would take a pod of the class; none if the class is unknown."""
    return () if cls is None else tuple(group for group, template in templates.items() if suits(cls, template))


def unlikely(ordered: Sequence[float], chance: float) -> float:
    """Return the value that the next of at least two sorted samples exceeds with no more than that chance."""
    count = len(ordered)
    excess = sum(sample - ordered[0] for sample in ordered) / (count - 1)
    return ordered[-1] + excess * _stretch(count, chance)


@cache
def _stretch(count: int, chance: float) -> float:
    """Return the stretch of the longest of `count` samples, as a multiple of the mean excess over the shortest.

    The gaps between sorted exponential draws are independent, whatever their origin. So the chance of an excess has a
    closed form, which falls with the stretch.
    """
    least, most = 0.0, 1.0
    if _exceeded(count, least) <= chance:
        return least
    while _exceeded(count, most) > chance:
        least, most = most, 2 * most
    while most - least > 1e-6:
        middle = (least + most) / 2
        least, most = (middle, most) if _exceeded(count, middle) > chance else (least, middle)
    return most


def _exceeded(count: int, stretch: float) -> float:
    """Return the chance that the next exponential draw exceeds the longest of `count` samples with that stretch."""
    others = count - 1
    logs = (math.log1p(1 / rank + stretch / others) for rank in range(1, count))
    return math.exp(math.fsum(chain((math.log(count / (count + 1)),), (-logarithm for logarithm in logs))))
