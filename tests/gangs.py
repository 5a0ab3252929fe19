"""Worlds with gangs, and what one pass does in them."""

import json
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from autoscaler.scenario.codec import decode
from autoscaler.simulator.answer import RunAnswer
from autoscaler.simulator.play import play_and_advise
from tests.manifests import Json, a_group, a_pod, a_template, named

ZONE = "topology.kubernetes.io/zone"
RACK = "example.com/rack"


def members(gang: str, count: int, cpu: str = "4", first: int = 0, **fields: Any) -> list[Json]:
    """Return pods of a gang, as Kubernetes 1.36 marks them."""
    mark = {"schedulingGroup": {"podGroupName": gang}} if gang else {}
    owner = {"owner": f"Job/{gang or 'plain'}", "labels": {}}
    return [a_pod(f"{gang or 'plain'}-{n}", cpu, **{**owner, **mark, **fields}) for n in range(first, first + count)]


def minimum(gang: str, count: int) -> Json:
    """Return the PodGroup that states a gang's minimum."""
    return named(gang, schedulingPolicy={"gang": {"minCount": count}})


def a_small_group(name: str, most: int, cpu: str = "4", **fields: Any) -> Json:
    return a_group(name, a_template(cpu), maxSize=most, **fields)


class Outcome(NamedTuple):
    """What a pass buys, by group, and what it says about pods that get nothing."""

    bought: dict[str, int]
    told: set[tuple[str, str]]


def outcome(run: RunAnswer) -> Outcome:
    held = {(pods.reason, pods.detail) for pods in run.reasons.held}
    return Outcome({change.group: change.increase for change in run.scale_ups}, held)


def passed(document: Mapping[str, Any]) -> RunAnswer:
    return played(document)[-1]


def played(document: Mapping[str, Any]) -> Sequence[RunAnswer]:
    return play_and_advise(decode(json.dumps(document).encode(), "gangs")).runs


def a_pass(
    groups: Sequence[Json], pods: Sequence[Json], *, options: Mapping[str, str] | None = None, **fields: Any
) -> RunAnswer:
    return runs(groups, pods, fields.pop("runs", 1), options=options, **fields)[-1]


def runs(
    groups: Sequence[Json], pods: Sequence[Json], count: int, *, options: Mapping[str, str] | None = None, **fields: Any
) -> Sequence[RunAnswer]:
    """Return so many passes over one cluster."""
    return played(
        {
            "now": "2026-01-05T12:00:00Z",
            "options": {"expander": "least-waste", **(options or {})},
            "nodeGroups": list(groups),
            "pods": list(pods),
            "runs": count,
            **fields,
        }
    )


def too_large(gang: str, wanted: int, possible: int) -> tuple[str, str]:
    return "GangDoesNotFit", f"gang default/{gang}: {wanted} wanted, {possible} possible"


def incomplete(gang: str, wanted: int, present: int) -> tuple[str, str]:
    return "GangAwaitsPods", f"gang default/{gang}: {wanted} wanted, {present} exist and ask for a node"


class World(NamedTuple):
    name: str
    groups: Sequence[Json]
    pods: Sequence[Json]
    bought: dict[str, int]
    told: Sequence[tuple[str, str]] = ()
    fields: Json = {}
    options: Mapping[str, str] = {}


def in_zone(group: str, most: int, zone: str | None = None, key: str = ZONE, cpu: str = "4") -> Json:
    return a_group(group, a_template(cpu, labels={key: zone or group}), maxSize=most)


def together(gang: str, count: int, key: str = ZONE) -> Json:
    """Return the PodGroup of a gang whose nodes share a label."""
    policy = {"gang": {"minCount": count}}
    return {"podGroups": [named(gang, schedulingPolicy=policy, schedulingConstraints={"topology": [{"key": key}]})]}
