"""Histories of pods: what remains of pods that never come, or never end."""

from autoscaler.eta.history import MOST_ENDED, PodHistory
from autoscaler.reasons import DeleteReason
from autoscaler.snapshot.cluster import view_of
from tests.builders import a_node, a_pod
from tests.properties.held import held


def test_marks_of_pods_that_are_never_seen_to_end_are_bounded() -> None:
    history = PodHistory()
    for number in range(5 * MOST_ENDED):
        history.deleting(f"never-seen-{number}", DeleteReason.EXPIRED)
    assert held([history])["builtins.str"] < 2 * MOST_ENDED


def test_a_pod_that_ends_by_itself_after_all_leaves_no_mark() -> None:
    history, node = PodHistory(), a_node("n1")
    for number in range(100):
        pod = a_pod(f"job-{number}", node="n1", spec={"restartPolicy": "Never"})
        history.look(view_of([node], [pod]), (), 1.0)
        history.deleting(pod.uid, DeleteReason.EXPIRED)
        (ended,) = history.look(view_of([node], []), (), 2.0).ended
        assert ended.uid == pod.uid
    assert held([history])["autoscaler.reasons.DeleteReason"] <= 1
