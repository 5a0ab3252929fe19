"""Dumps of a cluster as kubectl prints them."""

import json
from typing import Any

import pytest
import yaml

from autoscaler.errors import ConfigError
from autoscaler.objects.devices import DEVICE_VERSIONS
from autoscaler.scenario.dump import Dump, DumpText, read_dump
from tests.devices import claim_form, claim_template_form, slice_form

NODE: dict[str, Any] = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1"}}
POD: dict[str, Any] = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p1", "namespace": "shop"}}


def a_list(*items: Any, kind: str = "List") -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": kind, "items": list(items)}


def read(*documents: Any, form: str = "json") -> Dump:
    texts = [yaml.safe_dump(document) if form == "yaml" else json.dumps(document, indent=4) for document in documents]
    return read_dump([DumpText(f"file-{number}", text.encode()) for number, text in enumerate(texts)])


def names(dump: Dump, kind: str) -> list[str]:
    return [one.metadata.name for one in dump.named(kind)]


@pytest.mark.parametrize("form", ["json", "yaml"])
@pytest.mark.parametrize(
    "documents",
    [
        pytest.param([NODE, POD], id="single objects"),
        pytest.param([a_list(NODE, POD)], id="one list of kubectl"),
        pytest.param([a_list(NODE), a_list(POD)], id="a list a kind"),
        pytest.param(
            [
                a_list({"metadata": {"name": "n1"}}, kind="NodeList"),
                a_list({"metadata": POD["metadata"]}, kind="PodList"),
            ],
            id="answers of the API server",
        ),
    ],
)
def test_objects_come_in_any_wrapping(documents: list[Any], form: str) -> None:
    dump = read(*documents, form=form)
    assert (names(dump, "Node"), names(dump, "Pod")) == (["n1"], ["p1"])


@pytest.mark.parametrize(
    "text",
    [
        json.dumps(a_list(NODE), indent=4) + "\n" + json.dumps(POD, indent=4) + "\n",
        "\n---\n".join([yaml.safe_dump(NODE), yaml.safe_dump(POD)]),
    ],
    ids=["json", "yaml"],
)
def test_a_file_may_hold_several_documents(text: str) -> None:
    dump = read_dump([DumpText("all", text.encode())])
    assert (names(dump, "Node"), names(dump, "Pod")) == (["n1"], ["p1"])


def test_kinds_that_nothing_reads_are_counted_and_custom_resources_of_their_names_as_well() -> None:
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}, "data": {"password": "aHVudGVyMg=="}}
    foreign = {"apiVersion": "example.com/v1", "kind": "Node", "metadata": {"name": "other"}}
    dump = read(a_list(secret, secret, foreign, NODE))
    assert dict(dump.unused) == {"Secret": 2, "Node": 1}
    assert names(dump, "Node") == ["n1"]


def test_of_one_object_the_later_copy_counts_and_both_places_are_named() -> None:
    dump = read(a_list(NODE), a_list({**NODE, "spec": {"unschedulable": True}}))
    assert [one.spec.unschedulable for one in dump.named("Node")] == [True]
    assert dump.warnings == ["file-1: items[0]: Node n1 is there already (file-0: items[0]): the later one counts"]


def test_the_order_of_the_input_does_not_matter() -> None:
    pods = [{**POD, "metadata": {"name": f"p{number}", "namespace": "shop"}} for number in range(3)]
    assert names(read(a_list(*pods)), "Pod") == names(read(a_list(*reversed(pods))), "Pod") == ["p0", "p1", "p2"]


def test_the_newest_moment_is_that_of_any_object_expiries_aside() -> None:
    heartbeat = {"type": "Ready", "status": "True", "lastHeartbeatTime": "2026-01-05T12:00:00Z"}
    node = {**NODE, "status": {"conditions": [heartbeat]}}
    lease = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "spec": {"renewTime": "2026-01-05T12:00:07.25Z"}}
    pod = {**POD, "metadata": {**POD["metadata"], "creationTimestamp": "2026-01-05T11:00:00Z"}}
    wait = {"apiVersion": "v1", "kind": "Token", "status": {"expirationTimestamp": "2027-01-01T00:00:00Z"}}
    assert read(a_list(node, pod, wait)).newest == "2026-01-05T12:00:00Z"
    assert read(a_list(node, lease, pod)).newest == "2026-01-05T12:00:07.25Z"


def complaints(*bodies: bytes) -> list[str]:
    with pytest.raises(ConfigError) as caught:
        read_dump([DumpText(f"file-{number}", body) for number, body in enumerate(bodies)])
    return list(caught.value.problems)


def test_everything_that_cannot_be_read_is_named_with_file_and_path() -> None:
    found = complaints(
        json.dumps({"kind": "List", "items": 5}).encode(),
        b'{"apiVersion": "v1", "kind": "List", "items": [{"kind": "No',
        b'{"metadata": {}}',
        b"kind: [",
        b"",
    )
    assert found.pop(3).startswith("file-3: is neither JSON nor YAML: ")  # in the words of the YAML library
    assert found == [
        "file-0: items: expected `array | null`, got `int`",
        "file-1: is not JSON: input data was truncated (line 1, column 60, byte 60)",
        "file-2: has no kind; write what kubectl get -o json prints",
        "file-4: is empty; write what kubectl get -o json prints",
    ]


def test_one_odd_object_is_left_out_with_a_line_that_names_it() -> None:
    meta = {"name": "odd", "namespace": "shop"}
    bad = {
        **POD,
        "metadata": meta,
        "spec": {"nodeName": "n1", "containers": [{"resources": {"requests": {"cpu": "x"}}}]},
    }
    waits = {**bad, "metadata": {**meta, "name": "waits"}, "spec": {"containers": [{"resources": 1}]}}
    nameless = {"apiVersion": "v1", "kind": "Pod", "metadata": {"namespace": "shop"}}
    dump = read(a_list(NODE, bad, waits, nameless, {"metadata": {"name": "x"}}, 5, POD))
    assert [pod.metadata.name for pod in dump.named("Pod")] == ["odd", POD["metadata"]["name"]]
    assert dump.warnings == [
        "file-0: items[1]: Pod shop/odd counts as one of which nothing is known: it cannot be decoded: "
        "a quantity or a time cannot be read",
        "file-0: items[2]: Pod shop/waits is left out: it cannot be decoded: "
        "Expected `object`, got `int` - at `$.spec.containers[0].resources`",
        "file-0: items[3]: Pod without a name is left out: it cannot be decoded: an object without a name",
        "file-0: items[4]: is left out: it has no kind",
        "file-0: items[5]: is left out: it cannot be decoded: Expected `object`, got `int`",
    ]


def test_a_list_without_items_holds_nothing() -> None:
    assert read({"apiVersion": "v1", "kind": "PodList", "metadata": None, "items": None}) == Dump()


@pytest.mark.parametrize(
    ("body", "problem"),
    [
        pytest.param(b'{"items": [' + b"[" * 100_000, "is nested too deeply", id="brackets in JSON"),
        pytest.param(b"- " * 100_000, "is nested deeper than 200", id="dashes in YAML"),
        pytest.param(
            b"kind: List\nx: &a [x,x,x,x,x,x,x,x,x]\n"
            + b"".join(b"x%d: &%c [%s]\n" % (n, 98 + n, b",".join([b"*%c" % (97 + n)] * 9)) for n in range(9)),
            "aliases repeat more than a megabyte",
            id="aliases of aliases",
        ),
        pytest.param("kind: Pod".encode("utf-16"), "it is UTF-16; save it as UTF-8", id="UTF-16"),
        pytest.param(b"kind: \xff", "it is not UTF-8 text", id="no text"),
        pytest.param(b"kind: \0", "control characters are not allowed", id="NUL"),
    ],
)
def test_a_file_made_to_hurt_is_one_line(body: bytes, problem: str) -> None:
    (line,) = complaints(body)
    assert problem in line
    assert len(line) < 300


def test_progress_is_told_up_to_the_end() -> None:
    told: list[tuple[int, int]] = []
    body = json.dumps(a_list(NODE, POD)).encode()
    read_dump([DumpText("all", body)], lambda done, total: told.append((done, total)))
    assert told[-1] == (len(body), len(body))
    assert [done for done, _ in told] == sorted(done for done, _ in told)


def test_what_asks_for_capacity_is_read() -> None:
    spec = {"provisioningClassName": "c", "podSets": [{"count": 2, "podTemplateRef": {"name": "t"}}]}
    meta = {"name": "r", "namespace": "jobs"}
    request = {"apiVersion": "autoscaling.x-k8s.io/v1", "kind": "ProvisioningRequest", "metadata": meta, "spec": spec}
    template = {"apiVersion": "v1", "kind": "PodTemplate", "metadata": {"name": "t", "namespace": "jobs"}}
    dump = read_dump([DumpText("dump.json", json.dumps({"kind": "List", "items": [request, template]}).encode())])
    assert [one.pod_count for one in dump.named("ProvisioningRequest")] == [2]
    assert [one.key for one in dump.named("PodTemplate")] == ["jobs/t"]
    assert dump.unused == {}


@pytest.mark.parametrize("version", DEVICE_VERSIONS)
def test_devices_and_claims_on_them_are_read_in_every_version(version: str) -> None:
    about = {"apiVersion": f"resource.k8s.io/{version}"}
    offered = {**about, "kind": "ResourceSlice", **slice_form("n1")}
    claimed = {**about, "kind": "ResourceClaim", **claim_form("gpu", "dev-0", namespace="jobs")}
    template = {**about, "kind": "ResourceClaimTemplate", **claim_template_form("one", namespace="jobs")}
    device_class = {**about, "kind": "DeviceClass", "metadata": {"name": "gpu"}}
    dump = read(a_list(offered, claimed, template, device_class))
    assert [one.spec.node_name for one in dump.named("ResourceSlice")] == ["n1"]
    assert [one.key for one in dump.named("ResourceClaim")] == ["jobs/gpu"]
    assert [one.key for one in dump.named("ResourceClaimTemplate")] == ["jobs/one"]
    assert [one.key for one in dump.named("DeviceClass")] == ["gpu"]
    assert dump.unused == {}
