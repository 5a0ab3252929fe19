"""Azure Resource Manager in memory, as far as scale sets need it: pages, entity tags, operations that take time.

Time is a number that tests move. Machines exist as soon as Azure accepts a growing capacity, and boot for a while.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

import msgspec

from cloudprovider.azure.http import Reply
from cloudprovider.interface import Transient

HOST = "https://management.azure.com"
SUBSCRIPTION = "11111111-2222-3333-4444-555555555555"
GROUP = "MC_Shop"
"""As Azure writes it; nodes have it in lower case."""
_ROOT = f"/subscriptions/{SUBSCRIPTION}/resourceGroups/{GROUP}/providers/Microsoft.Compute"
TAG = "k8s.io_cluster-autoscaler_node-template_"

ENVIRONMENT = {
    "ARM_SUBSCRIPTION_ID": SUBSCRIPTION,
    "ARM_RESOURCE_GROUP": GROUP,
    "AZURE_TENANT_ID": "tenant",
    "AZURE_CLIENT_ID": "client",
    "AZURE_FEDERATED_TOKEN_FILE": "/var/run/secrets/azure/tokens/azure-identity-token",
}


class Seen(msgspec.Struct, frozen=True):
    """One request."""

    method: str
    path: str
    query: Mapping[str, str]
    headers: Mapping[str, str]
    body: Any

    @property
    def short(self) -> str:
        """Method and path without what all paths share."""
        return f"{self.method} {self.path.removeprefix(_ROOT).removeprefix(f'/subscriptions/{SUBSCRIPTION}')}"


class FakeMachine(msgspec.Struct):
    """A machine; whoever tests may change everything."""

    name: str
    ready_at: float
    gone_at: float | None = None
    failed: str | None = None
    """Code with which it failed to be provisioned."""
    power: str | None = "running"
    latest: bool | None = True
    """Whether it is of the latest model; None: Azure does not say."""
    size: str = ""
    image: str = ""


class FakeScaleSet(msgspec.Struct):
    """A scale set; whoever tests may change everything."""

    name: str
    capacity: int = 0
    machines: list[FakeMachine] = []
    tags: dict[str, str] = {}
    size: str = "Standard_D4s_v5"
    zones: Sequence[str] | None = None
    flexible: bool = False
    properties: dict[str, Any] = {}
    image: str = ""
    """Id of the image of new machines."""
    stock: int | None = None
    """How many machines Azure has at most; the operation that asks for more fails."""
    stock_code: str = "AllocationFailed"
    version: int = 1
    made: int = 0

    def touched(self) -> None:
        """Give it another entity tag."""
        self.version += 1


class Work(msgspec.Struct):
    """A long-running operation."""

    set_name: str
    until: float
    failure: Mapping[str, str] | None = None


class Rule(msgspec.Struct):
    """What becomes of the next requests that match, instead of or besides their effect."""

    pattern: str
    reply: Reply | None
    """None: the connection breaks."""
    times: int = 1
    takes_effect: bool = False


class StaticTokens:
    """Tokens that are always good, but for those that were refused."""

    def __init__(self) -> None:
        self.issued = 1

    def token(self) -> str:
        return f"token-{self.issued}"

    def refused(self, token: str) -> None:
        self.issued += 1


class FakeAzure:
    """The transport of a provider. `requests` has what was asked, in order."""

    def __init__(self, *scale_sets: FakeScaleSet, now: float = 1_000.0) -> None:
        self.now = now
        self.scale_sets = {scale_set.name: scale_set for scale_set in scale_sets}
        self.requests: list[Seen] = []
        self.rules: list[Rule] = []
        self.works: dict[str, Work] = {}
        self.page_size = 100
        self.boot_s, self.delete_s = 60.0, 60.0
        self.counts_deleting = False
        """Whether the capacity counts machines until their deletion is over."""
        self.next_link_host = HOST
        self.sizes: list[Mapping[str, Any]] = [a_size("Standard_D4s_v5", 4, 16)]
        self.closed = False

    def fail(self, pattern: str, status: int, code: str, message: str = "", **more: Any) -> None:
        """Answer the next requests that match with an error."""
        headers = more.pop("headers", {})
        body = msgspec.json.encode({"error": {"code": code, "message": message, **more.pop("error", {})}})
        self.rules.append(Rule(pattern, Reply(status, headers, body), **more))

    def lose(self, pattern: str, **more: Any) -> None:
        """Break the connection on the next requests that match."""
        self.rules.append(Rule(pattern, None, **more))

    def asked(self, since: int = 0) -> list[str]:
        """Return requests in short."""
        return [seen.short for seen in self.requests[since:]]

    def close(self) -> None:
        self.closed = True

    def __call__(self, method: str, url: str, headers: Mapping[str, str], body: bytes | None) -> Reply:
        parts = urlsplit(url)
        query = {name: values[0] for name, values in parse_qs(parts.query).items()}
        data = None if body is None else msgspec.json.decode(body)
        seen = Seen(method, unquote(parts.path), query, headers, data)
        self.requests.append(seen)
        self._settle()
        rule = next((one for one in self.rules if one.times > 0 and re.search(one.pattern, seen.short)), None)
        if rule is None:
            return self._answer(seen)
        rule.times -= 1
        if rule.takes_effect:
            self._answer(seen)
        if rule.reply is None:
            raise Transient(f"{seen.method}: connection broken")
        return rule.reply

    def _settle(self) -> None:
        for scale_set in self.scale_sets.values():
            gone = [
                machine for machine in scale_set.machines if machine.gone_at is not None and machine.gone_at <= self.now
            ]
            scale_set.machines = [machine for machine in scale_set.machines if machine not in gone]
            if self.counts_deleting:
                scale_set.capacity -= len(gone)

    def _answer(self, seen: Seen) -> Reply:
        for method, pattern, handle in self._routes():
            match = re.fullmatch(pattern, seen.path, re.IGNORECASE)
            if match and method == seen.method:
                return handle(seen, *match.groups())
        return _error(404, "ResourceNotFound", f"{seen.method} {seen.path}")

    def _routes(self) -> Sequence[tuple[str, str, Callable[..., Reply]]]:
        sets = f"{_ROOT}/virtualMachineScaleSets"
        return (
            ("GET", sets, self._list_sets),
            ("GET", f"{sets}/([^/]+)", self._get_set),
            ("PUT", f"{sets}/([^/]+)", self._put_set),
            ("GET", f"{sets}/([^/]+)/virtualMachines", self._list_machines),
            ("GET", f"{_ROOT}/virtualMachines", self._list_flexible),
            ("POST", f"{sets}/([^/]+)/delete", self._delete),
            ("GET", f"/subscriptions/{SUBSCRIPTION}/providers/Microsoft.Compute/skus", self._list_sizes),
            ("GET", "/operations/([^/]+)", self._get_work),
        )

    def _list_sets(self, seen: Seen) -> Reply:
        return self._page(seen, [self._set_json(scale_set) for scale_set in self.scale_sets.values()])

    def _list_sizes(self, seen: Seen) -> Reply:
        return self._page(seen, self.sizes)

    def _list_machines(self, seen: Seen, name: str) -> Reply:
        if name not in self.scale_sets:
            return _error(404, "ResourceNotFound", name)
        assert not self.scale_sets[name].flexible
        return self._page(seen, self._machines_json(self.scale_sets[name], seen))

    def _list_flexible(self, seen: Seen) -> Reply:
        name = seen.query["$filter"].rstrip("'").rpartition("/")[2]
        assert seen.query["$filter"] == f"'virtualMachineScaleSet/id' eq '{_ROOT}/virtualMachineScaleSets/{name}'"
        return self._page(seen, self._machines_json(self.scale_sets[name], seen))

    def _get_set(self, seen: Seen, name: str) -> Reply:
        if name not in self.scale_sets:
            return _error(404, "ResourceNotFound", name)
        return _json(200, self._set_json(self.scale_sets[name]))

    def _put_set(self, seen: Seen, name: str) -> Reply:
        one = self.scale_sets.get(name)
        if one is None:
            return _error(400, "InvalidParameter", "Required parameter 'properties' is missing")
        if seen.headers.get("If-Match") not in (None, f'"{one.version}"'):
            return _error(412, "ConditionNotMet", "the entity tag is another")
        assert seen.body["sku"]["name"] == one.size
        one.capacity = seen.body["sku"]["capacity"]
        one.touched()
        work = Work(name, self.now + self.boot_s)
        live = [machine for machine in one.machines if machine.gone_at is None]
        for machine in live[one.capacity :]:
            machine.gone_at = self.now + self.delete_s  # what Azure does, and nobody should ever ask for
        for number in range(len(live), one.capacity):
            if one.stock is not None and number >= one.stock:
                work.failure = {"code": one.stock_code, "message": "no machines of this size are left"}
                break
            self.add_machine(one)
        return self._accepted(work, "azure-asyncoperation")

    def add_machine(self, one: FakeScaleSet) -> FakeMachine:
        """Make a machine that boots."""
        name = f"{one.name}_{one.made:08x}" if one.flexible else str(one.made)
        one.made += 1
        one.machines.append(FakeMachine(name, self.now + self.boot_s, size=one.size, image=one.image))
        return one.machines[-1]

    def _delete(self, seen: Seen, name: str) -> Reply:
        one = self.scale_sets[name]
        wanted = set(seen.body["instanceIds"])
        going = [machine for machine in one.machines if machine.name in wanted and machine.gone_at is None]
        for machine in going:
            machine.gone_at = self.now + self.delete_s
        if not self.counts_deleting:
            one.capacity -= len(going)
        one.touched()
        return self._accepted(Work(name, self.now + self.delete_s), "location")

    def _accepted(self, work: Work, header: str) -> Reply:
        name = f"op-{len(self.works)}"
        self.works[name] = work
        return Reply(202, {header: f"{HOST}:443/operations/{name}?api-version=2024-07-01"}, b"")

    def _get_work(self, seen: Seen, name: str) -> Reply:
        work = self.works[name]
        if self.now < work.until:
            return _json(200, {"status": "InProgress"})
        if work.failure is None:
            return _json(200, {"status": "Succeeded"})
        return _json(200, {"status": "Failed", "error": work.failure})

    def _page(self, seen: Seen, items: Sequence[Any]) -> Reply:
        start = int(seen.query.get("$skiptoken", "0"))
        page: dict[str, Any] = {"value": items[start : start + self.page_size]}
        if start + self.page_size < len(items):
            others = "&".join(f"{name}={value}" for name, value in seen.query.items() if name != "$skiptoken")
            link = f"{self.next_link_host}{seen.path}?{others}&$skiptoken={start + self.page_size}"
            page["nextLink"] = link.replace(" ", "%20")
        return _json(200, page)

    def _set_json(self, one: FakeScaleSet) -> Mapping[str, Any]:
        busy = any(work.set_name == one.name and self.now < work.until for work in self.works.values())
        return {
            "id": f"{_ROOT}/virtualMachineScaleSets/{one.name}",
            "name": one.name,
            "location": "westeurope",
            "etag": f'"{one.version}"',
            "sku": {"name": one.size, "tier": "Standard", "capacity": one.capacity},
            "tags": one.tags,
            **({} if one.zones is None else {"zones": one.zones}),
            "properties": {
                "provisioningState": "Updating" if busy else "Succeeded",
                "orchestrationMode": "Flexible" if one.flexible else "Uniform",
                "virtualMachineProfile": {"storageProfile": {"imageReference": {"id": one.image}}},
                **one.properties,
            },
        }

    def _machines_json(self, one: FakeScaleSet, seen: Seen) -> Sequence[Mapping[str, Any]]:
        assert seen.query["$expand"] == "instanceView"
        where = _ROOT if one.flexible else f"{_ROOT}/virtualMachineScaleSets/{one.name}"
        return [
            {
                "id": f"{where}/virtualMachines/{machine.name}",
                "sku": {"name": machine.size} if machine.size else None,
                "properties": self._state_json(machine),
            }
            for machine in one.machines
        ]

    def _state_json(self, machine: FakeMachine) -> Mapping[str, Any]:
        statuses = [] if machine.power is None else [{"code": f"PowerState/{machine.power}"}]
        if machine.failed is not None:
            statuses.append({"code": f"ProvisioningState/failed/{machine.failed}", "message": "it did not work"})
        state = "Failed" if machine.failed is not None else "Creating" if machine.ready_at > self.now else "Succeeded"
        if machine.gone_at is not None:
            state = "Deleting"
        return {
            "provisioningState": state,
            "instanceView": {"statuses": statuses},
            "latestModelApplied": machine.latest,
            "storageProfile": {"imageReference": {"id": machine.image} if machine.image else {"offer": "ubuntu"}},
        }


def a_size(name: str, cpus: int, memory_gb: float, **capabilities: str) -> Mapping[str, Any]:
    """Return an entry of the list of machine sizes."""
    facts = {"vCPUs": str(cpus), "MemoryGB": str(memory_gb), **capabilities}
    pairs = [{"name": key, "value": value} for key, value in facts.items()]
    return {"resourceType": "virtualMachines", "name": name, "capabilities": pairs}


def provider_id(scale_set: str, machine: object) -> str:
    """Return what the node of a machine of a uniform scale set has for a provider id."""
    root = _ROOT.replace(GROUP, GROUP.lower())
    return f"azure://{root}/virtualMachineScaleSets/{scale_set}/virtualMachines/{machine}"


def _json(status: int, data: Any) -> Reply:
    return Reply(status, {}, msgspec.json.encode(data))


def _error(status: int, code: str, message: str) -> Reply:
    return _json(status, {"error": {"code": code, "message": message}})
