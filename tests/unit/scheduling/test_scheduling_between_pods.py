"""The filters that depend on other pods: affinity between pods, and topology spread."""

import msgspec
import pytest

from autoscaler.objects.node import HOSTNAME, ZONES
from autoscaler.objects.pod import Pod
from autoscaler.reasons import NoFit
from autoscaler.scheduling.placement import Placer
from autoscaler.scheduling.topology import SKEWED
from autoscaler.snapshot.cluster import view_of
from autoscaler.snapshot.overlay import Trial
from tests.builders import Json, a_node, a_pod, a_template, over, term
from tests.unit.scheduling.verdicts import FITS, verdicts

ZONE = ZONES[0]
WEB = {"app": "web"}


ZONES_AB = [a_node("a1", zone="a"), a_node("a2", zone="a"), a_node("b1", zone="b"), a_node("none")]
"""Two nodes in zone a, one in zone b, one without a zone."""


def on(node: str, pod: Pod) -> Pod:
    return msgspec.structs.replace(pod, name=f"on-{node}", node=node)


DB = a_pod(labels={"app": "db", "tier": "1"})


@pytest.mark.parametrize(
    ("pod", "placed", "expected"),
    [
        pytest.param(
            a_pod(near=[term(ZONE, labels={"app": "db"})]),
            [on("a1", DB)],
            "fits fits no no",
            id="near in the zone",
        ),
        pytest.param(a_pod(near=[term(labels={"app": "db"})]), [on("a1", DB)], "fits no no no", id="near on the host"),
        pytest.param(a_pod(near=[term(ZONE, labels={"app": "db"})]), [], "no no no no", id="near to nobody"),
        pytest.param(
            a_pod(labels=WEB, near=[term(ZONE, labels=WEB)]), [], "fits fits fits no", id="the first of its kind"
        ),
        pytest.param(
            a_pod(labels=WEB, near=[term(ZONE, labels=WEB)]),
            [on("b1", a_pod(labels=WEB))],
            "no no fits no",
            id="no longer the first",
        ),
        pytest.param(
            a_pod(labels=WEB, near=[term(ZONE, labels=WEB)]),
            [on("none", a_pod(labels=WEB))],
            "fits fits fits no",
            id="one on a node outside of every domain does not count",
        ),
        pytest.param(
            a_pod(labels=WEB, near=[term(ZONE, labels=WEB), term(ZONE, labels={"app": "db"})]),
            [],
            "no no no no",
            id="the first of its kind, but another term is about others",
        ),
        pytest.param(
            a_pod(near=[term(ZONE, labels={"app": "db"}), term(labels={"tier": "1"})]),
            [on("a1", DB)],
            "fits no no no",
            id="two terms, one pod that is meant by both",
        ),
        pytest.param(
            a_pod(near=[term(ZONE, labels={"app": "db"}), term(labels={"tier": "1"})]),
            [on("a1", a_pod(labels={"app": "db"})), on("a2", a_pod(labels={"tier": "1"}))],
            "no no no no",
            id="two terms, each with a pod of its own: only pods meant by all count",
        ),
        pytest.param(
            a_pod(near=[term(ZONE)]), [on("a1", DB)], "no no no no", id="a term without selector means nobody"
        ),
        pytest.param(
            a_pod(near=[term(ZONE, labels={})]),
            [on("a1", DB)],
            "fits fits no no",
            id="an empty selector means everybody",
        ),
        pytest.param(
            a_pod(near=[term(ZONE, labels={"app": "db"})]),
            [on("a1", a_pod(namespace="other", labels={"app": "db"}))],
            "no no no no",
            id="pods of other namespaces are not meant",
        ),
        pytest.param(
            a_pod(near=[term(ZONE, labels={"app": "db"}, namespaces=["other"])]),
            [on("a1", a_pod(namespace="other", labels={"app": "db"}))],
            "fits fits no no",
            id="unless the namespace is listed",
        ),
        pytest.param(
            a_pod(near=[term(ZONE, labels={"app": "db"}, namespaces=["other"])]),
            [on("a1", DB)],
            "no no no no",
            id="and then its own namespace is not meant",
        ),
        pytest.param(
            a_pod(near=[term(ZONE, labels={"app": "db"}, namespaceSelector={})]),
            [on("a1", a_pod(namespace="unheard-of", labels={"app": "db"}))],
            "fits fits no no",
            id="an empty namespace selector means all namespaces",
        ),
        pytest.param(
            a_pod(near=[term(ZONE, labels={"app": "db"}, namespaceSelector={"matchLabels": {"team": "a"}})]),
            [on("a1", a_pod(namespace="team-a", labels={"app": "db"})), on("b1", DB)],
            "fits fits no no",
            id="a namespace selector asks the namespace's labels",
        ),
        pytest.param(
            a_pod(
                near=[
                    term(
                        ZONE,
                        labels={"app": "db"},
                        namespaces=["default"],
                        namespaceSelector={"matchLabels": {"team": "a"}},
                    )
                ]
            ),
            [on("a1", a_pod(namespace="team-a", labels={"app": "db"})), on("b1", DB)],
            "fits fits fits no",
            id="listed and selected namespaces add up",
        ),
        pytest.param(
            a_pod(labels={"version": "2"}, near=[term(ZONE, labels={"app": "db"}, matchLabelKeys=["version", "none"])]),
            [on("a1", DB), on("b1", a_pod(labels={"app": "db", "version": "2"}))],
            "no no fits no",
            id="matchLabelKeys: the pod's own value",
        ),
        pytest.param(
            a_pod(
                labels={"version": "2"}, near=[term(ZONE, labels={"app": "db"}, mismatchLabelKeys=["version", "none"])]
            ),
            [on("a1", DB), on("b1", a_pod(labels={"app": "db", "version": "2"}))],
            "fits fits no no",
            id="mismatchLabelKeys: any value but the pod's own",
        ),
        pytest.param(
            a_pod(away=[term(ZONE, labels={"app": "db"})]),
            [on("a1", DB)],
            "no no fits fits",
            id="away: a node without the key is in nobody's domain",
        ),
        pytest.param(
            a_pod(away=[term(labels={"app": "db"})]), [on("a1", DB)], "no fits fits fits", id="away on the host only"
        ),
        pytest.param(
            a_pod(away=[term(ZONE, labels={"app": "db"}), term(labels={"tier": "2"})]),
            [on("a1", DB), on("b1", a_pod(labels={"tier": "2"}))],
            "no no no fits",
            id="away: every term forbids by itself",
        ),
        pytest.param(
            a_pod(labels=WEB),
            [on("a1", a_pod(away=[term(ZONE, labels=WEB)]))],
            "no no fits fits",
            id="kept away by a pod that is placed",
        ),
        pytest.param(
            a_pod(labels=WEB),
            [on("a1", a_pod(namespace="other", away=[term(ZONE, labels=WEB)]))],
            "fits fits fits fits",
            id="that pod's namespace is not this one's",
        ),
        pytest.param(
            a_pod(labels=WEB, namespace="team-a"),
            [on("a1", a_pod(away=[term(ZONE, labels=WEB, namespaceSelector={"matchLabels": {"team": "a"}})]))],
            "no no fits fits",
            id="but its namespace selector means this one",
        ),
        pytest.param(
            a_pod(labels=WEB),
            [on("none", a_pod(away=[term(ZONE, labels=WEB)]))],
            "fits fits fits fits",
            id="outside of every domain it keeps nobody away",
        ),
        pytest.param(
            a_pod(labels=WEB, away=[term(labels=WEB)]), [], "fits fits fits fits", id="a pod does not keep itself away"
        ),
    ],
)
def test_affinity_between_pods(pod: Pod, placed: list[Pod], expected: str) -> None:
    words = {FITS: "fits", NoFit.POD_AFFINITY: "no"}
    assert " ".join(words[verdict] for verdict in verdicts(pod, ZONES_AB, placed)) == expected


THREE_ZONES = [a_node(f"{zone}{number}", zone=zone) for zone in "abc" for number in (1, 2)] + [a_node("none")]


def webs(*nodes: str) -> list[Pod]:
    return [msgspec.structs.replace(a_pod(labels=WEB), name=f"w{at}", node=node) for at, node in enumerate(nodes)]


@pytest.mark.parametrize(
    ("pod", "placed", "expected"),
    [
        pytest.param(a_pod(labels=WEB, spread=[over(ZONE, labels=WEB)]), [], "a b c", id="nothing placed yet"),
        pytest.param(a_pod(labels=WEB, spread=[over(ZONE, labels=WEB)]), webs("a1"), "b c", id="one zone is ahead"),
        pytest.param(
            a_pod(labels=WEB, spread=[over(ZONE, labels=WEB)]),
            webs("a1", "a2", "b1", "c1"),
            "b c",
            id="a zone is ahead",
        ),
        pytest.param(
            a_pod(labels=WEB, spread=[over(ZONE, labels=WEB, max_skew=2)]),
            webs("a1"),
            "a b c",
            id="a skew of two may be",
        ),
        pytest.param(
            a_pod(spread=[over(ZONE, labels=WEB)]),
            webs("a1"),
            "a b c",
            id="a pod that is not counted itself adds nothing",
        ),
        pytest.param(
            a_pod(spread=[over(ZONE, labels=WEB)]),
            webs("a1", "a1"),
            "b c",
            id="but a zone too far ahead is closed to it",
        ),
        pytest.param(
            a_pod(labels=WEB, spread=[over(ZONE, labels=WEB, minDomains=4)]),
            webs("a1", "b1", "c1"),
            "",
            id="too few domains: the smallest count is taken as zero",
        ),
        pytest.param(
            a_pod(labels=WEB, spread=[over(ZONE, labels=WEB, minDomains=3)]),
            webs("a1", "b1", "c1"),
            "a b c",
            id="as many domains as asked for",
        ),
        pytest.param(
            a_pod(labels=WEB, spread=[over(ZONE, labels=WEB)]),
            [*webs("b1"), a_pod("other", namespace="other", labels=WEB, node="a1"), a_pod("db", node="c1")],
            "a c",
            id="pods of other namespaces and with other labels are not counted",
        ),
        pytest.param(
            a_pod(labels=WEB, spread=[over(ZONE, labels=WEB)]),
            [a_pod("going", labels=WEB, node="a1", deleted=9.0), *webs("b1")],
            "a c",
            id="terminating pods are not counted",
        ),
        pytest.param(
            a_pod(labels=WEB, spread=[over(ZONE)]),
            webs("a1", "a1", "a1"),
            "a b c",
            id="without a selector nobody is counted",
        ),
        pytest.param(
            a_pod(labels=WEB, spread=[over(ZONE, labels={})]),
            webs("a1", "a1", "a1"),
            "a b c",
            id="with an empty selector nobody is counted",
        ),
        pytest.param(
            a_pod(labels=WEB | {"version": "2"}, spread=[over(ZONE, labels=WEB, matchLabelKeys=["version", "none"])]),
            [*webs("a1"), a_pod("v2", labels=WEB | {"version": "2"}, node="b1")],
            "a c",
            id="matchLabelKeys: only pods with the pod's own value are counted",
        ),
        pytest.param(
            a_pod(labels={"version": "2"}, spread=[over(ZONE, labels={}, matchLabelKeys=["version"])]),
            [a_pod("v2", labels={"version": "2"}, node="b1")],
            "a c",
            id="matchLabelKeys make an empty selector ask for something",
        ),
        pytest.param(
            a_pod(labels=WEB, selector={ZONE: "b"}, spread=[over(ZONE, labels=WEB)]),
            webs("b1", "b1"),
            "b",
            id="zones that the pod cannot go to are no domains",
        ),
        pytest.param(
            a_pod(labels=WEB, selector={ZONE: "b"}, spread=[over(ZONE, labels=WEB, nodeAffinityPolicy="Ignore")]),
            webs("b1", "b1"),
            "",
            id="unless its affinity is to be ignored",
        ),
        pytest.param(
            a_pod(labels=WEB, spread=[over(ZONE, labels=WEB), over(HOSTNAME, labels=WEB, max_skew=1)]),
            webs("a1", "b1", "c1"),
            "a2 b2 c2",
            id="all of several constraints must hold",
        ),
    ],
)
def test_topology_spread(pod: Pod, placed: list[Pod], expected: str) -> None:
    found = verdicts(pod, THREE_ZONES, placed)
    open_nodes = [node.name for node, one in zip(THREE_ZONES, found, strict=True) if one == FITS]
    zones = [zone for zone in "abc" if {f"{zone}1", f"{zone}2"} <= set(open_nodes)]
    rest = [name for name in open_nodes if name[0] not in zones]
    assert " ".join(zones + rest) == expected


def test_a_node_without_the_key_of_a_spread_constraint_is_out() -> None:
    placer = Placer(Trial(view_of(THREE_ZONES, [])))
    reasons = placer.why(a_pod(spread=[over(ZONE, labels=WEB)]).cls, len(THREE_ZONES) - 1)
    assert [reason.message for reason in reasons] == [f"{SKEWED} (missing required label)"]


@pytest.mark.parametrize(
    ("policy", "expected"),
    [
        pytest.param({}, [NoFit.SPREAD, NoFit.TAINT], id="tainted nodes are domains"),
        pytest.param({"nodeTaintsPolicy": "Honor"}, [FITS, NoFit.TAINT], id="tainted nodes are no domains"),
    ],
)
def test_tainted_nodes_and_spread(policy: Json, expected: list[str]) -> None:
    nodes = [a_node("a1", zone="a"), a_node("b1", zone="b", taints=["gpu"])]
    pod = a_pod(labels=WEB, spread=[over(ZONE, labels=WEB, **policy)])
    assert verdicts(pod, nodes, webs("a1")) == expected


def test_a_node_that_lacks_one_of_two_keys_is_a_domain_of_neither() -> None:
    nodes = [a_node("a1", zone="a", labels={"rack": "1"}), a_node("b1", zone="b")]
    pod = a_pod(labels=WEB, spread=[over(ZONE, labels=WEB), over("rack", labels=WEB)])
    assert verdicts(pod, nodes, webs("a1")) == [FITS, NoFit.SPREAD]


def test_a_new_node_is_a_host_of_its_own_and_joins_its_zone() -> None:
    by_host = a_pod(labels=WEB, spread=[over(HOSTNAME, labels=WEB)]).cls
    by_zone = a_pod(labels=WEB, spread=[over(ZONE, labels=WEB)]).cls
    trial = Trial(view_of([a_node("a1", zone="a"), a_node("b1", zone="b")], webs("a1", "b1", "b1")))
    placer = Placer(trial)
    assert [placer.fits(by_host, 0), placer.fits(by_zone, 0)] == [True, True]
    with trial.fork():
        (new,) = trial.add(a_template(a_node("t", zone="b")), 1)
        assert [placer.fits(by_host, at) for at in (0, 1, new)] == [False, False, True]
        assert [placer.fits(by_zone, at) for at in (0, 1, new)] == [True, False, False]
    assert [placer.fits(by_host, 0), placer.fits(by_zone, 0)] == [True, True]


def test_the_skew_is_told() -> None:
    placer = Placer(Trial(view_of(THREE_ZONES, webs("a1", "a2"))))
    (reason,) = placer.why(a_pod(labels=WEB, spread=[over(ZONE, labels=WEB)]).cls, 0)
    assert (reason.message, reason.detail) == (SKEWED, f"its domain of {ZONE} would have skew 3 > 1")
