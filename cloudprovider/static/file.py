"""The groups file: YAML or JSON, read strictly.

    groups:
      - id: web                           # unique
        minSize: 0
        maxSize: 10
        targetSize: 2                     # default: as many as there are machines
        template:                         # a v1.Node, or this short form
          labels: {pool: web}
          annotations: {}
          taints: [{key: dedicated, value: web, effect: NoSchedule}]
          capacity: {cpu: "4", memory: 16Gi}        # pods defaults to 110
          allocatable: {cpu: 3900m, memory: 15Gi}   # defaults to capacity, and the reverse
          attachLimits: {ebs.csi.aws.com: 25}       # volumes that a node can attach, by CSI driver
          declaredFeatures: [RestartAllContainersOnContainerExits]  # of a node's status
          zones: [a, b]                   # a machine comes where there are the fewest; {a: {label: value}} adds labels
        templatePods: []                  # v1.Pods that come with every node
        templateResourceSlices: []        # v1.ResourceSlices: the devices that come with every node
        nodeNames: [web-a, web-b]         # these nodes belong to the group,
        matchLabels: {pool: web}          # and so do nodes with all of these labels; the first group that claims wins
        pricePerHour: 0.19
        options:                          # overrides of flags for this group
          scale-down-unneeded-time: 2m
          zero-or-max-node-scaling: false
        bootSeconds: 60                   # or {min: 40, max: 90}; left out: no machine ever appears
        deleteSeconds: 5
        stockOutAfter: 8                  # machines beyond the eighth fail for want of resources
        stockOuts: [{from: 10m, until: 1h}]         # so do all machines asked for in these windows
        increaseError: no more            # every increase fails
        faults:
          - fails: increase                  # or delete, decreaseTarget, refresh
            error: Throttled              # an error class of the provider contract
            message: slow down
            retryAfter: 30s
            takesEffect: false            # true: works, then raises, as one whose answer was lost
            from: 10m                     # since the start; until, every (n-th) and times (at most) narrow it down
          - fails: create                    # the machine is asked for, but fails
            class: Other                  # or OutOfResources
            code: BOOT_FAILED
            after: 30s
        versions: [{template: v9, image: img-9, instanceType: m5.large}]  # what new machines are made from
    instances:                            # machines without a node at the start
      - {group: web, id: "static://x", state: creating, errorClass: Other, errorCode: X, errorMessage: why}
    missingInstances: [web-b]             # nodes whose machine is gone
    machineVersions: {web-a: {template: v7}}            # what other machines are made from, by node name or id
    impairedMachines: {web-a: failed hardware}          # machines that the cloud holds for unhealthy, and why
    prices: {cpuPerHour: 0.033, memoryGiBPerHour: 0.0045, gpuPerHour: 0.7, instanceTypes: {m5.large: 0.096}}
    gpuLabel: cloud.google.com/gke-accelerator
    gpuTypes: [nvidia-tesla-t4]
    seed: 0                               # fixes drawn boot times

Times are Go durations, but for `bootSeconds` and `deleteSeconds`.
"""

from collections.abc import Mapping
from typing import Any

from cloudprovider.document import read_document
from cloudprovider.interface import ErrorClass, InstanceError, MachineVersion, State
from cloudprovider.prices import Prices
from cloudprovider.problems import Problems
from cloudprovider.static.behaviour import boot_delay, call_faults, creation_faults
from cloudprovider.static.cloud import problems as contradictions
from cloudprovider.static.spec import GPU_LABEL, Call, CallFault, CloudSpec, GroupSpec, MachineSpec
from cloudprovider.static.template import GroupOptions, decode_template
from cloudprovider.structure import Amount, Count, Strict, StructReader


class FileVersion(Strict, frozen=True, kw_only=True):
    """What a machine is made from, as files say it."""

    template: str = ""
    image: str = ""
    instance_type: str = ""

    @property
    def version(self) -> MachineVersion:
        """The same for the provider contract."""
        return MachineVersion(self.template, self.image, self.instance_type)


class _Instance(Strict, frozen=True, kw_only=True):
    group: str
    id: str
    name: str | None = None
    state: State = State.RUNNING
    error_class: ErrorClass | None = None
    error_code: str = ""
    error_message: str = ""


class _Group(Strict, frozen=True, kw_only=True):
    id: str
    min_size: Count
    max_size: Count
    target_size: Count | None = None
    template: Any = None
    template_pods: list[Mapping[str, Any]] = []
    template_resource_slices: list[Mapping[str, Any]] = []
    node_names: tuple[str, ...] = ()
    match_labels: dict[str, str] | None = None
    price_per_hour: Amount | None = None
    options: GroupOptions = GroupOptions()
    boot_seconds: Any = None
    delete_seconds: Amount = 0.0
    stock_out_after: Count | None = None
    stock_outs: list[Any] = []
    increase_error: str | None = None
    faults: list[Any] = []
    versions: tuple[FileVersion, ...] = ()


class _Cloud(Strict, frozen=True, kw_only=True):
    groups: list[Any] = []
    instances: list[Any] = []
    missing_instances: tuple[str, ...] = ()
    machine_versions: dict[str, FileVersion] = {}
    impaired_machines: dict[str, str] = {}
    prices: Prices | None = None
    gpu_label: str = GPU_LABEL
    gpu_types: tuple[str, ...] | None = None
    seed: Count = 0


def load_cloud(path: str) -> CloudSpec:
    """Read a groups file. Raises one `Misconfigured` with a line for every problem found."""
    return read_document(path, decode_cloud)


def decode_cloud(document: Any) -> CloudSpec:
    """Turn the content of a groups file into a specification; raises as `load_cloud`."""
    problems = Problems()
    file = _Cloud(**StructReader(problems).fields(_Cloud, document))
    groups = [decode_group(item, f"groups[{index}]", problems) for index, item in enumerate(file.groups)]
    if isinstance(document, Mapping) and not groups:
        problems.add("groups", "needs at least one group")
    decoded = [_machine(item, f"instances[{index}]", problems) for index, item in enumerate(file.instances)]
    spec = CloudSpec(
        groups=groups,
        machines=[machine for machine in decoded if machine is not None],
        missing=file.missing_instances,
        machine_versions=versions_of(file.machine_versions),
        impaired_machines=file.impaired_machines,
        prices=file.prices,
        gpu_label=file.gpu_label or GPU_LABEL,
        gpu_types=file.gpu_types,
        seed=file.seed,
    )
    problems.extend(contradictions(spec))
    problems.raise_if_any()
    return spec


def decode_group(data: Any, path: str, problems: Problems) -> GroupSpec:
    """Decode one group; what is wrong goes to `problems`, and the result must not be used if there are any."""
    fields = StructReader(problems).fields(_Group, data, path)
    # A size that could not be read was complained about; what stands in for it must not contradict minSize as well.
    stand_ins = {"id": path, "min_size": 0, "max_size": fields.get("min_size", 0)}
    group = _Group(**{**stand_ins, **fields})
    if not group.id:
        problems.add(f"{path}.id", "must not be empty")
    if group.match_labels == {} and not data["matchLabels"]:
        problems.add(f"{path}.matchLabels", "must name a label: without one it would claim every node")
    for field, given in (
        ("templatePods", group.template_pods),
        ("templateResourceSlices", group.template_resource_slices),
    ):
        if given and group.template is None:
            problems.add(f"{path}.{field}", "needs a template")
    refused = () if group.increase_error is None else (CallFault(call=Call.INCREASE, message=group.increase_error),)
    return GroupSpec(
        id=group.id or path,
        min_size=group.min_size,
        max_size=group.max_size,
        target_size=group.target_size,
        template=decode_template(
            group.template, f"{path}.template", problems, group.template_pods, group.template_resource_slices
        ),
        node_names=group.node_names,
        match_labels=group.match_labels or {},
        price_per_hour=group.price_per_hour,
        settings=group.options.settings,
        boot=boot_delay(group.boot_seconds, f"{path}.bootSeconds", problems),
        delete_s=group.delete_seconds,
        stock_out_after=group.stock_out_after,
        call_faults=(*refused, *call_faults(group.faults, f"{path}.faults", problems)),
        creation_faults=creation_faults(group.stock_outs, group.faults, path, group.id or path, problems),
        versions=tuple(version.version for version in group.versions),
    )


def versions_of(machines: Mapping[str, FileVersion]) -> dict[str, MachineVersion]:
    """Return the versions of machines for the provider contract."""
    return {name: version.version for name, version in machines.items()}


def _machine(data: Any, path: str, problems: Problems) -> MachineSpec | None:
    fields = StructReader(problems).fields(_Instance, data, path)
    stands = {"group", "id"} <= fields.keys()
    instance = _Instance(**{"group": "", "id": "", **fields})
    if instance.error_class is None and (instance.error_code or instance.error_message) and "errorClass" not in data:
        problems.add(f"{path}.errorClass", "is required beside errorCode and errorMessage")
    error = (
        None
        if instance.error_class is None
        else InstanceError(instance.error_class, instance.error_code or "OTHER", instance.error_message)
    )
    if not stands:
        return None
    return MachineSpec(
        group=instance.group, provider_id=instance.id, name=instance.name, state=instance.state, error=error
    )
