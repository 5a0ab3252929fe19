"""What the operator says to the provider for GCE, and what is wrong with it."""

from pathlib import Path

import pytest

from cloudprovider.gce.factory import check, discovery_place
from cloudprovider.gce.refs import GroupRef, Place, instance_path, provider_id_of, template_path
from cloudprovider.gce.settings import Limits, read_settings
from cloudprovider.interface import Misconfigured, ProviderContext, Transient
from tests.fakes.gce import PROJECT, REGION, ZONE, FakeGce, a_group, a_regional_group, failure

URL = f"https://www.googleapis.com/compute/v1/projects/{PROJECT}/zones/{ZONE}/instanceGroups/web"


@pytest.mark.parametrize(
    "url",
    [
        URL,
        URL.replace("https://www.googleapis.com/compute/v1", "https://content.googleapis.com/compute/beta"),
        URL.replace("instanceGroups", "instanceGroupManagers"),
        f"projects/{PROJECT}/zones/{ZONE}/instanceGroupManagers/web",
    ],
)
def test_urls_of_groups_and_managers_name_the_same_group(url: str) -> None:
    settings = read_settings(ProviderContext(node_specs=[f"1:3:{url}"]))
    assert settings.groups == {GroupRef(Place(PROJECT, ZONE), "web"): Limits(1, 3)}
    assert next(iter(settings.groups)).id == URL


def test_groups_of_regions_are_named_likewise() -> None:
    url = URL.replace(f"zones/{ZONE}", f"regions/{REGION}")
    (ref,) = read_settings(ProviderContext(node_specs=[f"0:3:{url}"])).groups
    assert (ref.id, ref.place.regional, ref.place.region) == (url, True, REGION)


def test_ids_and_urls_of_machines_and_templates() -> None:
    url = f"https://www.googleapis.com/compute/v1/projects/{PROJECT}/zones/{ZONE}/instances/web-a"
    assert provider_id_of(url) == f"gce://{PROJECT}/{ZONE}/web-a"
    assert provider_id_of("") is None
    assert instance_path(f"gce://{PROJECT}/{ZONE}/web-a") == f"projects/{PROJECT}/zones/{ZONE}/instances/web-a"
    assert instance_path("aws:///us-east-1a/i-1") is None
    path = f"projects/{PROJECT}/regions/{REGION}/instanceTemplates/web"
    assert template_path(f"https://www.googleapis.com/compute/v1/{path}") == path
    assert template_path("") is None


def test_all_problems_are_told_at_once() -> None:
    context = ProviderContext(
        node_specs=["3:1:web", "0:3:web"],
        discovery_specs=[
            "asg:tag=a",
            "mig:min=0,max=3",
            "mig:namePrefix=a,min=4,max=3",
            "mig:namePrefix=a,min=x,max=3",
            "mig:namePrefix=a,min=0,max=0",
            "mig:namePrefix=a,sise=3,max=1",
            "mig:namePrefix=(,max=1",
        ],
    )
    with pytest.raises(Misconfigured) as caught:
        read_settings(context)
    lines = str(caught.value).splitlines()
    assert [line.partition(": ")[2] for line in lines if line.startswith("nodes")] == [
        "'3:1:web' is not min:max:name with 0 <= min <= max",
        "'web' is not the URL of a managed instance group, such as https://www.googleapis.com/compute/v1/projects/"
        "<project>/zones/<zone>/instanceGroups/<name>",
    ]
    found = [line.removeprefix("node-group-auto-discovery: ") for line in lines if line.startswith("node-group")]
    assert found == [
        "asg:tag=a: is not mig:namePrefix=<prefix>,min=<n>,max=<n>",
        "mig:min=0,max=3: has no namePrefix",
        "mig:namePrefix=a,min=4,max=3: min 4 is above max 3",
        "mig:namePrefix=a,min=x,max=3: min=x is not a whole number",
        "mig:namePrefix=a,min=0,max=0: max must be at least 1",
        "mig:namePrefix=a,sise=3,max=1: 'sise' is not one of namePrefix=, min=, max=",
        "mig:namePrefix=(,max=1: namePrefix: missing ), unterminated subpattern at position 0",
    ]


def test_without_groups_there_is_nothing_to_do() -> None:
    with pytest.raises(Misconfigured, match="needs --nodes"):
        read_settings(ProviderContext())


def test_the_cloud_configuration_is_the_one_of_kubernetes(tmp_path: Path) -> None:
    path = tmp_path / "gce.conf"
    path.write_text(
        '[Global]\nproject-id = acme\nlocal-zone = "us-central1-b" ; here\ntoken-url = nil\nmultizone = true\n'
        "node-tags = a\nnode-tags = b\napi-endpoint = https://compute.example/v1/\n"
    )
    cloud = read_settings(ProviderContext(node_specs=[f"0:1:{URL}"], config_file=str(path))).cloud
    assert (cloud.project, cloud.zone, cloud.endpoint) == ("acme", "us-central1-b", "https://compute.example/v1/")


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("project-id = acme\n", "cannot be read: File contains no section headers"),
        ("[global]\ntoken-url = https://token\n", "token-url is not supported"),
        ("[global]\napi-endpoint = http://plain\n", "does not begin with https://"),
    ],
)
def test_a_cloud_configuration_that_cannot_work_is_refused(tmp_path: Path, text: str, why: str) -> None:
    path = tmp_path / "gce.conf"
    path.write_text(text)
    with pytest.raises(Misconfigured, match=why):
        read_settings(ProviderContext(node_specs=[f"0:1:{URL}"], config_file=str(path)))


@pytest.mark.parametrize(
    ("zone", "regional", "place"),
    [
        ("us-central1-b", False, Place("acme", "us-central1-b")),
        ("us-central1-b", True, Place("acme", "us-central1", regional=True)),
        ("us-central1", True, Place("acme", "us-central1", regional=True)),
    ],
)
def test_groups_are_looked_for_in_the_zone_or_in_its_region(zone: str, regional: bool, place: Place) -> None:
    assert discovery_place("acme", zone, regional=regional) == place


def test_groups_that_are_not_there_end_the_start() -> None:
    api = FakeGce(a_group("web"))
    settings = read_settings(ProviderContext(node_specs=[f"0:1:{URL}", f"0:1:{URL}-2", f"0:1:{URL}-3"]))
    with pytest.raises(Misconfigured) as caught:
        check(api.client, settings, None, 0.0)
    assert str(caught.value).splitlines() == [
        f"nodes: {URL}-2: there is no such managed instance group",
        f"nodes: {URL}-3: there is no such managed instance group",
    ]
    assert api.count("list") == 1


def test_groups_that_something_else_scales_end_the_start() -> None:
    groups = [
        a_group("web", autoscaler="https://.../autoscalers/web"),
        a_regional_group("r", redistribution="PROACTIVE"),
    ]
    api = FakeGce(*groups)
    settings = read_settings(ProviderContext(node_specs=[f"0:1:{group.id}" for group in groups]))
    with pytest.raises(Misconfigured, match=r"scales it too(.|\n)*/r: .*redistribution type to NONE"):
        check(api.client, settings, None, 0.0)


def test_missing_permissions_end_the_start_and_a_cloud_that_is_away_does_not() -> None:
    settings = read_settings(ProviderContext(node_specs=[f"0:1:{URL}"]))
    api = FakeGce(a_group())
    api.fail("list", failure(403, "forbidden", "Required 'compute.instanceGroupManagers.list' permission"))
    with pytest.raises(Misconfigured, match=r"compute\.instanceGroupManagers\.list"):
        check(api.client, settings, None, 0.0)
    api.fail("list", failure(404, "notFound", "Invalid value for field 'zone'"))
    with pytest.raises(Misconfigured, match="does not exist"):
        check(api.client, settings, None, 0.0)
    api.fail("list", failure(503, "backendError"), times=3)
    with pytest.raises(Transient):
        check(api.client, settings, None, 0.0)
    check(api.client, settings, None, 0.0)
