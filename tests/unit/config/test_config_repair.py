"""Policies of node repair as people write them."""

import msgspec
import pytest

from autoscaler.config.document import to_options
from autoscaler.config.load import from_options, load
from autoscaler.config.repair import RepairOptions, RepairPolicy, parse_policy
from autoscaler.errors import ConfigError


@pytest.mark.parametrize(
    ("text", "policy"),
    [
        pytest.param("Ready=Unknown;30m", RepairPolicy("Ready", "Unknown", 1800.0), id="of every group"),
        pytest.param(
            " AcceleratedHardwareReady=False ; 10m ; group=a/b=c ",
            RepairPolicy("AcceleratedHardwareReady", "False", 600.0, "a/b=c"),
            id="of one group, whatever its name",
        ),
        pytest.param("CloudHealth=Impaired;5m", RepairPolicy("CloudHealth", "Impaired", 300.0), id="of the cloud"),
    ],
)
def test_a_policy_is_read(text: str, policy: RepairPolicy) -> None:
    config = load([f"--node-repair-policy={text}"])
    assert config.repair.node_repair_policy == (policy,)
    assert from_options(to_options(config)) == msgspec.structs.replace(config, given=("node-repair-policy",))


@pytest.mark.parametrize(
    ("text", "words"),
    [
        pytest.param("Ready=Unknown", "is not condition=status;toleration", id="no toleration"),
        pytest.param("Ready;30m", "is not condition=status;toleration", id="no status"),
        pytest.param("=True;30m", "is not condition=status;toleration", id="no condition"),
        pytest.param("Ready=True;1m;group=g;x", "is not condition=status;toleration", id="too many parts"),
        pytest.param("Ready=Gone;30m", 'status "Gone" that Ready never has', id="status"),
        pytest.param("Ready=Impaired;30m", 'status "Impaired" that Ready never has', id="the cloud's status"),
        pytest.param("CloudHealth=False;30m", 'status "False" that CloudHealth never has', id="no condition's status"),
        pytest.param("Ready=False;soon", 'toleration "soon" that is not a duration', id="no duration"),
        pytest.param("Ready=False;0s", 'toleration "0s" that is not above 0', id="nothing"),
        pytest.param("Ready=False;745h", "at most 744h", id="over a month"),
        pytest.param("Ready=False;1h;web", 'part "web" that is not group=name', id="group"),
        pytest.param("Ready=False;1h;group=", 'part "group=" that is not group=name', id="no group"),
    ],
)
def test_a_policy_that_cannot_be_read_is_one_line(text: str, words: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load([f"--node-repair-policy={text}"])
    (line,) = caught.value.problems
    assert words in line


def test_repair_without_scale_down_is_refused() -> None:
    with pytest.raises(ConfigError, match="node-repair-policy: removes nodes, and scale-down-enabled is false"):
        load(["--node-repair-policy=Ready=Unknown;30m", "--scale-down-enabled=false"])


def test_a_group_has_its_own_policies_or_those_of_all() -> None:
    own, common = parse_policy("A=True;1m;group=g"), parse_policy("B=True;1m")
    options = RepairOptions(node_repair_policy=(*own, *common))
    assert (options.policies_of("g"), options.policies_of("h")) == (own, common)
    assert options.named_groups == {"g"}
