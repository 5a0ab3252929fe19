"""A scenario as the engine uses it: kept objects, a cloud, a configuration, and changes between runs."""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import msgspec

from autoscaler.clock import Instant
from autoscaler.config.tree import Config
from autoscaler.objects.node import Node
from autoscaler.objects.pod import Pod
from autoscaler.objects.pod_interner import PodInterner
from autoscaler.objects.workload import ConfigMap
from autoscaler.ports import ExpanderAnswer
from autoscaler.snapshot.cluster import Related
from cloudprovider.interface import NodeRef
from cloudprovider.static.spec import CloudSpec, MachineSpec

MEMORY_VERSION = 1
"""Of what a recording remembers; another release may have another."""
PRIORITY_CONFIG = "cluster-autoscaler-priority-expander"
"""Name of the priority expander's ConfigMap."""
PRIORITIES = "priorities"
"""Its only key."""


FIRST_RUN_AFTER_S = 1.0
"""Seconds from a file's `now` to its first run."""


class ClusterChange(msgspec.Struct, frozen=True, kw_only=True):
    """What happens to the cluster right before a run, in the order of the fields."""

    before_run: int
    remove_pods: tuple[str, ...] = ()
    """`namespace/name`; a pod that is gone already is passed over."""
    update_nodes: tuple[Node, ...] = ()
    """Take the place of the nodes of the same name, taints included."""
    add_nodes: tuple[Node, ...] = ()
    add_machines: tuple[MachineSpec, ...] = ()
    """Machines of added nodes and instances without a node; none of them changes a target size."""
    add_pods: tuple[Pod, ...] = ()
    pauses: ConfigMap | None = None
    """Takes the place of the ConfigMap of pauses."""


class Answered(msgspec.Struct, frozen=True):
    """An answer of the gRPC expander, and the run in which it came."""

    run: int
    answer: ExpanderAnswer


class RecordedMemory(msgspec.Struct, frozen=True):
    """What a recording holds beside the cluster, not read yet but for its time: `recording.pass_file` knows the
    rest."""

    now: Instant
    content: Mapping[str, Any]


class Scenario(msgspec.Struct, frozen=True, kw_only=True):
    """A checked scenario. Times are Unix seconds."""

    name: str
    kind: str = ""
    """The file's `class`."""
    description: str = ""
    now_s: float
    """When it starts; run `i` happens `1 + i * step_s` seconds later."""
    config: Config = Config()
    cloud: CloudSpec = CloudSpec(groups=())
    nodes: tuple[Node, ...] = ()
    pods: tuple[Pod, ...] = ()
    related: Related = Related()
    runs: int = 1
    step_s: float = 10.0
    changes: tuple[ClusterChange, ...] = ()
    answers: tuple[Answered, ...] = ()
    """Stand for the gRPC expander, which is not asked offline."""
    memory: RecordedMemory | None = None
    """Of a recording only: the first run is the recorded pass, at the very moment on both clocks."""
    interner: PodInterner
    """Owns the classes of the pods; decode further pods (of templates, say) with it."""
    warnings: tuple[str, ...] = ()
    """What looks like a mistake but does no harm, one line each."""

    def run_at_s(self, run: int) -> float:
        """Return when a run happens, in Unix seconds."""
        first_s = self.now_s + FIRST_RUN_AFTER_S if self.memory is None else self.memory.now.wall
        return first_s + run * self.step_s

    def changes_before(self, run: int) -> list[ClusterChange]:
        """Return what changes right before a run."""
        return [change for change in self.changes if change.before_run == run]


def now_before(first_run_s: float) -> str:
    """Return the `now` of a file whose first run is at that Unix second."""
    return datetime.fromtimestamp(first_run_s - FIRST_RUN_AFTER_S, UTC).isoformat().replace("+00:00", "Z")


def node_ref(node: Node) -> NodeRef:
    """Return the form of a node that providers receive."""
    return NodeRef(node.name, node.provider_id, node.labels, node.annotations)


def config_maps_key(namespace: str) -> str:
    """Return the key under which `Related.config_maps` has the priority expander's ConfigMap."""
    return f"{namespace}/{PRIORITY_CONFIG}"


def machine_of(node: Node, group: str) -> MachineSpec:
    """Return the running machine behind a node of a group."""
    return MachineSpec(group=group, provider_id=node.provider_id or node.name, name=node.name)
