"""One word for the state of a pod, as `kubectl get pods` shows it."""

from typing import Any

from autoscaler.objects.meta import JsonObject


def status_text(pod: JsonObject) -> str:
    """The phase, or what says more: a waiting or failed container, initialisation, termination."""
    status = pod.get("status") or {}
    word = str(status.get("reason") or status.get("phase") or "Unknown")
    gated = any(condition.get("reason") == "SchedulingGated" for condition in status.get("conditions") or ())
    if gated and not (pod.get("spec") or {}).get("nodeName"):
        word = "SchedulingGated"
    word = _initializing(pod, status) or _from_containers(status) or word
    if pod["metadata"].get("deletionTimestamp") is not None:
        return "Unknown" if status.get("reason") == "NodeLost" else "Terminating"
    return word


def ready_count(pod: JsonObject) -> str:
    """Ready containers of all, those that run beside the others (sidecars) included."""
    status, sidecars = pod.get("status") or {}, _sidecars(pod)
    beside = [container for container in status.get("initContainerStatuses") or () if container.get("name") in sidecars]
    ready = [container for container in (*beside, *(status.get("containerStatuses") or ())) if container.get("ready")]
    return f"{len(ready)}/{len(_containers(pod, 'containers')) + len(sidecars)}"


def restarts(pod: JsonObject) -> str:
    """How often containers restarted."""
    statuses = (pod.get("status") or {}).get("containerStatuses") or ()
    return str(sum(int(container.get("restartCount") or 0) for container in statuses))


def _containers(pod: JsonObject, field: str) -> list[Any]:
    return list((pod.get("spec") or {}).get(field) or ())


def _sidecars(pod: JsonObject) -> set[str]:
    """Names of the init containers that go on running."""
    return {
        container["name"]
        for container in _containers(pod, "initContainers")
        if container.get("restartPolicy") == "Always"
    }


def _initializing(pod: JsonObject, status: JsonObject) -> str | None:
    total = len(_containers(pod, "initContainers"))
    for position, container in enumerate(status.get("initContainerStatuses") or ()):
        state = container.get("state") or {}
        if (state.get("terminated") or {}).get("exitCode") == 0:
            continue
        if container.get("started") and container.get("name") in _sidecars(pod):
            continue
        if state.get("terminated"):
            return f"Init:{state['terminated'].get('reason') or 'Error'}"
        reason = (state.get("waiting") or {}).get("reason")
        return f"Init:{reason}" if reason and reason != "PodInitializing" else f"Init:{position}/{total}"
    return None


def _from_containers(status: JsonObject) -> str | None:
    word = None
    for container in reversed(status.get("containerStatuses") or ()):
        state = container.get("state") or {}
        waiting, terminated = state.get("waiting") or {}, state.get("terminated")
        if waiting.get("reason"):
            word = str(waiting["reason"])
        elif terminated is not None:
            word = str(terminated.get("reason") or f"ExitCode:{terminated.get('exitCode', 0)}")
    return word
