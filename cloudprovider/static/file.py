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
          zones: [a, b]                   # a machine comes where there are the fewest; {a: {label: value}} adds labels
        templatePods: []                  # v1.Pods that come with every node
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
    instances:                            # machines without a node at the start
      - {group: web, id: "static://x", state: creating, errorClass: Other, errorCode: X, errorMessage: why}
    missingInstances: [web-b]             # nodes whose machine is gone
    prices: {cpuPerHour: 0.033, memoryGiBPerHour: 0.0045, gpuPerHour: 0.7, instanceTypes: {m5.large: 0.096}}
    gpuLabel: cloud.google.com/gke-accelerator
    gpuTypes: [nvidia-tesla-t4]
    seed: 0                               # fixes drawn boot times

Times are Go durations, but for `bootSeconds` and `deleteSeconds`.
"""

from collections.abc import Mapping
from typing import Any

from cloudprovider.document import read_document
from cloudprovider.fields import Fields, Problems, kind_of
from cloudprovider.interface import ErrorClass, InstanceError, State
from cloudprovider.prices import decode_prices
from cloudprovider.static.behaviour import boot_delay, call_faults, creation_faults
from cloudprovider.static.cloud import problems as contradictions
from cloudprovider.static.spec import GPU_LABEL, CloudSpec, GroupSpec, MachineSpec
from cloudprovider.static.template import decode_settings, decode_template


def load_cloud(path: str) -> CloudSpec:
    """Read a groups file. Raises one `Misconfigured` with a line for every problem found."""
    return read_document(path, decode_cloud)


def decode_cloud(document: Any) -> CloudSpec:
    """Turn the content of a groups file into a specification; raises as `load_cloud`."""
    problems = Problems()
    fields = Fields(document, "", problems)
    groups = [decode_group(item, path, problems) for path, item in fields.entries("groups")]
    if isinstance(document, Mapping) and not groups:
        fields.complain("groups", "needs at least one group")
    decoded = [_machine(item, path, problems) for path, item in fields.entries("instances")]
    spec = CloudSpec(
        groups=groups,
        machines=[machine for machine in decoded if machine is not None],
        missing=fields.texts("missingInstances"),
        prices=decode_prices(fields.raw("prices"), "prices", problems) if fields.has("prices") else None,
        gpu_label=fields.text("gpuLabel") or GPU_LABEL,
        gpu_types=fields.texts("gpuTypes") if fields.has("gpuTypes") else None,
        seed=fields.integer("seed", least=0) or 0,
    )
    fields.raw("prices")
    fields.raw("gpuTypes")
    fields.close()
    for line in contradictions(spec):
        problems.add("", line)
    problems.raise_if_any()
    return spec


def decode_group(data: Any, path: str, problems: Problems) -> GroupSpec:
    """Decode one group; what is wrong goes to `problems`, and the result must not be used if there are any."""
    fields = Fields(data, path, problems)
    group_id = fields.text("id", required=True)
    if group_id == "":
        fields.complain("id", "must not be empty")
    labels = fields.string_map("matchLabels")
    if fields.has("matchLabels") and not labels:
        fields.complain("matchLabels", "must name a label: without one it would claim every node")
    template_pods = _template_pods(fields)
    spec = GroupSpec(
        id=group_id or path,
        min_size=fields.integer("minSize", least=0, required=True) or 0,
        max_size=_max_size(fields),
        target_size=fields.integer("targetSize", least=0),
        template=decode_template(fields, "template", template_pods),
        node_names=fields.texts("nodeNames"),
        match_labels=labels,
        price_per_hour=fields.number("pricePerHour"),
        settings=decode_settings(fields.raw("options"), fields.at("options"), problems),
        boot=boot_delay(fields),
        delete_s=fields.number("deleteSeconds") or 0.0,
        stock_out_after=fields.integer("stockOutAfter", least=0),
        call_faults=call_faults(fields),
        creation_faults=creation_faults(fields, group_id or path),
    )
    fields.close()
    return spec


def _max_size(fields: Fields) -> int:
    size = fields.integer("maxSize", least=0, required=True)
    # A size that could not be read was complained about; what stands in for it must not contradict minSize as well.
    minimum = fields.raw("minSize")
    return size if size is not None else max(minimum, 0) if isinstance(minimum, int) else 0


def _template_pods(fields: Fields) -> list[Mapping[str, Any]]:
    pods: list[Mapping[str, Any]] = []
    for path, item in fields.entries("templatePods"):
        if isinstance(item, Mapping):
            pods.append(item)
        else:
            fields.problems.add(path, f"must be a v1.Pod, not {kind_of(item)}")
    if pods and not fields.has("template"):
        fields.complain("templatePods", "needs a template")
    return pods


def _machine(data: Any, path: str, problems: Problems) -> MachineSpec | None:
    fields = Fields(data, path, problems)
    error_class = fields.choice("errorClass", ErrorClass)
    code, message = fields.text("errorCode"), fields.text("errorMessage")
    if error_class is None and (code or message) and not fields.has("errorClass"):
        fields.complain("errorClass", "is required beside errorCode and errorMessage")
    group, provider_id = fields.text("group", required=True), fields.text("id", required=True)
    name, state = fields.text("name"), fields.choice("state", State)
    fields.close()
    if group is None or provider_id is None:
        return None
    return MachineSpec(
        group=group,
        provider_id=provider_id,
        name=name,
        state=state or State.RUNNING,
        error=None if error_class is None else InstanceError(error_class, code or "OTHER", message or ""),
    )
