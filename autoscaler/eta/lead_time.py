"""Computes how long before a window its capacity has to be requested, so that it is ready when the window begins.

Capacity is asked for once, and the next boot is a draw that no sample has seen. Of n samples the longest is exceeded by
the next draw with chance 1/(n+1), however they are spread: with the 50 of a ring that is 2 in 100, too many where
99 of 100 are promised, and no rank of them does better. So the longest is stretched: by as many times the mean excess
over the shortest as makes the chance exact for draws with an exponential tail. Tails that end or fall faster (an even
spread, a bell) are exceeded less often; tails that fall more slowly, more often, and so are boots unlike any of the
past seven days. The chances of boot, bind and start add up to 1 in 100.
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
"""Chances that each part takes longer than the lead has room for."""
_PASSES = 3
"""One that buys; one that learns that the group has no machines; one that buys of another."""
_BESIDE_BOOT_S = 300.0
"""Most that a lead has room for beside a boot."""


class Lead(msgspec.Struct, frozen=True, kw_only=True):
    """How long before a window its capacity is asked for."""

    seconds: float = 0.0
    basis: LeadBasis = LeadBasis.NOTHING_LEARNED
    group: str = ""
    """Whose boots decide; empty: those of all groups, or nothing is learned."""
    samples: int = 0
    """How many boots that is."""
    terms: Mapping[str, float] = {}
    """Seconds that it is the sum of, part by part, before the most that it may be."""


NO_LEAD = Lead()


def longest_lead_s(times: LoopIntervals) -> float:
    """Return the longest lead that is ever learned."""
    return times.max_provision_s + _BESIDE_BOOT_S


class Ahead(msgspec.Struct, frozen=True, kw_only=True):
    """What a window does before its nodes are asked for, and what it does with them."""

    asks_s: float = 0.0
    """From the lead's beginning until a pass can see what is wanted, at most."""
    workload: str | None = None
    """Key of the pods that are to run on the nodes when the window begins; None: nodes that are Ready are enough."""


def configured_lead(seconds: float) -> Lead:
    """Return the lead that the configuration sets."""
    return Lead(seconds=seconds, basis=LeadBasis.CONFIGURED)


def learned_lead(knowledge: Knowledge, groups: Collection[str], ahead: Ahead, times: LoopIntervals) -> Lead:
    """Return the lead by what is known of boots, binds and starts; `NO_LEAD` where too few boots are.

    `groups` are those on whose nodes the pods can go: the slowest of them counts, and all groups together where too
    little is known of each of those.
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
    """Return the groups whose nodes would take a pod of the class; none where the class is not known."""
    return () if cls is None else tuple(group for group, template in templates.items() if suits(cls, template))


def unlikely(ordered: Sequence[float], chance: float) -> float:
    """Return what the next of at least two sorted samples exceeds with no more than that chance."""
    count = len(ordered)
    excess = sum(sample - ordered[0] for sample in ordered) / (count - 1)
    return ordered[-1] + excess * _stretch(count, chance)


@cache
def _stretch(count: int, chance: float) -> float:
    """Return by how many mean excesses over the shortest of `count` samples the longest is to be stretched.

    Of exponential draws from an unknown zero the gaps in their order are independent, so that the chance of an excess
    has a closed form, which falls with the stretch.
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
    """Return the chance that the next exponential draw exceeds the longest of `count`, stretched so far."""
    others = count - 1
    logs = (math.log1p(1 / rank + stretch / others) for rank in range(1, count))
    return math.exp(math.fsum(chain((math.log(count / (count + 1)),), (-logarithm for logarithm in logs))))
