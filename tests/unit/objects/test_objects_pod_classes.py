import gc
import threading
from typing import Any

import pytest

from autoscaler.objects.pod import MIRROR, SOURCE, Pod, Unscheduled
from autoscaler.objects.pod_interner import PodInterner
from tests.builders import Json, a_pod, over, term

BASE: Json = {
    "metadata": {
        "name": "web-1",
        "namespace": "shop",
        "uid": "u1",
        "labels": {"app": "web"},
        "ownerReferences": [{"kind": "ReplicaSet", "name": "web", "uid": "rs", "controller": True}],
    },
    "spec": {
        "containers": [
            {
                "name": "main",
                "image": "web:1",
                "env": [{"name": "A", "value": "1"}],
                "resources": {"requests": {"cpu": "1"}, "limits": {"cpu": "2"}},
            }
        ],
        "hostname": "web-1",
        "volumes": [
            {"name": "token-x1", "projected": {"sources": []}},
            {"name": "config", "configMap": {"name": "c"}},
        ],
    },
}


def changed(path: str, value: Any, base: Json = BASE) -> Json:
    head, _, rest = path.partition(".")
    return {**base, head: changed(rest, value, base.get(head, {})) if rest else value}


def in_container(field: str, value: Any) -> Json:
    return changed("spec.containers", [{**BASE["spec"]["containers"][0], field: value}])


@pytest.mark.parametrize(
    "other",
    [
        pytest.param(changed("metadata.name", "web-2"), id="name"),
        pytest.param(changed("metadata.uid", "u2"), id="uid"),
        pytest.param(changed("metadata.creationTimestamp", "2024-01-01T00:00:00Z"), id="age"),
        pytest.param(changed("metadata.deletionTimestamp", "2024-01-01T00:00:00Z"), id="being deleted"),
        pytest.param(changed("metadata.annotations", {"checksum/config": "abc"}), id="annotations nobody reads"),
        pytest.param(changed("spec.nodeName", "n1"), id="place"),
        pytest.param(changed("spec.hostname", "web-2"), id="host name"),
        pytest.param(in_container("image", "web:2"), id="image"),
        pytest.param(in_container("env", []), id="environment"),
        pytest.param(
            changed("spec.volumes", [{"name": "token-y2", "projected": {"sources": []}}]), id="token and config volumes"
        ),
        pytest.param(changed("status", {"phase": "Running", "podIP": "10.0.0.1"}), id="status"),
    ],
)
def test_replicas_share_one_class_whatever_their(other: Json) -> None:
    decoder = PodInterner().decoder()
    assert decoder.one(BASE).cls is decoder.one(other).cls


@pytest.mark.parametrize(
    "other",
    [
        pytest.param(changed("metadata.namespace", "test"), id="namespace"),
        pytest.param(changed("metadata.labels", {"app": "db"}), id="labels"),
        pytest.param(
            changed(
                "metadata.ownerReferences",
                [{"kind": "ReplicaSet", "name": "web", "uid": "rs2", "controller": True}],
            ),
            id="owner",
        ),
        pytest.param(
            changed("metadata.annotations", {"cluster-autoscaler.kubernetes.io/safe-to-evict": "false"}),
            id="an annotation of the autoscaler's",
        ),
        pytest.param(changed("metadata.annotations", {MIRROR: "x"}), id="being a mirror pod"),
        pytest.param(in_container("resources", {"requests": {"cpu": "2"}}), id="requests"),
        pytest.param(in_container("ports", [{"containerPort": 1, "hostPort": 1}]), id="host port"),
        pytest.param(changed("spec.initContainers", [{"name": "i"}]), id="init containers"),
        pytest.param(changed("spec.overhead", {"cpu": "1"}), id="overhead"),
        pytest.param(changed("spec.resources", {"requests": {"cpu": "1"}}), id="the pod's own requests"),
        pytest.param(changed("spec.nodeSelector", {"disk": "ssd"}), id="node selector"),
        pytest.param(changed("spec.tolerations", [{"operator": "Exists"}]), id="tolerations"),
        pytest.param(changed("spec.topologySpreadConstraints", [over("zone")]), id="spread constraints"),
        pytest.param(
            changed(
                "spec.affinity.podAntiAffinity",
                {"requiredDuringSchedulingIgnoredDuringExecution": [term(labels={"app": "web"})]},
            ),
            id="anti-affinity",
        ),
        pytest.param(
            changed("spec.volumes", [{"name": "v", "persistentVolumeClaim": {"claimName": "c"}}]), id="claims"
        ),
        pytest.param(changed("spec.volumes", [{"name": "v", "emptyDir": {}}]), id="local storage"),
        pytest.param(changed("spec.priority", 7), id="priority"),
        pytest.param(changed("spec.schedulerName", "mine"), id="scheduler"),
        pytest.param(changed("spec.restartPolicy", "Never"), id="restart policy"),
        pytest.param(changed("spec.terminationGracePeriodSeconds", 5), id="grace period"),
        pytest.param(
            changed("status", {"containerStatuses": [{"name": "main", "allocatedResources": {"cpu": "3"}}]}),
            id="an unfinished resize in place",
        ),
    ],
)
def test_pods_are_of_different_classes_when_they_differ_in(other: Json) -> None:
    decoder = PodInterner().decoder()
    one, two = decoder.one(BASE), decoder.one(other)
    assert one.cls is not two.cls
    assert one.cls.key != two.cls.key


def test_the_key_of_a_class_is_the_same_in_any_interner() -> None:
    assert PodInterner().decoder().one(BASE).cls.key == PodInterner().decoder().one(BASE).cls.key


def test_each_pod_with_an_ephemeral_volume_has_its_own_claim() -> None:
    volumes = [{"name": "scratch", "ephemeral": {"volumeClaimTemplate": {}}}]
    one, two = a_pod("a", volumes=volumes), a_pod("b", volumes=volumes)
    assert (one.cls.claims, two.cls.claims) == (("a-scratch",), ("b-scratch",))


def test_a_class_is_forgotten_with_its_last_pod() -> None:
    interner = PodInterner()
    decoder = interner.decoder()
    pods = [decoder.one(BASE), decoder.one(changed("metadata.name", "web-2"))]
    assert len(interner) == 1
    pods.pop()
    gc.collect()
    assert len(interner) == 1
    pods.clear()
    gc.collect()
    assert len(interner) == 0


def test_threads_share_one_class() -> None:
    decoder = PodInterner().decoder()
    pods: list[Pod] = []
    together = threading.Barrier(4)

    def decode() -> None:
        together.wait(timeout=10)
        for number in range(200):
            pods.append(decoder.one(changed("metadata.labels", {"app": str(number % 20)})))

    threads = [threading.Thread(target=decode) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=30)
    assert len(pods) == 800
    assert len({pod.cls for pod in pods}) == 20


def test_a_pod_keeps_identity_place_and_times() -> None:
    pod = (
        PodInterner()
        .decoder()
        .one(
            {
                "metadata": {
                    "name": "a",
                    "uid": "u",
                    "creationTimestamp": "1970-01-01T00:00:01Z",
                    "deletionTimestamp": "1970-01-01T00:00:09Z",
                },
                "spec": {"nodeName": "n1"},
                "status": {"phase": "Running", "startTime": "1970-01-01T00:00:02Z", "nominatedNodeName": "n0"},
            }
        )
    )
    assert (pod.key, pod.namespace, pod.uid, pod.node, pod.phase) == ("default/a", "default", "u", "n1", "Running")
    assert (pod.created, pod.deleted, pod.started, pod.nominated_node) == (1.0, 9.0, 2.0, "n0")


def scheduled(status: str, reason: str = "", **more: str) -> Json:
    return {"conditions": [{"type": "PodScheduled", "status": status, "reason": reason, **more}]}


@pytest.mark.parametrize(
    ("status", "node", "unscheduled"),
    [
        pytest.param({}, None, None, id="the scheduler said nothing yet"),
        pytest.param(scheduled("True"), None, None, id="it is scheduled"),
        pytest.param(
            scheduled("False", "Unschedulable", lastTransitionTime="1970-01-01T00:00:03Z"),
            None,
            Unscheduled("Unschedulable", 3.0),
            id="nothing fits, since a time",
        ),
        pytest.param(scheduled("False"), None, Unscheduled("", None), id="not yet, without reason"),
        pytest.param(scheduled("False", "Unschedulable"), "n1", None, id="it has got a node since"),
        pytest.param(
            {"conditions": [{"type": "Ready", "status": "False", "reason": "Unschedulable"}]},
            None,
            None,
            id="another condition",
        ),
    ],
)
def test_what_the_scheduler_said(status: Json, node: str | None, unscheduled: Unscheduled | None) -> None:
    assert a_pod(node=node, status=status).unscheduled == unscheduled


@pytest.mark.parametrize(
    ("phase", "finished"),
    [("Pending", False), ("Running", False), ("Unknown", False), ("Succeeded", True), ("Failed", True)],
)
def test_which_phases_hold_no_resources(phase: str, finished: bool) -> None:
    assert a_pod(phase=phase).finished is finished


@pytest.mark.parametrize(
    ("pod", "daemonset", "mirror", "static"),
    [
        pytest.param(a_pod(), False, False, False, id="a replica"),
        pytest.param(a_pod(owner=None), False, False, False, id="a bare pod"),
        pytest.param(a_pod(owner="DaemonSet"), True, False, False, id="owned by a DaemonSet"),
        pytest.param(
            a_pod(annotations={"cluster-autoscaler.kubernetes.io/daemonset-pod": "true"}),
            True,
            False,
            False,
            id="annotated as a DaemonSet's",
        ),
        pytest.param(
            a_pod(annotations={"cluster-autoscaler.kubernetes.io/daemonset-pod": "false"}),
            False,
            False,
            False,
            id="annotated as not a DaemonSet's",
        ),
        pytest.param(a_pod(owner="Node", annotations={MIRROR: "h", SOURCE: "file"}), False, True, True, id="a mirror"),
        pytest.param(a_pod(annotations={SOURCE: "api"}), False, False, False, id="from the API server"),
        pytest.param(a_pod(annotations={SOURCE: "http"}), False, False, True, id="from a URL"),
    ],
)
def test_which_pods_belong_to_their_node(pod: Pod, daemonset: bool, mirror: bool, static: bool) -> None:
    assert (pod.cls.daemonset, pod.cls.mirror, pod.cls.static) == (daemonset, mirror, static)


def test_only_constraints_that_forbid_are_kept() -> None:
    asks = {**over("zone"), "whenUnsatisfiable": "ScheduleAnyway"}
    assert [one.topology_key for one in a_pod(spread=[asks, over("host")]).cls.spread] == ["host"]


@pytest.mark.parametrize(("seconds", "grace_s"), [(None, 30), (0, 0), (300, 300)])
def test_the_grace_period_has_the_apis_default(seconds: int | None, grace_s: int) -> None:
    assert a_pod(spec={"terminationGracePeriodSeconds": seconds}).cls.grace_s == grace_s
