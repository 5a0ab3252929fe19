"""Pods with claims for devices."""

from autoscaler.config.rules import Rules, rules_of_1_31
from autoscaler.config.scheduler_profile import SchedulerProfile
from autoscaler.reasons import NoFit
from autoscaler.scheduling.placement import Placer
from autoscaler.scheduling.profile import profile_of
from autoscaler.snapshot.cluster import view_of
from autoscaler.snapshot.overlay import Trial
from tests.builders import a_node, a_pod, a_template
from tests.unit.scheduling.verdicts import FITS, verdicts

NODES = (a_node("a"), a_node("b"))
POD = a_pod(spec={"resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": "one-gpu"}]})


def test_a_pod_with_claims_fits_nowhere_not_on_a_new_node_either() -> None:
    assert verdicts(POD, NODES) == [NoFit.DEVICES] * 2
    trial = Trial(view_of(NODES, []))
    placer = Placer(trial)
    new = trial.add(a_template(), 2)
    assert placer.passing(POD.cls, slice(0, trial.count)).tolist() == [False] * 4
    bound = placer.bound(POD.cls, slice(new.start, new.stop), new.start)
    assert bound is not None
    assert bound.fresh == 0
    (why,) = placer.why(POD.cls, new.start)
    assert (why.message, why.detail) == (
        "cannot allocate all claims",
        "claims gpu: the allocation of devices is not simulated",
    )


def test_claims_are_ignored_as_1_31_does() -> None:
    profile = profile_of(SchedulerProfile(), rules_of_1_31())
    assert verdicts(POD, NODES, profile=profile) == [FITS, FITS]
    assert not Placer(Trial(view_of(NODES, [])), profile).may_guard(POD.cls)


def test_claims_are_ignored_where_dynamic_allocation_is_off_or_its_filter_disabled() -> None:
    assert verdicts(POD, NODES, profile=profile_of(SchedulerProfile(), Rules(), device_claims=False)) == [FITS, FITS]
    disabled = profile_of(SchedulerProfile(disabled=(NoFit.DEVICES,)), Rules())
    assert verdicts(POD, NODES, profile=disabled) == [FITS, FITS]
