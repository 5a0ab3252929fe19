import threading
from typing import Any

import pytest

from cloudprovider.interface import (
    ErrorClass,
    InstanceError,
    Misconfigured,
    NodeRef,
    NodeTemplate,
    NotFound,
    OutOfCapacity,
    ProviderError,
    State,
    Throttled,
    Transient,
)
from cloudprovider.static import (
    BootDelay,
    Call,
    CallFault,
    CloudSpec,
    CreationFault,
    FaultKind,
    GroupSpec,
    MachineSpec,
    PricedStaticCloud,
    Prices,
    StaticCloud,
    When,
    open_cloud,
)

BROKEN = InstanceError(ErrorClass.OTHER, "BROKEN", "no luck")


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def a_group(**fields: Any) -> GroupSpec:
    return GroupSpec(**{"id": "web", "min_size": 0, "max_size": 5, "boot": BootDelay(60, 60), **fields})


def a_cloud(*groups: GroupSpec, clock: Clock | None = None, **fields: Any) -> StaticCloud:
    return open_cloud(CloudSpec(groups=groups or (a_group(),), **fields), now=clock or Clock())


def states(cloud: StaticCloud) -> list[State]:
    return [machine.state for machine in cloud.machines()]


def ref(provider_id: str, name: str | None = None, **labels: str) -> NodeRef:
    return NodeRef(name or provider_id, provider_id, labels=labels)


def test_a_machine_runs_after_its_boot_delay() -> None:
    clock = Clock()
    cloud = a_cloud(clock=clock)
    cloud.group("web").increase(1)
    assert (cloud.group("web").target_size(), states(cloud)) == (1, [State.CREATING])
    clock.now += 59.9
    assert states(cloud) == [State.CREATING]
    clock.now += 0.1
    assert states(cloud) == [State.RUNNING]
    assert (cloud.machines()[0].born_s, cloud.machines()[0].ready_s) == (100.0, 160.0)


def test_without_a_boot_delay_only_the_target_rises() -> None:
    cloud = a_cloud(a_group(boot=None))
    cloud.group("web").increase(3)
    assert (cloud.group("web").target_size(), cloud.group("web").instances()) == (3, [])
    cloud.group("web").decrease_target(2)
    assert cloud.group("web").target_size() == 1


def test_drawn_boot_delays_stay_in_bounds_and_repeat_with_the_seed() -> None:
    def ready(seed: int) -> list[float | None]:
        cloud = a_cloud(a_group(boot=BootDelay(30, 90)), seed=seed)
        cloud.group("web").increase(5)
        return [machine.ready_s for machine in cloud.machines()]

    assert ready(1) == ready(1) != ready(2)
    assert all(at is not None and 130 <= at <= 190 for at in ready(1))
    assert len(set(ready(1))) == 5


def test_slow_deletion_shows_and_leaves_the_target_at_once() -> None:
    clock = Clock()
    cloud = a_cloud(a_group(boot=BootDelay(0, 0), delete_s=30), clock=clock)
    group = cloud.group("web")
    group.increase(2)
    victim = cloud.machines()[0]
    group.delete([ref(victim.provider_id)])
    group.delete([ref(victim.provider_id)])
    assert (group.target_size(), states(cloud)) == (1, [State.DELETING, State.RUNNING])
    assert cloud.has_instance(ref(victim.provider_id))
    clock.now += 30
    assert states(cloud) == [State.RUNNING]
    assert not cloud.has_instance(ref(victim.provider_id))


def test_the_same_node_twice_in_one_deletion_counts_once() -> None:
    cloud = a_cloud()
    cloud.group("web").increase(3)
    victim = ref(cloud.machines()[1].provider_id)
    cloud.group("web").delete([victim, victim])
    assert (cloud.group("web").target_size(), len(cloud.machines())) == (2, 2)


def test_a_machine_of_another_group_is_not_deleted() -> None:
    cloud = a_cloud(a_group(), a_group(id="batch"))
    cloud.group("web").increase(1)
    cloud.group("batch").increase(1)
    with pytest.raises(ProviderError, match="belongs to web"):
        cloud.group("batch").delete([ref("static://batch-1"), ref("static://web-1")])
    assert len(cloud.machines()) == 2


def test_force_delete_ignores_the_minimum() -> None:
    cloud = a_cloud(a_group(min_size=1), machines=[MachineSpec(group="web", provider_id="a")])
    with pytest.raises(ProviderError, match="minimum size 1"):
        cloud.group("web").delete([ref("a")])
    cloud.group("web").force_delete([ref("a")])
    assert (cloud.group("web").target_size(), cloud.machines()) == (0, [])


def test_declared_machines_keep_their_state_and_count() -> None:
    cloud = a_cloud(
        machines=[
            MachineSpec(group="web", provider_id="up", name="node-up"),
            MachineSpec(group="web", provider_id="coming", state=State.CREATING),
            MachineSpec(group="web", provider_id="bad", state=State.CREATING, error=BROKEN),
            MachineSpec(group="web", provider_id="going", state=State.DELETING),
        ]
    )
    assert [(i.provider_id, i.state, i.error) for i in cloud.group("web").instances()] == [
        ("up", State.RUNNING, None),
        ("coming", State.CREATING, None),
        ("bad", State.CREATING, BROKEN),
        ("going", State.DELETING, None),
    ]
    assert cloud.group("web").target_size() == 3


def test_a_declared_target_stands_whatever_machines_there_are() -> None:
    cloud = a_cloud(a_group(target_size=4), machines=[MachineSpec(group="web", provider_id="a")])
    assert cloud.group("web").target_size() == 4
    cloud.add_machine(MachineSpec(group="web", provider_id="b"))
    assert (cloud.group("web").target_size(), len(cloud.group("web").instances())) == (4, 2)
    with pytest.raises(ProviderError, match="exists already"):
        cloud.add_machine(MachineSpec(group="web", provider_id="b"))


def test_a_missing_machine_is_known_by_id_or_node_name() -> None:
    cloud = a_cloud(a_group(node_names=("n1",)), missing=["n1", "id-2"])
    assert not cloud.has_instance(ref("id-1", "n1"))
    assert not cloud.has_instance(ref("id-2", "n2"))
    assert cloud.has_instance(ref("id-3", "n3"))
    assert cloud.group_of(ref("id-1", "n1")) == "web"


def test_nodes_are_claimed_by_machine_then_name_then_labels() -> None:
    cloud = a_cloud(
        a_group(match_labels={"pool": "web"}),
        a_group(id="batch", node_names=("b1",)),
        machines=[MachineSpec(group="batch", provider_id="x")],
    )
    assert cloud.group_of(ref("x", "other", pool="web")) == "batch"
    assert cloud.group_of(ref("y", "b1", pool="web")) == "batch"
    assert cloud.group_of(ref("y", "y", pool="web", zone="a")) == "web"
    assert cloud.group_of(ref("y", "y", pool="other")) is None


def test_refresh_adopts_claimed_nodes_once_and_never_a_deleted_machine() -> None:
    nodes = [ref("id-1", "n1", pool="web"), ref("", "n2", pool="web"), ref("id-3", "n3")]
    cloud = StaticCloud(CloudSpec(groups=[a_group(match_labels={"pool": "web"})]), list_nodes=lambda: nodes)
    for _ in range(2):
        cloud.refresh(0.0)
        assert [i.provider_id for i in cloud.group("web").instances()] == ["id-1", "n2"]
        assert cloud.group("web").target_size() == 2
    cloud.group("web").delete([nodes[0]])
    cloud.refresh(0.0)
    assert [i.provider_id for i in cloud.group("web").instances()] == ["n2"]
    assert not cloud.has_instance(nodes[0])
    nodes[0] = ref("id-9", "n1", pool="web")
    cloud.refresh(0.0)
    assert [i.provider_id for i in cloud.group("web").instances()] == ["n2", "id-9"]


def test_an_adopted_node_answers_a_request_that_is_open() -> None:
    cloud = a_cloud(a_group(boot=None, match_labels={"pool": "web"}))
    cloud.group("web").increase(2)
    cloud.adopt([ref("id-1", "n1", pool="web")])
    assert cloud.group("web").target_size() == 2
    with pytest.raises(ProviderError, match="machines that exist"):
        cloud.group("web").decrease_target(2)


def test_names_of_nodes_and_deleted_machines_are_not_given_again() -> None:
    cloud = a_cloud(a_group(node_names=("web-1",)), machines=[MachineSpec(group="web", provider_id="web-2")])
    cloud.group("web").increase(1)
    assert cloud.machines()[-1].name == "web-3"
    cloud.group("web").delete([ref("static://web-3")])
    cloud.group("web").increase(1)
    assert cloud.machines()[-1].name == "web-4"


def test_a_reclaimed_machine_is_replaced_unless_told_otherwise() -> None:
    cloud = a_cloud(a_group(boot=BootDelay(0, 0)))
    cloud.group("web").increase(2)
    cloud.remove_machine("static://web-1")
    assert [m.name for m in cloud.machines()] == ["web-2", "web-3"]
    assert cloud.group("web").target_size() == 2
    cloud.remove_machine("static://web-2", replace=False)
    assert [m.name for m in cloud.machines()] == ["web-3"]
    assert cloud.group("web").target_size() == 1
    with pytest.raises(NotFound):
        cloud.remove_machine("static://web-2")


def test_machines_beyond_the_stock_fail_for_want_of_resources() -> None:
    cloud = a_cloud(a_group(stock_out_after=2))
    cloud.group("web").increase(3)
    assert cloud.group("web").target_size() == 3
    errors = [i.error for i in cloud.group("web").instances()]
    assert errors[:2] == [None, None]
    assert errors[2] is not None
    assert errors[2].error_class is ErrorClass.OUT_OF_RESOURCES
    failed = cloud.machines()[2]
    cloud.group("web").delete([ref(failed.provider_id)])
    assert cloud.group("web").target_size() == 2


def test_an_atomic_increase_that_would_fail_in_part_changes_nothing() -> None:
    cloud = a_cloud(a_group(stock_out_after=2))
    with pytest.raises(OutOfCapacity):
        cloud.group("web").increase_atomically(3)
    assert (cloud.group("web").target_size(), cloud.machines()) == (0, [])
    cloud.group("web").increase_atomically(2)
    assert cloud.group("web").target_size() == 2


def test_a_creation_fault_shows_after_its_delay_and_only_in_its_window() -> None:
    clock = Clock()
    fault = CreationFault(error=BROKEN, after_s=10, when=When(from_s=60, until_s=120))
    cloud = a_cloud(a_group(boot=BootDelay(5, 5), creation_faults=(fault,)), clock=clock)
    for _ in range(3):
        cloud.group("web").increase(1)
        clock.now += 60
    clock.now += 10
    assert [(i.state, i.error) for i in cloud.group("web").instances()] == [
        (State.RUNNING, None),
        (State.CREATING, BROKEN),
        (State.RUNNING, None),
    ]
    clock.now = 165
    assert cloud.group("web").instances()[1].error is None


def test_each_nth_call_fails_until_the_fault_is_used_up() -> None:
    fault = CallFault(call=Call.INCREASE, error=FaultKind.TRANSIENT, when=When(every=2, times=1))
    cloud = a_cloud(a_group(call_faults=(fault,)))
    outcomes = []
    for _ in range(4):
        try:
            cloud.group("web").increase(1)
            outcomes.append("done")
        except Transient:
            outcomes.append("failed")
    assert outcomes == ["done", "failed", "done", "done"]
    assert cloud.group("web").target_size() == 3


@pytest.mark.parametrize("kind", list(FaultKind), ids=lambda kind: kind.value)
def test_a_fault_raises_the_error_class_it_names(kind: FaultKind) -> None:
    fault = CallFault(call=Call.INCREASE, error=kind, message="why", code="CODE", retry_after_s=3.0)
    cloud = a_cloud(a_group(call_faults=(fault,)))
    with pytest.raises(ProviderError, match="why") as caught:
        cloud.group("web").increase(1)
    assert type(caught.value).__name__ == kind.value
    assert caught.value.code == "CODE"
    assert not isinstance(caught.value, Throttled) or caught.value.retry_after == 3.0
    assert cloud.group("web").target_size() == 0


def test_a_lost_answer_leaves_the_work_done() -> None:
    cloud = a_cloud()
    cloud.fail_next("web", Transient("timed out"), takes_effect=True)
    with pytest.raises(Transient):
        cloud.group("web").increase(2)
    assert cloud.group("web").target_size() == 2
    cloud.fail_next("web", Transient("timed out"), Call.DELETE, takes_effect=True)
    with pytest.raises(Transient):
        cloud.group("web").delete([ref("static://web-1")])
    assert cloud.group("web").target_size() == 1


def test_fail_next_hits_one_call_or_one_machine_or_one_refresh() -> None:
    cloud = a_cloud()
    cloud.fail_next("web", BROKEN)
    cloud.group("web").increase(2)
    assert [machine.error for machine in cloud.machines()] == [BROKEN, None]
    cloud.fail_next("web", Throttled("slow down", 5.0), Call.REFRESH)
    with pytest.raises(Throttled):
        cloud.refresh(0.0)
    cloud.refresh(0.0)
    with pytest.raises(NotFound):
        cloud.fail_next("nope", BROKEN)


def test_a_refused_increase_does_not_use_up_a_fault() -> None:
    cloud = a_cloud()
    cloud.fail_next("web", Transient("later"))
    with pytest.raises(ProviderError, match="maximum size 5"):
        cloud.group("web").increase(6)
    with pytest.raises(Transient):
        cloud.group("web").increase(1)


def test_a_contradictory_cloud_is_refused_with_every_problem() -> None:
    spec = CloudSpec(
        groups=[a_group(min_size=6), a_group()],
        machines=[MachineSpec(group="nope", provider_id="a"), MachineSpec(group="web", provider_id="a")],
    )
    with pytest.raises(Misconfigured) as caught:
        open_cloud(spec)
    assert str(caught.value).splitlines() == [
        "groups[0].maxSize: 5 is below minSize 6",
        "groups[1].id: web is used by an earlier group",
        "instances[0].group: there is no group nope",
        "instances[1].id: a is used by an earlier instance",
    ]


def test_prices_go_by_group_then_type_then_capacity() -> None:
    small = NodeTemplate(labels={"size": "s"}, capacity={"cpu": "2", "memory": "4Gi", "nvidia.com/gpu": "1"})
    cloud = a_cloud(
        a_group(template=small),
        a_group(id="flat", template=small, price_per_hour=0.5),
        a_group(id="by-label", match_labels={"pool": "x"}, price_per_hour=0.25),
        prices=Prices(cpu_per_hour=0.1, memory_gib_per_hour=0.01, gpu_per_hour=1.0, instance_types={"m": 9.0}),
    )
    assert isinstance(cloud, PricedStaticCloud)
    typed = {"node.kubernetes.io/instance-type": "m"}
    assert cloud.node_price(NodeTemplate(labels=typed, capacity={"cpu": "2"}), 2.0) == 18.0
    assert cloud.node_price(NodeTemplate(labels={**typed, "pool": "x"}, capacity={"cpu": "2"}), 2.0) == 0.5
    flat = cloud.group("flat").template()
    assert flat is not None
    assert cloud.node_price(flat, 2.0) == 1.0
    assert cloud.node_price(NodeTemplate(labels={"pool": "x"}, capacity={"cpu": "64"}), 1.0) == 0.25
    assert cloud.node_price(NodeTemplate(capacity=small.capacity), 1.0) == pytest.approx(1.24)
    assert cloud.pod_price({"cpu": "500m", "memory": "512Mi"}, 10.0) == pytest.approx(0.55)
    with pytest.raises(ProviderError, match="cannot price"):
        cloud.pod_price({"cpu": "lots"}, 1.0)


def test_gpu_types_are_those_of_the_templates_unless_given() -> None:
    template = NodeTemplate(labels={"cloud.google.com/gke-accelerator": "t4"})
    assert a_cloud(a_group(template=template)).gpu_types() == ("t4",)
    assert a_cloud(a_group(template=template), gpu_types=["a", "b"]).gpu_types() == ("a", "b")


def test_calls_from_many_threads_lose_no_machine() -> None:
    groups = [a_group(id=f"g{index}", max_size=1000) for index in range(4)]
    cloud = a_cloud(*groups)
    start = threading.Barrier(8)

    def grow(group_id: str) -> None:
        start.wait(10)
        for _ in range(50):
            cloud.group(group_id).increase(1)

    threads = [threading.Thread(target=grow, args=(f"g{index % 4}",)) for index in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert [group.target_size() for group in cloud.groups()] == [100] * 4
    assert len({machine.provider_id for machine in cloud.machines()}) == 400
