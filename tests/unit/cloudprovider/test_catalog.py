import configparser
import subprocess
import sys
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest

from cloudprovider import catalog
from cloudprovider.interface import CloudProvider, Misconfigured, ProviderContext
from cloudprovider.static import StaticCloud

ROOT = Path(__file__).parents[3]


def an_entry(name: str, value: str) -> EntryPoint:
    return EntryPoint(name, value, catalog.GROUP)


def test_an_unknown_name_is_refused_with_the_known_ones() -> None:
    known = [an_entry("kwok", "a:b"), an_entry("static", "c:d")]
    with pytest.raises(Misconfigured, match="'cloud9' is not installed; known are: kwok, static"):
        catalog.factory("cloud9", known)


def test_a_provider_is_made_by_name(tmp_path: Path) -> None:
    path = tmp_path / "groups.yaml"
    path.write_text("groups: [{id: web, minSize: 0, maxSize: 1}]")
    provider = catalog.create_provider("static", ProviderContext(config_file=str(path)))
    assert isinstance(provider, StaticCloud)
    assert isinstance(provider, CloudProvider)


def test_built_in_providers_are_the_registered_ones() -> None:
    setup = configparser.ConfigParser()
    setup.read(ROOT / "setup.cfg")
    lines = setup["options.entry_points"]["autoscaler.cloudprovider"].strip().splitlines()
    assert sorted(lines) == [f"{entry.name} = {entry.value}" for entry in catalog.BUILT_IN]


def test_every_provider_is_listed_with_its_abilities() -> None:
    found = {one.name: one for one in catalog.installed(catalog.BUILT_IN)}
    assert (found["static"].module, found["static"].extra) == ("cloudprovider.static", None)
    assert found["static"].abilities == (
        "Pricing",
        "KnowsInstances",
        "Accelerators",
        "AtomicIncrease",
        "ForceDelete",
        "GroupOptions",
        "Versioned",
    )
    assert found["kwok"].abilities == ("Pricing", "KnowsInstances", "Accelerators", "ForceDelete")
    assert (found["aws"].module, found["aws"].extra) == ("cloudprovider.aws", "aws")
    assert found["aws"].abilities == ("Pricing", "KnowsInstances", "Accelerators", "GroupOptions", "Versioned")
    assert found["clusterapi"].extra is None
    assert found["clusterapi"].abilities == (
        "Pricing",
        "KnowsInstances",
        "Accelerators",
        "ForceDelete",
        "PrepareDelete",
        "GroupOptions",
        "Versioned",
    )
    assert (found["externalgrpc"].module, found["externalgrpc"].extra) == ("cloudprovider.externalgrpc", "grpc")
    azure = ("Pricing", "KnowsInstances", "Accelerators", "ForceDelete", "GroupOptions", "Versioned")
    assert (found["azure"].extra, found["azure"].abilities) == ("azure", azure)
    assert found["externalgrpc"].abilities == ("Pricing", "Accelerators", "GroupOptions")
    assert (found["gce"].module, found["gce"].extra) == ("cloudprovider.gce", "gce")
    assert found["gce"].abilities == (
        "Pricing",
        "KnowsInstances",
        "Accelerators",
        "ForceDelete",
        "GroupOptions",
        "Versioned",
    )


def test_registering_twice_the_same_is_fine_and_otherwise_ambiguous() -> None:
    static = an_entry("static", "cloudprovider.static:create")
    other = an_entry("static", "cloudprovider.kwok:create")
    assert catalog.factory("static", [*catalog.BUILT_IN, static]) is catalog.factory("static", catalog.BUILT_IN)
    with pytest.raises(Misconfigured, match="registered more than once"):
        catalog.factory("static", [*catalog.BUILT_IN, other])


def test_an_adapter_without_its_dependencies_says_what_to_install() -> None:
    entry = an_entry("cloud9", "cloudprovider_that_is_not_there:create [cloud9]")
    with pytest.raises(Misconfigured, match=r"pip install 'node-autoscaler\[cloud9\]'"):
        catalog.factory("cloud9", [entry])
    (listing,) = catalog.installed([entry])
    assert (listing.extra, listing.abilities) == ("cloud9", None)


@pytest.mark.parametrize("value", ["cloudprovider.static:nope", "cloudprovider.interface:__doc__"])
def test_what_is_no_factory_is_refused(value: str) -> None:
    with pytest.raises(Misconfigured, match=r"cannot be loaded|is not a factory"):
        catalog.factory("x", [an_entry("x", value)])


def test_an_adapter_is_imported_only_when_asked_for() -> None:
    code = (
        "import sys; from cloudprovider import catalog; catalog.factory('static', catalog.BUILT_IN);"
        "print('cloudprovider.static' in sys.modules, 'cloudprovider.kwok' in sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stdout.split() == ["True", "False"]
