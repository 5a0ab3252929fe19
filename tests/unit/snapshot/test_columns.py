from collections.abc import Callable

import numpy as np
import pytest

from autoscaler.objects.node import HOSTNAME, Taint, TaintEffect
from autoscaler.snapshot.cluster import ClusterBuilder, Related
from autoscaler.snapshot.columns import ABSENT, MOST, Columns, Vocabulary
from autoscaler.snapshot.groups import Groups
from tests.builders import a_node, a_pod


def test_rows_are_only_ever_added() -> None:
    vocabulary = Vocabulary()
    first = dict(vocabulary.rows)
    assert list(first) == ["cpu", "memory", "pods", "ephemeral-storage"]
    assert vocabulary.row("example.com/x") == 4
    assert vocabulary.row("example.com/x") == 4
    assert vocabulary.rows == {**first, "example.com/x": 4}


def test_codes_of_label_values_count_up_by_key() -> None:
    vocabulary = Vocabulary()
    assert [vocabulary.code("zone", value) for value in ("a", "b", "a", None)] == [0, 1, 0, ABSENT]
    assert vocabulary.code("rack", "b") == 0
    assert (vocabulary.known("zone", "b"), vocabulary.known("zone", "c"), vocabulary.known("disk", "b")) == (
        1,
        None,
        None,
    )


def test_a_set_of_taints_has_one_code_whatever_only_asks_and_whenever_it_was_added() -> None:
    vocabulary = Vocabulary()
    gpu = Taint(key="gpu", value="x", effect="NoSchedule")
    later = Taint(key="gpu", value="x", effect="NoSchedule", time_added="2024-01-01T00:00:00Z")
    asking = Taint(key="slow", effect="PreferNoSchedule")
    none = vocabulary.taint_code(())
    assert vocabulary.taint_code((asking,)) == none
    assert vocabulary.taint_code((gpu,)) != none
    assert vocabulary.taint_code((later, asking)) == vocabulary.taint_code((gpu,))
    assert vocabulary.taints[vocabulary.taint_code((gpu,))] == (gpu,)
    assert vocabulary.taints[none] == ()


def test_the_vector_of_a_class_has_its_pod_slot_and_grows_with_the_rows() -> None:
    vocabulary, cls = Vocabulary(), a_pod(cpu="1", memory="1Ki", requests={"example.com/x": "3"}).cls
    assert vocabulary.vector(cls).tolist() == [1000, 1024, 1, 0], "no node has had what it asks for beside"
    vocabulary.row("example.com/x")
    assert vocabulary.vector(cls).tolist() == [1000, 1024, 1, 0, 3]
    assert vocabulary.vector(cls) is vocabulary.vector(cls)


@pytest.mark.parametrize("cpu", ["1E", "9223372036854775807"])
def test_no_amount_is_too_large_for_the_columns(cpu: str) -> None:
    assert Vocabulary().vector(a_pod(cpu=cpu).cls)[0] == MOST


def test_a_vocabulary_is_outgrown_when_most_of_its_host_names_are_gone() -> None:
    vocabulary = Vocabulary()
    for number in range(1025):
        vocabulary.code(HOSTNAME, f"n{number}")
    assert not vocabulary.outgrown(1)
    for number in range(1025, 1029):
        vocabulary.code(HOSTNAME, f"n{number}")
    assert vocabulary.outgrown(1)
    assert not vocabulary.outgrown(300)


@pytest.mark.parametrize(
    ("learn", "most"),
    [
        pytest.param(lambda v, n: v.code(f"key-{n}", "x"), 1028, id="keys of labels"),
        pytest.param(lambda v, n: v.code("zone", f"z{n}"), 1028, id="values of any label"),
        pytest.param(
            lambda v, n: v.taint_code([Taint(key="k", value=str(n), effect=TaintEffect.NO_EXECUTE)]), 1028, id="taints"
        ),
        pytest.param(lambda v, n: v.row(f"example.com/{n}"), 252, id="resources"),
    ],
)
def test_a_vocabulary_is_outgrown_by_whatever_names_never_end(
    learn: Callable[[Vocabulary, int], object], most: int
) -> None:
    vocabulary = Vocabulary()
    for number in range(most):
        learn(vocabulary, number)
    assert not vocabulary.outgrown(1)
    learn(vocabulary, most)
    assert vocabulary.outgrown(1)


def test_a_cluster_whose_nodes_stay_gets_a_new_vocabulary_too() -> None:
    builder = ClusterBuilder(-10)
    builder.node_changed(None, a_node("n1"))
    before = builder.view(Groups(), Related())
    for number in range(300):
        before.columns.vocabulary.row(f"example.com/{number}")
    after = builder.view(Groups(), Related())
    assert len(after.columns.vocabulary.rows) == 4


def test_columns_hold_one_number_per_node_and_fact() -> None:
    nodes = [
        a_node("n0", cpu="2", memory="1Ki", pods=5, labels={"disk": "ssd"}, taints=["gpu"]),
        a_node("n1", cpu="4", memory="2Ki", pods=6, cordoned=True, extra={"example.com/x": "7"}),
    ]
    columns = Columns(Vocabulary(), nodes)
    assert columns.allocatable.tolist() == [[2000, 4000], [1024, 2048], [5, 6], [0, 0], [0, 7]]
    assert columns.used.tolist() == np.zeros((5, 2)).tolist()
    assert columns.cordoned.tolist() == [False, True]
    assert columns.taint_codes[0] != columns.taint_codes[1]
    assert columns.labels("disk").tolist() == [0, ABSENT]
    assert columns.labels("none").tolist() == [ABSENT, ABSENT]


def test_a_copy_may_be_recounted_without_touching_the_original() -> None:
    vocabulary = Vocabulary()
    columns = Columns(vocabulary, [a_node("n0"), a_node("n1")])
    copy = columns.copy()
    vocabulary.row("example.com/x")
    copy.recount(1, [a_pod(cpu="1").cls, a_pod(cpu="1", requests={"example.com/x": "2"}).cls])
    assert copy.used[:, 1].tolist() == [2000, 0, 2, 0, 2]
    assert copy.used[:, 0].tolist() == [0, 0, 0, 0, 0]
    assert columns.used.tolist() == np.zeros((4, 2)).tolist()


def test_no_nodes_at_all() -> None:
    columns = Columns(Vocabulary(), [])
    assert columns.allocatable.shape == (4, 0)
    assert columns.labels("zone").tolist() == []
