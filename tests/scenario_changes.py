"""Applies the changes that remedies propose to scenario documents, mechanically, as an operator would to a cluster."""

import copy
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from autoscaler.explain.remedies import changes as c
from tests.manifests import Json, a_budget, named

_STEP_S = 10.0
"""Of documents that name none."""


def changed(document: Mapping[str, Any], changes: Sequence[c.AnyChange]) -> Json:
    """Return the document with all changes made."""
    after = copy.deepcopy(dict(document))
    for change in changes:
        _apply(change, after)
    return after


def key_of(pod: Json) -> str:
    return f"{pod['metadata'].get('namespace', 'default')}/{pod['metadata']['name']}"


def _pods(document: Json, key: str) -> Iterator[Json]:
    """Yield the pod and those of the same controller, wherever in the document they are."""
    every = [*document.get("pods", []), *(pod for one in document.get("changes", []) for pod in one.get("addPods", []))]
    found = next(pod for pod in every if key_of(pod) == key)
    owners = found["metadata"].get("ownerReferences")
    yield from (pod for pod in every if pod is found or (owners and pod["metadata"].get("ownerReferences") == owners))


def _group(document: Json, group_id: str) -> Json:
    found: Json = next(group for group in document["nodeGroups"] if group["id"] == group_id)
    return found


def _node(document: Json, name: str) -> Json:
    found: Json = next(node for node in document["nodes"] if node["metadata"]["name"] == name)
    return found


def _named(objects: Sequence[Json], key: str) -> Json:
    return next(one for one in objects if key_of(one) == key)


def _apply(change: c.AnyChange, document: Json) -> None:
    match change:
        case c.SetFlag():
            document.setdefault("options", {})[change.flag] = change.value
        case c.Wait():
            document["runs"] = document.get("runs", 1) + math.floor(change.seconds / _step_s(document)) + 1
        case c.Annotate(kind=c.AnnotatableKind.NODE):
            _annotate(_node(document, change.name), change)
        case c.Uncordon():
            _node(document, change.node)["spec"].pop("unschedulable")
        case c.ResizeGroup() | c.SetGroupOption():
            _apply_to_group(change, _group(document, change.group))
        case c.RankFirst():
            document["priorityConfig"] = ranked_first(change.group)
        case c.RaiseQuota():
            _raise_quota(change, document)
        case c.Scale():
            field = change.kind[0].lower() + change.kind[1:] + "s"
            _named(document[field], change.name)["spec"]["replicas"] = change.replicas
        case c.AllowDisruptions():
            _named(document["podDisruptionBudgets"], change.budget)["status"] = {"disruptionsAllowed": change.allowed}
        case c.AddBudget():
            meta = next(_pods(document, change.pod))["metadata"]
            budget = a_budget(1, name="added", namespace=meta.get("namespace", "default"), labels=meta["labels"])
            document.setdefault("podDisruptionBudgets", []).append(budget)
        case c.CreateClaim():
            _add_claim(document, change.claim)
        case c.CreateStorageClass():
            classes = document.setdefault("storageClasses", [])
            classes.append(
                {**named(change.name, ""), "provisioner": "csi", "volumeBindingMode": "WaitForFirstConsumer"}
            )
        case c.AddGroup():
            added = copy.deepcopy(_group(document, change.like))
            added["template"] = added.get("template") or _template_of(document, change.like)
            added["template"]["metadata"].setdefault("labels", {}).update(change.labels)
            document["nodeGroups"].append({**added, "id": f"{change.like}-2", "targetSize": 0})
        case c.DeletePod():
            document["pods"] = [pod for pod in document["pods"] if key_of(pod) != change.pod]
        case c.Annotate():
            for pod in _pods(document, change.name):
                _annotate(pod, change)
        case _:
            for pod in _pods(document, change.pod):
                _apply_to_pod(change, pod)


def _apply_to_group(change: c.ResizeGroup | c.SetGroupOption, group: Json) -> None:
    match change:
        case c.ResizeGroup():
            group.update({} if change.min is None else {"minSize": change.min})
            group.update({} if change.max is None else {"maxSize": change.max})
        case c.SetGroupOption():
            group["options"][change.option] = change.value


def _raise_quota(change: c.RaiseQuota, document: Json) -> None:
    quota = next(one for one in document["capacityQuotas"] if one["metadata"]["name"] == change.quota)
    quota["spec"]["limits"]["resources"][change.resource] = change.value


def _template_of(document: Json, group_id: str) -> Json:
    """Return a template like a node of the group."""
    name = next(name for name, group in document["nodeToGroup"].items() if group == group_id)
    node = _node(document, name)
    return copy.deepcopy({**node, "metadata": {"labels": node["metadata"]["labels"]}})


def _add_claim(document: Json, key: str) -> None:
    """Create a claim with a volume that can be used everywhere."""
    namespace, _, name = key.partition("/")
    claim = {**named(name, namespace, volumeName="made", storageClassName="std"), "status": {"phase": "Bound"}}
    document.setdefault("persistentVolumeClaims", []).append(claim)
    volume = named("made", "", storageClassName="std", claimRef={"name": name, "namespace": namespace})
    document.setdefault("persistentVolumes", []).append(volume)


def _step_s(document: Json) -> float:
    return float(str(document.get("step", _STEP_S)).removesuffix("s"))


def _annotate(one: Json, change: c.Annotate) -> None:
    annotations = one["metadata"].setdefault("annotations", {})
    if change.value is None:
        del annotations[change.key]
    else:
        annotations[change.key] = change.value


def _apply_to_pod(
    change: c.LimitRequest | c.AddToleration | c.DropFromPod | c.SelectLabel | c.AllowSkew | c.SetPriority, pod: Json
) -> None:
    spec = pod["spec"]
    match change:
        case c.LimitRequest():
            (container,) = spec["containers"]
            for one in (container, *spec.get("initContainers", [])):
                requests = one["resources"]["requests"]
                if change.resource in requests:
                    requests[change.resource] = change.at_most
        case c.AddToleration():
            toleration = {"key": change.key, "operator": "Equal", "value": change.value, "effect": change.effect}
            spec["tolerations"] = [*spec.get("tolerations", []), toleration]
        case c.SelectLabel():
            _select(change, spec)
        case c.SetPriority():
            spec["priority"] = change.priority
        case c.AllowSkew():
            for one in spec["topologySpreadConstraints"]:
                if one["topologyKey"] == change.topology_key:
                    one["maxSkew"] = change.max_skew
        case c.DropFromPod():
            _drop(change, pod, spec)


def _select(change: c.SelectLabel, spec: Json) -> None:
    if change.field is c.PodField.NODE_SELECTOR:
        del spec["nodeSelector"][change.wrong_key]
        spec["nodeSelector"][change.key] = change.value
        return
    required = spec["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    for term in required["nodeSelectorTerms"]:
        for one in term["matchExpressions"]:
            if one["key"] == change.wrong_key and change.wrong_value in one["values"]:
                one.update(key=change.key, values=[change.value])


def _drop(change: c.DropFromPod, pod: Json, spec: Json) -> None:
    match change.field:
        case c.PodField.NODE_SELECTOR:
            del spec["nodeSelector"][change.key]
        case c.PodField.NODE_AFFINITY | c.PodField.POD_AFFINITY | c.PodField.POD_ANTI_AFFINITY:
            del spec["affinity"][change.field.value]
        case c.PodField.SPREAD:
            kept = [one for one in spec["topologySpreadConstraints"] if one["topologyKey"] != change.key]
            spec["topologySpreadConstraints"] = kept
        case c.PodField.HOST_PORTS:
            for container in spec["containers"]:
                container.pop("ports", None)
        case c.PodField.RESOURCE_CLAIMS:
            spec.pop("resourceClaims")
        case c.PodField.SCHEDULING_GATES:
            spec.pop("schedulingGates", None)
            pod.pop("status", None)
        case c.PodField.NODE_NAME:
            spec.pop("nodeName")


def ranked_first(group_id: str) -> str:
    """Return the entry of the priority expander's ConfigMap that ranks a group above all others."""
    return f"100:\n  - ^{re.escape(group_id)}$\n1:\n  - .*\n"
