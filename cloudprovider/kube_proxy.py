"""The kube-proxy pod of every node of a cloud, for templates."""

from collections.abc import Mapping
from typing import Any


def kube_proxy(group: str) -> Mapping[str, Any]:
    """Return the static pod that Cluster Autoscaler expects on new nodes of a group."""
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": f"kube-proxy-{group}",
            "namespace": "kube-system",
            "labels": {"component": "kube-proxy"},
            "annotations": {
                "kubernetes.io/config.source": "file",
                "kubernetes.io/config.mirror": f"kube-proxy-{group}",
            },
        },
        "spec": {
            "containers": [
                {"name": "kube-proxy", "image": "kube-proxy", "resources": {"requests": {"cpu": "100m"}}},
            ]
        },
        "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]},
    }
