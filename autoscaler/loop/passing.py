"""What a pass hands from step to step, and what it leaves to the next one."""

from collections.abc import Mapping

import msgspec
from msgspec.structs import replace

from autoscaler.actuation.answer_log import LoggedAnswer
from autoscaler.actuation.deletion_tracker import TrackedDeletions
from autoscaler.config.tree import Config
from autoscaler.errors import ErrorType
from autoscaler.loop.pass_time import PassTime
from autoscaler.objects.capacity import ProvisioningRequest
from autoscaler.objects.pod import Pod
from autoscaler.observe.report import PassEnd, PassReport
from autoscaler.reasons import UnremovableNode
from autoscaler.registry.memory import Memory
from autoscaler.registry.readiness import Readings
from autoscaler.registry.state import Registry
from autoscaler.scaledown.memory import ScaleDownMemory
from autoscaler.scaledown.plan import Removal
from autoscaler.scaledown.replacement import ReplacementForecast, ReplacementMemory
from autoscaler.scaleup.request_memory import RequestMemory
from autoscaler.scaleup.templates import TemplateCache
from autoscaler.scheduling.placement import Placer
from autoscaler.snapshot.cluster import ClusterView
from autoscaler.snapshot.hints import Hints
from autoscaler.tie_break import TieBreakSeed


class PassMemory(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that one pass leaves to the next."""

    registry: Memory
    scale_down: ScaleDownMemory | None = None
    """None until the first pass has read the taints that an earlier process left."""
    templates: TemplateCache = TemplateCache()
    readings: Readings | None = None
    hints: Hints = Hints()
    unneeded: tuple[Removal, ...] = ()
    """Nodes that could go, as of the last pass that looked."""
    kept: Mapping[str, UnremovableNode] = {}
    """Why other nodes stay, as of then."""
    requests: RequestMemory = RequestMemory()
    replacements: ReplacementMemory | None = None
    """None until a pass has read the annotations that an earlier process left."""
    luck: TieBreakSeed = TieBreakSeed()
    """Moves on with every scale-up that is planned."""


class PassState(msgspec.Struct, frozen=True, kw_only=True):
    """A pass as far as it has come. Steps take one and return the next."""

    report: PassReport
    remembered: PassMemory
    time: PassTime
    placer: Placer | None = None
    """The simulated cluster, with upcoming nodes and the pending pods that fit, from the scale-up step on."""
    under_way: TrackedDeletions = TrackedDeletions()
    """Removals under way when the cluster was observed."""
    housed: frozenset[str] = frozenset()
    """Keys of pods on nodes being removed that found room with pending pods, from the scale-up step on."""
    room: tuple[Pod, ...] = ()
    """Pods that exist nowhere and take part like pending ones, after those: companions keep room with them, and from
    the scale-up step on CapacityBuffers do."""
    requests: tuple[ProvisioningRequest, ...] = ()
    """Those that are served here, with what was decided about them."""
    config: Config | None = None
    """What decides. This and the next three are what a recording of the pass holds."""
    began_with: PassMemory | None = None
    """What was remembered when the pass began."""
    observed: ClusterView | None = None
    """The cluster as it was found, companions' additions included; None: it could not be."""
    answers: tuple[LoggedAnswer, ...] = ()
    """What cloud and cluster said in the course of the pass; there once it has ended."""

    outlooks: Mapping[str, ReplacementForecast] = {}
    """What replacements in progress would come to, by their id, as found before pods were sorted."""
    due: tuple[Removal, ...] = ()
    """Nodes whose replacement has come so far that they may go."""
    spoken_for: Mapping[str, UnremovableNode] = {}
    """Nodes that replacements are about, and that scale-down leaves alone."""

    @property
    def goes_on(self) -> bool:
        """Whether nothing has ended the pass early."""
        return self.report.end is PassEnd.COMPLETE

    @property
    def view(self) -> ClusterView:
        """The cluster as observed."""
        assert self.report.view is not None, "the cluster is observed before anything else"
        return self.report.view

    @property
    def registry(self) -> Registry:
        """The state of nodes and groups."""
        assert self.report.registry is not None, "the registry is updated before anything else"
        return self.report.registry

    def with_report(self, report: PassReport) -> "PassState":
        """Return the pass with another report."""
        return replace(self, report=report)

    def with_memory(self, memory: Memory) -> "PassState":
        """Return the pass with other memories of groups."""
        return replace(self, remembered=replace(self.remembered, registry=memory))

    def failed(self, kind: ErrorType, message: str) -> "PassState":
        """Return the pass ended by a failure."""
        return self.with_report(replace(self.report, end=PassEnd.FAILED, error=message, error_type=kind))
