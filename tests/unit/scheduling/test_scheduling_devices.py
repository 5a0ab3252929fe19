"""Pods with claims for devices."""

import pytest

from autoscaler.config.rules import Rules, rules_of_1_31
from autoscaler.config.scheduler_profile import SchedulerProfile
from autoscaler.objects.devices import ResourceClaim
from autoscaler.objects.workload import plain_decoder
from autoscaler.reasons import NoFit
from autoscaler.scheduling.devices import MAX_CONSUMERS
from autoscaler.scheduling.placement import Placer
from autoscaler.scheduling.profile import profile_of
from autoscaler.snapshot.cluster import view_of
from autoscaler.snapshot.overlay import Trial
from tests.builders import a_node, a_pod, a_template
from tests.devices import a_claim, claim_form, claiming, with_devices
from tests.unit.scheduling.verdicts import FITS, verdicts

NODES = (a_node("a"), a_node("b"))
POD = a_pod(spec={"resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": "one-gpu"}]})


def test_a_pod_whose_template_of_claims_is_not_there_fits_nowhere() -> None:
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
        "claim gpu: there is no ResourceClaimTemplate one-gpu",
    )


def test_claims_are_ignored_as_1_31_does() -> None:
    profile = profile_of(SchedulerProfile(), rules_of_1_31())
    assert verdicts(POD, NODES, profile=profile) == [FITS, FITS]
    assert not Placer(Trial(view_of(NODES, [])), profile).may_guard(POD.cls)


def test_claims_are_ignored_where_dynamic_allocation_is_off_or_its_filter_disabled() -> None:
    assert verdicts(POD, NODES, profile=profile_of(SchedulerProfile(), Rules(), device_claims=False)) == [FITS, FITS]
    disabled = profile_of(SchedulerProfile(disabled=(NoFit.DEVICES,)), Rules())
    assert verdicts(POD, NODES, profile=disabled) == [FITS, FITS]


NAMING = a_pod(spec=claiming("gpu"))
EVERYWHERE = a_claim("gpu", "dev-0", node=None)
IN_RACK = {"nodeSelectorTerms": [{"matchExpressions": [{"key": "rack", "operator": "In", "values": ["r1"]}]}]}


def in_rack() -> ResourceClaim:
    form = claim_form("gpu", "dev-0")
    form["status"]["allocation"]["nodeSelector"] = IN_RACK
    return plain_decoder(ResourceClaim).one(form)


@pytest.mark.parametrize(
    ("claim", "expected"),
    [
        pytest.param(a_claim("gpu", "dev-0", node="b"), [NoFit.DEVICES, FITS], id="devices of one node"),
        pytest.param(in_rack(), [FITS, NoFit.DEVICES], id="devices of some nodes"),
        pytest.param(EVERYWHERE, [FITS, FITS], id="devices of all nodes"),
        pytest.param(a_claim("gpu", allocated=False), [NoFit.DEVICES] * 2, id="no devices yet"),
        pytest.param(a_claim("gpu", "dev-0", node=None, namespace="other"), [NoFit.DEVICES] * 2, id="no such claim"),
        pytest.param(
            a_claim("gpu", "dev-0", node=None, meta={"deletionTimestamp": "2026-01-05T12:00:00Z"}),
            [NoFit.DEVICES] * 2,
            id="a claim on its way out",
        ),
        pytest.param(
            a_claim("gpu", "dev-0", node=None, users=[f"p{number}" for number in range(MAX_CONSUMERS)]),
            [NoFit.DEVICES] * 2,
            id="a claim with as many users as may be",
        ),
    ],
)
def test_an_allocated_claim_keeps_its_pods_where_its_devices_are(claim: ResourceClaim, expected: list[str]) -> None:
    nodes = (a_node("a", labels={"rack": "r1"}), a_node("b"))
    assert verdicts(NAMING, nodes, related=with_devices(claims=[claim])) == expected


def test_every_claim_has_to_be_allocated() -> None:
    both = a_pod(spec=claiming("gpu", "nic"))
    claims = [EVERYWHERE, a_claim("nic", allocated=False)]
    assert verdicts(both, NODES, related=with_devices(claims=claims)) == [NoFit.DEVICES] * 2
    claims = [EVERYWHERE, a_claim("nic", "dev-1", node="a")]
    assert verdicts(both, NODES, related=with_devices(claims=claims)) == [FITS, NoFit.DEVICES]


def test_a_claim_made_from_a_template_is_not_the_next_pods() -> None:
    claims = with_devices(claims=[a_claim("gpu", "dev-0", node=None)])
    assert verdicts(POD, NODES, related=claims) == [NoFit.DEVICES] * 2


def test_what_keeps_a_pod_from_a_node_is_told() -> None:
    placer = Placer(Trial(view_of(NODES, [], related=with_devices(claims=[a_claim("gpu", "dev-0", node="b")]))))
    (why,) = placer.why(NAMING.cls, 0)
    assert (why.message, why.detail) == (
        "resourceclaim not available on the node",
        "the devices of claim gpu cannot be used from there",
    )
    new = placer.trial.add(a_template(), 1)
    assert placer.passing(NAMING.cls, slice(0, placer.trial.count)).tolist() == [False, True, False]
    bound = placer.bound(NAMING.cls, slice(new.start, new.stop), new.start)
    assert bound is not None
    assert bound.fresh == 0
