"""An API server in a process of its own, with a cluster in it whose pods change until standard input is closed."""

import argparse
import itertools
import json
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from autoscaler.clock import SystemClock
from autoscaler.sandbox.apiserver.server import ApiServer
from autoscaler.sandbox.apiserver.storage import Storage
from benchmarks.decode import node_pages, pod_pages

POOL = "worker"
_KWOK = {
    "kwok-provider-config": {
        "config": """
apiVersion: v1alpha1
readNodesFrom: configmap
nodegroups: {fromNodeLabelKey: pool}
nodes: {skipTaint: true}
configmap: {name: kwok-provider-templates}
"""
    },
    "kwok-provider-templates": {
        "templates": f"""
apiVersion: v1
kind: Node
metadata:
  name: {POOL}
  labels: {{pool: {POOL}}}
  annotations: {{cluster-autoscaler.kwok.nodegroup/max-count: "20000"}}
status:
  allocatable: {{cpu: "16", memory: 64Gi, pods: "110"}}
  capacity: {{cpu: "16", memory: 64Gi, pods: "110"}}
"""
    },
}


def nodes(count: int) -> Iterator[dict[str, Any]]:
    """Yield ready nodes of one group, as an API server writes them."""
    for page in node_pages(count):
        for node in json.loads(page)["items"]:
            name = node["metadata"]["name"]
            node["metadata"]["labels"]["pool"] = POOL
            node["metadata"]["annotations"] = {"kwok.x-k8s.io/node": "fake"}
            node["spec"]["providerID"] = f"kwok:{name}"
            node["status"]["conditions"][-1]["status"] = "True"
            yield node


def pods(count: int, on_nodes: int) -> Iterator[dict[str, Any]]:
    """Yield running pods, spread over all nodes."""
    for page in pod_pages(count, on_nodes):
        yield from json.loads(page)["items"]


def waiting(count: int) -> Iterator[dict[str, Any]]:
    """Yield pods that fit on no running node; a new node takes one of them."""
    unschedulable = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "waiting", "controller": True, "uid": "waiting"}
    for number in range(count):
        yield {
            "metadata": {"name": f"waiting-{number}", "namespace": "default", "ownerReferences": [owner]},
            "spec": {"containers": [{"name": "main", "resources": {"requests": {"cpu": "9", "memory": "8Gi"}}}]},
            "status": {"phase": "Pending", "conditions": [unschedulable]},
        }


def churn(storage: Storage, count: int, on_nodes: int, a_second: int, stopping: threading.Event) -> None:
    """Change a label of so many pods a second, one after another, until told to stop."""
    names = itertools.cycle((pod["metadata"]["name"], pod["metadata"]["namespace"]) for pod in pods(count, on_nodes))
    for round_ in itertools.count():
        if stopping.wait(1.0):
            return
        for name, namespace in itertools.islice(names, a_second):
            patch = {"metadata": {"labels": {"round": str(round_ % 2)}}}
            storage.patch("pods", name, patch, namespace=namespace)


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="benchmarks.served", description=__doc__)
    parser.add_argument("--nodes", type=int, required=True)
    parser.add_argument("--per-node", type=int, required=True)
    parser.add_argument("--changes", type=int, default=0, help="pods that change in a second")
    parser.add_argument("--pending", type=int, default=0, help="pods that no node has room for")
    parser.add_argument("--kubeconfig", type=Path, required=True)
    sizes = parser.parse_args(argv)
    storage = Storage(SystemClock())
    for name, data in _KWOK.items():
        storage.create("configmaps", {"metadata": {"name": name, "namespace": "kube-system"}, "data": data})
    storage.load("nodes", nodes(sizes.nodes))
    count, stopping = sizes.nodes * sizes.per_node, threading.Event()
    storage.load("pods", itertools.chain(pods(count, sizes.nodes), waiting(sizes.pending)))
    changing = threading.Thread(target=churn, args=(storage, count, sizes.nodes, sizes.changes, stopping))
    with ApiServer(storage) as server:
        server.write_kubeconfig(sizes.kubeconfig)
        print("ready", flush=True)
        changing.start()
        sys.stdin.read()
        stopping.set()
        changing.join()


if __name__ == "__main__":
    main()
