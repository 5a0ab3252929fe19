"""Removes the Deployments and the PriorityClass of headroom from a cluster."""

import contextlib
from collections.abc import Iterator

from autoscaler.clock import Clock, ThreadExecutor
from autoscaler.config.headroom import MANAGED_BY, MANAGED_CLASS, MANAGER, POOL, Headroom
from autoscaler.config.tree import Config
from autoscaler.errors import Gone
from autoscaler.headroom.cluster import ClusterHeadroom
from autoscaler.headroom.objects import owner_labels, read_deployment
from autoscaler.kube.client import Client
from autoscaler.kube.dry_run import open_writes
from autoscaler.kube.election import Unopposed
from autoscaler.kube.paths import ObjectRef

_CLASS = ObjectRef("scheduling.k8s.io/v1", "PriorityClass", MANAGED_CLASS)


def clean_up(config: Config, headroom: Headroom, clock: Clock, *, pretend: bool) -> Iterator[str]:
    """Delete the objects with the labels of this headroom, and yield the name of each; raises `AutoscalerError`.

    The class is deleted only if no Deployment of another cluster name needs it. With `pretend`, nothing is deleted.
    """
    executor = ThreadExecutor(1)
    client = Client.connect(config.kube.kubeconfig, config.kube.kubernetes, clock=clock, sleep=executor.sleep)
    writes = open_writes(client, Unopposed(), clock, executor.sleep, dry_run=pretend)
    objects = ClusterHeadroom(client, writes)
    try:
        ours = owner_labels(headroom)
        everyones = [read_deployment(deployment) for deployment in objects.deployments("", {MANAGED_BY: MANAGER})]
        mine = [
            deployment
            for deployment in everyones
            if POOL in deployment.labels and ours.items() <= deployment.labels.items()
        ]
        for deployment in mine:
            objects.delete_deployment(deployment.namespace, deployment.name, deployment.uid)
            yield f"deployment {deployment.namespace}/{deployment.name}"
        if any(POOL in deployment.labels and deployment not in mine for deployment in everyones):
            return
        known = objects.priority_class(MANAGED_CLASS)
        meta = {} if known is None else known["metadata"]
        if not meta.get("uid") or (meta.get("labels") or {}).get(MANAGED_BY) != MANAGER:
            return
        with contextlib.suppress(Gone):
            writes.delete(_CLASS, meta["uid"])
        yield f"priorityclass {MANAGED_CLASS}"
    finally:
        executor.stop()
        client.close()
