from autoscaler.scaledown.pdb import RemainingPdbTracker
from tests.builders import a_budget, a_pod, replicas

WEB, DB = a_pod("web", labels={"app": "web"}), a_pod("db", labels={"app": "db"}, owner="StatefulSet")


def test_each_pod_is_charged_to_every_budget_that_counts_it() -> None:
    budgets = RemainingPdbTracker([a_budget(5), a_budget(2, labels={"app": "web"})])
    budgets.take([*replicas(WEB, 2), DB])
    assert budgets.left() == {"default/budget-5": 2, "default/budget-2": 0}
    assert budgets.spent(WEB.cls) is not None
    assert budgets.spent(DB.cls) is None


def test_pods_may_go_at_once_as_far_as_every_budget_goes() -> None:
    budgets = RemainingPdbTracker([a_budget(5), a_budget(2, labels={"app": "web"})])
    assert budgets.allow_at_once([*replicas(WEB, 2), DB])
    assert not budgets.allow_at_once(replicas(WEB, 3))
    assert budgets.allow_at_once([])


def test_a_budget_protects_the_pods_it_counts() -> None:
    budgets = RemainingPdbTracker([a_budget(0, labels={"app": "web"})])
    assert (budgets.protect(WEB.cls), budgets.protect(DB.cls)) == (True, False)
    assert not RemainingPdbTracker().protect(WEB.cls)
