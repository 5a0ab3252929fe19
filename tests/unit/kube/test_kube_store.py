import msgspec
import pytest

from autoscaler.kube.store import Delta, Store


class Thing(msgspec.Struct, frozen=True):
    key: str
    uid: str = "u1"
    size: int = 0


class Heard:
    def __init__(self) -> None:
        self.changes: list[tuple[Thing | None, Thing | None]] = []

    def changed(self, old: Thing | None, new: Thing | None) -> None:
        self.changes.append((old, new))


def gone(thing: Thing) -> Delta[Thing]:
    return Delta(thing, None)


def now(thing: Thing) -> Delta[Thing]:
    return Delta(None, thing)


A, B = Thing("n/a"), Thing("n/b")
A2 = Thing("n/a", size=2)
A_AGAIN = Thing("n/a", uid="u2")


@pytest.fixture
def heard() -> Heard:
    return Heard()


@pytest.fixture
def store(heard: Heard) -> Store[Thing]:
    made: Store[Thing] = Store()
    made.replace([A, B])
    made.drain_changes()
    made.subscribe(heard)
    return made


@pytest.mark.parametrize(
    ("changes", "reports"),
    [
        pytest.param([now(A2)], [(A, A2)], id="a change is reported with what was before"),
        pytest.param([now(Thing("n/c"))], [(None, Thing("n/c"))], id="an object never seen is an addition"),
        pytest.param([now(Thing("n/a"))], [], id="an equal object changes nothing"),
        pytest.param([gone(A2)], [(A, None)], id="removal reports what was held"),
        pytest.param([gone(Thing("n/zzz"))], [], id="removal of an unknown object is ignored"),
        pytest.param([gone(A_AGAIN)], [], id="removal of another object of that name is ignored"),
        pytest.param([now(A_AGAIN)], [(A, None), (None, A_AGAIN)], id="a new uid is a removal and an addition"),
        pytest.param([now(A2), gone(A2), now(A)], [(A, A2), (A2, None), (None, A)], id="order is kept"),
    ],
)
def test_listeners_hear_changes(
    store: Store[Thing], heard: Heard, changes: list[Delta[Thing]], reports: list[tuple[Thing | None, Thing | None]]
) -> None:
    store.apply(changes)
    assert heard.changes == reports


def test_a_new_list_reports_only_differences(store: Store[Thing], heard: Heard) -> None:
    c = Thing("n/c")
    store.replace([Thing("n/a"), c])
    assert heard.changes == [(B, None), (None, c)]
    assert store.snapshot() == {"n/a": A, "n/c": c}
    assert store.get("n/a") is A, "what did not change keeps its identity"


@pytest.mark.parametrize(
    ("changes", "drained"),
    [
        pytest.param(
            [now(A2), now(Thing("n/a", size=3))], {"n/a": (A, Thing("n/a", size=3))}, id="two changes are one"
        ),
        pytest.param([now(A2), gone(A2)], {"n/a": (A, None)}, id="changed and removed is removed"),
        pytest.param([now(Thing("n/c")), gone(Thing("n/c"))], {}, id="came and went is nothing"),
        pytest.param([gone(A), now(A_AGAIN)], {"n/a": (A, A_AGAIN)}, id="replaced is one change of uid"),
    ],
)
def test_the_log_joins_changes_of_a_key(
    store: Store[Thing], changes: list[Delta[Thing]], drained: dict[str, tuple[Thing | None, Thing | None]]
) -> None:
    store.apply(changes)
    assert store.drain_changes() == drained
    assert store.drain_changes() == {}


def test_the_first_drain_reports_everything_as_new() -> None:
    store: Store[Thing] = Store()
    store.replace([A])
    assert store.drain_changes() == {"n/a": (None, A)}


def test_a_store_without_log_refuses_to_drain() -> None:
    store: Store[Thing] = Store(log_changes=False)
    store.replace([A])
    with pytest.raises(ValueError, match="no log"):
        store.drain_changes()


def test_a_snapshot_does_not_move(store: Store[Thing]) -> None:
    before = store.snapshot()
    store.apply([gone(A)])
    assert before == {"n/a": A, "n/b": B}
    assert len(store) == 1
