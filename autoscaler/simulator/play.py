"""Plays a scenario file through the real loop, run by run, in memory and in virtual time."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from msgspec.structs import replace

from autoscaler.actuation.answer_log import AnswerLog, ReplayedAnswers
from autoscaler.actuation.removal_events import SilentRemovalListener
from autoscaler.app.build import Environment, build_autoscaler
from autoscaler.errors import ConfigError
from autoscaler.explain.answer import PlanExplanation
from autoscaler.kube.election import Unopposed
from autoscaler.loop.companion import Companions
from autoscaler.loop.ended_pass import EndedPass
from autoscaler.loop.pass_ports import Advise, no_advice
from autoscaler.observe.status import Headline, ProcessStatus, PublishedStatus
from autoscaler.observe.summary import summarise
from autoscaler.ports import EventType, Subject
from autoscaler.recording.pass_file import PassOrigin, read_memory
from autoscaler.sandbox.memory_reader import MemoryReader
from autoscaler.scenario.scenario import Scenario
from autoscaler.simulator.answer import PlanAnswer, RunAnswer
from autoscaler.simulator.answer_forms import deletes_in, run_answer
from autoscaler.simulator.executor import VirtualExecutor
from autoscaler.simulator.recorded_answers import RecordedAnswers
from autoscaler.simulator.scenario_world import FINISH_S, ScenarioWorld

if TYPE_CHECKING:
    from autoscaler.explain.explain import ExplainTarget


_MOST_ADVISED = 500
"""Number of classes of pods that get advice in one pass; in a cluster of 200 nodes, one takes about 5 ms."""


class SilentEvents:
    """A `ports.EventSink` that drops events, because the answer has the reasons."""

    def event(self, about: Subject, kind: EventType, reason: str, message: str) -> None:
        """Drop one event."""


def play(scenario: Scenario) -> PlanAnswer:
    """Return what the autoscaler decides in each run. The same scenario gives the same answer, except for timings.

    Raises `ConfigError` if the options do not suit the scenario's cloud.
    """
    return _play(ScenarioWorld(scenario), lambda run, ended: None)


def play_and_look(scenario: Scenario, look: Callable[[int, EndedPass], None]) -> PlanAnswer:
    """Play as `play` does. `look` gets each finished pass before anything else happens."""
    return _play(ScenarioWorld(scenario), look)


def play_and_advise(scenario: Scenario) -> PlanAnswer:
    """Play as `play` does. The answer also says what each pass means, and what would help stuck pods."""
    from autoscaler.explain.advisor import PodAdvisor  # imports all remedies, which a plan alone does not need

    world = ScenarioWorld(scenario)
    headlines: list[Headline | None] = []
    process = ProcessStatus(identity=scenario.name, version="", started_at=world.clock.now().wall)
    before = PublishedStatus(process=process)

    def look(run: int, ended: EndedPass) -> None:
        headlines.append(summarise(ended.report, before, number=run, rules=scenario.config.rules).headline)

    answer = _play(world, look, advise=PodAdvisor(world.clock, most_classes=_MOST_ADVISED))
    runs = [replace(run, headline=headline) for run, headline in zip(answer.runs, headlines, strict=True)]
    return replace(answer, runs=runs)


def play_and_explain(scenario: Scenario, targets: Sequence["ExplainTarget"], run: int | None = None) -> PlanExplanation:
    """Return why one run (None: the last) decided as it did about each target; the result is the same bytes every time.

    Raises `ConfigError` if the run or target does not exist, or if the options do not suit the scenario's cloud.
    """
    from autoscaler.explain.explain import explain  # imports all remedies, which a plan alone does not need

    wanted = scenario.runs - 1 if run is None else run
    if not 0 <= wanted < scenario.runs:
        raise ConfigError(f"--run {wanted}: the runs of {scenario.name} are 0 to {scenario.runs - 1}")
    world = ScenarioWorld(scenario)
    explanations: list[PlanExplanation] = []

    def look(number: int, ended: EndedPass) -> None:
        if number == wanted:
            explanations.append(explain(targets, ended, world.cluster.pods, scenario.name, number))

    _play(world, look)
    return explanations[0]


def play_with(scenario: Scenario, companions: Companions) -> PlanAnswer:
    """Play a scenario with companions, which see every pass as in the daemon."""
    return _play(ScenarioWorld(scenario), lambda run, ended: None, companions)


def _play(
    world: ScenarioWorld,
    look: Callable[[int, EndedPass], None],
    companions: Companions | None = None,
    advise: Advise = no_advice,
) -> PlanAnswer:
    """Play every run; `look` gets each finished pass before anything else happens."""
    scenario = world.scenario
    answers: list[RunAnswer] = []
    remote = RecordedAnswers(scenario.answers)
    origin = _origin(world)
    config = scenario.config if origin is None else replace(scenario.config, scheduler=origin.scheduler)
    with VirtualExecutor(world.clock) as executor:
        answer_log = AnswerLog() if origin is None else ReplayedAnswers(origin.answers)
        environment = replace(_environment(world, executor, remote, answer_log, companions), advise=advise)
        autoscaler = build_autoscaler(config, environment, scenario.interner)
        if origin is not None:
            autoscaler.memory = origin.remembered
            world.silence_s = origin.silence_s
        for run in range(scenario.runs):
            world.begin_run(run)
            remote.begin_run(run)
            ended = autoscaler.examine(world.clock.now())
            look(run, ended)
            world.silence_s = {}
            calls = world.calls_of(run)
            last = run == scenario.runs - 1
            # What a run started may reach the cloud after its pass has ended.
            _work_until(executor, world, scenario.run_at_s(run) + FINISH_S if last else scenario.run_at_s(run + 1))
            answer = run_answer(run, ended, calls, world.target_sizes())
            calls = world.calls_of(run)
            leaving = {removal.node for removal in (*answer.deleted_empty, *answer.deleted_drain)}
            reasons = replace(answer.reasons, other_deletes=deletes_in(calls, but_for=leaving))
            answers.append(replace(answer, cloud_deletes=deletes_in(calls), reasons=reasons))
        world.finish()
    return PlanAnswer(name=scenario.name, runs=answers)


def _origin(world: ScenarioWorld) -> PassOrigin | None:
    """Return the state with which a recorded pass began; None for a file that is no recording."""
    scenario = world.scenario
    if scenario.memory is None:
        return None
    templates = {group.id: group.template() for group in world.cloud.groups()}
    return read_memory(scenario.memory, scenario.interner, templates)


def _environment(
    world: ScenarioWorld,
    executor: VirtualExecutor,
    remote: RecordedAnswers,
    answer_log: AnswerLog,
    companions: Companions | None,
) -> Environment:
    return Environment(
        source=world,
        provider=world.cloud,
        writes=world.writes,
        fresh=MemoryReader(world.cluster, world.scenario.related),
        events=SilentEvents(),
        listener=SilentRemovalListener(),
        executor=executor,
        clock=world.clock,
        leadership=Unopposed(),
        companions=companions or Companions(),
        remote=remote,
        answer_log=answer_log,
    )


def _work_until(executor: VirtualExecutor, world: ScenarioWorld, wall_s: float) -> None:
    """Let removals continue until a moment of the scenario."""
    now = world.clock.now()
    executor.run_until(now.mono + max(0.0, wall_s - now.wall))
