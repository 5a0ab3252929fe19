import pytest

from autoscaler.objects.node import Node, Taint
from autoscaler.observe.metrics.taints import count_taints
from autoscaler.snapshot.template import PassingTaints

PASSING = PassingTaints(startup=frozenset({"cni/agent-not-ready"}), status=frozenset({"example.com/busy"}))


@pytest.mark.parametrize(
    ("key", "kind"),
    [
        pytest.param("ToBeDeletedByClusterAutoscaler", "ToBeDeletedByClusterAutoscaler", id="about to be deleted"),
        pytest.param("node.kubernetes.io/not-ready", "node.kubernetes.io/not-ready", id="a node condition"),
        pytest.param("cni/agent-not-ready", "startup-taint", id="named by a flag as startup"),
        pytest.param("startup-taint.cluster-autoscaler.kubernetes.io/x", "startup-taint", id="startup by prefix"),
        pytest.param(
            "ignore-taint.cluster-autoscaler.kubernetes.io/x",
            "ignore-taint.cluster-autoscaler.kubernetes.io/",
            id="the old prefix",
        ),
        pytest.param("example.com/busy", "status-taint", id="named by a flag as status"),
        pytest.param("dedicated", "other", id="anything else"),
    ],
)
def test_types(key: str, kind: str) -> None:
    assert count_taints([Node(name="n", taints=(Taint(key, "NoSchedule"),))], PASSING) == {kind: 1}


def test_all_nodes_count() -> None:
    nodes = [Node(name=f"n{n}", taints=(Taint("a", "NoSchedule"), Taint("b", "NoExecute"))) for n in range(3)]
    assert count_taints([*nodes, Node(name="clean")], PASSING) == {"other": 6}
