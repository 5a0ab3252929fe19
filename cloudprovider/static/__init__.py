"""A simulated cloud: groups from a file or from Python, machines in memory, boot delays, stock-outs and faults."""

from cloudprovider.prices import Prices
from cloudprovider.static.cloud import PricedStaticCloud, StaticCloud, open_cloud
from cloudprovider.static.file import decode_cloud, load_cloud
from cloudprovider.static.provider import create
from cloudprovider.static.spec import (
    BootDelay,
    Call,
    CallFault,
    CloudSpec,
    CreationFault,
    FaultKind,
    GroupSpec,
    Machine,
    MachineSpec,
    When,
)

__all__ = [
    "BootDelay",
    "Call",
    "CallFault",
    "CloudSpec",
    "CreationFault",
    "FaultKind",
    "GroupSpec",
    "Machine",
    "MachineSpec",
    "PricedStaticCloud",
    "Prices",
    "StaticCloud",
    "When",
    "create",
    "decode_cloud",
    "load_cloud",
    "open_cloud",
]
