"""What an instance template's metadata says about the nodes: the `kube-env` key and its `AUTOSCALER_ENV_VARS`.

The tools that set up clusters on Compute Engine write the settings of a node's kubelet there. Source of the rules:
Cluster Autoscaler's templates for GCE.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from cloudprovider.document import parse_documents
from cloudprovider.interface import TaintSpec
from cloudprovider.number import parse_count
from cloudprovider.quantity import parse_quantity

_KEY = "kube-env"
_AUTOSCALER_VARS = "AUTOSCALER_ENV_VARS"
_KUBELET_ARGS = ("KUBELET_TEST_ARGS", "KUBELET_ARGS")
_RESOURCE_LABEL = "clusterautoscaler-nodetemplate-resources."
_DISTRIBUTIONS = {
    "cos": "cos",
    "cos_containerd": "cos",
    "ubuntu": "ubuntu",
    "ubuntu_containerd": "ubuntu",
    "windows_ltsc": "windows_ltsc",
    "windows_sac": "windows_sac",
}
_RESERVABLE = ("cpu", "memory", "ephemeral-storage")


class KubeEnv(msgspec.Struct, frozen=True, kw_only=True):
    """What the metadata says about a group's future nodes."""

    labels: Mapping[str, str] = {}
    taints: Sequence[TaintSpec] = ()
    os: str = "linux"
    distribution: str = "cos"
    arch: str | None = None
    """None: the machine type decides."""
    kube_reserved: Mapping[str, str] | None = None
    """Quantities by resource; None if they are not known."""
    eviction_hard: Mapping[str, str] = {}
    extended_resources: Mapping[str, str] = {}
    options: Mapping[str, str] = {}
    """Overrides of flags by key."""
    local_ssds_for_storage: int = 0
    """Local SSDs that hold the nodes' ephemeral storage."""
    storage_on_boot_disk: bool = True
    max_pods: int | None = None


def read_kube_env(metadata: Mapping[str, Any]) -> KubeEnv:
    """Read the metadata of an instance template; `ValueError` for invalid labels, taints or form."""
    items = metadata.get("items") or []
    text = next((item.get("value") or "" for item in items if item.get("key") == _KEY), "")
    try:
        documents = parse_documents(text)
    except ValueError:
        documents = [None]
    env = documents[0] if documents else {}
    if not isinstance(env, Mapping):
        raise ValueError(f"{_KEY} is not a YAML mapping") from None  # the text holds credentials of nodes: say no more
    return _read({str(key): "" if value is None else str(value) for key, value in env.items()})


def _read(env: Mapping[str, str]) -> KubeEnv:
    variables = _variables(env.get(_AUTOSCALER_VARS, ""))
    labels = _pairs(variables.get("node_labels", env.get("NODE_LABELS", "")))
    os = variables.get("os", "linux")
    if os not in {"linux", "windows"}:
        raise ValueError(f"os={os} is neither linux nor windows")
    arch = variables.get("arch")
    kubelet = " ".join(env.get(name, "") for name in _KUBELET_ARGS)
    max_pods = re.search(r"--max-pods=([0-9]+)", kubelet)
    return KubeEnv(
        labels=labels,
        taints=_taints(variables.get("node_taints", env.get("NODE_TAINTS", ""))),
        os=os,
        distribution=_DISTRIBUTIONS.get(variables.get("os_distribution", "cos"), "cos"),
        arch=arch if arch in {"amd64", "arm64"} else None,
        kube_reserved=_kube_reserved(variables, kubelet),
        eviction_hard=_lenient_pairs(variables.get("evictionHard", "")),
        extended_resources=_extended_resources(variables, labels),
        options=_lenient_pairs(variables.get("autoscaling_options", "")),
        local_ssds_for_storage=_count(variables.get("ephemeral_storage_local_ssd_count", "")),
        storage_on_boot_disk=variables.get("BLOCK_EPH_STORAGE_BOOT_DISK") != "true",
        max_pods=None if max_pods is None else parse_count(max_pods[1]),
    )


def _variables(text: str) -> dict[str, str]:
    """Read `name=value;...`. The first of two equal names counts. Names without a value are ignored."""
    variables: dict[str, str] = {}
    for part in text.split(";"):
        name, equals, value = part.strip(" ").partition("=")
        if equals:
            variables.setdefault(name.strip(" "), value.strip(" \"'"))
    return variables


def _pairs(text: str) -> dict[str, str]:
    """Read `key=value,...`."""
    pairs: dict[str, str] = {}
    for part in text.split(",") if text else ():
        key, equals, value = part.partition("=")
        if not equals:
            raise ValueError(f"{part!r} is not key=value")
        pairs[key] = value
    return pairs


def _lenient_pairs(text: str) -> dict[str, str]:
    try:
        return _pairs(text)
    except ValueError:
        return {}


def _taints(text: str) -> tuple[TaintSpec, ...]:
    taints: list[TaintSpec] = []
    for key, rest in _pairs(text).items():
        value, colon, effect = rest.partition(":")
        if not colon:
            raise ValueError(f"taint {key}={rest} is not key=value:effect")
        taints.append(TaintSpec(key, value, effect))
    return tuple(taints)


def _kube_reserved(variables: Mapping[str, str], kubelet: str) -> dict[str, str] | None:
    text = variables.get("kube_reserved")
    if text is None:
        flag = re.search(r"--kube-reserved=([^ ]+)", kubelet)
        text = None if flag is None else flag[1]
    if text is None:
        return None
    try:
        return {name: amount for name, amount in _pairs(text).items() if name in _RESERVABLE and _is_amount(amount)}
    except ValueError:
        return None


def _extended_resources(variables: Mapping[str, str], labels: Mapping[str, str]) -> dict[str, str]:
    by_label = {
        label.removeprefix(_RESOURCE_LABEL): amount
        for label, amount in labels.items()
        if label.startswith(_RESOURCE_LABEL) and "node_labels" in variables
    }
    resources = {**_lenient_pairs(variables.get("extended_resources", "")), **by_label}
    return {name: amount for name, amount in resources.items() if name and _is_amount(amount)}


def _is_amount(text: str) -> bool:
    try:
        return parse_quantity(text) >= 0
    except ValueError:
        return False


def _count(text: str) -> int:
    return parse_count(text) or 0
