"""The permissions in the manifests equal the requests of a daemon that uses all of its features."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import yaml

from autoscaler.sandbox.apiserver.request_log import RequestAttributes
from tests.e2e.asking import BUFFERS, CRDS, REQUESTS, ask, conditions, define, set_conditions
from tests.e2e.machines import AMOUNTS, Machinery, a_group
from tests.e2e.replica import HOME, PATIENT_LEADER, Replica, Sandbox, a_cloud, until
from tests.fakes import capi
from tests.unit.capacity import quota_definition

MANIFESTS = Path(__file__).parents[2] / "manifests"
BASE = ("base/cluster-role.yaml", "base/role.yaml")
KWOK = "overlays/kwok/role.yaml"
CLUSTERAPI = "overlays/clusterapi/role.yaml"
PROVISIONING = "components/provisioning-requests/cluster-role.yaml"
BUFFERING = "components/capacity-buffers/cluster-role.yaml"
QUOTAS = "components/capacity-quotas/cluster-role.yaml"
DRY_RUN = "overlays/dry-run/read-only.yaml"
NAME = "cluster-autoscaler"

Permission = tuple[str, str, str]
"""API group, resource with its subresource, verb."""

READ_BY_LIST = "followed by list and watch; `get` shows no more than those, and stock installations grant it"
NEVER_ASKED_FOR: Mapping[Permission, str] = {
    **{("", kind, "get"): READ_BY_LIST for kind in ("namespaces", "persistentvolumeclaims", "persistentvolumes")},
    **{("", kind, "get"): READ_BY_LIST for kind in ("pods", "replicationcontrollers")},
    **{("apps", kind, "get"): READ_BY_LIST for kind in ("daemonsets", "replicasets", "statefulsets")},
    **{("storage.k8s.io", kind, "get"): READ_BY_LIST for kind in ("csidrivers", "csinodes", "csistoragecapacities")},
    **{("storage.k8s.io", kind, "get"): READ_BY_LIST for kind in ("storageclasses", "volumeattachments")},
    **{
        ("resource.k8s.io", kind, "get"): READ_BY_LIST
        for kind in ("deviceclasses", "devicetaintrules", "resourceclaims", "resourceclaimtemplates", "resourceslices")
    },
    **{
        (group, "podgroups", "get"): READ_BY_LIST
        for group in ("scheduling.k8s.io", "scheduling.volcano.sh", "scheduling.x-k8s.io")
    },
    ("scheduling.k8s.io", "workloads", "get"): READ_BY_LIST,
    ("batch", "jobs", "get"): READ_BY_LIST,
    ("policy", "poddisruptionbudgets", "get"): READ_BY_LIST,
}
CREATED_BY_APPLY = ("", "podtemplates", "create")
"""A real server asks for it besides `patch` when an apply makes a new object; the log has the verb of the request."""
SCALES_DOWN = (
    "--scale-down-unneeded-time=1s",
    "--scale-down-delay-after-add=0s",
    "--scale-down-utilization-threshold=0.9",
    "--unremovable-node-recheck-timeout=1s",
    "--node-delete-delay-after-taint=0s",
)


def roles(files: Iterable[str]) -> list[Any]:
    documents = (one for file in files for one in yaml.safe_load_all((MANIFESTS / file).read_text()))
    return [document for document in documents if document and "rules" in document]


def granted(files: Iterable[str]) -> set[Permission]:
    return {
        (group, resource, verb)
        for role in roles(files)
        for rule in role["rules"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }


def allows(role: Mapping[str, Any], asked: RequestAttributes) -> bool:
    """Whether the role, bound in its namespace or in the whole cluster, lets the request pass."""
    if role["kind"] == "Role" and asked.namespace != HOME:
        return False
    group, resource, verb = permission(asked)
    # Of lists and watches the log has no name; a real server takes it from the field selector `metadata.name`.
    return any(
        group in rule["apiGroups"]
        and resource in rule["resources"]
        and verb in rule["verbs"]
        and ("resourceNames" not in rule or verb in {"list", "watch"} or asked.name in rule["resourceNames"])
        for rule in role["rules"]
    )


def permission(asked: RequestAttributes) -> Permission:
    return asked.group, "/".join(filter(None, (asked.resource, asked.subresource))), asked.verb


def denied(files: Iterable[str], seen: Iterable[RequestAttributes]) -> set[tuple[str, str, str, str, str]]:
    bound = roles(files)
    return {
        (*permission(one), one.namespace, one.name)
        for one in seen
        if one.resource and not any(allows(role, one) for role in bound)
    }


def one_of_each_kind_of_event(sandbox: Sandbox) -> bool:
    return {"create", "patch"} <= {one.verb for one in sandbox.asked(NAME) if one.resource == "events"}


def test_a_daemon_that_buys_drains_and_repeats_itself_needs_exactly_the_base(tmp_path: Path) -> None:
    cloud = a_cloud("web")
    flags = ("--expander=priority,random", "--record-duplicated-events", *PATIENT_LEADER, *SCALES_DOWN)
    with Sandbox(tmp_path, cloud) as sandbox:
        priorities = {"name": "cluster-autoscaler-priority-expander", "namespace": HOME}
        sandbox.storage.create("configmaps", {"metadata": priorities, "data": {"priorities": "1: [web]"}})
        with Replica(sandbox.kubeconfig, *flags, provider=cloud, name=NAME) as replica:
            sandbox.deploy("large", 2)
            sandbox.until_running(2)
            sandbox.deploy("small", 2, cpu="80m")
            sandbox.until_running(4)
            sandbox.deploy("hopeless", 1, cpu="50")
            sandbox.deploy("large", 0)
            until(lambda: len(sandbox.nodes()) == 1 and sandbox.running() == 2, "one node is drained")
            until(lambda: one_of_each_kind_of_event(sandbox), "an event is repeated")
            assert replica.stop() == 0
        seen = sandbox.asked(NAME)
    assert denied(BASE, seen) == set()
    assert granted(BASE) - set(map(permission, seen)) == set(NEVER_ASKED_FOR)
    assert [one.path for one in seen if not one.resource] == []


def test_a_daemon_that_makes_fake_nodes_needs_exactly_the_overlay_besides(tmp_path: Path) -> None:
    with Sandbox(tmp_path) as sandbox:
        with Replica(sandbox.kubeconfig, "--cloud-provider=kwok", *PATIENT_LEADER, name=NAME) as replica:
            sandbox.deploy("web", 1)
            sandbox.until_running(1)
            assert replica.stop() == 0
        assert sandbox.nodes() == []
        seen = sandbox.asked(NAME)
    assert denied((*BASE, KWOK), seen) == set()
    assert granted([KWOK]) - set(map(permission, seen)) == set()


def test_a_daemon_that_scales_machines_needs_exactly_the_overlay_besides(tmp_path: Path) -> None:
    """One group of each kind grows and shrinks; what one of them offers is told by its machine template alone."""
    ref = {"apiGroup": capi.INFRASTRUCTURE, "kind": "DockerMachineTemplate", "name": "small"}
    small = {
        "apiVersion": f"{capi.INFRASTRUCTURE}/v1beta2",
        "kind": "DockerMachineTemplate",
        "metadata": {"name": "small", "namespace": "default"},
        "status": {"capacity": AMOUNTS},
    }
    pools = {"deployed": "MachineDeployment", "set": "MachineSet", "pooled": "MachinePool"}
    groups = [
        a_group(kind, name, template={"spec": {"infrastructureRef": ref}} if name == "set" else None)
        for name, kind in pools.items()
    ]
    groups[-1]["metadata"]["labels"] = {"machines": ""}
    with Sandbox(tmp_path) as sandbox, Machinery(sandbox) as machinery:
        machinery.add(small, *groups)
        flags = ("--cloud-provider=clusterapi", *PATIENT_LEADER, *SCALES_DOWN)
        with Replica(sandbox.kubeconfig, *flags, name=NAME) as replica:
            for pool in pools:
                sandbox.deploy(pool, 1, nodeSelector={"pool": pool})
            sandbox.until_running(3)
            assert machinery.replicas() == dict.fromkeys(pools, 1)
            for pool in pools:
                sandbox.deploy(pool, 0, nodeSelector={"pool": pool})
            until(lambda: machinery.replicas() == dict.fromkeys(pools, 0), "all are deleted")
            assert replica.stop() == 0
        seen = sandbox.asked(NAME)
    assert denied((*BASE, CLUSTERAPI), seen) == set()
    assert granted([CLUSTERAPI]) - set(map(permission, seen)) == set()


def test_serving_requests_needs_exactly_their_component_besides(tmp_path: Path) -> None:
    cloud = a_cloud("web")
    with Sandbox(tmp_path, cloud) as sandbox:
        define(sandbox)
        ask(sandbox, "over", 1)
        long_ago = {"type": "Failed", "status": "True", "lastTransitionTime": "2020-01-01T00:00:00Z"}
        set_conditions(sandbox, "over", [{**long_ago, "reason": "Expired", "message": ""}])
        flags = ("--enable-provisioning-requests", *PATIENT_LEADER)
        with Replica(sandbox.kubeconfig, *flags, provider=cloud, name=NAME) as replica:
            until(lambda: not sandbox.storage.list(REQUESTS), "what has been over for long is deleted")
            ask(sandbox, "job", 1)
            until(lambda: "Provisioned" in conditions(sandbox, REQUESTS, "job"), "a request is served")
            assert replica.stop() == 0
        seen = sandbox.asked(NAME)
    assert denied((*BASE, PROVISIONING), seen) == set()
    assert granted([PROVISIONING]) - set(map(permission, seen)) == set()


def test_following_buffers_needs_exactly_their_component_besides(tmp_path: Path) -> None:
    cloud = a_cloud("web")
    ref = {"apiGroup": "apps", "kind": "Deployment", "name": "web"}
    with Sandbox(tmp_path, cloud) as sandbox:
        define(sandbox)
        sandbox.deploy("web", 1)
        spec = {"scalableRef": ref, "percentage": 100}
        sandbox.storage.create(BUFFERS, {"metadata": {"name": "spare"}, "spec": spec})
        flags = ("--capacity-buffer-controller-enabled", "--capacity-buffer-pod-injection-enabled", *PATIENT_LEADER)
        with Replica(sandbox.kubeconfig, *flags, provider=cloud, name=NAME) as replica:
            until(lambda: "Provisioning" in conditions(sandbox, BUFFERS, "spare"), "room is kept")
            assert replica.stop() == 0
        seen = sandbox.asked(NAME)
    assert denied((*BASE, BUFFERING), seen) == set()
    assert granted([BUFFERING]) - set(map(permission, seen)) == {CREATED_BY_APPLY}


def test_keeping_quotas_needs_exactly_their_component_besides(tmp_path: Path) -> None:
    cloud = a_cloud("web")
    with Sandbox(tmp_path, cloud) as sandbox:
        sandbox.storage.create(CRDS, quota_definition())
        spec = {"limits": {"resources": {"nodes": 1}}}
        sandbox.storage.create("capacityquotas", {"metadata": {"name": "few"}, "spec": spec})
        with Replica(
            sandbox.kubeconfig, "--capacity-quotas-enabled", *PATIENT_LEADER, provider=cloud, name=NAME
        ) as replica:
            sandbox.deploy("web", 5)
            used = {"resources": {"nodes": "1"}}
            until(
                lambda: sandbox.storage.list("capacityquotas")[0].get("status", {}).get("used") == used, "one is used"
            )
            assert sandbox.targets() == {"web": 1}
            assert replica.stop() == 0
        seen = sandbox.asked(NAME)
    assert denied((*BASE, QUOTAS), seen) == set()
    assert granted([QUOTAS]) - set(map(permission, seen)) == set()


def test_a_dry_run_needs_exactly_to_read(tmp_path: Path) -> None:
    flags = ("--dry-run", "--cloud-provider=static", f"--cloud-config={MANIFESTS / 'overlays/dry-run/groups.yaml'}")
    with Sandbox(tmp_path) as sandbox:
        sandbox.deploy("web", 1)
        with Replica(sandbox.kubeconfig, *flags, name=NAME) as replica:
            until(lambda: '"general"' in replica.get("/api/v1/plans")[1], "a plan is shown")
            assert replica.stop() == 0
        seen = sandbox.asked(NAME)
    assert denied([DRY_RUN], seen) == set()
    assert granted([DRY_RUN]) - set(map(permission, seen)) == set()
