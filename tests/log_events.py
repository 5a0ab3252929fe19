"""Writes docs/log-events.md: the events that the code logs, with their levels and fields, and what each means.

Events, levels and fields come from the code; the meanings are here. `tests/unit/test_log_events.py` compares the two.
"""

import ast
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

ROOT = Path(__file__).parents[1]
_LEVELS = {
    "error": "error",
    "crashed": "error",
    "warning": "warning",
    "give": "warning",  # of the notices of the provider aws, which log a lasting state once
    "info": "info",
    "detail": "detail",
    "debug": "debug",
}
_LOGS = frozenset({"log", "_log", "_logger", "_notices"})
_EVENT = re.compile(r"[a-z_]+\.[a-z_]+")

MEANINGS: Mapping[str, str] = {
    # Passes
    "pass.done": "A pass has ended; `phases` has the seconds of its parts.",
    "pass.failed": "A pass has failed. The next one begins as usual.",
    "pass.crashed": "A pass has ended with an unexpected error; the stack follows.",
    "pass.recovered": "A pass has succeeded again; `after` says how the earlier ones ended.",
    "cluster.unhealthy": "Too many nodes are unready, so nothing is scaled.",
    "cluster.empty": "The cluster has no node, so nothing is scaled.",
    "api_server.silent": "The watches of these kinds report nothing; `kept` says what stays as it is.",
    "api_server.heard_again": "The watches of these kinds report again.",
    "pauses.changed": "What is paused has changed; `paused` has all pauses in force, `ended` those that are over.",
    "companion.failed": "Headroom, reservations, estimates or clean-up has failed; it is tried again.",
    "companion.crashed": "Headroom, reservations, estimates or clean-up met an unexpected error; the stack follows.",
    "resize.deferred": "A pod cannot grow in place: its node `lacks` this much. Logged once, for the first 20 pods.",
    # Scale-up
    "scale_up.decided": "Nodes were requested from a group, for so many pods.",
    "scale_up.failed": "The provider refused nodes, or delivered only `added` of them. The group backs off.",
    "scale_up.finished": "All requested nodes of a group are registered.",
    "scale_up.timed_out": "Requested nodes did not register within `--max-node-provision-time`.",
    "scale_up.impossible": "Pods wait, and no node was requested; `verdicts` counts the pods by reason.",
    "machines.not_created": "The cloud could not create machines; `code` is its reason.",
    "machines.removed": "Machines that failed or never registered were deleted.",
    "machines.not_removed": "Such machines could not be deleted.",
    "machines.kept_at_minimum": "Such machines stay, because the group is at its minimum size.",
    "target.lowered": "The target size of a group was lowered to the machines that exist.",
    "target.not_lowered": "The target size could not be lowered.",
    "template.corrected": "New nodes have less than the group's template says. The real nodes count from now on.",
    "groups.without_price": "An expander compares prices, and these groups have none.",
    "grpc_expander.trouble": "The gRPC expander fails, or its answer is not valid.",
    "grpc_expander.answers_again": "The gRPC expander answers again.",
    # Scale-down
    "scale_down.decided": "The removal of a node begins.",
    "scale_down.aborted": "A removal was given up; the node returns to service.",
    "scale_down.abandoned": "The process stops or has lost the lease. The next leader cleans the removal up.",
    "scale_down.crashed": "A removal has ended with an unexpected error; the stack follows, and the nodes stay.",
    "scale_down.eviction_failed": "The API server refused an eviction; it is tried again while there is time.",
    "scale_down.daemon_pod_stays": "A DaemonSet's pod could not be evicted; the removal goes on.",
    "scale_down.delay_over": "An annotation still delays the deletion, but `--node-deletion-delay-timeout` is over.",
    "scale_down.budget_overruled": "A pod was deleted although a PodDisruptionBudget forbids it: its grace is over.",
    "scale_down.pods_left": "Evicted pods of an unhealthy node did not end in their time; its machine is deleted.",
    "scale_down.outcome_unknown": "The provider cannot tell whether it deletes machines; the next pass looks again.",
    "scale_down.taint_stays": "The taint of a node that stays could not be removed; it is tried again.",
    "scale_down.soft_taint_failed": "The soft taint of an unneeded node could not be set or removed.",
    "node.not_annotated": "An annotation of a node could not be written.",
    "replacement.stage": "The replacement of nodes has reached another stage; see [replacing nodes](consolidation.md).",
    # Requests, buffers
    "request.status": "A condition of a ProvisioningRequest was written.",
    "request.not_written": "The status of a ProvisioningRequest could not be written.",
    "request.deleted": "An old ProvisioningRequest was deleted.",
    "quota.judged": "A CapacityQuota was found valid, or `problem` says why not.",
    "quota.not_written": "The status of a CapacityQuota could not be written.",
    "buffer.status": "The status of a CapacityBuffer was written.",
    "buffer.not_completed": "A dry run of a CapacityBuffer's pod failed; its template is used as written.",
    "buffer.not_written": "The status of a CapacityBuffer could not be written.",
    # Process and configuration
    "daemon.started": "The process runs with this version; `address` serves the status page and the metrics.",
    "daemon.stopped": "The process ends.",
    "watchdog.gone": "The process that watches for a stuck daemon has ended.",
    "config.flags_without_effect": "These flags are accepted, but have no effect.",
    "config.scheduler_profile": "A part of the scheduler's configuration has no effect, or is questionable.",
    "config.unknown_groups": "Windows or rates name groups that do not exist.",
    "config.headroom": "A part of the headroom configuration is questionable.",
    "config.reloaded": "A changed configuration file is in use.",
    "config.needs_restart": "These options differ from the file until a restart.",
    "config.not_reloaded": "A changed file is wrong, so the present configuration stays; one line per problem.",
    "feature.resting": "A feature is suspended, because the autoscaler may not read a kind that it needs.",
    "lease.acquired": "This replica leads.",
    "lease.failing": "The lease could not be read or renewed; it is tried again.",
    "lease.lost": "This replica does not lead any more and ends; `holder` is the leader that it last saw.",
    "lease.crashed": "The leader election has ended with an unexpected error; the stack follows.",
    "lease.released": "This replica has given up the lease at its end, so that another one can lead at once.",
    "lease.not_released": "The lease could not be given up; another replica leads when it has expired.",
    # API server
    "kube.synced": "All objects have been read once.",
    "kube.not_synced": "So many kinds could not be read yet; `path` and `error` are those of one of them.",
    "kube.unreachable": "The API server does not answer at the start.",
    "kube.kind_absent": "The cluster does not have a kind, or the autoscaler may not read it.",
    "kube.kind_present": "A kind that was absent can be read.",
    "kube.watch_failing": "The list or watch of a kind fails; it is tried again.",
    "kube.watch_recovered": "The watch of a kind works again.",
    "kube.watch_crashed": "The watch of a kind has met an unexpected error; the stack follows, and it begins anew.",
    "kube.undecoded": "An [object](operating.md#objects-that-cannot-be-decoded) cannot be decoded.",
    "kube.server_warns": "The API server has sent a warning, for example about a deprecated version. Each once.",
    "kube.clocks_differ": "The clocks of this machine and of the API server differ by more than a minute.",
    "kube.clocks_agree": "The clocks agree again.",
    "kube.tls_not_verified": "The kubeconfig turns the check of the server's certificate off.",
    # What others see
    "event.withheld": "A dry run would have written this Kubernetes event.",
    "event.given_up": "A Kubernetes event could not be written.",
    "event.lost": "A Kubernetes event was lost to an unexpected error; the stack follows.",
    "status_map.not_written": "The status ConfigMap could not be written.",
    "status_map.written_again": "The status ConfigMap could be written again, after so many failures.",
    "status_map.not_removed": "The status ConfigMap could not be deleted at the end.",
    "advice.failed": "The advice about pending pods has met an unexpected error; the stack follows, and passes go on.",
    "explain.failed": "An explanation has met an unexpected error; the stack follows, and passes go on.",
    "recorder.not_written": "A recording could not be written to its directory.",
    "recorder.crashed": "A recording has met an unexpected error; the stack follows.",
    "http.answered": "A request was answered.",
    "http.connection_lost": "A connection broke.",
    "http.too_many_connections": "Connections were closed, because too many were open; at most one line a minute.",
    "http.no_thread": "A connection could not be served, because the system has no thread left.",
    "http.failed": "A request has met an unexpected error; the stack follows, and the client got status 500.",
    # Providers
    "provider.unavailable": "The cloud does not answer; it is tried again.",
    "provider.not_cleaned_up": "The provider could not clean up at the end.",
    "provider.served": "`autoscaler provider serve` accepts connections.",
    "aws.group_left_out": "A discovered group is not scaled.",
    "aws.group_missing": "A group of `--nodes` does not exist any more, or is being deleted.",
    "aws.activities_unknown": "The scaling activities of a group cannot be read, so failures are detected late.",
    "aws.no_template": "A group without nodes cannot be described, so it cannot grow from zero.",
    "aws.nodegroup_unknown": "The managed node group cannot be read; its labels and taints may be missing.",
    "aws.tags_without_effect": "Tags of a group cannot be parsed.",
    "azure.not_refreshed": "The scale sets could not be read; the last state counts.",
    "azure.operation_failed": "Azure could not do what was requested of a scale set.",
    "azure.progress_unknown": "The progress of a request cannot be read.",
    "azure.scale_set_ignored": "A matching scale set is not scaled.",
    "azure.sizes_unknown": "Machine sizes cannot be read; only tags describe the nodes of empty scale sets.",
    "clusterapi.unusable": "An object of Cluster API cannot be used; the line says which and why.",
    "gce.no_template": "An instance template cannot be used, so its group cannot grow from zero.",
    "gce.group_left_out": "A discovered group is not scaled.",
    # Companions
    "headroom.scaled": "A pool has got another number of pods; `policy` and `reason` say why.",
    "headroom.reloaded": "A changed headroom configuration is in use.",
    "headroom.drift_corrected": "Somebody else changed a pool's Deployment; it was changed back.",
    "headroom.not_reconciled": "A pool could not be checked or changed.",
    "headroom.priority_class": "The PriorityClass of a pool is missing or unsuitable.",
    "headroom.priority_class_not_seen": "The autoscaler may not read the PriorityClass of a pool.",
    "headroom.pod_not_marked": "The order in which a pool gives up its pods could not be written.",
    "headroom.orphan_deleted": "A Deployment whose pool does not exist any more was deleted.",
    "headroom.orphans_not_collected": "Deployments without a pool could not be found or deleted.",
    "headroom.heartbeat_unreadable": "The heartbeat of a Deployment without a pool cannot be read, so it stays.",
    "headroom.not_left_in_order": "What should happen to a pool at the end could not be done.",
    "reservations.announced": "Announced work was accepted or refused; further fields say what it was.",
    "reservations.ignored": "An announcement does not change anything; `reason` says why.",
    "reservations.stored": "Announcements were stored; `seconds` is how long the slowest took.",
    "reservations.not_stored": "Announcements could not be stored; they are tried again.",
    "reservations.not_flushed": "At the end so many announcements were not stored.",
    "reservations.dropped": "Announcements were dropped; `reason` says why.",
    "reservations.crashed": "Storing has met an unexpected error; the stack follows, and it is tried again.",
    "reservations.loaded": "The stored reservations of all targets have been read.",
    "reservations.not_loaded": "The stored reservations of a target could not be read; they are tried again.",
    "reservations.not_refreshed": "The stored reservations could not be read again; the last state counts.",
    "reservations.unreadable": "The stored reservations of a target cannot be understood. An operator has to look.",
    "reservations.template_unusable": "The pod template of a target cannot be used.",
    "reservations.secret_not_read": "The file of a secret could not be read.",
    "reservations.unsigned": "Announcements need no signature here.",
    "reservations.not_listening": "Announcements are not received.",
    "eta.node_booted": "A node has become Ready, so many seconds after it was requested.",
    "eta.pod_ended": "A pod has ended: when it was requested, estimated and ready, and the error of the estimate.",
    "eta.boot_times_not_stored": "Learned boot times could not be stored.",
    "notices.not_received": "The cloud's queue of notices could not be read; it is read again.",
    "notices.not_written": "A notice could not be written to its node; the cloud sends it again.",
    "notices.written": "The cloud announced that a machine leaves or stays, and its node says so now.",
    "aws.notice_unreadable": "A message in the queue of notices was no event of EventBridge; it was deleted.",
    "expired_pods.deleted": "An expired pod was deleted.",
    "expired_pods.not_deleted": "An expired pod could not be deleted; it is tried again.",
    "expired_pods.not_listed": "Expired pods could not be listed.",
}


def logged() -> dict[str, tuple[set[str], dict[str, None]]]:
    """Return the levels and the fields, in order, of every event in the code."""
    found: dict[str, tuple[set[str], dict[str, None]]] = {}
    for package in ("autoscaler", "cloudprovider"):
        for path in sorted((ROOT / package).rglob("*.py")):
            for event, level, fields in _calls(ast.parse(path.read_text())):
                levels, known = found.setdefault(event, (set(), {}))
                levels.add(level)
                known.update(dict.fromkeys(fields))
    return found


def _calls(module: ast.Module) -> Iterator[tuple[str, str, list[str]]]:
    """Yield event, level and fields. A call whose event is a variable stands for all events that the module defines."""
    for node in ast.walk(module):
        match node:
            case ast.Call(func=ast.Attribute(value=ast.Name(id=log) | ast.Attribute(attr=log), attr=method)) if (
                log in _LOGS and method in _LEVELS
            ):
                for event in _events(node.args[0], module):
                    yield event, _LEVELS[method], _fields(node, method, module)


def _events(named: ast.expr, module: ast.Module) -> list[str]:
    if isinstance(named, ast.Constant):
        return [str(named.value).split()[0]]
    values = [value for one in module.body if isinstance(one, ast.Assign) for value in ast.walk(one.value)]
    texts = [value.value for value in values if isinstance(value, ast.Constant) and isinstance(value.value, str)]
    return [text for text in texts if _EVENT.fullmatch(text)]


def _fields(call: ast.Call, method: str, module: ast.Module) -> list[str]:
    if method == "give":
        return ["group", "why"]
    named = [keyword.arg for keyword in call.keywords if keyword.arg not in (None, "extra")]
    mapped = [keyword.value for keyword in call.keywords if keyword.arg in (None, "extra")]
    return [*filter(None, named), *(key for value in mapped for key in _keys(value, module))]


def _keys(value: ast.expr, module: ast.Module) -> list[str]:
    """Return the keys of dictionaries in an expression; for `{"fields": fields}` those that the module gives to it."""
    texts = [key for one in ast.walk(value) if isinstance(one, ast.Dict) for key in one.keys]
    keys = [str(key.value) for key in texts if isinstance(key, ast.Constant)]
    if keys != ["fields"]:
        return [key for key in keys if key != "fields"]
    assignments = [one for one in ast.walk(module) if isinstance(one, ast.Assign)]
    values = [one.value for one in assignments if ast.unparse(one.targets[0]) == "fields"]
    return [key for assigned in values for key in _keys(assigned, module)]


def markdown() -> str:
    """Write docs/log-events.md."""
    found = logged()
    lines = [
        "# Log events",
        "",
        "Generated from the code by `make docs`; the meanings are in `tests/log_events.py`.",
        "",
        "Every log line has an event name and fields. With `--logging-format=json` the name is in `event`, beside",
        "`ts`, `level` and `caller`. You can search for the names and count them. Lines of level `detail` appear from",
        "`--v=4` on, lines of level `debug` from `--v=5` on. A lasting state is logged when it begins and changes.",
        "",
        "```sh",
        "kubectl -n kube-system logs deployment/cluster-autoscaler | grep -E 'scale_(up|down)\\.'",
        "```",
        "",
        "| Event | Level | Fields | Meaning |",
        "|---|---|---|---|",
    ]
    for event in sorted(MEANINGS):
        levels, fields = found.get(event, (set(), {}))
        names = ", ".join(f"`{field}`" for field in fields)
        lines.append(f"| `{event}` | {', '.join(sorted(levels))} | {names} | {MEANINGS[event]} |")
    return "\n".join([*lines, ""])


if __name__ == "__main__":
    print(markdown(), end="")
