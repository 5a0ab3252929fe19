"""Rules between options; the syntax and bounds of each are checked when it is read."""

from collections.abc import Callable, Iterator
from itertools import chain

from autoscaler.config import eta, notices
from autoscaler.config.expanders import chain_problems
from autoscaler.config.process import Compatibility
from autoscaler.config.tree import Config

_RETRY_JITTER = 1.2

PlaceNamer = Callable[[str], str]
"""Where a flag was set, by flag name, to begin a message with."""


def problems(config: Config, place: PlaceNamer) -> list[str]:
    """Return a line for everything that makes a configuration unusable, naming place, value and remedy."""
    checks = (_loop, _leader, _expanders, _schedulers, _scale_down, _drain, _replacement, _features)
    return [
        *chain.from_iterable(check(config, place) for check in checks),
        *eta.problems(config.eta, place),
        *notices.problems(config.notices, config.provider, place),
    ]


def _loop(config: Config, place: PlaceNamer) -> Iterator[str]:
    loop = config.loop
    if loop.scan_interval_s <= 0:
        yield f"{place('scan-interval')}: 0 would leave no time between passes; write for example 10s"
    elif loop.min_pass_interval_s > loop.scan_interval_s:
        yield (
            f"{place('min-pass-interval')}: {loop.min_pass_interval_s:g}s is longer than "
            f"scan-interval ({loop.scan_interval_s:g}s); make it at most that"
        )


def _leader(config: Config, place: PlaceNamer) -> Iterator[str]:
    leader = config.leader
    if not leader.leader_elect:
        return
    if leader.leader_elect_lease_duration_s <= leader.leader_elect_renew_deadline_s:
        yield (
            f"{place('leader-elect-lease-duration')}: {leader.leader_elect_lease_duration_s:g}s must be longer than "
            f"leader-elect-renew-deadline ({leader.leader_elect_renew_deadline_s:g}s)"
        )
    if leader.leader_elect_renew_deadline_s <= _RETRY_JITTER * leader.leader_elect_retry_period_s:
        yield (
            f"{place('leader-elect-renew-deadline')}: {leader.leader_elect_renew_deadline_s:g}s must be longer than "
            f"{_RETRY_JITTER} times leader-elect-retry-period ({leader.leader_elect_retry_period_s:g}s)"
        )
    if leader.leader_elect_retry_period_s <= 0:
        yield f"{place('leader-elect-retry-period')}: must be longer than 0; write for example 2s"


def _expanders(config: Config, place: PlaceNamer) -> Iterator[str]:
    chosen = config.scale_up.expander
    where = place("expander")
    for problem in chain_problems(chosen):
        yield f"{where}: {problem}"
    if "grpc" in chosen:
        for flag, value in (
            ("grpc-expander-url", config.scale_up.grpc_expander_url),
            ("grpc-expander-cert", config.scale_up.grpc_expander_cert),
        ):
            if value is None:
                yield f"{place(flag)}: is missing; the grpc expander needs it"


def _schedulers(config: Config, place: PlaceNamer) -> Iterator[str]:
    allowed = config.pods.allowed_scheduler_names
    outside = sorted(set(config.pods.bypassed_scheduler_names) - set(allowed)) if allowed else []
    if outside:
        yield (
            f"{place('bypassed-scheduler-names')}: {', '.join(outside)} is not among allowed-scheduler-names; "
            "add it there or drop it here"
        )


def _scale_down(config: Config, place: PlaceNamer) -> Iterator[str]:
    limited = [limit.group for limit in config.scale_down.max_node_deletions_per_minute]
    for group in dict.fromkeys(group for group in limited if limited.count(group) > 1):
        what = "the whole cluster" if group is None else f"group {group}"
        yield f"{place('max-node-deletions-per-minute')}: limits {what} twice; give one of the two"


def _drain(config: Config, place: PlaceNamer) -> Iterator[str]:
    drain = config.drain
    default = type(drain)().max_graceful_termination_sec
    if drain.drain_priority_config and drain.max_graceful_termination_sec != default:
        yield (
            f"{place('drain-priority-config')}: excludes max-graceful-termination-sec "
            f"({drain.max_graceful_termination_sec}); give one of the two"
        )


def _replacement(config: Config, place: PlaceNamer) -> Iterator[str]:
    options = config.replacement
    wanted = (
        ("node-repair-policy", bool(config.repair.node_repair_policy)),
        ("drift", bool(config.drift.drift)),
        ("max-node-age", options.max_node_age_s > 0),
        ("replace-annotated-nodes", options.replace_annotated_nodes),
        ("consolidation", options.consolidation),
        ("node-notices", bool(config.notices.node_notices)),
    )
    if not config.scale_down.scale_down_enabled:
        for flag, on in wanted:
            if on:
                yield f"{place(flag)}: removes nodes, and scale-down-enabled is false; set it, or drop {flag}"
    if options.consolidation_margin > 1:
        yield (
            f"{place('consolidation-margin')}: {options.consolidation_margin:g} is more than all of the price; "
            "write a share from 0 to 1"
        )


def _features(config: Config, place: PlaceNamer) -> Iterator[str]:
    newest = config.source.compatibility is Compatibility.HEAD
    if newest and not config.features.enable_dynamic_resource_allocation:
        yield (
            f"{place('enable-dynamic-resource-allocation')}: false is no longer possible; "
            "drop it, or use --compatibility=1.31"
        )
