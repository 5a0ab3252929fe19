"""What a refresh reads, what it leaves out, and how often it asks."""

import msgspec
import pytest

from cloudprovider.gce.provider import GceProvider, ListPricedGceProvider
from cloudprovider.gce.refs import Place
from cloudprovider.gce.settings import read_settings
from cloudprovider.gce.transport import Answer
from cloudprovider.interface import NodeRef, ProviderContext, ProviderError, State, Transient
from tests.fakes.gce import (
    PROJECT,
    REGION,
    ZONE,
    FakeGce,
    Group,
    Machine,
    a_group,
    a_regional_group,
    a_template,
    failure,
    provider_id,
)

NOW = 1_000_000.0


def opened(api: FakeGce, *specs: str, place: Place | None = None, refresh: bool = True, **flags: float) -> GceProvider:
    nodes = [spec for spec in specs if not spec.startswith("mig:")]
    discovery = [spec for spec in specs if spec.startswith("mig:")]
    named = {name.replace("_", "-"): value for name, value in flags.items()}
    context = ProviderContext(node_specs=nodes, discovery_specs=discovery, flags=named)
    provider = ListPricedGceProvider(api.client, read_settings(context), place)
    if refresh:
        provider.refresh(NOW)
    return provider


def named(*groups: Group) -> list[str]:
    return [f"0:10:{group.id}" for group in groups]


def names(provider: GceProvider) -> list[str]:
    return [group.id.rpartition("/")[2] for group in provider.groups()]


def test_every_page_is_read() -> None:
    groups = [a_group(f"web-{number}") for number in range(5)]
    api = FakeGce(*groups, page=2)
    api.add_machines("web-3", *(f"web-3-{letter}" for letter in "abcde"))
    provider = opened(api, *named(*groups))
    assert names(provider) == [group.name for group in groups]
    assert [len(group.instances()) for group in provider.groups()] == [0, 0, 0, 5, 0]


def test_an_idle_refresh_asks_once_for_each_place_and_each_group_in_use() -> None:
    groups = [a_group("empty"), a_group("used"), a_group("other", place="zones/us-central1-a")]
    api = FakeGce(*groups, page=500)
    api.add_machines("used", "used-a")
    provider = opened(api, *named(*groups))
    for minute in range(1, 4):
        before = len(api.requests)
        provider.refresh(NOW + 60 * minute)
        asked = [path.split("/", 2)[2] for _, path in api.requests[before:]]
        assert asked == [
            f"zones/{ZONE}/instanceGroupManagers",
            "zones/us-central1-a/instanceGroupManagers",
            f"zones/{ZONE}/instanceGroupManagers/used/listManagedInstances",
        ]


def test_lists_of_machines_are_not_read_again_within_the_wait_time() -> None:
    api = FakeGce(a_group())
    api.add_machines("web", "web-a")
    provider = opened(api, *named(api.group("web")), gce_mig_instances_min_refresh_wait_time=5.0)
    api.add_machines("web", "web-b")
    provider.refresh(NOW + 4)
    group = provider.groups()[0]
    assert (group.target_size(), len(group.instances())) == (2, 1)
    provider.refresh(NOW + 6)
    assert len(group.instances()) == 2


def test_a_clock_that_went_back_does_not_keep_old_lists() -> None:
    api = FakeGce(a_group())
    api.add_machines("web", "web-a")
    provider = opened(api, *named(api.group("web")))
    api.add_machines("web", "web-b")
    provider.refresh(NOW - 3600)
    assert len(provider.groups()[0].instances()) == 2


def test_groups_are_found_by_the_beginning_of_their_names() -> None:
    api = FakeGce(a_group("gke-web-1"), a_group("gke-web-"), a_group("my-gke-web-2"), a_group("gke-db-1"))
    provider = opened(api, "mig:namePrefix=gke-web-,min=1,max=7", place=Place(PROJECT, ZONE))
    assert [(group.min_size, group.max_size) for group in provider.groups()] == [(1, 7)]
    assert names(provider) == ["gke-web-1"]


def test_what_is_named_counts_before_what_is_found_and_the_first_finder_before_the_second() -> None:
    api = FakeGce(a_group("web-a"), a_group("web-b"))
    specs = ("mig:namePrefix=web-,min=0,max=5", "mig:namePrefix=we,min=0,max=9", f"2:3:{api.group('web-b').id}")
    provider = opened(api, *specs, place=Place(PROJECT, ZONE))
    sizes = {group.id.rpartition("/")[2]: (group.min_size, group.max_size) for group in provider.groups()}
    assert sizes == {"web-b": (2, 3), "web-a": (0, 5)}


def test_groups_come_and_go_at_refreshes() -> None:
    api = FakeGce(a_group("web-a"))
    provider = opened(api, "mig:namePrefix=web,max=5", place=Place(PROJECT, ZONE))
    kept = provider.groups()[0]
    fresh = a_group("web-b")
    api.groups[fresh.path] = fresh
    provider.refresh(NOW + 60)
    assert names(provider) == ["web-a", "web-b"]
    assert provider.groups()[0] is kept
    del api.groups[api.group("web-a").path]
    provider.refresh(NOW + 120)
    assert names(provider) == ["web-b"]


def test_regional_clusters_look_in_all_zones_and_in_the_region() -> None:
    api = FakeGce(
        a_group("web-a", place="zones/us-central1-a"),
        a_regional_group("web-r"),
        a_group("web-far", place="zones/europe-west1-b"),
    )
    provider = opened(api, "mig:namePrefix=web,max=5", place=Place(PROJECT, REGION, regional=True))
    assert sorted(names(provider)) == ["web-a", "web-r"]
    provider.refresh(NOW + 60)
    assert api.count("regions") == 1


def test_found_groups_that_something_else_scales_are_left_out_and_told_once(caplog: pytest.LogCaptureFixture) -> None:
    api = FakeGce(
        a_group("web-a", place="zones/us-central1-a", autoscaler="autoscalers/web-a"),
        a_regional_group("web-r", redistribution="PROACTIVE"),
        a_group("web-b"),
    )
    provider = opened(api, "mig:namePrefix=web,max=5", place=Place(PROJECT, REGION, regional=True))
    provider.refresh(NOW + 60)
    assert names(provider) == ["web-b"]
    assert [record.message for record in caplog.records] == ["gce.group_left_out"] * 2
    api.group("web-r").redistribution = "NONE"
    provider.refresh(NOW + 120)
    assert sorted(names(provider)) == ["web-b", "web-r"]


def test_a_named_group_that_vanished_stops_nothing() -> None:
    api = FakeGce(a_group("web"), a_group("batch"))
    provider = opened(api, *named(*api.groups.values()))
    del api.groups[api.group("web").path]
    provider.refresh(NOW + 60)
    assert names(provider) == ["batch"]


def test_a_group_that_vanishes_between_two_requests_is_left_out() -> None:
    api = FakeGce(a_group("web"), a_group("batch"))
    api.add_machines("web", "web-a")
    provider = opened(api, *named(*api.groups.values()), refresh=False)
    api.fail("listManagedInstances", failure(404, "notFound"))
    provider.refresh(NOW)
    assert names(provider) == ["batch"]


def test_a_failed_refresh_leaves_what_was_known() -> None:
    api = FakeGce(a_group())
    api.add_machines("web", "web-a")
    provider = opened(api, *named(api.group("web")))
    api.fail("list", Answer(503), times=3)
    with pytest.raises(Transient):
        provider.refresh(NOW + 60)
    assert provider.groups()[0].target_size() == 1
    assert provider.group_of(NodeRef("web-a", provider_id("web-a"))) == provider.groups()[0].id


def test_reads_are_tried_a_few_times() -> None:
    api = FakeGce(a_group())
    api.fail("list", Answer(503), times=2)
    assert names(opened(api, *named(api.group("web")))) == ["web"]
    assert api.count("list") == 3


def test_an_answer_without_sense_is_an_error_of_the_provider() -> None:
    api = FakeGce(a_group())
    for nonsense in (b"<html>", b'{"items": [{"targetSize": "many"}]}', b"[]"):
        api.fail("list", Answer(200, nonsense), times=3)
        with pytest.raises(ProviderError):
            opened(api, *named(api.group("web")))
        api.failing.clear()


def test_several_groups_are_listed_at_a_time_where_the_operator_allows() -> None:
    groups = [a_group(f"web-{number}") for number in range(9)]
    api = FakeGce(*groups, page=500)
    for group in groups:
        api.add_machines(group.name, f"{group.name}-a")
    provider = opened(api, *named(*groups), gce_concurrent_refreshes=4)
    assert [group.instances()[0].provider_id for group in provider.groups()] == [
        provider_id(f"{group.name}-a") for group in groups
    ]


def test_in_bulk_groups_at_rest_take_one_request_a_zone() -> None:
    groups = [a_group(f"web-{number}") for number in range(4)]
    api = FakeGce(*groups, page=500)
    for group in groups:
        api.add_machines(group.name, f"{group.name}-a")
    provider = opened(api, *named(*groups), bulk_mig_instances_listing_enabled=True)
    assert (api.count("instances"), api.count("listManagedInstances")) == (1, 0)
    assert [[instance.provider_id for instance in group.instances()] for group in provider.groups()] == [
        [provider_id(f"{group.name}-a")] for group in groups
    ]


@pytest.mark.parametrize(
    "machine",
    [
        pytest.param(Machine(ZONE, "CREATING", errors=[{"code": "QUOTA_EXCEEDED"}]), id="one comes"),
        pytest.param(Machine(ZONE, "DELETING", "STOPPING"), id="one goes"),
        pytest.param(Machine(ZONE, "NONE", "RUNNING", orphan=True), id="one does not say whose it is"),
    ],
)
def test_in_bulk_other_groups_are_asked_themselves(machine: Machine) -> None:
    api = FakeGce(a_group("web"), a_group("batch"), page=500)
    api.add_machines("web", "web-a")
    api.group("web").machines["web-b"] = msgspec.structs.replace(machine)
    api.add_machines("batch", "batch-a")
    provider = opened(api, *named(*api.groups.values()), bulk_mig_instances_listing_enabled=True)
    assert api.count("listManagedInstances") == 1
    assert [len(group.instances()) for group in provider.groups()] == [2, 1]


def test_in_bulk_machines_of_a_region_are_found_in_its_zones() -> None:
    api = FakeGce(a_regional_group(), page=500)
    api.add_machines("web", "web-a", zone="us-central1-a")
    api.add_machines("web", "web-f", zone="us-central1-f")
    provider = opened(api, *named(api.group("web")), bulk_mig_instances_listing_enabled=True)
    assert (api.count("instances"), api.count("listManagedInstances")) == (3, 0)
    assert len(provider.groups()[0].instances()) == 2


def test_states_are_what_the_group_does_with_its_machines() -> None:
    api = FakeGce(a_group())
    actions = ["NONE", "VERIFYING", "RECREATING", "CREATING", "DELETING"]
    for action in actions:
        api.add_machines("web", f"web-{action.lower()}", action=action)
    provider = opened(api, *named(api.group("web")))
    assert [instance.state for instance in provider.groups()[0].instances()] == [
        State.RUNNING,
        State.RUNNING,
        State.CREATING,
        State.CREATING,
        State.DELETING,
    ]


def test_a_machine_that_is_gone_is_told_from_one_that_never_was() -> None:
    api = FakeGce(a_group())
    api.add_machines("web", "web-a")
    provider = opened(api, *named(api.group("web")))
    node, stranger = NodeRef("web-a", provider_id("web-a")), NodeRef("vm", provider_id("vm"))
    assert (provider.group_of(node), provider.has_instance(node)) == (api.group("web").id, True)
    assert provider.group_of(stranger) is None
    api.group("web").machines.clear()
    provider.refresh(NOW + 60)
    assert (provider.group_of(node), provider.has_instance(node)) == (api.group("web").id, False)
    provider.refresh(NOW + 60 + 3601)
    assert provider.group_of(node) is None


def test_templates_are_read_once_an_hour() -> None:
    api = FakeGce(a_group("web"), a_group("batch"))
    provider = opened(api, *named(*api.groups.values()))
    for minute in range(1, 60):
        provider.refresh(NOW + 60 * minute)
    assert (api.count("instanceTemplates"), api.count("machineTypes")) == (1, 1)
    provider.refresh(NOW + 3601)
    assert (api.count("instanceTemplates"), api.count("machineTypes")) == (2, 2)


def test_a_new_template_is_seen_at_the_next_refresh() -> None:
    api = FakeGce(a_group())
    provider = opened(api, *named(api.group("web")))
    path = f"projects/{PROJECT}/regions/{REGION}/instanceTemplates/larger"
    api.templates[path] = a_template(machineType="n2-custom-8-16384")
    api.group("web").template = f"https://www.googleapis.com/compute/v1/{path}"
    provider.refresh(NOW + 60)
    template = provider.groups()[0].template()
    assert template is not None
    assert template.capacity["cpu"] == "8"
    assert api.count("machineTypes") == 1


def test_a_template_that_cannot_be_read_costs_its_group_only_growth_from_zero(
    caplog: pytest.LogCaptureFixture,
) -> None:
    other = f"projects/{PROJECT}/global/instanceTemplates/other"
    api = FakeGce(a_group("web"), a_group("batch", template=f"https://www.googleapis.com/compute/v1/{other}"))
    provider = opened(api, *named(*api.groups.values()))
    assert [group.template() is None for group in provider.groups()] == [False, True]
    api.templates[other] = a_template()
    provider.refresh(NOW + 59)
    assert provider.groups()[1].template() is None
    provider.refresh(NOW + 61)
    assert provider.groups()[1].template() is not None
    assert [record.message for record in caplog.records] == ["gce.no_template"]


def test_a_template_that_contradicts_itself_is_told_once(caplog: pytest.LogCaptureFixture) -> None:
    text = "AUTOSCALER_ENV_VARS: ephemeral_storage_local_ssd_count=2\n"
    api = FakeGce(a_group())
    api.templates = {
        f"projects/{PROJECT}/global/instanceTemplates/web": a_template(
            metadata={"items": [{"key": "kube-env", "value": text}]}
        )
    }
    provider = opened(api, *named(api.group("web")))
    provider.refresh(NOW + 61)
    assert provider.groups()[0].template() is None
    assert [record.message for record in caplog.records] == ["gce.no_template"]


def test_a_template_that_cannot_be_read_again_is_used_on() -> None:
    api = FakeGce(a_group())
    provider = opened(api, *named(api.group("web")))
    api.fail("instanceTemplates", Answer(503), times=3)
    provider.refresh(NOW + 3601)
    assert provider.groups()[0].template() is not None


def test_flags_can_be_overridden_in_the_template() -> None:
    text = (
        "AUTOSCALER_ENV_VARS: autoscaling_options=scaledownutilizationthreshold=0.4,scaledownunneededtime=30m,"
        "scaledownunreadytime=soon\n"
    )
    metadata = {"items": [{"key": "kube-env", "value": text}]}
    api = FakeGce(a_group())
    api.templates = {f"projects/{PROJECT}/global/instanceTemplates/web": a_template(metadata=metadata)}
    settings = opened(api, *named(api.group("web"))).groups()[0].settings()
    assert settings.scale_down_utilization_threshold == 0.4
    assert settings.scale_down_unneeded_time_s == 1800
    assert settings.scale_down_unready_time_s is None
