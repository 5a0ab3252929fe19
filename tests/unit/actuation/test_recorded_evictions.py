"""What a drain makes of each answer that a real API server gave to an eviction."""

import pytest

from autoscaler.actuation.deletion_tracker import NodeDeletionTracker
from autoscaler.actuation.evict import EvictionRetry, Evictor
from autoscaler.actuation.removal_job import RemovalJob
from autoscaler.actuation.taints import DeletionTaint
from autoscaler.actuation.write_gate import WriteGate
from autoscaler.clock import VirtualClock
from autoscaler.kube.writes import Writes
from autoscaler.loop.removal_event_writer import RemovalEventWriter
from autoscaler.objects.node import Taint
from autoscaler.objects.pod import Pod
from autoscaler.objects.pod_interner import PodInterner
from autoscaler.scaledown.plan import Removal
from autoscaler.simulator.executor import VirtualExecutor
from tests.builders import a_node
from tests.recorded_api import RecordedApi, collection, exchanges, recorded_api
from tests.unit.actuation.stage import Counts, Events, Leader
from tests.unit.kube.scripted import Sleeps, client_of

PATIENCE = EvictionRetry(total_s=25, pause_s=10)


def recorded_pod(name: str) -> Pod:
    decoder = PodInterner().decoder()
    return next(decoder.one(item) for item in collection("list-pods")["items"] if item["metadata"]["name"] == name)


def evicted(api: RecordedApi, pod: Pod) -> tuple[str, float]:
    """Evict the pod; returns the error and how many seconds it took."""
    clock = VirtualClock(wall=1_700_000_000)
    removal = Removal(node=a_node("full"), group="g", pods=(pod,))
    mark = DeletionTaint(Taint("x", "NoSchedule", ""), clock.now(), uncordon=False)
    with client_of(api.url, clock) as client, VirtualExecutor(clock) as executor:
        gate = WriteGate(executor, clock, Leader())
        writes = Writes(client, Leader(), clock, Sleeps(clock))
        evictor = Evictor(writes, gate, RemovalEventWriter(Events(), Counts(), None), NodeDeletionTracker())
        (result,) = evictor.evict(
            RemovalJob(removal, mark, None), (pod,), (), limit_s=0, patience=PATIENCE, check=lambda: None
        )
    return result.error, clock.now().mono


@pytest.mark.parametrize(
    ("pod", "answer", "said", "seconds"),
    [
        pytest.param("held", "evict-granted", "", 0, id="granted"),
        pytest.param("held", "evict-absent", "", 0, id="a pod that is gone needs no eviction"),
        pytest.param(
            "bound-pod", "evict-blocked-by-budget", "budget all needs 2 healthy pods", 25, id="a budget has its time"
        ),
        pytest.param(
            "bound-pod", "evict-two-budgets", "more than one PodDisruptionBudget", 25, id="so have two budgets"
        ),
    ],
)
def test_what_becomes_of_a_pod(pod: str, answer: str, said: str, seconds: float) -> None:
    with recorded_api() as api:
        api.script(f"POST /api/v1/namespaces/shop/pods/{pod}/eviction", *[exchanges()[answer].reply] * 4)
        error, took_s = evicted(api, recorded_pod(pod))
    assert took_s == seconds
    assert said in error
    assert bool(error) is bool(said)
