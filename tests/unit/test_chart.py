"""The chart takes values written for that of Cluster Autoscaler, and refuses those that would mean something else."""

import base64
import configparser
import json
import re
import tarfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from autoscaler.config.load import load
from tests.chart_readme import CHART, README, defaults, described, readme
from tests.helm import KWOK, THEIRS, container, flags, only, permissions, rendered, run_helm, template

ROOT = Path(__file__).parents[2]


def schema() -> Any:
    return json.loads((CHART / "values.schema.json").read_text())


def refusal(values: Mapping[str, Any]) -> str:
    done = template({"image": {"repository": "registry.example.com/node-autoscaler"}, **KWOK, **values})
    assert done.returncode != 0
    return done.stderr


# The chart itself


def test_chart_and_image_have_the_version_of_the_project() -> None:
    config = configparser.ConfigParser()
    config.read(ROOT / "setup.cfg")
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text())
    assert {chart["version"], chart["appVersion"]} == {config["metadata"]["version"]}
    assert container(rendered(KWOK))["image"] == f"registry.example.com/node-autoscaler:{config['metadata']['version']}"


def test_helm_finds_nothing_to_complain_about() -> None:
    done = run_helm("lint", "--strict", str(CHART), values={**KWOK, "image": {"repository": "r"}})
    assert done.returncode == 0, done.stdout


def test_the_readme_shows_the_present_values() -> None:
    assert README.read_text() == readme(), "run: make docs"


def test_every_value_is_described_once_or_is_part_of_one_that_is() -> None:
    shown = [name for _, name, _ in described()]
    assert len(shown) == len(set(shown))
    whole = defaults().keys()
    assert set(shown) <= whole
    parents = {name for name in whole if any(other.startswith(f"{name}.") for other in shown)}
    assert [
        name for name in whole - parents if not any(name == one or name.startswith(f"{one}.") for one in shown)
    ] == []


def known(node: Mapping[str, Any], prefix: str = "") -> Iterator[str]:
    for name, inner in node.get("properties", {}).items():
        yield prefix + name
        yield from known(inner, f"{prefix}{name}.")


def test_the_schema_knows_the_values_and_the_readme_those_without_effect() -> None:
    ours = defaults().keys()
    extra = {name for name in known(schema()) if name not in ours}
    (text,) = re.findall(r"^These values.*without effect:(.*?)\.$", README.read_text(), re.MULTILINE | re.DOTALL)
    told = set(re.findall(r"`([A-Za-z.]+)`", text))
    assert extra == told | {"global", "podDisruptionBudget.minAvailable"}


def test_a_package_holds_what_the_folder_links_to(tmp_path: Path) -> None:
    done = run_helm("package", str(CHART), "--destination", str(tmp_path))
    assert done.returncode == 0, done.stderr
    (package,) = tmp_path.iterdir()
    with tarfile.open(package) as archive:
        packed = {member.name: member for member in archive.getmembers()}
    assert all(member.isfile() for member in packed.values())
    assert packed["node-autoscaler/files/alerts.yaml"].size > 1000
    assert packed["node-autoscaler/files/dashboard.json"].size > 1000


# Values written for Cluster Autoscaler's chart


@pytest.mark.parametrize("name", THEIRS)
def test_the_daemon_takes_the_arguments(name: str) -> None:
    config = load(flags(rendered(THEIRS[name])), needs_provider=True)
    assert config.provider.cloud_provider == THEIRS[name].get("cloudProvider", "aws")


GROUPS = {
    "all-names": ["asg:tag=k8s.io/cluster-autoscaler/enabled,k8s.io/cluster-autoscaler/prod"],
    "eks": ["asg:tag=k8s.io/cluster-autoscaler/enabled,k8s.io/cluster-autoscaler/prod"],
    "aws-groups": ["1:10:blue", "0:5:green"],
    "azure": ["label:cluster-autoscaler-enabled=true,cluster-autoscaler-name=prod"],
    "azure-workload-identity": ["1:10:aks-general-vmss"],
    "gce": ["mig:namePrefix=prod-workers,min=1,max=10", "mig:namePrefix=gpu,min=0,max=4"],
    "clusterapi": ["clusterapi:clusterName=prod,namespace=fleet,color=green,shape=circle"],
    "priorities": ["asg:tag=owned-by=node-autoscaler"],
}
"""Groups by the name of the values, as Cluster Autoscaler's chart passes them on."""


@pytest.mark.parametrize("name", THEIRS)
def test_groups_are_found_as_before(name: str) -> None:
    provider = load(flags(rendered(THEIRS[name]))).provider
    assert [*provider.node_group_auto_discovery, *provider.nodes] == GROUPS[name]


def test_extra_arguments_keep_numbers_suffixes_and_switches() -> None:
    words = flags(rendered({**THEIRS["eks"], "customArgs": ["--expander=random"]}))
    config = load(words)
    assert config.balancing.balancing_ignore_label == (
        "eks.amazonaws.com/nodegroup",
        "eks.amazonaws.com/sourceLaunchTemplateId",
    )
    assert config.limits.max_nodes_total == 1_000_000
    assert not config.drain.skip_nodes_with_local_storage
    assert words[-1] == "--expander=random"
    assert config.observe.logging_format == "json"
    assert "--regional" in flags(rendered({**THEIRS["gce"], "extraArgs": {"regional": None}}))


def environment(objects: list[Any]) -> dict[str, Any]:
    return {one["name"]: one.get("value", one.get("valueFrom")) for one in container(objects)["env"]}


def test_keys_of_aws_are_in_a_secret_and_only_there() -> None:
    objects = rendered(THEIRS["aws-groups"])
    data = {key: base64.b64decode(text).decode() for key, text in only(objects, "Secret")["data"].items()}
    assert data == {"AwsAccessKeyId": "AKIAEXAMPLE", "AwsSecretAccessKey": "hidden"}
    variables = environment(objects)
    assert variables["AWS_REGION"] == "us-east-1"
    key = {"name": only(objects, "Secret")["metadata"]["name"], "key": "AwsSecretAccessKey"}
    assert variables["AWS_SECRET_ACCESS_KEY"] == {"secretKeyRef": key}
    assert "hidden" not in json.dumps([one for one in objects if one["kind"] != "Secret"])


def test_another_secret_replaces_that_of_the_chart() -> None:
    objects = rendered({**THEIRS["azure"], "secretKeyRefNameOverride": "mine"})
    assert [one for one in objects if one["kind"] == "Secret"] == []
    named = {value["secretKeyRef"]["name"] for value in environment(objects).values() if "secretKeyRef" in value}
    assert named == {"mine"}


AZURE = {"ARM_SUBSCRIPTION_ID", "ARM_RESOURCE_GROUP", "AZURE_ENABLE_FORCE_DELETE", "AZURE_ENABLE_VMSS_ETAG"}
PRINCIPAL = {"ARM_TENANT_ID", "ARM_CLIENT_ID", "ARM_CLIENT_SECRET"}
MACHINE = {"ARM_USE_MANAGED_IDENTITY_EXTENSION", "ARM_USER_ASSIGNED_IDENTITY_ID"}


@pytest.mark.parametrize(
    ("values", "variables"),
    [
        (THEIRS["azure"], PRINCIPAL),
        (THEIRS["azure-workload-identity"], {"ARM_USE_WORKLOAD_IDENTITY_EXTENSION"}),
        ({**THEIRS["azure"], "azureUseManagedIdentityExtension": True, "azureUserAssignedIdentityID": "i"}, MACHINE),
    ],
    ids=["principal", "workload identity", "machine"],
)
def test_azure_gets_the_variables_of_one_identity(values: Mapping[str, Any], variables: set[str]) -> None:
    objects = rendered(values)
    assert environment(objects).keys() == {"POD_NAMESPACE", *AZURE, *variables}
    labels = only(objects, "Deployment")["spec"]["template"]["metadata"]["labels"]
    assert (labels.get("azure.workload.identity/use") == "true") == ("ARM_USE_WORKLOAD_IDENTITY_EXTENSION" in variables)


@pytest.mark.parametrize("name", ["azure", "priorities"])
def test_priorities_are_in_the_config_map_that_the_expander_reads(name: str) -> None:
    (made,) = (one for one in rendered(THEIRS[name]) if one["metadata"]["name"].endswith("-priority-expander"))
    assert made["metadata"]["name"] == "cluster-autoscaler-priority-expander"
    given = THEIRS[name]["expanderPriorities"]
    assert yaml.safe_load(made["data"]["priorities"]) == (yaml.safe_load(given) if isinstance(given, str) else given)
    without = rendered({**THEIRS[name], "extraArgs": {"expander": "random"}})
    assert [one for one in without if one["metadata"]["name"].endswith("-priority-expander")] == []


CLUSTERS = {
    "incluster-incluster": ("", "", False),
    "incluster-kubeconfig": ("", "/etc/kubernetes/mgmt-kubeconfig", False),
    "kubeconfig-incluster": ("/etc/kubernetes/value", "", True),
    "kubeconfig-kubeconfig": ("/etc/kubernetes/value", "/etc/kubernetes/mgmt-kubeconfig", False),
    "single-kubeconfig": ("/etc/kubernetes/value", "", False),
}
"""kubeconfig, cloud configuration, and whether it has no substitute, by mode."""


@pytest.mark.parametrize("mode", CLUSTERS)
def test_the_daemon_finds_both_clusters_of_cluster_api_and_has_permissions_in_its_own(mode: str) -> None:
    objects = rendered({"cloudProvider": "clusterapi", "clusterAPIMode": mode})
    config = load(flags(objects))
    found = (config.kube.kubeconfig or "", config.provider.cloud_config or "")
    assert (*found, config.provider.clusterapi_cloud_config_authoritative) == CLUSTERS[mode]
    groups = {group for _, group, *_ in permissions(objects)}
    assert ("cluster.x-k8s.io" in groups, "apps" in groups) == (mode.endswith("incluster"), mode.startswith("in"))
    pod = only(objects, "Deployment")["spec"]["template"]["spec"]
    assert pod.get("automountServiceAccountToken", True) == bool(groups), "no token without a use for it"


def test_a_cluster_elsewhere_has_lease_and_status_in_its_own_namespace() -> None:
    assert load(flags(rendered(THEIRS["clusterapi"]))).kube.namespace == "kube-system"
    named = {**THEIRS["clusterapi"], "clusterAPIConfigMapsNamespace": "autoscaling"}
    assert load(flags(rendered(named))).kube.namespace == "autoscaling"


def test_without_cluster_scope_the_role_has_the_rules_for_machines() -> None:
    objects = rendered(THEIRS["clusterapi"])
    assert {one["kind"] for one in objects if "Role" in one["kind"]} == {"Role", "RoleBinding"}
    assert {
        ("Role kube-system", "infrastructure.cluster.x-k8s.io", "dockermachinetemplates", "list", "")
    } < permissions(objects)


def test_settings_of_the_deployment_arrive() -> None:
    values = THEIRS["priorities"]
    objects = rendered(values)
    pod = only(objects, "Deployment")["spec"]["template"]["spec"]
    assert pod["affinity"] == values["affinity"]
    assert environment(objects)["LIMIT"] == "1000000"
    assert environment(objects)["TOKEN"] == {"secretKeyRef": {"name": "tokens", "key": "token"}}
    assert environment(objects)["ZONE"] == {"configMapKeyRef": {"name": "zones", "key": "zone"}}
    assert container(objects)["envFrom"] == [{"secretRef": {"name": "everything"}}]
    mounts = {one["name"]: one["mountPath"] for one in container(objects)["volumeMounts"]}
    assert mounts == {"certificates": "/etc/certs", "tmp": "/tmp", "extra": "/extra"}
    assert mounts.keys() == {one["name"] for one in pod["volumes"]}
    assert next(one for one in pod["volumes"] if one["name"] == "certificates")["secret"]["defaultMode"] == 0o440
    assert only(objects, "PodDisruptionBudget")["spec"]["minAvailable"] == 1
    (policy,) = only(objects, "VerticalPodAutoscaler")["spec"]["resourcePolicy"]["containerPolicies"]
    assert policy == {"containerName": container(objects)["name"], "controlledResources": ["memory"]}
    assert {"release": "node-autoscaler"} in [one["data"] for one in objects if one["kind"] == "ConfigMap"]


def test_permissions_and_alerts_follow_names_that_flags_change() -> None:
    objects = rendered({**THEIRS["priorities"], "prometheusRule": {"enabled": True}})
    named = {name for *_, name in permissions(objects) if name}
    assert named == {"pool-a", "pool-a-status", "pool-a-pause", "cluster-autoscaler-priority-expander"}
    alerts = json.dumps(only(objects, "PrometheusRule"))
    assert 'name=\\"pool-a\\"' in alerts
    assert 'name=\\"cluster-autoscaler\\"' not in alerts


def test_ports_follow_the_address() -> None:
    objects = rendered({**KWOK, "extraArgs": {"address": ":9090"}})
    assert container(objects)["ports"] == [{"name": "http", "containerPort": 9090}]
    assert only(objects, "Service")["spec"]["ports"][0]["targetPort"] == "http"


def test_the_monitor_finds_the_service_and_rules_are_templates() -> None:
    objects = rendered(THEIRS["gce"])
    monitor, service = only(objects, "ServiceMonitor"), only(objects, "Service")
    assert (monitor["metadata"]["namespace"], monitor["metadata"]["labels"]["release"]) == (
        "monitoring",
        "kube-prometheus-stack",
    )
    assert monitor["spec"]["namespaceSelector"]["matchNames"] == [service["metadata"]["namespace"]]
    assert monitor["spec"]["selector"]["matchLabels"].items() <= service["metadata"]["labels"].items()
    assert monitor["spec"]["endpoints"][0]["port"] == service["spec"]["ports"][0]["name"]
    labels = only(objects, "Deployment")["spec"]["template"]["metadata"]["labels"]
    assert service["spec"]["selector"].items() <= labels.items()
    (group,) = only(objects, "PrometheusRule")["spec"]["groups"]
    assert [rule["labels"] for rule in group["rules"]] == [{"release": "node-autoscaler"}]


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"cloudProvider": "hetzner"}, "at '/cloudProvider': value must be one of 'aws', 'azure',"),
        ({"azureVMType": "standard"}, "at '/azureVMType': value must be 'vmss'"),
        ({"kwokConfigMapName": "mine"}, "at '/kwokConfigMapName': value must be 'kwok-provider-config'"),
        ({"replicas": 2}, "additional properties 'replicas' not allowed"),
        ({"rbac": {"clusterscoped": False}}, "at '/rbac': additional properties 'clusterscoped' not allowed"),
        ({"autoscalingGroups": [{"name": "a"}]}, "at '/autoscalingGroups/0': missing properties 'minSize', 'maxSize'"),
        ({"extraArgs": {"--v": 4}}, "extraArgs: write v instead of --v"),
        ({"image": {}}, "image.repository: name the image that you pushed; there is no public one yet"),
        (
            {"image": {"repository": "registry.k8s.io/autoscaling/cluster-autoscaler"}},
            "image.repository: registry.k8s.io/autoscaling/cluster-autoscaler is Cluster Autoscaler",
        ),
        ({"image": {"repository": "r", "tag": "v1.33.0"}}, "image.tag: v1.33.0 is a version of Cluster Autoscaler"),
        ({"cloudProvider": "aws"}, "autoDiscovery.clusterName: name node groups here or in autoscalingGroups"),
        ({"extraArgs": {"namespace": "x"}}, "extraArgs and customArgs: set --namespace with helm --namespace"),
        ({"customArgs": ["-cloud-provider=aws"]}, "extraArgs and customArgs: set --cloud-provider with cloudProvider"),
        (
            {"customArgs": ["--address=:1"]},
            "customArgs: set --address in extraArgs, which ports and permissions follow",
        ),
        ({"cloudConfig": "a", "cloudConfigPath": "/b"}, "cloudConfigPath: set either this or cloudConfig"),
        ({"vpa": {"enabled": True}}, "vpa.containerPolicy: a VerticalPodAutoscaler needs one"),
        (
            {"serviceMonitor": {"enabled": True}, "service": {"create": False}},
            "service.create: the ServiceMonitor needs the Service",
        ),
    ],
    ids=lambda part: part.partition(":")[0] if isinstance(part, str) else "",
)
def test_values_that_would_mean_something_else_are_refused(values: Mapping[str, Any], message: str) -> None:
    assert message in refusal(values)
