import pytest

from autoscaler.sandbox.actors.timing import Timing
from autoscaler.sandbox.cluster import SandboxCluster
from cloudprovider.interface import TaintSpec
from tests.manifests import a_bare_pod
from tests.unit.sandbox.actors.actors_pieces import (
    BOOT_S,
    Json,
    a_cluster,
    a_group,
    a_priority,
    condition,
    events,
    node_of,
    pod,
    the_cloud,
)

GPU = TaintSpec("gpu", "yes")


def required(key: str, *values: str) -> Json:
    term = {"matchExpressions": [{"key": key, "operator": "In", "values": list(values)}]}
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}}


def apart(**labels: str) -> Json:
    term = {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": labels}}
    return {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}


def together(**labels: str) -> Json:
    term = {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": labels}}
    return {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}


def message(cluster: SandboxCluster, name: str = "p") -> str:
    conditions = pod(cluster, name)["status"]["conditions"]
    return str(next(one["message"] for one in conditions if one["type"] == "PodScheduled"))


@pytest.mark.parametrize(
    ("wanted", "node"),
    [
        pytest.param(a_bare_pod(cpu="1"), "plain-00", id="a pod goes where there is room"),
        pytest.param(a_bare_pod(cpu="6"), "large-00", id="a large pod goes to the large node"),
        pytest.param(a_bare_pod(cpu="9"), None, id="a pod larger than every node stays"),
        pytest.param(a_bare_pod(nodeSelector={"pool": "large"}), "large-00", id="the selector decides"),
        pytest.param(a_bare_pod(affinity=required("pool", "large")), "large-00", id="required affinity decides"),
        pytest.param(a_bare_pod(nodeSelector={"pool": "gpu"}), None, id="a taint keeps off"),
        pytest.param(
            a_bare_pod(nodeSelector={"pool": "gpu"}, tolerations=[{"key": "gpu", "operator": "Exists"}]),
            "gpu-00",
            id="a toleration lets in",
        ),
        pytest.param(a_bare_pod(nodeName="large-00"), "large-00", id="a pod that names its node needs no scheduler"),
        pytest.param(a_bare_pod(schedulerName="other"), None, id="a pod of another scheduler is not touched"),
        pytest.param(a_bare_pod(schedulingGates=[{"name": "wait"}]), None, id="a gated pod waits"),
    ],
)
def test_where_a_pod_goes(wanted: Json, node: str | None) -> None:
    cluster = a_cluster(
        a_group("plain", labels={"pool": "plain"}),
        a_group("large", cpu="8", labels={"pool": "large"}),
        a_group("gpu", labels={"pool": "gpu"}, taints=[GPU]),
    )
    if node == "plain-00":
        cluster.apply([a_bare_pod("ballast", cpu="4", nodeName="large-00")])
        cluster.run_for(1)
    cluster.apply([wanted])
    cluster.run_for(1)
    assert node_of(cluster) == node


def test_a_bound_pod_says_so() -> None:
    cluster = a_cluster()
    cluster.apply([a_bare_pod()])
    cluster.run_for(1)
    assert condition(pod(cluster), "PodScheduled") == ("True", None)
    assert [event["message"] for event in events(cluster, "Scheduled")] == [
        "Successfully assigned default/p to general-00"
    ]


def test_an_unschedulable_pod_says_why_in_the_schedulers_words() -> None:
    cluster = a_cluster(a_group("plain"), a_group("gpu", taints=[GPU]), a_group("large", labels={"pool": "large"}))
    cluster.apply([a_bare_pod(cpu="5")])
    cluster.run_for(1)
    assert condition(pod(cluster), "PodScheduled") == ("False", "Unschedulable")
    assert message(cluster) == (
        "0/3 nodes are available: 1 node(s) had untolerated taint {gpu: yes}, 2 Insufficient cpu. "
        "preemption: 0/3 nodes are available: 1 Preemption is not helpful for scheduling, "
        "2 No preemption victims found for incoming pod."
    )


def test_without_nodes_the_message_says_so() -> None:
    cluster = a_cluster(running=0)
    cluster.apply([a_bare_pod()])
    cluster.run_for(1)
    assert message(cluster) == "no nodes available to schedule pods"


def test_a_gated_pod_is_marked_and_goes_once_the_gate_is_lifted() -> None:
    cluster = a_cluster()
    cluster.apply([a_bare_pod(schedulingGates=[{"name": "wait"}])])
    cluster.run_for(1)
    assert condition(pod(cluster), "PodScheduled") == ("False", "SchedulingGated")
    cluster.storage.patch("pods", "p", {"spec": {"schedulingGates": None}})
    cluster.run_for(1)
    assert node_of(cluster) == "general-00"


def test_a_foreign_pod_gets_no_condition() -> None:
    cluster = a_cluster()
    cluster.apply([a_bare_pod(schedulerName="other", cpu="99")])
    cluster.run_for(40)
    assert "conditions" not in pod(cluster)["status"]


def test_the_condition_clears_when_a_machine_boots() -> None:
    cluster = a_cluster(running=0)
    cluster.apply([a_bare_pod(cpu="1")])
    cluster.run_for(5)
    assert condition(pod(cluster), "PodScheduled") == ("False", "Unschedulable")
    the_cloud(cluster).group("general").increase(1)
    cluster.run_for(BOOT_S + 5)
    assert condition(pod(cluster), "PodScheduled") == ("True", None)
    assert node_of(cluster) == "general-1"


@pytest.mark.parametrize("freed", ["deleted", "finished"])
def test_room_that_becomes_free_is_used_at_once(freed: str) -> None:
    cluster = a_cluster()
    cluster.apply([a_bare_pod("first", cpu="3", restartPolicy="Never"), a_bare_pod("second", cpu="3")])
    cluster.run_for(5)
    assert (node_of(cluster, "first"), node_of(cluster, "second")) == ("general-00", None)
    if freed == "deleted":
        cluster.storage.delete("pods", "first", grace_s=0)
    else:
        cluster.storage.patch("pods", "first", {"status": {"phase": "Succeeded"}}, subresource="status")
    cluster.run_for(1)
    assert node_of(cluster, "second") == "general-00"


def test_uncordoning_a_node_lets_pods_in() -> None:
    cluster = a_cluster()
    cluster.storage.patch("nodes", "general-00", {"spec": {"unschedulable": True}})
    cluster.run_for(1)
    cluster.apply([a_bare_pod()])
    cluster.run_for(1)
    assert "1 node(s) were unschedulable" in message(cluster)
    cluster.storage.patch("nodes", "general-00", {"spec": {"unschedulable": None}})
    cluster.run_for(2)
    assert node_of(cluster) == "general-00"


def test_a_pod_that_wants_company_goes_when_company_comes() -> None:
    cluster = a_cluster()
    cluster.apply([a_bare_pod("follower", affinity=together(app="leader"))])
    cluster.run_for(1)
    assert node_of(cluster, "follower") is None
    cluster.apply([a_bare_pod("leader", labels={"app": "leader"})])
    cluster.run_for(1)
    assert node_of(cluster, "follower") == "general-00"


def test_pods_that_keep_apart_take_a_node_each() -> None:
    cluster = a_cluster(running=3)
    cluster.apply([a_bare_pod(f"p{i}", labels={"app": "a"}, affinity=apart(app="a")) for i in range(4)])
    cluster.run_for(1)
    placed = [node_of(cluster, f"p{i}") for i in range(4)]
    assert sorted(node for node in placed if node) == ["general-00", "general-01", "general-02"]
    assert "3 node(s) didn't match pod anti-affinity rules" in message(cluster, f"p{placed.index(None)}")


def test_the_least_allocated_node_wins_and_names_break_ties() -> None:
    cluster = a_cluster(running=3)
    cluster.apply([a_bare_pod(f"p{i}", cpu="1", more={"memory": "1Gi"}) for i in range(4)])
    cluster.run_for(1)
    assert [node_of(cluster, f"p{i}") for i in range(4)] == ["general-00", "general-01", "general-02", "general-00"]


def test_a_node_that_asks_to_be_spared_is_taken_last() -> None:
    cluster = a_cluster(running=2)
    taints = [{"key": "DeletionCandidateOfClusterAutoscaler", "effect": "PreferNoSchedule"}]
    cluster.storage.patch("nodes", "general-00", {"spec": {"taints": taints}})
    cluster.run_for(1)
    cluster.apply([a_bare_pod(f"p{i}", cpu="1") for i in range(5)])
    cluster.run_for(1)
    assert [node_of(cluster, f"p{i}") for i in range(5)] == ["general-01"] * 4 + ["general-00"]


def test_a_pod_goes_to_the_node_that_it_prefers_while_there_is_room() -> None:
    cluster = a_cluster(running=3)
    wish = {"matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "In", "values": ["general-02"]}]}
    preferred = {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1, "preference": wish}]}
    cluster.apply([a_bare_pod(f"p{i}", cpu="2", affinity={"nodeAffinity": preferred}) for i in range(3)])
    cluster.run_for(1)
    assert [node_of(cluster, f"p{i}") for i in range(3)] == ["general-02", "general-02", "general-00"]


def test_more_important_pods_go_first() -> None:
    cluster = a_cluster()
    cluster.apply([a_priority("high", 100, preemptionPolicy="Never")])
    cluster.apply([a_bare_pod("early", cpu="3"), a_bare_pod("urgent", cpu="3", priorityClassName="high")])
    cluster.run_for(1)
    assert (node_of(cluster, "early"), node_of(cluster, "urgent")) == (None, "general-00")


def test_an_important_pod_takes_the_place_of_less_important_ones() -> None:
    cluster = a_cluster(running=2)
    cluster.apply([a_priority("high", 100), a_priority("pause", -10)])
    cluster.apply([a_bare_pod("a-worker", cpu="3"), a_bare_pod("b-pause", cpu="3", priorityClassName="pause")])
    cluster.run_for(5)
    pause_node = node_of(cluster, "b-pause")
    cluster.apply([a_bare_pod("urgent", cpu="3", priorityClassName="high")])
    cluster.run_for(0.5)
    assert pod(cluster, "urgent")["status"]["nominatedNodeName"] == pause_node
    assert condition(pod(cluster, "b-pause"), "DisruptionTarget") == ("True", "PreemptionByScheduler")
    cluster.run_for(5)
    assert node_of(cluster, "urgent") == pause_node
    assert [one["metadata"]["name"] for one in cluster.storage.list("pods")] == ["a-worker", "urgent"]


def test_only_as_many_victims_as_needed_go_and_the_least_important_first() -> None:
    cluster = a_cluster()
    cluster.apply([a_priority("high", 100), a_priority("low", -5), a_priority("lower", -10)])
    cluster.apply([a_bare_pod("keep", cpu="1500m", priorityClassName="low")])
    cluster.apply([a_bare_pod("go", cpu="1500m", priorityClassName="lower")])
    cluster.run_for(5)
    cluster.apply([a_bare_pod("urgent", cpu="2", priorityClassName="high")])
    cluster.run_for(6)
    assert [one["metadata"]["name"] for one in cluster.storage.list("pods")] == ["keep", "urgent"]


def test_room_made_by_preemption_is_kept_for_the_preemptor() -> None:
    cluster = a_cluster()
    cluster.apply([a_priority("high", 100), a_bare_pod("victim", cpu="4")])
    cluster.run_for(5)
    cluster.apply([a_bare_pod("urgent", cpu="4", priorityClassName="high")])
    cluster.run_for(0.5)
    cluster.apply([a_bare_pod("thief", cpu="1")])
    cluster.run_for(6)
    assert (node_of(cluster, "urgent"), node_of(cluster, "thief")) == ("general-00", None)


def test_a_pod_that_may_not_preempt_does_not() -> None:
    cluster = a_cluster()
    cluster.apply([a_priority("calm", 100, preemptionPolicy="Never"), a_bare_pod("there", cpu="4")])
    cluster.run_for(5)
    cluster.apply([a_bare_pod(cpu="4", priorityClassName="calm")])
    cluster.run_for(40)
    assert node_of(cluster) is None
    assert message(cluster).endswith("preemption: not eligible due to preemptionPolicy=Never.")


def test_failures_are_told_now_and_then() -> None:
    cluster = a_cluster()
    cluster.apply([a_bare_pod(cpu="5")])
    cluster.run_for(100)
    (told,) = events(cluster, "FailedScheduling")
    assert 2 <= told["count"] <= 5


def test_an_unschedulable_pod_is_not_written_again_while_nothing_changes() -> None:
    cluster = a_cluster()
    cluster.apply([a_bare_pod(cpu="5")])
    cluster.run_for(1)
    version = pod(cluster)["metadata"]["resourceVersion"]
    cluster.run_for(100)
    assert pod(cluster)["metadata"]["resourceVersion"] == version


def test_a_preemptor_that_is_tried_again_too_early_keeps_its_claim_and_evicts_no_more() -> None:
    cluster = a_cluster(running=2, timing=Timing(stop_s=10.0))
    cluster.apply([a_priority("high", 100), a_bare_pod("v1", cpu="4"), a_bare_pod("v2", cpu="4")])
    cluster.run_for(5)
    cluster.apply([a_bare_pod("urgent", cpu="4", priorityClassName="high")])
    cluster.run_for(1)
    cluster.storage.patch("nodes", "general-01", {"metadata": {"labels": {"news": "yes"}}})
    cluster.apply([a_bare_pod("thief", cpu="1")])
    cluster.run_for(2)
    awaiting = "0/2 nodes are available: 2 Insufficient cpu. preemption: not eligible due to a terminating pod on the "
    assert message(cluster, "urgent") == f"{awaiting}nominated node."
    going = [
        one["metadata"]["name"] for one in cluster.storage.list("pods") if one["metadata"].get("deletionTimestamp")
    ]
    assert going == ["v1"]
    cluster.run_for(12)
    assert (node_of(cluster, "urgent"), node_of(cluster, "thief")) == ("general-00", None)


def test_old_events_go() -> None:
    cluster = a_cluster(timing=Timing(event_ttl_s=60.0))
    cluster.apply([a_bare_pod("early")])
    cluster.run_for(61)
    cluster.apply([a_bare_pod("late")])
    cluster.run_for(1)
    assert [event["involvedObject"]["name"] for event in events(cluster, "Scheduled")] == ["late"]
