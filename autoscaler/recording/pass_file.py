"""Writes and reads a pass as a file that replays it to the same decision, to the byte.

A pass is a function of the cluster as it was found, of what earlier passes left, of the moment, and of what cloud,
cluster and stopwatch answered on the way. The cluster is in the fields that every scenario has; the rest is in
`memory`.
"""

from collections.abc import Mapping
from typing import Any

import msgspec

from autoscaler.actuation.answer_log import TYPES, LoggedAnswer, LoggedError, QuestionKind
from autoscaler.config.document import to_options
from autoscaler.config.scheduler_profile import SchedulerProfile
from autoscaler.config.tree import Config
from autoscaler.errors import ConfigError
from autoscaler.loop.ended_pass import EndedPass
from autoscaler.loop.pass_memory import PassMemory
from autoscaler.objects.pod import PodInterner
from autoscaler.scenario.encode import encode
from autoscaler.scenario.recorded_values import RecordingDecoder, RecordingEncoder
from autoscaler.scenario.scenario import MEMORY_VERSION, RecordedMemory
from autoscaler.snapshot.groups import Groups
from cloudprovider.interface import NodeTemplate

_OF_THE_PROCESS = frozenset(
    (
        "address",
        "anonymize",
        "cloud-config",
        "kubeconfig",
        "kubernetes",
        "record-dir",
        "record-passes",
        "scheduler-config-file",
        "user-agent",
    )
)
"""Flags that say where a process ran and what it read: no decision goes by them, and their files are not here."""
_NOTHING: Mapping[QuestionKind, object] = {
    QuestionKind.MARK: None,
    QuestionKind.CLEAN_UP: None,
    QuestionKind.ENDED: (),
    QuestionKind.TIME_OVER: False,
}
"""Answers of which nothing follows."""


_NOT_DECIDED = ("view", "registry", "timings")


class PassOrigin(msgspec.Struct, frozen=True, kw_only=True):
    """What a pass began with and was told, beside the cluster."""

    remembered: PassMemory
    answers: tuple[LoggedAnswer, ...] = ()
    scheduler: SchedulerProfile = SchedulerProfile()
    silence_s: Mapping[str, float] = {}
    """Seconds for which nothing had been heard of a kind, by its path; only of kinds that were silent for too long."""


def record(p: EndedPass, config: Config, name: str, description: str = "") -> bytes | None:
    """Return a scenario file (JSON) that replays a pass which has ended; None where it never saw the cluster."""
    view, remembered, report = p.report.view, p.memory_before, p.report
    if view is None:
        return None
    frost = RecordingEncoder(view.groups)
    memory = {
        "version": MEMORY_VERSION,
        "now": frost.freeze(report.now),
        # Readings of the pass before only save time.
        "remembered": frost.freeze(msgspec.structs.replace(remembered, readings=None)),
        "answers": [_frozen(one, frost) for one in p.answers if _matters(one)],
    }
    if config.scheduler != SchedulerProfile():
        memory["scheduler"] = frost.freeze(config.scheduler)
    if report.silent_s:
        memory["silence"] = dict(report.silent_s)
    memory["classes"] = frost.classes
    options = {flag: value for flag, value in to_options(config).items() if flag not in _OF_THE_PROCESS}
    return encode(
        view,
        name=name,
        at_s=report.now.wall,
        options=options,
        description=description,
        answers=() if report.scale_up.plan is None else report.scale_up.plan.answers,
        memory=memory,
    )


def decision(p: EndedPass) -> bytes:
    """Return all that a pass found, decided, did and leaves behind, as bytes (JSON): equal for equal decisions.

    What it took in seconds is not in it, nor is the cluster that it was shown.
    """
    report, registry = p.report, p.report.registry
    frost = RecordingEncoder(Groups())
    found = {name: getattr(report, name) for name in report.__struct_fields__ if name not in _NOT_DECIDED}
    if registry is not None:
        found["registry"] = {
            name: getattr(registry, name) for name in registry.__struct_fields__ if name not in ("readings", "now")
        }
    found["remembered"] = msgspec.structs.replace(p.memory, readings=None)
    written = frost.freeze(found)
    return msgspec.json.encode({"decision": written, "classes": frost.classes})


def plan_of(p: EndedPass) -> bytes:
    """Return what a pass means to do and why, as bytes (JSON): equal for a dry run and for the real one.

    What became of it is not in it: in a dry run nothing does.
    """
    frost = RecordingEncoder(Groups())
    report = p.report
    planned = {"pods": report.pods, "scale_up": report.scale_up.plan, "scale_down": report.scale_down}
    written = frost.freeze(planned)
    return msgspec.json.encode({"plan": written, "classes": frost.classes})


def recollect(
    recollection: RecordedMemory, interner: PodInterner, templates: Mapping[str, NodeTemplate | None]
) -> PassOrigin:
    """Return what a recorded pass began with; `templates` has what the cloud says of each group.

    Raises `ConfigError` naming the first thing that this release does not understand.
    """
    memory = recollection.content
    try:
        thaw = RecordingDecoder(interner, memory.get("classes") or (), templates)
        answers = [_thawed(one, thaw, f"answers[{at}]") for at, one in enumerate(memory.get("answers") or ())]
        return PassOrigin(
            remembered=thaw.thaw(memory.get("remembered"), PassMemory, "remembered"),
            answers=tuple(answers),
            scheduler=thaw.thaw(memory.get("scheduler") or {}, SchedulerProfile, "scheduler"),
            silence_s=thaw.thaw(memory.get("silence") or {}, dict[str, float], "silence"),
        )
    except ValueError as error:
        raise ConfigError(f"memory.{error}") from error


def _matters(one: LoggedAnswer) -> bool:
    """Whether a replay needs to be told: not what the file says anyway, and not that nothing came of something."""
    if one.raised is not None:
        return True
    if one.asked is QuestionKind.GROUP_PRICE:
        return one.answer is None
    if one.asked is QuestionKind.TELLS_GONE:
        return not one.answer
    return one.asked not in _NOTHING or one.answer != _NOTHING[one.asked]


def _frozen(one: LoggedAnswer, frost: RecordingEncoder) -> dict[str, Any]:
    written: dict[str, Any] = {"asked": one.asked.value}
    if one.about:
        written["about"] = list(one.about)
    if one.raised is not None:
        written["raised"] = frost.freeze(one.raised)
    elif one.answer is not None:
        written["answer"] = frost.freeze(one.answer)
    return written


def _thawed(data: Any, thaw: RecordingDecoder, path: str) -> LoggedAnswer:
    if not isinstance(data, Mapping) or data.get("asked") not in tuple(QuestionKind):
        raise ValueError(f"{path}.asked: is not known to this release")
    asked = QuestionKind(data["asked"])
    raised = thaw.thaw(data.get("raised"), LoggedError | None, f"{path}.raised")
    return LoggedAnswer(
        asked=asked,
        about=thaw.thaw(data.get("about") or [], tuple[str, ...], f"{path}.about"),
        answer=None if raised is not None else thaw.thaw(data.get("answer"), TYPES[asked], f"{path}.answer"),
        raised=raised,
    )
