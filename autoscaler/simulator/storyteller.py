"""Tells a story in a sandbox cluster: one act follows the other, and lines of text report what happens in between."""

import textwrap
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

import msgspec

from autoscaler.objects.meta import JsonObject
from autoscaler.objects.node import TO_BE_DELETED
from autoscaler.sandbox.actors.wire import condition, holds
from autoscaler.sandbox.apiserver.storage import Storage
from autoscaler.sandbox.cluster import SandboxCluster
from cloudprovider.static.cloud import StaticCloud
from cloudprovider.static.spec import CloudSpec

NOT_TRIGGERED = "NotTriggerScaleUp"
"""Reason of the event on a pod that no node group helps."""
_WIDTH = 80
_MARGIN = 8
"""Width of the column of elapsed seconds, including the gap before the text."""

Say = Callable[[str], object]
Explain = Callable[[str], str | None]
"""Returns the autoscaler's advice for a pending pod (`namespace/name`); None while there is none."""


class Command(msgspec.Struct, frozen=True):
    """A command for the user to type, and the same action for the demo."""

    text: str
    do: Callable[[Storage], object]


class Scene(msgspec.Struct, frozen=True, kw_only=True):
    """A cluster and its cloud at one moment."""

    unschedulable: int
    """Pods for which the scheduler found no room."""
    pending: int
    running: int
    machines: Mapping[str, int]
    """Target size of each group."""
    ready_nodes: frozenset[str]
    drained: frozenset[str]
    """Nodes that the autoscaler has begun to remove."""
    ready_pods: Mapping[str, int]
    """Ready pods of each Deployment, by name."""
    settled: bool
    """Whether every pod of every workload runs or has completed."""

    @property
    def nodes_match(self) -> bool:
        """Whether the number of ready nodes equals the number of wanted machines."""
        return len(self.ready_nodes) == sum(self.machines.values())


class Act(msgspec.Struct, frozen=True, kw_only=True):
    """A part of a story."""

    says: str
    """`{took}` becomes the number of seconds that the previous act took."""
    does: Callable[[StaticCloud], object] | None = None
    """The action on the cloud at the beginning of the act."""
    explains: Sequence[str] = ()
    """The act ends only after the pending pods of these apps are explained."""
    commands: Sequence[Command] = ()
    """Commands for the user; without a user, the demo runs them."""
    until: Callable[[Scene, Scene], bool]
    """Whether the act has ended, given the scene at its beginning and the present one."""


class Story(msgspec.Struct, frozen=True, kw_only=True):
    """A story: a cloud, a workload, and acts."""

    help: str
    cloud: CloudSpec
    objects: Sequence[JsonObject]
    acts: Sequence[Act]
    more: Sequence[str] = ()
    """Commands that the user may try at the end."""
    document: str = ""
    """The text of a configuration file."""


class Storyteller:
    """Follows one story. Call `look` again and again; it reports what is new.

    With `attended`, acts that ask the user to type something wait for the user.
    """

    def __init__(
        self, story: Story, cluster: SandboxCluster, cloud: StaticCloud, explain: Explain, say: Say, *, attended: bool
    ) -> None:
        self._cluster = cluster
        self._cloud = cloud
        self._explain = explain
        self._say = say
        self._attended = attended
        self._acts = iter(story.acts)
        self._act: Act | None = None
        self._began_at = 0.0
        self._last = ""
        self._unexplained: list[str] = []
        self.scene = self._first = msgspec.structs.replace(scene_of(cluster, cloud), unschedulable=0, settled=False)
        self.ended = False
        """Whether the last act has ended."""
        self.nodes_bought = 0
        self.nodes_removed = 0

    def look(self, elapsed_s: float) -> None:
        """Report what has changed, and begin the next act if one has ended."""
        before, self.scene = self.scene, scene_of(self._cluster, self._cloud)
        self.nodes_bought += len(self.scene.ready_nodes - before.ready_nodes)
        self.nodes_removed += len(before.ready_nodes - self.scene.ready_nodes)
        for text in changes(before, self.scene):
            self._tell(elapsed_s, text)
        if self._act is None:
            self._next(elapsed_s)
        self._advise(elapsed_s)
        while self._act is not None and not self._unexplained and self._act.until(self._first, self.scene):
            self._next(elapsed_s)

    def _next(self, elapsed_s: float) -> None:
        if self.ended:
            return
        took_s, self._began_at, self._first = elapsed_s - self._began_at, elapsed_s, self.scene
        self._act = next(self._acts, None)
        if self._act is None:
            self.ended = True
            return
        self._tell(elapsed_s, self._act.says.format(took=f"{took_s:.0f}"))
        self._unexplained = list(self._act.explains)
        if self._act.does is not None:
            self._act.does(self._cloud)
        if self._act.commands:
            self._say(shown([command.text for command in self._act.commands]))
        if not self._attended:
            for command in self._act.commands:
                command.do(self._cluster.storage)

    def _advise(self, elapsed_s: float) -> None:
        """Show the advice for the act's pods after an event has said that they are stuck."""
        for app in tuple(self._unexplained):
            pod = next(filter(self._is_stuck, self._cluster.storage.list("pods", label_selector=f"app={app}")), None)
            key = "" if pod is None else f"{pod['metadata']['namespace']}/{pod['metadata']['name']}"
            if key and (advice := self._explain(key)) is not None:
                self._unexplained.remove(app)
                self._tell(elapsed_s, f"autoscaler explain pod/{key}: {advice}")

    def _is_stuck(self, pod: JsonObject) -> bool:
        """Whether an event says that the autoscaler cannot help the pod."""
        selector = f"involvedObject.uid={pod['metadata']['uid']},reason={NOT_TRIGGERED}"
        return bool(self._cluster.storage.list("events", field_selector=selector))

    def _tell(self, elapsed_s: float, text: str) -> None:
        """Print a line unless it equals the last one."""
        if text == self._last:
            return
        self._last = text
        head = f"{elapsed_s:4.0f} s  "
        self._say(textwrap.fill(text, _WIDTH, initial_indent=head, subsequent_indent=" " * _MARGIN))


def shown(commands: Iterable[str]) -> str:
    """Return commands to copy, set apart from the lines around them."""
    return "\n" + "".join(textwrap.indent(command, "  ") + "\n" for command in commands)


def changes(before: Scene, now: Scene) -> Iterator[str]:
    """Yield the notable changes between two scenes."""
    if now.unschedulable > before.unschedulable:
        yield f"{counted(now.unschedulable, 'pod')} without room"
    bought = Counter(now.machines) - Counter(before.machines)
    returned = Counter(before.machines) - Counter(now.machines)
    if bought:
        yield "buys " + ", ".join(f"{count} {group}" for group, count in sorted(bought.items()))
    if drained := sorted(now.drained - before.drained):
        yield f"drains {', '.join(drained)}"
    if returned:
        yield "gives back " + ", ".join(f"{count} {group}" for group, count in sorted(returned.items()))
    if came := sorted(now.ready_nodes - before.ready_nodes):
        yield f"ready: {', '.join(came)}"
    if went := sorted(before.ready_nodes - now.ready_nodes):
        yield f"gone: {', '.join(went)}"
    if now.settled and not before.settled:
        yield f"all {counted(now.running, 'pod')} run on {counted(len(now.ready_nodes), 'node')}"


def counted(count: int, noun: str) -> str:
    """Return a number of things in words."""
    return f"{count} {noun}{'' if count == 1 else 's'}"


def scene_of(cluster: SandboxCluster, cloud: StaticCloud) -> Scene:
    """Return the present scene."""
    storage, counts = cluster.storage, cluster.counts()
    nodes, waiting = storage.list("nodes"), storage.list("pods", field_selector="spec.nodeName=")
    return Scene(
        unschedulable=sum(_is_unschedulable(pod) for pod in waiting),
        pending=counts.pending,
        running=counts.pods.get("Running", 0),
        machines={group.id: group.target_size() for group in cloud.groups()},
        ready_nodes=frozenset(node["metadata"]["name"] for node in nodes if holds(node, "Ready")),
        drained=frozenset(node["metadata"]["name"] for node in nodes if _is_drained(node)),
        ready_pods={
            workload["metadata"]["name"]: (workload.get("status") or {}).get("readyReplicas", 0)
            for workload in storage.list("deployments.apps")
        },
        settled=counts.pending == 0 and _all_ready(cluster),
    )


def _is_unschedulable(pod: JsonObject) -> bool:
    return (condition(pod, "PodScheduled") or {}).get("reason") == "Unschedulable"


def _is_drained(node: JsonObject) -> bool:
    return any(taint["key"] == TO_BE_DELETED for taint in node["spec"].get("taints") or ())


def _all_ready(cluster: SandboxCluster) -> bool:
    """Whether every controller has as many ready pods as it wants."""
    storage = cluster.storage
    for workload in storage.list("deployments.apps"):
        if workload.get("status", {}).get("readyReplicas", 0) < workload["spec"].get("replicas", 1):
            return False
    for workload in storage.list("daemonsets.apps"):
        status = workload.get("status", {})
        if not 0 < status.get("desiredNumberScheduled", 0) <= status.get("numberReady", 0):
            return False
    for job in storage.list("jobs.batch"):
        status = job.get("status", {})
        if status.get("ready", 0) + status.get("succeeded", 0) < 1:
            return False
    return True
