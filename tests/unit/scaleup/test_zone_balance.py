from collections.abc import Mapping, Sequence

import pytest
from msgspec.structs import replace

from autoscaler.objects.node import ZONES, Node
from autoscaler.reasons import NoFit
from autoscaler.scaleup.next_zone import verdict, zones_of
from autoscaler.scheduling.placement import Placer
from autoscaler.snapshot.cluster import view_of
from autoscaler.snapshot.overlay import Trial
from autoscaler.snapshot.template import Template, Zones
from tests.builders import a_node, a_pod, a_template
from tests.unit.loop.loop_world import LoopWorld, a_spec, waiting

ZONE, DEPRECATED = ZONES
EBS = "topology.ebs.csi.aws.com/zone"
STATED = {zone: {ZONE: zone, EBS: zone} for zone in "abc"}
NOW = 10_000.0


def nodes_in(zones: str, *, created: float = 0.0) -> list[Node]:
    return [a_node(f"{zone}{number}", zone=zone, created=created) for number, zone in enumerate(zones)]


def come(zones: Zones, count: int) -> str:
    return "".join(zones.coming(number).node.zone or "-" for number in range(count))


def told(
    nodes: Sequence[Node],
    stated: Mapping[str, Mapping[str, str]] = STATED,
    *,
    starting: Sequence[str] = (),
    due: int = 0,
    template: Template | None = None,
) -> Zones:
    template = template or a_template()
    return zones_of(template, nodes, stated, starting=starting, due=due, newer_than=NOW - 900)


@pytest.mark.parametrize(
    ("zones", "expected"),
    [
        pytest.param(told([]), "abcabc", id="an empty group"),
        pytest.param(told(nodes_in("aab")), "cbcabc", id="the emptiest first"),
        pytest.param(told(nodes_in("aab"), {}), "baba", id="zones that nodes show"),
        pytest.param(told(nodes_in("zaab")), "cbcabc", id="a zone that the cloud does not name is left out"),
        pytest.param(told(nodes_in("aabc"), starting=["c3"], due=2), "cbcabc", id="what is on its way comes first"),
        pytest.param(told(nodes_in("ac", created=NOW)), "babc", id="new nodes alone prove nothing"),
        pytest.param(told(nodes_in("acc", created=NOW)), "aaca", id="a zone just passed over is left out"),
        pytest.param(told(nodes_in("acc", created=NOW), due=1), "baba", id="unless one may be on its way there"),
        pytest.param(told(nodes_in("acc", created=NOW - 901)), "baba", id="or it was long ago"),
    ],
)
def test_where_the_next_nodes_come(zones: Zones, expected: str) -> None:
    assert come(zones, len(expected)) == expected


def test_a_node_has_all_labels_of_its_zone_and_none_of_another() -> None:
    own = {EBS: "a", "topology.k8s.aws/zone-id": "use1-az1", "pool": "a"}
    template = a_template(a_node(zone="a", labels=own))
    theirs = a_node("b", zone="b", labels={"topology.k8s.aws/zone-id": "use1-az2", "odd": "b"})
    zones = told([theirs], template=template)
    labels = {name: fresh.node.labels for name, fresh in zones.templates.items()}
    assert (labels["b"].get(EBS), labels["b"]["topology.k8s.aws/zone-id"], labels["b"][ZONE]) == (None, "use1-az2", "b")
    assert (labels["c"][EBS], labels["c"][ZONE], labels["c"][DEPRECATED]) == ("c", "c", "c")
    assert "topology.k8s.aws/zone-id" not in labels["c"]
    assert {label["pool"] for label in labels.values()} == {"a"}
    assert "odd" not in labels["b"]


@pytest.mark.parametrize(
    ("zone", "wait"),
    [pytest.param("c", 0, id="next"), pytest.param("b", 1, id="after it"), pytest.param("x", None, id="never")],
)
def test_how_long_a_zone_is_waited_for(zone: str, wait: int | None) -> None:
    assert told(nodes_in("aab")).wait(zone) == wait


def test_a_trial_gives_each_node_its_zone_and_takes_it_back() -> None:
    zones = told(nodes_in("a"))
    template = replace(a_template(), zones=zones)
    trial = Trial(view_of(nodes_in("a"), []))
    codes = {trial.vocabulary.code(ZONE, zone): zone for zone in "abc"}
    with trial.fork():
        trial.add(template, 2)
        assert "".join(codes[int(code)] for code in trial.labels(ZONE)[1:]) == "bc"
        trial.add(template, 2)
        assert "".join(str(trial.node(at).zone) for at in range(1, 5)) == "bcab"
    assert trial.node(trial.add(template, 1)[0]).zone == "b"


@pytest.mark.parametrize(
    ("selector", "zones", "reason"),
    [
        pytest.param({ZONE: "c"}, told([]), NoFit.ZONE_LATER, id="a zone that comes later"),
        pytest.param({ZONE: "x"}, told([]), NoFit.NODE_AFFINITY, id="a zone that the group does not have"),
        pytest.param({ZONE: "a"}, Zones(), NoFit.ZONE_UNKNOWN, id="a zone that may be it"),
        pytest.param({"pool": "x"}, Zones(), NoFit.NODE_AFFINITY, id="no zone would do"),
        pytest.param({ZONE: "c"}, None, NoFit.NODE_AFFINITY, id="a group that has one zone"),
    ],
)
def test_why_nothing_is_bought(selector: Mapping[str, str], zones: Zones | None, reason: NoFit) -> None:
    cls = a_pod(cpu="1", selector=selector).cls
    placer = Placer(Trial(view_of(nodes_in("a"), [])))
    placer.trial.labels(ZONE)
    template = replace(a_template(), zones=zones)
    with placer.trial.fork():
        rejections = placer.why(cls, placer.trial.add(template, 1)[0])
    assert [one.reason for one in verdict(placer, cls, template, rejections)] == [reason]


def test_a_zone_that_has_run_dry_is_not_bought_in_over_and_over() -> None:
    """Every machine comes in zone a, whatever is expected."""
    group = a_spec(boot_s=10, max_size=50)
    assert group.template is not None
    template = replace(group.template, zones={zone: {ZONE: zone} for zone in "ab"})
    world = LoopWorld(replace(group, template=template))
    world.submit(replace(waiting("wants-b"), cls=a_pod("wants-b", cpu="3", selector={ZONE: "b"}).cls))
    world.submit(waiting("starts-it"))
    for _ in range(40):
        world.run(20)
        for node in world.boot():
            world.cluster.put_node(replace(node, labels={**node.labels, ZONE: "a"}))
    assert world.static.group("web").target_size() <= 3
