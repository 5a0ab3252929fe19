"""Builds one validated `Config` from all sources, or reports all errors at once."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, TypeVar

import msgspec

from autoscaler.config import validation
from autoscaler.config.arguments import parse_environment, parse_flags
from autoscaler.config.document import parse_document, parse_options
from autoscaler.config.flags import flags
from autoscaler.config.headroom import Headroom, read_headroom
from autoscaler.config.presets import defaults_of, rules_of
from autoscaler.config.process import Compatibility
from autoscaler.config.reservations import Reservations, read_reservations
from autoscaler.config.scaledown import ScaleDownProfile
from autoscaler.config.scaleup import GroupsPerPass
from autoscaler.config.scheduler_profile import SchedulerProfile, read_profile
from autoscaler.config.settings import Settings, merge
from autoscaler.config.tree import Config
from autoscaler.errors import ConfigError
from cloudprovider.document import parse_yaml
from cloudprovider.file import read_text
from cloudprovider.interface import Misconfigured

T = TypeVar("T")


def load(argv: Sequence[str], environ: Mapping[str, str] | None = None, *, needs_provider: bool = False) -> Config:
    """Build the daemon's configuration; flags win over the file, that over the environment, that over the preset.

    Reads the files named by `config` and `scheduler-config-file`. Raises `ConfigError` with every problem, with
    `needs_provider` that of a cloud provider that is not chosen, or not installed, too.
    """
    from_flags = parse_flags(argv)
    from_environment = parse_environment(environ or {})
    path = merge([from_environment, from_flags]).values.get("config")
    from_file = Settings() if path is None else _parse_file(path)
    given = merge([from_environment, from_file, from_flags])
    problems = (*given.problems, *(_provider_problems(given) if needs_provider else ()))
    return _build(msgspec.structs.replace(given, problems=problems), partial(_scheduler_profile, given))


def _provider_problems(given: Settings) -> Iterator[str]:
    name = given.values.get("cloud-provider")
    if name is None:
        yield "cloud-provider: none is chosen; set --cloud-provider (autoscaler provider list shows them)"
        return
    from cloudprovider.catalog import entry_of

    try:
        entry_of(name)
    except Misconfigured as error:
        yield str(error)


def load_file(path: str) -> Config:
    """Build a configuration from a file alone; raises `ConfigError` with every problem."""
    given = _parse_file(path)
    return _build(given, partial(_scheduler_profile, given))


def from_options(options: Mapping[str, Any], argv: Sequence[str] = ()) -> Config:
    """Build a configuration from flags by name, as a scenario has them, and a command line that wins over them.

    Reads no file: a recording must replay where its files are not. Raises `ConfigError` with every problem, those
    of options as `options.<flag>: ...`.
    """
    return _build(merge([parse_options(options), parse_flags(argv)]), unset="options.")


def from_documents(options: Mapping[str, Any], documents: Mapping[str, str]) -> Config:
    """Build a configuration from flags by name and the texts of configuration files, by name, of which later ones win.

    Raises `ConfigError` with every problem.
    """
    texts = [parse_document(text, name) for name, text in documents.items()]
    return _build(merge([parse_options(options), *texts]), unset="options.")


def load_reservations(text: str, name: str, cutoff: int) -> Reservations | None:
    """Read the reservations of a configuration file's text anew; None where it has none.

    `cutoff` is the priority below which pods are expendable. Raises `ConfigError` with every problem of the section.
    """
    given = parse_document(text, name)
    problems = list(given.problems)
    reservations = _read(partial(_reservations, given, cutoff), problems)
    if problems:
        raise ConfigError(problems)
    return reservations


def _parse_file(path: str) -> Settings:
    try:
        text = read_text(path)
    except ValueError as error:
        return Settings(problems=(f"{path}: {error}",))
    return parse_document(text, path)


def _build(
    given: Settings, read_scheduler: Callable[[], SchedulerProfile] = SchedulerProfile, unset: str = "--"
) -> Config:
    problems = list(given.problems)
    scheduler = _read(read_scheduler, problems) or SchedulerProfile()
    config = msgspec.structs.replace(_fill(given.values), scheduler=scheduler)
    problems += validation.problems(config, lambda name: given.places.get(name) or unset + name)
    cutoff, address = config.pods.expendable_pods_priority_cutoff, config.observe.reservations_address
    headroom = _read(partial(_headroom, given, cutoff), problems)
    reservations = _read(partial(_reservations, given, cutoff, address), problems)
    if problems:
        raise ConfigError(problems)
    return msgspec.structs.replace(config, headroom=headroom, reservations=reservations)


def _read(read: Callable[[], T], problems: list[str]) -> T | None:
    try:
        return read()
    except ConfigError as error:
        problems += error.problems
        return None


def _fill(given: Mapping[str, Any]) -> Config:
    version = given.get("compatibility", Compatibility.HEAD)
    profile = given.get("scale-down-profile", ScaleDownProfile.CAREFUL)
    values = {**defaults_of(version, profile), **given}
    if "max-empty-bulk-delete" in given and "max-scale-down-parallelism" not in given:
        values["max-scale-down-parallelism"] = given["max-empty-bulk-delete"]
    if given.get("salvo-scale-up") and "groups-per-pass" not in given:
        values["groups-per-pass"] = GroupsPerPass.ALL
    by_section: dict[str, dict[str, Any]] = {}
    for name, value in values.items():
        flag = flags()[name]
        by_section.setdefault(flag.section, {})[flag.field] = value
    defaults = Config()
    sections = {
        section: msgspec.structs.replace(getattr(defaults, section), **fields) for section, fields in by_section.items()
    }
    return msgspec.structs.replace(defaults, **sections, rules=rules_of(version), given=tuple(sorted(given)))


def _headroom(given: Settings, cutoff: int) -> Headroom | None:
    return read_headroom(given.sections["headroom"], cutoff) if "headroom" in given.sections else None


def _reservations(given: Settings, cutoff: int, address: str = "") -> Reservations | None:
    if "reservations" in given.sections:
        return read_reservations(given.sections["reservations"], cutoff, address)
    if address:
        place = given.places.get("reservations-address", "--reservations-address")
        raise ConfigError(f"{place}: there is no reservations section in the file of --config")
    return None


def _scheduler_profile(given: Settings) -> SchedulerProfile:
    path = given.values.get("scheduler-config-file")
    if path is None:
        return SchedulerProfile()
    where = f"{given.places['scheduler-config-file']}: {path}"
    try:
        text = read_text(path)
    except ValueError as error:
        raise ConfigError(f"{where} {error}") from error
    try:
        return read_profile(parse_yaml(text))
    except ValueError as error:
        raise ConfigError(f"{where} is not YAML: {error}") from error
    except ConfigError as error:
        raise ConfigError(f"{where} {problem}" for problem in error.problems) from error
