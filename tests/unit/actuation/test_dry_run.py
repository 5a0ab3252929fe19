"""A dry run's cloud and cluster: read for real, changed on paper."""

from collections.abc import Callable

import pytest

from autoscaler.actuation.cloud import Cloud
from autoscaler.actuation.dry_run import DryRunCloud
from autoscaler.kube.dry_run import DryRunWrites
from autoscaler.kube.paths import ObjectRef
from autoscaler.kube.writes import EventRecord, Writes
from autoscaler.objects.node import Taint, TaintEffect
from autoscaler.ports import EventType, Subject
from autoscaler.scaleup.plan import Increase
from cloudprovider.interface import NodeRef
from cloudprovider.static.cloud import StaticCloud, open_cloud
from cloudprovider.static.spec import CloudSpec, GroupSpec, MachineSpec
from tests.builders import a_node

N1 = NodeRef("n1", "test://n1")


class ClosedCloud(StaticCloud):
    """Knows whether it was told to clean up."""

    closed = False

    def close(self) -> None:
        self.closed = True


def a_provider() -> ClosedCloud:
    group = GroupSpec(id="g", min_size=0, max_size=9, target_size=3)
    return ClosedCloud(CloudSpec(groups=[group], machines=[MachineSpec(group="g", provider_id="test://n1", name="n1")]))


def test_reads_are_real() -> None:
    cloud = DryRunCloud(a_provider())
    cloud.refresh(0)
    found = cloud.read([a_node("n1")])
    assert (found.all[0].target_size, found.of_node) == (3, {"n1": "g"})
    assert cloud.withheld == 0


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(lambda cloud: cloud.increase("g", 2, expected=3), id="increase"),
        pytest.param(
            lambda cloud: cloud.increase_together([Increase(group="g", delta=2, before=3, max_size=9)]),
            id="increase of several groups",
        ),
        pytest.param(lambda cloud: cloud.decrease_target("g", 2), id="decrease of the target"),
        pytest.param(lambda cloud: cloud.delete_instances("g", ["test://n1"], "x"), id="deletion of machines"),
        pytest.param(lambda cloud: cloud.delete_instances("g", ["test://n1"], "x", force=True), id="by force"),
        pytest.param(lambda cloud: cloud.delete_nodes("g", [N1]), id="deletion of nodes"),
        pytest.param(lambda cloud: cloud.delete_nodes("g", [N1], force=True), id="of nodes by force"),
    ],
)
def test_changes_are_counted_and_not_made(change: Callable[[Cloud], object]) -> None:
    provider = a_provider()
    cloud = DryRunCloud(provider)
    cloud.refresh(0)
    change(cloud)
    assert cloud.withheld == 1
    assert provider.group("g").target_size() == 3
    assert [machine.name for machine in provider.machines()] == ["n1"]


def test_what_would_become_of_a_target_is_told() -> None:
    cloud = DryRunCloud(a_provider())
    cloud.refresh(0)
    grown, shrunk = cloud.increase("g", 2, expected=3), cloud.decrease_target("g", 1)
    assert [(one.before, one.wanted, one.after, one.error) for one in (grown, shrunk)] == [
        (3, 5, 3, None),
        (3, 2, 3, None),
    ]


def test_the_provider_does_not_clean_up() -> None:
    provider = a_provider()
    DryRunCloud(provider).close()
    assert not provider.closed


def test_every_change_of_a_cloud_is_withheld() -> None:
    reads = {"refresh", "read", "targets", "gone_of", "prices", "group_price", "knows_instances"}
    made_of_others = {"increase_together"}
    changes = {name for name in vars(Cloud) if not name.startswith("_")} - reads - made_of_others
    assert changes <= set(vars(DryRunCloud)), "a change that is not overridden would be made in a dry run"


def test_an_unknown_group_is_no_crash() -> None:
    cloud = DryRunCloud(open_cloud(CloudSpec(groups=[])))
    cloud.refresh(0)
    resized = cloud.increase("nope", 1, expected=0)
    assert (resized.before, resized.after) == (0, 0)


POD = ObjectRef("v1", "Pod", "p", "x")
TAINT = Taint("gone", TaintEffect.NO_SCHEDULE)
CONFIG_MAP = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c", "namespace": "x"}}
EVENT = EventRecord("e", Subject("Pod", "p", "x"), EventType.NORMAL, "Why", "because", 0.0, 0.0)

WRITES: dict[str, tuple[Callable[[DryRunWrites], object], object]] = {
    "evict": (lambda writes: writes.evict("x", "p", "u", 30), None),
    "delete_pod": (lambda writes: writes.delete_pod("x", "p", "u"), None),
    "add_taint": (lambda writes: writes.add_taint("n", TAINT), True),
    "remove_taint": (lambda writes: writes.remove_taint("n", "gone"), True),
    "annotate_node": (lambda writes: writes.annotate_node("n", {"a": "b"}), True),
    "annotate_pod": (lambda writes: writes.annotate_pod("x", "p", "u", {"a": "b"}), None),
    "create_event": (lambda writes: writes.create_event(EVENT), None),
    "repeat_event": (lambda writes: writes.repeat_event(EVENT), None),
    "put_config_map": (lambda writes: writes.put_config_map("x", "c", {"a": "b"}), ""),
    "create": (lambda writes: writes.create(CONFIG_MAP), CONFIG_MAP),
    "try_create": (lambda writes: writes.try_create(CONFIG_MAP), CONFIG_MAP),
    "replace": (lambda writes: writes.replace(CONFIG_MAP), CONFIG_MAP),
    "apply": (lambda writes: writes.apply(CONFIG_MAP), CONFIG_MAP),
    "edit_status": (lambda writes: writes.edit_status(POD, "u", lambda obj: pytest.fail("nothing was read")), True),
    "delete": (lambda writes: writes.delete(POD, "u"), None),
    "annotate": (lambda writes: writes.annotate("/api/v1/nodes/n", "u", {"a": "b"}), None),
    "put_scale": (lambda writes: writes.put_scale("/apis/apps/v1/deployments/d", "d", "x", 1, "7"), None),
}


def public_methods(kind: type) -> set[str]:
    return {name for name, value in vars(kind).items() if callable(value) and not name.startswith("_")}


def test_every_write_to_a_cluster_is_withheld() -> None:
    assert public_methods(Writes) == public_methods(DryRunWrites) == set(WRITES)


@pytest.mark.parametrize("name", WRITES)
def test_a_write_that_is_withheld_is_counted_and_answers_as_if_it_were_done(name: str) -> None:
    write, answer = WRITES[name]
    writes = DryRunWrites()
    assert write(writes) == answer
    assert writes.withheld == 1
