"""Cause and fix for pods that are stuck, and how much of a pass finding them may take."""

import json
from typing import Any

import msgspec
import pytest

from autoscaler.clock import Clock, VirtualClock
from autoscaler.explain.advisor import PodAdvisor
from autoscaler.loop.ended_pass import EndedPass
from autoscaler.observe.headline import headline
from autoscaler.observe.status import Advice, ProcessStatus, PublishedStatus, Tone
from autoscaler.observe.summary import summarise
from autoscaler.reasons import NoFit, PodVerdict, ScaleUpResult, Skip
from autoscaler.scenario.codec import decode
from autoscaler.simulator.play import play_and_look
from tests.clocks import TickingClock
from tests.manifests import Json, a_group, a_pod, a_template, named

TAINT = {"key": "dedicated", "value": "gpu", "effect": "NoSchedule"}
POOLS = [a_group("g", a_template(labels={"pool": "general"})), a_group("s", a_template(labels={"pool": "spot"}))]


def a_pass(*pods: Json, groups: list[Json] | None = None, **fields: Any) -> EndedPass:
    """Return the last pass of a scenario."""
    document = {
        "now": "2026-01-05T12:00:00Z",
        "options": {"expander": "least-waste"},
        "nodeGroups": [a_group()] if groups is None else groups,
        "pods": list(pods),
        "replicaSets": [named("web", replicas=3)],
        **fields,
    }
    passes: list[EndedPass] = []
    play_and_look(decode(json.dumps(document).encode(), "case.json"), lambda run, ended: passes.append(ended))
    return passes[-1]


def advise(ended: EndedPass, clock: Clock | None = None) -> list[Advice]:
    return list(PodAdvisor(clock or VirtualClock())(ended).values())


@pytest.mark.parametrize(
    ("ended", "code", "cause"),
    [
        pytest.param(
            a_pass(a_pod(cpu="12")),
            NoFit.RESOURCES,
            "needs 12 CPU, the largest machine has 4",
            id="too large",
        ),
        pytest.param(
            a_pass(a_pod(more={"memory": "9Gi"})),
            NoFit.RESOURCES,
            "needs 9Gi of memory, the largest machine has 8Gi",
            id="memory",
        ),
        pytest.param(
            a_pass(a_pod(more={"nvidia.com/gpu": "2"})),
            NoFit.RESOURCES,
            "needs 2 nvidia.com/gpu, no machine has any",
            id="no such device",
        ),
        pytest.param(
            a_pass(
                a_pod(cpu="6", more={"memory": "6Gi"}),
                groups=[a_group("cpu", a_template("8", "2Gi")), a_group("memory", a_template("2", "8Gi"))],
            ),
            NoFit.RESOURCES,
            "needs 6 CPU and 6Gi of memory, no machine has all of it",
            id="both at once",
        ),
        pytest.param(
            a_pass(a_pod(nodeSelector={"pool": "genral"}), groups=POOLS),
            NoFit.NODE_AFFINITY,
            "wants pool=genral, no group has that label (did you mean general?)",
            id="misspelt label",
        ),
        pytest.param(
            a_pass(a_pod(nodeSelector={"pol": "spot"}), groups=POOLS),
            NoFit.NODE_AFFINITY,
            "wants pol=spot, no group has that label (did you mean pool?)",
            id="misspelt key",
        ),
        pytest.param(
            a_pass(a_pod(), groups=[a_group(template=a_template(taints=[TAINT]))]),
            NoFit.TAINT,
            "does not tolerate taint dedicated=gpu:NoSchedule of group g",
            id="taint",
        ),
        pytest.param(
            a_pass(a_pod(volumes=[{"name": "d", "persistentVolumeClaim": {"claimName": "data"}}])),
            NoFit.VOLUME_BINDING,
            "needs PersistentVolumeClaim default/data, which does not exist",
            id="missing claim",
        ),
        pytest.param(
            a_pass(a_pod(), groups=[a_group(maxSize=0)]),
            Skip.MAX_SIZE,
            "needs a machine of group g, which is at its maximum size of 0",
            id="full group",
        ),
        pytest.param(
            a_pass(a_pod(), groups=[]), "NoNodeGroups", "needs a machine, and there is no node group", id="no groups"
        ),
    ],
)
def test_the_cause_is_a_clause_about_the_pod(ended: EndedPass, code: str, cause: str) -> None:
    (advice,) = advise(ended)
    assert (advice.code, advice.cause, advice.waits) == (code, cause, False)
    assert advice.fix


def test_a_very_long_label_is_no_work() -> None:
    (advice,) = advise(a_pass(a_pod(nodeSelector={"pool": "x" * 100_000}), groups=POOLS))
    assert advice.cause.startswith("wants pool=xxx")
    assert len(advice.cause) <= 500
    assert len(advice.fix) <= 500


def test_helped_pods_need_no_advice() -> None:
    assert advise(a_pass(a_pod())) == []


def several(number: int) -> EndedPass:
    return a_pass(*(a_pod(f"p{size}", cpu=str(10 + size), owner="") for size in range(number)))


def test_a_pass_waits_for_a_while_only_and_the_rest_comes_later() -> None:
    ended = several(4)
    advisor = PodAdvisor(TickingClock(0.02), enough_s=0.1)
    known = [len(advisor(ended)) for _ in range(4)]
    assert 0 < known[0] < 4
    assert known[-1] == 4


def test_the_class_with_most_pods_is_asked_about_first() -> None:
    ended = a_pass(*(a_pod(f"a-{number}", cpu=cpu) for number, cpu in enumerate(("12", "9", "9", "7"))))
    (advice,) = PodAdvisor(VirtualClock(), most_classes=1)(ended).values()
    assert advice.cause.startswith("needs 9 CPU")


def test_advice_that_takes_too_long_is_given_up() -> None:
    (advice,) = advise(a_pass(a_pod(cpu="12")), TickingClock(2.0))
    assert (advice.cause, advice.fix) == ("fits no node group", "")


def test_what_is_known_is_not_asked_again_until_it_is_old_or_the_outcome_changed() -> None:
    clock = TickingClock(0.001)
    advisor = PodAdvisor(clock)
    ended = several(2)
    first = advisor(ended)
    at = clock.now().mono
    again = advisor(ended)
    assert clock.now().mono - at == pytest.approx(0.002)
    assert all(again[cls] is first[cls] for cls in first)
    later = msgspec.structs.replace(ended.report, now=ended.report.now.later(301.0))
    renewed = advisor(msgspec.structs.replace(ended, report=later))
    assert all(renewed[cls] == first[cls] and renewed[cls] is not first[cls] for cls in first)


def test_a_pod_that_the_cloud_refuses_needs_a_person_although_it_is_tried_again() -> None:
    machine = {"group": "g", "id": "i-1", "state": "creating", "errorClass": "OutOfResources"}
    ended = a_pass(a_pod(), runs=2, changes=[{"beforeRun": 1, "addInstances": [machine]}])
    (advice,) = advise(ended)
    assert (advice.code, advice.waits) == (Skip.BACKED_OFF, False)


def test_stuck_pods_make_the_headline() -> None:
    ended = a_pass(
        a_pod("a", cpu="12"), a_pod("b", cpu="12"), a_pod("c", nodeSelector={"pool": "x"}, owner=""), groups=POOLS
    )
    report = msgspec.structs.replace(ended.report, advice=PodAdvisor(VirtualClock())(ended))
    nothing = PublishedStatus(process=ProcessStatus(identity="me", version="1", started_at=0.0))
    status = summarise(report, nothing, number=1)
    assert status.headline == headline(status)
    assert status.headline is not None
    assert status.headline.tone is Tone.BAD
    assert status.headline.text == (
        "3 pods are stuck: 2 need 12 CPU, the largest machine has 4; 1 wants pool=x, no group has "
        "that label (there are general and spot)."
    )
    assert report.scale_up.result is ScaleUpResult.NO_OPTIONS
    assert {pod.verdict for pod in status.pods} == {PodVerdict.NO_GROUP_FITS}
