from collections.abc import Mapping

import msgspec
import pytest

from autoscaler.config.scaleup import Balancing
from autoscaler.errors import ConfigError
from autoscaler.objects.node import Node, Taint
from autoscaler.objects.pod import Pod, PodClass
from autoscaler.scaleup.similarity import alike, comparison, similar_groups
from autoscaler.snapshot.template import Template

GIB = 1 << 30
BASE: Mapping[str, int] = {"cpu": 4000, "memory": 100 * GIB, "pods": 110}


def a_template(
    labels: Mapping[str, str] | None = None,
    capacity: Mapping[str, int] | None = None,
    allocatable: Mapping[str, int] | None = None,
    requests: Mapping[str, int] | None = None,
    taints: tuple[Taint, ...] = (),
) -> Template:
    """A node of 4 cores, 100 GiB and 110 pods, but for what is given."""
    node = Node(
        name="t",
        labels=labels or {},
        capacity={**BASE, **(capacity or {})},
        allocatable={**BASE, **(allocatable or {})},
        taints=taints,
    )
    return Template(node, () if requests is None else (Pod(name="p", cls=PodClass(requests=requests)),))


@pytest.mark.parametrize(
    ("other", "similar"),
    [
        pytest.param(a_template(), True, id="equal ones are"),
        pytest.param(a_template(capacity={"memory": 98_500 * GIB // 1000}), True, id="1.5% less memory is close"),
        pytest.param(a_template(capacity={"memory": 98_400 * GIB // 1000}), False, id="1.6% less memory is not"),
        pytest.param(a_template(capacity={"cpu": 3999}), False, id="CPU capacity must be equal"),
        pytest.param(a_template(capacity={"pods": 109}), False, id="so must that for pods"),
        pytest.param(a_template(capacity={"gpu": 1}), False, id="and the kinds of resources"),
        pytest.param(a_template(allocatable={"cpu": 3800}), True, id="5% less allocatable is close"),
        pytest.param(a_template(allocatable={"cpu": 3799}), False, id="more than that is not"),
        pytest.param(a_template(allocatable={"gpu": 1}), False, id="allocatable kinds must be equal"),
        pytest.param(a_template(requests={"cpu": 200}), True, id="5% less free is close"),
        pytest.param(a_template(requests={"cpu": 201}), False, id="more than that is not free enough"),
        pytest.param(a_template(requests={"gpu": 0}), False, id="a resource that only one requests"),
        pytest.param(
            a_template(taints=(Taint(key="dedicated", effect="NoSchedule"),)), True, id="taints are not compared"
        ),
    ],
)
def test_resources(other: Template, similar: bool) -> None:
    how = comparison(Balancing(), "static")
    assert alike(a_template(), other, how) is similar
    assert alike(other, a_template(), how) is similar


def test_ratios_come_from_the_flags() -> None:
    loose = Balancing(memory_difference_ratio=0.5, max_allocatable_difference_ratio=0.5, max_free_difference_ratio=0.8)
    other = a_template(capacity={"memory": 50 * GIB}, allocatable={"memory": 50 * GIB}, requests={"memory": 30 * GIB})
    assert alike(a_template(), other, comparison(loose, "static"))
    tight = msgspec.structs.replace(loose, max_free_difference_ratio=0.79)
    assert not alike(a_template(), other, comparison(tight, "static"))


ZONE = {"topology.kubernetes.io/zone": "a"}


@pytest.mark.parametrize(
    ("one", "other", "options", "provider", "similar"),
    [
        pytest.param({"pool": "a"}, {"pool": "a"}, Balancing(), "static", True, id="equal labels"),
        pytest.param({"pool": "a"}, {"pool": "b"}, Balancing(), "static", False, id="another value"),
        pytest.param({"pool": "a"}, {}, Balancing(), "static", False, id="a label that one lacks"),
        pytest.param(ZONE, {"topology.kubernetes.io/zone": "b"}, Balancing(), "static", True, id="zones may differ"),
        pytest.param(ZONE, {}, Balancing(), "static", True, id="a zone may be missing"),
        pytest.param(
            {"failure-domain.beta.kubernetes.io/region": "a"}, {}, Balancing(), "static", True, id="regions may differ"
        ),
        pytest.param({"kubernetes.io/hostname": "a"}, {}, Balancing(), "static", True, id="host names differ"),
        pytest.param({"kops.k8s.io/instancegroup": "a"}, {}, Balancing(), "static", True, id="kops names its groups"),
        pytest.param(
            {"pool": "a"}, {}, Balancing(balancing_ignore_label=("pool",)), "static", True, id="ignored by flag"
        ),
        pytest.param({"eks.amazonaws.com/nodegroup": "a"}, {}, Balancing(), "aws", True, id="AWS names its groups"),
        pytest.param({"eks.amazonaws.com/nodegroup": "a"}, {}, Balancing(), "static", False, id="only on AWS"),
        pytest.param({"topology.gke.io/zone": "a"}, {}, Balancing(), "gce", True, id="GCE has its own zones"),
        pytest.param({"creationSource": "a"}, {}, Balancing(), "azure", True, id="Azure marks how nodes came"),
    ],
)
def test_labels(
    one: Mapping[str, str], other: Mapping[str, str], options: Balancing, provider: str, similar: bool
) -> None:
    how = comparison(options, provider)
    assert alike(a_template(labels=one), a_template(labels=other), how) is similar
    assert alike(a_template(labels=other), a_template(labels=one), how) is similar


@pytest.mark.parametrize(
    ("one", "other", "similar"),
    [
        pytest.param({"fam": "m", "x": "1"}, {"fam": "m", "x": "2"}, True, id="others do not matter"),
        pytest.param({"fam": "m"}, {"fam": "r"}, False, id="a different value"),
        pytest.param({}, {}, False, id="the label must exist"),
    ],
)
def test_chosen_labels_replace_everything_else(one: Mapping[str, str], other: Mapping[str, str], similar: bool) -> None:
    how = comparison(Balancing(balancing_label=("fam",)), "static")
    assert alike(a_template(labels=one), a_template(labels=other, capacity={"cpu": 64000}), how) is similar


@pytest.mark.parametrize(
    ("pool", "provider", "similar"),
    [
        pytest.param("np", "azure", True, id="one pool, one kind"),
        pytest.param("", "azure", False, id="an empty name is none"),
        pytest.param("np", "aws", False, id="only on Azure"),
    ],
)
def test_pools_of_azure(pool: str, provider: str, similar: bool) -> None:
    how = comparison(Balancing(), provider)
    labels = {"kubernetes.azure.com/agentpool": pool}
    assert alike(a_template(labels=labels), a_template(labels=labels, capacity={"cpu": 8000}), how) is similar


def test_groups_are_compared_one_by_one_because_closeness_does_not_carry_over() -> None:
    memory = {"a": 1000, "b": 1014, "c": 1028, "d": 5000}
    templates = {name: a_template(capacity={"memory": amount}) for name, amount in memory.items()}
    found = similar_groups(templates, comparison(Balancing(), "static"))
    assert found == {"a": ("b",), "b": ("a", "c"), "c": ("b",), "d": ()}


def test_the_two_label_flags_exclude_each_other() -> None:
    with pytest.raises(ConfigError, match="balancing-ignore-label"):
        comparison(Balancing(balancing_label=("a",), balancing_ignore_label=("b",)), "static")
