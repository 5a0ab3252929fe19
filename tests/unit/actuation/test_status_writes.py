"""Statuses of custom objects: laid over what is there."""

from autoscaler.actuation.status_writes import ClusterStatuses, WriteOutcome
from autoscaler.clock import Instant, VirtualClock
from autoscaler.kube.paths import ObjectRef
from autoscaler.reasons import PauseScope
from autoscaler.sandbox.capacity_objects import put_objects
from autoscaler.sandbox.memory_cluster import MemoryCluster, MemoryWrites
from autoscaler.scaledown.pause import Pause
from autoscaler.scaleup.provisioning import accepted, found
from autoscaler.scaleup.status_change import change_of
from tests.unit.capacity import a_buffer, a_condition, a_request

NOW = Instant(wall=1_700_000_000.0, mono=1.0)
REQUEST = ObjectRef("autoscaling.x-k8s.io/v1", "ProvisioningRequest", "job", "default")


def no_listener(old: object, new: object) -> None:
    pass


def a_cluster() -> MemoryWrites:
    return MemoryWrites(MemoryCluster(no_listener, no_listener), VirtualClock(wall=NOW.wall))


def test_conditions_of_others_stay_and_those_of_its_type_are_replaced() -> None:
    writes = a_cluster()
    request = a_request(conditions=[a_condition("QuotaReserved"), a_condition("Provisioned", "False")])
    put_objects(writes, request)
    statuses = ClusterStatuses(writes)
    statuses.put(accepted(request, NOW))
    assert statuses.put(found(request, NOW)).outcome is WriteOutcome.DONE
    conditions = writes.objects[REQUEST]["status"]["conditions"]
    assert [(condition["type"], condition["status"]) for condition in conditions] == [
        ("QuotaReserved", "True"),
        ("Provisioned", "True"),
        ("Accepted", "True"),
    ]
    assert {"reason", "message", "lastTransitionTime"} <= conditions[0].keys()


def test_fields_are_set_and_removed() -> None:
    writes = a_cluster()
    buffer = a_buffer(status={"replicas": 2, "provisioningStrategy": "x"})
    put_objects(writes, buffer)
    ClusterStatuses(writes).put(change_of(buffer, fields={"replicas": None, "podTemplateGeneration": 3}))
    ref = ObjectRef("autoscaling.x-k8s.io/v1beta1", "CapacityBuffer", "spare", "default")
    assert writes.objects[ref]["status"] == {
        "provisioningStrategy": "x",
        "podTemplateGeneration": 3,
        "conditions": [],
    }


def test_what_is_there_already_is_not_written_again() -> None:
    writes = a_cluster()
    request = a_request()
    put_objects(writes, request)
    statuses = ClusterStatuses(writes)
    statuses.put(found(request, NOW))
    version = writes.objects[REQUEST]["metadata"]["resourceVersion"]
    assert statuses.put(found(request, NOW)).outcome is WriteOutcome.DONE
    assert writes.objects[REQUEST]["metadata"]["resourceVersion"] == version


def test_an_object_that_is_gone_or_another_is_told_apart_from_trouble() -> None:
    writes = a_cluster()
    request = a_request()
    assert ClusterStatuses(writes).put(found(request, NOW)).outcome is WriteOutcome.GONE
    assert ClusterStatuses(writes).delete(request).outcome is WriteOutcome.GONE


def test_a_pause_is_written_beside_others_and_takes_the_place_of_its_namesake() -> None:
    writes = a_cluster()
    statuses = ClusterStatuses(writes)
    config_map = ObjectRef("v1", "ConfigMap", "pauses", "kube-system")
    for pause in (Pause(name="freeze"), Pause(name="drift", scope=PauseScope.DRIFT), Pause(name="freeze", by="jane")):
        assert statuses.pause("kube-system", "pauses", pause).outcome is WriteOutcome.DONE
    assert writes.objects[config_map]["data"] == {
        "freeze": '{"scope":"scale-down","by":"jane"}',
        "drift": '{"scope":"drift"}',
    }
    writes.put_config_map("kube-system", "pauses", {"drift": None})
    assert set(writes.objects[config_map]["data"]) == {"freeze"}
