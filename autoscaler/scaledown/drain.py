"""Decides which pods allow a drain: an ordered list of small rules; the first that decides wins.

Behaviour as Cluster Autoscaler's `simulator/drainability`; a pod on which no rule decides is evicted.
"""

from collections.abc import Callable, Iterator, Sequence
from enum import StrEnum

import msgspec

from autoscaler.config.rules import Rules
from autoscaler.config.scaledown import Drain
from autoscaler.objects.meta import OwnerReference
from autoscaler.objects.pod import SAFE_LOCAL_VOLUMES, SAFE_TO_EVICT, Pod, PodClass
from autoscaler.objects.podspec import Volume
from autoscaler.objects.workload import Replicated
from autoscaler.reasons import BlockingReason
from autoscaler.scaledown import protection
from autoscaler.scaledown.pdb import RemainingPdbTracker
from autoscaler.scaledown.protection import Protection
from autoscaler.scaledown.running_gangs import RunningGangs, SpareMembers
from autoscaler.snapshot.cluster import Related

_SYSTEM_NAMESPACE = "kube-system"
_REPLICATING = frozenset(("ReplicationController", "Job", "ReplicaSet", "StatefulSet"))
_TERMINATION_SLACK_S = 30.0


class DrainOutcome(StrEnum):
    """What becomes of a pod when its node is removed."""

    SKIP = "skip"
    """Nothing: it does not count."""
    EVICT = "evict"
    WAIT = "wait"
    """It runs to its end first."""
    BLOCK = "block"
    """It keeps the node."""


class DrainVerdict(msgspec.Struct, frozen=True, gc=False):
    """What a rule decides; a reason where it blocks. `detail` is for people."""

    outcome: DrainOutcome
    reason: BlockingReason | None = None
    detail: str = ""


SKIP, EVICT, WAIT = DrainVerdict(DrainOutcome.SKIP), DrainVerdict(DrainOutcome.EVICT), DrainVerdict(DrainOutcome.WAIT)


class DrainContext(msgspec.Struct, frozen=True, kw_only=True):
    """What the rules look at beside the pod."""

    options: Drain
    rules: Rules
    wall: float
    """Unix seconds."""
    related: Related | None = None
    """Controllers; None: they are not looked up."""
    urgent: bool = False
    """The machine is failing or will be taken away: `do-not-disrupt` holds no pod."""
    budgets: RemainingPdbTracker = msgspec.field(default_factory=RemainingPdbTracker)
    gangs: SpareMembers = msgspec.field(default_factory=lambda: SpareMembers(RunningGangs()))

    def take(self, pods: Sequence[Pod]) -> None:
        """Charge pods that leave to their budgets and gangs."""
        self.budgets.take(pods)
        self.gangs.take(pods)


DrainRule = Callable[[Pod, DrainContext], DrainVerdict | None]
"""None: not my case."""


def _block(reason: BlockingReason, detail: str) -> DrainVerdict:
    return DrainVerdict(DrainOutcome.BLOCK, reason, detail)


def undecoded(pod: Pod, terms: DrainContext) -> DrainVerdict | None:
    """Nobody knows what would be lost with a pod that cannot be decoded."""
    if not pod.cls.undecoded:
        return None
    return _block(BlockingReason.UNDECODED, "the API server's answer about it cannot be decoded")


def mirror(pod: Pod, terms: DrainContext) -> DrainVerdict | None:
    """Pods that the kubelet made from files go and come with their node."""
    return SKIP if pod.cls.mirror else None


def long_terminating(pod: Pod, wall: float) -> bool:
    """Whether a pod should have been gone for a while: its grace period and half a minute are over."""
    return pod.deleted is not None and pod.deleted + pod.cls.grace_s + _TERMINATION_SLACK_S < wall


def overdue(pod: Pod, terms: DrainContext) -> DrainVerdict | None:
    """Pods that should have terminated by now do not count."""
    return SKIP if long_terminating(pod, terms.wall) else None


def pausing(pod: Pod, terms: DrainContext) -> DrainVerdict | None:
    """Pause pods never keep a node: those still wanted need another place, those given up need none."""
    if pod.cls.headroom is None:
        return None
    return SKIP if pod.cls.given_up else EVICT


def replica_count(pod: Pod, terms: DrainContext) -> DrainVerdict | None:
    """The controller must exist and, for ReplicaSets and ReplicationControllers, want enough replicas."""
    owner, related = pod.cls.owner, terms.related
    if not terms.options.skip_nodes_with_custom_controller_pods or owner is None or related is None:
        return None
    key = f"{pod.namespace}/{owner.name}"
    in_apps = owner.api_version.startswith("apps/")
    if owner.kind == "ReplicationController":
        return _enough(owner, related.replication_controllers.get(key), terms.options.min_replica_count)
    if pod.cls.daemonset:
        exists = not (in_apps and owner.kind == "DaemonSet") or key in related.daemon_sets
    elif owner.kind == "ReplicaSet":
        return _enough(owner, related.replica_sets.get(key), terms.options.min_replica_count)
    elif owner.kind == "Job":
        exists = key in related.jobs
    else:
        exists = not (in_apps and owner.kind == "StatefulSet") or key in related.stateful_sets
    return None if exists else _missing(owner)


def _missing(owner: OwnerReference) -> DrainVerdict:
    return _block(BlockingReason.CONTROLLER_NOT_FOUND, f"there is no {owner.kind} {owner.name}")


def _enough(owner: OwnerReference, controller: Replicated | None, fewest: int) -> DrainVerdict | None:
    if controller is None:
        return _missing(owner)
    replicas = controller.spec.replicas
    if replicas is None or replicas >= fewest:
        return None
    return _block(
        BlockingReason.MIN_REPLICAS, f"{owner.kind} {owner.name} has {replicas} replicas, fewer than {fewest}"
    )


def daemonset(pod: Pod, terms: DrainContext) -> DrainVerdict | None:
    """DaemonSet pods are evicted at best effort and need no other place."""
    return EVICT if pod.cls.daemonset else None


def safe_to_evict(pod: Pod, terms: DrainContext) -> DrainVerdict | None:
    """Its annotation says that it may go; the rules below do not matter."""
    return EVICT if pod.cls.annotations.get(SAFE_TO_EVICT) == "true" else None


def terminal(pod: Pod, terms: DrainContext) -> DrainVerdict | None:
    """A pod that has run to its end, and will not be restarted, may go."""
    policy = pod.cls.restart_policy
    ended = pod.phase == "Failed" or (pod.phase == "Succeeded" and policy in ("Never", "OnFailure"))
    return EVICT if ended else None


def on_completion(pod: Pod, terms: DrainContext) -> DrainVerdict | None:
    """Its annotation says that it may go once it has run to its end."""
    waits = terms.rules.on_completion_pods and pod.cls.annotations.get(SAFE_TO_EVICT) == "on-completion"
    return WAIT if waits else None


def replicated(pod: Pod, terms: DrainContext) -> DrainVerdict | None:
    """A controller must recreate the pod elsewhere."""
    owner = pod.cls.owner
    if owner is None:
        return _block(BlockingReason.NOT_REPLICATED, "no controller would make the pod again")
    if terms.options.skip_nodes_with_custom_controller_pods and owner.kind not in _REPLICATING:
        return _block(
            BlockingReason.NOT_REPLICATED, f"controllers of kind {owner.kind} are not trusted to make pods again"
        )
    return None


def system(pod: Pod, terms: DrainContext) -> DrainVerdict | None:
    """System pods that no budget protects stay, for a while or for ever."""
    if not terms.options.skip_nodes_with_system_pods or not _unprotected_system(pod.cls, terms.budgets):
        return None
    patience_s = terms.options.blocking_system_pod_distruption_timeout_s
    if not terms.rules.system_pods_block_forever and 0 < pod.created < terms.wall - patience_s:
        return EVICT
    return _block(BlockingReason.SYSTEM, f"a pod of {_SYSTEM_NAMESPACE} without a disruption budget")


def _unprotected_system(cls: PodClass, budgets: RemainingPdbTracker) -> bool:
    return cls.namespace == _SYSTEM_NAMESPACE and not budgets.protect(cls)


def not_safe_to_evict(pod: Pod, terms: DrainContext) -> DrainVerdict | None:
    """Its annotation says that it stays."""
    stated = protection.not_safe_to_evict(pod.cls, timed=terms.rules.do_not_disrupt_counts)
    return _unless_over(pod, stated, BlockingReason.NOT_SAFE_TO_EVICT, terms)


def not_to_be_disrupted(pod: Pod, terms: DrainContext) -> DrainVerdict | None:
    """Its annotation, or that of its namespace, says that it stays. Nothing holds a pod that ends already."""
    if terms.urgent or not terms.rules.do_not_disrupt_counts or pod.deleted is not None or pod.finished:
        return None
    stated = protection.do_not_disrupt(pod.cls, {} if terms.related is None else terms.related.namespaces)
    return _unless_over(pod, stated, BlockingReason.DO_NOT_DISRUPT, terms)


def _unless_over(
    pod: Pod, stated: Protection | None, reason: BlockingReason, terms: DrainContext
) -> DrainVerdict | None:
    limit_s = terms.options.do_not_disrupt_limit_s
    if stated is None:
        return None
    until = stated.until(pod, limit_s)
    return _block(reason, stated.detail(pod, limit_s)) if until is None or until > terms.wall else None


def local_storage(pod: Pod, terms: DrainContext) -> DrainVerdict | None:
    """Data on the node's disk would be lost, unless an annotation names the volume."""
    if not terms.options.skip_nodes_with_local_storage:
        return None
    harmless = frozenset(pod.cls.annotations.get(SAFE_LOCAL_VOLUMES, "").split(","))
    name = next((name for name in local_volumes(pod.cls) if name not in harmless), None)
    return None if name is None else _block(BlockingReason.LOCAL_STORAGE, f"volume {name} is on the node's disk")


def local_volumes(cls: PodClass) -> tuple[str, ...]:
    """Return the names of the volumes that are on the node's disk."""
    return tuple(volume.name for volume in cls.volumes if _is_local(volume))


def _is_local(volume: Volume) -> bool:
    if volume.host_path is not None:
        return True
    return volume.empty_dir is not None and volume.empty_dir.medium != "Memory"


def in_gang(pod: Pod, terms: DrainContext) -> DrainVerdict | None:
    """A gang that runs would stop below its minimum, and its pods would have to start together again."""
    why = terms.gangs.too_few_without(pod)
    return _block(BlockingReason.GANG, why) if why else None


def budget_spent(pod: Pod, terms: DrainContext) -> DrainVerdict | None:
    """A disruption budget allows no further eviction."""
    budget = terms.budgets.spent(pod.cls)
    return None if budget is None else _block(BlockingReason.BUDGET, f"budget {budget.key} allows no more disruptions")


RULES: tuple[DrainRule, ...] = (
    undecoded,
    mirror,
    overdue,
    pausing,
    not_to_be_disrupted,
    replica_count,
    daemonset,
    safe_to_evict,
    terminal,
    on_completion,
    replicated,
    system,
    not_safe_to_evict,
    local_storage,
    in_gang,
    budget_spent,
)
_LASTING: tuple[DrainRule, ...] = RULES[:-2]
"""Rules whose answer holds for the whole pass: the last two change with every planned removal."""


def judge(pod: Pod, terms: DrainContext, rules: Sequence[DrainRule] = RULES) -> DrainVerdict:
    """Return what becomes of a pod."""
    return _decide(pod, terms, rules) or EVICT


def _decide(pod: Pod, terms: DrainContext, rules: Sequence[DrainRule]) -> DrainVerdict | None:
    for rule in rules:
        verdict = rule(pod, terms)
        if verdict is not None:
            return verdict
    return None


def blocks(pod: Pod, terms: DrainContext) -> Iterator[DrainVerdict]:
    """Yield what every rule has against the pod's leaving, up to the one that lets it go."""
    for rule in RULES:
        verdict = rule(pod, terms)
        if verdict is None:
            continue
        if verdict.outcome is not DrainOutcome.BLOCK:
            return
        yield verdict


class DrainJudge:
    """`judge` for many pods: pods of one class that differ in nothing the rules read are judged once."""

    def __init__(self, terms: DrainContext) -> None:
        self.terms = terms
        self._lasting: dict[PodClass, DrainVerdict | None] = {}

    def judge(self, pod: Pod) -> DrainVerdict:
        """Return what becomes of a pod, as budgets stand now."""
        cls = pod.cls
        if cls in self._lasting and pod.deleted is None and not pod.finished:
            lasting = self._lasting[cls]
        else:
            lasting = _decide(pod, self.terms, _LASTING)
            if self._typical(pod):
                self._lasting[cls] = lasting
        return lasting or in_gang(pod, self.terms) or budget_spent(pod, self.terms) or EVICT

    def _typical(self, pod: Pod) -> bool:
        """Whether rules read nothing of the pod but its class."""
        if pod.deleted is not None or pod.finished:
            return False
        namespaces = {} if self.terms.related is None else self.terms.related.namespaces
        if next(protection.stated(pod.cls, namespaces), None) is not None:
            return False
        ages = not self.terms.rules.system_pods_block_forever
        return not (ages and pod.cls.namespace == _SYSTEM_NAMESPACE)


def without_budgets(judge_pod: Callable[[Pod], DrainVerdict]) -> Callable[[Pod], DrainVerdict]:
    """Return the same judge, except that spent disruption budgets keep no pod."""

    def judged(pod: Pod) -> DrainVerdict:
        verdict = judge_pod(pod)
        return EVICT if verdict.reason is BlockingReason.BUDGET else verdict

    return judged


class NodeDrain(msgspec.Struct, frozen=True):
    """What becomes of the pods of a node that is removed."""

    move: tuple[Pod, ...] = ()
    """They need another place."""
    daemons: tuple[Pod, ...] = ()
    """Evicted at best effort; they need none."""
    wait_for: tuple[Pod, ...] = ()
    """The node may go when these have run to their end."""


class BlockingPod(msgspec.Struct, frozen=True):
    """The first pod that keeps its node."""

    pod: Pod
    verdict: DrainVerdict


def departure(pods: Sequence[Pod], judge_pod: Callable[[Pod], DrainVerdict]) -> NodeDrain | BlockingPod:
    """Return what becomes of a node's pods, or which one keeps it."""
    move: list[Pod] = []
    daemons: list[Pod] = []
    wait_for: list[Pod] = []
    for pod in pods:
        verdict = judge_pod(pod)
        match verdict.outcome:
            case DrainOutcome.BLOCK:
                return BlockingPod(pod, verdict)
            case DrainOutcome.EVICT:
                (daemons if pod.cls.daemonset else move).append(pod)
            case DrainOutcome.WAIT:
                wait_for.append(pod)
            case DrainOutcome.SKIP:
                pass
    return NodeDrain(tuple(move), tuple(daemons), tuple(wait_for))


def judge_at_end(pod: Pod, terms: DrainContext) -> DrainVerdict:
    """Return what becomes of a pod whose machine leaves: what would keep the node now loses the pod."""
    return judge(pod, terms, _AT_END)


_AT_END: tuple[DrainRule, ...] = (mirror, overdue, pausing, daemonset)


def lingers(pod: Pod, terms: DrainContext) -> DrainVerdict | None:
    """Return how a pod leaves that does not stop its node from counting as empty; None for any other pod.

    Neither controllers nor budgets matter here: mirror, overdue and DaemonSet pods, and those that are waited for.
    """
    verdict = _decide(pod, terms, _OF_NO_WEIGHT)
    if verdict is None or (verdict.outcome is DrainOutcome.EVICT and not pod.cls.daemonset):
        return None
    return verdict


_OF_NO_WEIGHT: tuple[DrainRule, ...] = (
    undecoded,
    mirror,
    overdue,
    pausing,
    daemonset,
    safe_to_evict,
    terminal,
    on_completion,
)
