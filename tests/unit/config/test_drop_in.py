"""Command lines written for Cluster Autoscaler, 1.31 to the newest: flags are known, and none is dropped silently."""

import json
import re
from pathlib import Path

import pytest

from autoscaler.cli.config_command import migration_table
from autoscaler.cli.main import main
from autoscaler.config.flags import flags, without_effect
from autoscaler.config.load import load
from autoscaler.config.syntax import Support
from cloudprovider.catalog import BUILT_IN

PAGE = Path(__file__).parents[3] / "docs" / "migrating-from-cluster-autoscaler.md"

THEIRS = """
    address allowed-scheduler-names async-node-groups aws-use-static-instance-list balance-similar-node-groups
    balancing-ignore-label balancing-label blocking-system-pod-distruption-timeout bulk-mig-instances-listing-enabled
    bypassed-scheduler-names capacity-buffer-controller-enabled capacity-buffer-pod-dry-run-enabled
    capacity-buffer-pod-injection-enabled capacity-buffer-ready-replicas-enabled capacity-quotas-enabled
    check-capacity-batch-processing check-capacity-processor-instance check-capacity-provisioning-request-batch-timebox
    check-capacity-provisioning-request-max-batch-size cloud-config cloud-provider cluster-name
    cluster-snapshot-parallelism clusterapi-cloud-config-authoritative cordon-node-before-terminating cores-total
    daemonset-eviction-for-empty-nodes daemonset-eviction-for-occupied-nodes debugging-snapshot-enabled
    drain-priority-config dynamic-node-delete-delay-after-taint-enabled emit-per-nodegroup-metrics
    enable-csi-node-aware-scheduling enable-dynamic-resource-allocation enable-graceful-degradation
    enable-inter-pod-affinity-hostname-fast-path enable-proactive-scaleup enable-provisioning-requests
    enforce-node-group-min-size estimator expander expendable-pods-priority-cutoff fastpath-binpacking-enabled
    force-delete-failed-nodes force-delete-unregistered-nodes force-ds frequent-loops-enabled gce-concurrent-refreshes
    gce-mig-instances-min-refresh-wait-time gpu-total grpc-expander-cert grpc-expander-url ignore-daemonsets-utilization
    ignore-mirror-pods-utilization ignore-taint initial-node-group-backoff-duration kube-api-content-type
    kube-client-burst kube-client-qps kubeconfig kubernetes max-allocatable-difference-ratio max-binpacking-time
    max-bulk-soft-taint-count max-bulk-soft-taint-time max-drain-parallelism max-failing-time max-free-difference-ratio
    max-graceful-termination-sec max-inactivity max-node-group-backoff-duration max-node-provision-time
    max-node-skip-eval-time-tracker-enabled max-node-startup-time max-nodegroup-binpacking-duration
    max-nodes-per-scaleup max-nodes-total max-pod-eviction-time max-scale-down-parallelism max-startup-time
    max-total-unready-percentage memory-difference-ratio memory-total min-replica-count namespace
    new-pod-scale-up-delay node-delete-delay-after-taint node-deletion-batcher-interval node-deletion-candidate-ttl
    node-deletion-delay-timeout node-group-auto-discovery node-group-backoff-reset-timeout node-info-cache-expire-time
    node-removal-latency-tracking-enabled nodes ok-total-unready-count parallel-scale-up pending-pods-batching-timeout
    pod-injection-limit predicate-parallelism profiling provisioning-request-initial-backoff-time
    provisioning-request-max-backoff-cache-size provisioning-request-max-backoff-time record-duplicated-events regional
    salvo-scale-up salvo-scale-up-budget scale-down-candidates-pool-min-count scale-down-candidates-pool-ratio
    scale-down-delay-after-add scale-down-delay-after-delete scale-down-delay-after-failure scale-down-delay-type-local
    scale-down-enabled scale-down-gpu-utilization-threshold scale-down-non-empty-candidates-count
    scale-down-simulation-timeout scale-down-unneeded-time scale-down-unready-enabled scale-down-unready-time
    scale-down-utilization-threshold scale-from-unschedulable scale-up-from-zero
    scaleup-simulation-for-skipped-node-groups-enabled scan-interval scheduler-config-file scheduler-verbosity
    skip-nodes-with-custom-controller-pods skip-nodes-with-local-storage skip-nodes-with-system-pods startup-taint
    startup-taint-prefix status-config-map-name status-taint unremovable-node-recheck-timeout user-agent
    write-status-configmap
""".split()  # noqa: SIM905
"""Flags that Cluster Autoscaler itself defines in any version from 1.31 to the newest and still has."""

OLDER = """
    gce-expander-ephemeral-storage-support max-autoprovisioned-node-group-count max-empty-bulk-delete
    node-autoprovisioning-enabled parallel-drain
""".split()  # noqa: SIM905
"""Flags that 1.31 has and the newest version has no more."""

LIBRARIES = """
    add-dir-header alsologtostderr feature-gates leader-elect leader-elect-lease-duration leader-elect-renew-deadline
    leader-elect-resource-lock leader-elect-resource-name leader-elect-resource-namespace leader-elect-retry-period
    log-backtrace-at log-dir log-file log-file-max-size log-flush-frequency log-json-info-buffer-size
    log-json-split-stream log-text-info-buffer-size log-text-split-stream logging-format logtostderr one-output
    skip-headers skip-log-headers stderrthreshold v vmodule
""".split()  # noqa: SIM905
"""Flags that it has from the libraries for logs, leader election and feature gates."""

HELM = ["--logtostderr=true", "--stderrthreshold=info", "--v=4"]
"""What the Helm chart adds unless told otherwise."""

DEPLOYMENTS = {
    "helm-aws": [
        "--cloud-provider=aws",
        "--namespace=kube-system",
        "--node-group-auto-discovery=asg:tag=k8s.io/cluster-autoscaler/enabled,k8s.io/cluster-autoscaler/prod",
        *HELM,
    ],
    "helm-gce": [
        "--cloud-provider=gce",
        "--namespace=kube-system",
        "--node-group-auto-discovery=mig:namePrefix=ig01,min=0,max=10",
        "--node-group-auto-discovery=mig:namePrefix=ig02,min=0,max=10",
        *HELM,
    ],
    "helm-azure": [
        "--cloud-provider=azure",
        "--namespace=kube-system",
        "--nodes=1:2:asg1",
        "--node-group-auto-discovery=label:cluster-autoscaler-enabled=true,cluster-autoscaler-name=prod",
        *HELM,
    ],
    "helm-clusterapi": [
        "--cloud-provider=clusterapi",
        "--namespace=kube-system",
        "--node-group-auto-discovery=clusterapi:namespace=capi,clusterName=prod,color=green",
        "--clusterapi-cloud-config-authoritative",
        *HELM,
    ],
    "helm-magnum": [
        "--cloud-provider=magnum",
        "--namespace=kube-system",
        "--cluster-name=prod",
        "--node-group-auto-discovery=magnum:role=worker",
        "--cloud-config=/etc/kubernetes/cloud.conf",
        *HELM,
    ],
    "helm-hetzner": ["--cloud-provider=hetzner", "--namespace=kube-system", "--nodes=1:9:CX41:fsn1:pool1", *HELM],
    "helm-oci": [
        "--cloud-provider=oci",
        "--namespace=kube-system",
        "--nodes=1:5:ocid1.nodepool.oc1..x",
        "--balance-similar-node-groups",
        *HELM,
    ],
    "kops": [
        "--balance-similar-node-groups=false",
        "--cloud-provider=aws",
        "--aws-use-static-instance-list=false",
        "--expander=random",
        "--nodes=2:5:nodes-us-test-1a.prod.example.com",
        "--ignore-daemonsets-utilization=false",
        "--scale-down-utilization-threshold=0.5",
        "--skip-nodes-with-local-storage=true",
        "--skip-nodes-with-system-pods=true",
        "--scale-down-delay-after-add=10m0s",
        "--scale-down-unneeded-time=10m0s",
        "--scale-down-unready-time=20m0s",
        "--new-pod-scale-up-delay=0s",
        "--max-node-provision-time=15m0s",
        "--cordon-node-before-terminating=true",
        *HELM,
    ],
    "eks": [
        "--v=4",
        "--stderrthreshold=info",
        "--cloud-provider=aws",
        "--skip-nodes-with-local-storage=false",
        "--expander=least-waste",
        "--node-group-auto-discovery=asg:tag=k8s.io/cluster-autoscaler/enabled,k8s.io/cluster-autoscaler/eksdemo1",
        "--balance-similar-node-groups",
        "--skip-nodes-with-system-pods=false",
    ],
    "azure-scale-sets": [
        "--v=3",
        "--logtostderr=true",
        "--cloud-provider=azure",
        "--skip-nodes-with-local-storage=false",
        "--nodes=1:10:vmss1",
    ],
    "aks-profile": [
        "--cloud-provider=azure",
        "--scan-interval=10s",
        "--scale-down-delay-after-add=10m",
        "--scale-down-delay-after-delete=10s",
        "--scale-down-delay-after-failure=3m",
        "--scale-down-unneeded-time=10m",
        "--scale-down-unready-time=20m",
        "--ignore-daemonsets-utilization=false",
        "--daemonset-eviction-for-empty-nodes=false",
        "--daemonset-eviction-for-occupied-nodes=true",
        "--scale-down-utilization-threshold=0.5",
        "--max-graceful-termination-sec=600",
        "--balance-similar-node-groups=false",
        "--expander=random",
        "--skip-nodes-with-local-storage=false",
        "--skip-nodes-with-system-pods=true",
        "--max-empty-bulk-delete=10",
        "--new-pod-scale-up-delay=0s",
        "--max-total-unready-percentage=45",
        "--max-node-provision-time=15m",
        "--ok-total-unready-count=3",
    ],
    "clusterapi-example": ["--cloud-provider=clusterapi"],
}
"""Arguments of well-known deployments in clouds, as their templates render them."""


def a_kubeconfig(folder: Path) -> Path:
    """Return a file that names an API server that nobody runs."""
    document = {
        "current-context": "here",
        "contexts": [{"name": "here", "context": {"cluster": "here"}}],
        "clusters": [{"name": "here", "cluster": {"server": "http://127.0.0.1:1"}}],
    }
    path = folder / "kubeconfig"
    path.write_text(json.dumps(document))
    return path


def test_every_flag_of_cluster_autoscaler_is_known() -> None:
    assert [name for name in (*THEIRS, *OLDER, *LIBRARIES) if name not in flags()] == []


def test_flags_that_it_never_had_say_so() -> None:
    older_still = {
        "cloud-provider-gce-l7lb-src-cidrs",
        "cloud-provider-gce-lb-src-cidrs",
        "configmap",
        "filter-out-schedulable-pods-uses-packing",
        "unregistered-node-removal-time",
    }
    claimed = {flag.name for flag in flags().values() if flag.support is not Support.OURS}
    still_to_come = {"record-dir", "record-passes"}
    assert claimed - {*THEIRS, *OLDER, *LIBRARIES} - still_to_come == older_still


def test_what_is_not_the_same_says_why() -> None:
    silent = (Support.SAME, Support.OURS)
    assert [flag.name for flag in flags().values() if not flag.why and flag.support not in silent] == []


NEED_NO_ACCOUNT = {name: argv for name, argv in DEPLOYMENTS.items() if "--cloud-provider=clusterapi" in argv}
NEED_ONE = {name: argv for name, argv in DEPLOYMENTS.items() if name not in NEED_NO_ACCOUNT}


@pytest.mark.parametrize("argv", NEED_NO_ACCOUNT.values(), ids=NEED_NO_ACCOUNT.keys())
def test_well_known_deployments_whose_provider_needs_no_account_lack_nothing(argv: list[str]) -> None:
    assert without_effect(load(argv)) == ()


@pytest.mark.parametrize("argv", NEED_ONE.values(), ids=NEED_ONE.keys())
def test_well_known_deployments_lack_their_provider_or_its_account_and_nothing_else(
    argv: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", "/nowhere/key.json")
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    for name in ("AWS_REGION", "AWS_DEFAULT_REGION"):
        monkeypatch.delenv(name, raising=False)
    provider = next(word.partition("=")[2] for word in argv if word.startswith("--cloud-provider="))
    assert set(load(argv).given) == {word.lstrip("-").partition("=")[0] for word in argv}
    assert main([*argv, f"--kubeconfig={a_kubeconfig(tmp_path)}", "--address=127.0.0.1:0"]) == 2
    told = capsys.readouterr().err
    if provider in {entry.name for entry in BUILT_IN}:
        assert {line.partition(": ")[0] for line in told.splitlines()} <= {"cloud-config", "cloud-provider", "nodes"}
        assert "is not installed" not in told
    else:
        assert re.fullmatch(rf"cloud-provider: '{provider}' is not installed; known are: .*\n", told)


def test_what_helm_adds_by_itself_is_nothing_to_warn_of() -> None:
    assert without_effect(load(["--cloud-provider=kwok", "--namespace=kube-system", *HELM])) == ()


def test_flags_without_effect_are_named_once_set() -> None:
    assert without_effect(load(["--log-file=/tmp/ca.log", "--cluster-name=prod", "--logtostderr=false"])) == (
        "cluster-name",
        "log-file",
        "logtostderr",
    )


@pytest.mark.parametrize(
    ("argv", "groups"),
    [
        pytest.param(["--salvo-scale-up", "--compatibility=1.31"], "all", id="salvo over the preset"),
        pytest.param(["--salvo-scale-up", "--groups-per-pass=one"], "one", id="our flag over salvo"),
        pytest.param(["--compatibility=1.31"], "one", id="no salvo"),
    ],
)
def test_salvo_means_several_groups_in_a_pass(argv: list[str], groups: str) -> None:
    assert load(argv).scale_up.groups_per_pass == groups


def test_the_table_of_the_migration_page_is_fresh() -> None:
    _, begin, rest = PAGE.read_text(encoding="utf-8").partition("<!-- autoscaler config migration -->\n\n")
    table, end, _ = rest.partition("\n<!-- end -->")
    assert begin
    assert end
    assert table == migration_table(), (
        "put the output of `autoscaler config migration` between the two comments of the page"
    )
