"""Derives the state of a machine from Azure's provisioning and power states."""

import msgspec

from cloudprovider.azure import ids
from cloudprovider.azure.errors import Failure
from cloudprovider.azure.resources import VirtualMachine
from cloudprovider.interface import Instance, InstanceError, MachineVersion, State

_FAILED_CODE = "provisioning-state-failed"
_MESSAGE = "Azure failed to provision this machine"
_POWER, _PROVISIONING = "powerstate/", "provisioningstate/failed/"
_RUNS = ("running", "starting")
_STATES = {"creating": State.CREATING, "deleting": State.DELETING}


class Machine(msgspec.Struct, frozen=True):
    """One machine of a scale set."""

    provider_id: str
    state: State = State.RUNNING
    error: InstanceError | None = None
    version: MachineVersion | None = None

    @property
    def key(self) -> str:
        """The key that the machine is looked up by."""
        return ids.key(self.provider_id)

    @property
    def instance(self) -> Instance:
        """The machine as the engine sees it."""
        return Instance(self.provider_id, self.state, self.error, version=self.version)


def machine_of(virtual_machine: VirtualMachine, fast_delete: bool) -> Machine | None:
    """Return a listed machine; None for a machine without an id, which Azure shows briefly during a deletion.

    A machine that failed has never come to life, and counts as a failed creation, if Azure lists its statuses and
    none of them is of its power. With `fast_delete` so does every failed one that neither runs nor starts. Any other
    failure is of a later change to a machine that may well be at work.
    """
    if not virtual_machine.id:
        return None
    machine = Machine(ids.provider_id(virtual_machine.id), version=virtual_machine.version)
    provisioning = (virtual_machine.properties.provisioning_state or "").lower()
    if provisioning != "failed":
        return msgspec.structs.replace(machine, state=_STATES.get(provisioning, State.RUNNING))
    view = virtual_machine.properties.instance_view
    if view is None or view.statuses is None:
        return machine
    power = [status.code.lower().removeprefix(_POWER) for status in view.statuses if _is(status.code, _POWER)]
    if power and not (fast_delete and power[0] not in _RUNS):
        return machine
    failures = [
        Failure(status.code[len(_PROVISIONING) :], status.message or _MESSAGE)
        for status in view.statuses
        if _is(status.code, _PROVISIONING)
    ]
    failure = (failures or [Failure(_FAILED_CODE, _MESSAGE)])[0]
    return msgspec.structs.replace(machine, state=State.CREATING, error=failure.instance_error())


def _is(code: str, prefix: str) -> bool:
    return code.lower().startswith(prefix)
