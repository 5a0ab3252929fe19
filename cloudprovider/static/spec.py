"""What a simulated cloud consists of: frozen values, written by hand in tests or decoded from a groups file."""

from collections.abc import Mapping, Sequence
from enum import StrEnum

import msgspec

from cloudprovider.interface import GroupSettings, InstanceError, MachineVersion, NodeTemplate, State
from cloudprovider.prices import Prices

GPU_LABEL = "cloud.google.com/gke-accelerator"


class BootDelay(msgspec.Struct, frozen=True):
    """Seconds from a machine's request until it runs, drawn uniformly between both bounds."""

    min_s: float
    max_s: float


class Call(StrEnum):
    """Calls of the provider contract that can be made to fail."""

    INCREASE = "increase"
    DELETE = "delete"
    DECREASE_TARGET = "decreaseTarget"
    REFRESH = "refresh"


class FaultKind(StrEnum):
    """The error that a failing call raises, by the names of the contract's error classes."""

    PROVIDER_ERROR = "ProviderError"
    OUT_OF_CAPACITY = "OutOfCapacity"
    QUOTA_EXCEEDED = "QuotaExceeded"
    THROTTLED = "Throttled"
    NOT_FOUND = "NotFound"
    TRANSIENT = "Transient"
    MISCONFIGURED = "Misconfigured"


class When(msgspec.Struct, frozen=True, kw_only=True):
    """When a fault applies."""

    from_s: float = 0.0
    """Seconds since the cloud started."""
    until_s: float | None = None
    """Exclusive end in seconds since the cloud started; None: for ever."""
    every: int = 1
    """Of the calls (or machines) within the window, hit only each n-th."""
    times: int | None = None
    """Hit at most this many; None: no limit."""


class CallFault(msgspec.Struct, frozen=True, kw_only=True):
    """A call that fails."""

    call: Call
    error: FaultKind = FaultKind.PROVIDER_ERROR
    message: str = "injected fault"
    code: str | None = None
    retry_after_s: float | None = None
    takes_effect: bool = False
    """Whether the call does its work before it raises, as one whose answer was lost."""
    when: When = When()


class CreationFault(msgspec.Struct, frozen=True, kw_only=True):
    """A machine that is asked for, and counted, but never comes up."""

    error: InstanceError
    after_s: float = 0.0
    """Seconds from the request until the error shows; before that the machine is being created."""
    when: When = When()


class GroupSpec(msgspec.Struct, frozen=True, kw_only=True):
    """One node group."""

    id: str
    min_size: int
    max_size: int
    target_size: int | None = None
    """None: as many as there are machines at the start."""
    template: NodeTemplate | None = None
    node_names: Sequence[str] = ()
    match_labels: Mapping[str, str] = {}
    """Nodes that carry all of these belong to the group; empty: none do by label."""
    price_per_hour: float | None = None
    settings: GroupSettings = GroupSettings()
    boot: BootDelay | None = None
    """None: no machine ever appears, an increase only raises the target."""
    delete_s: float = 0.0
    """Seconds a machine is listed as deleting before it is gone."""
    stock_out_after: int | None = None
    """Machines beyond this many in the group fail to be created for want of resources."""
    call_faults: Sequence[CallFault] = ()
    creation_faults: Sequence[CreationFault] = ()
    versions: Sequence[MachineVersion] = ()
    """What new machines may be made from; each is made from the first. Empty: not known."""


class MachineSpec(msgspec.Struct, frozen=True, kw_only=True):
    """A machine that exists from the start or is added from outside."""

    group: str
    provider_id: str
    name: str | None = None
    """Of the node; None: the same as `provider_id`."""
    state: State = State.RUNNING
    error: InstanceError | None = None
    ready_s: float | None = None
    """When a machine in state creating starts to run, Unix seconds; None: never."""
    zone: str = ""


class CloudSpec(msgspec.Struct, frozen=True, kw_only=True):
    """The whole cloud."""

    groups: Sequence[GroupSpec]
    machines: Sequence[MachineSpec] = ()
    missing: Sequence[str] = ()
    """Provider ids (or node names) whose node exists while the machine behind it does not."""
    impaired_machines: Mapping[str, str] = {}
    """Why machines are unhealthy, by provider id or node name."""
    machine_versions: Mapping[str, MachineVersion] = {}
    """What machines that no increase made are made from, by provider id or node name."""
    prices: Prices | None = None
    """None, and no price on any group: the cloud has no `Pricing`."""
    gpu_label: str = GPU_LABEL
    gpu_types: Sequence[str] | None = None
    """None: the values of `gpu_label` in the groups' templates."""
    seed: int = 0
    """Fixes every drawn boot delay."""


class Machine(msgspec.Struct, frozen=True, kw_only=True):
    """One machine at one moment, for a simulated kubelet."""

    group: str
    provider_id: str
    name: str
    state: State
    error: InstanceError | None
    born_s: float
    """When it was asked for, Unix seconds."""
    ready_s: float | None
    """When it starts (or started) to run; None: never."""
    zone: str
    """Its zone, among those of its group; empty if the group has none."""
