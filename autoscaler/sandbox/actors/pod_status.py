"""Pod statuses as kubelets report them at each stage."""

from typing import Any

from autoscaler.objects.meta import JsonObject, rfc3339
from autoscaler.sandbox.actors.wire import new_condition

_Condition = tuple[str, bool, str]


def starting(pod: JsonObject, host_ip: str, wall: float) -> JsonObject:
    """Images are being pulled."""
    waiting = {"waiting": {"reason": "ContainerCreating"}}
    unready = "ContainersNotReady"
    conditions = (("Initialized", True, ""), ("Ready", False, unready), ("ContainersReady", False, unready))
    return {
        "phase": "Pending",
        "hostIP": host_ip,
        "hostIPs": [{"ip": host_ip}],
        "startTime": rfc3339(wall),
        "conditions": _conditions(pod, conditions, wall),
        "containerStatuses": [_container(container, waiting, ready=False) for container in pod["spec"]["containers"]],
    }


def running(pod: JsonObject, pod_ip: str, wall: float) -> JsonObject:
    """Every container runs and serves; init containers are through."""
    timestamp = rfc3339(wall)
    started = {"running": {"startedAt": timestamp}}
    conditions = (("Initialized", True, ""), ("Ready", True, ""), ("ContainersReady", True, ""))
    status: JsonObject = {
        "phase": "Running",
        "podIP": pod_ip,
        "podIPs": [{"ip": pod_ip}],
        "conditions": _conditions(pod, conditions, wall),
        "containerStatuses": [_container(container, started, ready=True) for container in pod["spec"]["containers"]],
    }
    if first := pod["spec"].get("initContainers"):
        ended = {"terminated": {"exitCode": 0, "reason": "Completed", "startedAt": timestamp, "finishedAt": timestamp}}
        status["initContainerStatuses"] = [
            _container(container, started if container.get("restartPolicy") == "Always" else ended, ready=True)
            for container in first
        ]
    return status


def ended(pod: JsonObject, exit_code: int, wall: float) -> JsonObject:
    """Every container has ended for good."""
    reason = "Completed" if exit_code == 0 else "Error"
    conditions = (("Ready", False, "PodCompleted"), ("ContainersReady", False, "PodCompleted"))
    before = {
        container_status["name"]: container_status
        for container_status in (pod.get("status") or {}).get("containerStatuses") or ()
    }
    statuses = []
    for container in pod["spec"]["containers"]:
        was = (before.get(container["name"], {}).get("state") or {}).get("running") or {}
        over = {"exitCode": exit_code, "reason": reason, "finishedAt": rfc3339(wall), **was}
        statuses.append(_container(container, {"terminated": over}, ready=False))
    phase = "Succeeded" if exit_code == 0 else "Failed"
    return {"phase": phase, "conditions": _conditions(pod, conditions, wall), "containerStatuses": statuses}


def _conditions(pod: JsonObject, conditions: tuple[_Condition, ...], wall: float) -> list[JsonObject]:
    return [
        {**new_condition(pod, kind, holds=holds, reason=reason, message="", wall=wall), "lastProbeTime": None}
        for kind, holds, reason in conditions
    ]


def _container(container: JsonObject, state: dict[str, Any], *, ready: bool) -> JsonObject:
    name, image = container["name"], container["image"]
    image_id = f"sandbox://{image}" if "waiting" not in state else ""
    status = {"name": name, "image": image, "imageID": image_id, "restartCount": 0, "state": state, "lastState": {}}
    return {**status, "ready": ready, "started": "running" in state}
