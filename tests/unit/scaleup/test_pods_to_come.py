"""Pods that controllers have yet to create, through whole passes."""

from typing import Any

import pytest
from msgspec.structs import replace

from autoscaler.config.load import from_options
from autoscaler.objects.meta import ObjectMeta
from autoscaler.objects.pod import Pod, Unscheduled
from autoscaler.objects.workload import Job, JobSpec, JobStatus, Replicas, Replicated
from autoscaler.reasons import ScaleUpResult
from autoscaler.snapshot.cluster import Related
from tests.builders import a_node, a_pod
from tests.unit.loop.loop_world import NOW, LoopWorld, a_spec

ON: dict[str, Any] = {"enable-proactive-scaleup": True}
GATED, LATER = Unscheduled("SchedulingGated", None), "2026-01-05T12:00:00Z"


def owned(name: str, owner: str = "ReplicaSet/web", cpu: str = "3", **more: Any) -> Pod:
    return a_pod(name, cpu=cpu, owner=owner, **{"created": NOW - 600, "unschedulable": True, **more})


def uid_of(pod: Pod) -> str:
    assert pod.cls.owner is not None
    return pod.cls.owner.uid


def meta(pod: Pod, **more: Any) -> ObjectMeta:
    return ObjectMeta(name="web", namespace="default", uid=uid_of(pod), **more)


def replicated(pod: Pod, count: int | None, policy: str = "", **more: Any) -> Replicated:
    return Replicated(metadata=meta(pod, **more), spec=Replicas(replicas=count, pod_management_policy=policy))


def a_world(*pods: Pod, nodes: int = 0, max_size: int = 50, **related: Any) -> LoopWorld:
    options = related.pop("options", {})
    standing = [(a_node(f"n{number}", created=NOW - 9000), "web") for number in range(nodes)]
    world = LoopWorld(a_spec(target=nodes, max_size=max_size), config=from_options({**ON, **options}), nodes=standing)
    by_key = {field: {one.key: one for one in objects} for field, objects in related.items()}
    world.related = Related(**by_key)
    world.submit(*pods)
    return world


ONE = owned("web-1")
JOB = owned("job-1", owner="Job/job")
SET = owned("db-0", owner="StatefulSet/db")


def a_job(parallelism: int | None, completions: int | None, succeeded: int = 0, **more: Any) -> Job:
    spec = JobSpec(parallelism=parallelism, completions=completions, **more)
    return Job(metadata=meta(JOB), spec=spec, status=JobStatus(succeeded=succeeded))


@pytest.mark.parametrize(
    ("pods", "world", "bought"),
    [
        pytest.param([ONE], {"replica_sets": [replicated(ONE, 20)]}, 20, id="replicas of a ReplicaSet"),
        pytest.param(
            [ONE],
            {"replica_sets": [replicated(ONE, 20)], "options": {"enable-proactive-scaleup": False}},
            1,
            id="not enabled",
        ),
        pytest.param([ONE, owned("web-2")], {"replica_sets": [replicated(ONE, 5)]}, 5, id="those that exist count"),
        pytest.param([ONE, owned("web-2")], {"replica_sets": [replicated(ONE, 1)]}, 2, id="more than wanted"),
        pytest.param([ONE], {"replica_sets": [replicated(ONE, None)]}, 1, id="a size that is not set"),
        pytest.param([ONE], {"replica_sets": [replicated(ONE, 20, deletion_timestamp=LATER)]}, 1, id="being deleted"),
        pytest.param([], {"replica_sets": [replicated(ONE, 20)]}, 0, id="a controller without pods"),
        pytest.param([ONE], {"replica_sets": [replicated(SET, 20)]}, 1, id="of another owner"),
        pytest.param([ONE], {"replication_controllers": [replicated(ONE, 20)]}, 1, id="no ReplicationController"),
        pytest.param([SET], {"stateful_sets": [replicated(SET, 9, "Parallel")]}, 9, id="a parallel StatefulSet"),
        pytest.param([SET], {"stateful_sets": [replicated(SET, 9)]}, 1, id="a StatefulSet, one after the other"),
        pytest.param([JOB], {"jobs": [a_job(4, 9)]}, 4, id="a Job: its parallelism"),
        pytest.param([JOB], {"jobs": [a_job(9, 9, 6)]}, 3, id="a Job: what is left"),
        pytest.param([JOB], {"jobs": [a_job(4, None)]}, 4, id="a Job that works on a queue"),
        pytest.param([JOB], {"jobs": [a_job(4, None, 1)]}, 1, id="a Job that works on a queue and is about to end"),
        pytest.param([JOB], {"jobs": [a_job(None, 9)]}, 1, id="a Job: one at a time"),
        pytest.param([JOB], {"jobs": [a_job(4, 9, suspend=True)]}, 1, id="a suspended Job"),
        pytest.param(
            [ONE],
            {"replica_sets": [replicated(ONE, 20)], "options": {"pod-injection-limit": 0}},
            1,
            id="pods that exist are never left out",
        ),
        pytest.param([ONE], {"replica_sets": [replicated(ONE, 6)], "nodes": 4}, 2, id="room comes first"),
        pytest.param(
            [owned("web-0", node="n0", unschedulable=False), owned("web-3", created=NOW, unschedulable=False)],
            {"replica_sets": [replicated(ONE, 3)], "nodes": 1},
            2,
            id="those not judged yet count as yet to come",
        ),
        pytest.param(
            [ONE, replace(owned("web-2", created=NOW), unscheduled=GATED)],
            {"replica_sets": [replicated(ONE, 20)]},
            1,
            id="the newest pod is gated, so will others be",
        ),
        pytest.param(
            [ONE, owned("web-2", cpu="1", created=NOW - 60)],
            {"replica_sets": [replicated(ONE, 7)]},
            3,
            id="they are like the newest pod",
        ),
    ],
)
def test_pods_to_come(pods: list[Pod], world: dict[str, Any], bought: int) -> None:
    made = a_world(*pods, **world)
    made.run()
    assert sum(count for _, _, count in made.calls) == bought
    made.run(after_s=15)
    assert sum(count for _, _, count in made.calls) == bought, "upcoming nodes have room for them"


def test_pods_that_do_not_exist_get_no_events() -> None:
    world = a_world(ONE, replica_sets=[replicated(ONE, 20)], max_size=5)
    assert world.run().scale_up.result is ScaleUpResult.SUCCESSFUL
    assert [one.about.name for one in world.events if one.about.kind == "Pod"] == ["web-1"]
    world.run(after_s=15)
    assert [one.about.name for one in world.events if one.about.kind == "Pod"] == ["web-1"]


def test_the_limit_counts_the_pods_of_a_pass_that_need_nodes() -> None:
    world = a_world(ONE, replica_sets=[replicated(ONE, 15)], options={"pod-injection-limit": 6})
    for _ in range(4):
        world.run(after_s=15)
    assert [count for _, _, count in world.calls] == [6, 6, 3]


def test_an_absurd_size_costs_no_more_than_the_limit_and_the_room_there_is() -> None:
    world = a_world(ONE, replica_sets=[replicated(ONE, 2_000_000_000)], nodes=2, options={"pod-injection-limit": 9})
    world.run()
    assert [count for _, _, count in world.calls] == [9]
