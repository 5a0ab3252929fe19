"""What is written, in which order, and what becomes of it where something goes wrong in between."""

import pytest

from cloudprovider.interface import Conflict, NodeRef, NotFound, ProviderError, State, Transient
from tests.fakes import capi
from tests.unit.cloudprovider.clusterapi_world import NOW_TEXT, ClusterApiWorld, a_set, node, running, three

SCALE = f"set scale {capi.SETS}"
READ = f"get scale {capi.SETS}"
MARK = f"update {capi.MACHINES}"


def writes(world: ClusterApiWorld) -> list[str]:
    return [call for call in world.api.calls if not call.startswith(("list", "get", "kinds"))]


class TestIncrease:
    def test_goes_through_the_scale_and_counts_at_once(self) -> None:
        world = three()
        world.group.increase(2)
        assert (world.group.target_size(), world.replicas()) == (5, 5)
        assert writes(world) == [SCALE]

    @pytest.mark.parametrize("delta", [4, 0, -1])
    def test_beyond_the_maximum_and_nothing_are_refused(self, delta: int) -> None:
        world = three()
        with pytest.raises(ProviderError):
            world.group.increase(delta)
        assert (world.group.target_size(), world.replicas(), writes(world)) == (3, 3, [])

    def test_what_others_changed_meanwhile_is_counted(self) -> None:
        world = three()
        world.api.put(capi.SETS, {**world.get(capi.SETS, "web"), "spec": {"replicas": 5}})
        with pytest.raises(ProviderError, match=r"5 \+ 2 is above the maximum size 6"):
            world.group.increase(2)
        world.group.increase(1)
        assert world.replicas() == 6

    def test_a_conflict_is_decided_anew(self) -> None:
        world = three()
        world.api.fail(SCALE, Conflict("changed"))
        world.group.increase(1)
        assert (world.replicas(), writes(world)) == (4, [SCALE, SCALE])

    def test_conflicts_without_end_end(self) -> None:
        world = three()
        for _ in range(5):
            world.api.fail(SCALE, Conflict("changed"))
        with pytest.raises(Conflict):
            world.group.increase(1)
        assert world.replicas() == 3

    def test_a_lost_answer_is_looked_up(self) -> None:
        world = three()
        world.api.fail(SCALE, Transient("no answer"), afterwards=True)
        world.group.increase(1)
        assert (world.group.target_size(), world.replicas()) == (4, 4)

    def test_a_write_that_never_came_is_not_believed(self) -> None:
        world = three()
        world.api.fail(SCALE, Transient("no answer"))
        with pytest.raises(Transient):
            world.group.increase(1)
        assert (world.group.target_size(), world.replicas()) == (3, 3)

    def test_while_nothing_can_be_looked_up_the_target_is_not_told(self) -> None:
        world = three()
        world.api.fail(SCALE, Transient("no answer"), afterwards=True)
        for skip in (1, 2):  # the first read is the one before the write
            world.api.fail(READ, Transient("down"), skip=skip)
        with pytest.raises(Transient, match="no answer"):
            world.group.increase(1)
        with pytest.raises(Transient, match="down"):
            world.group.target_size()
        assert world.group.target_size() == 4

    def test_a_group_that_is_gone_is_not_found(self) -> None:
        world = three()
        world.api.remove(capi.SETS, "default", "web")
        with pytest.raises(NotFound):
            world.group.increase(1)


class TestPrepareDelete:
    def test_writes_back_what_there_is(self) -> None:
        world = three()
        before = [*world.api.objects(capi.MACHINES), *world.api.objects(capi.SETS)]
        for obj in before:
            del obj["metadata"]["resourceVersion"]
        world.group.prepare_delete([node("a"), node("c")])
        assert writes(world) == [MARK, MARK, SCALE]
        after = [*world.api.objects(capi.MACHINES), *world.api.objects(capi.SETS)]
        for obj in after:
            del obj["metadata"]["resourceVersion"]
        assert after == before

    @pytest.mark.parametrize("call", [MARK, SCALE])
    def test_raises_what_a_deletion_would(self, call: str) -> None:
        world = three()
        world.api.fail(call, ProviderError("forbidden"))
        with pytest.raises(ProviderError, match="forbidden"):
            world.group.prepare_delete([node("a")])
        assert (world.marks(), world.replicas()) == ({}, 3)

    @pytest.mark.parametrize("call", [MARK, SCALE])
    def test_a_change_by_somebody_else_refuses_nothing(self, call: str) -> None:
        world = three()
        world.api.fail(call, Conflict("changed"))
        world.group.prepare_delete([node("a")])

    def test_a_machine_that_is_gone_refuses_nothing(self) -> None:
        world = three()
        world.api.remove(capi.MACHINES, "default", "a")
        world.group.prepare_delete([node("a")])


class TestDelete:
    def test_marks_exactly_these_then_lowers_the_replicas_once(self) -> None:
        world = three()
        world.group.delete([node("a"), node("c")])
        assert writes(world) == [MARK, MARK, SCALE]
        assert world.marks() == {"a": NOW_TEXT, "c": NOW_TEXT}
        assert (world.group.target_size(), world.replicas()) == (1, 1)
        assert world.instances() == {
            "docker:////a": (State.DELETING, None),
            "docker:////b": (State.RUNNING, None),
            "docker:////c": (State.DELETING, None),
        }

    @pytest.mark.parametrize(
        ("nodes", "low", "why"),
        [
            pytest.param([node("a"), node("z")], 0, "not one of this group's", id="a stranger"),
            pytest.param([node("a"), node("b")], 2, "breaks the minimum size 2", id="below the minimum"),
        ],
    )
    def test_nothing_is_written_where_one_may_not_go(self, nodes: list[NodeRef], low: int, why: str) -> None:
        world = three(low=low)
        with pytest.raises(ProviderError, match=why):
            world.group.delete(nodes)
        assert (writes(world), world.replicas(), world.marks()) == ([], 3, {})

    def test_a_node_of_another_group_is_a_stranger(self) -> None:
        world = ClusterApiWorld(a_set(2), capi.a_group("other", 0, 3, 1, "MachineSet"), *running("a", "b"))
        other = next(one for one in world.provider.groups() if one.id.endswith("other"))
        with pytest.raises(ProviderError, match="not one of this group's"):
            other.delete([node("a")])

    def test_the_minimum_is_that_of_the_replicas_now(self) -> None:
        world = three(low=2)
        world.api.put(capi.SETS, {**world.get(capi.SETS, "web"), "spec": {"replicas": 2}})
        with pytest.raises(ProviderError, match="breaks the minimum"):
            world.group.delete([node("a")])
        assert writes(world) == []

    def test_by_force_the_minimum_does_not_matter(self) -> None:
        world = three(low=3)
        world.group.force_delete([node("a")])
        assert (world.replicas(), list(world.marks())) == (2, ["a"])

    def test_what_is_going_already_is_not_counted_twice(self) -> None:
        world = ClusterApiWorld(a_set(2), *running("a", deleting=True), *running("b", "c"))
        world.group.delete([node("a")])
        assert writes(world) == []
        world.group.delete([node("a"), node("b"), node("b")])
        assert (world.replicas(), list(world.marks())) == (1, ["b"])

    @pytest.mark.parametrize("refreshes", [0, 1, 2])
    def test_asking_again_before_the_controllers_have_acted_lowers_nothing(self, refreshes: int) -> None:
        world = three()
        world.group.delete([node("a")])
        for _ in range(refreshes):
            world.refresh()
        world.group.delete([node("a")])
        assert (world.replicas(), world.group.target_size()) == (2, 2)

    def test_one_that_stays_because_the_replicas_rose_again_can_be_deleted_again(self) -> None:
        """Controllers look at what the replicas are, not at what they were in between."""
        world = three()
        world.group.delete([node("a")])
        world.group.increase(1)
        world.refresh()
        assert world.instances()["docker:////a"] == (State.RUNNING, None)
        world.group.delete([node("a")])
        assert (world.replicas(), list(world.marks())) == (2, ["a"])

    def test_nor_does_asking_again_after_a_restart(self) -> None:
        world = ClusterApiWorld(a_set(2), *running("a", mark="2026-01-05T11:59:00Z"), *running("b", "c"))
        assert world.instances()["docker:////a"] == (State.DELETING, None)
        world.group.delete([node("a")])
        assert (world.replicas(), writes(world)) == (2, [])

    def test_a_deletion_that_a_restart_cut_short_is_finished_when_asked_again(self) -> None:
        world = ClusterApiWorld(a_set(3), *running("a", mark="2026-01-05T11:59:00Z"), *running("b", "c"))
        assert world.instances()["docker:////a"] == (State.RUNNING, None)
        world.group.delete([node("a")])
        assert (world.replicas(), list(world.marks())) == (2, ["a"])

    @pytest.mark.parametrize("mark", ["2026-01-05T11:59:00Z", "2026-01-05 11:59:00.1 +0000 UTC m=+12.3"])
    def test_what_such_a_one_marked_is_spared_when_others_go(self, mark: str) -> None:
        world = ClusterApiWorld(a_set(3), *running("a", mark=mark), *running("b", "c"))
        world.group.delete([node("b")])
        assert (world.replicas(), list(world.marks())) == (2, ["b"])

    def test_what_people_marked_stays_marked(self) -> None:
        world = ClusterApiWorld(a_set(3), *running("a", mark="yes"), *running("b", "c"))
        world.group.delete([node("b")])
        assert list(world.marks()) == ["a", "b"]

    def test_a_refused_scale_takes_the_marks_back(self) -> None:
        world = three()
        world.api.fail(SCALE, ProviderError("forbidden"))
        with pytest.raises(ProviderError, match="forbidden"):
            world.group.delete([node("a"), node("b")])
        assert (world.marks(), world.replicas(), world.group.target_size()) == ({}, 3, 3)
        assert {state for state, _ in world.instances().values()} == {State.RUNNING}

    def test_a_mark_that_fails_takes_the_others_back(self) -> None:
        world = three()
        world.api.fail(MARK, Transient("no answer"), afterwards=True)
        with pytest.raises(Transient):
            world.group.delete([node("a"), node("b")])
        assert (world.marks(), world.replicas()) == ({}, 3)

    def test_a_lost_answer_that_hid_a_success_is_a_success(self) -> None:
        world = three()
        world.api.fail(SCALE, Transient("no answer"), afterwards=True)
        world.group.delete([node("a")])
        assert (world.replicas(), list(world.marks()), world.group.target_size()) == (2, ["a"], 2)

    def test_while_the_outcome_is_unknown_the_marks_stay_and_the_next_refresh_settles_it(self) -> None:
        """Without the marks, a scale that did take effect would take any machine."""
        world = three()
        world.api.fail(SCALE, Transient("no answer"))
        with pytest.raises(Transient):
            world.group.delete([node("a")])
        assert list(world.marks()) == ["a"]
        world.refresh()
        assert (world.marks(), world.replicas(), world.group.target_size()) == ({}, 3, 3)

    def test_and_where_it_did_take_effect_they_remain(self) -> None:
        world = three()
        world.api.fail(READ, Transient("down"), skip=2)
        world.api.fail(SCALE, Transient("no answer"), afterwards=True)
        with pytest.raises(Transient):
            world.group.delete([node("a")])
        world.refresh()
        assert (list(world.marks()), world.replicas(), world.group.target_size()) == (["a"], 2, 2)
        assert world.instances()["docker:////a"] == (State.DELETING, None)

    def test_a_mark_that_could_not_be_taken_back_is_by_the_next_refresh(self) -> None:
        world = three()
        world.api.fail(SCALE, ProviderError("forbidden"))
        world.api.fail(MARK, Transient("no answer"), skip=1)
        with pytest.raises(ProviderError, match="forbidden"):
            world.group.delete([node("a")])
        assert list(world.marks()) == ["a"]
        world.refresh()
        assert (world.marks(), world.replicas()) == ({}, 3)

    def test_a_machine_that_is_gone_by_itself_costs_no_replica(self) -> None:
        world = three()
        world.api.remove(capi.MACHINES, "default", "a")
        world.group.delete([node("a"), node("b")])
        assert (world.replicas(), list(world.marks())) == (2, ["b"])

    def test_another_machine_of_the_same_name_is_spared(self) -> None:
        world = three()
        world.api.remove(capi.MACHINES, "default", "a")
        world.api.put(capi.MACHINES, running("a")[0])
        with pytest.raises(Conflict):
            world.group.delete([node("a")])
        assert (world.marks(), world.replicas()) == ({}, 3)

    def test_what_is_forgotten_is_only_what_the_lists_show(self) -> None:
        """A refresh that began before a deletion does not bring its machine back."""
        world = three()
        began = world.provider._roster.ledger.begin()
        groups = tuple(world.provider._roster.fleet.groups.values())
        world.group.delete([node("a")])
        world.provider._roster.ledger.end(began, groups)
        assert world.group.target_size() == 2
        assert world.instances()["docker:////a"] == (State.DELETING, None)


class TestDecrease:
    def test_gives_up_what_was_not_made_yet(self) -> None:
        world = ClusterApiWorld(a_set(4), *running("a", "b"))
        world.group.decrease_target(2)
        assert (world.replicas(), world.marks(), world.group.target_size()) == (2, {}, 2)

    def test_never_goes_below_what_exists(self) -> None:
        world = ClusterApiWorld(a_set(4), *running("a", "b"), capi.a_machine("c", "web", provider_id="docker:////c"))
        with pytest.raises(ProviderError, match="4 - 2 is below the 3 machines that exist"):
            world.group.decrease_target(2)
        assert (world.replicas(), writes(world)) == (4, [])

    def test_marks_machines_that_have_not_come_so_that_they_go(self) -> None:
        """Unmarked, an unhealthy machine with a node is as likely to go."""
        pending = [capi.a_machine(name, "web") for name in ("x", "y")]
        world = ClusterApiWorld(a_set(4), *running("a"), *pending)
        world.group.decrease_target(2)
        assert (world.replicas(), list(world.marks())) == (2, ["y"])

    def test_looks_whether_they_have_come_meanwhile(self) -> None:
        world = ClusterApiWorld(a_set(2), *running("a"), capi.a_machine("x", "web"))
        world.api.put(capi.MACHINES, {**world.get(capi.MACHINES, "x"), **running("x")[0]})
        with pytest.raises(ProviderError, match="below the 2 machines"):
            world.group.decrease_target(1)

    def test_those_on_their_way_out_are_not_counted(self) -> None:
        world = ClusterApiWorld(a_set(2), *running("a"), *running("b", deleting=True))
        world.group.decrease_target(1)
        assert world.replicas() == 1

    @pytest.mark.parametrize("delta", [0, -1])
    def test_nothing_is_refused(self, delta: int) -> None:
        with pytest.raises(ProviderError):
            three().group.decrease_target(delta)


class TestPools:
    """MachinePools whose machines have no Machines: the cloud chooses what goes."""

    def world(self, replicas: int = 3) -> ClusterApiWorld:
        pool = capi.a_group("web", 0, 6, replicas, "MachinePool")
        pool["spec"]["providerIDList"] = [f"docker:////{name}" for name in "abc"]
        return ClusterApiWorld(pool)

    def test_only_the_replicas_are_lowered(self) -> None:
        world = self.world()
        world.group.delete([node("a")])
        assert writes(world) == [f"set scale {capi.POOLS}"]
        assert world.replicas(capi.POOLS) == 2
        assert world.instances()["docker:////a"] == (State.DELETING, None)

    @pytest.mark.parametrize("refreshes", [0, 1])
    def test_and_that_once(self, refreshes: int) -> None:
        world = self.world()
        world.group.delete([node("a")])
        for _ in range(refreshes):
            world.refresh()
        world.group.delete([node("a")])
        assert world.replicas(capi.POOLS) == 2
        world.group.delete([node("b")])
        assert world.replicas(capi.POOLS) == 1

    def test_not_while_others_are_on_their_way_out(self) -> None:
        world = self.world(replicas=2)
        with pytest.raises(Transient, match="still shrinking"):
            world.group.delete([node("a")])

    def test_an_id_that_is_not_listed_is_a_strangers(self) -> None:
        with pytest.raises(ProviderError, match="not one of this group's"):
            self.world().group.delete([node("z")])

    def test_with_machines_they_are_marked(self) -> None:
        pool = capi.a_group("web", 0, 6, 2, "MachinePool")
        pool["spec"]["providerIDList"] = ["docker:////a", "docker:////b"]
        world = ClusterApiWorld(pool, *running("a", "b", kind="MachinePool"))
        world.group.delete([node("b")])
        assert (world.replicas(capi.POOLS), list(world.marks())) == (1, ["b"])

    def test_what_is_listed_exists(self) -> None:
        with pytest.raises(ProviderError, match="below the 3 machines"):
            self.world().group.decrease_target(1)
