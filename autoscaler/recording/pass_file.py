"""Writes and reads a pass as a file; its replay gives the same decision, to the byte.

A pass is a function of the cluster, the memory of earlier passes, the time, and the answers of cloud, cluster and
stopwatch. The cluster is in the fields that every scenario has; the rest is in `memory`.
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
from autoscaler.objects.pod_interner import PodInterner
from autoscaler.scenario.encode import encode
from autoscaler.scenario.recorded_values import RecordingDecoder, RecordingEncoder
from autoscaler.scenario.scenario import MEMORY_VERSION, RecordedMemory
from autoscaler.snapshot.groups import Groups
from cloudprovider.interface import NodeTemplate

_PROCESS_FLAGS = frozenset(
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
"""Flags about the process's environment and its files.

No decision depends on them, and a recording does not hold the files.
"""
_EMPTY_ANSWERS: Mapping[QuestionKind, object] = {
    QuestionKind.MARK: None,
    QuestionKind.CLEAN_UP: None,
    QuestionKind.ENDED: (),
    QuestionKind.TIME_OVER: False,
}
"""The answer without effect, by kind of question."""


_NOT_DECIDED = ("view", "registry", "timings", "advice")


class PassOrigin(msgspec.Struct, frozen=True, kw_only=True):
    """The input of a pass, except the cluster: its state at the beginning, and the answers that it got."""

    remembered: PassMemory
    answers: tuple[LoggedAnswer, ...] = ()
    scheduler: SchedulerProfile = SchedulerProfile()
    silence_s: Mapping[str, float] = {}
    """Seconds of silence of kinds that were silent for too long, by path."""


def record(ended: EndedPass, config: Config, name: str, description: str = "") -> bytes | None:
    """Return a scenario file (JSON) that replays a finished pass; None if the pass never saw the cluster."""
    view, remembered, report = ended.report.view, ended.memory_before, ended.report
    if view is None:
        return None
    encoder = RecordingEncoder(view.groups)
    memory = {
        "version": MEMORY_VERSION,
        "now": encoder.encode(report.now),
        # Readings of the previous pass only save time.
        "remembered": encoder.encode(msgspec.structs.replace(remembered, readings=None)),
        "answers": [_encode_answer(logged, encoder) for logged in ended.answers if _is_needed_for_replay(logged)],
    }
    if config.scheduler != SchedulerProfile():
        memory["scheduler"] = encoder.encode(config.scheduler)
    if report.silent_s:
        memory["silence"] = dict(report.silent_s)
    memory["classes"] = encoder.classes
    options = {flag: value for flag, value in to_options(config).items() if flag not in _PROCESS_FLAGS}
    return encode(
        view,
        name=name,
        at_s=report.now.wall,
        options=options,
        description=description,
        answers=() if report.scale_up.plan is None else report.scale_up.plan.answers,
        memory=memory,
    )


def decision(ended: EndedPass) -> bytes:
    """Return everything that a pass found, decided, did and left in memory, as bytes (JSON): equal for equal decisions.

    Durations, the observed cluster and the advice for people are left out.
    """
    report, registry = ended.report, ended.report.registry
    encoder = RecordingEncoder(Groups())
    values = {name: getattr(report, name) for name in report.__struct_fields__ if name not in _NOT_DECIDED}
    if registry is not None:
        values["registry"] = {
            name: getattr(registry, name) for name in registry.__struct_fields__ if name not in ("readings", "now")
        }
    values["remembered"] = msgspec.structs.replace(ended.memory, readings=None)
    content = encoder.encode(values)
    return msgspec.json.encode({"decision": content, "classes": encoder.classes})


def read_memory(
    recorded: RecordedMemory, interner: PodInterner, templates: Mapping[str, NodeTemplate | None]
) -> PassOrigin:
    """Return the input of a recorded pass; `templates` has the cloud's template of each group.

    Raises `ConfigError` that names the first part that this release does not understand.
    """
    memory = recorded.content
    try:
        decoder = RecordingDecoder(interner, memory.get("classes") or (), templates)
        answers = [
            _decode_answer(data, decoder, f"answers[{index}]") for index, data in enumerate(memory.get("answers") or ())
        ]
        return PassOrigin(
            remembered=decoder.decode(memory.get("remembered"), PassMemory, "remembered"),
            answers=tuple(answers),
            scheduler=decoder.decode(memory.get("scheduler") or {}, SchedulerProfile, "scheduler"),
            silence_s=decoder.decode(memory.get("silence") or {}, dict[str, float], "silence"),
        )
    except ValueError as error:
        raise ConfigError(f"memory.{error}") from error


def _is_needed_for_replay(logged: LoggedAnswer) -> bool:
    """Whether a replay needs the answer: not if the file contains it anyway, or if it says that nothing happened."""
    if logged.raised is not None:
        return True
    if logged.asked is QuestionKind.GROUP_PRICE:
        return logged.answer is None
    if logged.asked is QuestionKind.TELLS_GONE:
        return not logged.answer
    return logged.asked not in _EMPTY_ANSWERS or logged.answer != _EMPTY_ANSWERS[logged.asked]


def _encode_answer(logged: LoggedAnswer, encoder: RecordingEncoder) -> dict[str, Any]:
    content: dict[str, Any] = {"asked": logged.asked.value}
    if logged.about:
        content["about"] = list(logged.about)
    if logged.raised is not None:
        content["raised"] = encoder.encode(logged.raised)
    elif logged.answer is not None:
        content["answer"] = encoder.encode(logged.answer)
    return content


def _decode_answer(data: Any, decoder: RecordingDecoder, path: str) -> LoggedAnswer:
    if not isinstance(data, Mapping) or data.get("asked") not in tuple(QuestionKind):
        raise ValueError(f"{path}.asked: is not known to this release")
    asked = QuestionKind(data["asked"])
    raised = decoder.decode(data.get("raised"), LoggedError | None, f"{path}.raised")
    return LoggedAnswer(
        asked=asked,
        about=decoder.decode(data.get("about") or [], tuple[str, ...], f"{path}.about"),
        answer=None if raised is not None else decoder.decode(data.get("answer"), TYPES[asked], f"{path}.answer"),
        raised=raised,
    )
