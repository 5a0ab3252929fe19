"""CapacityBuffers: what their specs come to, and the pods that keep their room."""

from typing import Any

import msgspec
import pytest

from autoscaler.clock import Instant
from autoscaler.objects.capacity import CapacityBuffer, ResourceQuota
from autoscaler.objects.pod import SAFE_TO_EVICT
from autoscaler.objects.pod_interner import PodInterner
from autoscaler.reasons import BufferReason
from autoscaler.scaleup.buffer_specs import ResolvedBuffer, resolve
from autoscaler.scaleup.buffers import filled
from autoscaler.snapshot.cluster import Related
from tests.unit.capacity import a_buffer, a_scalable, a_template

NOW = Instant(wall=1_000_000.0, mono=500.0)
WEB: dict[str, Any] = {"scalableRef": {"apiGroup": "apps", "kind": "Deployment", "name": "web"}}
OWN = "capacitybuffer-spare-pod-template"
RELATED = Related(
    pod_templates={"default/worker": a_template(), f"default/{OWN}": a_template(OWN, cpu="1")},
    scalables={"Deployment/default/web": a_scalable(replicas=5)},
)
READY = {"type": "ReadyForProvisioning", "status": "True"}


def resolved_alone(buffer: CapacityBuffer, related: Related = RELATED) -> ResolvedBuffer:
    alone = msgspec.structs.replace(related, capacity_buffers={buffer.key: buffer})
    ((_, resolved),) = resolve(alone, NOW)
    return resolved


def status_of(buffer: CapacityBuffer, related: Related = RELATED) -> dict[str, Any]:
    change = resolved_alone(buffer, related).change
    assert change is not None
    (condition,) = change.conditions
    return {**change.fields, "ready": condition.status, "why": condition.message}


@pytest.mark.parametrize(
    ("spec", "replicas"),
    [
        ({"replicas": 3}, 3),
        ({"limits": {"cpu": "10"}}, 3),
        ({"replicas": 5, "limits": {"cpu": "10", "memory": "1Gi"}}, 3),
        ({"replicas": 2, "limits": {"cpu": "10"}}, 2),
        ({"replicas": 0}, 0),
    ],
)
def test_the_room_is_the_replicas_within_the_limits(spec: dict[str, Any], replicas: int) -> None:
    status = status_of(a_buffer(**spec))
    assert (status["ready"], status["replicas"], status["podTemplateRef"]) == ("True", replicas, {"name": "worker"})
    assert (status["podTemplateGeneration"], status["provisioningStrategy"]) == (1, "buffer.x-k8s.io/active-capacity")


@pytest.mark.parametrize(
    ("spec", "why"),
    [
        ({}, "none of replicas, percentage and limits"),
        ({"replicas": 1, "template": None}, "exactly one of"),
        ({"replicas": 1, **WEB}, "exactly one of"),
        ({"replicas": 1, "template": "other"}, "no PodTemplate other"),
        ({"limits": {"nvidia.com/gpu": "1"}}, "no resource that the pods ask for"),
        ({"limits": {"cpu": "a lot"}}, "limits:"),
        ({"template": None, "percentage": 10, "scalableRef": {"kind": "Deployment", "name": "x"}}, "no Deployment x"),
    ],
)
def test_a_spec_that_cannot_be_followed_says_why(spec: dict[str, Any], why: str) -> None:
    status = status_of(a_buffer(**spec))
    assert status["ready"] == "False"
    assert why in status["why"]
    assert status["replicas"] is None


def test_another_strategy_is_left_to_its_controller() -> None:
    buffer = a_buffer(replicas=1, provisioningStrategy="example.com/warm")
    assert resolve(Related(capacity_buffers={buffer.key: buffer}), NOW) == []


def test_a_controllers_template_is_stored_first() -> None:
    related = Related(scalables=RELATED.scalables)
    resolved = resolved_alone(a_buffer(template=None, percentage=50, **WEB), related)
    assert resolved.change is None
    assert resolved.template is not None
    assert resolved.template["metadata"]["name"] == OWN
    assert resolved.template["metadata"]["ownerReferences"][0]["uid"] == "b/spare"
    assert resolved.template["template"]["spec"]["containers"][0]["image"] == "web"


@pytest.mark.parametrize(
    ("spec", "replicas"), [({"percentage": 50}, 3), ({"percentage": 50, "replicas": 7}, 7), ({"replicas": 2}, 2)]
)
def test_a_share_of_a_controller_is_rounded_up(spec: dict[str, Any], replicas: int) -> None:
    buffer = a_buffer(template=None, **WEB, **spec)
    first = resolved_alone(buffer)
    assert first.template is not None  # the stored one lacks the controller's labels
    stored = a_template(OWN, cpu="1")
    labelled = msgspec.structs.replace(
        stored, template=msgspec.convert(a_scalable().spec.template, type(stored.template))
    )
    related = msgspec.structs.replace(RELATED, pod_templates={f"default/{OWN}": labelled})
    status = status_of(buffer, related)
    assert (status["replicas"], status["podTemplateRef"]) == (replicas, {"name": OWN})


def test_a_status_that_says_it_already_is_left_alone() -> None:
    first = resolved_alone(a_buffer(replicas=3))
    assert first.change is not None
    conditions = [msgspec.to_builtins(condition) for condition in first.change.conditions]
    told = a_buffer(replicas=3, status={**first.change.fields, "conditions": conditions})
    assert resolved_alone(told).change is None


class TestQuotas:
    """What the ResourceQuotas of the namespace leave."""

    def quota(self, hard: dict[str, str], used: dict[str, str] | None = None, **spec: Any) -> ResourceQuota:
        meta = {"name": "q", "namespace": "default"}
        return msgspec.convert(
            {"metadata": meta, "spec": spec, "status": {"hard": hard, "used": used or {}}}, ResourceQuota
        )

    def told(self, quota: ResourceQuota, *buffers: CapacityBuffer) -> list[tuple[Any, str | None]]:
        """Return the pods of each buffer, and whether quotas limit it."""
        related = msgspec.structs.replace(
            RELATED, resource_quotas={quota.key: quota}, capacity_buffers={buffer.key: buffer for buffer in buffers}
        )
        changes = [resolved.change for _, resolved in resolve(related, NOW)]
        assert None not in changes
        return [
            (
                change.fields["replicas"],
                next((c.status for c in change.conditions if c.type == "LimitedByQuotas"), None),
            )
            for change in changes
            if change is not None
        ]

    @pytest.mark.parametrize(
        ("hard", "used", "expected"),
        [
            ({"requests.cpu": "12"}, {"requests.cpu": "5"}, (2, "True")),
            ({"cpu": "12"}, {}, (4, "True")),
            ({"pods": "3"}, {"pods": "2"}, (1, "True")),
            ({"count/pods": "9"}, {}, (5, None)),
            ({"requests.memory": "1Gi", "services": "0"}, {}, (5, None)),
            ({"requests.cpu": "1"}, {"requests.cpu": "4"}, (0, "True")),
        ],
    )
    def test_cap_a_buffer(self, hard: dict[str, str], used: dict[str, str], expected: tuple[int, str | None]) -> None:
        assert self.told(self.quota(hard, used), a_buffer(replicas=5)) == [expected]

    def test_are_shared_by_the_buffers_of_the_namespace(self) -> None:
        quota = self.quota({"requests.cpu": "12"})
        assert self.told(quota, a_buffer("a", replicas=3), a_buffer("b", replicas=3)) == [(3, None), (1, "True")]

    def test_with_scopes_are_passed_over(self) -> None:
        assert self.told(self.quota({"pods": "0"}, scopes=["BestEffort"]), a_buffer(replicas=2)) == [(2, None)]

    def test_that_limit_no_more_say_so(self) -> None:
        limited = a_buffer(replicas=2, status={"conditions": [{"type": "LimitedByQuotas", "status": "True"}]})
        assert self.told(self.quota({"pods": "9"}), limited) == [(2, "False")]


def test_pods_keep_the_room_and_may_always_go() -> None:
    status = {"replicas": 2, "podTemplateRef": {"name": "worker"}, "conditions": [READY]}
    buffer = a_buffer(status={**status, "provisioningStrategy": "buffer.x-k8s.io/active-capacity"})
    found = filled(buffer, RELATED.pod_templates, PodInterner(), NOW)
    assert [(pod.key, pod.uid) for pod in found.pods] == [
        ("default/capacity-buffer-spare-1", "b/spare-1"),
        ("default/capacity-buffer-spare-2", "b/spare-2"),
    ]
    assert found.pods[0].cls.annotations == {"podType": "capacityBufferFakePod", SAFE_TO_EVICT: "true"}
    assert found.change is not None
    assert [(condition.type, condition.status) for condition in found.change.conditions] == [("Provisioning", "True")]


@pytest.mark.parametrize(
    ("status", "reason"),
    [
        ({}, BufferReason.NOT_READY),
        ({"replicas": 1, "podTemplateRef": {"name": "worker"}}, BufferReason.NOT_READY),
        ({"replicas": 0, "podTemplateRef": {"name": "worker"}, "conditions": [READY]}, BufferReason.EMPTY),
        ({"replicas": 1, "podTemplateRef": {"name": "gone"}, "conditions": [READY]}, BufferReason.NO_TEMPLATE),
    ],
)
def test_a_status_that_cannot_be_filled_says_why(status: dict[str, Any], reason: BufferReason) -> None:
    buffer = a_buffer(status={**status, "provisioningStrategy": "buffer.x-k8s.io/active-capacity"})
    found = filled(buffer, RELATED.pod_templates, PodInterner(), NOW)
    assert found.pods == ()
    assert found.change is not None
    assert [(condition.status, condition.reason) for condition in found.change.conditions] == [("False", reason)]


def test_the_pods_of_another_strategy_are_not_ours() -> None:
    status = {"replicas": 1, "podTemplateRef": {"name": "worker"}, "conditions": [READY], "provisioningStrategy": "x"}
    found = filled(a_buffer(status=status), RELATED.pod_templates, PodInterner(), NOW)
    assert (found.pods, found.change) == ((), None)
