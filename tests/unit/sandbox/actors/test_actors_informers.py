import pytest

from autoscaler.clock import VirtualClock
from autoscaler.objects.meta import JsonObject
from autoscaler.sandbox.actors.informers import SharedInformers
from autoscaler.sandbox.actors.wire import node_of
from autoscaler.sandbox.apiserver.storage import Storage


def a_config(name: str, text: str = "") -> JsonObject:
    return {"metadata": {"name": name}, "data": {"text": text}}


def an_informer() -> tuple[Storage, SharedInformers, list[str]]:
    storage = Storage(VirtualClock())
    informers = SharedInformers(storage)
    heard: list[str] = []

    def told(old: JsonObject | None, new: JsonObject | None) -> None:
        words = {(False, True): "added", (True, True): "changed", (True, False): "removed"}
        name = (new or old or {})["metadata"]["name"]
        heard.append(f"{name} {words[old is not None, new is not None]}")

    informers.informer("configmaps").subscribe(told)
    return storage, informers, heard


def test_a_mirror_moves_only_when_polled() -> None:
    storage, informers, heard = an_informer()
    storage.create("configmaps", a_config("a"))
    assert not informers.informer("configmaps").objects
    informers.poll()
    assert list(informers.informer("configmaps").objects) == [("default", "a")]
    assert heard == ["a added"]


def test_what_exists_before_the_first_poll_is_reported_once() -> None:
    storage = Storage(VirtualClock())
    storage.create("configmaps", a_config("a"))
    informers = SharedInformers(storage)
    informer = informers.informer("configmaps")
    storage.create("configmaps", a_config("b"))
    heard: list[str] = []
    informer.subscribe(lambda _old, new: heard.append((new or {})["metadata"]["name"]))
    informers.poll()
    informers.poll()
    assert heard == ["a", "b"]


def test_changes_and_deletions_arrive_in_order() -> None:
    storage, informers, heard = an_informer()
    storage.create("configmaps", a_config("a"))
    storage.patch("configmaps", "a", {"data": {"text": "new"}})
    storage.create("configmaps", a_config("b"))
    storage.delete("configmaps", "a")
    informers.poll()
    assert heard == ["a added", "a changed", "b added", "a removed"]


def test_a_mirror_that_history_outran_starts_over() -> None:
    storage, informers, heard = an_informer()
    for name in ("gone", "kept"):
        storage.create("configmaps", a_config(name))
    informers.poll()
    heard.clear()
    storage.delete("configmaps", "gone")
    storage.create("configmaps", a_config("new"))
    storage.compact()
    informers.poll()
    assert sorted(name for _, name in informers.informer("configmaps").objects) == ["kept", "new"]
    assert {"gone removed", "new added"} <= set(heard)


def test_an_index_follows_the_value() -> None:
    storage = Storage(VirtualClock())
    informers = SharedInformers(storage)
    index = informers.informer("pods").index(node_of)
    storage.create("pods", {"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "i"}]}})
    informers.poll()
    assert not index.of("n1")
    storage.bind("p", "n1")
    informers.poll()
    assert list(index.of("n1")) == [("default", "p")]
    storage.delete("pods", "p", grace_s=0)
    informers.poll()
    assert not index.of("n1")
    assert informers.informer("pods").index(node_of) is index


def test_a_handler_that_stumbles_loses_one_change_and_no_other() -> None:
    storage, informers, heard = an_informer()

    def stumble(_old: JsonObject | None, new: JsonObject | None) -> None:
        if new is not None and new["metadata"]["name"] == "odd":
            raise ValueError("odd")

    informers.informer("configmaps").subscribe(stumble)
    for name in ("a", "odd", "b"):
        storage.create("configmaps", a_config(name))
    with pytest.raises(ValueError, match="odd"):
        informers.poll()
    informers.poll()
    assert heard == ["a added", "odd added", "b added"]
