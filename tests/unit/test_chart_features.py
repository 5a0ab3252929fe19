"""The chart grants and sets what the manifests do, and installs companions with what they need."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from autoscaler.config.load import load, load_file
from tests.chart_readme import CHART
from tests.helm import KWOK, THEIRS, container, flags, only, permissions, rendered, run_helm

ROOT = Path(__file__).parents[2]
MANIFESTS = ROOT / "manifests"
POOLS = {"pools": [{"name": "p", "namespace": namespace} for namespace in ("ci", "ci", "web")]}
ANNOUNCED: dict[str, Any] = {"listen": "0.0.0.0:8095", "targets": []}


def documents(name: str) -> list[Any]:
    return [one for one in yaml.safe_load_all((MANIFESTS / name).read_text()) if one]


BASE = ("base/cluster-role.yaml", "base/role.yaml")
FEATURES: dict[str, tuple[dict[str, Any], tuple[str, ...]]] = {
    "base": ({"cloudProvider": "static"}, BASE),
    "kwok": (KWOK, (*BASE, "overlays/kwok/role.yaml")),
    "clusterapi": (
        {
            "cloudProvider": "clusterapi",
            "rbac": {
                "additionalRules": [
                    {
                        "apiGroups": ["infrastructure.cluster.x-k8s.io"],
                        "resources": ["dockermachinetemplates"],
                        "verbs": ["list"],
                    }
                ]
            },
        },
        (*BASE, "overlays/clusterapi/role.yaml"),
    ),
    "dry-run": ({"cloudProvider": "static", "dryRun": True}, ("overlays/dry-run/read-only.yaml",)),
    "capacity-buffers": (
        {"cloudProvider": "static", "capacityBuffers": {"enabled": True}},
        (*BASE, "components/capacity-buffers/cluster-role.yaml"),
    ),
    "capacity-quotas": (
        {"cloudProvider": "static", "capacityQuotas": {"enabled": True}},
        (*BASE, "components/capacity-quotas/cluster-role.yaml"),
    ),
    "provisioning-requests": (
        {"cloudProvider": "static", "provisioningRequests": {"enabled": True}},
        (*BASE, "components/provisioning-requests/cluster-role.yaml"),
    ),
    "drain-grace": (
        {"cloudProvider": "static", "drainGrace": ["expiry=24h", "repair=0s;overrule"]},
        (*BASE, "components/drain-grace/cluster-role.yaml"),
    ),
    "drain-grace-that-tells": ({"cloudProvider": "static", "drainGrace": ["expiry=24h"]}, BASE),
    "eta": ({"cloudProvider": "static", "persistBootTimes": True}, (*BASE, "components/eta/role.yaml")),
    "reservations": (
        {"cloudProvider": "static", "reservations": ANNOUNCED},
        (*BASE, "components/reservations/role.yaml"),
    ),
    "headroom": (
        {"cloudProvider": "static", "headroom": {"pools": []}},
        (*BASE, "components/headroom/class-role.yaml"),
    ),
}
"""Values, and the manifests with the same permissions."""


@pytest.mark.parametrize("feature", FEATURES)
def test_permissions_are_those_of_the_manifests(feature: str) -> None:
    values, files = FEATURES[feature]
    assert permissions(rendered(values)) == permissions([one for name in files for one in documents(name)])


@pytest.mark.parametrize(
    ("values", "file", "namespaces"),
    [
        ({"headroom": POOLS}, "components/headroom/pool-role.yaml", {"ci", "web"}),
        ({"expiredPods": {"namespaces": ["ci"]}}, "components/expired-pods/cluster-role.yaml", {"ci"}),
    ],
    ids=["headroom", "expired pods"],
)
def test_companions_have_their_permissions_in_their_namespaces(
    values: Mapping[str, Any], file: str, namespaces: set[str]
) -> None:
    objects = rendered({"cloudProvider": "static", **values})
    wanted = {(f"Role {one}", *rest) for one in namespaces for _, *rest in permissions(documents(file))}
    there = {one for one in permissions(objects) if one[0] not in {"ClusterRole", "Role kube-system"}}
    assert there == wanted
    bound = {one["metadata"]["namespace"] for one in objects if one["kind"] == "RoleBinding"}
    assert bound == {"kube-system", *namespaces}


def test_classes_of_pools_may_be_read() -> None:
    pools = [{"name": "p", "namespace": "ci", "priorityClassName": "mine"}]
    granted = permissions(rendered({**KWOK, "headroom": {"pools": pools}}))
    read = {name for _, _, resource, verb, name in granted if (resource, verb) == ("priorityclasses", "get")}
    assert read == {"cluster-headroom", "mine"}


def test_expired_pods_everywhere_need_the_cluster_role() -> None:
    before, after = (permissions(rendered({**KWOK, **one})) for one in ({}, {"expiredPods": {"namespaces": ["*"]}}))
    assert after - before == {("ClusterRole", "", "pods", "delete", "")}


def test_stored_reservations_and_templates_have_permissions_where_they_are() -> None:
    section = {
        "listen": "0.0.0.0:8095",
        "store": {"namespace": "kept"},
        "targets": [{"name": "t", "podTemplateRef": {"namespace": "ci", "name": "runner"}}],
    }
    objects = permissions(rendered({**KWOK, "reservations": section}))
    assert ("Role ci", "", "podtemplates", "get", "") in objects
    assert ("Role kept", "", "configmaps", "list", "") in objects
    assert ("Role kube-system", "", "configmaps", "list", "") not in objects


def test_a_dry_run_may_only_read_whatever_is_switched_on() -> None:
    values = {
        **KWOK,
        "dryRun": True,
        "headroom": POOLS,
        "reservations": ANNOUNCED,
        "persistBootTimes": True,
        "expiredPods": {"namespaces": ["ci", "*"]},
        "capacityBuffers": {"enabled": True},
        "provisioningRequests": {"enabled": True},
        "extraArgs": {"expander": "priority"},
        "expanderPriorities": {"1": [".*"]},
        "replicaCount": 2,
    }
    objects = rendered(values)
    assert {verb for _, _, _, verb, _ in permissions(objects)} <= {"get", "list", "watch"}
    assert load([word for word in flags(objects) if not word.startswith("--config=")]).loop.dry_run
    pod = only(objects, "Deployment")["spec"]["template"]
    assert "priorityClassName" not in pod["spec"]
    assert "annotations" not in pod["metadata"], "it may be evicted"
    assert only(objects, "Deployment")["spec"]["replicas"] == 1
    assert [one for one in objects if one["kind"] == "PodDisruptionBudget"] == []
    assert [one for one in objects if one["metadata"]["name"].endswith("-priority-expander")] == [], "there is one"


@pytest.mark.parametrize("name", THEIRS)
def test_roles_are_bound_to_the_account_of_the_pods(name: str) -> None:
    objects = rendered({**THEIRS[name], "headroom": POOLS})
    account = only(objects, "Deployment")["spec"]["template"]["spec"]["serviceAccountName"]
    assert only(objects, "ServiceAccount")["metadata"]["name"] == account
    place = [(one["kind"], one["metadata"].get("namespace"), one["metadata"]["name"]) for one in objects]
    bindings = [one for one in objects if one["kind"].endswith("RoleBinding")]
    bound = [(one["roleRef"]["kind"], one["metadata"].get("namespace"), one["roleRef"]["name"]) for one in bindings]
    assert sorted(bound) == sorted(one for one in place if one[0] in {"ClusterRole", "Role"})
    subjects = [{"kind": "ServiceAccount", "name": account, "namespace": "kube-system"}]
    assert all(one["subjects"] == subjects for one in bindings)


@pytest.mark.parametrize("name", THEIRS)
def test_no_rule_has_a_wildcard_or_reads_secrets(name: str) -> None:
    for _, group, resource, verb, _ in permissions(rendered(THEIRS[name])):
        assert "*" not in (group, resource, verb)
        assert resource != "secrets"


def test_without_rbac_there_are_no_roles_and_the_account_is_named() -> None:
    objects = rendered({**KWOK, "rbac": {"create": False, "serviceAccount": {"create": False, "name": "mine"}}})
    assert [one for one in objects if "Role" in one["kind"] or one["kind"] == "ServiceAccount"] == []
    assert only(objects, "Deployment")["spec"]["template"]["spec"]["serviceAccountName"] == "mine"


SHARED_BY_PODS = ("priorityClassName", "terminationGracePeriodSeconds", "volumes")
SHARED_BY_CONTAINERS = ("name", "env", "ports", "livenessProbe", "readinessProbe", "resources", "securityContext")


def test_the_pod_is_that_of_the_base() -> None:
    base = only(documents("base/deployment.yaml"), "Deployment")["spec"]["template"]
    ours = only(rendered({"cloudProvider": "static"}), "Deployment")["spec"]["template"]
    assert ours["metadata"]["annotations"] == base["metadata"]["annotations"]
    assert {one: ours["spec"][one] for one in SHARED_BY_PODS} == {one: base["spec"][one] for one in SHARED_BY_PODS}
    context = dict(ours["spec"]["securityContext"])
    assert context.pop("fsGroup") == context["runAsGroup"], "it can read mounted Secrets"
    assert context == base["spec"]["securityContext"]
    (mine,), (theirs,) = ours["spec"]["containers"], base["spec"]["containers"]
    assert {one: mine[one] for one in SHARED_BY_CONTAINERS} == {one: theirs[one] for one in SHARED_BY_CONTAINERS}
    assert mine["volumeMounts"] == theirs["volumeMounts"]
    assert set(theirs["args"]) <= set(mine["args"])


def test_replicas_keep_apart_as_those_of_the_component() -> None:
    (patch,) = documents("components/ha/kustomization.yaml")[0]["patches"]
    wanted = yaml.safe_load(patch["patch"])["spec"]
    ours = only(rendered({**KWOK, "replicaCount": 2}), "Deployment")["spec"]
    selector = {"matchLabels": ours["selector"]["matchLabels"]}
    (term,) = wanted["template"]["spec"]["affinity"]["podAntiAffinity"][
        "preferredDuringSchedulingIgnoredDuringExecution"
    ]
    term["podAffinityTerm"]["labelSelector"] = selector
    wanted["template"]["spec"]["topologySpreadConstraints"][0]["labelSelector"] = selector
    pod = ours["template"]["spec"]
    assert ours["strategy"] == wanted["strategy"]
    assert {one: pod[one] for one in wanted["template"]["spec"]} == wanted["template"]["spec"]


def test_monitoring_and_dashboard_are_those_of_the_components() -> None:
    values = {"serviceMonitor": {"enabled": True}, "prometheusRule": {"enabled": True}, "dashboard": {"enabled": True}}
    objects = rendered({**KWOK, **values})
    assert only(objects, "PrometheusRule")["spec"] == documents("components/monitoring/alerts.yaml")[0]["spec"]
    assert (
        only(objects, "ServiceMonitor")["spec"]["endpoints"]
        == (documents("components/monitoring/service-monitor.yaml")[0]["spec"]["endpoints"])
    )
    board = only(objects, "ConfigMap")
    assert board["metadata"]["labels"]["grafana_dashboard"] == "1"
    source = MANIFESTS / "components" / "dashboard" / "cluster-autoscaler.json"
    assert json.loads(board["data"]["cluster-autoscaler.json"]) == json.loads(source.read_text())


def test_the_network_policy_is_that_of_the_components() -> None:
    values = {**KWOK, "networkPolicy": {"enabled": True}}
    (wanted,) = documents("components/network-policy/network-policy.yaml")
    ours = only(rendered(values), "NetworkPolicy")["spec"]
    labels = only(rendered(values), "Deployment")["spec"]["template"]["metadata"]["labels"]
    assert ours.pop("podSelector")["matchLabels"].items() <= labels.items()
    assert ours == {name: part for name, part in wanted["spec"].items() if name != "podSelector"}
    announced = only(rendered({**values, "reservations": ANNOUNCED}), "NetworkPolicy")["spec"]["ingress"]
    assert announced == [*ours["ingress"], {"ports": [{"protocol": "TCP", "port": "reservations"}]}]


# Companions and files


def test_the_file_holds_options_and_companions_as_written(tmp_path: Path) -> None:
    pool = {"name": "ci", "namespace": "ci", "resources": {"cpu": "2"}, "policies": [{"name": "base", "idleCount": 1}]}
    secrets = {"apiSecrets": [{"file": "/etc/reservations/api-current"}]}
    announced = {"listen": "0.0.0.0:8095", "maxBodyBytes": 5242880, "auth": secrets}
    options = {"scaleUp": {"maxNodesPerScaleup": 1000000}}
    companions = {"headroom": {"pools": [pool]}, "reservations": announced}
    objects = rendered({**KWOK, "config": options, **companions})
    assert "--config=/etc/autoscaler/config.yaml" in flags(objects)
    made = only(objects, "ConfigMap")
    written = tmp_path / "config.yaml"
    written.write_text(made["data"]["config.yaml"])
    assert yaml.safe_load(written.read_text()) == {**options, **companions}
    assert load_file(str(written)).scale_up.max_nodes_per_scaleup == 1_000_000
    pod = only(objects, "Deployment")["spec"]["template"]["spec"]
    sources = {one["name"]: one for one in pod["volumes"]}
    mounted = {one["mountPath"]: sources[one["name"]] for one in container(objects)["volumeMounts"]}
    assert mounted["/etc/autoscaler"]["configMap"] == {"name": made["metadata"]["name"]}
    assert mounted["/etc/reservations"]["secret"]["secretName"] == "cluster-autoscaler-reservations"


def test_prices_and_the_configuration_of_the_cloud_are_files_too() -> None:
    spec = {"groups": [{"id": "g", "minSize": 0, "maxSize": 1}]}
    objects = rendered({"cloudProvider": "static", "cloudConfig": spec, "prices": {"instances": {"m5.large": 0.1}}})
    files = only(objects, "ConfigMap")["data"]
    config = load(flags(objects)).provider
    assert {config.cloud_config, config.price_file} == {f"/etc/autoscaler/{name}" for name in files}
    assert yaml.safe_load(files["cloud-config.yaml"]) == spec


def test_the_configuration_of_the_cloud_may_be_text() -> None:
    objects = rendered({"cloudProvider": "gce", "cloudConfig": "[global]\na=b\n", "customArgs": ["--nodes=0:1:x"]})
    assert only(objects, "ConfigMap")["data"]["cloud-config.yaml"] == "[global]\na=b"


def test_announcements_reach_every_replica() -> None:
    objects = rendered({**KWOK, "reservations": ANNOUNCED})
    (service,) = (
        one for one in objects if one["metadata"]["name"].endswith("-reservations") and one["kind"] == "Service"
    )
    assert container(objects)["ports"][1] == {"name": "reservations", "containerPort": 8095}
    assert [(one["port"], one["targetPort"]) for one in service["spec"]["ports"]] == [(8095, "reservations")]
    labels = only(objects, "Deployment")["spec"]["template"]["metadata"]["labels"]
    assert service["spec"]["selector"].items() <= labels.items()


def test_features_are_flags() -> None:
    values = {
        "drainGrace": ["expiry=24h", "repair=0s;overrule"],
        "persistBootTimes": True,
        "expiredPods": {"namespaces": ["ci", "web"]},
        "capacityBuffers": {"enabled": True},
        "provisioningRequests": {"enabled": True},
    }
    config = load(flags(rendered({**KWOK, **values})))
    assert [(grace.grace_s, grace.overrule) for grace in config.replacement.drain_grace] == [(86400, False), (0, True)]
    assert config.eta.persist_boot_times
    assert config.eta.expired_pod_cleanup
    assert config.eta.expired_pod_namespaces == ("ci", "web")
    assert config.features.capacity_buffer_controller_enabled
    assert config.features.capacity_buffer_pod_injection_enabled
    assert config.features.enable_provisioning_requests


def test_what_comes_back_from_an_installation_names_what_was_made() -> None:
    done = run_helm(
        "install", "ca", str(CHART), "--dry-run=client", "--namespace", "kube-system",
        values={**KWOK, "image": {"repository": "r"}},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "kubectl -n kube-system logs deployment/ca-node-autoscaler" in done.stdout
    assert "holds the Lease cluster-autoscaler" in done.stdout
