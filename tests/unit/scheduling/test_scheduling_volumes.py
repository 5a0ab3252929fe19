"""Where claims, disks and attach limits let a pod go."""

from collections.abc import Sequence
from typing import Any

import msgspec
import pytest

from autoscaler.config.rules import rules_of_1_31
from autoscaler.config.scheduler_profile import SchedulerProfile
from autoscaler.objects.node import HOSTNAME, REGIONS, ZONES, Node
from autoscaler.objects.pod import Pod
from autoscaler.objects.pod_interner import PodInterner
from autoscaler.objects.storage import BIND_COMPLETED, SELECTED_NODE, CsiNode, CsiStorageCapacity, VolumeAttachment
from autoscaler.objects.workload import plain_decoder
from autoscaler.reasons import NoFit
from autoscaler.scheduling.placement import Placer
from autoscaler.scheduling.profile import profile_of
from autoscaler.snapshot.cluster import Related, view_of
from autoscaler.snapshot.merging import merged
from autoscaler.snapshot.overlay import Trial
from tests.builders import Json, a_node, a_pod, a_template, expression
from tests.unit.scheduling.storage import (
    DRIVER,
    IMMEDIATE,
    LOCAL,
    at,
    attachment,
    claim,
    csi_driver,
    csi_node,
    free_storage,
    storage,
    storage_class,
    using,
    volume,
)
from tests.unit.scheduling.verdicts import FITS, verdicts

ZONE, OLD_ZONE = ZONES
TWO = (a_node("a", zone="z1"), a_node("b", zone="z2"))


ATTACHED = NoFit.VOLUME_LIMITS


def on(nodes: Sequence[Node], related: Related, *claims: str, placed: Sequence[Pod] = ()) -> list[str]:
    return verdicts(a_pod(volumes=using(*claims)), nodes, placed, related=related)


def gce(*, read_only: bool = False, name: str = "d") -> Json:
    return {"name": "v", "gcePersistentDisk": {"pdName": name, "readOnly": read_only}}


def ebs(*, read_only: bool = False) -> Json:
    return {"name": "v", "awsElasticBlockStore": {"volumeID": "vol-1", "readOnly": read_only}}


def rbd(*, read_only: bool = False, **more: str) -> Json:
    return {"name": "v", "rbd": {"image": "i", "monitors": ["m"], "readOnly": read_only, **more}}


def iscsi(*, read_only: bool = False, iqn: str = "q") -> Json:
    return {"name": "v", "iscsi": {"iqn": iqn, "readOnly": read_only}}


@pytest.mark.parametrize(
    ("mine", "theirs", "clash"),
    [
        pytest.param(gce(), gce(), True, id="a GCE disk to write"),
        pytest.param(gce(read_only=True), gce(), True, id="a GCE disk that another writes"),
        pytest.param(gce(read_only=True), gce(read_only=True), False, id="a GCE disk that both read"),
        pytest.param(gce(), gce(name="e"), False, id="different GCE disks"),
        pytest.param(ebs(read_only=True), ebs(read_only=True), True, id="an EBS volume, even to read"),
        pytest.param(rbd(), rbd(), True, id="an RBD image to write"),
        pytest.param(rbd(), rbd(pool="rbd"), True, id="an RBD image in the default pool, named or not"),
        pytest.param(rbd(), rbd(pool="p"), False, id="an RBD image in another pool"),
        pytest.param(rbd(read_only=True), rbd(read_only=True), False, id="an RBD image that both read"),
        pytest.param(iscsi(), iscsi(read_only=True), True, id="an iSCSI target that one writes"),
        pytest.param(iscsi(read_only=True), iscsi(read_only=True), False, id="an iSCSI target that both read"),
        pytest.param(iscsi(), iscsi(iqn="r"), False, id="different iSCSI targets"),
        pytest.param(gce(), iscsi(), False, id="different kinds of disks"),
    ],
)
def test_one_disk_on_one_node(mine: Json, theirs: Json, clash: bool) -> None:
    found = verdicts(a_pod(volumes=[mine]), TWO, [a_pod("other", volumes=[theirs], node="a")])
    assert found == [NoFit.VOLUME_RESTRICTIONS if clash else FITS, FITS]


ALONE = storage(claim("c", volume="v", modes=["ReadWriteOncePod"]), volume("v"))


def test_a_claim_for_one_pod_is_used_on_another_node() -> None:
    user = a_pod("user", volumes=using("c"), node="a")
    assert on(TWO, ALONE, "c") == [FITS, FITS]
    assert on(TWO, ALONE, "c", placed=[user]) == [NoFit.VOLUME_RESTRICTIONS] * 2
    elsewhere = a_pod("user", namespace="other", volumes=using("c"), node="a")
    assert on(TWO, ALONE, "c", placed=[elsewhere]) == [FITS, FITS]


def test_a_claim_for_one_pod_follows_the_trial() -> None:
    pod = a_pod(volumes=using("c"), node="a")
    trial = Trial(view_of(TWO, [pod], related=ALONE))
    placer = Placer(trial)
    assert not placer.fits(pod.cls, 1)
    with trial.fork():
        trial.lift(pod.cls, 0)
        assert placer.fits(pod.cls, 0), "the very pod has left: it may go back, or elsewhere"
        assert placer.fits(pod.cls, 1)
        assert Placer(trial).fits(pod.cls, 1), "asked for the first time after the pod left"
        trial.place(pod.cls, 1)
        assert not placer.fits(pod.cls, 0)
    assert not placer.fits(pod.cls, 1)


def test_replicas_with_a_claim_for_one_pod_need_one_node() -> None:
    pod = a_pod(volumes=using("c"))
    trial = Trial(view_of([], [], related=ALONE))
    placer = Placer(trial)
    new = trial.add(a_template(), 2)
    bound = placer.bound(pod.cls, slice(new.start, new.stop), new.start)
    assert bound is not None
    assert bound.total == 1


@pytest.mark.parametrize(
    ("labels", "node_labels", "passes"),
    [
        pytest.param({ZONE: "z1"}, {ZONE: "z1"}, True, id="same zone"),
        pytest.param({ZONE: "z1"}, {ZONE: "z2"}, False, id="another zone"),
        pytest.param({ZONE: "z1__z2"}, {ZONE: "z2"}, True, id="one of several zones"),
        pytest.param({ZONE: "z1__ z2 "}, {ZONE: "z2"}, True, id="one of several zones, written with blanks"),
        pytest.param({ZONE: "z1__"}, {ZONE: "z2"}, True, id="a set with an empty entry is ignored"),
        pytest.param({ZONE: "z1"}, {}, True, id="node without any zone label"),
        pytest.param({ZONE: "z1"}, {REGIONS[0]: "r1"}, False, id="node with a region but no zone"),
        pytest.param({OLD_ZONE: "z1"}, {ZONE: "z1"}, True, id="beta label met by today's"),
        pytest.param({OLD_ZONE: "z1"}, {ZONE: "z2"}, False, id="beta label, today's differs"),
        pytest.param({OLD_ZONE: "z1"}, {OLD_ZONE: "z2", ZONE: "z1"}, False, id="beta label wins where the node has it"),
        pytest.param({ZONE: "z1"}, {OLD_ZONE: "z1"}, False, id="today's label is not met by the beta one"),
        pytest.param({REGIONS[0]: "r1", ZONE: "z1"}, {REGIONS[0]: "r1", ZONE: "z1"}, True, id="zone and region"),
        pytest.param({REGIONS[0]: "r2", ZONE: "z1"}, {REGIONS[0]: "r1", ZONE: "z1"}, False, id="another region"),
    ],
)
def test_the_zone_of_a_volume(labels: dict[str, str], node_labels: dict[str, str], passes: bool) -> None:
    related = storage(claim("c", volume="v"), volume("v", labels=labels))
    assert on([a_node(labels=node_labels)], related, "c") == [FITS if passes else NoFit.VOLUME_ZONE]


@pytest.mark.parametrize(
    ("count", "placed", "mine", "expected"),
    [
        pytest.param(2, "d", "c", FITS, id="room for one more"),
        pytest.param(1, "d", "c", NoFit.VOLUME_LIMITS, id="no room left"),
        pytest.param(1, "c", "c", FITS, id="the same volume is attached already"),
        pytest.param(2, "dd", "c", FITS, id="a shared volume counts once"),
        pytest.param(1, "", "cd", NoFit.VOLUME_LIMITS, id="too many of one pod"),
        pytest.param(2, "d", "cc", FITS, id="a claim used twice by the pod counts once"),
        pytest.param(1, "d", "l", NoFit.VOLUME_LIMITS, id="a volume still to be made counts"),
        pytest.param(1, "l", "c", NoFit.VOLUME_LIMITS, id="one still to be made is attached"),
        pytest.param(None, "de", "c", FITS, id="driver without a count"),
        pytest.param(0, "", "", FITS, id="a pod without volumes"),
    ],
)
def test_attach_limits(count: int | None, placed: str, mine: str, expected: str) -> None:
    objects = [claim(name, volume=f"v-{name}") for name in "cde"]
    volumes = [volume(f"v-{name}", handle=f"h-{name}") for name in "cde"]
    related = storage(*objects, *volumes, claim("l"), csi_node("n", count))
    pods = [a_pod(f"on-{number}", volumes=using(name), node="n") for number, name in enumerate(placed)]
    assert on([a_node("n")], related, *mine, placed=pods) == [expected]


def test_without_a_csi_node_nothing_limits() -> None:
    related = storage(claim("c"), claim("d"), csi_node("other", 0))
    assert on([a_node("n")], related, "c", "d") == [FITS]


MISSING = (NoFit.VOLUME_LIMITS, f"{DRIVER} CSI driver is not installed on the node")


@pytest.mark.parametrize(
    ("needed", "running", "claims", "expected"),
    [
        pytest.param(False, [], "c", None, id="a driver that does not insist"),
        pytest.param(True, [], "c", MISSING, id="no CSINode"),
        pytest.param(True, [csi_node("other", 3)], "c", MISSING, id="the CSINode of another node"),
        pytest.param(True, [csi_node("n", 3)], "c", None, id="the driver runs"),
        pytest.param(True, [csi_node("n", None)], "c", None, id="the driver runs and has no limit"),
        pytest.param(True, [], "", None, id="a pod without volumes"),
        pytest.param(True, [], "m", MISSING, id="a volume still to be made"),
    ],
)
def test_a_driver_may_insist_on_running_where_its_volumes_go(
    needed: bool, running: list[CsiNode], claims: str, expected: tuple[NoFit, str] | None
) -> None:
    volumes = (claim("c", volume="v"), volume("v", handle="h"), claim("m"))
    related = storage(*volumes, csi_driver(storage_capacity=False, needed=needed), *running)
    placer = Placer(Trial(view_of([a_node("n")], [], related=related)))
    cls = a_pod(volumes=using(*claims)).cls
    found = placer.why(cls, 0)
    assert [(one.reason, one.message) for one in found] == ([] if expected is None else [expected])
    assert placer.fits(cls, 0) == (expected is None)
    ignoring = Placer(placer.trial, profile_of(SchedulerProfile(), rules_of_1_31()))
    assert ignoring.fits(cls, 0)


def test_a_node_that_lists_other_drivers_lacks_this_one() -> None:
    other = plain_decoder(CsiNode).one({"metadata": {"name": "n"}, "spec": {"drivers": [{"name": "other"}]}})
    related = storage(claim("c"), csi_driver(storage_capacity=False, needed=True), other)
    assert on([a_node("n")], related, "c") == [NoFit.VOLUME_LIMITS]


@pytest.mark.parametrize(
    ("drivers", "fits"), [(None, True), (frozenset[str](), False), (frozenset([DRIVER]), True)], ids=str
)
def test_a_new_node_runs_the_drivers_of_its_template(drivers: frozenset[str] | None, fits: bool) -> None:
    related = storage(claim("c"), csi_driver(storage_capacity=False, needed=True))
    trial = Trial(view_of([a_node("n")], [], related=related))
    placer = Placer(trial)
    (position,) = trial.add(msgspec.structs.replace(a_template(), csi_drivers=drivers), 1)
    cls = a_pod(volumes=using("c")).cls
    assert placer.passing(cls, slice(0, 2)).tolist() == [False, fits]
    assert placer.passing(cls, slice(1, 2)).tolist() == [fits]
    assert placer.fits(cls, position) == (not placer.why(cls, position)) == fits


def test_attach_limits_follow_the_trial_and_templates_have_their_own() -> None:
    related = storage(claim("c"), claim("d"), csi_node("n", 1))
    one, two = a_pod(volumes=using("c")).cls, a_pod(volumes=using("d")).cls
    trial = Trial(view_of([a_node("n")], [], related=related))
    placer = Placer(trial)
    assert placer.fits(one, 0)
    new = trial.add(a_template(), 1)
    with trial.fork():
        trial.place(two, 0)
        assert not placer.fits(one, 0)
        trial.place(two, new.start)
        assert placer.fits(one, new.start)
        trial.lift(two, 0)
        assert placer.fits(one, 0)
        trial.place(two, 0)
    assert placer.fits(one, 0)


ELSEWHERE = NoFit.VOLUME_BINDING
Z1, Z2 = at(ZONE, "z1"), at(ZONE, "z2")
ALLOWED = [{"matchLabelExpressions": [{"key": ZONE, "values": ["z2"]}]}]


@pytest.mark.parametrize(
    ("related", "claims", "expected"),
    [
        pytest.param(
            storage(claim("c", volume="v"), volume("v", terms=[Z1])), "c", [FITS, ELSEWHERE], id="bound to zone 1"
        ),
        pytest.param(storage(claim("c", volume="v"), volume("v")), "c", [FITS, FITS], id="bound, used from anywhere"),
        pytest.param(
            storage(claim("c", volume="v"), volume("v", terms=[Z1, Z2])), "c", [FITS, FITS], id="bound, one term holds"
        ),
        pytest.param(storage(), "c", [ELSEWHERE] * 2, id="no such claim"),
        pytest.param(storage(claim("c", volume="v")), "c", [ELSEWHERE] * 2, id="bound to a volume that is gone"),
        pytest.param(storage(claim("c", volume="v", phase="Lost"), volume("v")), "c", [ELSEWHERE] * 2, id="lost claim"),
        pytest.param(storage(claim("c", storage_class=IMMEDIATE)), "c", [ELSEWHERE] * 2, id="unbound, immediate"),
        pytest.param(storage(claim("c", storage_class=None)), "c", [ELSEWHERE] * 2, id="unbound, no storage class"),
        pytest.param(storage(claim("c", storage_class="x")), "c", [ELSEWHERE] * 2, id="unbound, unknown class"),
        pytest.param(storage(claim("c", volumeName="v"), volume("v")), "c", [ELSEWHERE] * 2, id="binding not complete"),
        pytest.param(storage(claim("c")), "c", [FITS, FITS], id="a volume can be made anywhere"),
        pytest.param(
            storage(claim("c", storage_class="t"), storage_class("t", allowedTopologies=ALLOWED)),
            "c",
            [ELSEWHERE, FITS],
            id="a volume can be made in an allowed topology",
        ),
        pytest.param(
            storage(
                claim("c", storage_class="t"),
                storage_class("t", allowedTopologies=ALLOWED),
                volume("v", terms=[Z1], storage_class="t"),
            ),
            "c",
            [FITS, FITS],
            id="a volume at hand in one zone, one can be made in the other",
        ),
        pytest.param(
            storage(claim("c", annotations={SELECTED_NODE: "b"})), "c", [ELSEWHERE, FITS], id="node already selected"
        ),
        pytest.param(storage(claim("c", storage_class=LOCAL)), "c", [ELSEWHERE] * 2, id="no volume, no provisioner"),
        pytest.param(
            storage(claim("c", storage_class=LOCAL), volume("v", terms=[at(HOSTNAME, "b")])),
            "c",
            [ELSEWHERE, FITS],
            id="a local volume",
        ),
        pytest.param(
            storage(claim("c", storage_class=LOCAL), claim("d", storage_class=LOCAL), volume("v")),
            "cd",
            [ELSEWHERE] * 2,
            id="two claims, one volume",
        ),
        pytest.param(
            storage(
                claim("c", storage_class=LOCAL, size="2Gi"),
                claim("d", storage_class=LOCAL),
                volume("big", size="3Gi"),
                volume("small", terms=[Z1]),
            ),
            "cd",
            [FITS, ELSEWHERE],
            id="two claims, the small volume is there in one zone only",
        ),
        pytest.param(
            storage(claim("c", annotations={BIND_COMPLETED: "yes"})),
            "c",
            [FITS, FITS],
            id="an annotation without a volume binds nothing",
        ),
    ],
)
def test_binding(related: Related, claims: str, expected: list[str]) -> None:
    assert on(TWO, related, *claims) == expected


RESERVED: Json = {"claimRef": {"namespace": "default", "name": "c"}}


@pytest.mark.parametrize(
    ("offered", "suits"),
    [
        pytest.param(volume("v", size="512Mi"), False, id="too small"),
        pytest.param(volume("v", size="2Gi"), True, id="larger than needed"),
        pytest.param(volume("v", storage_class="other"), False, id="another storage class"),
        pytest.param(volume("v", phase="Released"), False, id="released, not available"),
        pytest.param(volume("v", phase="Pending"), False, id="not available yet"),
        pytest.param(volume("v", accessModes=["ReadOnlyMany"]), False, id="another access mode"),
        pytest.param(volume("v", volumeMode="Block"), False, id="another volume mode"),
        pytest.param(volume("v", **RESERVED), True, id="reserved for the claim"),
        pytest.param(volume("v", phase="Pending", **RESERVED), True, id="reserved for the claim, phase aside"),
        pytest.param(
            volume("v", claimRef={"namespace": "default", "name": "d"}), False, id="reserved for another claim"
        ),
        pytest.param(
            volume("v", claimRef={"namespace": "default", "name": "c", "uid": "old"}),
            False,
            id="reserved for an earlier claim of the name",
        ),
    ],
)
def test_volumes_that_serve_a_waiting_claim(offered: object, suits: bool) -> None:
    related = storage(claim("c", storage_class=LOCAL), offered)  # type: ignore[arg-type]
    assert on(TWO[:1], related, "c") == [FITS if suits else ELSEWHERE]


def test_a_reserved_volume_is_the_only_choice() -> None:
    related = storage(claim("c", storage_class=LOCAL), volume("free"), volume("own", terms=[Z1], **RESERVED))
    assert on(TWO, related, "c") == [FITS, ELSEWHERE]


def test_the_smallest_claim_chooses_first_though_that_may_leave_none_for_another() -> None:
    shared = claim("c", storage_class=LOCAL, size="2Gi", modes=["ReadWriteMany"])
    plain = claim("d", storage_class=LOCAL)
    fits_both = volume("fits-both", size="2Gi", accessModes=["ReadWriteOnce", "ReadWriteMany"])
    large = volume("large", size="3Gi")
    assert on(TWO[:1], storage(shared, plain, fits_both, large), "c", "d") == [ELSEWHERE]
    assert on(TWO[:1], storage(shared, plain, fits_both, large), "c") == [FITS]


def test_a_claim_may_select_volumes_by_label() -> None:
    wanting = claim("c", storage_class=LOCAL, selector={"matchLabels": {"tier": "gold"}})
    assert on(TWO[:1], storage(wanting, volume("v")), "c") == [ELSEWHERE]
    assert on(TWO[:1], storage(wanting, volume("v", labels={"tier": "gold"})), "c") == [FITS]


def test_the_claim_of_an_ephemeral_volume_must_have_been_made() -> None:
    pod = a_pod("web", volumes=[{"name": "scratch", "ephemeral": {"volumeClaimTemplate": {"spec": {}}}}])
    assert verdicts(pod, TWO, related=storage()) == [ELSEWHERE] * 2
    assert verdicts(pod, TWO, related=storage(claim("web-scratch"))) == [FITS, FITS]
    (why,) = Placer(Trial(view_of(TWO, [], related=storage()))).why(pod.cls, 0)
    assert why.message == 'waiting for ephemeral volume controller to create the persistentvolumeclaim "web-scratch"'


def test_a_new_node_is_judged_by_its_template_not_by_an_old_host_name() -> None:
    local = storage(claim("c", volume="v"), volume("v", terms=[at(HOSTNAME, "a")]))
    zonal = storage(claim("c", volume="v"), volume("v", terms=[at(ZONE, "z2")]))
    cls = a_pod(volumes=using("c")).cls
    for related, expected in ((local, [True, False, False, False]), (zonal, [False, True, False, True])):
        trial = Trial(view_of(TWO, [], related=related))
        trial.add(a_template(a_node("a", zone="z1")), 1)
        trial.add(a_template(a_node("t2", zone="z2")), 1)
        placer = Placer(trial)
        assert placer.passing(cls, slice(0, 4)).tolist() == expected
        assert placer.passing(cls, slice(1, 3)).tolist() == expected[1:3]
        assert [not placer.why(cls, position) for position in range(4)] == expected


def test_the_words_say_which_volume_is_in_the_way() -> None:
    related = storage(
        claim("c", volume="v"), volume("v", handle="h", labels={ZONE: "z1"}, terms=[Z1]), csi_node("b", 0)
    )
    found = Placer(Trial(view_of(TWO, [], related=related))).why(a_pod(volumes=using("c")).cls, 1)
    assert [(one.reason, one.message, one.detail) for one in found] == [
        (NoFit.VOLUME_LIMITS, "node(s) exceed max volume count", f"driver {DRIVER} attaches at most 0 volumes here"),
        (NoFit.VOLUME_BINDING, "node(s) had volume node affinity conflict", "volume v is bound to other nodes"),
        (NoFit.VOLUME_ZONE, "node(s) had no available volume zone", "volume v is in z1"),
    ]


def test_a_volume_that_names_other_nodes_by_expression() -> None:
    term = {"matchExpressions": [expression(ZONE, "NotIn", "z1")]}
    assert on(TWO, storage(claim("c", volume="v"), volume("v", terms=[term])), "c") == [ELSEWHERE, FITS]


def test_new_nodes_attach_as_many_volumes_as_their_template_says() -> None:
    related = storage(claim("c"), claim("d"))
    one, two = a_pod(volumes=using("c")).cls, a_pod(volumes=using("d")).cls
    trial = Trial(view_of([], [], related=related))
    placer = Placer(trial)
    limited = msgspec.structs.replace(a_template(), attach_limits={DRIVER: 1})
    positions = [*trial.add(limited, 1), *trial.add(a_template(), 1)]
    for position in positions:
        placer.place(one, position)
    assert [placer.fits(two, position) for position in positions] == [False, True]
    assert [placer.fits(one, position) for position in positions] == [True, True]
    (rejection,) = placer.why(two, positions[0])
    assert (rejection.reason, rejection.detail) == (
        NoFit.VOLUME_LIMITS,
        f"driver {DRIVER} attaches at most 1 volumes here",
    )
    with trial.fork():
        (more,) = trial.add(limited, 1)
        placer.place(two, more)
        assert not placer.fits(one, more)
    (again,) = trial.add(limited, 1)
    assert placer.fits(one, again)


@pytest.mark.parametrize("limit", [0, 1, 3, 1 << 80, -1])
def test_pods_with_a_claim_each_are_counted_against_the_limit(limit: int) -> None:
    names = [f"c{number}" for number in range(4)]
    pods = [a_pod(f"on-{name}", volumes=[{**using(name)[0], "name": "data"}]) for name in names]
    view = view_of([], pods, related=storage(*map(claim, names)))
    common = merged(view, (), PodInterner())
    (cls,) = {pod.cls for pod in common.pending}
    trial = Trial(common)
    placer = Placer(trial)
    (position,) = trial.add(msgspec.structs.replace(a_template(), attach_limits={DRIVER: limit}), 1)
    placed = 0
    while placed < 4 and placer.fits(cls, position):
        placer.place(cls, position)
        placed += 1
    assert placed == max(0, min(4, limit))


FULL = NoFit.VOLUME_BINDING


@pytest.mark.parametrize(
    ("objects", "expected"),
    [
        pytest.param([], [FULL, FULL], id="none is known"),
        pytest.param([free_storage()], [FITS, FITS], id="enough everywhere"),
        pytest.param([free_storage("1Gi")], [FULL, FULL], id="too little"),
        pytest.param([free_storage(None)], [FULL, FULL], id="without an amount"),
        pytest.param([free_storage(maximumVolumeSize="1Gi")], [FULL, FULL], id="too little in one piece"),
        pytest.param([free_storage("1Gi", maximumVolumeSize="2Gi")], [FITS, FITS], id="enough in one piece"),
        pytest.param([free_storage(storage_class=LOCAL)], [FULL, FULL], id="for another storage class"),
        pytest.param([free_storage(nodeTopology=None)], [FULL, FULL], id="out of reach"),
        pytest.param([free_storage(nodeTopology={"matchLabels": {ZONE: "z2"}})], [FULL, FITS], id="in one zone"),
        pytest.param(
            [free_storage(nodeTopology={"matchExpressions": [expression(ZONE, "NotIn", "z2")]})],
            [FITS, FULL],
            id="by expression",
        ),
    ],
)
def test_free_storage(objects: list[CsiStorageCapacity], expected: list[str]) -> None:
    related = storage(claim("c", size="2Gi"), csi_driver(), *objects)
    assert on(TWO, related, "c") == expected


def test_too_little_free_storage_is_told_from_a_wrong_topology() -> None:
    made = storage_class("made", allowedTopologies=[{"matchLabelExpressions": [{"key": ZONE, "values": ["z1"]}]}])
    related = storage(made, claim("c", storage_class="made"), csi_driver())
    placer = Placer(Trial(view_of(TWO, [], related=related)))
    cls = a_pod(volumes=using("c")).cls
    assert [placer.why(cls, position)[0].message for position in (0, 1)] == [
        "node(s) did not have enough free storage",
        "node(s) didn't find available persistent volumes to bind",
    ]


@pytest.mark.parametrize(
    "related",
    [
        pytest.param(storage(claim("c")), id="of a driver that is not known"),
        pytest.param(storage(claim("c"), csi_driver(storage_capacity=False)), id="of a driver that publishes none"),
        pytest.param(storage(claim("c", resources={}), csi_driver()), id="of a claim that asks for none"),
        pytest.param(
            storage(claim("c", storage_class=LOCAL), volume("v"), csi_driver()), id="of a claim that finds a volume"
        ),
    ],
)
def test_free_storage_does_not_matter(related: Related) -> None:
    assert on(TWO, related, "c") == [FITS, FITS]


@pytest.mark.parametrize(
    ("attachments", "placed", "expected"),
    [
        pytest.param([], "", FITS, id="nothing attached"),
        pytest.param([attachment("v-d", "n")], "", FITS, id="room for one more"),
        pytest.param([attachment("v-d", "n"), attachment("v-e", "n")], "", ATTACHED, id="attached without a pod"),
        pytest.param([attachment("v-d", "n")], "d", FITS, id="attached for its pod"),
        pytest.param([attachment("v-d", "n")], "e", ATTACHED, id="attached beside a pod"),
        pytest.param([attachment("v-d", "m"), attachment("v-e", "m")], "", FITS, id="attached elsewhere"),
        pytest.param([attachment("v-d", "n", attacher="x"), attachment("v-x", "n")], "e", FITS, id="of no account"),
    ],
)
def test_volumes_that_are_still_attached_count(attachments: list[VolumeAttachment], placed: str, expected: str) -> None:
    claims = [claim(name, volume=f"v-{name}") for name in "cde"]
    volumes = [volume(f"v-{name}", handle=f"h-{name}") for name in "cde"]
    related = storage(*claims, *volumes, *attachments, csi_node("n", 2))
    pods = [a_pod(f"on-{name}", volumes=using(name), node="n") for name in placed]
    assert on([a_node("n")], related, "c", placed=pods) == [expected]


IN_TREE = [
    pytest.param("awsElasticBlockStore", {"volumeID": "aws://z1/h"}, "ebs.csi.aws.com", id="EBS"),
    pytest.param("gcePersistentDisk", {"pdName": "h"}, "pd.csi.storage.gke.io", id="GCE"),
    pytest.param("azureDisk", {"diskName": "d", "diskURI": "h"}, "disk.csi.azure.com", id="Azure"),
    pytest.param("cinder", {"volumeID": "h"}, "cinder.csi.openstack.org", id="Cinder"),
    pytest.param("vsphereVolume", {"volumePath": "h"}, "csi.vsphere.vmware.com", id="vSphere"),
    pytest.param("portworxVolume", {"volumeID": "h"}, "pxd.portworx.com", id="Portworx"),
]


def limited_to(count: int, driver: str) -> CsiNode:
    drivers = [{"name": driver, "nodeID": "i", "allocatable": {"count": count}}]
    return plain_decoder(CsiNode).one({"metadata": {"name": "n"}, "spec": {"drivers": drivers}})


@pytest.mark.parametrize("limit", [0, 1])
@pytest.mark.parametrize(("source", "disk", "driver"), IN_TREE)
def test_disks_of_kubernetes_itself_count_for_their_csi_driver(
    source: str, disk: Json, driver: str, limit: int
) -> None:
    form: Any = {source: disk}
    named = volume("v", **form)
    related = storage(claim("c", volume="v"), named, limited_to(limit, driver))
    expected = [FITS if limit else ATTACHED]
    assert on([a_node("n")], related, "c") == expected
    assert verdicts(a_pod(volumes=[{"name": "v", source: disk}]), [a_node("n")], related=related) == expected


def test_a_disk_is_attached_once_however_it_is_named() -> None:
    disk = {"volumeID": "aws://z1/h"}
    twin = volume("w", csi={"driver": "ebs.csi.aws.com", "volumeHandle": "h"})
    claims = claim("c", volume="v"), claim("d", volume="w")
    related = storage(*claims, volume("v", awsElasticBlockStore=disk), twin, limited_to(1, "ebs.csi.aws.com"))
    assert on([a_node("n")], related, "c", placed=[a_pod("other", volumes=using("d"), node="n")]) == [FITS]


def test_a_volume_that_a_plug_in_of_kubernetes_would_make_counts_for_its_csi_driver() -> None:
    old = storage_class("old", provisioner="kubernetes.io/gce-pd")
    related = storage(old, claim("c", storage_class="old"), limited_to(0, "pd.csi.storage.gke.io"))
    assert on([a_node("n")], related, "c") == [ATTACHED]


def test_a_claim_of_its_own_is_told_by_its_storage_class() -> None:
    names = ["c0", "c1"]
    pods = [a_pod(f"on-{name}", volumes=[{**using(name)[0], "name": "data"}]) for name in names]
    view = merged(
        view_of([a_node("n")], pods, related=storage(*(claim(name, storage_class=LOCAL) for name in names))),
        (),
        PodInterner(),
    )
    (rejection,) = Placer(Trial(view)).why(view.pending[0].cls, 0)
    assert rejection.detail == f"there is no volume here for its claim of storage class {LOCAL}, nor may one be made"
