from autoscaler.actuation.removal_job import FreshReader
from autoscaler.objects.meta import ObjectMeta
from autoscaler.objects.workload import DisruptionBudget
from autoscaler.sandbox.memory_cluster import MemoryCluster
from autoscaler.sandbox.memory_reader import MemoryReader
from autoscaler.snapshot.cluster import Related
from tests.builders import a_node, a_pod


def test_answers_from_the_cluster_as_it_is_now() -> None:
    cluster = MemoryCluster(lambda old, new: None, lambda old, new: None)
    budget = DisruptionBudget(metadata=ObjectMeta(name="b", namespace="default"))
    related = Related(budgets={"default/b": budget})
    reader: FreshReader = MemoryReader(cluster, related)
    assert (reader.node("n1"), reader.pods_on("n1")) == (None, [])
    cluster.put_node(a_node("n1"))
    cluster.put_pod(a_pod("here", node="n1"))
    cluster.put_pod(a_pod("there", node="n2"))
    assert reader.node("n1") == reader.last_seen("n1") == a_node("n1")
    assert [pod.name for pod in reader.pods_on("n1")] == ["here"]
    assert (list(reader.budgets()), reader.related()) == ([budget], related)
