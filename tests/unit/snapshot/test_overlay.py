import numpy as np
import pytest

from autoscaler.objects.node import HOSTNAME, ZONES
from autoscaler.objects.pod import PodClass
from autoscaler.snapshot.cluster import view_of
from autoscaler.snapshot.overlay import Positions, Trial
from tests.builders import a_node, a_pod, a_template, replicas

ZONE = ZONES[0]
WEB = a_pod("web", cpu="1").cls
BATCH = a_pod("batch", cpu="100m").cls
DAEMON = a_pod("daemon", cpu="100m", owner="DaemonSet")
TEMPLATE = a_template(a_node("t", cpu="2", zone="b", taints=["new"]), DAEMON)


def a_trial() -> Trial:
    """Two nodes in zone a; a pod of class WEB on the first."""
    return Trial(view_of([a_node("n0", zone="a"), a_node("n1", zone="a")], [a_pod("web", cpu="1", node="n0")]))


class Ear:
    """A watcher that remembers what it heard."""

    def __init__(self) -> None:
        self.moves: list[tuple[PodClass, list[int], list[int]]] = []

    def moved(self, cls: PodClass, positions: Positions, counts: Positions) -> None:
        self.moves.append((cls, positions.tolist(), counts.tolist()))

    def counts(self, cls: PodClass) -> bool:
        return cls is not BATCH


def free_cpu(trial: Trial) -> list[int]:
    return [int(amount) for amount in trial.free[0]]


def test_placing_and_lifting_moves_room() -> None:
    trial = a_trial()
    trial.place(WEB, 1, 2)
    assert free_cpu(trial) == [3000, 2000]
    assert trial.free[2].tolist() == [109, 108]
    trial.lift(WEB, 0)
    assert free_cpu(trial) == [4000, 2000]
    assert (trial.classes_on(0), trial.classes_on(1)) == ({}, {WEB: 2})


def test_an_added_node_is_its_template_under_a_name_of_its_own() -> None:
    trial = a_trial()
    assert list(trial.add(TEMPLATE, 2)) == [2, 3]
    assert (trial.base, trial.count) == (2, 4)
    assert [trial.name(at) for at in range(4)] == ["n0", "n1", "t-e-0", "t-e-1"]
    assert [trial.template(at) for at in (1, 2)] == [None, TEMPLATE]
    assert trial.node(3).labels == {HOSTNAME: "t-e-1", ZONE: "b"}
    assert trial.node(3).taints == TEMPLATE.node.taints
    assert free_cpu(trial) == [3000, 4000, 1900, 1900]
    assert trial.classes_on(2) == {DAEMON.cls: 1}
    assert trial.kinds.tolist() == [-1, -1, 0, 0]


def test_pods_of_a_template_take_what_no_node_had_before() -> None:
    trial = a_trial()
    node = a_node("g", extra={"nvidia.com/gpu": "2"})
    trial.add(a_template(node, a_pod("exporter", requests={"nvidia.com/gpu": "1"})), 1)
    assert trial.free[trial.vocabulary.rows["nvidia.com/gpu"]].tolist() == [0, 0, 1]


def test_added_nodes_are_numbered_through_and_may_have_another_suffix() -> None:
    trial = a_trial()
    trial.add(TEMPLATE, 1, "upcoming-")
    trial.add(a_template(a_node("u")), 1)
    assert [trial.name(at) for at in (2, 3)] == ["t-upcoming-0", "u-e-1"]


@pytest.mark.parametrize("count", [0, -1])
def test_no_nodes_may_be_added_too(count: int) -> None:
    trial = a_trial()
    assert list(trial.add(TEMPLATE, count)) == []
    assert trial.count == 2


def test_labels_of_nodes_old_and_new() -> None:
    trial = a_trial()
    asked_before = trial.labels(HOSTNAME).tolist()
    trial.add(TEMPLATE, 2)
    zones, hosts, racks = trial.labels(ZONE), trial.labels(HOSTNAME), trial.labels("rack")
    assert zones[0] == zones[1] != zones[2] == zones[3]
    assert len({*hosts.tolist()}) == 4
    assert hosts[:2].tolist() == asked_before
    assert racks.tolist() == [-1] * 4


def test_a_removed_node_is_closed_but_keeps_its_place() -> None:
    trial = a_trial()
    trial.remove(0)
    everywhere = slice(0, 2)
    assert (trial.alive.tolist(), trial.open(everywhere).tolist()) == ([False, True], [False, True])
    assert trial.count == 2


def test_a_cordoned_node_is_alive_but_closed() -> None:
    trial = Trial(view_of([a_node("n", cordoned=True)], []))
    assert (trial.alive.tolist(), trial.open(slice(0, 1)).tolist(), trial.cordoned(0)) == ([True], [False], True)


def test_resources_named_later_are_zero_everywhere() -> None:
    trial = a_trial()
    row = trial.vocabulary.row("example.com/late")
    assert trial.free[row].tolist() == [0, 0]


def state(trial: Trial) -> object:
    """Everything a trial can tell."""
    everywhere = range(trial.count)
    return {
        "count": trial.count,
        "free": {row: trial.free[at].tolist() for row, at in trial.vocabulary.rows.items() if trial.free[at].any()},
        "alive": trial.alive.tolist(),
        "open": trial.open(slice(0, trial.count)).tolist(),
        "taints": trial.taint_codes.tolist(),
        "kinds": trial.kinds.tolist(),
        "labels": {key: trial.labels(key).tolist() for key in (HOSTNAME, ZONE)},
        "names": [trial.name(at) for at in everywhere],
        "classes": [trial.classes_on(at) for at in everywhere],
        "moves": [(cls, positions.tolist(), counts.tolist()) for cls, positions, counts in trial.moves()],
    }


def disturb(trial: Trial) -> None:
    trial.add(TEMPLATE, 70)
    trial.place_many(a_pod(requests={"example.com/odd": "1"}).cls, np.array([0, 5]), np.array([2, 3]))
    trial.lift(WEB, 0)
    trial.remove(1)
    trial.remove(10)


def test_a_fork_is_undone_on_exit() -> None:
    trial = a_trial()
    before = state(trial)
    with trial.fork():
        disturb(trial)
        assert state(trial) != before
    assert state(trial) == before


def keep_then_break_off(trial: Trial) -> None:
    with trial.fork() as fork:
        disturb(trial)
        fork.keep()
        raise KeyboardInterrupt


def test_a_fork_is_undone_when_an_exception_leaves_it_even_if_it_was_kept() -> None:
    trial = a_trial()
    before = state(trial)
    with pytest.raises(KeyboardInterrupt):
        keep_then_break_off(trial)
    assert state(trial) == before


def test_a_kept_fork_stays() -> None:
    trial = a_trial()
    with trial.fork() as fork:
        disturb(trial)
        during = state(trial)
        fork.keep()
    assert state(trial) == during


def test_an_outer_fork_undoes_what_an_inner_one_kept() -> None:
    trial = a_trial()
    before = state(trial)
    with trial.fork():
        trial.place(WEB, 1)
        with trial.fork() as inner:
            disturb(trial)
            inner.keep()
        assert trial.count == 72
    assert state(trial) == before


def test_an_inner_fork_undoes_only_its_own() -> None:
    trial = a_trial()
    with trial.fork() as outer:
        trial.place(WEB, 1)
        trial.add(TEMPLATE, 1)
        during = state(trial)
        with trial.fork():
            disturb(trial)
        assert state(trial) == during
        outer.keep()
    assert state(trial) == during


def test_a_trial_leaves_its_view_alone() -> None:
    view = view_of([a_node("n0"), a_node("n1")], replicas(a_pod(node="n0", cpu="1"), 3))
    used, cordoned, taints = view.columns.used.copy(), view.columns.cordoned.copy(), view.columns.taint_codes.copy()
    disturb(Trial(view))
    assert (view.columns.used == used).all()
    assert (view.columns.cordoned == cordoned).all()
    assert (view.columns.taint_codes == taints).all()
    assert len(view.pods_on("n0")) == 3


def test_watchers_hear_of_the_classes_they_count_undoing_included() -> None:
    trial, ear = a_trial(), Ear()
    trial.watch(ear)
    versions = [trial.version]
    with trial.fork():
        trial.place(WEB, 1, 2)
        trial.place(BATCH, 1)
        versions.append(trial.version)
        trial.add(TEMPLATE, 2)
        versions.append(trial.version)
        trial.remove(0)
        versions.append(trial.version)
    assert ear.moves == [
        (WEB, [1], [2]),
        (DAEMON.cls, [2, 3], [1, 1]),
        (DAEMON.cls, [2, 3], [-1, -1]),
        (WEB, [1], [-2]),
    ]
    assert versions[0] == versions[1] < versions[2] < versions[3] < trial.version


def test_what_differs_from_the_view_is_told_to_those_who_come_late() -> None:
    trial = a_trial()
    trial.add(TEMPLATE, 1)
    trial.place(WEB, 1, 2)
    trial.lift(WEB, 0)
    trial.place(WEB, 2)
    trial.lift(WEB, 2)
    told = [(cls, positions.tolist(), counts.tolist()) for cls, positions, counts in trial.moves()]
    assert told == [(DAEMON.cls, [2], [1]), (WEB, [1, 0], [2, -1])]


@pytest.mark.parametrize("undone", [True, False], ids=["undone", "lifted"])
def test_taking_back_what_asked_for_a_resource_named_later_gives_none_of_it(undone: bool) -> None:
    trial = Trial(view_of([a_node("a")], []))
    asking = a_pod(requests={"example.com/disk": "2"}).cls
    plain, late = a_template(a_node("plain")), a_template(a_node("late", allocatable={"example.com/disk": "4"}))
    added = trial.add(plain, 1).start
    with trial.fork() as fork:
        trial.place(asking, added)
        trial.add(late, 1)
        if not undone:
            trial.lift(asking, added)
            fork.keep()
    assert trial.free[trial.vocabulary.rows["example.com/disk"], : added + 1].tolist() == [0, 0]
