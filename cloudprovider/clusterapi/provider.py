"""The clusterapi provider: scales MachineDeployments, MachineSets and MachinePools of a management cluster.

Behaves as Cluster Autoscaler's provider of that name, with differences that docs/providers/clusterapi.md lists. A
refresh lists each kind once; nothing is watched.
"""

import logging
from collections.abc import Callable, Sequence

from cloudprovider.clusterapi.capacity import Describer
from cloudprovider.clusterapi.fleet import build_fleet, candidates
from cloudprovider.clusterapi.group import CapiGroup
from cloudprovider.clusterapi.infrastructure import Infrastructure, reference_of
from cloudprovider.clusterapi.keys import GPU_LABEL, GROUP, Keys
from cloudprovider.clusterapi.management import Management
from cloudprovider.clusterapi.objects import Machine, Scalable
from cloudprovider.clusterapi.roster import Roster
from cloudprovider.clusterapi.selection import read_selection
from cloudprovider.interface import Misconfigured, NodeRef, NodeTemplate, ObjectApi, ProviderContext
from cloudprovider.prices import PriceListed, read_price_file
from cloudprovider.problems import Problems

_GROUP_VARIABLE = "CAPI_GROUP"
_VERSION_VARIABLE = "CAPI_VERSION"
_AUTHORITATIVE = "clusterapi-cloud-config-authoritative"

log = logging.getLogger(__name__)


class CapiProvider:
    """A `CloudProvider` with `KnowsInstances` and `Accelerators`."""

    name = "clusterapi"

    def __init__(self, management: Management, describer: Describer, now: Callable[[], float]) -> None:
        self._management = management
        self._describer = describer
        self._now = now
        self._infrastructure = Infrastructure(management.api, everywhere=management.selection.namespaces == (None,))
        self._roster = Roster(management.keys)
        self._groups: tuple[CapiGroup, ...] = ()
        self._said: frozenset[str] = frozenset()

    def refresh(self, now: float) -> None:
        """List every kind, and the machine templates that groups refer to."""
        management, roster = self._management, self._roster
        began = roster.ledger.begin()
        listed = management.list_all()
        problems = Problems()
        chosen = candidates(listed, management.selection, management.keys)
        templates = self._infrastructure.templates(chosen, now, problems)

        def describe(scalable: Scalable, machines: Sequence[Machine], problems: Problems) -> NodeTemplate | None:
            reference = reference_of(scalable)
            made_from = None if reference is None else templates.get(reference)
            return self._describer.template(scalable, made_from, roster.labels_of_nodes(machines), problems)

        fleet = build_fleet(listed, chosen, management.keys, describe, problems)
        roster.renew(fleet)
        roster.ledger.end(began, fleet.groups.values())
        self._groups = tuple(CapiGroup(state, roster, management, self._now) for state in fleet.groups.values())
        for group in self._groups if roster.ledger.stray() else ():
            group.settle_marks()
        self._say(problems)

    def groups(self) -> Sequence[CapiGroup]:
        """All groups: MachineSets, MachineDeployments, MachinePools, each as the API server lists them."""
        return self._groups

    def group_of(self, node: NodeRef) -> str | None:
        """Return the group of a node or of an instance without one."""
        self._roster.saw(node)
        return self._roster.group_of(node)

    def has_instance(self, node: NodeRef) -> bool:
        """Whether the node's Machine exists."""
        return self._roster.machine_of(node) is not None

    @property
    def gpu_label(self) -> str:
        """The label that nodes with GPUs are given when they register."""
        return GPU_LABEL

    def gpu_types(self) -> Sequence[str]:
        """Return nothing, because users choose the values."""
        return ()

    def close(self) -> None:
        """Do nothing."""

    def _say(self, problems: Problems) -> None:
        for line in problems.lines:
            if line not in self._said:
                log.warning("clusterapi.unusable %s", line)
        self._said = frozenset(problems.lines)


class PricedCapiProvider(PriceListed, CapiProvider):
    """A `CapiProvider` that also has `Pricing`."""


def create(context: ProviderContext) -> CapiProvider | PricedCapiProvider:
    """Find the management cluster and what it serves. Raises `Misconfigured`.

    `CAPI_GROUP` and `CAPI_VERSION` name another API group and a version. `CAPI_SCALE_ZERO_DEFAULT_ARCH` names the
    architecture of nodes whose architecture is not known otherwise.
    """
    problems = Problems()
    selection = read_selection(context.discovery_specs, problems)
    describer = Describer.for_environment(context.environment, problems)
    problems.raise_if_any()
    prices = None if context.price_file is None else read_price_file(context.price_file)
    keys = Keys(context.environment.get(_GROUP_VARIABLE) or GROUP)
    version = context.environment.get(_VERSION_VARIABLE) or None
    management = Management.open(_management_api(context), keys, selection, version)
    if prices is None:
        return CapiProvider(management, describer, context.now)
    return PricedCapiProvider(management, describer, context.now).priced_by(prices)


def _management_api(context: ProviderContext) -> ObjectApi:
    """Return access to the cluster that has the Machines. It may be the autoscaled cluster itself."""
    elsewhere = context.config_file is not None or context.flags.get(_AUTHORITATIVE, False)
    if elsewhere and context.connect is not None:
        return context.connect(context.config_file)
    if elsewhere or context.object_api is None:
        raise Misconfigured("cloud-provider: clusterapi needs access to a cluster, where its Machines live")
    return context.object_api
