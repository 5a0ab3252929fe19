"""The operator's settings: `--nodes`, `--node-group-auto-discovery`, the GCE flags and the cloud configuration."""

import configparser
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache, partial

import msgspec

from cloudprovider.expression import Expression
from cloudprovider.file import read_text
from cloudprovider.gce.client import ENDPOINT
from cloudprovider.gce.refs import GroupRef
from cloudprovider.interface import ProviderContext
from cloudprovider.number import parse_count
from cloudprovider.problems import Problems
from cloudprovider.sizes import MOST_NODES, read_sizes

_DISCOVERY_KEYS = ("namePrefix", "min", "max")
_URL = "https://www.googleapis.com/compute/v1/projects/<project>/zones/<zone>/instanceGroups/<name>"


class Limits(msgspec.Struct, frozen=True):
    """The sizes that a group is scaled between."""

    min_size: int
    max_size: int


class Discovery(msgspec.Struct, frozen=True):
    """Discovers groups by their names."""

    pattern: str
    """A regular expression that a whole name must match."""
    limits: Limits

    def finds(self, name: str) -> bool:
        """Whether a group of this name is selected."""
        return _expression(self.pattern).is_all_of(name)


@lru_cache(maxsize=64)
def _expression(text: str) -> Expression:
    return Expression(text)


class CloudConfig(msgspec.Struct, frozen=True):
    """The file of `--cloud-config`, as Kubernetes' cloud provider for GCE has it."""

    project: str = ""
    zone: str = ""
    endpoint: str = ENDPOINT


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """All of the operator's settings."""

    groups: Mapping[GroupRef, Limits]
    discoveries: Sequence[Discovery]
    cloud: CloudConfig
    regional: bool
    """Discover groups in all zones of the region and in the region itself."""
    threads: int
    bulk: bool
    min_list_age_s: float


def read_settings(context: ProviderContext) -> Settings:
    """Read the flags and files; `Misconfigured` has a line for every problem."""
    problems = Problems()
    groups = dict(_groups(context.node_specs, problems))
    discoveries = tuple(_discoveries(context.discovery_specs, problems))
    cloud = CloudConfig() if context.config_file is None else _read_cloud_config(context.config_file, problems)
    if not (context.node_specs or context.discovery_specs):
        problems.add("nodes", "gce needs --nodes=min:max:URL or --node-group-auto-discovery=mig:namePrefix=...")
    problems.raise_if_any()
    return Settings(
        groups=groups,
        discoveries=discoveries,
        cloud=cloud,
        regional=bool(context.flags.get("regional", False)),
        threads=max(1, int(context.flags.get("gce-concurrent-refreshes", 1))),
        bulk=bool(context.flags.get("bulk-mig-instances-listing-enabled", False)),
        min_list_age_s=float(context.flags.get("gce-mig-instances-min-refresh-wait-time", 5.0)),
    )


def _groups(specs: Sequence[str], problems: Problems) -> Iterator[tuple[GroupRef, Limits]]:
    for sized in read_sizes(specs, problems):
        ref = GroupRef.parse(sized.name)
        if ref is None:
            problems.add("nodes", f"{sized.name!r} is not the URL of a managed instance group, such as {_URL}")
        else:
            yield ref, Limits(sized.min_size, sized.max_size)


def _discoveries(specs: Sequence[str], problems: Problems) -> Iterator[Discovery]:
    for spec in specs:
        discovery = _discovery(spec, partial(problems.add, f"node-group-auto-discovery: {spec}"))
        if discovery is not None:
            yield discovery


def _discovery(spec: str, complain: Callable[[str], None]) -> Discovery | None:
    kind, colon, rest = spec.partition(":")
    if kind != "mig" or not colon or ":" in rest:
        complain("is not mig:namePrefix=<prefix>,min=<n>,max=<n>")
        return None
    pairs = [part.partition("=") for part in rest.split(",")]
    values = {key: value for key, equals, value in pairs if equals and key in _DISCOVERY_KEYS}
    for key, equals, _ in pairs:
        if not equals or key not in _DISCOVERY_KEYS:
            complain(f"{key!r} is not one of {', '.join(f'{known}=' for known in _DISCOVERY_KEYS)}")
    limits = _limits(values, complain)
    if "namePrefix" not in values:
        complain("has no namePrefix")
    pattern = f"{values.get('namePrefix', '')}.+"
    try:
        _expression(pattern)
    except ValueError as error:
        complain(f"namePrefix: {error}")
        return None
    return None if limits is None else Discovery(pattern, limits)


def _limits(values: Mapping[str, str], complain: Callable[[str], None]) -> Limits | None:
    least, most = (parse_count(values.get(key, "0"), MOST_NODES) for key in ("min", "max"))
    for key, size in (("min", least), ("max", most)):
        if size is None:
            complain(f"{key}={values[key]} is not a whole number")
    if least is None or most is None:
        return None
    if most < 1:
        complain("max must be at least 1")
    elif least > most:
        complain(f"min {least} is above max {most}")
    return Limits(least, most)


def _read_cloud_config(path: str, problems: Problems) -> CloudConfig:
    parser = configparser.ConfigParser(
        strict=False, interpolation=None, allow_no_value=True, delimiters=("=",), inline_comment_prefixes=("#", ";")
    )
    try:
        parser.read_string(read_text(path))
    except ValueError as error:
        problems.add(path, str(error))
        return CloudConfig()
    except configparser.Error as error:
        problems.add(path, f"cannot be read: {' '.join(str(error).split())}")
        return CloudConfig()
    section = next((name for name in parser.sections() if name.lower() == "global"), None)
    values = {} if section is None else {key: (value or "").strip('"') for key, value in parser.items(section)}
    if values.get("token-url", "nil") not in {"", "nil"}:
        problems.add(path, "token-url is not supported; give the pod credentials by workload identity or a key file")
    endpoint = values.get("api-endpoint", "")
    if endpoint and not endpoint.startswith("https://"):
        problems.add(path, f"api-endpoint: {endpoint!r} does not begin with https://")
    return CloudConfig(values.get("project-id", ""), values.get("local-zone", ""), endpoint or ENDPOINT)
