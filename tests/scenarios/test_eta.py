"""Estimates through whole passes in virtual time: the places of pods, the samples, and the published estimates."""

import random
from itertools import chain, repeat
from typing import Any

import msgspec
import pytest

from autoscaler.clock import Instant
from autoscaler.config.load import load
from autoscaler.config.tree import Config
from autoscaler.eta.answers import WhatIf
from autoscaler.eta.api import EtaPages
from autoscaler.eta.estimate import StartEstimate, WaitLevel
from autoscaler.eta.history import PodStage
from autoscaler.eta.hypothetical_pod import read_pod
from autoscaler.eta.keeper import EtaKeeper
from autoscaler.eta.metrics import ETA, EtaMetrics
from autoscaler.eta.page import starts_page
from autoscaler.eta.samples import Sample
from autoscaler.eta.status import active_rows
from autoscaler.logs import DETAIL
from autoscaler.loop.companion import Companions
from autoscaler.objects.meta import rfc3339
from autoscaler.objects.pod import Pod
from autoscaler.observe.http.routing import Request, route
from autoscaler.observe.metrics.metrics import Metrics
from autoscaler.observe.page.capacity import capacity_bars
from autoscaler.observe.page.document import PageOptions
from autoscaler.observe.report import PassReport
from autoscaler.observe.status import ProcessStatus, PublishedStatus
from autoscaler.observe.summary import summarise
from autoscaler.ports import EventType, Subject
from autoscaler.reasons import ScaleUpResult
from autoscaler.snapshot.cluster import view_of
from cloudprovider.interface import NodeTemplate
from cloudprovider.static.spec import BootDelay, GroupSpec
from tests.builders import a_node, a_pod
from tests.unit.loop.loop_world import NOW, LoopWorld, a_spec, waiting

BOOTS = (60.0, 62.0, 64.0, 70.0, 75.0, 80.0, 90.0, 100.0, 120.0, 180.0)


class Noticed:
    """An event sink and a place for boot times."""

    def __init__(self, samples: Any = None) -> None:
        self.events: list[tuple[str, str]] = []
        self.samples = samples or {}
        self.saved = 0

    def event(self, about: Subject, kind: EventType, reason: str, message: str) -> None:
        self.events.append((about.name, reason))

    def load(self) -> Any:
        return self.samples

    def save(self, samples: Any) -> None:
        self.samples = samples
        self.saved += 1


class EtaWorld(LoopWorld):
    """The loop with estimates."""

    def __init__(self, *groups: GroupSpec, flags: tuple[str, ...] = (), boots: bool = True, **options: Any) -> None:
        config: Config = load(list(flags))
        known = {"web": tuple(Sample(NOW, seconds) for seconds in BOOTS)} if boots else {}
        self.noticed = Noticed(known)
        self.metrics = Metrics()
        self.metrics.start()
        self.keeper = EtaKeeper(config, EtaMetrics(self.metrics.companion(ETA)), self.noticed, self.noticed)
        self.keeper.tick(Instant(NOW, 0.0))
        self.failed: list[str] = []
        super().__init__(*groups, config=config, companions=Companions([self.keeper], self.failed.append), **options)
        self.pages = EtaPages(lambda: self.keeper.status, lambda: self.clock.now().wall, starts_page).routes()

    def run(self, after_s: float = 0.0) -> PassReport:
        report = super().run(after_s)
        assert self.failed == []
        return report

    def of(self, name: str) -> StartEstimate:
        return self.keeper.status.estimates[f"default/{name}"]

    def ask(self, path: str, method: str = "GET", body: object = None, **query: str) -> tuple[int, Any]:
        raw = body if isinstance(body, bytes) else msgspec.json.encode(body)
        answer = route(self.pages, Request(method, path, query, {}, raw))
        return answer.status, msgspec.json.decode(answer.body)

    def scraped(self, text: str) -> list[str]:
        return [line for line in self.metrics.scrape().decode().splitlines() if text in line]

    def started(self, pod: Pod, node: str, ready_after_s: float = 0.0, cpu: str = "3") -> Pod:
        """Put the pod on a node, to be ready so many seconds from now."""
        at = rfc3339(self.clock.now().wall)
        ready = rfc3339(self.clock.now().wall + ready_after_s)
        done = [
            {"type": "PodScheduled", "status": "True", "lastTransitionTime": at},
            {"type": "Ready", "status": "True", "lastTransitionTime": ready},
        ]
        there = a_pod(pod.name, cpu=cpu, node=node, created=pod.created, status={"conditions": done, "startTime": at})
        self.submit(there)
        return there


def test_a3_a_cluster_without_nodes_is_accounted_for_and_passes_go_on() -> None:
    world = EtaWorld(a_spec("web"))
    world.submit(waiting("a"))
    assert world.run().scale_up.result is ScaleUpResult.SUCCESSFUL
    assert world.scraped('capacity_wanted_ratio{resource="cpu"} +Inf')
    assert world.ask("/api/v1/eta")[1]["capacity"]["wantedRatio"]["cpu"] is None


def test_a_bought_node_is_level_4_then_level_3_with_its_age() -> None:
    world = EtaWorld(a_spec("web"))
    world.submit(waiting("a"))
    world.run()
    assert (world.of("a").level, world.of("a").expected_s, world.of("a").group) == (WaitLevel.PLANNED, 97.0, "web")
    world.run(65.0)
    found = world.of("a")
    assert (found.level, found.expected_s, found.worst_s) == (WaitLevel.UPCOMING, 47.0, 180.0)


def test_a10_a_later_small_pod_slips_past_one_that_does_not_fit() -> None:
    world = EtaWorld(a_spec("web", cpu="4", target=0))
    world.submit(waiting("first", cpu="4"))
    world.run()
    world.cluster.remove_pod("default/first")
    world.submit(
        a_pod("a", cpu="3", priority=100, created=NOW - 100, unschedulable=True),
        a_pod("b", cpu="2", priority=0, created=NOW - 300, unschedulable=True),
        a_pod("c", cpu="1", priority=0, created=NOW - 200, unschedulable=True),
    )
    world.run(15.0)
    levels = {name: world.of(name).level for name in ("a", "b", "c")}
    assert levels == {"a": WaitLevel.UPCOMING, "b": WaitLevel.PLANNED, "c": WaitLevel.UPCOMING}
    assert world.of("a").node == world.of("c").node


def test_a12_a_node_that_is_long_overdue_is_not_counted_on() -> None:
    world = EtaWorld(a_spec("web"))
    world.submit(waiting("a"))
    world.run()
    world.run(901.0)
    assert world.of("a").level in (WaitLevel.PLANNED, WaitLevel.UNKNOWN)
    assert world.scraped('node_boot_failures_total{node_group="web"} 1.0')


def test_a13_groups_at_their_maximum_leave_no_estimate_but_a_reason() -> None:
    world = EtaWorld(a_spec("web", max_size=0))
    world.submit(waiting("a"))
    world.run()
    found = world.of("a")
    assert (found.level, found.reason, found.expected_s) == (WaitLevel.UNKNOWN, "max_size", None)
    assert world.scraped('pod_start_unknown_total{reason="max_size"} 1.0')


def test_work_that_ends_makes_room_where_nothing_can_be_added() -> None:
    node = a_node("n1")
    world = EtaWorld(a_spec("web", max_size=1), nodes=[(node, "web")])
    world.submit(a_pod("job", cpu="3", node="n1", owner="Job/batch"), waiting("a"))
    world.run()
    assert world.of("a").level is WaitLevel.QUEUE
    world.submit(waiting("big", cpu="9"))
    world.run(15.0)
    assert world.of("big").reason == "no_group_fits"


def test_room_on_a_ready_node_is_level_1_and_preemption_level_2() -> None:
    node = a_node("n1")
    world = EtaWorld(a_spec("web", max_size=1), nodes=[(node, "web")], boots=False)
    there = a_pod(
        "old",
        cpu="1",
        node="n1",
        status={"conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": rfc3339(NOW)}]},
        spec={"terminationGracePeriodSeconds": 40},
    )
    going = msgspec.structs.replace(there, name="going", uid="going", deleted=NOW)
    world.submit(there, going, waiting("a", cpu="1"), a_pod("n", cpu="1", nominated="n1", unschedulable=True))
    world.run()
    found = world.of("a")
    assert (found.level, found.expected_s, found.worst_s) == (WaitLevel.ROOM, 7.0, 25.0)
    assert (world.of("n").level, world.of("n").expected_s) == (WaitLevel.PREEMPTION, 47.0)


def test_a14_the_error_of_an_estimate_is_recorded() -> None:
    world = EtaWorld(a_spec("web", boot_s=30.0))
    pod = waiting("a", created=NOW)
    world.submit(pod)
    world.run(65.0)
    world.run(65.0)
    estimated = world.keeper.history.get(pod.uid)
    assert estimated is not None
    assert estimated.estimated_ready_at == NOW + 65 + 97
    (node,) = world.boot()
    world.clock.advance(97.0 + 14.0 - 65.0)
    world.started(pod, node.name)
    world.run()
    _, answer = world.ask("/api/v1/pods/history", state="Ready")
    assert [one["errorSeconds"] for one in answer["items"]] == [14.0]
    late = 'pod_start_estimate_abs_error_seconds_{}{{direction="late",level="4"}} {}'
    assert world.scraped(late.format("count", "1.0"))
    assert world.scraped(late.format("sum", "14.0"))
    assert world.scraped('pod_start_estimate_within_worst_total{result="yes"} 1.0')
    assert world.scraped('node_boot_seconds_count{node_group="web"} 1.0')


def test_a15_a_name_used_again_is_another_pod() -> None:
    world = EtaWorld(a_spec("web"), nodes=[(a_node("n1"), "web")])
    pod = waiting("a", created=NOW)
    world.submit(pod)
    world.run()
    world.started(pod, "n1")
    world.run(10.0)
    world.cluster.remove_pod("default/a")
    world.submit(msgspec.structs.replace(waiting("a", created=NOW + 20), uid="another"))
    world.run(10.0)
    _, answer = world.ask("/api/v1/pods/history")
    new, old = answer["items"]
    assert (new["uid"], new["readyAt"], new["deletedAt"]) == ("another", None, None)
    assert old["uid"] == pod.uid
    assert old["readyAt"] is not None
    assert old["deletedAt"] == rfc3339(NOW + 20).replace("Z", ".000Z")


def test_pods_that_were_there_before_us_have_no_estimate_and_no_error() -> None:
    world = EtaWorld(a_spec("web"), nodes=[(a_node("n1"), "web")])
    world.started(waiting("a"), "n1")
    world.run()
    _, answer = world.ask("/api/v1/pods/history")
    assert [(one["state"], one["estimatedReadyAt"]) for one in answer["items"]] == [("Ready", None)]
    assert world.keeper.status.accuracy.pods == 0


def test_a23_a_missed_deadline_is_told_once_and_nothing_is_deleted() -> None:
    world = EtaWorld(a_spec("web", max_size=1), nodes=[(a_node("n1"), "web")])
    pod = waiting("a", created=NOW)
    world.submit(pod)
    world.run()
    world.submit(a_pod("a", cpu="3", node="n1", phase="Running", created=NOW))
    for _ in range(3):
        world.run(200.0)
    assert world.noticed.events == [("a", "PodStartOverdue")]
    assert "default/a" in world.cluster.pods
    assert world.scraped("pod_start_overdue_total 1.0")


def test_a19_active_pods_fit_six_rows() -> None:
    pods = [a_pod(f"p{number}", created=100.0 + number) for number in range(7)]
    shown = [name for name, _ in active_rows(view_of([], pods), everything=False)]
    assert shown == [
        "default/p0",
        "default/p1",
        "default/p2",
        "... 1 of 7 total omitted ...",
        "default/p4",
        "default/p5",
        "default/p6",
    ]
    assert len(active_rows(view_of([], pods[:6]), everything=False)) == 6
    assert len(active_rows(view_of([], pods), everything=True)) == 7
    assert active_rows(view_of([], []), everything=False) == []


def test_a20_names_from_the_cloud_are_escaped_on_the_page() -> None:
    world = EtaWorld(a_spec("<b>x</b>"))
    world.run()
    page = route(world.pages, Request("GET", "/status/starts")).body.decode()
    assert "&lt;b&gt;x&lt;/b&gt;" in page
    assert "<b>x" not in page
    assert "total CPUs in cluster" in page


def test_a_pod_that_does_not_exist_is_estimated_and_nothing_is_written() -> None:
    world = EtaWorld(a_spec("web", cpu="4"), nodes=[(a_node("n1", cpu="4"), "web")], boots=False)
    world.run()
    calls = list(world.calls)

    def asked(cpu: str) -> Any:
        container = {"name": "c", "resources": {"requests": {"cpu": cpu}}}
        body = {"metadata": {"name": "x"}, "spec": {"containers": [container]}}
        return world.ask("/api/v1/eta", "POST", body)[1]

    assert (asked("3")["level"], asked("3")["expectedSeconds"]) == (1, 22.0)
    world.submit(a_pod("full", cpu="4", node="n1"))
    world.run(15.0)
    assert (asked("3")["level"], asked("3")["expectedSeconds"], asked("3")["group"]) == (4, 217.0, "web")
    assert (asked("5")["level"], asked("5")["reason"]) == (6, "no_group_fits")
    assert world.calls == calls


@pytest.mark.parametrize(
    ("body", "status", "code", "field"),
    [
        (b"no json", 400, "invalid_body", None),
        ({"spec": {"containers": []}}, 422, "invalid_pod", "spec.containers"),
        (
            {"spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": "2cores"}}}]}},
            422,
            "invalid_pod",
            "spec.containers[0].resources.requests.cpu",
        ),
        ({"spec": {"containers": [{"name": 5}]}}, 422, "invalid_pod", "spec.containers[0].name"),
        ({"metadata": {}}, 422, "invalid_pod", "spec"),
    ],
)
def test_bad_pods_are_refused_with_the_culprit_named(body: Any, status: int, code: str, field: str | None) -> None:
    world = EtaWorld(a_spec("web"))
    found, answer = world.ask("/api/v1/eta", "POST", body)
    assert (found, answer["error"]["code"], answer["error"].get("field")) == (status, code, field)


def a_huge(**spec: Any) -> dict[str, Any]:
    return {"spec": {"containers": [{"name": "c"}], **spec}}


def near(*terms: Any) -> dict[str, Any]:
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": list(terms)}}}


RULE = {"key": "zone", "operator": "In", "values": ["a"]}
TERMS = "spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms"
APART = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [{"topologyKey": "zone"}] * 21}}
NAMED = {"name": "c", "resources": {"requests": {f"x.io/{number}": "1" for number in range(33)}}}


@pytest.mark.parametrize(
    ("body", "field"),
    [
        (a_huge(containers=[{"name": "c"}] * 101), "spec.containers"),
        (a_huge(containers=[{"name": "c", "ports": [{"containerPort": 1}] * 101}]), "spec.containers[0].ports"),
        (a_huge(containers=[{"name": "c"}, NAMED]), "spec.containers[1].resources.requests"),
        (a_huge(initContainers=[{"name": "c"}] * 101), "spec.initContainers"),
        (a_huge(volumes=[{"name": "v", "emptyDir": {}}] * 101), "spec.volumes"),
        (a_huge(tolerations=[{"operator": "Exists"}] * 101), "spec.tolerations"),
        (a_huge(nodeSelector={f"k{number}": "" for number in range(101)}), "spec.nodeSelector"),
        (a_huge(topologySpreadConstraints=[{"topologyKey": "zone"}] * 21), "spec.topologySpreadConstraints"),
        (a_huge(affinity=near(*[{}] * 21)), TERMS),
        (a_huge(affinity=near({}, {"matchExpressions": [RULE] * 21})), f"{TERMS}[1].matchExpressions"),
        (
            a_huge(affinity=near({"matchExpressions": [{**RULE, "values": ["a"] * 1001}]})),
            f"{TERMS}[0].matchExpressions[0].values",
        ),
        (a_huge(affinity=near(*[{"matchExpressions": [{**RULE, "values": ["a"] * 800}]}] * 7)), "spec"),
        (a_huge(affinity=APART), "spec.affinity.podAntiAffinity.requiredDuringSchedulingIgnoredDuringExecution"),
        (a_huge(nodeSelector={"zone": "x" * 5000}), "spec.nodeSelector"),
        (a_huge(schedulerName="x" * 5000), "spec.schedulerName"),
        ({**a_huge(), "metadata": {"labels": {"x" * 5000: "a"}}}, "metadata.labels"),
    ],
)
def test_pods_that_would_take_long_are_refused_with_the_culprit_named(body: Any, field: str) -> None:
    status, answer = EtaWorld(a_spec("web")).ask("/api/v1/eta", "POST", body)
    assert (status, answer["error"]["code"], answer["error"]["field"]) == (400, "pod_too_large", field)


def test_a_pod_with_a_long_annotation_is_like_any_other() -> None:
    world = EtaWorld(a_spec("web"))
    world.run()
    body = {**a_huge(), "metadata": {"annotations": {"last-applied": "x" * 200_000}}}
    assert world.ask("/api/v1/eta", "POST", body)[0] == 200


def test_pods_that_do_not_exist_are_looked_at_one_at_a_time() -> None:
    world, inside = EtaWorld(a_spec("web")), []
    world.run()

    def gone() -> bool:
        inside.append(world.ask("/api/v1/eta", "POST", a_huge()))
        return False

    asked = Request("POST", "/api/v1/eta", body=msgspec.json.encode(a_huge()), client_gone=gone)
    assert route(world.pages, asked).status == 200
    assert {(status, answer["error"]["code"]) for status, answer in inside} == {(429, "busy")}
    assert world.ask("/api/v1/eta", "POST", a_huge())[0] == 200


def test_work_ends_between_any_two_steps_once_the_client_is_gone() -> None:
    groups = [a_spec(f"g{number}", cpu="2") for number in range(5)]
    world = EtaWorld(*groups)
    world.run()
    body = a_huge(containers=[{"name": "c", "resources": {"requests": {"cpu": "3"}}}])
    statuses = []
    for patience in range(10):
        left = chain([False] * patience, repeat(True))
        asked = Request("POST", "/api/v1/eta", body=msgspec.json.encode(body), client_gone=left.__next__)
        statuses.append(route(world.pages, asked).status)
    steps = statuses.index(200)
    assert steps > len(groups)
    assert statuses == [408] * steps + [200] * (10 - steps)


def test_what_was_asked_about_is_forgotten_in_time() -> None:
    """Every resource and label key that a pod names is a column over all nodes of the copy that is asked."""
    world, copies = EtaWorld(a_spec("web"), nodes=[(a_node("n1", cpu="4"), "web")], boots=False), set()
    world.run()
    status, imagined = world.keeper.status, WhatIf()
    for number in range(30):
        requests = {f"x{number}.io/{other}": "1" for other in range(32)}
        container = {"name": "c", "resources": {"requests": requests}}
        pod = read_pod(msgspec.json.encode(a_huge(containers=[container])))
        imagined.ask(status, pod)
        places = imagined._places
        assert places is not None
        assert places._outcome.placer is not None
        trial = places._outcome.placer.trial
        copies.add(id(trial))
        assert len(trial.vocabulary.rows) < 350
    assert len(copies) > 1


@pytest.mark.parametrize(("name", "value"), [("limit", "0"), ("limit", "5000"), ("since", "yesterday"), ("state", "x")])
def test_bad_parameters_of_the_history_are_named(name: str, value: str) -> None:
    status, answer = EtaWorld(a_spec("web")).ask("/api/v1/pods/history", **{name: value})
    assert (status, answer["error"]["code"], answer["error"]["field"]) == (400, "invalid_parameter", name)


def test_one_pod_can_be_asked_for() -> None:
    world = EtaWorld(a_spec("web"))
    world.submit(waiting("a"))
    world.run()
    assert world.ask("/api/v1/eta", pod="default/a")[1]["expectedSeconds"] == 97.0
    status, answer = world.ask("/api/v1/eta", pod="default/nobody")
    assert (status, answer["error"]["code"]) == (404, "pod_not_found")


def test_only_so_many_estimates_are_made_the_highest_priority_first() -> None:
    world = EtaWorld(a_spec("web"), flags=("--estimate-max-pods=1",))
    world.submit(waiting("a"), a_pod("b", cpu="3", priority=5, created=NOW, unschedulable=True))
    world.run()
    _, answer = world.ask("/api/v1/eta")
    assert {one["name"]: one["reason"] for one in answer["items"]} == {"a": "not_computed", "b": None}


def test_the_ratio_can_be_chosen() -> None:
    world = EtaWorld(
        a_spec("web", cpu="8"), flags=("--pod-start-estimator=ratio",), nodes=[(a_node("n1", cpu="8"), "web")]
    )
    world.submit(waiting("a"), a_pod("r", cpu="1", node="n1"))
    world.run()
    assert world.of("a").expected_s == 90.0


def test_questions_about_pods_that_do_not_exist_go_by_the_estimator_that_is_chosen() -> None:
    groups = (a_spec("web", cpu="8", max_size=1),)
    world = EtaWorld(*groups, flags=("--pod-start-estimator=ratio",), nodes=[(a_node("n1", cpu="8"), "web")])
    world.submit(waiting("a", cpu="4"), a_pod("r", cpu="4", node="n1"))
    world.run()
    asked = {"metadata": {"name": "new"}, "spec": {"containers": [{"resources": {"requests": {"cpu": "2"}}}]}}
    _, answer = world.ask("/api/v1/eta", "POST", asked)
    # (4 pending + 4 running) / (8 - 2 of overhead) * 600
    assert (answer["level"], answer["expectedSeconds"], answer["worstSeconds"]) == (5, 800.0, 800.0)
    assert list(answer["terms"]) == ["ratio"]


def test_a_default_is_no_estimate_to_be_held_to() -> None:
    world = EtaWorld(a_spec("web", boot_s=9.0), boots=False)
    first, second = waiting("a"), waiting("b")
    world.submit(first)
    world.run()
    assert world.of("a").assumed
    assert world.ask("/api/v1/eta", pod="default/a")[1]["assumed"] is True
    assert world.keeper.expected == {}
    world.clock.advance(9.0)
    (node,) = world.boot()
    world.started(first, node.name)
    world.submit(second)
    world.run()
    assert world.keeper.status.accuracy.pods == 0
    found = world.of("b")
    assert (found.assumed, found.terms["boot"].expected, found.terms["boot"].worst) == (False, 9.0, 15.0)
    assert world.keeper.expected == {"default/b": found.expected_s}


def test_both_pages_count_the_same_capacity() -> None:
    world = EtaWorld(a_spec("web"), nodes=[(a_node("n1", cpu="8"), "web"), (a_node("n2", cpu="8", ready=False), "web")])
    starting = msgspec.structs.replace(a_pod("s", cpu="300m", node="n1"), phase="Pending")
    world.submit(a_pod("r", cpu="3500m", node="n1"), starting, waiting("w", cpu="16"))
    report = world.run()
    before = PublishedStatus(process=ProcessStatus(identity="me", version="0", started_at=0.0))
    cluster = summarise(report, before, number=1).cluster
    assert cluster is not None
    assert "CPU: 3.8 running, 16 pending, 16 on nodes" in str(capacity_bars(cluster, ()))
    page = starts_page(world.keeper.status, NOW, PageOptions(refresh_s=30)).body.decode()
    assert "3.8 CPUs running, 16 CPUs pending, 16 total CPUs in cluster" in page
    assert '<meta http-equiv="refresh" content="30">' in page


def test_expected_starts_are_on_the_status_of_pods() -> None:
    world = EtaWorld(a_spec("web"))
    world.submit(waiting("a"))
    report = world.run()
    before = PublishedStatus(process=ProcessStatus(identity="me", version="0", started_at=0.0))
    status = summarise(report, before, number=1, etas=world.keeper.expected)
    assert [pod.eta_s for pod in status.pods] == [97.0]


def test_boot_times_are_stored_when_there_are_new_ones() -> None:
    world = EtaWorld(a_spec("web", boot_s=30.0))
    world.submit(waiting("a"))
    world.run()
    world.keeper.tick(world.clock.now())
    assert world.noticed.saved == 0
    world.clock.advance(70.0)
    world.boot()
    world.run()
    world.keeper.tick(world.clock.now())
    world.keeper.tick(world.clock.now())
    assert world.noticed.saved == 1
    assert [one.seconds for one in world.noticed.samples["web"]] == [*BOOTS, 70.0]


def test_a_job_that_ends_by_itself_is_finished_and_a_deleted_pod_is_not(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(DETAIL)
    world = EtaWorld(a_spec("web"), nodes=[(a_node("n1"), "web")])
    world.run()
    at = rfc3339(NOW)
    done = {"conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": at}]}
    world.submit(a_pod("job", node="n1", created=NOW, status=done, spec={"restartPolicy": "Never"}))
    world.submit(a_pod("web", node="n1", created=NOW, status=done))
    world.run(10.0)
    world.cluster.remove_pod("default/job")
    world.cluster.remove_pod("default/web")
    world.run(10.0)
    states = {one.name: (one.state, one.delete_reason) for one in world.keeper.history.ended()}
    assert states == {"job": (PodStage.FINISHED, None), "web": (PodStage.DELETED, "unknown")}
    lines = [one.__dict__["fields"] for one in caplog.records if one.getMessage() == "eta.pod_ended"]
    assert [(one["pod"], one["state"], one["requested_at"], one["ready_at"], one["error_s"]) for one in lines] == [
        ("default/job", PodStage.FINISHED, NOW, NOW, None),
        ("default/web", PodStage.DELETED, NOW, NOW, None),
    ]


def test_nine_in_ten_of_5000_pods_are_ready_by_the_worst_case_that_was_named_first() -> None:
    """Through whole passes: waves of pods that need new nodes, whose boots and starts vary."""
    dice = random.Random(1)
    template = NodeTemplate(capacity={"cpu": "4", "memory": "16Gi", "pods": "110"})
    web = GroupSpec(id="web", min_size=0, max_size=2000, template=template, boot=BootDelay(60, 240))
    world = EtaWorld(web, flags=("--scale-down-enabled=false",), boots=False)
    queue: list[Pod] = []
    for wave in range(166):
        now = world.clock.now().wall
        fresh = [waiting(f"p{wave}-{number}", cpu="1", created=now - 5) for number in range(32 if wave < 160 else 0)]
        world.submit(*fresh)
        queue += fresh
        world.run()
        world.clock.advance(60.0)
        for node in world.boot():
            placed, queue = queue[:4], queue[4:]
            for pod in placed:
                world.started(pod, node.name, ready_after_s=dice.uniform(5, 90), cpu="1")
    accuracy = world.keeper.status.accuracy
    assert accuracy.pods >= 5000
    assert 0.88 <= accuracy.within_worst / accuracy.pods <= 0.92
