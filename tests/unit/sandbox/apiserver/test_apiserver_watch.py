import threading

import pytest

from autoscaler.sandbox.apiserver.errors import ApiError
from autoscaler.sandbox.apiserver.journal import Subscription
from tests.manifests import a_bare_pod
from tests.unit.sandbox.apiserver.apiserver_objects import a_config, a_storage


def seen(subscription: Subscription) -> list[tuple[str, str]]:
    return [(event.type, event.object()["metadata"]["name"]) for event in subscription.poll()]


def test_a_watch_from_the_start_reports_what_exists_and_then_what_changes() -> None:
    storage, _ = a_storage()
    storage.create("configmaps", a_config("a"))
    watch = storage.watch("configmaps")
    storage.create("configmaps", a_config("b"))
    assert seen(watch) == [("ADDED", "a")]
    storage.delete("configmaps", "a")
    assert seen(watch) == [("ADDED", "b"), ("DELETED", "a")]
    assert seen(watch) == []


def test_a_watch_since_a_version_replays_what_came_after() -> None:
    storage, _ = a_storage()
    first = storage.create("configmaps", a_config("a"))
    storage.patch("configmaps", "a", {"data": {"x": "1"}})
    watch = storage.watch("configmaps", int(first["metadata"]["resourceVersion"]))
    assert seen(watch) == [("MODIFIED", "a")]
    assert watch.revision == storage.revision


def test_objects_enter_and_leave_a_selection() -> None:
    storage, _ = a_storage()
    storage.create("pods", a_bare_pod("p", labels={"app": "web"}))
    watch = storage.watch("pods", storage.revision, label_selector="app=web", field_selector="spec.nodeName!=")
    storage.bind("p", "n")
    storage.patch("pods", "p", {"metadata": {"labels": {"app": "db"}}})
    storage.patch("pods", "p", {"metadata": {"labels": {"app": "cache"}}})
    added, left = watch.poll()
    assert (added.type, left.type) == ("ADDED", "DELETED")
    assert left.object()["metadata"]["labels"] == {"app": "web"}
    assert int(left.object()["metadata"]["resourceVersion"]) == left.change.revision


def test_watchers_share_the_encoded_line() -> None:
    storage, _ = a_storage()
    one, two = storage.watch("configmaps", storage.revision), storage.watch("configmaps", storage.revision)
    storage.create("configmaps", a_config("a"))
    kind = storage.kind("configmaps")
    assert one.poll()[0].line(kind) is two.poll()[0].line(kind)


@pytest.mark.parametrize("how", ["compacted", "outrun"])
def test_a_watch_behind_history_is_expired(how: str) -> None:
    storage, _ = a_storage(history_limit=5)
    start = storage.revision
    watch = storage.watch("configmaps", start)
    for i in range(2 if how == "compacted" else 20):
        storage.create("configmaps", a_config(f"c{i}"))
    if how == "compacted":
        storage.compact("configmaps")
    for call in (watch.poll, lambda: storage.watch("configmaps", start)):
        with pytest.raises(ApiError) as caught:
            call()
        assert (caught.value.code, caught.value.reason) == (410, "Expired")
    assert len(seen(storage.watch("configmaps"))) == (2 if how == "compacted" else 20)


def test_a_watch_from_the_future_is_refused() -> None:
    storage, _ = a_storage()
    with pytest.raises(ApiError, match="Too large resource version"):
        storage.watch("pods", storage.revision + 1)


def test_a_waiting_watch_wakes_for_a_change_and_for_close() -> None:
    storage, _ = a_storage()
    watch = storage.watch("configmaps", storage.revision)
    got: list[str] = []

    def follow() -> None:
        while not watch.closed:
            got.extend(event.type for event in watch.wait(30))

    thread = threading.Thread(target=follow)
    thread.start()
    storage.create("configmaps", a_config())
    watch.close()
    thread.join(10)
    assert not thread.is_alive()
    assert len(got) <= 1


def test_writers_that_retry_conflicts_lose_no_update_and_watchers_see_each_once() -> None:
    storage, _ = a_storage()
    storage.create("configmaps", a_config(n="0"))
    watch = storage.watch("configmaps", storage.revision)
    refusals: set[int] = set()

    def count_up(times: int) -> None:
        while times:
            obj = storage.get("configmaps", "c")
            obj["data"]["n"] = str(int(obj["data"]["n"]) + 1)
            try:
                storage.update("configmaps", obj)
            except ApiError as error:
                refusals.add(error.code)
            else:
                times -= 1

    threads = [threading.Thread(target=count_up, args=(50,)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert [event.object()["data"]["n"] for event in watch.poll()] == [str(n) for n in range(1, 201)]
    assert refusals <= {409}


def test_pages_show_one_moment_whatever_is_written_between_them() -> None:
    storage, _ = a_storage()
    for i in range(6):
        storage.create("configmaps", a_config(f"c{i}", v="old"))
    kind = storage.kind("configmaps")
    everything = storage.select(kind, None)
    first = storage.page(kind, everything, limit=2)
    assert (first.last, first.remaining) == (("default", "c1"), 4)
    storage.delete("configmaps", "c3")
    storage.patch("configmaps", "c4", {"data": {"v": "new"}})
    storage.create("configmaps", a_config("c2a"))
    rest = storage.page(kind, everything, after=first.last, revision=first.revision)
    objects = [record.decoded(kind) for record in rest.records]
    assert [(obj["metadata"]["name"], obj["data"]["v"]) for obj in objects] == [
        ("c2", "old"),
        ("c3", "old"),
        ("c4", "old"),
        ("c5", "old"),
    ]
    storage.compact()
    with pytest.raises(ApiError) as caught:
        storage.page(kind, everything, after=first.last, revision=first.revision)
    assert caught.value.code == 410


def test_pages_stay_within_their_namespace() -> None:
    storage, _ = a_storage()
    for namespace in ("default", "kube-public"):
        for i in range(3):
            storage.create("configmaps", a_config(f"c{i}"), namespace=namespace)
    kind = storage.kind("configmaps")
    first = storage.page(kind, storage.select(kind, "default"), limit=2)
    assert first.remaining == 1
    last = storage.page(kind, storage.select(kind, "default"), limit=2, after=first.last)
    assert ([record.key for record in last.records], last.last) == ([("default", "c2")], None)
