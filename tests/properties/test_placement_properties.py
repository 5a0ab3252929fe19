"""Placer, with its masks, tallies and guards, against the plain definition of the scheduler's filters."""

from collections import Counter

import numpy as np
import pytest

from autoscaler.objects.pod import PodClass
from autoscaler.scheduling.placement import Placer, round_robin
from autoscaler.snapshot.overlay import Trial
from tests.properties.random_clusters import Case, Dice, add_to_both, random_case, slow_twin
from tests.properties.slow_scheduler import SlowCluster
from tests.seeds import seeds


def check_agreement(placer: Placer, twin: SlowCluster, classes: tuple[PodClass, ...], dice: Dice) -> None:
    """Every question that can be asked of a placer gets the twin's answer."""
    trial = placer.trial
    everywhere = slice(0, trial.count)
    for cls in classes:
        objections = [twin.objections(cls, at) if twin.nodes[at] else ["gone"] for at in range(trial.count)]
        fitting = [not found for found in objections]
        for at in twin.existing():
            assert [one.message for one in placer.why(cls, at)] == objections[at], (cls, at)
        assert [placer.fits(cls, at) for at in range(trial.count)] == fitting, objections
        assert placer.passing(cls, everywhere).tolist() == fitting, objections
        low = dice.random.randint(0, trial.count)
        window = slice(low, dice.random.randint(low, trial.count))
        assert placer.passing(cls, window).tolist() == fitting[window]
        start = dice.random.randrange(trial.count + 1)
        in_turn = [*range(start, window.stop), *range(window.start, start)] if start in range(low, window.stop) else []
        in_turn = in_turn or [*range(window.start, window.stop)]
        assert placer.first(cls, window, start) == next((at for at in in_turn if fitting[at]), None)


def change_both(trial: Trial, twin: SlowCluster, case: Case, dice: Dice) -> None:
    """Do one random thing to the trial and to its twin."""
    alive = twin.existing()
    match dice.random.randrange(6):
        case 0 | 1 | 2 if alive:
            cls, at = dice.random.choice(case.classes), dice.random.choice(alive)
            trial.place(cls, at)
            twin.place(cls, at)
        case 3 if len(alive) > 1:
            cls, positions = dice.random.choice(case.classes), sorted(dice.random.sample(alive, 2))
            trial.place_many(cls, np.array(positions), np.array([2, 1]))
            for at in (positions[0], *positions):
                twin.place(cls, at)
        case 4:
            add_to_both(trial, twin, dice.random.choice(case.templates), dice.random.randint(1, 2))
        case 5 if alive:
            at = dice.random.choice(alive)
            empty_node(trial, twin, at, remove=dice.maybe(0.5))


def empty_node(trial: Trial, twin: SlowCluster, at: int, *, remove: bool) -> None:
    """Take every pod off a node, and perhaps the node away; those on their way out stay, with their node."""
    here = [pod for pod in twin.placed if pod.at == at]
    for cls, count in Counter(pod.cls for pod in here if not pod.terminating).items():
        trial.lift(cls, at, count)
        for _ in range(count):
            twin.lift(cls, at)
    if remove and not any(pod.terminating for pod in here):
        trial.remove(at)
        twin.remove(at)


@pytest.mark.parametrize("seed", seeds(150))
def test_a_placer_agrees_with_the_definition_through_random_changes_and_after_undoing_them(seed: int) -> None:
    dice, case = Dice(seed), random_case(seed)
    trial, twin = Trial(case.view), slow_twin(case.view)
    placer = Placer(trial)
    if dice.maybe(0.5):
        check_agreement(placer, twin, case.classes, dice)
    with trial.fork():
        changed = twin.copy()
        for _ in range(dice.random.randint(1, 6)):
            change_both(trial, changed, case, dice)
        check_agreement(placer, changed, case.classes, dice)
        with trial.fork() as inner:
            kept = changed.copy()
            for _ in range(dice.random.randint(1, 4)):
                change_both(trial, kept, case, dice)
            check_agreement(Placer(trial), kept, case.classes, dice)
            if dice.maybe(0.5):
                inner.keep()
                changed = kept
        check_agreement(placer, changed, case.classes, dice)
    check_agreement(placer, twin, case.classes, dice)


@pytest.mark.parametrize("seed", seeds(40))
def test_copies_are_what_one_by_one_placing_gives(seed: int) -> None:
    case = random_case(seed, plain=True)
    trial, twin = Trial(case.view), slow_twin(case.view)
    placer = Placer(trial)
    add_to_both(trial, twin, case.templates[0], 2)
    for cls in case.classes:
        if placer.guards(cls):
            continue
        for at, count in enumerate(placer.copies(cls, slice(0, trial.count)).tolist()):
            filled = twin.copy()
            placed = 0
            while filled.fits(cls, at):
                filled.place(cls, at)
                placed += 1
            assert count == placed


@pytest.mark.parametrize("seed", seeds(100))
def test_dealing_in_turns_is_what_a_search_resuming_after_the_last_match_gives(seed: int) -> None:
    random = Dice(seed).random
    capacity = [random.choice((0, 0, 1, 2, 3, 7)) for _ in range(random.randint(1, 8))]
    count, start = random.randint(0, 30), random.randrange(len(capacity))
    room, taken, cursor, left = list(capacity), [0] * len(capacity), start, count
    while left:
        turn = ((cursor + step) % len(room) for step in range(len(room)))
        at = next((at for at in turn if room[at]), None)
        if at is None:
            break
        room[at] -= 1
        taken[at] += 1
        cursor = (at + 1) % len(room)
        left -= 1
    dealt, unplaced, resume = round_robin(np.array(capacity), count, start)
    assert (dealt.tolist(), unplaced, resume) == (taken, left, cursor)
