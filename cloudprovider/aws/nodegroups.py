"""EKS managed node groups: labels and taints of their nodes, which the Auto Scaling group need not repeat."""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from cloudprovider.aws.api import AwsApi
from cloudprovider.aws.expiring import Expiring, ServicePause
from cloudprovider.interface import ProviderError, TaintSpec, Throttled, Transient

_NAME, _CLUSTER = "eks:nodegroup-name", "eks:cluster-name"
_EMPTY_S, _USED_S = 6 * 60.0, 60 * 60.0
_EFFECTS = {
    "NO_SCHEDULE": "NoSchedule",
    "NO_EXECUTE": "NoExecute",
    "PREFER_NO_SCHEDULE": "PreferNoSchedule",
}


class Nodegroup(msgspec.Struct, frozen=True):
    """What a managed node group sets on its nodes."""

    labels: Mapping[str, str] = {}
    taints: Sequence[TaintSpec] = ()
    tags: Mapping[str, str] = {}
    os: str = "linux"


class Nodegroups:
    """Caches answers: for 6 minutes while a group is empty, for an hour while it has nodes."""

    def __init__(self, api: AwsApi) -> None:
        self._api = api
        self._known: Expiring[Nodegroup | ProviderError] = Expiring()
        self._rest = ServicePause()

    def of(self, tags: Mapping[str, str], empty: bool, now: float) -> Nodegroup | ProviderError | None:
        """Return the node group that an Auto Scaling group's tags name, or the error; None if they name no group.

        A refusal is cached like an answer. An unreachable service is not asked again within a minute.
        """
        cluster, name = tags.get(_CLUSTER), tags.get(_NAME)
        if not cluster or not name:
            return None
        key = (cluster, name, empty)
        known = self._known.get(key, now)
        if known is not None:
            return known
        nodegroup = self._rest.attempt(lambda: _read(self._api.nodegroup(cluster, name), name), now)
        if isinstance(nodegroup, Transient | Throttled):
            return nodegroup
        self._known.put(key, nodegroup, now, _EMPTY_S if empty else _USED_S)
        return nodegroup


def _read(data: Mapping[str, Any], name: str) -> Nodegroup:
    labels = {"eks.amazonaws.com/nodegroup": name}
    if data.get("capacityType"):
        labels["eks.amazonaws.com/capacityType"] = str(data["capacityType"])
    labels |= {str(key): str(value) for key, value in (data.get("labels") or {}).items()}
    taints = tuple(
        TaintSpec(str(taint["key"]), str(taint.get("value") or ""), _EFFECTS[taint["effect"]])
        for taint in data.get("taints") or ()
        if taint.get("key") and taint.get("effect") in _EFFECTS
    )
    windows = str(data.get("amiType") or "").startswith("WINDOWS")
    return Nodegroup(labels, taints, data.get("tags") or {}, "windows" if windows else "linux")
