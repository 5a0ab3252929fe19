"""Lead times of offline planners, from the command line or from the stored boot times."""

import argparse
from collections.abc import Iterable

from autoscaler.cli.arguments import add_repeatable
from autoscaler.config.tree import Config
from autoscaler.errors import ConfigError
from autoscaler.eta.boot_times import CONFIG_MAP, Samples
from autoscaler.eta.estimate import LoopIntervals
from autoscaler.eta.lead_time import Ahead, Lead, configured_lead, learned_lead
from autoscaler.eta.samples import Knowledge, Ring
from cloudprovider.duration import parse_duration_s


def add_lead(plan: argparse.ArgumentParser, noun: str) -> None:
    """Declare the option that sets the lead times of pools or targets; `noun` says which."""
    add_repeatable(
        plan,
        "--lead",
        f"{noun.upper()}=DURATION",
        f"how long before a window a {noun} is served, as the daemon tells it; "
        f"without it the ConfigMap {CONFIG_MAP} counts, if it is among the objects",
        _stated,
    )


def _stated(text: str) -> tuple[str, float]:
    name, equals, duration = text.partition("=")
    try:
        seconds = parse_duration_s(duration)
    except ValueError:
        seconds = -1.0
    if not (name and equals) or seconds < 0:
        raise argparse.ArgumentTypeError(f"{text!r} is not NAME=DURATION, such as ci=4m")
    return name, seconds


class GivenLeads:
    """Lead times by name. The templates of groups are unknown offline, so boots of all groups count together."""

    def __init__(
        self, stated: Iterable[tuple[str, float]], names: Iterable[str], boots: Samples, config: Config, wall: float
    ) -> None:
        """Raises `ConfigError` for a name that is not among `names`."""
        self._stated = dict(stated)
        if unknown := self._stated.keys() - set(names):
            raise ConfigError(f"--lead: there is no {name}" for name in sorted(unknown))
        self._knowledge = Knowledge(boots={group: Ring(own).ordered(wall) for group, own in boots.items()})
        self._times = LoopIntervals(config.loop.scan_interval_s, config.health.max_node_provision_time_s)

    def lead(self, name: str, configured_s: float | None, ahead: Ahead) -> Lead:
        """Return how long before a window its capacity is requested; a time from the command line has priority over the
        file.
        """
        seconds = self._stated.get(name, configured_s)
        return learned_lead(self._knowledge, (), ahead, self._times) if seconds is None else configured_lead(seconds)
