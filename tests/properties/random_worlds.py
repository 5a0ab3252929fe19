"""Random worlds: groups, workloads, budgets, protected pods, churn and faults, all from one seed.

A world churns for a while and is then left alone. What nobody may ever see, whatever happens, is checked while it
runs, on the storage and the cloud themselves and not on what the autoscaler thinks of them.
"""

import math
import random
from collections.abc import Callable
from typing import Any

import msgspec

from autoscaler.config.load import from_options
from autoscaler.loop.companion import Companion
from autoscaler.objects.meta import JsonObject
from autoscaler.objects.node import Node
from autoscaler.observe.report import PassReport
from autoscaler.reasons import RemovedAs
from autoscaler.sandbox.apiserver.errors import ApiError
from autoscaler.sandbox.apiserver.faults import Fault
from autoscaler.sandbox.apiserver.records import StoreChange
from autoscaler.simulator.replica import SilentPassListener
from autoscaler.simulator.world import Attached, World
from cloudprovider.interface import (
    ErrorClass,
    InstanceError,
    OutOfCapacity,
    ProviderError,
    QuotaExceeded,
    TaintSpec,
    Throttled,
    Transient,
)
from cloudprovider.static.spec import Call, CloudSpec, CreationFault, GroupSpec, When
from tests.devices import GPUS, a_part, a_request, claim_template_form, from_template, overdrawn
from tests.manifests import a_bare_pod
from tests.worlds import QUICK, a_budget, a_cloud, a_daemon_set, a_deployment, a_group, a_job

SAFE_TO_EVICT = "cluster-autoscaler.kubernetes.io/safe-to-evict"
DISABLED = "cluster-autoscaler.kubernetes.io/scale-down-disabled"
_QUIET_S = 3000.0
_LONGEST_S = 14_400.0
_EXPENDABLE = -10
_DEDICATED = TaintSpec("dedicated")
_SCRATCH = [{"name": "scratch", "emptyDir": {}}]
_PATIENT = {
    "max-node-provision-time": "6m",
    "initial-node-group-backoff-duration": "1m",
    "max-node-group-backoff-duration": "4m",
    "node-group-backoff-reset-timeout": "20m",
    "blocking-system-pod-distruption-timeout": "3m",
}


class RandomWorld:
    """A world and what is done to it; the same seed, the same run."""

    def __init__(
        self, seed: int, companions: tuple[Companion, ...] = (), *, devices: bool = False, **options: Any
    ) -> None:
        self._dice = random.Random(seed)
        self._device_dice = random.Random(seed) if devices else None
        self._apps: list[str] = []
        self._jobs = 0
        self._until = math.inf
        self.cloud = self._cloud()
        objects = [*(_DEVICE_OBJECTS if devices else ()), *self._workload()]
        self.options = {**self._options(), **options}
        self.auditor = Auditor()
        config = from_options(self.options, ())
        self.world = World(config, self.cloud, objects, seed=seed, attached=Attached(self.auditor, companions))
        self.auditor.watch(self.world)

    def churn(self, seconds: float, *, every_s: float) -> None:
        """Change something now and then, for so long; then let every fault end, and set right what was broken."""
        self._until = self.world.elapsed_s + seconds
        self._next_change(every_s)
        self.world.run_for(seconds)
        self.world.api.faults.clear()
        self.world.delay_watches(0)
        self.world.jump_clock(-self.world.clock_offset_s)

    def settle(self) -> None:
        """Leave the world alone until nothing has happened for longer than any timer and the longest job take."""
        quiet_s, before = 0.0, self._has_happened()
        while quiet_s < _QUIET_S and self.world.elapsed_s < self._until + _LONGEST_S:
            self.world.run_for(600)
            after = self._has_happened()
            quiet_s, before = quiet_s + 600 if after == before else 0.0, after

    def _has_happened(self) -> tuple[object, ...]:
        pods = [(pod["metadata"]["name"], pod["status"].get("phase")) for pod in self.world.storage.list("pods")]
        return len(self.world.calls), self.auditor.evicted, pods, len(self.world.storage.list("nodes"))

    def _next_change(self, every_s: float) -> None:
        pause_s = self._dice.expovariate(1 / every_s)
        if self.world.elapsed_s + pause_s < self._until:
            self.world.at(pause_s, lambda: self._change(every_s))

    def _change(self, every_s: float) -> None:
        changes: list[tuple[int, Callable[[], None]]] = [
            (12, self._rescale),
            (4, self._run_job),
            (2, self._annotate_node),
            (2, self._fail_provider),
            (1, self._reclaim_machine),
            (1, self._fail_evictions),
            (1, self._fail_api),
            (1, lambda: self.world.disconnect_api(self._dice.uniform(5, 400))),
            (1, lambda: self.world.delay_watches(self._dice.choice((0, 5, 40)))),
            (1, lambda: self.world.restart(self._dice.choice((0, 30, 200)))),
            (1, lambda: self.world.lose_leadership(self._dice.choice((1, 30, 200)))),
            (1, lambda: self.world.jump_clock(self._dice.choice((-3600, -60, 60, 3600)))),
        ]
        weights, actions = zip(*changes, strict=True)
        self._dice.choices(actions, weights)[0]()
        self._next_change(every_s)

    def _rescale(self) -> None:
        app = self._dice.choice(self._apps)
        replicas = self._dice.choice((0, 1, 2, 4, 8, 12))
        self.world.scale(app, replicas, namespace="kube-system" if app.startswith("system") else "default")

    def _run_job(self) -> None:
        self._jobs += 1
        dice = self._dice
        lasts, cpu = dice.choice(("30s", "5m", "40m")), dice.choice(("200m", "1", "3"))
        self.world.apply(a_job(f"job-{self._jobs}", pods=dice.randint(1, 6), cpu=cpu, lasts=lasts))

    def _annotate_node(self) -> None:
        nodes = self.world.storage.list("nodes")
        if nodes:
            name = self._dice.choice(nodes)["metadata"]["name"]
            value = self._dice.choice(("true", None))
            self.world.storage.patch("nodes", name, {"metadata": {"annotations": {DISABLED: value}}})

    def _fail_provider(self) -> None:
        errors: list[ProviderError | InstanceError] = [
            Transient("time-out"),
            Throttled("slow down", 5.0),
            OutOfCapacity("none left"),
            QuotaExceeded("no more"),
            ProviderError("no"),
            InstanceError(ErrorClass.OUT_OF_RESOURCES, "STOCKOUT", "none left"),
        ]
        group, error = self._dice.choice(self.cloud.groups).id, self._dice.choice(errors)
        call = self._dice.choice(tuple(Call))
        self.world.cloud.fail_next(group, error, call, takes_effect=self._dice.random() < 0.5)

    def _reclaim_machine(self) -> None:
        machines = self.world.cloud.machines()
        if machines:
            machine = self._dice.choice(machines)
            self.world.cloud.remove_machine(machine.provider_id)

    def _fail_evictions(self) -> None:
        code = self._dice.choice((429, 500, None))
        delay_s = 0.0 if code is not None else 60.0
        self.world.api.faults.add(
            Fault(verb="create", resource="pods", code=code, delay_s=delay_s, times=self._dice.randint(1, 8))
        )

    def _fail_api(self) -> None:
        verb = self._dice.choice(("get", "list", "update"))
        code = self._dice.choice((409, 429, 500, 503, None))
        self.world.api.faults.add(
            Fault(verb=verb, code=code, drop=code is None, times=self._dice.randint(1, 8)),
        )

    def _cloud(self) -> CloudSpec:
        dice = self._dice
        priced = dice.random() < 0.5
        groups = [self._group(f"g{number}", priced) for number in range(dice.randint(1, 4))]
        machines = {group.id: dice.randint(group.min_size, 3) for group in groups}
        return a_cloud(*groups, machines=machines, seed=dice.randrange(1000))

    def _group(self, name: str, priced: bool) -> GroupSpec:
        dice = self._dice
        cpu = dice.choice(("2", "4", "4", "8"))
        boot = dice.choice(((20.0, 60.0), (60.0, 200.0), (5.0, 5.0), (100.0, 600.0)))
        group = a_group(
            name,
            cpu=cpu,
            memory=dice.choice(("8Gi", "16Gi", "32Gi")),
            min_size=dice.choice((0, 0, 1, 2)),
            max_size=dice.choice((3, 8, 15)),
            boot=boot,
            delete_s=dice.choice((0.0, 20.0)),
            price=float(cpu) * dice.choice((0.05, 0.04)) if priced else None,
            labels={"topology.kubernetes.io/zone": dice.choice(("z1", "z2"))},
            taint=_DEDICATED if dice.random() < 0.2 else None,
            creation_faults=self._creation_faults(),
        )
        return group if self._device_dice is None else _with_devices(group, self._device_dice.choice(_DEVICES))

    def _creation_faults(self) -> tuple[CreationFault, ...]:
        """Now and then, a while in which some machines never come up."""
        dice = self._dice
        if dice.random() < 0.7:
            return ()
        from_s = dice.uniform(0, 5000)
        when = When(from_s=from_s, until_s=from_s + dice.uniform(300, 2000), every=dice.choice((1, 2)))
        error = InstanceError(ErrorClass.OUT_OF_RESOURCES, "STOCKOUT", "none left")
        return (CreationFault(error=error, after_s=dice.choice((0.0, 45.0)), when=when),)

    def _options(self) -> dict[str, Any]:
        dice = self._dice
        expanders = ["least-waste", "most-pods", "least-nodes"]
        if any(group.price_per_hour is not None for group in self.cloud.groups):
            expanders.append("price")
        return {
            **QUICK,
            **_PATIENT,
            "expander": dice.choice(expanders),
            "max-drain-parallelism": dice.choice((1, 3)),
            "frequent-loops-enabled": dice.choice((True, False)),
            "balance-similar-node-groups": dice.choice((True, False)),
            "cordon-node-before-terminating": dice.choice((True, False)),
            "node-deletion-batcher-interval": dice.choice(("0s", "30s")),
            "scale-down-delay-after-add": dice.choice(("30s", "2m")),
            "max-graceful-termination-sec": dice.choice((60, 600)),
            "groups-per-pass": dice.choice(("all", "all", "one")),
            "enforce-node-group-min-size": dice.choice((True, False)),
            "ignore-daemonsets-utilization": dice.choice((True, False)),
            "max-nodes-total": dice.choice((0, 0, 12)),
            "compatibility": dice.choice(("head", "head", "1.31")),
        }

    def _workload(self) -> list[JsonObject]:
        dice = self._dice
        objects = [_priority("high", 1000), _priority("expendable", -100)]
        for number in range(dice.randint(2, 7)):
            name = f"app-{number}"
            self._apps.append(name)
            cpu = dice.choice(("100m", "500m", "900m", "1500m", "1900m"))
            objects.append(a_deployment(name, dice.randint(0, 8), cpu=cpu, **self._traits(name)))
            if dice.random() < 0.4:
                bounds = dice.choice(({"minAvailable": 1}, {"maxUnavailable": 1}, {"minAvailable": "60%"}))
                objects.append(a_budget(name, **bounds))
        if dice.random() < 0.5:
            objects.append(a_daemon_set())
        if dice.random() < 0.4:
            self._apps.append("system")
            objects.append(a_deployment("system", 2, cpu="200m", namespace="kube-system"))
        for number in range(dice.choice((0, 0, 1, 2))):
            safe = {SAFE_TO_EVICT: "true"} if dice.random() < 0.3 else None
            objects.append(a_bare_pod(f"bare-{number}", cpu="300m", annotations=safe))
        return objects

    def _traits(self, name: str) -> dict[str, Any]:
        dice = self._device_dice
        claims = from_template(dice.choice(_TEMPLATES)) if dice is not None and dice.random() < 0.6 else {}
        return claims | self._constraint(name)

    def _constraint(self, name: str) -> dict[str, Any]:
        dice = self._dice
        match dice.randrange(10):
            case 0:
                return {"annotations": {SAFE_TO_EVICT: "false"}}
            case 1:
                return {"volumes": _SCRATCH}
            case 2:
                term = {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": name}}}
                return {"affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}}
            case 3:
                return {"nodeSelector": {"pool": dice.choice(self.cloud.groups).id}}
            case 4:
                spread = {"maxSkew": 1, "topologyKey": "topology.kubernetes.io/zone"}
                selector = {"labelSelector": {"matchLabels": {"app": name}}}
                return {"topologySpreadConstraints": [{**spread, "whenUnsatisfiable": "ScheduleAnyway", **selector}]}
            case 5:
                return {"tolerations": [{"key": _DEDICATED.key, "operator": "Exists"}]}
            case 6:
                return {"priorityClassName": dice.choice(("high", "expendable"))}
        return {}


_SHARED = {"name": "s", "allowMultipleAllocations": True, "capacity": {"memory": {"value": "80Gi"}}}
_DEVICES: list[JsonObject] = [
    {},
    {"devices": [{"name": f"d{number}"} for number in range(4)]},
    {"devices": [_SHARED, {**_SHARED, "name": "t"}]},
    {
        "devices": [a_part("a", "card", memory=1), a_part("b", "card", memory=1), a_part("whole", "card", memory=2)],
        "sharedCounters": [{"name": "card", "counters": {"memory": {"value": 2}}}],
    },
]
_TEMPLATES = ("one", "two", "share")
_API = "resource.k8s.io/v1"
_SHARE = a_request(capacity={"requests": {"memory": "25Gi"}})
_DEVICE_OBJECTS: list[JsonObject] = [
    {
        "apiVersion": _API,
        "kind": "DeviceClass",
        "metadata": {"name": GPUS},
        "spec": {"selectors": [{"cel": {"expression": f"device.driver == '{GPUS}'"}}]},
    },
    *(
        {
            "apiVersion": _API,
            "kind": "ResourceClaimTemplate",
            **claim_template_form(name, request, namespace=namespace),
        }
        for name, request in zip(_TEMPLATES, (a_request(), a_request(count=2), _SHARE), strict=True)
        for namespace in ("default", "kube-system")
    ),
]


def _with_devices(group: GroupSpec, offer: JsonObject) -> GroupSpec:
    if not offer or group.template is None:
        return group
    slices = [{"spec": {"driver": GPUS, **offer}}]
    return msgspec.structs.replace(group, template=msgspec.structs.replace(group.template, resource_slices=slices))


def _priority(name: str, value: int) -> JsonObject:
    meta = {"metadata": {"name": name}, "value": value}
    return {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", **meta}


class Auditor(SilentPassListener):
    """Looks over the autoscaler's shoulder and writes down what should never have happened."""

    def __init__(self) -> None:
        self.wrongs: list[str] = []
        self.evicted = 0
        self.removed = 0
        self._world: World | None = None
        self._calls = 0

    def watch(self, world: World) -> None:
        """Begin to look."""
        self._world = world
        world.storage.listen("pods", self._pod_changed)

    def pass_ended(self, report: PassReport) -> None:
        """Compare what was bought with who waits for it, every size with its bounds, and devices with claims."""
        if self._world is not None and (found := overdrawn(self._world.storage)):
            self._wrong(f"more is allocated than there is on {', '.join(found)}")
        if report.view is not None:
            waiting = len(report.view.pending)
            bought = sum(max(0, increase.after - increase.before) for increase in report.increases)
            if bought > waiting:
                self._wrong(f"{bought} machines were bought for {waiting} pods")
        self._sizes()

    def node_removed(self, group: str, node: Node, removed_as: RemovedAs) -> None:
        """Look at what was on a node whose machine goes."""
        world = self._world
        if world is None:
            return
        self.removed += 1
        left = [
            pod["metadata"]["name"]
            for pod in world.storage.list("pods", field_selector=f"spec.nodeName={node.name}")
            if (pod.get("status") or {}).get("phase") not in ("Succeeded", "Failed") and not may_go_down(pod)
        ]
        if left:
            self._wrong(f"node {node.name} went with pods on it: {', '.join(left)}")
        try:
            current = world.storage.get("nodes", node.name)
        except ApiError:
            return
        if (current["metadata"].get("annotations") or {}).get(DISABLED) == "true":
            self._wrong(f"node {node.name} went although scale-down is disabled for it")
        self._sizes()

    def _sizes(self) -> None:
        assert self._world is not None
        for group in self._world.cloud.groups():
            if not group.min_size <= group.target_size() <= group.max_size:
                self._wrong(f"group {group.id} has {group.target_size()} of {group.min_size} to {group.max_size}")

    def _pod_changed(self, change: StoreChange) -> None:
        if change.before is None or b"EvictionByEvictionAPI" not in change.now.tail:
            return
        if b"EvictionByEvictionAPI" in change.before.tail or self._world is None:
            return
        self.evicted += 1
        pod = change.object()
        name, node = pod["metadata"]["name"], pod["spec"]["nodeName"]
        for other in (pod, *self._world.storage.list("pods", field_selector=f"spec.nodeName={node}")):
            if (why := protected(other, self._world)) is not None:
                self._wrong(f"pod {name} was evicted from {node}, where {other['metadata']['name']} {why}")
        self._budgets(pod)

    def _budgets(self, pod: JsonObject) -> None:
        assert self._world is not None
        for budget in self._world.storage.list("poddisruptionbudgets", namespace=pod["metadata"]["namespace"]):
            app = budget["spec"]["selector"]["matchLabels"]["app"]
            if pod["metadata"]["labels"].get("app") != app:
                continue
            status = budget["status"]
            alive = [
                one
                for one in self._world.storage.list("pods", label_selector=f"app={app}")
                if (one.get("status") or {}).get("phase") == "Running" and "deletionTimestamp" not in one["metadata"]
            ]
            others = sum(one["metadata"]["name"] != pod["metadata"]["name"] for one in alive)
            if others < min(status["desiredHealthy"], len(alive)):
                self._wrong(f"the budget of {app} wants {status['desiredHealthy']} pods and {others} are left")

    def _wrong(self, what: str) -> None:
        assert self._world is not None
        self.wrongs.append(f"{self._world.elapsed_s:.0f} s: {what}")


def may_go_down(pod: JsonObject) -> bool:
    """Whether a pod may still be there when its node goes: one of a DaemonSet, or one that counts for nothing."""
    owners = pod["metadata"].get("ownerReferences") or ()
    return any(owner["kind"] == "DaemonSet" for owner in owners) or pod["spec"].get("priority", 0) < _EXPENDABLE


def protected(pod: JsonObject, world: World) -> str | None:
    """Say why a pod must stay where it is; None: it may move. As users read the rules, not as the product has them."""
    metadata = pod["metadata"]
    if "deletionTimestamp" in metadata or (pod.get("status") or {}).get("phase") in ("Succeeded", "Failed"):
        return None
    safe = (metadata.get("annotations") or {}).get(SAFE_TO_EVICT)
    if safe == "true":
        return None
    if safe == "false":
        return "is not safe to evict"
    if not metadata.get("ownerReferences"):
        return "has no controller"
    if pod["spec"].get("volumes") and any("emptyDir" in volume for volume in pod["spec"]["volumes"]):
        return "has local storage"
    return None
