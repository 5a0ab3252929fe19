"""What a scheduler profile changes: where pods fit under a KubeSchedulerConfiguration."""

from pathlib import Path

import pytest
import yaml

from autoscaler.config.load import load
from autoscaler.errors import ConfigError
from autoscaler.objects.node import HOSTNAME, ZONES
from autoscaler.reasons import FILTERS, NoFit
from autoscaler.scheduling.placement import Placer
from autoscaler.scheduling.profile import Profile, profile_of
from autoscaler.snapshot.cluster import view_of
from autoscaler.snapshot.overlay import Trial
from tests.builders import Json, a_node, a_pod, a_template, expression, over
from tests.unit.scheduling.storage import claim, storage, using
from tests.unit.scheduling.verdicts import FITS, verdicts

ZONE = ZONES[0]


def a_file(folder: Path, profile: object, **more: object) -> str:
    path = folder / "scheduler.yaml"
    content = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration", **more}
    path.write_text(yaml.safe_dump({**content, "profiles": [profile]}))
    return str(path)


def arguments(**by_plugin: Json) -> Json:
    return {"pluginConfig": [{"name": name, "args": args} for name, args in by_plugin.items()]}


@pytest.fixture
def profile(tmp_path: Path, request: pytest.FixtureRequest) -> Profile:
    config = load([f"--scheduler-config-file={a_file(tmp_path, request.param)}"])
    return profile_of(config.scheduler, config.rules)


ADDED_SSD: Json = {
    "addedAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": {
            "nodeSelectorTerms": [{"matchExpressions": [expression("disk", "In", "ssd")]}]
        }
    }
}


@pytest.mark.parametrize("profile", [arguments(NodeAffinity=ADDED_SSD)], indirect=True)
def test_added_affinity_holds_for_every_pod_beside_its_own(profile: Profile) -> None:
    nodes = [a_node("a", labels={"disk": "ssd"}), a_node("b"), a_node("c", labels={"disk": "ssd", "gpu": "yes"})]
    assert verdicts(a_pod(), nodes, profile=profile) == [FITS, NoFit.NODE_AFFINITY, FITS]
    picky = a_pod(selector={"gpu": "yes"})
    assert verdicts(picky, nodes, profile=profile) == [NoFit.NODE_AFFINITY, NoFit.NODE_AFFINITY, FITS]
    trial = Trial(view_of(nodes, []))
    trial.add(a_template(), 1)
    trial.add(a_template(a_node("t", labels={"disk": "ssd"})), 1)
    placer = Placer(trial, profile)
    assert placer.passing(a_pod().cls, slice(3, 5)).tolist() == [False, True]
    assert placer.copies(a_pod(cpu="2").cls, slice(0, 5)).tolist() == [2, 0, 2, 0, 2]
    assert placer.why(a_pod().cls, 1)[0].message == "node(s) didn't match scheduler-enforced node affinity"


IGNORING = {"ignoredResources": ["example.com/dongle"], "ignoredResourceGroups": ["vendor.com"]}


@pytest.mark.parametrize("profile", [arguments(NodeResourcesFit=IGNORING)], indirect=True)
@pytest.mark.parametrize(
    ("requests", "expected"),
    [
        pytest.param({"example.com/dongle": "1"}, FITS, id="ignored by name"),
        pytest.param({"vendor.com/a": "1"}, FITS, id="ignored by group"),
        pytest.param({"example.com/other": "1"}, NoFit.RESOURCES, id="not ignored"),
        pytest.param({"example.com/dongle": "1", "cpu": "5"}, NoFit.RESOURCES, id="another resource is short"),
    ],
)
def test_ignored_resources_are_not_counted(profile: Profile, requests: dict[str, str], expected: str) -> None:
    assert verdicts(a_pod(requests=requests), [a_node()], profile=profile) == [expected]
    assert verdicts(a_pod(requests=requests), [a_node()]) == [NoFit.RESOURCES]


def test_only_extended_resources_can_be_ignored() -> None:
    profile = Profile(ignored_resources=frozenset(("cpu", "hugepages-2Mi", "example.com/a")))
    asked = ("cpu", "hugepages-2Mi", "example.com/a")
    assert [profile.ignores(resource) for resource in asked] == [False, False, True]


DEFAULTS = {
    "defaultingType": "List",
    "defaultConstraints": [
        {"topologyKey": ZONE, "maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule"},
        {"topologyKey": HOSTNAME, "maxSkew": 1, "whenUnsatisfiable": "ScheduleAnyway"},
    ],
}


@pytest.mark.parametrize("profile", [arguments(PodTopologySpread=DEFAULTS)], indirect=True)
def test_default_constraints_spread_pods_of_one_controller(profile: Profile) -> None:
    nodes = [a_node("a", zone="z1"), a_node("b", zone="z2")]
    running = [a_pod("r", owner="ReplicaSet/web", node="a")]
    assert verdicts(a_pod(owner="ReplicaSet/web"), nodes, running, profile=profile) == [NoFit.SPREAD, FITS]
    assert verdicts(a_pod(owner="ReplicaSet/other"), nodes, running, profile=profile) == [FITS, FITS]
    assert verdicts(a_pod(owner=None), nodes, [a_pod("r", owner=None, node="a")], profile=profile) == [FITS, FITS]
    own = a_pod(owner="ReplicaSet/web", spread=[over(ZONE, labels={"nobody": "has"})])
    assert verdicts(own, nodes, running, profile=profile) == [FITS, FITS], "its own constraints replace the default"


def off(*names: str, point: str = "filter", enabled: tuple[str, ...] = ()) -> Json:
    return {
        "plugins": {
            point: {"disabled": [{"name": name} for name in names], "enabled": [{"name": name} for name in enabled]}
        }
    }


@pytest.mark.parametrize(
    ("profile", "asked"),
    [
        pytest.param(off("TaintToleration"), set(FILTERS) - {NoFit.TAINT}, id="one filter off"),
        pytest.param(off("NodePorts", point="multiPoint"), set(FILTERS) - {NoFit.PORTS}, id="off at every point"),
        pytest.param(off("*", enabled=("NodeName",)), {NoFit.NODE_NAME}, id="all off but one"),
        pytest.param(off("TaintToleration", point="score"), set(FILTERS), id="off for scoring only"),
    ],
    indirect=["profile"],
)
def test_which_filters_are_asked(profile: Profile, asked: set[NoFit]) -> None:
    assert {reason for reason in FILTERS if profile.asks(reason)} == asked


RELATED = storage(claim("missing-volume", volume="gone"))
REFUSED = {
    NoFit.UNSCHEDULABLE: (a_pod(), a_node(cordoned=True)),
    NoFit.TAINT: (a_pod(), a_node(taints=["gpu"])),
    NoFit.NODE_AFFINITY: (a_pod(selector={"a": "b"}), a_node()),
    NoFit.PORTS: (a_pod(host_ports=[80]), a_node("n")),
    NoFit.RESOURCES: (a_pod(cpu="5"), a_node()),
    NoFit.VOLUME_BINDING: (a_pod(volumes=using("missing-volume")), a_node()),
    NoFit.SPREAD: (a_pod(spread=[over(ZONE)]), a_node()),
    NoFit.POD_AFFINITY: (a_pod(near=[{"topologyKey": ZONE}]), a_node()),
    NoFit.FEATURES: (a_pod(spec={"hostNetwork": True, "hostUsers": False}), a_node()),
    NoFit.DEVICES: (a_pod(spec={"resourceClaims": [{"name": "gpu"}]}), a_node()),
}


@pytest.mark.parametrize("reason", REFUSED)
def test_a_filter_that_is_off_refuses_nothing(reason: NoFit) -> None:
    pod, node = REFUSED[reason]
    placed = [a_pod("holder", host_ports=[80], node=node.name)]
    assert verdicts(pod, [node], placed, related=RELATED) == [reason]
    profile = Profile(disabled=frozenset((reason,)))
    assert verdicts(pod, [node], placed, related=RELATED, profile=profile) == [FITS]


def test_without_a_resource_filter_a_node_takes_any_number() -> None:
    placer = Placer(Trial(view_of([a_node(pods=1)], [])), Profile(disabled=frozenset((NoFit.RESOURCES,))))
    assert placer.copies(a_pod(cpu="9").cls, slice(0, 1))[0] > 10**9


@pytest.mark.parametrize(
    ("profile", "problem"),
    [
        pytest.param(3, "in profiles[0]: expected `object`, got `int`", id="a profile that is a number"),
        pytest.param(
            arguments(NodeResourcesFit={"ignoredResources": "a"}),
            "in profiles[0].pluginConfig[0].args.ignoredResources: expected `array`, got `str`",
            id="a text for a list",
        ),
        pytest.param(
            arguments(NodeAffinity={"addedAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {}}}),
            "in profiles[0].pluginConfig[0].args.addedAffinity.requiredDuringSchedulingIgnoredDuringExecution: "
            "object missing required field `nodeSelectorTerms`",
            id="an affinity without terms",
        ),
        pytest.param(
            arguments(PodTopologySpread={"defaultConstraints": DEFAULTS["defaultConstraints"]}),
            "in the PodTopologySpread args: defaultConstraints: they need defaultingType List",
            id="constraints of the wrong defaulting type",
        ),
        pytest.param(
            off("TaintToleration")["plugins"] | {"plugins": {"filter": {"disabled": ["TaintToleration"]}}},
            "in profiles[0].plugins[...].disabled[0]: expected `object`, got `str`",
            id="a plug-in that is only a name",
        ),
    ],
)
def test_problems_of_the_file_name_their_place(tmp_path: Path, profile: object, problem: str) -> None:
    path = a_file(tmp_path, profile)
    with pytest.raises(ConfigError) as caught:
        load([f"--scheduler-config-file={path}"])
    assert caught.value.problems == (f"--scheduler-config-file: {path} {problem}",)


def test_what_has_no_effect_is_named(tmp_path: Path) -> None:
    written = {**arguments(DefaultPreemption={"minCandidateNodesPercentage": 5}), **off(enabled=("Coscheduling",))}
    path = a_file(tmp_path, written, extenders=[{"urlPrefix": "http://x"}])
    assert load([f"--scheduler-config-file={path}"]).scheduler.warnings == (
        "profiles[0].pluginConfig: DefaultPreemption has no effect here",
        "extenders: they are not asked",
        "profiles[0].plugins.filter.enabled: Coscheduling is not known here and not asked",
    )
