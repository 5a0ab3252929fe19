"""Which options can change while the daemon runs, and how a reloaded configuration is applied."""

from collections.abc import Iterator

import msgspec
from msgspec.structs import replace

from autoscaler.config import validation
from autoscaler.config.flags import Flag, flags, value_of
from autoscaler.config.headroom import Headroom
from autoscaler.config.tree import Config
from autoscaler.errors import ConfigError

_FIXED_SECTIONS = frozenset({"source", "provider", "kube", "leader", "observe", "logging", "removed"})
"""Sections that are used only to build the process."""
_FIXED = frozenset(
    {
        "capacity-buffer-controller-enabled",
        "capacity-buffer-pod-injection-enabled",
        "capacity-quotas-enabled",
        "dry-run",
        "enable-provisioning-requests",
        "expendable-pods-priority-cutoff",
        "grpc-expander-cert",
        "grpc-expander-url",
        "max-failing-time",
        "max-inactivity",
        "max-pass-time",
        "max-stall-time",
        "max-startup-time",
        "max-termination-time",
    }
)
"""Further flags of that kind: what is followed, connected to, or counted from the start."""
_FOLLOWED_EXPANDERS = frozenset({"grpc", "priority"})
"""Expanders whose client must exist from the start of the process."""
_DERIVED = frozenset({"rules", "scheduler", "given"})
"""Fields of the tree that follow from flags."""


class Transition(msgspec.Struct, frozen=True):
    """The effect of a reloaded configuration on a running process."""

    config: Config
    """The one to go on with."""
    changed: tuple[str, ...]
    """Flags and sections that are different from now on."""
    waiting: tuple[str, ...]
    """Those that differ from what the process runs with and need a restart."""


def is_live(flag: Flag) -> bool:
    """Whether a change of the flag takes effect while the daemon runs."""
    return flag.section not in _FIXED_SECTIONS and flag.name not in _FIXED


def transition(started: Config, running: Config, wanted: Config) -> Transition:
    """Return what to go on with where `wanted` has been read: what can change does, the rest waits for a restart.

    `started` is what the process was built with. Raises `ConfigError` where the two halves contradict each other.
    """
    differing = [flag for flag in flags().values() if value_of(running, flag) != value_of(wanted, flag)]
    changing = [flag for flag in differing if is_live(flag) and not _needs_what_is_not_there(flag, started, wanted)]
    sections: dict[str, dict[str, object]] = {}
    for flag in changing:
        sections.setdefault(flag.section, {})[flag.field] = value_of(wanted, flag)
    config = replace(
        running,
        scheduler=wanted.scheduler,
        given=wanted.given,
        **{name: replace(getattr(running, name), **fields) for name, fields in sections.items()},
    )
    config = config if running.headroom is None else replace(config, headroom=wanted.headroom or Headroom())
    if running.reservations is not None and wanted.reservations is not None:
        config = replace(config, reservations=wanted.reservations)
    if problems := validation.problems(config, lambda name: f"--{name}"):
        raise ConfigError(tuple(problems))
    changed = [flag.name for flag in changing]
    changed += [
        name for name in ("scheduler", "headroom", "reservations") if getattr(config, name) != getattr(running, name)
    ]
    waiting = [flag.name for flag in differing if flag not in changing]
    waiting += [
        name for name in _trees() if getattr(config, name) != getattr(wanted, name) and not _empty(name, wanted)
    ]
    return Transition(config, tuple(changed), tuple(waiting))


def _needs_what_is_not_there(flag: Flag, started: Config, wanted: Config) -> bool:
    if flag.name != "expander":
        return False
    return bool((_FOLLOWED_EXPANDERS & {*wanted.scale_up.expander}) - {*started.scale_up.expander})


def _trees() -> Iterator[str]:
    """Yield the sections that are trees of their own."""
    flagged = {flag.section for flag in flags().values()}
    yield from (name for name in Config.__struct_fields__ if name not in flagged | _DERIVED)


def _empty(name: str, wanted: Config) -> bool:
    """Whether headroom is no more in the file: then there are no pools from now on, without a restart."""
    return name == "headroom" and wanted.headroom is None
