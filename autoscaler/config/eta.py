"""Options of pod start estimates and of the clean-up of expired pods."""

from collections.abc import Callable, Iterator
from enum import StrEnum
from typing import Annotated

import msgspec

from autoscaler.config.syntax import Count, OptionalText, Real, StringArray, Support, Switch, Text, choice
from cloudprovider.number import parse_float
from cloudprovider.structure import Syntax

EVERY_NAMESPACE = "*"


class PodStartEstimator(StrEnum):
    """Ways to estimate when a pod starts."""

    PLACEMENT = "placement"
    RATIO = "ratio"


def _above_zero(text: str) -> float:
    try:
        value = parse_float(text)
    except ValueError:
        value = 0.0
    if not value > 0:
        raise ValueError("must be > 0")
    return value


_AboveZero = Annotated[float, Syntax("float", _above_zero, "{:g}".format, types=(int, float))]


class Eta(msgspec.Struct, frozen=True):
    """Pod start estimates, and the clean-up of expired pods."""

    pod_start_estimates: Annotated[Switch, "Estimate when pending pods will be ready.", Support.OURS] = True
    pod_start_estimator: Annotated[
        PodStartEstimator,
        choice(PodStartEstimator),
        "How to estimate: from each pod's planned place, or from a ratio of the cluster's totals.",
        Support.OURS,
    ] = PodStartEstimator.PLACEMENT
    ratio_run_seconds: Annotated[_AboveZero, "How long pods run, for the ratio.", Support.OURS] = 600.0
    ratio_start_seconds: Annotated[
        _AboveZero, "How long a pod takes to start on a node with room, for the ratio.", Support.OURS
    ] = 90.0
    ratio_node_overhead_cpu: Annotated[
        Real, "Cores of each node that the ratio reserves for the system.", Support.OURS
    ] = 2.0
    estimate_max_pods: Annotated[
        Count, "Maximum number of pods that one pass makes estimates for, highest priority first.", Support.OURS
    ] = 500
    persist_boot_times: Annotated[
        Switch,
        "Keep boot times of nodes in the ConfigMap cluster-autoscaler-boot-times, so that they survive a restart.",
        Support.OURS,
    ] = False
    expired_pod_cleanup: Annotated[Switch, "Delete pods whose deadline annotation has passed.", Support.OURS] = False
    expired_pod_namespaces: Annotated[
        StringArray,
        "Namespace in which expired pods are deleted; * means every namespace except kube-system.",
        Support.OURS,
    ] = ()
    expired_pod_annotation: Annotated[
        Text, "Annotation with the Unix seconds after which a pod is deleted.", Support.OURS
    ] = "delete-at"
    expired_pod_max_per_sweep: Annotated[Count, "Maximum number of pods that one sweep deletes.", Support.OURS] = 50
    expired_pod_generation: Annotated[
        OptionalText,
        "Current generation of generated pods. Pods of other generations that have a deadline are deleted once.",
        Support.OURS,
    ] = None


def problems(eta: Eta, place: Callable[[str], str]) -> Iterator[str]:
    """Yield what is wrong between options; `place` says where a flag was set."""
    if not eta.expired_pod_cleanup:
        return
    if not eta.expired_pod_namespaces:
        yield (
            f"{place('expired-pod-namespaces')}: names none; name those in which pods may be deleted, "
            f"or write {EVERY_NAMESPACE}"
        )
    if not eta.expired_pod_annotation:
        yield f"{place('expired-pod-annotation')}: is empty; write for example delete-at"
