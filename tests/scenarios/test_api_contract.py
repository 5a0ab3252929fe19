"""Every route of the daemon's port: a live server answers as the document says, in every state."""

import json
import random
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from openapi_spec_validator import validate

from autoscaler.app.companion_set import CompanionSet
from autoscaler.config.load import load
from autoscaler.config.tree import Config
from autoscaler.explain.api import PATH as EXPLAIN
from autoscaler.explain.api import explain_routes
from autoscaler.explain.service import ExplainService
from autoscaler.observe.api.api import read_routes
from autoscaler.observe.api.table import access_table, path_table
from autoscaler.observe.http.endpoint import EndpointRoutes
from autoscaler.observe.http.health import HealthCheck, StuckLimits
from autoscaler.observe.http.openapi import PATH, about_daemon, with_document
from autoscaler.observe.http.server import WebServer
from autoscaler.observe.metrics.metrics import Metrics
from autoscaler.observe.publish import Publisher
from autoscaler.observe.status import NodeState, ProcessStatus
from autoscaler.observe.status_board import StatusBoard
from autoscaler.sandbox.actors.timing import Timing
from autoscaler.simulator.world import START_WALL, World
from tests.api_contract import NO_OBJECTS, Operation, Site, spoilt
from tests.worlds import a_cloud, a_deployment, a_group

DOCS = Path(__file__).parents[2] / "docs" / "api.md"
SECURITY = DOCS.with_name("security.md")
SEED, BODIES = 20261120, 150
WAITS = "/snapshotz"
"""Answers once a whole pass has been run; that has tests of its own."""
COMPANIONS = """
headroom:
  pools:
    - name: ci
      namespace: default
      maxPods: 3
      resources: {cpu: "1", memory: 1Gi}
      policies: [{name: base, idleCount: 2}]
reservations:
  targets:
    - name: gpu
      maxReplicas: 20
      podTemplate: {spec: {containers: [{name: c, resources: {requests: {cpu: "2"}}}]}}
    - name: huge
      podTemplate: {spec: {containers: [{name: c, resources: {requests: {cpu: "200"}}}]}}
"""
ON, OFF = "companions on", "companions off"
STATES = {
    "fresh, companions off": (OFF, 0.0),
    "fresh, companions on": (ON, 0.0),
    "one pass": (ON, 1.0),
    "many passes": (ON, 400.0),
    "many passes, companions off": (OFF, 400.0),
}


def configuration(folder: Path, companions: str) -> Config:
    if companions == OFF:
        return load(["--cloud-provider=static", "--pod-start-estimates=false"])
    file = folder / "autoscaler.yaml"
    file.write_text(COMPANIONS)
    return load(["--cloud-provider=static", f"--config={file}", "--debugging-snapshot-enabled", "--serve-recordings"])


class Daemon:
    """A world whose autoscaler tells of itself as the daemon does."""

    def __init__(self, config: Config, run_s: float) -> None:
        self.board = StatusBoard(ProcessStatus(identity="me", version="1", started_at=START_WALL, leading=True))
        cloud = a_cloud(a_group(), a_group("my_odd_group_at", cpu="16", max_size=1), machines={"web": 2}, seed=1)
        metrics = Metrics()
        workload = (a_deployment(replicas=9), a_deployment("stuck", replicas=2, cpu="64"))
        self.world = World(config, cloud, workload, timing=Timing(), seed=1)
        clock = self.world.clock
        self.health = HealthCheck(StuckLimits(600, 900), clock.now())
        replica = self.world.replica
        assert replica is not None
        self.companion_set: CompanionSet = replica.companion_set
        publisher = Publisher(config, self.board, metrics, self.health, lambda: (), None, self.companion_set.expected)
        if run_s:
            self.world.announce("gpu", 4, 3600)
            self.world.announce("huge", 1, 3600)
            self.world.at(run_s / 2, lambda: self.world.scale("app", 2))
            self.world.run_for(run_s)
            for report in self.world.reports:
                publisher.pass_ended(report)
        explanations = ExplainService(self.board, clock, lambda: explanations.answer(), clock.advance)
        if run_s:
            state = replica.autoscaler.examine(clock.now())
            publisher.pass_ended(state.report)
            explanations.passed(state)
        read = read_routes(self.board, metrics, self.health, clock)
        explain = explain_routes(self.board, explanations.ask)
        self.routes = with_document({**read, **explain, **self.companion_set.routes}, about_daemon("1.2.3"))


@pytest.fixture(scope="module", params=STATES)
def daemon(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    companions, run_s = STATES[request.param]
    made = Daemon(configuration(tmp_path_factory.mktemp("config"), companions), run_s)
    with made.world:
        yield made


@pytest.fixture(scope="module")
def routes(daemon: Daemon) -> EndpointRoutes:
    return daemon.routes


@pytest.fixture(scope="module")
def site(daemon: Daemon) -> Iterator[Site]:
    server = WebServer("127.0.0.1:0", daemon.routes, daemon.world.clock)
    server.start()
    with closing(Site(server.port, PATH)) as made:
        yield made
    server.stop()


def asked(site: Site) -> list[Operation]:
    return [operation for operation in site.operations if operation.path != WAITS]


def test_the_document_is_openapi(site: Site) -> None:
    validate(site.document)


def test_what_is_served_is_described_and_what_is_described_is_served(site: Site, routes: EndpointRoutes) -> None:
    assert all(endpoint.exposes for methods in routes.values() for endpoint in methods.values())
    described = {(operation.path, operation.method) for operation in site.operations}
    assert described == {(path, method) for path, methods in routes.items() for method in methods}
    for one in asked(site):
        answer = site.ask(one.method, one.path)
        assert b'"code":"not_found"' not in answer.body
        assert b'"code":"method_not_allowed"' not in answer.body


def test_whatever_may_be_asked_is_answered_as_described(site: Site) -> None:
    for one in asked(site):
        if one.method != "GET":
            continue
        site.check(one, site.ask("GET", one.path))
        for parameter in one.parameters("query"):
            for value in site.right_values(parameter["schema"]):
                answer = site.ask("GET", f"{one.path}?{parameter['name']}={value}")
                site.check(one, answer)
                assert answer.status in (200, 404), (one.path, parameter["name"], value, answer.body)


def test_explanations_have_near_misses_and_remedies_as_described(daemon: Daemon, site: Site) -> None:
    (operation,) = (known for known in site.operations if known.path == EXPLAIN)
    status = daemon.board.view.status
    targets = [f"pod={pod.namespace}/{pod.name}" for pod in status.pods]
    targets += [f"node={node.name}" for node in status.nodes]
    targets += [f"group={group.id}" for group in status.groups]
    assert bool(targets) is (status.last_pass is not None)
    explained = 0
    for target in targets:
        answer = site.ask("GET", f"{EXPLAIN}?{target}")
        site.check(operation, answer)
        explanation = answer.json["explanation"]
        assert (explanation is None) is (answer.json["notExplained"] is not None), target
        if explanation is not None:
            explained += 1
            assert explanation["kind"] == target.partition("=")[0]
            assert explanation["target"] == target.replace("=", "/", 1)
        if target.startswith("pod=default/stuck"):
            assert explanation["remedy"]["text"]
    machines = {node.name for node in status.nodes if node.state is NodeState.UPCOMING}
    assert explained == len(targets) - len(machines)


def test_what_may_not_be_asked_is_refused_as_described(site: Site) -> None:
    for one in asked(site):
        for parameter in one.parameters("query"):
            for value in site.wrong_values(parameter["schema"]):
                answer = site.ask(one.method, f"{one.path}?{parameter['name']}={value}")
                site.check(one, answer)
                assert (answer.status, answer.json["error"]["field"]) == (400, parameter["name"]), (one.path, value)
        answer = site.ask(one.method, f"{one.path}?surprise=1")
        site.check(one, answer)
        if one.path.startswith("/api/"):
            assert (answer.status, answer.json["error"]["field"]) == (400, "surprise")


def test_other_methods_are_refused_and_head_is_get_without_a_body(site: Site) -> None:
    for path, methods in site.document["paths"].items():
        known = {method.upper() for method in methods}
        known |= {"HEAD"} if "GET" in known else set()
        for method in {"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"} - known:
            answer = site.ask(method, path, b"{}")
            assert (answer.status, set(answer.headers["Allow"].split(", "))) == (405, known), (method, path)
        if path != WAITS and "GET" in known:
            head, got = site.ask("HEAD", path), site.ask("GET", path)
            assert (head.status, head.headers["Content-Type"], head.body) == (
                got.status,
                got.headers["Content-Type"],
                b"",
            )


def test_bodies_that_are_none_are_refused_as_described(site: Site) -> None:
    for one in asked(site):
        for name, body in NO_OBJECTS.items() if one.forms else ():
            answer = site.ask(one.method, one.path, body)
            site.check(one, answer)
            assert (answer.status, answer.json["error"]["code"]) == (400, "invalid_body"), (one.path, name)
    for one in site.operations:
        if one.forms:
            answer = site.ask(one.method, one.path, b" " * (1024 * 1024 + 1))
            site.check(one, answer)
            assert (answer.status, answer.json["error"]["code"]) == (413, "body_too_large")


def test_bodies_of_every_shape_are_answered_as_described(site: Site) -> None:
    dice = random.Random(SEED)
    for one in asked(site):
        for schema in one.forms.values():
            for number in range(BODIES):
                body = site.value(schema, dice)
                for _ in range(number % 3):
                    body = spoilt(body, dice)
                sent = json.dumps(body).encode()
                answer = site.ask(one.method, one.path, sent)
                site.check(one, answer)
                assert answer.status in (200, 400, 422), (sent, answer.body)


def test_the_handbook_has_the_table_of_paths(tmp_path: Path) -> None:
    daemon = Daemon(configuration(tmp_path, ON), 0.0)
    with daemon.world:
        table = "\n".join(path_table(daemon.routes))
        access = "\n".join(access_table(daemon.routes))
    assert f"\n\n{table}\n\n" in DOCS.read_text(), f"the table of paths in docs/api.md should be\n{table}"
    assert f"\n\n{access}\n\n" in SECURITY.read_text(), f"the table of the port in docs/security.md should be\n{access}"
