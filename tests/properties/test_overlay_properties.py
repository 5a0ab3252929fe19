"""What a trial's followers have learnt bit by bit, against counting again; and that what-if leaves no trace."""

import numpy as np
import pytest

from autoscaler.objects.meta import LabelSelector
from autoscaler.objects.node import HOSTNAME, Node
from autoscaler.scheduling.class_selection import everything, selected_in
from autoscaler.scheduling.domains import DomainTallies, Eligibility
from autoscaler.scheduling.ports import PortGuard
from autoscaler.snapshot.overlay import Trial
from tests.properties.random_clusters import RACK, ZONE, Case, Dice, random_case
from tests.seeds import seeds


def only_ssd(node: Node) -> bool:
    return node.labels.get("disk") == "ssd"


class Followers:
    """Tallies and port guards that follow one trial."""

    def __init__(self, trial: Trial, case: Case, *limits: int) -> None:
        self.trial = trial
        self.mask = np.fromiter((only_ssd(node) for node in case.view.nodes), dtype=np.bool_, count=trial.base)
        counted = DomainTallies(trial, *limits)
        anybody, app_x = everything(), selected_in("default", LabelSelector(match_labels={"app": "x"}), {})
        self.tallies = [
            counted.counted((anybody,)).tally(HOSTNAME),
            counted.counted((app_x,)).tally(ZONE),
            counted.counted((anybody,)).tally(RACK, Eligibility(self.mask, only_ssd)),
            counted.counted((app_x,)).tally(ZONE, Eligibility(self.mask, only_ssd)),
        ]
        self.ports = [PortGuard(cls, counted) for cls in case.classes]

    def answers(self) -> list[object]:
        window = slice(0, self.trial.count)
        counts = [tally.at(window).tolist() for tally in self.tallies]
        summaries = [(tally.total, tally.fewest(), tally.fewest(3)) for tally in self.tallies]
        return [counts, summaries, [guard.mask(window).tolist() for guard in self.ports]]


def state(trial: Trial) -> list[object]:
    return [
        trial.count,
        [(row, trial.free[at].tolist()) for row, at in trial.vocabulary.rows.items() if trial.free[at].any()],
        trial.open(slice(0, trial.count)).tolist(),
        trial.alive.tolist(),
        [trial.labels(key).tolist() for key in (HOSTNAME, ZONE, RACK)],
        [(trial.name(at), trial.classes_on(at)) for at in range(trial.count)],
    ]


def disturb(trial: Trial, case: Case, dice: Dice, depth: int) -> None:
    """Change the trial at random, in forks of its own too."""
    for _ in range(dice.random.randint(1, 5)):
        alive = np.flatnonzero(trial.alive).tolist()
        match dice.random.randrange(6):
            case 0 | 1 if alive:
                trial.place(dice.random.choice(case.classes), dice.random.choice(alive), dice.random.randint(1, 3))
            case 2 if alive:
                at = dice.random.choice(alive)
                for cls, count in trial.classes_on(at).items():
                    trial.lift(cls, at, count)
            case 3:
                trial.add(dice.random.choice(case.templates), dice.random.randint(1, 3))
            case 4 if alive:
                trial.remove(dice.random.choice(alive))
            case 5 if depth:
                with trial.fork() as fork:
                    disturb(trial, case, dice, depth - 1)
                    if dice.maybe(0.5):
                        fork.keep()


@pytest.mark.parametrize("seed", seeds(60))
def test_followers_know_what_counting_again_would_tell_and_a_fork_leaves_no_trace(seed: int) -> None:
    dice, case = Dice(seed), random_case(seed)
    trial = Trial(case.view)
    early, forgetful = Followers(trial, case), Followers(trial, case, 300, 3)
    before = [state(trial), early.answers()]
    assert forgetful.answers() == early.answers()
    with trial.fork():
        disturb(trial, case, dice, depth=2)
        late = Followers(trial, case)
        assert early.answers() == late.answers()
        disturb(trial, case, dice, depth=2)
        assert early.answers() == late.answers() == Followers(trial, case).answers() == forgetful.answers()
    assert [state(trial), early.answers()] == before
    assert late.answers() == early.answers() == forgetful.answers()
