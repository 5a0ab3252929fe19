"""The manifests: they build, lock the container down, and allow what the code asks for and no more."""

import configparser
import json
import os
import re
import shutil
import subprocess
import textwrap
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml

from autoscaler.app.watched_cluster import WatchedCluster
from autoscaler.clock import VirtualClock
from autoscaler.config.load import load
from autoscaler.kube import paths
from autoscaler.kube.election import Unopposed
from autoscaler.kube.feed import ClusterFeed
from autoscaler.kube.lease import ElectionLease, ElectionSpec
from autoscaler.kube.lease_writes import LeaseWrites
from autoscaler.kube.writes import EventRecord, Writes
from autoscaler.objects.node import Taint
from autoscaler.objects.pod_interner import PodInterner
from autoscaler.ports import EventType, Subject
from autoscaler.scaleup.priority import CONFIG_MAP
from cloudprovider.aws.connection import AutoScaling, Ec2, Eks, Sqs
from cloudprovider.conformance import MemoryNodeApi
from cloudprovider.gce.client import Compute
from cloudprovider.interface import ProviderContext
from cloudprovider.kwok import create
from cloudprovider.static.file import load_cloud
from tests.fakes.azure import FakeScaleSet, Seen
from tests.unit.cloudprovider.azure_world import AzureWorld, node
from tests.unit.kube.scripted import Asked, client_of, ok, scripted_api

ROOT = Path(__file__).parents[2]
MANIFESTS = ROOT / "manifests"
GROUPS = MANIFESTS / "overlays" / "dry-run" / "groups.yaml"
CLOUD_CONFIG = MANIFESTS / "overlays" / "externalgrpc" / "cloud-config.yaml"
PROVIDERS = {
    "aws": "aws",
    "azure": "azure",
    "clusterapi": "clusterapi",
    "dry-run": "static",
    "externalgrpc": "externalgrpc",
    "gce": "gce",
    "ha": "kwok",
    "kwok": "kwok",
}
"""What each overlay scales."""

Rule = tuple[str, str, str]
"""API group, resource and verb."""


def name_of(path: Path) -> str:
    return str(path.relative_to(ROOT))


def documents(path: Path) -> list[Any]:
    return [document for document in yaml.safe_load_all(path.read_text()) if document]


def manifest(*parts: str, kind: str) -> Any:
    return next(document for document in documents(MANIFESTS.joinpath(*parts)) if document["kind"] == kind)


@pytest.mark.parametrize("path", sorted({*MANIFESTS.rglob("*.yaml")} - {GROUPS, CLOUD_CONFIG}), ids=name_of)
def test_manifests_parse_and_have_a_kind(path: Path) -> None:
    found = documents(path)
    assert found
    assert all({"apiVersion", "kind"} <= document.keys() for document in found)


@pytest.mark.parametrize("path", sorted(MANIFESTS.rglob("kustomization.yaml")), ids=name_of)
def test_kustomizations_use_every_file_beside_them(path: Path) -> None:
    kustomization = documents(path)[0]
    listed = {*kustomization.get("resources", []), *kustomization.get("components", [])}
    listed |= {patch["path"] for patch in kustomization.get("patches", []) if "path" in patch}
    listed |= {file for generated in kustomization.get("configMapGenerator", []) for file in generated["files"]}
    assert [one for one in listed if not (path.parent / one).exists()] == []
    beside = {file.name for file in path.parent.iterdir() if file.is_file()}
    assert beside - listed == {"kustomization.yaml"}


def built(folder: Path) -> list[Any]:
    """Return what `kubectl kustomize` makes of a folder."""
    kubectl = shutil.which("kubectl")
    if kubectl is None:
        pytest.skip("no kubectl on the PATH")
    done = subprocess.run([kubectl, "kustomize", str(folder)], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    return [document for document in yaml.safe_load_all(done.stdout) if document]


def only(objects: Sequence[Any], kind: str) -> Any:
    (found,) = (obj for obj in objects if obj["kind"] == kind)
    return found


@pytest.mark.kubectl
@pytest.mark.parametrize("overlay", sorted(path.name for path in (MANIFESTS / "overlays").iterdir()))
def test_overlays_build(overlay: str) -> None:
    objects = built(MANIFESTS / "overlays" / overlay)
    deployment = only(objects, "Deployment")
    assert deployment["spec"]["replicas"] == (2 if overlay == "ha" else 1)
    assert all(obj["metadata"]["namespace"] == "kube-system" for obj in objects if "Cluster" not in obj["kind"])
    args = deployment["spec"]["template"]["spec"]["containers"][0]["args"]
    assert load(args).provider.cloud_provider == PROVIDERS[overlay]


@pytest.mark.kubectl
def test_what_is_to_be_filled_in_for_azure_is_listed_and_nothing_else() -> None:
    folder = MANIFESTS / "overlays" / "azure"
    lines = (folder / "kustomization.yaml").read_text().splitlines()
    listed = set(re.findall(r"YOUR-[A-Z-]+", "\n".join(line for line in lines if line.startswith("#"))))
    objects = built(folder)
    assert set(re.findall(r"YOUR-[A-Z-]+", json.dumps(objects))) == listed
    account, pod = only(objects, "ServiceAccount"), only(objects, "Deployment")["spec"]["template"]
    assert account["metadata"]["annotations"] == {"azure.workload.identity/client-id": "YOUR-CLIENT"}
    assert pod["metadata"]["labels"]["azure.workload.identity/use"] == "true"
    assert pod["spec"]["containers"][0]["securityContext"]["readOnlyRootFilesystem"] is True


def azure_actions(seen: Seen) -> set[str]:
    """Return what Azure's roles call a request."""
    names = [part for part in seen.path.partition("Microsoft.Compute/")[2].split("/") if part not in {"web", "flex"}]
    if seen.path.startswith("/operations/"):
        names = ["locations", "operations"]
    kind = "Microsoft.Compute/" + "/".join(names)
    if seen.method == "POST":
        return {f"{kind}/action"}
    reads = {f"{kind}/instanceView/read"} if "$expand" in seen.query else set()
    return {f"{kind}/{'write' if seen.method == 'PUT' else 'read'}", *reads}


def test_the_sample_roles_allow_the_calls_to_azure_that_are_made_and_no_more() -> None:
    world = AzureWorld(FakeScaleSet("web"), FakeScaleSet("flex", flexible=True), nodes=["0:5:web", "0:5:flex"])
    world.group("web").increase(1)
    world.refresh(after_s=90.0)
    world.group("web").delete([node("web", 0)])
    made = set().union(*map(azure_actions, world.azure.requests))
    roles = [json.loads(path.read_text()) for path in (MANIFESTS / "samples" / "azure").iterdir()]
    assert {action for role in roles for action in role["Actions"]} == made


@pytest.mark.kubectl
def test_what_is_to_be_filled_in_for_gce_is_listed_and_nothing_else_asks_for_it() -> None:
    folder = MANIFESTS / "overlays" / "gce"
    text = (folder / "kustomization.yaml").read_text().splitlines()
    told = set(re.findall(r"YOUR-[A-Z]+", "\n".join(line for line in text if line.startswith("#"))))
    objects = built(folder)
    assert set(re.findall(r"YOUR-[A-Z]+", json.dumps(objects))) == told
    assert told == {"YOUR-PREFIX", "YOUR-MAXIMUM", "YOUR-ACCOUNT", "YOUR-PROJECT"}
    assert "iam.gke.io/gcp-service-account" in only(objects, "ServiceAccount")["metadata"]["annotations"]


def test_the_sample_role_allows_the_calls_to_compute_engine_that_are_made_and_no_more() -> None:
    role = json.loads((MANIFESTS / "samples" / "gce" / "role.json").read_text())
    needed = {
        "managers": {"instanceGroupManagers.list"},
        "manager": {"instanceGroupManagers.get"},
        "managed_instances": {"instanceGroupManagers.get"},
        "instances": {"instances.list"},
        "zones": {"regions.get"},
        "template": {"instanceTemplates.get"},
        "machine_type": {"machineTypes.get"},
        "create_instances": {"instanceGroupManagers.update", "zoneOperations.get"},
        "resize": {"instanceGroupManagers.update", "regionOperations.get"},
        "delete_instances": {"instanceGroupManagers.update", "zoneOperations.get", "regionOperations.get"},
        "close": set(),
    }
    assert needed.keys() == {name for name in vars(Compute) if not name.startswith("_")}
    assert sorted(f"compute.{one}" for one in set().union(*needed.values())) == role["includedPermissions"]


@pytest.mark.kubectl
def test_what_is_to_be_filled_in_for_aws_is_listed_and_nothing_else_asks_for_it() -> None:
    folder = MANIFESTS / "overlays" / "aws"
    comment = "\n".join(
        line for line in (folder / "kustomization.yaml").read_text().splitlines() if line.startswith("#")
    )
    asked = set(re.findall(r"YOUR-[A-Z]+", json.dumps(built(folder))))
    assert (
        asked
        == set(re.findall(r"YOUR-[A-Z]+", comment))
        == {"YOUR-CLUSTER", "YOUR-REGION", "YOUR-ACCOUNT", "YOUR-ROLE"}
    )
    account = only(built(folder), "ServiceAccount")
    assert account["metadata"]["annotations"]["eks.amazonaws.com/role-arn"].endswith("role/YOUR-ROLE")


def test_the_sample_policy_allows_the_calls_to_aws_that_are_made_and_no_more() -> None:
    policy = json.loads((MANIFESTS / "samples" / "aws" / "iam-policy.json").read_text())
    actions = [[one["Action"]] if isinstance(one["Action"], str) else one["Action"] for one in policy["Statement"]]
    made = {
        f"{service}:{''.join(word.title() for word in name.removesuffix('_batch').split('_'))}"
        for service, client in (("autoscaling", AutoScaling), ("ec2", Ec2), ("eks", Eks), ("sqs", Sqs))
        for name in vars(client)
        if not name.startswith("_")
    }
    assert sorted(action for some in actions for action in some) == sorted(made)
    writing = [one for one in policy["Statement"] if "autoscaling:SetDesiredCapacity" in one["Action"]]
    assert [(one["Resource"] != "*", bool(one["Condition"])) for one in writing] == [(True, True)]


@pytest.mark.kubectl
def test_the_dry_run_shares_nothing_with_the_autoscaler_beside_it() -> None:
    objects, others = (built(MANIFESTS / "overlays" / overlay) for overlay in ("dry-run", "kwok"))
    names = [{(one["kind"], one["metadata"]["name"]) for one in some} for some in (objects, others)]
    assert names[0] & names[1] == set()
    ours, theirs = (only(some, "Deployment")["spec"] for some in (objects, others))
    assert ours["selector"]["matchLabels"].items() <= ours["template"]["metadata"]["labels"].items()
    assert not theirs["selector"]["matchLabels"].items() <= ours["template"]["metadata"]["labels"].items()


@pytest.mark.kubectl
def test_the_dry_run_reads_its_groups_from_where_they_are_mounted() -> None:
    objects = built(GROUPS.parent)
    deployment = only(objects, "Deployment")["spec"]["template"]["spec"]
    config = load(deployment["containers"][0]["args"])
    groups = only(objects, "ConfigMap")
    mounted = {
        volume_mount["name"]: volume_mount["mountPath"] for volume_mount in deployment["containers"][0]["volumeMounts"]
    }
    (volume,) = (one for one in deployment["volumes"] if "configMap" in one)
    assert volume["configMap"]["name"] == groups["metadata"]["name"]
    assert [f"{mounted[volume['name']]}/{file}" for file in groups["data"]] == [config.provider.cloud_config]
    assert config.loop.dry_run
    assert [group.id for group in load_cloud(str(GROUPS)).groups] == ["general"]


@pytest.mark.kubectl
def test_the_dry_run_may_read_what_is_followed_and_nothing_else() -> None:
    objects = built(GROUPS.parent)
    reads = {(*kind, verb) for kind in followed() for verb in ("list", "watch")}
    assert granted(only(objects, "ClusterRole")) == reads
    role = only(objects, "Role")
    assert granted(role) == {("", "configmaps", "list"), ("", "configmaps", "watch")}
    assert [rule["resourceNames"] for rule in role["rules"]] == [[load([]).observe.pause_config_map_name]]


@pytest.fixture
def with_component(tmp_path: Path) -> Callable[..., list[Any]]:
    """Build an overlay of one's own, as docs/operating.md shows it, with one component or several."""

    def build(*components: str) -> list[Any]:
        text = {
            "apiVersion": "kustomize.config.k8s.io/v1beta1",
            "kind": "Kustomization",
            "namespace": "kube-system",
            "resources": [os.path.relpath(MANIFESTS / "base", tmp_path)],
            "components": [os.path.relpath(MANIFESTS / "components" / component, tmp_path) for component in components],
        }
        (tmp_path / "kustomization.yaml").write_text(yaml.safe_dump(text))
        return built(tmp_path)

    return build


@pytest.mark.kubectl
def test_replicas_keep_apart(with_component: Callable[[str], list[Any]]) -> None:
    pod = only(with_component("ha"), "Deployment")["spec"]["template"]
    (apart,) = pod["spec"]["affinity"]["podAntiAffinity"]["preferredDuringSchedulingIgnoredDuringExecution"]
    (zones,) = pod["spec"]["topologySpreadConstraints"]
    assert (apart["podAffinityTerm"]["topologyKey"], zones["topologyKey"]) == (
        "kubernetes.io/hostname",
        "topology.kubernetes.io/zone",
    )
    for selector in (apart["podAffinityTerm"]["labelSelector"], zones["labelSelector"]):
        assert selector["matchLabels"].items() <= pod["metadata"]["labels"].items()


@pytest.mark.kubectl
def test_the_monitor_finds_the_service_and_that_the_pods(with_component: Callable[[str], list[Any]]) -> None:
    objects = with_component("monitoring")
    service, monitor = only(objects, "Service"), only(objects, "ServiceMonitor")
    pod = only(objects, "Deployment")["spec"]["template"]
    assert monitor["spec"]["selector"]["matchLabels"].items() <= service["metadata"]["labels"].items()
    assert service["spec"]["selector"].items() <= pod["metadata"]["labels"].items()
    (port,) = service["spec"]["ports"]
    assert [endpoint["port"] for endpoint in monitor["spec"]["endpoints"]] == [port["name"]]
    assert port["targetPort"] == pod["spec"]["containers"][0]["ports"][0]["name"]
    assert only(objects, "PrometheusRule")["metadata"]["namespace"] == "kube-system"


@pytest.mark.kubectl
def test_the_network_policy_is_about_the_pods_and_their_port(with_component: Callable[[str], list[Any]]) -> None:
    objects = with_component("network-policy")
    policy, pod = only(objects, "NetworkPolicy")["spec"], only(objects, "Deployment")["spec"]["template"]
    assert policy["podSelector"]["matchLabels"].items() <= pod["metadata"]["labels"].items()
    assert set(policy["policyTypes"]) == {"Ingress", "Egress"}
    (entry,) = policy["ingress"]
    assert [port["port"] for port in entry["ports"]] == [pod["spec"]["containers"][0]["ports"][0]["name"]]
    assert all(rule["from"] for rule in policy["ingress"]), "an empty list would let everybody in"


@pytest.mark.kubectl
def test_the_patch_of_the_handbook_opens_metadata_servers_and_grpc(
    with_component: Callable[[str], list[Any]], tmp_path: Path
) -> None:
    before = only(with_component("network-policy"), "NetworkPolicy")["spec"]
    (patch,) = re.findall(r"  ```yaml\n(  patches:\n.*?)  ```", (ROOT / "docs/security.md").read_text(), re.DOTALL)
    with (tmp_path / "kustomization.yaml").open("a") as overlay:
        overlay.write(textwrap.dedent(patch))
    after = only(built(tmp_path), "NetworkPolicy")["spec"]
    assert after["ingress"] == before["ingress"]
    assert after["egress"][:-2] == before["egress"]
    assert [one["ports"][0]["port"] for one in after["egress"][-2:]] == [80, 7000]
    assert all(one["to"] for one in after["egress"][-2:]), "an empty list would open the port to everybody"


@pytest.mark.kubectl
def test_announcements_reach_every_replica_also_past_the_network_policy(
    with_component: Callable[..., list[Any]],
) -> None:
    objects = with_component("ha", "network-policy", "reservations")
    pod = only(objects, "Deployment")["spec"]["template"]
    port = next(one for one in pod["spec"]["containers"][0]["ports"] if one["name"] == "reservations")
    service = only(objects, "Service")["spec"]
    assert service["selector"].items() <= pod["metadata"]["labels"].items(), "not the leader alone"
    assert [(one["port"], one["targetPort"]) for one in service["ports"]] == [(port["containerPort"], port["name"])]
    opened = [entry for entry in only(objects, "NetworkPolicy")["spec"]["ingress"] if "from" not in entry]
    assert opened == [{"ports": [{"protocol": "TCP", "port": port["name"]}]}]
    without = with_component("reservations")
    assert not [one for one in without if one["kind"] == "NetworkPolicy"]


@pytest.mark.kubectl
def test_the_dashboard_comes_as_a_config_map_that_the_sidecar_finds(with_component: Callable[[str], list[Any]]) -> None:
    made = only(with_component("dashboard"), "ConfigMap")
    assert made["metadata"]["labels"]["grafana_dashboard"] == "1"
    assert [json.loads(text)["uid"] for text in made["data"].values()] == ["cluster-autoscaler"]


def container() -> Any:
    return manifest("base", "deployment.yaml", kind="Deployment")["spec"]["template"]["spec"]


def test_the_container_is_locked_down() -> None:
    pod = container()
    inner = pod["containers"][0]["securityContext"]
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert inner == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    assert pod["priorityClassName"] == "system-cluster-critical"
    assert f"USER {pod['securityContext']['runAsUser']}:" in (ROOT / "Dockerfile").read_text()


def test_probes_ask_the_port_that_is_the_default() -> None:
    main_container = container()["containers"][0]
    asked = {probe: main_container[probe]["httpGet"] for probe in ("livenessProbe", "readinessProbe")}
    assert {probe: get["path"] for probe, get in asked.items()} == {
        "livenessProbe": "/health-check",
        "readinessProbe": "/readyz",
    }
    assert {get["port"] for get in asked.values()} == {"http"}
    assert main_container["ports"] == [{"name": "http", "containerPort": int(load([]).observe.address[1:])}]


def test_the_image_is_tagged_with_the_version() -> None:
    config = configparser.ConfigParser()
    config.read(ROOT / "setup.cfg")
    images = documents(MANIFESTS / "base" / "kustomization.yaml")[0]["images"]
    assert [image["newTag"] for image in images] == [config["metadata"]["version"]]


def test_the_externalgrpc_overlay_has_a_configuration_that_names_what_is_mounted() -> None:
    (config,) = documents(CLOUD_CONFIG)
    files = {config.pop(name) for name in ("key", "cert", "cacert")}
    assert {str(Path(path).parent) for path in files} == {"/etc/cloud-tls"}
    assert set(config) == {"address", "grpc_timeout"}


def test_the_kwok_overlay_has_groups_that_the_provider_understands() -> None:
    maps = documents(MANIFESTS / "overlays" / "kwok" / "node-groups.yaml")
    api = MemoryNodeApi()
    for one in maps:
        api.put_config_map("kube-system", one["metadata"]["name"], one["data"])
    provider = create(ProviderContext(node_api=api))
    sizes = {group.id: (group.min_size, group.max_size) for group in provider.groups()}
    assert sizes == {"small": (0, 20), "large": (0, 5)}


# Permissions


def granted(role: Mapping[str, Any]) -> set[Rule]:
    return {
        (group, resource, verb)
        for rule in role["rules"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }


def followed(*flags: str) -> set[tuple[str, str]]:
    """Return API group and resource of every kind that the daemon follows in the whole cluster."""
    clock = VirtualClock()
    with client_of("http://127.0.0.1:1", clock) as client:
        feed = ClusterFeed(client, clock)
        WatchedCluster(feed, PodInterner(), load(["--expander=priority", *flags]))
        everywhere = [path for path in feed.stats() if "/namespaces/" not in path]
    return {(path.split("/")[2] if path.startswith("/apis/") else "", path.rsplit("/", 1)[1]) for path in everywhere}


def asked_rule(asked: Asked) -> Rule:
    """Return what RBAC calls a request for one object or one subresource, or for a collection to create in."""
    verb = {"GET": "get", "POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}[asked.method]
    parts = asked.path.strip("/").split("/")
    group, rest = (parts[1], parts[3:]) if parts[0] == "apis" else ("", parts[2:])
    if rest[0] == "namespaces" and len(rest) > 2:
        rest = rest[2:]
    return group, "/".join([rest[0], *rest[2:]]), verb


def written() -> set[Rule]:
    """Make every write of the running daemon once, against an API server that agrees with everything."""
    clock = VirtualClock(wall=1_700_000_000, mono=100)
    status_map = paths.ObjectRef("v1", "ConfigMap", "cluster-autoscaler-status", "kube-system")
    lease = ElectionLease.fresh("kube-system", "cluster-autoscaler", ElectionSpec())
    event = EventRecord("e", Subject("Pod", "p", "ns"), EventType.NORMAL, "R", "m", 1.0, 1.0)
    agreed = ok({"metadata": {"name": "x", "resourceVersion": "1"}, "spec": {}})
    with scripted_api() as api, client_of(api.url, clock) as client:
        for path in (paths.node("n"), paths.path(status_map), lease.path):
            for method in ("GET", "PUT", "DELETE"):
                api.script(f"{method} {path}", agreed)
            api.script(f"POST {path.rpartition('/')[0]}", agreed)
        api.script(f"POST {paths.pod('ns', 'p')}/eviction", agreed)
        api.script("POST /api/v1/namespaces/ns/events", agreed)
        api.script("PATCH /api/v1/namespaces/ns/events/e", agreed)
        writes = Writes(client, Unopposed(), clock, lambda _seconds: True)
        writes.add_taint("n", Taint("ToBeDeletedByClusterAutoscaler", "NoSchedule", "1"), cordon=True)
        writes.evict("ns", "p", "u", 30)
        writes.create_event(event)
        writes.repeat_event(event)
        writes.put_config_map("kube-system", status_map.name, {"status": "x"})
        writes.create({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "x", "namespace": "kube-system"}})
        writes.delete(status_map)
        leases = LeaseWrites(client)
        leases.read("kube-system", "cluster-autoscaler", 1.0)
        leases.create(lease, 1.0)
        leases.replace(lease, 1.0)
        return {asked_rule(asked) for asked in api.asked}


def test_the_cluster_role_reads_what_is_followed_and_no_more() -> None:
    role = granted(manifest("base", "cluster-role.yaml", kind="ClusterRole"))
    read = {(group, resource) for group, resource, verb in role if verb in {"get", "list", "watch"}}
    assert read == followed()
    assert {(*kind, verb) for kind in read for verb in ("get", "list", "watch")} <= role


@pytest.mark.parametrize("component", ["provisioning-requests", "capacity-buffers", "capacity-quotas"])
def test_a_component_turns_on_what_its_role_reads(component: str) -> None:
    patches = manifest("components", component, "kustomization.yaml", kind="Component")["patches"]
    args = [one["value"] for patch in patches for one in yaml.safe_load(patch["patch"])]
    role = granted(manifest("components", component, "cluster-role.yaml", kind="ClusterRole"))
    listed = {(group, resource) for group, resource, verb in role if verb == "list"}
    assert listed == followed(*args) - followed()
    assert all((*kind, "watch") in role for kind in listed)


def test_roles_allow_the_writes_that_are_made_and_no_more() -> None:
    everywhere = granted(manifest("base", "cluster-role.yaml", kind="ClusterRole"))
    here = granted(manifest("base", "role.yaml", kind="Role"))
    asked = written()
    writing = {rule for rule in everywhere | here if rule[2] not in {"get", "list", "watch"}}
    assert writing == {rule for rule in asked if rule[2] != "get"}
    assert asked <= everywhere | here


def test_writes_in_the_namespace_name_their_objects_wherever_rbac_can() -> None:
    rules = manifest("base", "role.yaml", kind="Role")["rules"]
    assert [rule for rule in rules if "resourceNames" not in rule and rule["verbs"] != ["create"]] == []
    named = {name for rule in rules for name in rule.get("resourceNames", [])}
    config = load([])
    observe = config.observe
    ours = {config.leader.leader_elect_resource_name, observe.status_config_map_name, observe.pause_config_map_name}
    assert named == {*ours, CONFIG_MAP}


@pytest.mark.parametrize("path", sorted(MANIFESTS.rglob("*role.yaml")), ids=name_of)
def test_no_rule_has_a_wildcard_or_reads_secrets(path: Path) -> None:
    for role in documents(path):
        for group, resource, verb in granted(role) if "rules" in role else ():
            assert "*" not in (group, resource, verb)
            assert resource != "secrets"
