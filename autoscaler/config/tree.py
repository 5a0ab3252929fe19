"""The whole configuration as one frozen tree; flags, file keys, defaults and documentation are derived from it.

A field is named as its flag with `_` for `-`; durations are seconds and end in `_s`.
"""

import msgspec

from autoscaler.config.disruption_budgets import DisruptionOptions
from autoscaler.config.drift import DriftOptions
from autoscaler.config.eta import Eta
from autoscaler.config.headroom import Headroom
from autoscaler.config.notices import NoticeOptions
from autoscaler.config.process import ConfigSource, Kube, Leader, Logging, Loop, Observe, Provider
from autoscaler.config.repair import RepairOptions
from autoscaler.config.reservations import Reservations
from autoscaler.config.rules import Rules
from autoscaler.config.scaledown import Drain, RemovedFlags, ReplacementOptions, ScaleDown
from autoscaler.config.scaleup import Balancing, Features, HealthOptions, Pods, ResourceLimits, ScaleUp, TemplateOptions
from autoscaler.config.scheduler_profile import SchedulerProfile


class Config(msgspec.Struct, frozen=True):
    """Every option of the autoscaler, by section."""

    source: ConfigSource = ConfigSource()
    provider: Provider = Provider()
    loop: Loop = Loop()
    kube: Kube = Kube()
    leader: Leader = Leader()
    pods: Pods = Pods()
    scale_up: ScaleUp = ScaleUp()
    limits: ResourceLimits = ResourceLimits()
    balancing: Balancing = Balancing()
    health: HealthOptions = HealthOptions()
    templates: TemplateOptions = TemplateOptions()
    scale_down: ScaleDown = ScaleDown()
    drain: Drain = Drain()
    replacement: ReplacementOptions = ReplacementOptions()
    notices: NoticeOptions = NoticeOptions()
    repair: RepairOptions = RepairOptions()
    disruption: DisruptionOptions = DisruptionOptions()
    drift: DriftOptions = DriftOptions()
    observe: Observe = Observe()
    logging: Logging = Logging()
    features: Features = Features()
    eta: Eta = Eta()
    removed: RemovedFlags = RemovedFlags()
    rules: Rules = Rules()
    scheduler: SchedulerProfile = SchedulerProfile()
    """What the file named by `scheduler-config-file` says."""
    headroom: Headroom | None = None
    """The section of the file; None: there is none, and no headroom."""
    reservations: Reservations | None = None
    """The section of the file; None: there is none, and no reservations."""
    given: tuple[str, ...] = ()
    """Names of the flags that were set, in alphabetical order; the rest are defaults."""

    @property
    def device_claims_count(self) -> bool:
        """Whether devices, and claims on them, are read at all."""
        return self.features.enable_dynamic_resource_allocation and self.rules.device_claims_count

    @property
    def gangs_count(self) -> bool:
        """Whether a gang of pods gets nodes only as a whole."""
        return self.features.gang_scheduling_enabled and self.rules.gangs_are_whole
