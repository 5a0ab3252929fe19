"""One Auto Scaling group as a node group: changes its size and terminates its machines."""

from collections.abc import Sequence

from cloudprovider.aws.activities import is_launching
from cloudprovider.aws.asg import Asg, Stage, instance_id, placeholder_group
from cloudprovider.aws.fleet import Fleet
from cloudprovider.aws.tags import settings_of
from cloudprovider.interface import (
    GroupSettings,
    Instance,
    MachineVersion,
    NodeRef,
    NodeTemplate,
    NotFound,
    ProviderError,
    Transient,
)


class AwsGroup:
    """A `NodeGroup` with `GroupOptions` and `Versioned`.

    The group is read again before each change, because AWS takes sizes, not differences, and others may have changed
    the size. Calls that change something are not retried. AWS has neither all-or-nothing requests nor sizes below a
    group's minimum, so there is no `AtomicIncrease` and no `ForceDelete`.
    """

    def __init__(self, name: str, fleet: Fleet) -> None:
        self._name = name
        self._fleet = fleet

    @property
    def id(self) -> str:
        """The Auto Scaling group's name."""
        return self._name

    @property
    def min_size(self) -> int:
        """The larger of the group's own minimum and that of `--nodes`; 0 for a group that no longer exists."""
        group = self._fleet.view.groups.get(self._name)
        return group.min_size if group else 0

    @property
    def max_size(self) -> int:
        """The smaller of the group's own maximum and that of `--nodes`; 0 for a group that no longer exists."""
        group = self._fleet.view.groups.get(self._name)
        return group.max_size if group else 0

    def target_size(self) -> int:
        """Return the desired capacity. Reads it again after a call with an unknown outcome."""
        return self._fleet.known(self._name).desired

    def instances(self) -> Sequence[Instance]:
        """Return the machines, and a placeholder for each machine that AWS has not delivered."""
        return self._fleet.known(self._name).instances()

    def template(self) -> NodeTemplate | None:
        """Return the template from the last refresh."""
        return self._fleet.view.templates.get(self._name)

    def settings(self) -> GroupSettings:
        """Return the overrides that the group's tags give."""
        group = self._fleet.view.groups.get(self._name)
        return settings_of(group.tags) if group else GroupSettings()

    def versions(self) -> Sequence[MachineVersion]:
        """Return what the group launches: versions of templates, or a configuration, and the allowed types."""
        return self._fleet.view.versions.get(self._name, ())

    def increase(self, delta: int) -> None:
        """Raise the desired capacity. An increase by others in the meantime counts towards `delta`."""
        if delta <= 0:
            raise ProviderError(f"{self.id}: an increase must be positive, not {delta}")
        believed, group = self._fleet.known(self._name).desired, self._fleet.read(self._name)
        wanted = min(believed, group.desired) + delta
        if wanted > group.max_size:
            raise ProviderError(f"{self.id}: {wanted} is above the maximum size {group.max_size}")
        if wanted > group.desired:
            self._set_desired(wanted)
            self._fleet.grown(group, wanted)

    def decrease_target(self, delta: int) -> None:
        """Lower the desired capacity, but not below the number of machines that exist or are starting."""
        if delta <= 0:
            raise ProviderError(f"{self.id}: a decrease must be positive, not {delta}")
        group = self._fleet.read(self._name)
        if delta > group.missing:
            raise ProviderError(
                f"{self.id}: {group.live} of {group.desired} machines are there, {delta} cannot be cancelled"
            )
        self._refuse_below_minimum(group, delta)
        self._cancel(group, delta)

    def delete(self, nodes: Sequence[NodeRef]) -> None:
        """Terminate these machines one by one. Placeholders lower the desired capacity.

        Machines that are already being deleted are skipped. If AWS refuses half-way, a `Transient` says how far it got.
        """
        if not nodes:
            return
        ids = list(dict.fromkeys(map(self._own, nodes)))
        group = self._fleet.read(self._name)
        placeholders = [provider_id for provider_id in ids if placeholder_group(provider_id) is not None]
        going = [provider_id for provider_id in ids if self._is_to_end(group, provider_id)]
        cancelled = min(len(placeholders), group.missing)
        if cancelled or going:
            self._refuse_below_minimum(group, cancelled + len(going))
        if cancelled:
            group = self._cancel(group, cancelled)
        self._end(group, going)
        if cancelled < len(placeholders):
            raise Transient(f"{self.id}: {len(placeholders) - cancelled} requests were met before they were cancelled")

    def _own(self, node: NodeRef) -> str:
        instance = instance_id(node.provider_id)
        if instance is not None:
            owner = placeholder_group(instance) or self._fleet.view.owners.get(instance)
            if owner == self.id or (owner is None and self._fleet.has_ended(instance)):
                return instance
        raise ProviderError(f"{self.id}: node {node.name} ({node.provider_id}) is not one of this group's")

    def _is_to_end(self, group: Asg, instance: str) -> bool:
        machine = group.by_id.get(instance)
        if machine is None:
            return False
        if machine.stage is Stage.ASIDE:
            raise ProviderError(f"{self.id}: {instance} was taken out of service by somebody else")
        return machine.stage is not Stage.DELETING

    def _refuse_below_minimum(self, group: Asg, fewer: int) -> None:
        if group.desired - fewer < group.min_size:
            text = f"{fewer} less than {group.desired} is below the minimum size {group.min_size}"
            raise ProviderError(f"{self.id}: {text}")

    def _cancel(self, group: Asg, requests: int) -> Asg:
        # A machine that is being started when the size is lowered would make AWS end another, of its own choosing.
        if is_launching(self._fleet.api.latest_activities(self.id), group.by_id):
            raise Transient(f"{self.id}: a machine is being started, nothing can be cancelled now")
        wanted = group.desired - requests
        self._set_desired(wanted)
        return self._fleet.shrunk(group, wanted)

    def _set_desired(self, size: int) -> None:
        try:
            self._fleet.api.set_desired(self.id, size)
        except Transient:
            self._fleet.doubt(self.id)
            raise

    def _end(self, group: Asg, instances: Sequence[str]) -> None:
        for done, instance in enumerate(instances):
            try:
                self._fleet.api.terminate(instance)
            except NotFound:
                group = self._fleet.ended(group, instance, counted=False)
            except ProviderError as error:
                if isinstance(error, Transient):
                    self._fleet.doubt(self.id)
                if done:
                    text = f"{self.id}: {done} of {len(instances)} machines are being deleted, then: {error}"
                    raise Transient(text) from error
                raise
            else:
                group = self._fleet.ended(group, instance, counted=True)
