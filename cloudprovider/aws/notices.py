"""Notices from an SQS queue that receives EventBridge's events about EC2 instances.

The kinds of events are those that Karpenter and the node termination handler read from such a queue: interruptions of
spot instances, rebalance recommendations, changes of an instance's state, and scheduled changes of AWS Health.
"""

import logging
from collections.abc import Iterator, Mapping, Sequence

import msgspec

from cloudprovider.aws.api import AwsApi
from cloudprovider.aws.fleet import Fleet
from cloudprovider.interface import Notice, NoticeKind
from cloudprovider.moment import http_date, parse_time

_LONGEST_BODY = 1 << 20
_MOST_INSTANCES = 1000
_LONGEST_WAIT_S = 10.0
_SOON_S = 120.0
"""Seconds from an interruption's event to its end; about as long, a machine that stops may need to shut down."""
_GOING = frozenset(("stopping", "stopped", "shutting-down", "terminated"))

_logger = logging.getLogger(__name__)


class _Entity(msgspec.Struct, frozen=True):
    value: str = msgspec.field(default="", name="entityValue")


class _Detail(msgspec.Struct, frozen=True, rename="camel"):
    """The fields of all kinds of events that matter."""

    instance_id: str = msgspec.field(default="", name="instance-id")
    state: str = ""
    service: str = ""
    event_type_category: str = ""
    status_code: str = ""
    start_time: str = ""
    affected_entities: list[_Entity] = []


class _Event(msgspec.Struct, frozen=True, rename="kebab"):
    source: str
    detail_type: str
    detail: _Detail
    time: str = ""


_decode = msgspec.json.Decoder(_Event).decode


class EventQueue:
    """A `NoticeQueue`. A message is deleted once all its notices are acknowledged, or at once if it holds none."""

    def __init__(self, api: AwsApi, url: str, fleet: Fleet) -> None:
        self._api = api
        self._url = url
        self._fleet = fleet
        self._left: dict[str, int] = {}
        """Notices of the last messages that are not acknowledged, by receipt."""

    def receive(self, wait_s: float) -> Sequence[Notice]:
        """Return the notices about machines of the groups, and delete messages that say nothing about these."""
        self._left = {}
        found: list[Notice] = []
        useless: list[str] = []
        for message in self._api.messages(self._url, int(min(wait_s, _LONGEST_WAIT_S))):
            receipt = str(message.get("ReceiptHandle") or "")
            notices = self._read(str(message.get("Body") or ""), receipt)
            if notices:
                found += notices
                self._left[receipt] = len(notices)
            elif receipt:
                useless.append(receipt)
        self._api.delete_messages(self._url, useless)
        return found

    def acknowledge(self, notices: Sequence[Notice]) -> None:
        """Delete the messages all of whose notices have been acknowledged."""
        done = []
        for notice in notices:
            left = self._left.get(notice.receipt, 0) - 1
            if left == 0:
                done.append(notice.receipt)
            self._left[notice.receipt] = left
        self._api.delete_messages(self._url, done)

    def _read(self, body: str, receipt: str) -> list[Notice]:
        try:
            if len(body) > _LONGEST_BODY:
                raise ValueError(f"{len(body)} characters")
            event = _decode(body)
        except (msgspec.MsgspecError, ValueError, RecursionError) as error:
            why = str(error)[:200] or type(error).__name__
            _logger.warning("aws.notice_unreadable", extra={"fields": {"why": why, "next": "the message is deleted"}})
            return []
        machines = self._machines()
        return [
            msgspec.structs.replace(notice, provider_id=machines[notice.provider_id], receipt=receipt)
            for notice in _notices(event)
            if notice.provider_id in machines and not self._fleet.has_ended(notice.provider_id)
        ]

    def _machines(self) -> Mapping[str, str]:
        """Return the provider ids of the groups' machines, by instance id."""
        groups = self._fleet.view.groups.values()
        return {machine.id: machine.provider_id for group in groups for machine in group.by_id.values()}


def _notices(event: _Event) -> Iterator[Notice]:
    """Yield what an event says, with instance ids in place of provider ids."""
    detail, said = event.detail, _seconds(event.time)
    soon = None if said is None else said + _SOON_S
    match event.source, event.detail_type:
        case "aws.ec2", "EC2 Spot Instance Interruption Warning":
            yield Notice(provider_id=detail.instance_id, kind=NoticeKind.SPOT_INTERRUPTION, deadline=soon)
        case "aws.ec2", "EC2 Instance Rebalance Recommendation":
            yield Notice(provider_id=detail.instance_id, kind=NoticeKind.REBALANCE_RECOMMENDATION)
        case "aws.ec2", "EC2 Instance State-change Notification" if detail.state in _GOING:
            yield Notice(provider_id=detail.instance_id, kind=NoticeKind.TERMINATION, deadline=soon)
        case "aws.health", "AWS Health Event" if _is_scheduled_change(detail):
            begins = http_date(detail.start_time)
            for entity in detail.affected_entities[:_MOST_INSTANCES]:
                yield Notice(
                    provider_id=entity.value,
                    kind=NoticeKind.SCHEDULED_MAINTENANCE,
                    deadline=None if begins is None else begins.timestamp(),
                    withdrawn=detail.status_code == "closed",
                )


def _is_scheduled_change(detail: _Detail) -> bool:
    return detail.service == "EC2" and detail.event_type_category == "scheduledChange"


def _seconds(time: str) -> float | None:
    try:
        return parse_time(time).timestamp()
    except ValueError:
        return None
