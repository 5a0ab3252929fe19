"""Decoding pods and nodes page by page, against the standard library's json on a sample of the same bytes."""

import argparse
import json
from collections.abc import Iterator
from typing import Any

from autoscaler.objects.decode import WireDecoder
from autoscaler.objects.node import node_decoder
from autoscaler.objects.pod import Pod
from autoscaler.objects.pod_interner import PodInterner
from autoscaler.stopwatch import stopwatch
from benchmarks.measure import Row, resident_mib, seconds_of, show

PAGE = 500
OWNERS = 500


def pod_template(owner: int) -> bytes:
    """A running pod of one controller as the API server writes it, some 6 KB; NAME, NODE and UID to be filled in."""
    labels = {"app": f"app-{owner}", "pod-template-hash": f"{owner:010d}"}
    probe = {"httpGet": {"path": "/healthz", "port": 8080, "scheme": "HTTP"}, "periodSeconds": 10, "timeoutSeconds": 1}
    container = {
        "name": "main",
        "image": f"registry.example.com/team/app-{owner}:v1.2.3",
        "env": [{"name": f"SETTING_{number}", "value": f"value-{number}"} for number in range(12)],
        "resources": {"requests": {"cpu": "250m", "memory": "512Mi"}, "limits": {"memory": "1Gi"}},
        "livenessProbe": probe,
        "readinessProbe": probe,
        "ports": [{"name": "http", "containerPort": 8080, "protocol": "TCP"}],
        "volumeMounts": [{"name": "token", "readOnly": True, "mountPath": "/var/run/secrets"}],
        "terminationMessagePath": "/dev/termination-log",
        "imagePullPolicy": "IfNotPresent",
    }
    kinds = ("PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady", "PodScheduled")
    time = "2024-05-01T10:00:00Z"
    pod: dict[str, Any] = {
        "metadata": {
            "name": "NAME",
            "namespace": f"team-{owner % 20}",
            "uid": "UID",
            "resourceVersion": "123456",
            "creationTimestamp": time,
            "labels": labels,
            "annotations": {"checksum/config": "0" * 64, "prometheus.io/scrape": "true"},
            "ownerReferences": [
                {
                    "apiVersion": "apps/v1",
                    "kind": "ReplicaSet",
                    "name": f"app-{owner}",
                    "uid": f"rs{owner}",
                    "controller": True,
                }
            ],
            "managedFields": [_managed(manager) for manager in ("kube-controller-manager", "kubelet")],
        },
        "spec": {
            "nodeName": "NODE",
            "containers": [container],
            "tolerations": [
                {
                    "key": f"node.kubernetes.io/{key}",
                    "operator": "Exists",
                    "effect": "NoExecute",
                    "tolerationSeconds": 300,
                }
                for key in ("not-ready", "unreachable")
            ],
            "volumes": [{"name": "token", "projected": {"sources": [{"serviceAccountToken": {"path": "token"}}]}}],
            "schedulerName": "default-scheduler",
            "serviceAccountName": "default",
        },
        "status": {
            "phase": "Running",
            "conditions": [{"type": kind, "status": "True", "lastTransitionTime": time} for kind in kinds],
            "podIP": "10.1.2.3",
            "startTime": time,
            "containerStatuses": [{"name": "main", "ready": True, "restartCount": 0, "imageID": "sha256:" + "1" * 64}],
        },
    }
    if owner % 7 == 0:
        pod["spec"]["topologySpreadConstraints"] = [
            {
                "topologyKey": "topology.kubernetes.io/zone",
                "maxSkew": 1,
                "whenUnsatisfiable": "DoNotSchedule",
                "labelSelector": {"matchLabels": labels},
            }
        ]
    return json.dumps(pod).encode()


def _managed(manager: str) -> dict[str, Any]:
    fields: dict[str, Any] = {f"f:field-{number}": {"f:sub": {}, "f:other": {".": {}}} for number in range(30)}
    return {"manager": manager, "operation": "Update", "apiVersion": "v1", "fieldsV1": {"f:spec": fields}}


def pod_pages(count: int, nodes: int) -> Iterator[bytes]:
    """List bodies one at a time, so that they need not fit into memory together."""
    examples = [pod_template(owner) for owner in range(OWNERS)]
    for first in range(0, count, PAGE):
        items = (
            examples[number % OWNERS]
            .replace(b'"NAME"', b'"pod-%d"' % number)
            .replace(b'"UID"', b'"00000000-0000-0000-0000-%012d"' % number)
            .replace(b'"NODE"', b'"node-%d"' % (number % nodes))
            for number in range(first, min(first + PAGE, count))
        )
        yield b'{"metadata":{"resourceVersion":"7"},"items":[' + b",".join(items) + b"]}"


def node_pages(count: int) -> Iterator[bytes]:
    """List bodies of nodes with the images they hold, some 12 KB each."""
    images = [{"names": [f"registry.example.com/a/b/image-{n}@sha256:{'2' * 64}"], "sizeBytes": n} for n in range(50)]
    for first in range(0, count, PAGE):
        yield json.dumps(
            {"items": [_node(number, images) for number in range(first, min(first + PAGE, count))]}
        ).encode()


def _node(number: int, images: list[dict[str, Any]]) -> dict[str, Any]:
    amounts = {"cpu": "16", "memory": "64Gi", "pods": "110", "ephemeral-storage": "100Gi"}
    kinds = ("MemoryPressure", "DiskPressure", "PIDPressure", "Ready")
    conditions = [{"type": kind, "status": "False", "lastTransitionTime": "2024-05-01T10:00:00Z"} for kind in kinds]
    labels = {"kubernetes.io/hostname": f"node-{number}", "topology.kubernetes.io/zone": "abc"[number % 3]}
    return {
        "metadata": {"name": f"node-{number}", "labels": labels, "managedFields": [_managed("kubelet")] * 2},
        "spec": {"providerID": f"aws:///i-{number:017x}"},
        "status": {"capacity": amounts, "allocatable": amounts, "conditions": conditions, "images": images},
    }


def rows(pods: int, nodes: int) -> list[Row]:
    interner = PodInterner()
    decoder = interner.decoder()
    kept: list[list[Pod]] = []
    before, seconds, size = resident_mib(), 0.0, 0
    for body in pod_pages(pods, nodes):
        size += len(body)
        start = stopwatch()
        kept.append(decoder.page(body).items)
        seconds += stopwatch() - start
    grown = resident_mib() - before
    note = f"{size / 2**20:,.0f} MiB read, {grown:,.0f} MiB kept, {len(interner)} classes"
    pod_ratio = _json_ratio(decoder, list(pod_pages(min(pods, 4 * PAGE), nodes)))
    bodies = list(node_pages(nodes))
    node_seconds = seconds_of(lambda: [node_decoder().page(body) for body in bodies])
    node_ratio = _json_ratio(node_decoder(), bodies[:4])
    lines = [b'{"type":"MODIFIED","object":' + pod_template(owner) + b"}" for owner in range(OWNERS)] * 10
    change_seconds = seconds_of(lambda: [decoder.change(line) for line in lines], repeat=3)
    return [
        Row("decode pods and keep them", pods, "pods", seconds, pod_ratio, "json", note),
        Row("decode nodes and keep them", nodes, "nodes", node_seconds, node_ratio, "json"),
        Row("decode watch events", len(lines), "events", change_seconds),
    ]


def _json_ratio(decoder: WireDecoder[Any, Any], bodies: list[bytes]) -> float:
    ours = seconds_of(lambda: [decoder.page(body) for body in bodies], repeat=3)
    return seconds_of(lambda: [json.loads(body) for body in bodies], repeat=3) / ours


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="benchmarks.decode", description=__doc__)
    parser.add_argument("--pods", type=int, default=150_000)
    parser.add_argument("--nodes", type=int, default=5_000)
    sizes = parser.parse_args(argv)
    show("Decode", rows(sizes.pods, sizes.nodes))


if __name__ == "__main__":
    main()
