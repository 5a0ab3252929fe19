"""A provider over a management cluster in memory."""

from typing import Any

from cloudprovider import clusterapi
from cloudprovider.clusterapi.group import CapiGroup
from cloudprovider.interface import NodeRef, ProviderContext
from tests.fakes import capi

Json = dict[str, Any]
NOW = 1_767_614_400.0  # 2026-01-05T12:00:00Z
NOW_TEXT = "2026-01-05T12:00:00Z"


class ClusterApiWorld:
    """What a test looks at."""

    def __init__(self, *objects: Json, **context: Any) -> None:
        self.api = capi.an_api(*objects)
        self.provider = clusterapi.create(ProviderContext(**{"object_api": self.api, "now": lambda: NOW, **context}))
        self.refresh()

    def refresh(self, now: float = NOW) -> None:
        self.api.calls.clear()
        self.provider.refresh(now)

    @property
    def ids(self) -> list[str]:
        return [group.id for group in self.provider.groups()]

    @property
    def group(self) -> CapiGroup:
        return self.provider.groups()[0]

    def get(self, plural: str, name: str) -> Json:
        return next(obj for obj in self.api.objects(plural) if obj["metadata"]["name"] == name)

    def replicas(self, plural: str = capi.SETS, name: str = "web") -> int:
        return int(self.get(plural, name)["spec"]["replicas"])

    def marks(self) -> dict[str, str]:
        found = {one["metadata"]["name"]: one["metadata"]["annotations"] for one in self.api.objects(capi.MACHINES)}
        return {name: annotations[capi.DELETE] for name, annotations in found.items() if capi.DELETE in annotations}

    def instances(self) -> dict[str, tuple[str | None, str | None]]:
        """Return state and error code by id."""
        return {
            one.provider_id: (one.state, None if one.error is None else one.error.code)
            for one in self.group.instances()
        }


def a_set(replicas: int = 3, low: int = 0, high: int = 6) -> Json:
    return capi.a_group("web", low, high, replicas, "MachineSet")


def running(*names: str, owner: str = "web", kind: str = "MachineSet", **fields: Any) -> list[Json]:
    return [
        capi.a_machine(name, owner, kind=kind, provider_id=f"docker:////{name}", node=f"node-{name}", **fields)
        for name in names
    ]


def node(name: str, **labels: str) -> NodeRef:
    return NodeRef(f"node-{name}", f"docker:////{name}", labels=labels)


def three(**fields: Any) -> ClusterApiWorld:
    """A MachineSet of three running Machines: a, b and c."""
    return ClusterApiWorld(a_set(**fields), *running("a", "b", "c"))
