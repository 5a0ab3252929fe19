"""A Compute Engine API in memory, as a `Transport`: managed instance groups, operations, pages, failures."""

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any
from urllib.parse import parse_qs, urlsplit

import msgspec

from cloudprovider.gce.client import RestCompute
from cloudprovider.gce.transport import Answer
from cloudprovider.interface import ProviderError

ROOT = "https://compute.googleapis.com/compute/v1/"
PROJECT = "acme"
ZONE = "us-central1-b"
REGION = "us-central1"
NUMBER = "123456789"
KUBE_ENV = (
    "AUTOSCALER_ENV_VARS: node_labels=pool=web,cloud.google.com/gke-nodepool=web;node_taints=dedicated=web:NoSchedule;"
    "kube_reserved=cpu=60m,memory=960Mi,ephemeral-storage=10Gi;os=linux;os_distribution=cos;"
    "evictionHard=memory.available=100Mi,nodefs.available=10%\n"
)


class Machine(msgspec.Struct):
    """An instance of a group."""

    zone: str
    action: str = "CREATING"
    status: str = ""
    errors: Sequence[Mapping[str, str]] = ()
    orphan: bool = False
    """Whether it does not say who created it."""
    template: str = ""
    """URL of the template that it was made from."""


class Group(msgspec.Struct, kw_only=True):
    """A managed instance group."""

    name: str
    place: str
    """Such as `zones/us-central1-b`."""
    target: int = 0
    suspended: int = 0
    base: str = ""
    template: str = f"{ROOT}projects/{PROJECT}/global/instanceTemplates/web"
    zones: Sequence[str] = ()
    machines: dict[str, Machine] = {}
    stock_out: Sequence[Mapping[str, str]] = ()
    """What becomes of new machines; empty: they come."""
    redistribution: str = "NONE"
    update: str = "OPPORTUNISTIC"
    autoscaler: str = ""
    born: int = 0

    @property
    def path(self) -> str:
        return f"projects/{PROJECT}/{self.place}/instanceGroupManagers/{self.name}"

    @property
    def id(self) -> str:
        return f"https://www.googleapis.com/compute/v1/projects/{PROJECT}/{self.place}/instanceGroups/{self.name}"


class Failing(msgspec.Struct):
    """What becomes of a call, in place of its answer."""

    verb: str
    answer: Answer | ProviderError
    takes_effect: bool = False
    times: int = 1


class NoTime:
    """Waiting that takes no time, and counts."""

    def __init__(self) -> None:
        self.slept: list[float] = []
        self.clock = 0.0

    def now(self) -> float:
        return self.clock

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.clock += seconds


class FakeGce:
    """Pages hold `page` entries. Machines come and go when `settle` is called."""

    def __init__(self, *groups: Group, page: int = 2) -> None:
        self.groups = {group.path: group for group in groups}
        self.page = page
        self.requests: list[tuple[str, str]] = []
        self.bodies: list[Any] = []
        self.failing: list[Failing] = []
        self.waits_needed = 0
        """How often a client must wait for each operation."""
        self.operation_error: Mapping[str, Any] | None = None
        self.region_zones = ("us-central1-a", ZONE, "us-central1-f")
        self.machine_types: dict[str, Any] = {
            "n1-standard-4": {
                "name": "n1-standard-4",
                "guestCpus": 4,
                "memoryMb": 15360,
                "architecture": "X86_64",
            }
        }
        self.templates: dict[str, Any] = {f"projects/{PROJECT}/global/instanceTemplates/web": a_template()}
        self._waited: dict[str, int] = {}
        self._operations = 0
        self.waiting = NoTime()
        self.client = RestCompute(self, self.waiting)

    def group(self, name: str) -> Group:
        return next(group for group in self.groups.values() if group.name == name)

    def add_machines(self, name: str, *names: str, zone: str = ZONE, action: str = "NONE") -> None:
        """Let machines run that count in the target."""
        group = self.group(name)
        group.target += len(names)
        for one in names:
            group.machines[one] = Machine(zone, action, "RUNNING", template=group.template)

    def settle(self) -> None:
        for group in self.groups.values():
            for name, machine in list(group.machines.items()):
                if machine.action == "DELETING":
                    del group.machines[name]
                elif machine.action == "CREATING" and not machine.errors:
                    machine.action, machine.status = "NONE", "RUNNING"

    def fail(self, verb: str, answer: Answer | ProviderError, *, takes_effect: bool = False, times: int = 1) -> None:
        """Let the next calls of a verb (the last part of the path, or `list`) have this for an answer."""
        self.failing.append(Failing(verb, answer, takes_effect, times))

    def count(self, verb: str) -> int:
        return sum(_verb(method, path) == verb for method, path in self.requests)

    def send(self, method: str, url: str, body: bytes | None, timeout_s: float) -> Answer:
        assert 0 < timeout_s <= 30
        assert url.startswith(ROOT)
        parts = urlsplit(url)
        path, query = parts.path.removeprefix("/compute/v1/"), {k: v[0] for k, v in parse_qs(parts.query).items()}
        self.requests.append((method, path))
        decoded = None if body is None else json.loads(body)
        self.bodies.append(decoded)
        failing = next((one for one in self.failing if one.verb == _verb(method, path)), None)
        if failing is None or failing.takes_effect:
            answer = self._answer(method, path, query, decoded)
        if failing is None:
            return answer
        failing.times -= 1
        if failing.times <= 0:
            self.failing.remove(failing)
        if isinstance(failing.answer, ProviderError):
            raise failing.answer
        return failing.answer

    def close(self) -> None:
        pass

    def _answer(self, method: str, path: str, query: Mapping[str, str], body: Any) -> Answer:
        parts = path.split("/")
        if parts[1] != PROJECT:
            return failure(404, "notFound", "The project does not exist")
        routes: dict[str, Callable[[], Answer]] = {
            "instanceGroupManagers": lambda: self._listed(self._managers(f"{parts[2]}/{parts[3]}"), "items", query),
            "instances": lambda: self._listed(self._instances(parts[3]), "items", query),
            "listManagedInstances": lambda: self._of_group(path, lambda one: self._managed(one, query)),
            "createInstances": lambda: self._of_group(path, lambda one: self._create(one, body)),
            "deleteInstances": lambda: self._of_group(path, lambda one: self._delete(one, body)),
            "resize": lambda: self._of_group(path, lambda one: self._resize(one, int(query["size"]))),
            "wait": lambda: self._wait(parts[-2]),
        }
        if parts[-1] in routes:
            return routes[parts[-1]]()
        if parts[-2] == "instanceGroupManagers":
            return self._of_group(path, lambda one: _ok(self._manager(one)))
        if parts[-2] == "machineTypes":
            found = self.machine_types.get(parts[-1])
            return _ok(found) if found else failure(404, "notFound", "no such machine type")
        if parts[-2] == "instanceTemplates":
            found = self.templates.get(path)
            return _ok({"name": parts[-1], "properties": found}) if found else failure(404, "notFound", "no template")
        if parts[-2] == "regions":
            return _ok({"zones": [f"{ROOT}projects/{PROJECT}/zones/{zone}" for zone in self.region_zones]})
        raise AssertionError(f"unexpected {method} {path}")

    def _of_group(self, path: str, use: Callable[[Group], Answer]) -> Answer:
        manager = "/".join(path.split("/")[:6])
        group = self.groups.get(manager)
        return failure(404, "notFound", f"{manager} was not found") if group is None else use(group)

    def _managers(self, place: str) -> list[Any]:
        return [self._manager(group) for group in self.groups.values() if group.place == place]

    def _manager(self, group: Group) -> Any:
        actions = dict.fromkeys(("none", "creating", "deleting", "recreating", "verifying"), 0)
        for machine in group.machines.values():
            actions[machine.action.lower()] += 1
        return {
            "name": group.name,
            "targetSize": group.target - group.suspended,
            "targetSuspendedSize": group.suspended,
            "baseInstanceName": group.base or group.name,
            "instanceTemplate": group.template,
            "currentActions": actions,
            "status": {"autoscaler": group.autoscaler} if group.autoscaler else {},
            "distributionPolicy": {"zones": [{"zone": f"{ROOT}projects/{PROJECT}/zones/{z}"} for z in group.zones]},
            "updatePolicy": {"instanceRedistributionType": group.redistribution, "type": group.update},
        }

    def _managed(self, group: Group, query: Mapping[str, str]) -> Answer:
        listed = []
        for name, machine in group.machines.items():
            one: dict[str, Any] = {"instance": instance_url(machine.zone, name), "currentAction": machine.action}
            if machine.status:
                one["instanceStatus"] = machine.status
            if machine.template:
                one["version"] = {"instanceTemplate": machine.template}
            if machine.errors:
                one["lastAttempt"] = {"errors": {"errors": list(machine.errors)}}
            listed.append(one)
        return self._listed(listed, "managedInstances", query)

    def _instances(self, zone: str) -> list[Any]:
        found: list[Any] = []
        for group in self.groups.values():
            by = f"projects/{NUMBER}/{group.place}/instanceGroupManagers/{group.name}"
            for name, machine in group.machines.items():
                if machine.zone == zone and machine.status:
                    items = [] if machine.orphan else [{"key": "created-by", "value": by}]
                    if machine.template:
                        # With the number of the project, unlike the template of the group.
                        template = machine.template.removeprefix(ROOT).replace(PROJECT, NUMBER)
                        items.append({"key": "instance-template", "value": template})
                    link = instance_url(zone, name)
                    found.append({"selfLink": link, "status": machine.status, "metadata": {"items": items}})
        found.append({"selfLink": instance_url(zone, "bastion"), "status": "RUNNING"})
        return found

    def _create(self, group: Group, body: Any) -> Answer:
        names = [instance["name"] for instance in body["instances"]]
        assert not group.place.startswith("regions"), "a regional group that evens out its zones takes no names"
        if set(names) & group.machines.keys():
            return failure(409, "alreadyExists", "a name is taken")
        for name in names:
            self._boot(group, name)
        group.target += len(names)
        return self._operation()

    def _resize(self, group: Group, size: int) -> Answer:
        size += group.suspended
        while group.target < size:
            group.born += 1
            self._boot(group, f"{group.base or group.name}-r{group.born:03}".replace("#", ""))
            group.target += 1
        live = [machine for machine in group.machines.values() if machine.action != "DELETING"]
        # Whichever it finds: what a resize takes away is no choice of ours.
        for machine in live[: max(len(live) - size, 0)]:
            machine.action = "DELETING"
        group.target = size
        return self._operation()

    def _boot(self, group: Group, name: str) -> None:
        zones = list(group.zones) or [group.place.split("/")[1]]
        group.machines[name] = Machine(
            zones[len(group.machines) % len(zones)], errors=group.stock_out, template=group.template
        )

    def _delete(self, group: Group, body: Any) -> Answer:
        assert body["skipInstancesOnValidationError"] is True
        assert len(body["instances"]) <= 1000
        for url in body["instances"]:
            zone, name = url.split("/")[-3], url.split("/")[-1]
            machine = group.machines.get(name)
            if machine is not None and machine.zone == zone and machine.action != "DELETING":
                machine.action = "DELETING"
                group.target -= 1
        return self._operation()

    def _operation(self) -> Answer:
        self._operations += 1
        return self._progress(f"operation-{self._operations}", self.waits_needed)

    def _wait(self, name: str) -> Answer:
        self._waited[name] = self._waited.get(name, 0) + 1
        return self._progress(name, self.waits_needed - self._waited[name])

    def _progress(self, name: str, left: int) -> Answer:
        if left > 0:
            return _ok({"name": name, "status": "RUNNING"})
        failed = {"error": self.operation_error} if self.operation_error else {}
        return _ok({"name": name, "status": "DONE", **failed})

    def _listed(self, items: Sequence[Any], key: str, query: Mapping[str, str]) -> Answer:
        start = int(query.get("pageToken", "0"))
        end = start + self.page
        more = {"nextPageToken": str(end)} if end < len(items) else {}
        return _ok({key: list(items[start:end]), **more})


def a_template(**changes: Any) -> dict[str, Any]:
    """Return the properties of an instance template."""
    properties: dict[str, Any] = {
        "machineType": "n1-standard-4",
        "disks": [{"boot": True, "initializeParams": {"diskSizeGb": "100", "diskType": "pd-ssd"}}],
        "metadata": {"items": [{"key": "kube-env", "value": KUBE_ENV}]},
        "scheduling": {},
    }
    return properties | changes


def a_group(name: str = "web", **changes: Any) -> Group:
    """Return a zonal group."""
    return Group(name=name, **{"place": f"zones/{ZONE}", **changes})


def a_regional_group(name: str = "web", **changes: Any) -> Group:
    """Return a group that spreads over three zones."""
    zones = ("us-central1-a", ZONE, "us-central1-f")
    return Group(name=name, **{"place": f"regions/{REGION}", "zones": zones, **changes})


def instance_url(zone: str, name: str) -> str:
    return f"https://www.googleapis.com/compute/v1/projects/{PROJECT}/zones/{zone}/instances/{name}"


def provider_id(name: str, zone: str = ZONE) -> str:
    return f"gce://{PROJECT}/{zone}/{name}"


def failure(status: int, reason: str, message: str = "no", headers: Mapping[str, str] | None = None) -> Answer:
    """Return an answer of the API that is no success."""
    body = {"error": {"code": status, "message": message, "errors": [{"reason": reason, "message": message}]}}
    return Answer(status, json.dumps(body).encode(), headers or {})


def _ok(data: Any) -> Answer:
    return Answer(200, json.dumps(data).encode())


def _verb(method: str, path: str) -> str:
    *_, kind, name = path.split("/")
    if name == "instanceGroupManagers":
        return "list"
    return kind if kind in {"instanceGroupManagers", "machineTypes", "instanceTemplates", "regions"} else name
