"""Drives the embedded API server with the real kubectl."""

import json
import os
import re
import shutil
import subprocess
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from autoscaler.clock import SystemClock
from autoscaler.sandbox.apiserver.records import StoreChange
from autoscaler.sandbox.apiserver.server import ApiServer, TlsFiles
from autoscaler.sandbox.apiserver.storage import Storage
from tests.manifests import a_bare_pod

pytestmark = [
    pytest.mark.kubectl,
    pytest.mark.skipif(shutil.which("kubectl") is None, reason="kubectl is not on the PATH"),
]

DEPLOYMENT = """
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, labels: {app: web}}
spec:
  replicas: 2
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      containers:
      - {name: c, image: nginx, resources: {requests: {cpu: 100m}}, ports: [{containerPort: 80}]}
"""
DEFINITION = """
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: widgets.example.com}
spec:
  group: example.com
  scope: Namespaced
  names: {plural: widgets, singular: widget, kind: Widget, shortNames: [wd]}
  versions:
  - name: v1
    served: true
    storage: true
    subresources: {status: {}}
    additionalPrinterColumns: [{name: Size, type: integer, jsonPath: .spec.size}]
    schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}
"""
WIDGET = """
apiVersion: example.com/v1
kind: Widget
metadata: {name: w}
spec: {size: 3}
"""


class Kubectl:
    """The command line against one server, with a home of its own."""

    def __init__(self, kubeconfig: Path) -> None:
        home = kubeconfig.parent
        self.environment = {"PATH": os.environ["PATH"], "HOME": str(home), "KUBECONFIG": str(kubeconfig)}

    def __call__(self, line: str, stdin: str = "") -> str:
        """Run it, expect success, return what it printed."""
        done = self.run(line, stdin)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def run(self, line: str, stdin: str = "") -> "subprocess.CompletedProcess[str]":
        return subprocess.run(
            ["kubectl", *line.split()],
            input=stdin,
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=30,
            check=False,
        )

    def follow(self, line: str) -> "subprocess.Popen[str]":
        return subprocess.Popen(["kubectl", *line.split()], env=self.environment, stdout=subprocess.PIPE, text=True)


@pytest.fixture
def storage() -> Storage:
    storage = Storage(SystemClock())
    ready = {"capacity": {"cpu": "4"}, "conditions": [{"type": "Ready", "status": "True"}]}
    storage.create("nodes", {"metadata": {"name": "n1"}, "status": ready})
    return storage


@pytest.fixture
def kubectl(storage: Storage, tmp_path: Path) -> Iterator[Kubectl]:
    with ApiServer(storage) as server:
        server.write_kubeconfig(tmp_path / "kubeconfig")
        yield Kubectl(tmp_path / "kubeconfig")


def run_on_node(storage: Storage, name: str) -> None:
    storage.bind(name, "n1")
    ready = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
    storage.patch("pods", name, {"status": ready}, subresource="status")


class Kubelet:
    """Lets terminating pods go, on a thread of its own."""

    def __init__(self, storage: Storage) -> None:
        self._storage = storage
        self._watch = storage.watch("pods")
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> "Kubelet":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._watch.close()
        self._thread.join(10)

    def _run(self) -> None:
        while not self._watch.closed:
            for event in self._watch.wait(10):
                pod = event.object()
                if event.type != "DELETED" and "deletionTimestamp" in pod["metadata"]:
                    self._storage.delete("pods", pod["metadata"]["name"], grace_s=0)


def columns(table: str) -> list[list[str]]:
    return [re.split(r"\s{2,}", line.strip()) for line in table.splitlines()]


def test_discovery_and_version(kubectl: Kubectl) -> None:
    listed = kubectl("api-resources")
    assert re.search(r"^deployments\s+deploy\s+apps/v1\s+true\s+Deployment$", listed, re.MULTILINE)
    assert "policy/v1" in kubectl("api-versions")
    assert "Server Version: v1.32" in kubectl("version")
    assert kubectl("get --raw /readyz") == "ok"
    assert "KIND:       Deployment" in kubectl("explain deployments")
    assert kubectl("auth can-i delete nodes").strip() == "yes"
    assert re.search(r"^\*\.\*\s+\[\]\s+\[\]\s+\[\*\]$", kubectl("auth can-i --list"), re.MULTILINE)
    assert re.search(r"^Username\s+sandbox$", kubectl("auth whoami"), re.MULTILINE)


def test_apply_twice_changes_nothing_the_second_time(kubectl: Kubectl, storage: Storage) -> None:
    assert kubectl("apply -f -", DEPLOYMENT) == "deployment.apps/web created\n"
    before = storage.revision
    assert kubectl("apply -f -", DEPLOYMENT) == "deployment.apps/web unchanged\n"
    assert storage.revision == before
    assert kubectl("apply -f -", DEPLOYMENT.replace("nginx", "nginx:2")) == "deployment.apps/web configured\n"
    (container,) = storage.get("deployments", "web")["spec"]["template"]["spec"]["containers"]
    assert (container["image"], container["ports"]) == ("nginx:2", [{"containerPort": 80, "protocol": "TCP"}])
    shown = columns(kubectl("get deployments -o wide"))
    assert shown[1][:4] == ["web", "0/2", "0", "0"]


def test_server_side_apply_and_dry_run(kubectl: Kubectl, storage: Storage) -> None:
    assert "serverside-applied (server dry run)" in kubectl("apply --server-side --dry-run=server -f -", DEPLOYMENT)
    assert storage.list("deployments") == []
    assert kubectl("apply --server-side -f -", DEPLOYMENT) == "deployment.apps/web serverside-applied\n"
    kubectl("apply --server-side -f -", DEPLOYMENT.replace("replicas: 2", "replicas: 3"))
    assert storage.get("deployments", "web")["spec"]["replicas"] == 3


def test_scale_set_image_and_three_kinds_of_patch(kubectl: Kubectl, storage: Storage) -> None:
    kubectl("create deployment web --image=nginx --replicas=2")
    kubectl("scale deployment web --replicas=5")
    kubectl("set image deployment/web nginx=nginx:3")
    kubectl("""patch deployment web --type=json -p [{"op":"add","path":"/metadata/labels/a","value":"b"}]""")
    kubectl("""patch deployment web --type=merge -p {"spec":{"paused":true}}""")
    added = {"spec": {"template": {"spec": {"containers": [{"name": "side", "image": "s"}]}}}}
    kubectl(f"patch deployment web --type=strategic -p {json.dumps(added, separators=(',', ':'))}")
    found = storage.get("deployments", "web")
    assert (found["spec"]["replicas"], found["spec"]["paused"], found["metadata"]["labels"]["a"]) == (5, True, "b")
    images = [container["image"] for container in found["spec"]["template"]["spec"]["containers"]]
    assert sorted(images) == ["nginx:3", "s"]


def test_create_from_stdin_validates_and_describes(kubectl: Kubectl) -> None:
    assert kubectl("create -f -", json.dumps(a_bare_pod(labels={"app": "web"}))) == "pod/p created\n"
    described = kubectl("describe pod p")
    assert "QoS Class:" in described
    assert "AlreadyExists" in kubectl.run("create -f -", json.dumps(a_bare_pod("p"))).stderr
    refused = kubectl.run("create -f -", json.dumps(a_bare_pod("NOT_A_NAME")))
    assert (refused.returncode, "metadata.name: Invalid value" in refused.stderr) == (1, True)
    odd = kubectl.run("create -f -", json.dumps({**a_bare_pod("odd"), "odd": 1}))
    assert (odd.returncode, 'strict decoding error: unknown field "odd"' in odd.stderr) == (1, True)
    assert "Conditions:" in kubectl("describe node n1")


def test_labels_annotations_taints_and_cordon(kubectl: Kubectl, storage: Storage) -> None:
    kubectl("label node n1 pool=web")
    kubectl("annotate node n1 note=hello")
    kubectl("taint node n1 a=b:NoSchedule c=d:NoExecute")
    kubectl("taint node n1 a:NoSchedule-")
    kubectl("cordon n1")
    node = storage.get("nodes", "n1")
    assert node["metadata"]["labels"] == {"pool": "web"}
    assert node["metadata"]["annotations"] == {"note": "hello"}
    assert node["spec"]["taints"] == [{"key": "c", "value": "d", "effect": "NoExecute"}]
    assert columns(kubectl("get nodes"))[1][1] == "Ready,SchedulingDisabled"
    kubectl("uncordon n1")
    assert columns(kubectl("get nodes"))[1][1] == "Ready"


def test_a_drain_waits_for_the_budget_and_the_kubelet(kubectl: Kubectl, storage: Storage) -> None:
    storage.create("pods", a_bare_pod(labels={"app": "web"}))
    run_on_node(storage, "p")
    kubectl("create poddisruptionbudget guard --selector=app=web --min-available=1")

    def allow(number: int) -> None:
        status = {"observedGeneration": 1, "disruptionsAllowed": number, "currentHealthy": 1, "desiredHealthy": 1}
        storage.patch("poddisruptionbudgets", "guard", {"status": status}, subresource="status")

    allow(0)
    blocked = kubectl.run("drain n1 --force --timeout=1s")
    assert blocked.returncode == 1
    assert "Cannot evict pod as it would violate the pod's disruption budget" in blocked.stderr
    assert "deletionTimestamp" not in storage.get("pods", "p")["metadata"]
    allow(1)
    with Kubelet(storage):
        assert "node/n1 drained" in kubectl("drain n1 --force --timeout=20s")
    assert storage.list("pods") == []
    assert storage.get("poddisruptionbudgets", "guard")["status"]["disruptionsAllowed"] == 0


def test_delete_waits_until_the_pod_is_gone(kubectl: Kubectl, storage: Storage) -> None:
    storage.create("pods", a_bare_pod("p"))
    run_on_node(storage, "p")
    with Kubelet(storage):
        assert kubectl("delete pod p --timeout=20s") == 'pod "p" deleted\n'
    assert storage.list("pods") == []
    kubectl("create namespace team")
    kubectl("create configmap c --from-literal=a=b -n team")
    kubectl("delete namespace team --timeout=20s")
    assert storage.list("configmaps") == []


def test_get_watch_shows_changes(kubectl: Kubectl, storage: Storage) -> None:
    storage.create("pods", a_bare_pod("p"))
    process = kubectl.follow("get pods -w --request-timeout=20s")
    assert process.stdout is not None
    lines = [process.stdout.readline().split() for _ in range(2)]
    storage.bind("p", "n1")
    storage.patch("pods", "p", {"status": {"phase": "Running"}}, subresource="status")
    lines += [process.stdout.readline().split() for _ in range(2)]
    process.terminate()
    process.communicate(timeout=10)
    assert lines[0][:3] == ["NAME", "READY", "STATUS"]
    assert [line[2] for line in lines[1:]] == ["Pending", "Pending", "Running"]


def test_custom_resources(kubectl: Kubectl, storage: Storage) -> None:
    kubectl("apply -f -", DEFINITION)
    kubectl("wait --for=condition=established crd/widgets.example.com --timeout=10s")
    assert kubectl("apply -f -", WIDGET) == "widget.example.com/w created\n"
    assert kubectl("apply -f -", WIDGET.replace("3", "4")) == "widget.example.com/w configured\n"
    assert columns(kubectl("get wd")) == [["NAME", "SIZE"], ["w", "4"]]
    kubectl("delete crd widgets.example.com")
    assert "widgets" not in kubectl("api-resources --cached=false")


def test_what_the_sandbox_lacks_is_said_clearly(kubectl: Kubectl, storage: Storage) -> None:
    storage.create("pods", a_bare_pod("p"))
    run_on_node(storage, "p")
    for line in ("logs p", "exec p -- ls", "attach p", "port-forward p 8080:80"):
        refused = kubectl.run(line)
        assert (refused.returncode, "not available in the sandbox cluster" in refused.stderr) == (1, True), line


def test_usage_and_autoscalers(kubectl: Kubectl, storage: Storage) -> None:
    storage.create("pods", a_bare_pod("p"))
    run_on_node(storage, "p")
    assert columns(kubectl("top pods"))[1] == ["p", "5m", "16Mi"]
    assert columns(kubectl("top nodes"))[1][0] == "n1"
    kubectl("apply -f -", DEPLOYMENT)
    assert "autoscaled" in kubectl("autoscale deployment web --max=5 --cpu-percent=50")
    assert columns(kubectl("get hpa"))[1][:3] == ["web", "Deployment/web", "cpu: <unknown>/50%"]


@pytest.mark.skipif(shutil.which("openssl") is None, reason="openssl is not on the PATH")
def test_tls_with_a_token(storage: Storage, tmp_path: Path) -> None:
    files = TlsFiles(tmp_path / "cert.pem", tmp_path / "key.pem")
    subject = ["-subj", "/CN=sandbox", "-addext", "subjectAltName=IP:127.0.0.1", "-days", "1", "-nodes"]
    output = ["-keyout", str(files.key), "-out", str(files.certificate)]
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "rsa:2048", *subject, *output], check=True, capture_output=True
    )
    with ApiServer(storage, token="secret", tls=files) as server:
        server.write_kubeconfig(tmp_path / "kubeconfig")
        kubectl = Kubectl(tmp_path / "kubeconfig")
        assert columns(kubectl("get nodes"))[1][0] == "n1"
        process = kubectl.follow("get nodes -w --request-timeout=20s")
        assert process.stdout is not None
        for _ in range(2):
            process.stdout.readline()
        storage.patch("nodes", "n1", {"spec": {"unschedulable": True}})
        assert "SchedulingDisabled" in process.stdout.readline()
        process.terminate()
        process.communicate(timeout=10)


def test_listeners_can_play_controllers(kubectl: Kubectl, storage: Storage) -> None:
    def scheduler(change: StoreChange) -> None:
        if change.type == "ADDED":
            storage.bind(change.key[1], "n1")

    stop: Callable[[], None] = storage.listen("pods", scheduler)
    kubectl("run p --image=nginx")
    stop()
    assert kubectl("get pod p -o jsonpath={.spec.nodeName}") == "n1"
