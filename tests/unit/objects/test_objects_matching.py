import pytest

from autoscaler.objects.matching import daemon_belongs, untolerated, wants_node
from autoscaler.objects.node import Taint
from autoscaler.objects.podspec import Toleration
from tests.builders import Json, a_node, a_pod, expression

HARD = Taint(key="gpu", value="a100", effect="NoSchedule")
BARE = Taint(key="gpu", effect="NoSchedule")
EVICTING = Taint(key="gpu", value="a100", effect="NoExecute")
ASKING = Taint(key="gpu", value="a100", effect="PreferNoSchedule")
TIER_7 = Taint(key="tier", value="7", effect="NoSchedule")


@pytest.mark.parametrize(
    ("toleration", "taint", "tolerates"),
    [
        pytest.param(Toleration(operator="Exists"), HARD, True, id="Exists without key: everything"),
        pytest.param(Toleration(operator="Exists"), EVICTING, True, id="Exists without key: whatever the effect"),
        pytest.param(Toleration(key="gpu", operator="Exists"), HARD, True, id="Exists: any value"),
        pytest.param(Toleration(key="cpu", operator="Exists"), HARD, False, id="Exists: another key"),
        pytest.param(Toleration(key="gpu", value="a100"), HARD, True, id="no operator means Equal"),
        pytest.param(Toleration(key="gpu", operator="", value="a100"), HARD, True, id="an empty operator means Equal"),
        pytest.param(Toleration(key="gpu", operator="Equal", value="t4"), HARD, False, id="Equal: another value"),
        pytest.param(Toleration(key="gpu"), BARE, True, id="Equal: no value on either side"),
        pytest.param(Toleration(key="gpu"), HARD, False, id="Equal: a value on the taint only"),
        pytest.param(Toleration(), BARE, False, id="Equal without key tolerates nothing"),
        pytest.param(Toleration(key="gpu", operator="Exists", effect="NoSchedule"), HARD, True, id="the same effect"),
        pytest.param(Toleration(key="gpu", operator="Exists", effect="NoExecute"), HARD, False, id="another effect"),
        pytest.param(Toleration(key="gpu", operator="Exists"), EVICTING, True, id="no effect means every effect"),
        pytest.param(Toleration(key="tier", operator="Gt", value="5"), TIER_7, True, id="Gt: the taint's is more"),
        pytest.param(Toleration(key="tier", operator="Gt", value="7"), TIER_7, False, id="Gt: equal"),
        pytest.param(Toleration(key="tier", operator="Lt", value="9"), TIER_7, True, id="Lt: the taint's is less"),
        pytest.param(Toleration(key="tier", operator="Lt", value="7"), TIER_7, False, id="Lt: equal"),
        pytest.param(Toleration(key="tier", operator="Lt", value="x"), TIER_7, False, id="Lt: no number"),
        pytest.param(Toleration(key="gpu", operator="Gt", value="1"), HARD, False, id="Gt: the taint's is no number"),
        pytest.param(Toleration(key="gpu", operator="Like", value="a100"), HARD, False, id="an unknown operator"),
    ],
)
def test_a_toleration(toleration: Toleration, taint: Taint, tolerates: bool) -> None:
    assert toleration.tolerates(taint) is tolerates


def test_the_first_taint_that_is_not_tolerated_is_named() -> None:
    cls = a_pod(tolerations=[{"key": "gpu", "operator": "Exists"}]).cls
    assert untolerated(cls, (ASKING, HARD, TIER_7, BARE)) == TIER_7
    assert untolerated(cls, (HARD, EVICTING)) is None


def test_a_taint_that_only_asks_keeps_nobody_off() -> None:
    assert untolerated(a_pod().cls, (ASKING,)) is None


@pytest.mark.parametrize(
    ("tolerations", "may"),
    [
        pytest.param([], False, id="none"),
        pytest.param([{"operator": "Exists"}], True, id="everything"),
        pytest.param([{"key": "node.kubernetes.io/unschedulable", "operator": "Exists"}], True, id="the key"),
        pytest.param(
            [{"key": "node.kubernetes.io/unschedulable", "operator": "Exists", "effect": "NoExecute"}],
            False,
            id="the key with another effect",
        ),
    ],
)
def test_who_may_go_to_a_cordoned_node(tolerations: list[Json], may: bool) -> None:
    assert a_pod(tolerations=tolerations).cls.tolerates_unschedulable is may


def terms(*expressions: Json) -> list[Json]:
    return [{"matchExpressions": list(expressions)}]


def fields(*expressions: Json) -> list[Json]:
    return [{"matchFields": list(expressions)}]


@pytest.mark.parametrize(
    ("node_terms", "wanted"),
    [
        pytest.param(terms(expression("disk", "In", "ssd", "nvme")), True, id="In"),
        pytest.param(terms(expression("disk", "In", "hdd")), False, id="In: another value"),
        pytest.param(terms(expression("disk", "NotIn", "hdd")), True, id="NotIn"),
        pytest.param(terms(expression("none", "NotIn", "x")), True, id="NotIn: no such label"),
        pytest.param(terms(expression("disk", "Exists")), True, id="Exists"),
        pytest.param(terms(expression("none", "DoesNotExist")), True, id="DoesNotExist"),
        pytest.param(terms(expression("cores", "Gt", "7")), True, id="Gt"),
        pytest.param(terms(expression("cores", "Lt", "8")), False, id="Lt"),
        pytest.param(terms(expression("disk", "Exists"), expression("cores", "Lt", "8")), False, id="one of two fails"),
        pytest.param(
            [*terms(expression("disk", "In", "hdd")), *terms(expression("cores", "Gt", "7"))],
            True,
            id="one term is enough",
        ),
        pytest.param([], False, id="no term matches nothing"),
        pytest.param([{}], False, id="an empty term matches nothing"),
        pytest.param(fields(expression("metadata.name", "In", "n1")), True, id="the node's name"),
        pytest.param(fields(expression("metadata.name", "In", "n2")), False, id="another name"),
        pytest.param(fields(expression("metadata.name", "NotIn", "n1")), False, id="any name but this"),
        pytest.param(fields(expression("metadata.uid", "In", "u")), False, id="an unknown field has no value"),
        pytest.param(
            [
                {
                    "matchExpressions": [expression("disk", "Exists")],
                    "matchFields": [expression("metadata.name", "In", "n2")],
                }
            ],
            False,
            id="labels and name must both hold",
        ),
    ],
)
def test_required_node_affinity(node_terms: list[Json], wanted: bool) -> None:
    node = a_node("n1", labels={"disk": "ssd", "cores": "8"})
    assert wants_node(a_pod(node_terms=node_terms).cls, node.labels, node.name) is wanted


@pytest.mark.parametrize(
    ("selector", "node_terms", "wanted"),
    [
        pytest.param({"disk": "ssd"}, None, True, id="selector alone"),
        pytest.param({"disk": "ssd", "zone": "a"}, None, False, id="every entry of the selector must hold"),
        pytest.param({"disk": "ssd"}, terms(expression("cores", "Exists")), True, id="selector and affinity"),
        pytest.param({"disk": "hdd"}, terms(expression("cores", "Exists")), False, id="affinity alone is not enough"),
        pytest.param({"disk": "ssd"}, terms(expression("gpu", "Exists")), False, id="selector alone is not enough"),
    ],
)
def test_the_selector_and_the_affinity_must_both_hold(
    selector: dict[str, str], node_terms: list[Json] | None, wanted: bool
) -> None:
    cls = a_pod(selector=selector, node_terms=node_terms).cls
    assert wants_node(cls, {"disk": "ssd", "cores": "8"}, "n1") is wanted


LIFE = "node.kubernetes.io/"


@pytest.mark.parametrize(
    ("taints", "belongs"),
    [
        pytest.param([], True, id="no taints"),
        pytest.param([LIFE + "not-ready:NoExecute"], True, id="not ready"),
        pytest.param([LIFE + "unreachable:NoExecute"], True, id="unreachable"),
        pytest.param([LIFE + "disk-pressure"], True, id="disk pressure"),
        pytest.param([LIFE + "memory-pressure"], True, id="memory pressure"),
        pytest.param([LIFE + "pid-pressure"], True, id="PID pressure"),
        pytest.param([LIFE + "unschedulable"], True, id="cordoned"),
        pytest.param([LIFE + "not-ready:NoSchedule"], False, id="not ready, but only the eviction is tolerated"),
        pytest.param([LIFE + "network-unavailable"], False, id="no network: only for pods on the host's"),
        pytest.param(["gpu=a100"], False, id="a taint of one's own"),
        pytest.param(["gpu=a100:PreferNoSchedule"], True, id="a taint that only asks"),
    ],
)
def test_a_daemon_set_runs_on_a_node_with(taints: list[str], belongs: bool) -> None:
    assert daemon_belongs(a_pod(owner="DaemonSet").cls, a_node(taints=taints, cordoned=True)) is belongs


def test_a_daemon_set_looks_at_tolerations_and_labels_but_not_at_room() -> None:
    node = a_node("n1", cpu="1", labels={"disk": "ssd"}, taints=["gpu=a100"])
    tolerant = [{"key": "gpu", "operator": "Exists"}]
    assert daemon_belongs(a_pod(cpu="64", tolerations=tolerant).cls, node)
    assert not daemon_belongs(a_pod(tolerations=tolerant, selector={"disk": "hdd"}).cls, node)
