from collections.abc import Callable

import pytest

from autoscaler.sandbox.apiserver.deletion import DeleteOptions, Propagation
from autoscaler.sandbox.apiserver.errors import ApiError
from autoscaler.sandbox.apiserver.patch import PatchType
from autoscaler.sandbox.apiserver.storage import Storage
from tests.manifests import a_bare_pod
from tests.unit.sandbox.apiserver.apiserver_objects import (
    Json,
    a_config,
    a_definition,
    a_storage,
    names,
    run_on,
)
from tests.worlds import a_deployment


def refused(call: Callable[[], object]) -> tuple[int, str]:
    with pytest.raises(ApiError) as caught:
        call()
    return caught.value.code, caught.value.reason


def test_a_new_cluster_has_the_usual_namespaces_and_priorities() -> None:
    storage, _ = a_storage()
    assert names(storage.list("namespaces")) == ["default", "kube-node-lease", "kube-public", "kube-system"]
    assert storage.get("priorityclasses", "system-node-critical")["value"] == 2_000_001_000


def test_a_created_pod_has_identity_and_defaults() -> None:
    storage, _ = a_storage()
    pod = storage.create("pods", a_bare_pod() | {"status": {"phase": "Running"}})
    assert pod["metadata"]["creationTimestamp"] == "2023-11-14T22:13:20Z"
    assert pod["metadata"]["namespace"] == "default"
    assert pod["status"] == {"phase": "Pending", "qosClass": "BestEffort"}
    spec = pod["spec"]
    assert (spec["restartPolicy"], spec["schedulerName"], spec["priority"]) == ("Always", "default-scheduler", 0)
    assert [toleration["tolerationSeconds"] for toleration in spec["tolerations"]] == [300, 300]
    assert spec["containers"][0]["imagePullPolicy"] == "IfNotPresent"
    assert storage.get("pods", "p") == pod


def test_what_callers_hold_is_not_what_is_stored() -> None:
    storage, _ = a_storage()
    given = a_config(a="1")
    created = storage.create("configmaps", given)
    created["data"]["a"] = given["data"]["a"] = "changed"
    assert storage.get("configmaps", "c")["data"] == {"a": "1"}


def test_generated_names_and_uids_repeat_with_the_seed() -> None:
    def made(seed: int) -> list[tuple[str, str]]:
        storage, _ = a_storage(seed=seed)
        pods = [storage.create("pods", {**a_bare_pod(), "metadata": {"generateName": "web-"}}) for _ in range(3)]
        return [(pod["metadata"]["name"], pod["metadata"]["uid"]) for pod in pods]

    assert made(1) == made(1) != made(2)
    assert len(set(made(1))) == 3


@pytest.mark.parametrize(
    ("resource", "obj", "expected"),
    [
        pytest.param("pods", {"metadata": {}, "spec": {}}, (422, "Invalid"), id="a name is required"),
        pytest.param("pods", a_bare_pod("Not-DNS"), (422, "Invalid"), id="names are DNS names"),
        pytest.param("pods", a_bare_pod(containers=[]), (422, "Invalid"), id="containers are required"),
        pytest.param("pods", a_bare_pod(labels={"a": "b c"}), (422, "Invalid"), id="label values have a syntax"),
        pytest.param("pods", a_bare_pod(priorityClassName="x"), (403, "Forbidden"), id="the priority class must exist"),
        pytest.param("pods", a_bare_pod() | {"kind": "Node"}, (400, "BadRequest"), id="the kind must fit"),
        pytest.param(
            "configmaps",
            {"metadata": {"name": "c", "namespace": "nowhere"}},
            (404, "NotFound"),
            id="the namespace must exist",
        ),
        pytest.param("namespaces", {"metadata": {"name": "default"}}, (409, "AlreadyExists"), id="names are unique"),
        pytest.param(
            "deployments",
            {"metadata": {"name": "d"}, "spec": {"selector": {"matchLabels": {"a": "b"}}, "template": {"spec": {}}}},
            (422, "Invalid"),
            id="a selector must match its template",
        ),
        pytest.param(
            "nodes",
            {"metadata": {"name": "n"}, "spec": {"taints": [{"key": "a", "effect": "Maybe"}]}},
            (422, "Invalid"),
            id="taint effects are known",
        ),
        pytest.param(
            "priorityclasses", {"metadata": {"name": "x"}, "value": 2_000_000_000}, (422, "Invalid"), id="too important"
        ),
        pytest.param("unicorns", {}, (404, "NotFound"), id="the resource must be served"),
    ],
)
def test_create_refuses(resource: str, obj: Json, expected: tuple[int, str]) -> None:
    storage, _ = a_storage()
    assert refused(lambda: storage.create(resource, obj)) == expected


def test_every_problem_is_a_cause() -> None:
    storage, _ = a_storage()
    with pytest.raises(ApiError) as caught:
        storage.create("pods", a_bare_pod("UPPER", containers=[{"name": "c"}, {"name": "c", "image": "x"}]))
    causes = caught.value.details["causes"]
    assert [(cause["reason"], cause["field"]) for cause in causes] == [
        ("FieldValueInvalid", "metadata.name"),
        ("FieldValueRequired", "spec.containers[0].image"),
        ("FieldValueDuplicate", "spec.containers[1].name"),
    ]


def test_a_stale_update_conflicts_and_a_fresh_one_counts_generations() -> None:
    storage, _ = a_storage()
    first = storage.create("deployments", a_deployment("web"))
    second = storage.update("deployments", first | {"spec": first["spec"] | {"replicas": 2}})
    assert second["metadata"]["generation"] == 2
    assert refused(lambda: storage.update("deployments", first)) == (409, "Conflict")
    patch = {"metadata": {"resourceVersion": first["metadata"]["resourceVersion"]}, "spec": {"replicas": 3}}
    assert refused(lambda: storage.patch("deployments", "web", patch)) == (409, "Conflict")


def test_an_update_that_changes_nothing_keeps_the_resource_version() -> None:
    storage, _ = a_storage()
    created = storage.create("configmaps", a_config(a="1"))
    assert storage.update("configmaps", created) == created
    assert storage.revision == int(created["metadata"]["resourceVersion"])


def test_status_and_spec_have_their_own_doors() -> None:
    storage, _ = a_storage()
    node = storage.create("nodes", {"metadata": {"name": "n"}, "status": {"capacity": {"cpu": "1"}}})
    assert node["status"] == {"capacity": {"cpu": "1"}}
    both = {"spec": {"unschedulable": True}, "status": {"capacity": {"cpu": "9"}}}
    assert storage.patch("nodes", "n", both)["status"] == {"capacity": {"cpu": "1"}}
    changed = storage.patch("nodes", "n", {**both, "spec": {"unschedulable": False}}, subresource="status")
    assert changed["status"] == {"capacity": {"cpu": "9"}}
    assert changed["spec"] == {"unschedulable": True}


def test_a_pod_spec_is_immutable_but_for_a_few_fields() -> None:
    storage, _ = a_storage()
    storage.create("pods", a_bare_pod())
    assert refused(lambda: storage.patch("pods", "p", {"spec": {"nodeName": "n"}})) == (422, "Invalid")
    patch = {"spec": {"containers": [{"name": "main", "image": "nginx:2"}]}}
    changed = storage.patch("pods", "p", patch, patch_type=PatchType.STRATEGIC)
    assert changed["spec"]["containers"][0]["image"] == "nginx:2"


def test_dry_runs_store_nothing() -> None:
    storage, _ = a_storage()
    storage.create("configmaps", a_config(a="1"))
    before = storage.revision
    storage.create("configmaps", a_config("other"), dry_run=True)
    assert storage.patch("configmaps", "c", {"data": {"a": "2"}}, dry_run=True)["data"] == {"a": "2"}
    storage.delete("configmaps", "c", dry_run=True)
    assert (storage.revision, names(storage.list("configmaps"))) == (before, ["c"])


def test_binding_assigns_once() -> None:
    storage, _ = a_storage()
    storage.create("pods", a_bare_pod())
    storage.bind("p", "n1")
    pod = storage.get("pods", "p")
    assert pod["spec"]["nodeName"] == "n1"
    assert [(condition["type"], condition["status"]) for condition in pod["status"]["conditions"]] == [
        ("PodScheduled", "True")
    ]
    assert refused(lambda: storage.bind("p", "n2")) == (409, "Conflict")


def test_scale_changes_replicas_and_tells_the_selector() -> None:
    storage, _ = a_storage()
    storage.create("deployments", a_deployment("web"))
    scale = storage.scale("deployments", "web", 7)
    assert (scale["spec"]["replicas"], scale["status"]["selector"]) == (7, "app=web")
    assert storage.get("deployments", "web")["spec"]["replicas"] == 7
    assert refused(lambda: storage.scale("deployments", "web", -1)) == (422, "Invalid")


class TestDeletion:
    def test_a_pod_on_a_node_stays_until_the_kubelet_lets_it_go(self) -> None:
        storage, clock = a_storage()
        storage.create("pods", a_bare_pod())
        run_on(storage, "p", "n")
        clock.advance(10)
        assert not storage.delete("pods", "p").gone
        metadata = storage.get("pods", "p")["metadata"]
        assert metadata["deletionTimestamp"] == "2023-11-14T22:14:00Z"
        assert metadata["deletionGracePeriodSeconds"] == 30
        assert storage.delete("pods", "p", grace_s=0).gone
        assert storage.list("pods") == []

    @pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
    def test_a_finished_pod_goes_at_once(self, phase: str) -> None:
        storage, _ = a_storage()
        storage.create("pods", a_bare_pod())
        run_on(storage, "p", "n", phase)
        assert storage.delete("pods", "p").gone

    def test_an_unbound_pod_goes_at_once(self) -> None:
        storage, _ = a_storage()
        storage.create("pods", a_bare_pod())
        assert storage.delete("pods", "p", grace_s=60).gone

    def test_finalizers_hold_an_object(self) -> None:
        storage, _ = a_storage()
        storage.create("configmaps", {"metadata": {"name": "c", "finalizers": ["example.com/hold"]}})
        assert not storage.delete("configmaps", "c").gone
        storage.patch("configmaps", "c", {"metadata": {"finalizers": None}})
        assert storage.list("configmaps") == []

    def test_preconditions_must_hold(self) -> None:
        storage, _ = a_storage()
        storage.create("configmaps", a_config())
        wrong = DeleteOptions(uid="another")
        assert refused(lambda: storage.delete("configmaps", "c", options=wrong)) == (409, "Conflict")
        stale = DeleteOptions(resource_version="1")
        assert refused(lambda: storage.delete("configmaps", "c", options=stale)) == (409, "Conflict")

    @pytest.mark.parametrize(
        ("propagation", "left"),
        [
            pytest.param(Propagation.BACKGROUND, [], id="dependents go after their owner"),
            pytest.param(Propagation.FOREGROUND, [], id="dependents go before their owner"),
            pytest.param(Propagation.ORPHAN, ["child"], id="orphans stay"),
        ],
    )
    def test_dependents(self, propagation: Propagation, left: list[str]) -> None:
        storage, _ = self._family()
        storage.delete("deployments", "web", options=DeleteOptions(propagation=propagation))
        assert storage.list("deployments") == []
        assert names(storage.list("pods")) == left
        assert all("ownerReferences" not in pod["metadata"] for pod in storage.list("pods"))

    def test_a_foreground_deletion_waits_for_a_terminating_pod(self) -> None:
        storage, _ = self._family()
        run_on(storage, "child", "n")
        options = DeleteOptions(propagation=Propagation.FOREGROUND)
        assert not storage.delete("deployments", "web", options=options).gone
        storage.delete("pods", "child", grace_s=0)
        assert storage.list("deployments") == []

    def _family(self) -> tuple[Storage, str]:
        storage, _ = a_storage()
        owner = storage.create("deployments", a_deployment("web"))
        uid = owner["metadata"]["uid"]
        child = a_bare_pod("child")
        reference = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web", "uid": uid}
        child["metadata"]["ownerReferences"] = [reference]
        storage.create("pods", child)
        return storage, uid

    def test_a_namespace_takes_its_content_along_and_waits_for_it(self) -> None:
        storage, _ = a_storage()
        storage.create("namespaces", {"metadata": {"name": "team"}})
        storage.create("configmaps", a_config(), namespace="team")
        storage.create("pods", a_bare_pod(), namespace="team")
        storage.bind("p", "n", namespace="team")
        assert not storage.delete("namespaces", "team").gone
        assert storage.list("configmaps", namespace="team") == []
        assert storage.get("namespaces", "team")["status"]["phase"] == "Terminating"
        new = a_config("late")
        assert refused(lambda: storage.create("configmaps", new, namespace="team")) == (403, "Forbidden")
        storage.delete("pods", "p", namespace="team", grace_s=0)
        assert "team" not in names(storage.list("namespaces"))

    def test_a_namespace_with_a_finalizer_waits_for_it(self) -> None:
        storage, _ = a_storage()
        storage.create("namespaces", {"metadata": {"name": "team", "finalizers": ["example.com/hold"]}})
        assert not storage.delete("namespaces", "team").gone
        storage.patch("namespaces", "team", {"metadata": {"finalizers": None}})
        assert "team" not in names(storage.list("namespaces"))

    def test_the_first_namespaces_are_permanent(self) -> None:
        storage, _ = a_storage()
        assert refused(lambda: storage.delete("namespaces", "kube-system")) == (403, "Forbidden")


def test_a_definition_adds_a_kind_until_it_goes() -> None:
    storage, _ = a_storage()
    assert refused(lambda: storage.list("widgets")) == (404, "NotFound")
    definition = storage.create("customresourcedefinitions", a_definition(subresources={"status": {}}))
    assert {condition["type"] for condition in definition["status"]["conditions"]} == {"Established", "NamesAccepted"}
    widget = storage.create("widgets", {"metadata": {"name": "w"}, "spec": {"size": 1}, "status": {"size": 9}})
    assert (widget["apiVersion"], widget["metadata"]["generation"], "status" in widget) == ("example.com/v1", 1, False)
    storage.delete("customresourcedefinitions", "widgets.example.com")
    assert refused(lambda: storage.list("widgets")) == (404, "NotFound")


def test_a_definition_may_exchange_its_versions() -> None:
    storage, _ = a_storage()
    storage.create("customresourcedefinitions", a_definition())
    storage.create("widgets", {"metadata": {"name": "w"}, "spec": {"size": 1}})
    versions = a_definition(name="v2")["spec"]["versions"]
    storage.patch("customresourcedefinitions", "widgets.example.com", {"spec": {"versions": versions}})
    assert storage.get("widgets", "w")["apiVersion"] == "example.com/v2"
    assert storage.registry.served("example.com", "v1", "widgets") is None


def test_server_side_apply_creates_merges_and_drops_what_its_manager_dropped() -> None:
    storage, _ = a_storage()
    _, created = storage.apply("configmaps", a_config(a="1", b="2"), manager="me")
    storage.patch("configmaps", "c", {"data": {"theirs": "3"}})
    merged, again = storage.apply("configmaps", a_config(a="4"), manager="me")
    assert (created, again, merged["data"]) == (True, False, {"a": "4", "theirs": "3"})


def test_loaded_objects_keep_status_and_are_found_by_node() -> None:
    storage, _ = a_storage()
    pods = [a_bare_pod(f"p{i}", nodeName=f"n{i % 2}") | {"status": {"phase": "Running"}} for i in range(4)]
    assert storage.load("pods", pods) == 4
    assert names(storage.list("pods", field_selector="spec.nodeName=n1,status.phase=Running")) == ["p1", "p3"]
    storage.delete("pods", "p1", grace_s=0)
    assert names(storage.list("pods", field_selector="spec.nodeName=n1")) == ["p3"]


class TestListeners:
    def test_they_hear_changes_with_old_and_new_state(self) -> None:
        storage, _ = a_storage()
        heard: list[tuple[str, object, object]] = []

        def listener(change: object) -> None:
            before, now = change.previous(), change.object()  # type: ignore[attr-defined]
            heard.append((change.type, before and before["data"], now["data"]))  # type: ignore[attr-defined]

        stop = storage.listen("configmaps", listener)
        storage.create("configmaps", a_config(a="1"))
        storage.patch("configmaps", "c", {"data": {"a": "2"}})
        storage.delete("configmaps", "c")
        stop()
        storage.create("configmaps", a_config(a="3"))
        assert heard == [
            ("ADDED", None, {"a": "1"}),
            ("MODIFIED", {"a": "1"}, {"a": "2"}),
            ("DELETED", {"a": "2"}, {"a": "2"}),
        ]

    def test_what_a_listener_writes_is_told_after_the_change_at_hand(self) -> None:
        storage, _ = a_storage()
        heard: list[str] = []

        def writer(change: object) -> None:
            if change.key[1] == "first":  # type: ignore[attr-defined]
                storage.create("configmaps", a_config("second"))

        storage.listen("configmaps", writer)
        storage.listen("configmaps", lambda change: heard.append(change.key[1]))
        storage.create("configmaps", a_config("first"))
        assert heard == ["first", "second"]
