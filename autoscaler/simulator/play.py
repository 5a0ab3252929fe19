"""Plays a scenario file through the real loop, run by run, in memory and in virtual time."""

from msgspec.structs import replace

from autoscaler.app.build import build_autoscaler
from autoscaler.objects.meta import rfc3339
from autoscaler.ports import EventType, Subject
from autoscaler.scenario.scenario import Scenario
from autoscaler.simulator.answer import Answer, RunAnswer, deletes_in, run_answer
from autoscaler.simulator.scenario_world import ScenarioWorld


class NoEvents:
    """An event sink without an audience: the answer has the reasons."""

    def event(self, about: Subject, kind: EventType, reason: str, message: str) -> None:
        """Drop one event."""


def play(scenario: Scenario) -> Answer:
    """Return what the autoscaler decides in each run. The same scenario gives the same answer, timings aside.

    Raises `ConfigError` where the options do not suit the scenario's cloud.
    """
    world = ScenarioWorld(scenario)
    autoscaler = build_autoscaler(
        scenario.config,
        source=world,
        provider=world.cloud,
        events=NoEvents(),
        interner=scenario.interner,
        now=world.clock.now(),
    )
    answers: list[RunAnswer] = []
    for run in range(scenario.runs):
        world.begin_run(run)
        now = world.clock.now()
        report = autoscaler.run_once(now)
        answers.append(run_answer(run, rfc3339(now.wall), report, world.calls_of(run), world.target_sizes()))
    world.finish()
    # What a run started may reach the cloud after its pass has ended.
    return Answer(
        name=scenario.name,
        runs=[replace(answer, cloud_deletes=deletes_in(world.calls_of(answer.run))) for answer in answers],
    )
