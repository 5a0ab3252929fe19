from typing import Any

import pytest

from autoscaler.sandbox.apiserver.deletion import DeleteOptions
from autoscaler.sandbox.apiserver.errors import ApiError
from autoscaler.sandbox.apiserver.storage import Storage
from tests.manifests import a_bare_pod
from tests.unit.sandbox.apiserver.apiserver_objects import Json, a_storage, run_on

BUDGET = "poddisruptionbudgets"


def a_guarded_pod(allowed: int, *, phase: str = "Running", ready: bool = True, **spec: Any) -> Storage:
    storage, _ = a_storage()
    storage.create("pods", a_bare_pod(labels={"app": "web"}))
    run_on(storage, "p", "n", phase, ready=ready)
    add_budget(storage, "web", {"disruptionsAllowed": allowed, "desiredHealthy": 1, "currentHealthy": 1}, **spec)
    return storage


def add_budget(storage: Storage, name: str, status: Json, **spec: Any) -> None:
    selector = {"matchLabels": {"app": "web"}}
    storage.create(BUDGET, {"metadata": {"name": name}, "spec": {"minAvailable": 1, "selector": selector, **spec}})
    storage.patch(BUDGET, name, {"status": {"observedGeneration": 1, **status}}, subresource="status")


def test_an_allowed_eviction_spends_budget_and_terminates_the_pod() -> None:
    storage = a_guarded_pod(2)
    storage.evict("p")
    status = storage.get(BUDGET, "web")["status"]
    assert (status["disruptionsAllowed"], list(status["disruptedPods"])) == (1, ["p"])
    pod = storage.get("pods", "p")
    assert pod["metadata"]["deletionGracePeriodSeconds"] == 30
    assert pod["status"]["conditions"][-1]["type"] == "DisruptionTarget"


def test_a_spent_budget_blocks_with_a_cause() -> None:
    storage = a_guarded_pod(0)
    with pytest.raises(ApiError) as caught:
        storage.evict("p")
    assert (caught.value.code, caught.value.reason) == (429, "TooManyRequests")
    assert caught.value.details["causes"][0]["reason"] == "DisruptionBudget"
    assert "deletionTimestamp" not in storage.get("pods", "p")["metadata"]


def test_a_budget_that_its_controller_has_not_seen_blocks_for_a_while() -> None:
    storage = a_guarded_pod(1)
    storage.patch(BUDGET, "web", {"spec": {"minAvailable": 2}})
    with pytest.raises(ApiError) as caught:
        storage.evict("p")
    assert (caught.value.code, caught.value.retry_after_s) == (429, 10)


def test_two_budgets_for_one_pod_are_an_error() -> None:
    storage = a_guarded_pod(1)
    add_budget(storage, "other", {"disruptionsAllowed": 1})
    with pytest.raises(ApiError) as caught:
        storage.evict("p")
    assert caught.value.code == 500


@pytest.mark.parametrize("phase", ["Pending", "Succeeded", "Failed"])
def test_pods_that_do_not_serve_need_no_budget(phase: str) -> None:
    storage = a_guarded_pod(0, phase=phase)
    storage.evict("p")
    assert storage.get(BUDGET, "web")["status"]["disruptionsAllowed"] == 0


@pytest.mark.parametrize(
    ("ready", "spec", "evicted"),
    [
        pytest.param(False, {}, True, id="an unready pod goes while the others are healthy"),
        pytest.param(False, {"unhealthyPodEvictionPolicy": "AlwaysAllow"}, True, id="unready pods may always go"),
        pytest.param(True, {"unhealthyPodEvictionPolicy": "AlwaysAllow"}, False, id="a ready pod never goes free"),
    ],
)
def test_unready_pods(ready: bool, spec: Json, evicted: bool) -> None:
    storage = a_guarded_pod(0, ready=ready, **spec)
    if evicted:
        storage.evict("p")
    else:
        with pytest.raises(ApiError):
            storage.evict("p")
    assert ("deletionTimestamp" in storage.get("pods", "p")["metadata"]) is evicted


def test_a_dry_run_spends_nothing() -> None:
    storage = a_guarded_pod(1)
    before = storage.revision
    storage.evict("p", dry_run=True)
    assert storage.revision == before


def test_preconditions_are_checked_before_budget_is_spent() -> None:
    storage = a_guarded_pod(1)
    with pytest.raises(ApiError) as caught:
        storage.evict("p", options=DeleteOptions(uid="another"))
    assert caught.value.code == 409
    assert storage.get(BUDGET, "web")["status"]["disruptionsAllowed"] == 1
    storage.evict("p", options=DeleteOptions(resource_version=storage.get("pods", "p")["metadata"]["resourceVersion"]))
    assert "deletionTimestamp" in storage.get("pods", "p")["metadata"]


def test_no_budget_guards_a_pod_without_labels() -> None:
    storage, _ = a_storage()
    storage.create("pods", a_bare_pod(labels={}))
    run_on(storage, "p", "n")
    add_budget(storage, "all", {"disruptionsAllowed": 0, "desiredHealthy": 1}, selector={})
    storage.evict("p")
    assert "deletionTimestamp" in storage.get("pods", "p")["metadata"]
