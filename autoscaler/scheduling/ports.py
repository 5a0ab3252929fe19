"""Host ports of pods."""

from collections.abc import Collection, Iterable, Mapping

from autoscaler.objects.pod import PodClass
from autoscaler.objects.podspec import HostPort
from autoscaler.reasons import NoFit, Rejection
from autoscaler.scheduling.bounds import Bound, gate
from autoscaler.scheduling.class_selection import having
from autoscaler.scheduling.domains import DomainTallies
from autoscaler.scheduling.index_keys import EVERY_ADDRESS, port_key
from autoscaler.snapshot.columns import Mask

Addresses = Mapping[tuple[int, str], Collection[str]]
"""By port and protocol, the addresses on which it is claimed."""


def _by_number(ports: Iterable[HostPort]) -> Addresses:
    addresses: dict[tuple[int, str], set[str]] = {}
    for port in ports:
        addresses.setdefault((port.port, port.protocol), set()).add(port.ip)
    return addresses


def _taken(port: HostPort, claimed: Addresses) -> bool:
    """Whether it cannot be had beside those claimed: the same port and protocol, on addresses that overlap."""
    addresses = claimed.get((port.port, port.protocol), ())
    return port.ip in addresses or EVERY_ADDRESS in addresses or (bool(addresses) and port.ip == EVERY_ADDRESS)


def _overlapping(port: HostPort) -> tuple[str | None, ...]:
    """Return the addresses that no other pod may claim; None: any address."""
    return (None,) if port.ip == EVERY_ADDRESS else (port.ip, EVERY_ADDRESS)


class PortGuard:
    """Keeps a class off nodes where a pod holds one of its ports. Source: the scheduler's NodePorts plug-in."""

    def __init__(self, cls: PodClass, tallies: DomainTallies) -> None:
        self._cls = cls
        self._trial = tallies.trial
        clashing = (port_key(port, address) for port in cls.host_ports for address in _overlapping(port))
        self._holders = tallies.counted((having(clashing),)).tally(None)

    def mask(self, window: slice) -> Mask:
        """Return the nodes of the window that pass."""
        free: Mask = self._holders.at(window) == 0
        return free

    def why(self, position: int) -> Rejection | None:
        """Return why a node does not pass."""
        clash = self.clash(position)
        if clash is None:
            return None
        message = "node(s) didn't have free ports for the requested pod ports"
        return Rejection(NoFit.PORTS, message, f"host port {clash.port}/{clash.protocol} is taken")

    def clash(self, position: int) -> HostPort | None:
        """Return the first port of the class that a pod on the node holds."""
        held = _by_number(port for cls in self._trial.classes_on(position) for port in cls.host_ports)
        return next((port for port in self._cls.host_ports if _taken(port, held)), None)

    def affects_other_nodes(self, cls: PodClass) -> bool:
        """Ports are taken on one node only; see `placement.Guard`."""
        return False

    def bound(self, window: slice, fresh: int) -> Bound | None:
        """Return how many may come: one per node, where the ports are free."""
        return gate(self.mask(window), bool(self.mask(slice(fresh, fresh + 1))[0]), 1)
