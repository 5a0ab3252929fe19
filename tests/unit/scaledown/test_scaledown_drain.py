import msgspec
import pytest

from autoscaler.config.rules import Rules
from autoscaler.config.scaledown import Drain
from autoscaler.objects.pod import MIRROR, SAFE_LOCAL_VOLUMES, SAFE_TO_EVICT, Pod
from autoscaler.objects.workload import DaemonSet, Job, Replicated, plain_decoder
from autoscaler.reasons import BlockingReason
from autoscaler.scaledown.drain import (
    RULES,
    BlockingPod,
    DrainContext,
    DrainJudge,
    DrainOutcome,
    NodeDrain,
    departure,
    judge,
    lingers,
    long_terminating,
)
from autoscaler.scaledown.pdb import RemainingPdbTracker
from autoscaler.snapshot.cluster import Related
from tests.builders import Json, a_budget, a_pod, pod_decoder
from tests.unit.scaledown.pieces import NEW, NOW, OLD

STRICT = Drain()
SAFE, UNSAFE, WAITS = ({SAFE_TO_EVICT: word} for word in ("true", "false", "on-completion"))
HOST_PATH: Json = {"name": "data", "hostPath": {}}
SCRATCH: Json = {"name": "scratch", "emptyDir": {}}
IN_MEMORY: Json = {"name": "memory", "emptyDir": {"medium": "Memory"}}


def replicated(kind: str, name: str, replicas: int | None) -> dict[str, Replicated]:
    spec = {} if replicas is None else {"replicas": replicas}
    return {f"default/{name}": plain_decoder(Replicated).one({"metadata": {"name": name}, "spec": spec})}


def known(*, replicas: int | None = 3) -> Related:
    """A cluster that has one controller `web` of each kind, in namespace default."""
    meta = {"metadata": {"name": "web", "namespace": "default"}}
    return Related(
        replica_sets=replicated("ReplicaSet", "web", replicas),
        replication_controllers=replicated("ReplicationController", "web", replicas),
        stateful_sets=replicated("StatefulSet", "web", replicas),
        jobs={"default/web": plain_decoder(Job).one(meta)},
        daemon_sets={"default/web": plain_decoder(DaemonSet).one(meta)},
    )


def owned(kind: str, api: str = "apps/v1", name: str = "web", **more: str) -> Pod:
    """A pod with a controller of this kind; `more` are annotations, `_` for what they cannot spell."""
    reference = {"kind": kind, "name": name, "uid": "u", "controller": True, "apiVersion": api}
    annotations = {key.replace("_", "-"): value for key, value in more.items()}
    meta = {"name": "pod", "namespace": "default", "ownerReferences": [reference], "annotations": annotations}
    return pod_decoder().one({"metadata": meta, "spec": {"nodeName": "n", "containers": [{"name": "c"}]}})


def terms(
    options: Drain = STRICT,
    rules: Rules = NEW,
    related: Related | None = None,
    budgets: RemainingPdbTracker | None = None,
) -> DrainContext:
    return DrainContext(
        options=options, rules=rules, wall=NOW.wall, related=related, budgets=budgets or RemainingPdbTracker()
    )


def said(pod: Pod, about: DrainContext) -> DrainOutcome | BlockingReason:
    verdict = judge(pod, about)
    return verdict.reason or verdict.outcome


EVICT, SKIP, WAIT = DrainOutcome.EVICT, DrainOutcome.SKIP, DrainOutcome.WAIT
MISSING = BlockingReason.CONTROLLER_NOT_FOUND


@pytest.mark.parametrize(
    ("pod", "about", "outcome"),
    [
        pytest.param(a_pod(), terms(), EVICT, id="a replica is evicted when no rule decides"),
        pytest.param(a_pod(annotations={MIRROR: "x"}, owner=None), terms(), SKIP, id="a mirror pod is skipped"),
        pytest.param(a_pod(owner=None), terms(), BlockingReason.NOT_REPLICATED, id="a bare pod blocks"),
        pytest.param(owned("Rollout"), terms(), BlockingReason.NOT_REPLICATED, id="an unknown controller blocks"),
        pytest.param(
            owned("Rollout"),
            terms(Drain(skip_nodes_with_custom_controller_pods=False)),
            EVICT,
            id="an unknown controller is trusted when so told",
        ),
        pytest.param(
            a_pod(owner=None),
            terms(Drain(skip_nodes_with_custom_controller_pods=False)),
            BlockingReason.NOT_REPLICATED,
            id="a bare pod blocks even then",
        ),
        pytest.param(a_pod(owner=None, annotations=SAFE), terms(), EVICT, id="safe to evict overrides being bare"),
        pytest.param(
            a_pod(annotations=UNSAFE),
            terms(),
            BlockingReason.NOT_SAFE_TO_EVICT,
            id="a pod that is not safe to evict blocks",
        ),
        pytest.param(
            a_pod(owner=None, annotations=UNSAFE), terms(), BlockingReason.NOT_REPLICATED, id="being bare is told first"
        ),
        pytest.param(a_pod(owner="DaemonSet", annotations=UNSAFE), terms(), EVICT, id="a daemon is never asked"),
        pytest.param(a_pod(owner=None, phase="Failed"), terms(), EVICT, id="a failed pod may go"),
        pytest.param(
            a_pod(owner=None, phase="Succeeded", spec={"restartPolicy": "Never"}),
            terms(),
            EVICT,
            id="a pod that succeeded and is not restarted may go",
        ),
        pytest.param(
            a_pod(owner=None, phase="Succeeded", spec={"restartPolicy": "Always"}),
            terms(),
            BlockingReason.NOT_REPLICATED,
            id="a pod that will be restarted has not ended",
        ),
        pytest.param(a_pod(annotations=UNSAFE, phase="Failed"), terms(), EVICT, id="ended goes before not safe"),
        pytest.param(a_pod(annotations=WAITS), terms(), WAIT, id="a pod may be waited for"),
        pytest.param(a_pod(annotations=WAITS), terms(rules=OLD), EVICT, id="which 1.31 does not know"),
    ],
)
def test_judge(pod: Pod, about: DrainContext, outcome: DrainOutcome | BlockingReason) -> None:
    assert said(pod, about) == outcome


@pytest.mark.parametrize(
    ("pod", "related", "outcome"),
    [
        pytest.param(owned("ReplicaSet"), known(), EVICT, id="a known ReplicaSet"),
        pytest.param(owned("ReplicaSet", name="gone"), known(), MISSING, id="a missing ReplicaSet"),
        pytest.param(owned("ReplicationController", "v1"), known(), EVICT, id="a known ReplicationController"),
        pytest.param(owned("ReplicationController", "v1", "gone"), known(), MISSING, id="a missing one"),
        pytest.param(owned("Job", "batch/v1"), known(), EVICT, id="a known Job"),
        pytest.param(owned("Job", "batch/v1", "gone"), known(), MISSING, id="a missing Job"),
        pytest.param(owned("StatefulSet"), known(), EVICT, id="a known StatefulSet"),
        pytest.param(owned("StatefulSet", name="gone"), known(), MISSING, id="a missing StatefulSet"),
        pytest.param(owned("StatefulSet", "kruise.io/v1", "gone"), known(), EVICT, id="a StatefulSet of another kind"),
        pytest.param(owned("DaemonSet"), known(), EVICT, id="a known DaemonSet"),
        pytest.param(owned("DaemonSet", name="gone"), known(), MISSING, id="a missing DaemonSet"),
        pytest.param(owned("DaemonSet", "kruise.io/v1", "gone"), known(), EVICT, id="a DaemonSet of another kind"),
        pytest.param(owned("ReplicaSet", name="gone"), None, EVICT, id="nothing is looked up"),
        pytest.param(owned("ReplicaSet"), known(replicas=1), BlockingReason.MIN_REPLICAS, id="too few replicas"),
        pytest.param(
            owned("ReplicationController", "v1"), known(replicas=1), BlockingReason.MIN_REPLICAS, id="and there"
        ),
        pytest.param(owned("StatefulSet"), known(replicas=1), EVICT, id="StatefulSets may have few replicas"),
        pytest.param(owned("ReplicaSet"), known(replicas=2), EVICT, id="just enough replicas"),
        pytest.param(owned("ReplicaSet"), known(replicas=None), EVICT, id="a number that nobody set is no obstacle"),
    ],
)
def test_controllers(pod: Pod, related: Related | None, outcome: DrainOutcome | BlockingReason) -> None:
    assert said(pod, terms(Drain(min_replica_count=2), related=related)) == outcome


def test_controllers_are_not_asked_when_custom_ones_are_trusted() -> None:
    trusting = Drain(skip_nodes_with_custom_controller_pods=False, min_replica_count=2)
    assert said(owned("ReplicaSet", name="gone"), terms(trusting, related=known(replicas=1))) is EVICT


def test_safe_to_evict_does_not_make_up_for_a_missing_controller() -> None:
    pod = a_pod(owner="ReplicaSet/gone", annotations=SAFE)
    assert said(pod, terms(related=known())) is MISSING


def test_a_pod_annotated_as_a_daemon_is_not_asked_for_its_replicas() -> None:
    annotation = {"cluster-autoscaler.kubernetes.io/daemonset-pod": "true"}
    assert said(a_pod(owner="ReplicaSet/gone", annotations=annotation), terms(related=known())) is EVICT


HOUR = 3600.0


@pytest.mark.parametrize(
    ("age_s", "options", "rules", "budgets", "outcome"),
    [
        pytest.param(60.0, STRICT, NEW, (), BlockingReason.SYSTEM, id="a young one blocks"),
        pytest.param(HOUR, STRICT, NEW, (), BlockingReason.SYSTEM, id="exactly at the timeout it still blocks"),
        pytest.param(HOUR + 1, STRICT, NEW, (), EVICT, id="after the timeout it goes"),
        pytest.param(HOUR + 1, STRICT, OLD, (), BlockingReason.SYSTEM, id="in 1.31 it blocks for ever"),
        pytest.param(60.0, STRICT, NEW, (1,), EVICT, id="a budget frees it"),
        pytest.param(60.0, STRICT, NEW, (0,), BlockingReason.BUDGET, id="a spent budget keeps it"),
        pytest.param(60.0, Drain(skip_nodes_with_system_pods=False), NEW, (), EVICT, id="unless told not to care"),
    ],
)
def test_system_pods(
    age_s: float, options: Drain, rules: Rules, budgets: tuple[int, ...], outcome: DrainOutcome | BlockingReason
) -> None:
    pod = a_pod(namespace="kube-system", created=NOW.wall - age_s)
    protecting = RemainingPdbTracker(a_budget(allowed, namespace="kube-system") for allowed in budgets)
    assert said(pod, terms(options, rules, budgets=protecting)) == outcome


def test_an_old_system_pod_goes_whatever_its_storage() -> None:
    old = a_pod(namespace="kube-system", created=1.0, volumes=[HOST_PATH], annotations=UNSAFE)
    assert said(old, terms()) is EVICT


def test_a_system_pod_of_unknown_age_blocks() -> None:
    assert said(a_pod(namespace="kube-system", created=0.0), terms()) is BlockingReason.SYSTEM


@pytest.mark.parametrize(
    ("volumes", "named", "outcome"),
    [
        pytest.param([HOST_PATH], None, BlockingReason.LOCAL_STORAGE, id="a host path blocks"),
        pytest.param([SCRATCH], None, BlockingReason.LOCAL_STORAGE, id="an empty directory blocks"),
        pytest.param([IN_MEMORY], None, EVICT, id="one in memory does not"),
        pytest.param([SCRATCH], "scratch", EVICT, id="nor one that is named as harmless"),
        pytest.param([HOST_PATH], "data", EVICT, id="nor a host path that is"),
        pytest.param([SCRATCH, HOST_PATH], "scratch", BlockingReason.LOCAL_STORAGE, id="all have to be named"),
        pytest.param([SCRATCH, HOST_PATH], "scratch,data", EVICT, id="which commas do"),
        pytest.param([SCRATCH, HOST_PATH], "scratch, data", BlockingReason.LOCAL_STORAGE, id="but without blanks"),
        pytest.param([{"name": "c", "configMap": {"name": "c"}}], None, EVICT, id="other volumes are no matter"),
    ],
)
def test_local_storage(volumes: list[Json], named: str | None, outcome: DrainOutcome | BlockingReason) -> None:
    pod = a_pod(volumes=volumes, annotations=None if named is None else {SAFE_LOCAL_VOLUMES: named})
    assert said(pod, terms()) == outcome
    assert said(pod, terms(Drain(skip_nodes_with_local_storage=False))) is EVICT


@pytest.mark.parametrize(
    ("allowed", "labels", "namespace", "outcome"),
    [
        pytest.param(0, {"app": "web"}, "default", BlockingReason.BUDGET, id="a spent budget blocks"),
        pytest.param(1, {"app": "web"}, "default", EVICT, id="one disruption is enough"),
        pytest.param(0, {"app": "db"}, "default", EVICT, id="a budget of others does not matter"),
        pytest.param(0, {}, "default", BlockingReason.BUDGET, id="an empty selector counts every pod"),
        pytest.param(0, {"app": "web"}, "other", EVICT, id="of its own namespace"),
    ],
)
def test_budgets(allowed: int, labels: dict[str, str], namespace: str, outcome: DrainOutcome | BlockingReason) -> None:
    pod = a_pod(labels={"app": "web"})
    budgets = RemainingPdbTracker([a_budget(allowed, labels=labels, namespace=namespace)])
    assert said(pod, terms(budgets=budgets)) == outcome


def test_safe_to_evict_is_not_asked_for_budgets() -> None:
    assert said(a_pod(annotations=SAFE), terms(budgets=RemainingPdbTracker([a_budget(0)]))) is EVICT


@pytest.mark.parametrize(
    ("deleted_s_ago", "grace_s", "overdue"),
    [
        pytest.param(None, None, False, id="a pod that nobody deleted"),
        pytest.param(60.0, None, False, id="half a minute of grace and half a minute more"),
        pytest.param(61.0, None, True, id="over"),
        pytest.param(61.0, 300, False, id="a longer grace"),
        pytest.param(331.0, 300, True, id="over too"),
    ],
)
def test_terminating_pods_are_skipped_when_overdue(
    deleted_s_ago: float | None, grace_s: int | None, overdue: bool
) -> None:
    spec = {} if grace_s is None else {"terminationGracePeriodSeconds": grace_s}
    pod = a_pod(owner=None, deleted=None if deleted_s_ago is None else NOW.wall - deleted_s_ago, spec=spec)
    assert long_terminating(pod, NOW.wall) is overdue
    assert said(pod, terms()) == (SKIP if overdue else BlockingReason.NOT_REPLICATED)


def test_the_rules_stand_in_the_documented_order() -> None:
    assert [rule.__name__ for rule in RULES] == [
        "undecoded",
        "mirror",
        "overdue",
        "pausing",
        "not_to_be_disrupted",
        "replica_count",
        "daemonset",
        "safe_to_evict",
        "terminal",
        "on_completion",
        "replicated",
        "system",
        "not_safe_to_evict",
        "local_storage",
        "in_gang",
        "budget_spent",
    ]


def test_a_departure_sorts_the_pods_of_a_node() -> None:
    web, daemon, waits = a_pod("web"), a_pod("daemon", owner="DaemonSet"), a_pod("waits", annotations=WAITS)
    mirror = a_pod("mirror", annotations={MIRROR: "x"})
    about = terms()
    found = departure([mirror, daemon, web, waits], lambda pod: judge(pod, about))
    assert found == NodeDrain(move=(web,), daemons=(daemon,), wait_for=(waits,))


def test_the_first_pod_that_blocks_is_told() -> None:
    first, second = a_pod("first", owner=None), a_pod("second", annotations=UNSAFE)
    about = terms()
    found = departure([a_pod(), first, second], lambda pod: judge(pod, about))
    assert isinstance(found, BlockingPod)
    assert (found.pod, found.verdict.reason) == (first, BlockingReason.NOT_REPLICATED)


def test_a_judge_tells_pods_of_one_class_apart_by_what_they_do_not_share() -> None:
    bare = a_pod("bare", owner=None)
    on_its_way_out = msgspec.structs.replace(bare, name="leaving", deleted=NOW.wall - 1000)
    ended = msgspec.structs.replace(bare, name="ended", phase="Failed")
    one = DrainJudge(terms())
    for _ in range(2):
        assert one.judge(bare).reason is BlockingReason.NOT_REPLICATED
        assert one.judge(on_its_way_out).outcome is SKIP
        assert one.judge(ended).outcome is EVICT


def test_a_judge_tells_old_system_pods_from_young_ones() -> None:
    old = a_pod("old", namespace="kube-system", created=1.0)
    young = msgspec.structs.replace(old, name="young", created=NOW.wall)
    one = DrainJudge(terms())
    assert [one.judge(pod).outcome for pod in (old, young, old)] == [EVICT, DrainOutcome.BLOCK, EVICT]


def test_a_judge_sees_budgets_shrink() -> None:
    budgets = RemainingPdbTracker([a_budget(1)])
    one = DrainJudge(terms(budgets=budgets))
    pod = a_pod()
    assert one.judge(pod).outcome is EVICT
    budgets.take([pod])
    assert one.judge(pod).reason is BlockingReason.BUDGET


@pytest.mark.parametrize(
    ("pod", "rules", "outcome"),
    [
        pytest.param(a_pod(), NEW, None, id="a replica makes a node non-empty"),
        pytest.param(a_pod(owner=None), NEW, None, id="so does a pod that blocks"),
        pytest.param(a_pod(owner="DaemonSet"), NEW, EVICT, id="a daemon does not"),
        pytest.param(a_pod(annotations={MIRROR: "x"}), NEW, SKIP, id="nor does a mirror pod"),
        pytest.param(a_pod(deleted=1.0), NEW, SKIP, id="nor does an overdue one"),
        pytest.param(a_pod(annotations=WAITS), NEW, WAIT, id="nor one that is waited for"),
        pytest.param(a_pod(annotations=WAITS), OLD, None, id="but that is new"),
        pytest.param(a_pod(annotations=SAFE), NEW, None, id="safe to evict must still move"),
    ],
)
def test_lingers(pod: Pod, rules: Rules, outcome: DrainOutcome | None) -> None:
    verdict = lingers(pod, terms(rules=rules))
    assert (verdict and verdict.outcome) == outcome
