"""GitHub's `workflow_job` events: their contents, their target, and the changes that they cause.

An event that is not understood changes nothing, and the result says why.
"""

from collections.abc import Iterable, Mapping
from enum import StrEnum
from fnmatch import fnmatchcase
from typing import Any

import msgspec

from autoscaler.config.reservations import GitHub, ReservationTarget
from autoscaler.reasons import NoReservation
from autoscaler.reservations.plan import JobAttempt
from autoscaler.reservations.state import ledger_key

EVENT = "workflow_job"
_SELF_HOSTED = "self-hosted"
_WILDCARDS = frozenset("*?[")
_LONGEST_TEXT, _MOST_LABELS = 300, 200


class BadField(Exception):
    """A field is missing or of the wrong type."""

    def __init__(self, field: str, message: str) -> None:
        super().__init__(message)
        self.field = field


class JobAction(StrEnum):
    """Actions that change reservations."""

    QUEUED = "queued"
    COMPLETED = "completed"


class JobEvent(msgspec.Struct, frozen=True, kw_only=True):
    """An event of one job."""

    action: str
    repository: str
    owner: str
    organization: bool
    """Whether the owner is an organization; the repositories of users match only by name."""
    job_id: int
    attempt: int
    labels: tuple[str, ...]
    conclusion: str | None
    has_runner: bool
    """Whether the event names a runner, even runner number 0."""

    @property
    def job(self) -> JobAttempt:
        """Keys that identify the job in later events."""
        identity = (self.repository.lower(), self.job_id, self.attempt)
        return JobAttempt(ledger_key("queued", *identity), ledger_key("completed", *identity))

    @property
    def asked_for(self) -> frozenset[str]:
        """Labels that distinguish targets."""
        return frozenset(map(str.lower, self.labels)) - {_SELF_HOSTED}


def read_event(data: Mapping[str, Any]) -> JobEvent:
    """Parse a `workflow_job` event; raises `BadField`."""
    job, repository = _of(data, "workflow_job", dict), _of(data, "repository", dict)
    owner = _of(repository, "owner", dict, "repository.")
    labels = _of(job, "labels", list, "workflow_job.")
    if len(labels) > _MOST_LABELS or not all(
        isinstance(label, str) and len(label) <= _LONGEST_TEXT for label in labels
    ):
        raise BadField("workflow_job.labels", f"is not a list of at most {_MOST_LABELS} texts")
    conclusion, runner = job.get("conclusion"), job.get("runner_id")
    if conclusion is not None and not isinstance(conclusion, str):
        raise BadField("workflow_job.conclusion", "is neither text nor null")
    if runner is not None and type(runner) is not int:
        raise BadField("workflow_job.runner_id", "is neither a number nor null")
    attempt = job.get("run_attempt", 1)
    if type(attempt) is not int:
        raise BadField("workflow_job.run_attempt", "is not a number")
    return JobEvent(
        action=_of(data, "action", str),
        repository=_of(repository, "full_name", str, "repository."),
        owner=_of(owner, "login", str, "repository.owner."),
        organization=owner.get("type") == "Organization",
        job_id=_of(job, "id", int, "workflow_job."),
        attempt=attempt,
        labels=tuple(labels),
        conclusion=conclusion,
        has_runner=runner is not None,
    )


_NAMES = {dict: "an object", list: "a list", str: "text", int: "a number"}


def _of(data: Mapping[str, Any], key: str, kind: type[Any], path: str = "") -> Any:
    value: Any = data.get(key)
    if type(value) is not kind or (kind is str and len(value) > _LONGEST_TEXT):
        raise BadField(path + key, f"is not {_NAMES[kind]}" if key in data else "is missing")
    return value


def change(event: JobEvent) -> int | NoReservation:
    """Return the number of reservations that an event adds (negative: removes), or why it changes nothing."""
    if event.action == JobAction.QUEUED:
        return 1
    if event.action != JobAction.COMPLETED:
        return NoReservation.ACTION
    if event.conclusion == "skipped":
        return NoReservation.SKIPPED
    if event.conclusion == "success" and not event.has_runner:
        return NoReservation.CHECK_RUN  # it only pretends to be a job
    return -1


def choose(targets: Iterable[ReservationTarget], event: JobEvent) -> ReservationTarget | NoReservation:
    """Return the best matching target, or why there is none.

    A repository by name ranks before one by pattern, and a pattern ranks before an organization.
    """
    empty, by_rank = False, list[tuple[int, ReservationTarget]]()
    for target in targets:
        if target.github is None or (rank := _rank(target.github, event)) is None:
            continue
        if not event.asked_for <= frozenset(map(str.lower, target.github.labels)):
            continue
        if not event.labels and not target.github.allow_empty_labels:
            empty = True
        else:
            by_rank.append((rank, target))
    if not by_rank:
        return NoReservation.EMPTY_LABELS if empty else NoReservation.NO_TARGET
    best = min(rank for rank, _ in by_rank)
    chosen = [target for rank, target in by_rank if rank == best]
    return chosen[0] if len(chosen) == 1 else NoReservation.AMBIGUOUS_TARGET


def _rank(rule: GitHub, event: JobEvent) -> int | None:
    """Return the rank of a repository's match, 0 is best; None if it does not match."""
    name = event.repository.lower()
    matching = [repository for repository in map(str.lower, rule.repositories) if fnmatchcase(name, repository)]
    if matching:
        return int(all(_WILDCARDS & set(repository) for repository in matching))
    if event.organization and event.owner.lower() in map(str.lower, rule.organizations):
        return 2
    return None
