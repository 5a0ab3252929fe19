"""Reservations: the targets for which clients may announce work before its pods exist.

The `reservations` section of the configuration file; without it there are none. Source of every rule:
`docs/reservations.md`.
"""

import ipaddress
import re
from collections.abc import Iterator, Mapping
from enum import StrEnum
from typing import Annotated, Any

import msgspec

from autoscaler.config import overrides
from autoscaler.config.lead import LeadTime
from autoscaler.config.names import is_dns_label
from autoscaler.config.overrides import Override
from autoscaler.config.selector import LabelText, Selector
from autoscaler.config.syntax import Count, Number, OptionalNumber, Switch, Text, choice
from autoscaler.errors import ConfigError
from cloudprovider.address import is_loopback, parse_address
from cloudprovider.problems import Problems
from cloudprovider.quantity import parse_quantity
from cloudprovider.structure import Seconds, Strict, StructReader

_PREFIX = re.compile(r"[a-z0-9][a-z0-9.-]*")
_LONGEST_NAME, _LONGEST_PREFIX = 40, 200
_LONGEST_WINDOW_S = 5.0
_LARGEST_BODY = 64 * 1024 * 1024


class RemovalOrder(StrEnum):
    """Which reservation a finished job removes."""

    MATCHED = "matched"
    OLDEST = "oldest"


class SecretFile(Strict, frozen=True, kw_only=True):
    """Where a secret is mounted."""

    file: Text


class Auth(Strict, frozen=True, kw_only=True):
    """Who may announce work. Any secret of a list will do, so that they can be replaced one after the other."""

    github_secrets: tuple[SecretFile, ...] = ()
    api_secrets: tuple[SecretFile, ...] = ()
    insecure_allow_unsigned: Switch = False
    """Without secrets, take what comes unsigned; on a loopback address only."""

    @property
    def files(self) -> tuple[str, ...]:
        """Every secret's file."""
        return tuple(secret.file for secret in (*self.github_secrets, *self.api_secrets))


class Tls(Strict, frozen=True, kw_only=True):
    """Certificate and key of the listener; both empty: plain HTTP."""

    cert_file: Text = ""
    key_file: Text = ""


class ReservationStoreOptions(Strict, frozen=True, kw_only=True):
    """Where reservations are kept: one ConfigMap for each target."""

    namespace: Text = ""
    """Empty: the autoscaler's own."""
    prefix: Text = "capacity-reservations-"


class TemplateRef(Strict, frozen=True, kw_only=True):
    """A PodTemplate object of the cluster."""

    namespace: Text
    name: Text


class GitHub(Strict, frozen=True, kw_only=True):
    """Which workflow jobs are a target's."""

    repositories: tuple[Text, ...] = ()
    """Shell patterns on `owner/name`."""
    organizations: tuple[Text, ...] = ()
    labels: tuple[Text, ...] = ()
    """What its runners have; a job asks for some of them."""
    allow_empty_labels: Switch = False

    @property
    def rule(self) -> tuple[frozenset[str], ...]:
        """What it matches: equal for equal rules."""
        return tuple(
            frozenset(map(str.lower, patterns)) for patterns in (self.repositories, self.organizations, self.labels)
        )


class ReservationTarget(Strict, frozen=True, kw_only=True):
    """What is reserved for: pods of one kind."""

    name: Text
    pod_template: Mapping[str, Any] = {}
    """`metadata` and `spec` of one of the pods to come."""
    pod_template_ref: TemplateRef | None = None
    pod_selector: LabelText = Selector()
    """Pods that use reservations up; none where it is empty."""
    pod_namespaces: tuple[Text, ...] = ()
    """Where they are; everywhere where it is empty."""
    min_replicas: Count = 0
    max_replicas: OptionalNumber = None
    max_queued: Count = 1000
    default_duration_s: Seconds = 600.0
    max_duration_s: Seconds = 86_400.0
    priority: Number = 0
    removal: Annotated[RemovalOrder, choice(RemovalOrder)] = RemovalOrder.MATCHED
    github: GitHub | None = None
    lead_time_s: LeadTime = None
    """How long before an override begins its floor counts."""
    scheduled_overrides: tuple[Override, ...] = ()

    def override_at(self, wall: float) -> Override | None:
        """Return the override in force at a time (Unix seconds): the first active one wins."""
        return next((override for override in self.scheduled_overrides if override.active(wall)), None)

    def floor_at(self, wall: float) -> int:
        """Return how many are always planned for at a time (Unix seconds)."""
        active = self.override_at(wall)
        return self.min_replicas if active is None or active.min_replicas is None else active.min_replicas

    def floor_ahead(self, wall: float, lead_s: float) -> tuple[int, float]:
        """Return the highest floor from a time (Unix seconds) until `lead_s` later, and when it begins."""
        until = wall + lead_s
        changes = (
            (moment for override in self.scheduled_overrides for moment in override.changes(wall, until))
            if lead_s > 0
            else ()
        )
        return max(
            ((self.floor_at(moment), moment) for moment in (wall, *sorted(changes))),
            key=lambda floor: (floor[0], -floor[1]),
        )

    def slots_at(self, wall: float) -> int | None:
        """Return how many reservations may be active at a time (Unix seconds); None: any number."""
        return None if self.max_replicas is None else max(0, self.max_replicas - self.floor_at(wall))


class Reservations(Strict, frozen=True, kw_only=True):
    """All targets, and how announcements for them are taken in."""

    listen: Text = ""
    """Address of the listener; empty: none."""
    tls: Tls = Tls()
    batch_window_s: Seconds = 3.0
    queue_limit: Count = 100
    retry_delays: tuple[Seconds, ...] = (1.0, 2.0, 4.0, 8.0, 16.0)
    give_up_after_s: Seconds = 3600.0
    store: ReservationStoreOptions = ReservationStoreOptions()
    replay_ttl_s: Seconds = msgspec.field(default=259_200.0, name="replayTTL")
    """How long a delivery that comes again is known again."""
    max_body_bytes: Count = 5 * 1024 * 1024
    trusted_proxies: tuple[Text, ...] = ()
    """Networks whose `X-Forwarded-For` is believed."""
    auth: Auth = Auth()
    targets: tuple[ReservationTarget, ...] = ()

    @property
    def by_name(self) -> dict[str, ReservationTarget]:
        """Targets by name."""
        return {target.name: target for target in self.targets}


def read_reservations(data: object, cutoff: int, address: str = "") -> Reservations:
    """Read the section from YAML data; `cutoff` is the priority below which pods are expendable.

    `address`, of the flag, takes the place of `listen`. Raises `ConfigError` with a line for everything wrong with it.
    """
    problems = Problems()
    reservations = StructReader(problems).read(Reservations, data, "reservations")
    if reservations is not None:
        if address:
            reservations = msgspec.structs.replace(reservations, listen=address)
        problems.extend(_problems(reservations, cutoff))
    if reservations is None or problems.lines:
        raise ConfigError(f"config: {problem}" for problem in problems.lines)
    return reservations


def _problems(section: Reservations, cutoff: int) -> Iterator[str]:
    yield from _intake(section)
    yield from _listener(section)
    names: dict[str, int] = {}
    rules: dict[tuple[frozenset[str], ...], int] = {}
    for number, target in enumerate(section.targets):
        path = f"reservations.targets[{number}]"
        if (first := names.setdefault(target.name, number)) != number:
            yield f"{path}.name: {target.name} is the name of targets[{first}] too; each target needs its own"
        yield from _target(target, path, cutoff)
        if target.github is None:
            continue
        if not (target.github.repositories or target.github.organizations):
            yield f"{path}.github: names neither repositories nor organizations, so no job can be its own"
        if (first := rules.setdefault(target.github.rule, number)) != number:
            yield f"{path}.github: patterns and labels are those of targets[{first}]; no job could tell them apart"


def _intake(section: Reservations) -> Iterator[str]:
    if section.batch_window_s > _LONGEST_WINDOW_S:
        yield f"reservations.batchWindow: {section.batch_window_s:g}s is not within 0s..5s"
    if section.queue_limit < 1:
        yield "reservations.queueLimit: 0 would take nothing; write 1 or more"
    if not section.retry_delays or min(section.retry_delays) <= 0:
        yield "reservations.retryDelays: needs one delay or more, each longer than 0s"
    if section.replay_ttl_s <= 0:
        yield "reservations.replayTTL: must be longer than 0s"
    if not 1 <= section.max_body_bytes <= _LARGEST_BODY:
        yield f"reservations.maxBodyBytes: {section.max_body_bytes} is not within 1..{_LARGEST_BODY}"
    if len(section.store.prefix) > _LONGEST_PREFIX or _PREFIX.fullmatch(section.store.prefix) is None:
        yield f'reservations.store.prefix: "{section.store.prefix}" cannot begin the name of a ConfigMap'


def _listener(section: Reservations) -> Iterator[str]:
    if bool(section.tls.cert_file) != bool(section.tls.key_file):
        yield "reservations.tls: certFile and keyFile belong together; give both or none"
    for number, network in enumerate(section.trusted_proxies):
        try:
            ipaddress.ip_network(network)
        except ValueError:
            yield f'reservations.trustedProxies[{number}]: "{network}" is not a network such as 10.0.0.0/8'
    if not section.listen:
        return
    try:
        host, _ = parse_address(section.listen)
    except ValueError as error:
        yield f'reservations.listen: "{section.listen}" {error}'
        return
    if section.auth.files:
        return
    if not section.auth.insecure_allow_unsigned:
        yield "reservations.auth: has no secret; anybody could announce work. Name files in githubSecrets or apiSecrets"
    elif not is_loopback(host):
        yield (
            f"reservations.auth.insecureAllowUnsigned: {section.listen} is not a loopback address; "
            "name secrets in githubSecrets or apiSecrets"
        )


def _target(target: ReservationTarget, path: str, cutoff: int) -> Iterator[str]:
    if not is_dns_label(target.name, _LONGEST_NAME):
        yield f'{path}.name: "{target.name}" is not a DNS label of at most {_LONGEST_NAME} characters (a-z, 0-9, -)'
    if target.max_replicas is not None and target.max_replicas < target.min_replicas:
        yield f"{path}.maxReplicas: {target.max_replicas} is less than minReplicas {target.min_replicas}"
    if target.max_duration_s <= 0:
        yield f"{path}.maxDuration: must be longer than 0s"
    if not 0 < target.default_duration_s <= target.max_duration_s:
        longest = f"maxDuration {target.max_duration_s:g}s"
        yield f"{path}.defaultDuration: {target.default_duration_s:g}s is not longer than 0s and at most {longest}"
    if target.priority < cutoff:
        yield (
            f"{path}.priority: {target.priority} is below expendable-pods-priority-cutoff {cutoff}: "
            "reservations would never buy a node"
        )
    yield from overrides.problems(target.scheduled_overrides, f"{path}.scheduledOverrides")
    if bool(target.pod_template) == (target.pod_template_ref is not None):
        yield f"{path}.podTemplate: needs exactly one of podTemplate and podTemplateRef"
    elif target.pod_template:
        yield from template_problems(target.pod_template, f"{path}.podTemplate")


def template_problems(template: Mapping[str, Any], path: str) -> Iterator[str]:
    """Yield a line for everything that makes a pod template useless for reservations."""
    for key in template.keys() - {"metadata", "spec"}:
        yield f"{path}.{key}: unknown key; a template has metadata and spec"
    spec = template.get("spec")
    containers = spec.get("containers") if isinstance(spec, dict) else None
    if not isinstance(spec, dict) or not isinstance(containers, list) or not containers:
        yield f"{path}.spec.containers: there are none"
        return
    if spec.get("nodeName"):
        yield f"{path}.spec.nodeName: binds the pods to one node; leave it out"
    asked = 0
    for number, container in enumerate(containers):
        resources = container.get("resources") if isinstance(container, dict) else None
        requests = resources.get("requests") if isinstance(resources, dict) else None
        for resource, amount in (requests if isinstance(requests, dict) else {}).items():
            try:
                asked += parse_quantity(str(amount)) > 0
            except ValueError as error:
                yield f"{path}.spec.containers[{number}].resources.requests.{resource}: {error}"
                asked += 1
    if not asked:
        yield f"{path}.spec.containers: ask for nothing; a pod without requests reserves nothing"
