import numpy as np
import pytest

from autoscaler.objects.node import Node
from autoscaler.objects.pod import MIRROR, Pod
from autoscaler.scaledown.arrivals import arrived
from autoscaler.scaledown.utilization import UncountedPods, Utilization, utilization
from autoscaler.snapshot.contribution import ALL_GPU_RESOURCES
from autoscaler.snapshot.overlay import Trial
from tests.builders import a_node, a_pod
from tests.unit.scaledown.pieces import NOW, Cluster

GPU_LABEL = "gpu-type"
NODE = a_node("n", cpu="4", memory="16Gi")
GPU_NODE = a_node("n", cpu="4", memory="16Gi", extra={"nvidia.com/gpu": "8"})
AMD_NODE = a_node("n", extra={"amd.com/gpu": "4"})
WEB = a_pod("web", cpu="1", memory="2Gi", node="n")
DAEMON = a_pod("daemon", cpu="2", memory="4Gi", owner="DaemonSet", node="n")
MIRRORED = a_pod("mirror", cpu="1", memory="1Gi", owner=None, annotations={MIRROR: "x"}, node="n")
LATE = a_pod("late", cpu="3", node="n", deleted=NOW.wall - 1000)
LEAVING = a_pod("leaving", cpu="3", node="n", deleted=NOW.wall - 10)
TRAINING = a_pod("training", cpu="4", requests={"nvidia.com/gpu": "2"}, node="n")


def measure(
    node: Node, pods: list[Pod], *, daemonsets: bool = False, mirrors: bool = False, trial: Trial | None = None
) -> Utilization:
    trial = trial or Cluster([node], pods).trial()
    left_out = UncountedPods(np.array([daemonsets]), mirrors)
    return utilization(trial, arrived(trial), NOW.wall, left_out, GPU_LABEL, ALL_GPU_RESOURCES)


@pytest.mark.parametrize(
    ("node", "pods", "share", "resource"),
    [
        pytest.param(NODE, [], 0.0, "memory", id="an empty node"),
        pytest.param(NODE, [WEB], 0.25, "cpu", id="CPU is scarcer"),
        pytest.param(NODE, [a_pod(cpu="1", memory="8Gi", node="n")], 0.5, "memory", id="memory is scarcer"),
        pytest.param(NODE, [WEB, DAEMON], 0.75, "cpu", id="daemons count"),
        pytest.param(NODE, [WEB, MIRRORED], 0.5, "cpu", id="mirror pods count"),
        pytest.param(NODE, [WEB, LATE], 0.25, "cpu", id="overdue pods do not"),
        pytest.param(NODE, [WEB, LEAVING], 1.0, "cpu", id="terminating pods still do"),
        pytest.param(GPU_NODE, [TRAINING], 0.25, "GPU", id="a GPU node is judged by its GPUs alone"),
        pytest.param(GPU_NODE, [WEB], 0.0, "GPU", id="even when they are idle"),
        pytest.param(AMD_NODE, [WEB], 0.0, "GPU", id="whoever made them"),
        pytest.param(a_node("n", labels={GPU_LABEL: "a100"}), [WEB], 0.0, "GPU", id="GPUs that are not there yet"),
    ],
)
def test_share(node: Node, pods: list[Pod], share: float, resource: str) -> None:
    used = measure(node, pods)
    assert (used.share[0], used.resource(0)) == (pytest.approx(share), resource)
    assert not used.unknown[0]


@pytest.mark.parametrize(
    ("pods", "daemonsets", "mirrors", "share"),
    [
        pytest.param([WEB, DAEMON], True, False, 1 / 2, id="daemons leave both numbers"),
        pytest.param([WEB, MIRRORED], False, True, 1 / 3, id="and so do mirror pods"),
        pytest.param([WEB, DAEMON, MIRRORED], True, True, 1.0, id="and both"),
        pytest.param([WEB, DAEMON], False, True, 3 / 4, id="each only when told to"),
        pytest.param([a_pod(cpu="4", owner="DaemonSet", node="n")], True, False, 0.0, id="daemons have all there is"),
        pytest.param([a_pod(cpu="4", owner="DaemonSet", node="n"), WEB], True, False, 1.0, id="nothing is left"),
        pytest.param([a_pod(cpu="9", owner="DaemonSet", node="n"), WEB], True, False, 1 / 8, id="or less than nothing"),
    ],
)
def test_what_is_left_out(pods: list[Pod], daemonsets: bool, mirrors: bool, share: float) -> None:
    assert measure(NODE, pods, daemonsets=daemonsets, mirrors=mirrors).share[0] == pytest.approx(share)


def test_an_overdue_daemon_that_is_left_out_is_left_out_once() -> None:
    late = a_pod("late", cpu="2", owner="DaemonSet", node="n", deleted=NOW.wall - 1000)
    assert measure(NODE, [WEB, late], daemonsets=True).share[0] == pytest.approx(1 / 2)
    assert measure(NODE, [WEB, late]).share[0] == pytest.approx(1 / 4)


@pytest.mark.parametrize("missing", ["cpu", "memory"])
def test_a_node_that_does_not_say_what_it_has_is_unknown(missing: str) -> None:
    node = a_node("n", cpu="0" if missing == "cpu" else "4", memory="0" if missing == "memory" else "1Gi")
    used = measure(node, [WEB])
    assert used.unknown[0]
    assert used.share[0] == 0.0


def test_pods_that_a_trial_placed_count() -> None:
    pending = a_pod("pending", cpu="2")
    cluster = Cluster([NODE, a_node("other")], [WEB, pending])
    trial = cluster.trial()
    trial.place(pending.cls, 0)
    left_out = UncountedPods(np.array([False, False]))
    used = utilization(trial, arrived(trial), NOW.wall, left_out, "", ())
    assert used.share.tolist() == pytest.approx([0.75, 0.0])


def test_daemons_that_a_trial_placed_are_left_out_too() -> None:
    trial = Cluster([NODE], [WEB]).trial()
    trial.place(DAEMON.cls, 0)
    assert measure(NODE, [], daemonsets=True, trial=trial).share[0] == pytest.approx(1 / 2)
