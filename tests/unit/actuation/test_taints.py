from collections.abc import Sequence

import pytest

from autoscaler.actuation.taints import CleanUp, SoftTainted, apply_soft_taints
from autoscaler.config.scaledown import ScaleDown
from autoscaler.errors import LeadershipLost, RetryLater
from autoscaler.loop.removal_event_writer import RemovalEventWriter
from autoscaler.objects.node import DELETION_CANDIDATE, TO_BE_DELETED, Node, Taint
from autoscaler.scaledown.taints import SoftTaint, SoftTaints
from tests.unit.actuation.stage import START_WALL, DeletionStage

SOFT = f"{DELETION_CANDIDATE}=%d:PreferNoSchedule"
HARD = f"{TO_BE_DELETED}=1:NoSchedule"


def cleaner(stage: DeletionStage) -> CleanUp:
    return CleanUp(stage.api, stage.clock, RemovalEventWriter(stage.events, stage.counts, None))


def nodes(stage: DeletionStage) -> Sequence[Node]:
    return list(stage.cluster.nodes.values())


class TestSoftTaints:
    PLAN = SoftTaints(untaint=("n1",), taint=(SoftTaint("n2", 1_600_000_000), SoftTaint("n3", 1_600_000_001)))

    def test_are_written_with_the_time_since_which_the_node_is_unneeded(self) -> None:
        with DeletionStage(taints={"n1": [SOFT % 5]}) as stage:
            done = apply_soft_taints(stage.api, stage.clock, self.PLAN, time_s=3)
            assert done == SoftTainted(added=("n2", "n3"), removed=("n1",))
            taint = Taint(DELETION_CANDIDATE, "PreferNoSchedule", "1600000000")
            assert [node.taints for node in nodes(stage)][:2] == [(), (taint,)]

    def test_removals_come_first_and_time_ends_it(self) -> None:
        with DeletionStage(taints={"n1": [SOFT % 5]}) as stage:
            stage.api.on_write = lambda: stage.clock.advance(2)
            done = apply_soft_taints(stage.api, stage.clock, self.PLAN, time_s=3)
            assert done == SoftTainted(added=("n2",), removed=("n1",), left=1)

    def test_a_failure_is_left_to_the_next_pass(self) -> None:
        with DeletionStage(taints={"n1": [SOFT % 5]}) as stage:
            stage.api.taint_errors["n2"].append(RetryLater("busy"))
            stage.api.release_errors["n1"].append(RetryLater("busy"))
            done = apply_soft_taints(stage.api, stage.clock, self.PLAN, time_s=3)
            assert done == SoftTainted(added=("n3",), failed=("n1", "n2"))

    def test_leadership_lost_ends_it(self) -> None:
        with DeletionStage() as stage:
            stage.leader.until = 0
            with pytest.raises(LeadershipLost):
                apply_soft_taints(stage.api, stage.clock, self.PLAN, time_s=3)


class TestCleanUp:
    def test_gives_back_nodes_of_groups(self) -> None:
        with DeletionStage(taints={"n1": [HARD], "n2": [HARD]}, cordoned=["n1", "n3"]) as stage:
            assert cleaner(stage).hard_taints(nodes(stage), {"n1", "n3"}, cordoned=True) == ()
            assert [stage.tainted(name) for name in ("n1", "n2", "n3")] == [False, True, False]
            assert [node.unschedulable for node in nodes(stage)] == [False, False, True]
            assert stage.events.lines == [
                "Node/n1 ClusterAutoscalerCleanup: removed ToBeDeletedByClusterAutoscaler taint from node n1"
            ]

    def test_leaves_cordons_where_cordoning_is_off(self) -> None:
        with DeletionStage(taints={"n1": [HARD]}, cordoned=["n1"]) as stage:
            cleaner(stage).hard_taints(nodes(stage), {"n1"}, cordoned=False)
            assert not stage.tainted("n1")
            assert stage.cluster.nodes["n1"].unschedulable

    def test_names_the_nodes_that_failed(self) -> None:
        with DeletionStage(taints={"n1": [HARD], "n2": [HARD]}) as stage:
            stage.api.release_errors["n1"].append(RetryLater("busy"))
            assert cleaner(stage).hard_taints(nodes(stage), {"n1", "n2"}, cordoned=True) == ("n1",)
            assert stage.events.lines[0] == (
                "Node/n1 ClusterAutoscalerCleanup: failed to clean ToBeDeletedByClusterAutoscaler on node n1: busy"
            )
            assert not stage.tainted("n2")

    @pytest.mark.parametrize(
        ("config", "left"),
        [
            pytest.param(ScaleDown(), ["n1", "n2", "n3"], id="soft taints in use stay"),
            pytest.param(ScaleDown(max_bulk_soft_taint_count=0), ["n2"], id="switched off: the young stay"),
            pytest.param(
                ScaleDown(max_bulk_soft_taint_count=0, node_deletion_candidate_ttl_s=0),
                [],
                id="switched off and no time to live: none stays",
            ),
        ],
    )
    def test_soft_taints(self, config: ScaleDown, left: list[str]) -> None:
        now = int(START_WALL)
        undated = f"{DELETION_CANDIDATE}=soon:PreferNoSchedule"
        taints = {"n1": [SOFT % (now - 1800)], "n2": [SOFT % (now - 1799)], "n3": [undated]}
        with DeletionStage(taints=taints) as stage:
            assert cleaner(stage).soft_taints(nodes(stage), config) == ()
            assert [node.name for node in nodes(stage) if node.taint(DELETION_CANDIDATE)] == left
