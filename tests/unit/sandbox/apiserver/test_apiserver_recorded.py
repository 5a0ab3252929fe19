"""The sandbox's API server gets the recorded requests of a real one, and has to give the same answers, field
by field.
"""

import base64
import json
import re
from collections.abc import Callable, Iterator, Mapping
from datetime import datetime
from typing import Any

import pytest
import urllib3
import yaml

from autoscaler.clock import VirtualClock
from autoscaler.sandbox.apiserver.errors import ApiError
from autoscaler.sandbox.apiserver.faults import USER, Fault
from autoscaler.sandbox.apiserver.server import ApiServer
from autoscaler.sandbox.apiserver.storage import Storage
from tests.recorded_api import RECORDED, Exchange, exchanges

NOW = datetime.fromisoformat("2026-11-22T05:40:35+00:00").timestamp()
TOKEN = "secret"
RECORDED_USER = "system:serviceaccount:kube-system:cluster-autoscaler"
HEADERS = ("Content-Type", "Retry-After", "Warning")
Json = dict[str, Any]

AFTER: Mapping[str, tuple[str, ...]] = {
    "delete-node-again": ("delete-node",),
    "get-pod-terminating": ("evict-granted",),
    "patch-node-merge": ("put-node-taint",),
    "patch-node-merge-wrong-uid": ("put-node-taint",),
    "put-lease-conflict": ("put-lease",),
    "put-node-conflict": ("put-node-taint",),
    "put-node-invalid": ("put-node-taint",),
}
"""What had been asked before."""

UNCLAIMED = {
    "discovery": "the sandbox serves fewer kinds",
    "version": "the sandbox is a build of its own",
    "list-capacitybuffers": "definitions of custom resources are not part of an empty sandbox",
    "list-capacityquotas": "definitions of custom resources are not part of an empty sandbox",
    "list-provisioningrequests": "definitions of custom resources are not part of an empty sandbox",
    "list-deviceclasses": "devices are served as v1, not as v1beta1",
    "list-resourceclaims": "devices are served as v1, not as v1beta1",
    "list-resourceclaimtemplates": "devices are served as v1, not as v1beta1",
    "list-resourceslices": "devices are served as v1, not as v1beta1",
    "watch-bookmarks": "bookmarks come more often than the real server's",
    "watch-pods": "the changes of the recorded pod are no request; other tests watch changes",
}
"""Exchanges about what the sandbox does not claim to do, and why."""

UNCLAIMED_FIELDS: Mapping[str, Mapping[str, str]] = {
    "readyz-verbose": {"": "checks are those of the sandbox"},
    "list-pods-table": {
        r"columnDefinitions\[[^04]\]\.description": "what is said of fields of all kinds is kept, of pods not"
    },
    "watch-pods-initial-events": {
        r"object\.(spec|status)": "a bookmark holds no empty parts of its kind",
    },
}
"""Fields (regular expressions of paths) that may differ, and why."""


def recorded_lists() -> Iterator[tuple[str, Json]]:
    """Plural and list of each kind as the whole cluster had it."""
    for exchange in exchanges().values():
        request = exchange.request
        plain = request.method == "GET" and exchange.name == f"list-{request.place.rpartition('/')[2]}"
        if plain and not request.query and exchange.response.status == 200:
            yield request.place.rpartition("/")[2], exchange.response.json


class Sandbox:
    """The sandbox with the recorded cluster in it."""

    def __init__(self) -> None:
        self.storage = Storage(VirtualClock(wall=NOW))
        self.versions: dict[str, str] = {}
        for plural, listed in recorded_lists():
            try:
                kind = self.storage.kind(plural)
            except ApiError:
                continue
            self.storage.load(kind, listed["items"])
            for item in listed["items"]:
                self._same(item, self.storage.get(kind, item["metadata"]["name"], item["metadata"].get("namespace")))
        self.began = self.storage.revision
        self.server = ApiServer(self.storage, token=TOKEN)
        self._pool = urllib3.PoolManager(retries=False, timeout=10)

    def __enter__(self) -> "Sandbox":
        self.server.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._pool.clear()
        self.server.stop()

    def ask(self, exchange: Exchange) -> urllib3.BaseHTTPResponse:
        """Send the recorded request, with this server's versions for the recorded ones."""
        request = exchange.request
        headers = {"Accept": request.accept, "Content-Type": request.content_type}
        if exchange.name not in ("unauthorized", "anonymous"):
            headers["Authorization"] = f"Bearer {TOKEN}"
        answer = self._pool.request(
            request.method, self.server.url + self._path(request.path), body=self._body(request.body), headers=headers
        )
        if answer.status < 300 and request.method in ("PUT", "PATCH"):
            self._same(exchange.response.json, json.loads(answer.data))
        return answer

    def _same(self, recorded: Json, ours: Json) -> None:
        self.versions[recorded["metadata"]["resourceVersion"]] = ours["metadata"]["resourceVersion"]

    def _body(self, body: Any) -> bytes | None:
        if body is None or isinstance(body, str):
            return body.encode() if body else None
        text = json.dumps(body)
        text = re.sub(r'"([\d,]+) characters"', lambda m: json.dumps("x" * int(m[1].replace(",", ""))), text)
        if (version := body.get("metadata", {}).get("resourceVersion")) is not None:
            text = text.replace(f'"resourceVersion": "{version}"', f'"resourceVersion": "{self.versions[version]}"')
        return text.encode()

    def _path(self, path: str) -> str:
        """The path, with a token as of this server's beginning for a recorded one."""
        match = re.search(r"continue=(\w{20,})", path)
        if match is None:
            return path
        token = {**read_token(match[1]), "rv": self.began}
        made = base64.urlsafe_b64encode(json.dumps(token).encode()).decode().rstrip("=")
        return path.replace(match[1], made)


def read_token(text: str) -> Json:
    token: Json = json.loads(base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)))
    return token


KNOWN_UIDS = {item["metadata"]["uid"] for _, listed in recorded_lists() for item in listed["items"]}


def comparable(value: Any, field: str = "") -> Any:
    """What is left when uids that the server chose, moments, versions and managed fields are made the same."""
    match value:
        case dict():
            return {key: comparable(inner, key) for key, inner in value.items() if key != "managedFields"}
        case list():
            return [comparable(inner, field) for inner in value]
        case str() if field == "resourceVersion":
            return "VERSION"
        case str() if field == "uid" and value not in KNOWN_UIDS:
            return "UID"
        case str() if field == "continue" and value:
            token = read_token(value)
            return {**token, "rv": min(token["rv"], 1), "start": token["start"].lstrip("/")}
        case str():
            value = value.replace(RECORDED_USER, USER)
            value = re.sub(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", "MOMENT", value)
            value = re.sub(r"(resource version: \d+, current: )\d+", r"\1VERSION", value)
            value = re.sub(r"(too old resource version: \d+ )\(\d+\)", r"\1(VERSION)", value)
            return re.sub(r"\bweb\.[a-z0-9]{5}\b", "web.SUFFIX", value)
    return value


def differences(real: Any, ours: Any, path: str = "") -> Iterator[tuple[str, str]]:
    """Each path where the two differ, and how."""
    if isinstance(real, dict) and isinstance(ours, dict):
        for key in {**real, **ours}:
            below = f"{path}.{key}" if path else key
            yield from differences(real.get(key, "absent"), ours.get(key, "absent"), below)
    elif isinstance(real, list) and isinstance(ours, list) and len(real) == len(ours):
        for position, (left, right) in enumerate(zip(real, ours, strict=True)):
            yield from differences(left, right, f"{path}[{position}]")
    elif real != ours or type(real) is not type(ours):
        yield path, f"real: {str(real)[:300]}, sandbox: {str(ours)[:300]}"


def unexpected(name: str, real: Any, ours: Any) -> list[tuple[str, str]]:
    unclaimed = UNCLAIMED_FIELDS.get(name, {})
    found = differences(comparable(real), comparable(ours))
    return [(path, how) for path, how in found if not any(re.fullmatch(field, path) for field in unclaimed)]


def parsed(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text


def run_bound_pod(sandbox: Sandbox) -> None:
    """The pod ran by then, and was not ready; without that, no budget is asked."""
    sandbox.storage.patch("pods", "bound-pod", {"status": {"phase": "Running"}}, namespace="shop", subresource="status")


def one_budget(sandbox: Sandbox) -> None:
    run_bound_pod(sandbox)
    sandbox.storage.delete("poddisruptionbudgets", "web", namespace="shop")


def no_devices(sandbox: Sandbox) -> None:
    sandbox.storage.registry.remove("resource.k8s.io", "resourceslices")


def no_secrets(sandbox: Sandbox) -> None:
    sandbox.server.faults.add(Fault(resource="secrets", code=403))


def forgotten(sandbox: Sandbox) -> None:
    """History begins after the moment of every token and version in the request."""
    sandbox.storage.create("namespaces", {"metadata": {"name": "later"}})
    sandbox.storage.compact()


BEFORE: Mapping[str, Callable[[Sandbox], None]] = {
    "evict-two-budgets": run_bound_pod,
    "evict-blocked-by-budget": one_budget,
    "list-kind-absent": no_devices,
    "forbidden-get": no_secrets,
    "forbidden-list": no_secrets,
    "list-expired-continue": forgotten,
    "list-pods-expired-version": forgotten,
}
"""What else was different when it was asked."""


CLAIMED = [name for name, e in exchanges().items() if name not in UNCLAIMED and e.response.lines is None]


@pytest.mark.parametrize("name", CLAIMED)
def test_the_sandbox_answers_as_the_real_server_did(name: str) -> None:
    exchange = exchanges()[name]
    with Sandbox() as sandbox:
        for earlier in AFTER.get(name, ()):
            sandbox.ask(exchanges()[earlier])
        if name in BEFORE:
            BEFORE[name](sandbox)
        answer = sandbox.ask(exchange)
    real = exchange.response
    said = json.loads(json.dumps(real.headers))
    assert answer.status == real.status
    assert unexpected(name, parsed(real.body), parsed(answer.data.decode())) == []
    assert {h: answer.headers.get(h) for h in HEADERS} == {h: said.get(h) for h in HEADERS}


# Watches


def lines(answer: urllib3.BaseHTTPResponse) -> list[Json]:
    return [json.loads(line) for line in answer.data.splitlines()]


def as_of_the_watch(sandbox: Sandbox) -> None:
    """Pods as they were by then: the recorded first events say how."""
    said = [json.loads(line) for line in exchanges()["watch-pods-initial-events"].response.lines or ()]
    for pod in sandbox.storage.list("pods", namespace="shop"):
        sandbox.storage.delete("pods", pod["metadata"]["name"], namespace="shop", grace_s=0)
    sandbox.storage.load("pods", [line["object"] for line in said if line["type"] == "ADDED"])


WATCHES: Mapping[str, Callable[[Sandbox], None]] = {
    "watch-expired": forgotten,
    "watch-from-zero": lambda _: None,
    "watch-pods-initial-events": as_of_the_watch,
}


def test_every_exchange_is_held_against_the_sandbox_or_said_why_not() -> None:
    assert {*CLAIMED, *UNCLAIMED, *WATCHES} == exchanges().keys()


@pytest.mark.parametrize("name", WATCHES)
def test_a_watch_says_what_the_real_one_said(name: str) -> None:
    exchange = exchanges()[name]
    with Sandbox() as sandbox:
        WATCHES[name](sandbox)
        ours = lines(sandbox.ask(exchange))
    real = [json.loads(line) for line in exchange.response.lines or ()]
    # A bookmark that ends a watch may come or not.
    ours = ours[: len(real)]
    assert [line["type"] for line in ours] == [line["type"] for line in real]
    found = [unexpected(name, theirs, line) for theirs, line in zip(real, ours, strict=True)]
    assert [each for each in found if each] == []


# Objects


CONTROLLED = {
    r"metadata\.finalizers.*": "a controller protects volumes and claims that are in use",
    r"metadata\.annotations.*": "controllers note revisions, kubectl what it applied",
    r"spec\.serviceAccount(Name)?": "the recorded cluster had no admission of service accounts",
    r"spec\.(nodeSelector|tolerations).*": "admission of runtime classes is not claimed",
    r"spec\.containers\[\d+\]\.resizePolicy.*": "in-place resizing is a gate that is closed by default",
}
"""Fields (regular expressions of paths) of created objects that may differ, and why."""


def created_objects() -> Iterator[Any]:
    kept = {
        (listed["kind"].removesuffix("List"), item["metadata"].get("namespace", ""), item["metadata"]["name"]): item
        for _, listed in recorded_lists()
        for item in listed["items"]
    }
    for applied in yaml.safe_load_all((RECORDED / "objects.yaml").read_text()):
        name = applied["metadata"]["name"]
        if not applied["apiVersion"].endswith("v1beta1"):
            stored = kept[applied["kind"], applied["metadata"].get("namespace", ""), name]
            sent = stored["metadata"]["annotations"]["kubectl.kubernetes.io/last-applied-configuration"]
            yield pytest.param(json.loads(sent), stored, id=f"{applied['kind']} {name}")


@pytest.mark.parametrize(("given", "stored"), list(created_objects()))
def test_an_object_gets_the_defaults_that_the_real_server_gave_it(given: Json, stored: Json) -> None:
    storage = Storage(VirtualClock(wall=NOW))
    if given["kind"] == "Pod":
        storage.load("priorityclasses", [{"metadata": {"name": "low"}, "value": -100, "preemptionPolicy": "Never"}])
    if "namespace" in given["metadata"]:
        storage.load("namespaces", [{"metadata": {"name": "shop"}, "status": {"phase": "Active"}}])
    id_ = (given["apiVersion"], given["kind"])
    kind = next(row for row in storage.registry.rows if (row.api_version, row.kind) == id_)
    made = storage.create(kind, given)
    # Controllers had been at work on status.
    real, ours = (comparable({**obj, "status": {}, "kind": "", "apiVersion": ""}) for obj in (stored, made))
    real = json.loads(json.dumps(real).replace(stored["metadata"]["uid"], "UID"))
    ours = json.loads(json.dumps(ours).replace(made["metadata"]["uid"], "UID"))
    found = [(path, how) for path, how in differences(real, ours) if not any(re.fullmatch(f, path) for f in CONTROLLED)]
    assert found == []
