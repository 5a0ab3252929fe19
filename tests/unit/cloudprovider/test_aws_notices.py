"""Notices from an SQS queue: what events of EventBridge become, and when messages are deleted."""

import json
from typing import Any

import pytest

from cloudprovider.aws.notices import EventQueue
from cloudprovider.interface import NodeRef, NoticeKind, NoticeQueue, TellsNotices, Throttled
from tests.fakes.aws import REGION, ZONE, FakeAws, an_error

QUEUE = f"https://sqs.{REGION}.amazonaws.com/123456789012/notices"
SPOKEN = "2026-07-26T10:00:00Z"
SPOKEN_S = 1_785_060_000.0


def an_event(kind: str, detail: Any, source: str = "aws.ec2", **changes: Any) -> str:
    """Return the body of a message as EventBridge writes it."""
    return json.dumps(
        {
            "version": "0",
            "id": "1e5527d7-bb36-4607-3370-4164db56a40e",
            "detail-type": kind,
            "source": source,
            "account": "123456789012",
            "time": SPOKEN,
            "region": REGION,
            "resources": ["arn:aws:ec2:eu-west-1a:instance/i-0b662ef9931388ba0"],
            "detail": detail,
            **changes,
        }
    )


def spot(instance: str, **changes: Any) -> str:
    """Return the warning of an interruption."""
    detail = {"instance-id": instance, "instance-action": "terminate"}
    return an_event("EC2 Spot Instance Interruption Warning", detail, **changes)


def health(*instances: str, **changes: Any) -> str:
    """Return a scheduled change of AWS Health."""
    detail = {
        "eventArn": "arn:aws:health:eu-west-1::event/EC2/AWS_EC2_INSTANCE_RETIREMENT_SCHEDULED/x",
        "service": "EC2",
        "eventTypeCode": "AWS_EC2_INSTANCE_RETIREMENT_SCHEDULED",
        "eventTypeCategory": "scheduledChange",
        "startTime": "Sun, 26 Jul 2026 12:00:00 GMT",
        "eventDescription": [{"language": "en_US", "latestDescription": "…"}],
        "affectedEntities": [{"entityValue": instance} for instance in instances],
        **changes,
    }
    return an_event("AWS Health Event", detail, "aws.health")


def a_queue(cloud: FakeAws, machines: int = 2) -> EventQueue:
    """Return the queue of a provider with one group of machines."""
    cloud.add_group("web", machines)
    provider = cloud.open("0:9:web", queue_url=QUEUE)
    assert isinstance(provider, TellsNotices)
    queue = provider.notices()
    assert isinstance(queue, EventQueue)
    assert isinstance(queue, NoticeQueue)
    return queue


def read(cloud: FakeAws, queue: EventQueue, *bodies: str) -> list[tuple[str, NoticeKind, float | None, bool]]:
    """Put messages into the queue; return what they become."""
    cloud.queue = {f"receipt-{number}": body for number, body in enumerate(bodies)}
    return [
        (notice.provider_id.rpartition("/")[2], notice.kind, notice.deadline, notice.withdrawn)
        for notice in queue.receive(5.0)
    ]


def test_without_a_queue_the_provider_tells_nothing() -> None:
    cloud = FakeAws()
    cloud.add_group("web", 1)
    assert cloud.open("0:9:web").notices() is None
    assert cloud.count("receive_message") == 0


def test_each_kind_of_event_becomes_a_notice() -> None:
    cloud = FakeAws()
    queue = a_queue(cloud)
    first, second = cloud.ids("web")
    found = read(
        cloud,
        queue,
        spot(first),
        an_event("EC2 Instance Rebalance Recommendation", {"instance-id": second}),
        an_event("EC2 Instance State-change Notification", {"instance-id": first, "state": "shutting-down"}),
        health(first, second),
    )
    assert found == [
        (first, NoticeKind.SPOT_INTERRUPTION, SPOKEN_S + 120, False),
        (second, NoticeKind.REBALANCE_RECOMMENDATION, None, False),
        (first, NoticeKind.TERMINATION, SPOKEN_S + 120, False),
        (first, NoticeKind.SCHEDULED_MAINTENANCE, SPOKEN_S + 7200, False),
        (second, NoticeKind.SCHEDULED_MAINTENANCE, SPOKEN_S + 7200, False),
    ]


def test_notices_name_the_machine_as_its_node_does() -> None:
    cloud = FakeAws()
    queue = a_queue(cloud)
    instance = cloud.ids("web")[0]
    cloud.queue = {"a": spot(instance)}
    assert [notice.provider_id for notice in queue.receive(0.0)] == [f"aws:///{ZONE}/{instance}"]


def test_a_change_that_is_called_off_is_withdrawn() -> None:
    cloud = FakeAws()
    queue = a_queue(cloud)
    instance = cloud.ids("web")[0]
    (found,) = read(cloud, queue, health(instance, statusCode="closed"))
    assert found[3]


@pytest.mark.parametrize(
    "body",
    [
        "",
        "nonsense",
        "[]",
        "{}",
        '{"source": 1, "detail-type": [], "detail": null}',
        "[" * 100_000,
        "x" * (2 << 20),
        spot("i-of-somebody-else"),
        spot("MINE", source="my.own"),
        an_event("EC2 Spot Instance Interruption Warning", {"instance-id": {"no": "text"}}),
        an_event("EC2 Instance State-change Notification", {"instance-id": "MINE", "state": "running"}),
        an_event("Something Else", {"instance-id": "MINE"}),
        health("MINE", service="RDS"),
        health("MINE", eventTypeCategory="issue"),
        health("MINE", affectedEntities="all"),
    ],
)
def test_messages_that_tell_nothing_are_deleted_and_stop_no_other(body: str) -> None:
    cloud = FakeAws()
    queue = a_queue(cloud)
    instance = cloud.ids("web")[0]
    found = read(cloud, queue, body.replace("MINE", instance), spot(instance))
    assert [machine for machine, *_ in found] == [instance]
    assert set(cloud.queue) == {"receipt-1"}, "only the useful message is left"


def test_a_message_is_deleted_once_all_its_notices_are_acknowledged() -> None:
    cloud = FakeAws()
    queue = a_queue(cloud)
    cloud.queue = {"both": health(*cloud.ids("web"))}
    one, other = queue.receive(0.0)
    queue.acknowledge([one])
    assert set(cloud.queue) == {"both"}
    queue.acknowledge([other])
    assert not cloud.queue


def test_a_notice_that_nobody_acknowledged_comes_again() -> None:
    cloud = FakeAws()
    queue = a_queue(cloud)
    cloud.queue = {"both": health(*cloud.ids("web"))}
    queue.acknowledge(queue.receive(0.0)[:1])
    queue.acknowledge(queue.receive(0.0)[1:])
    assert set(cloud.queue) == {"both"}, "each reading starts anew"
    queue.acknowledge(queue.receive(0.0))
    assert not cloud.queue


def test_an_event_without_a_time_has_no_deadline() -> None:
    cloud = FakeAws()
    queue = a_queue(cloud)
    instance = cloud.ids("web")[0]
    assert read(cloud, queue, spot(instance, time="soon")) == [(instance, NoticeKind.SPOT_INTERRUPTION, None, False)]


def test_what_we_ended_ourselves_is_no_news() -> None:
    cloud = FakeAws()
    cloud.add_group("web", 2)
    provider = cloud.open("0:9:web", queue_url=QUEUE)
    queue, instance = provider.notices(), cloud.ids("web")[0]
    assert queue is not None
    provider.groups()[0].delete([NodeRef("node", provider.groups()[0].instances()[0].provider_id)])
    state = {"instance-id": instance, "state": "shutting-down"}
    assert read(cloud, queue, an_event("EC2 Instance State-change Notification", state)) == []


def test_errors_of_sqs_are_errors_of_the_contract() -> None:
    cloud = FakeAws()
    queue = a_queue(cloud)
    cloud.fail("receive_message", an_error("RequestThrottled"))
    with pytest.raises(Throttled):
        queue.receive(0.0)
