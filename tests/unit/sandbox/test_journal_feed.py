"""Stores fed by the storage itself hold what watches would have brought."""

import math

import pytest

from autoscaler.clock import VirtualClock
from autoscaler.kube.store import Store
from autoscaler.kube.watch import KindSource
from autoscaler.objects.node import Node, node_decoder
from autoscaler.sandbox.apiserver.storage import Storage
from autoscaler.sandbox.journal_feed import JournalFeed


class PoolFeed:
    """A storage and a feed of its nodes of one pool."""

    def __init__(self) -> None:
        self.clock = VirtualClock()
        self.storage = Storage(self.clock)
        self.feed = JournalFeed(self.storage, self.clock)
        source = KindSource("/api/v1/nodes", node_decoder(), label_selector="pool=a")
        self.store: Store[Node] = self.feed.add(source)

    def add(self, name: str, pool: str = "a") -> None:
        self.storage.create("nodes", {"metadata": {"name": name, "labels": {"pool": pool}}})

    def relabel(self, name: str, pool: str) -> None:
        self.storage.patch("nodes", name, {"metadata": {"labels": {"pool": pool}}})

    @property
    def names(self) -> set[str]:
        return set(self.store.snapshot())


@pytest.fixture
def stage() -> PoolFeed:
    return PoolFeed()


def test_nothing_is_known_before_it_is_pumped(stage: PoolFeed) -> None:
    stage.add("n1")
    assert (stage.feed.has_synced, stage.feed.wait_synced(9.0)) == (False, {"/api/v1/nodes": "still listing"})
    stage.feed.sync()
    assert (stage.feed.has_synced, stage.feed.wait_synced(9.0), stage.names) == (True, {}, {"n1"})


def test_what_enters_or_leaves_the_selection_comes_and_goes(stage: PoolFeed) -> None:
    stage.add("n1")
    stage.add("n2", pool="b")
    stage.feed.sync()
    stage.relabel("n1", "b")
    stage.relabel("n2", "a")
    stage.feed.sync()
    assert stage.names == {"n2"}
    stage.storage.delete("nodes", "n2")
    stage.feed.sync()
    assert stage.names == set()


def test_late_changes_arrive_in_their_time(stage: PoolFeed) -> None:
    stage.feed.sync()
    stage.feed.lag_s = 30
    stage.add("n1")
    assert stage.feed.due() == -math.inf
    stage.feed.sync()
    assert (stage.names, stage.feed.due()) == (set(), 30)
    stage.clock.advance(30)
    stage.feed.sync()
    assert (stage.names, stage.feed.due()) == ({"n1"}, math.inf)


def test_a_history_that_was_forgotten_is_made_up_for_by_a_list(stage: PoolFeed) -> None:
    stage.add("n1")
    stage.feed.sync()
    stage.storage.delete("nodes", "n1")
    stage.add("n2")
    stage.storage.compact()
    stage.feed.sync()
    assert stage.names == {"n2"}


def test_a_stopped_feed_hears_nothing(stage: PoolFeed) -> None:
    stage.feed.sync()
    stage.feed.stop()
    stage.add("n1")
    assert stage.feed.due() == math.inf
