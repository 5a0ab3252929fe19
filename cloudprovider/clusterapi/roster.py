"""The fleet of the last refresh with later writes, and the groups of nodes."""

from collections.abc import Iterable, Iterator, Mapping

from cloudprovider.clusterapi.capacity import TOLD_BY_NODES
from cloudprovider.clusterapi.fleet import Fleet, GroupState, tail_of
from cloudprovider.clusterapi.keys import Keys
from cloudprovider.clusterapi.ledger import Ledger
from cloudprovider.clusterapi.objects import Machine, MachineKey
from cloudprovider.interface import ErrorClass, Instance, InstanceError, MachineVersion, NodeRef, State

_PENDING, _FAILED, _DELETING = "pending-machine-", "failed-machine-", "deleting-machine-"
_MADE_UP = (_PENDING, _FAILED, _DELETING)


class Roster:
    """Machines as the autoscaler sees them. `fleet` is replaced as a whole by a refresh."""

    def __init__(self, keys: Keys) -> None:
        self.fleet = Fleet()
        self.ledger = Ledger()
        self._keys = keys
        self._seen: dict[MachineKey, NodeRef] = {}

    def renew(self, fleet: Fleet) -> None:
        """Take in the result of a refresh."""
        self._seen = {key: node for key, node in self._seen.items() if key in fleet.machines}
        self.fleet = fleet

    def saw(self, node: NodeRef) -> None:
        """Remember a Machine's node, because its labels predict those of the next node."""
        key = self.machine_of(node)
        if key is not None and node.labels:
            self._seen[key] = node

    def group_of(self, node: NodeRef) -> str | None:
        """Return the id of the group of a node, or of an instance without a node."""
        key = self.machine_of(node)
        return None if key is None else self.fleet.group_by_machine.get(key)

    def machine_of(self, node: NodeRef) -> MachineKey | None:
        """Return the Machine of a node: the Machine that its annotations name, else that of its provider id."""
        fleet = self.fleet
        name, namespace = (node.annotations.get(key) for key in (self._keys.machine, self._keys.namespace))
        if name and namespace and (namespace, name) in fleet.machines:
            return namespace, name
        provider_id = node.provider_id
        if not provider_id:
            return None
        for prefix in _MADE_UP:
            if provider_id.startswith(prefix):
                owner, _, rest = provider_id.removeprefix(prefix).partition("_")
                return (owner, rest) if (owner, rest) in fleet.machines else None
        return fleet.machine_by_id.get(provider_id) or fleet.machine_by_tail.get(tail_of(provider_id))

    def is_leaving(self, group: GroupState, machine: Machine) -> bool:
        """Whether a Machine is being deleted, or will be without a further call."""
        return machine.deleting or machine.key in group.leaving or machine.key in self.ledger.leaving()

    def instances(self, group: GroupState) -> Iterator[Instance]:
        """Yield the machines of a group."""
        for machine in group.machines:
            yield self._instance(machine, leaving=self.is_leaving(group, machine))

    def id_of(self, machine: Machine) -> str:
        """Return the provider id of a Machine's node; empty if it is not known."""
        if machine.provider_id or not machine.has_node:
            return machine.provider_id
        node = self._seen.get(machine.key)
        return "" if node is None else node.provider_id

    def labels_of_nodes(self, machines: Iterable[Machine]) -> Mapping[str, str]:
        """Return the predictive labels that all nodes of these Machines share."""
        nodes = [self._seen[machine.key] for machine in machines if machine.key in self._seen]
        if not nodes:
            return {}
        first, *others = (node.labels for node in nodes)
        return {
            label: first[label]
            for label in TOLD_BY_NODES
            if first.get(label) and all(labels.get(label) == first[label] for labels in others)
        }

    def _instance(self, machine: Machine, *, leaving: bool) -> Instance:
        error = None
        if leaving:
            state, prefix = State.DELETING, _DELETING
            if machine.failed:
                prefix, error = _FAILED, _failure(machine, "DeletingFailed", "the Machine cannot be deleted")
        elif machine.has_node:
            state, prefix = State.RUNNING, _PENDING
        else:
            state, prefix = State.CREATING, _PENDING
            if machine.failed:
                prefix, error = _FAILED, _failure(machine, "ProvisioningFailed", "the Machine cannot be provisioned")
        version = version_of(machine.kubernetes)
        return Instance(self.id_of(machine) or f"{prefix}{'_'.join(machine.key)}", state, error, version=version)


def version_of(kubernetes: str) -> MachineVersion | None:
    """Return what a Machine with this version of Kubernetes is made from; None if it has no version."""
    return MachineVersion(f"Kubernetes {kubernetes}") if kubernetes else None


def _failure(machine: Machine, code: str, what: str) -> InstanceError:
    return InstanceError(ErrorClass.OTHER, code, f"{what}: {machine.message}" if machine.message else what)
