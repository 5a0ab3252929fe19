"""The memory that one pass leaves to the next."""

from collections.abc import Mapping

import msgspec
from msgspec.structs import replace

from autoscaler.reasons import UnremovableNode
from autoscaler.registry.memory import Memory
from autoscaler.registry.readiness import Readings
from autoscaler.scaledown.memory import ScaleDownMemory, forgotten
from autoscaler.scaledown.plan import Removal
from autoscaler.scaledown.replacement import ReplacementMemory
from autoscaler.scaleup.gang_purchases import GangPurchase
from autoscaler.scaleup.request_memory import RequestMemory
from autoscaler.scaleup.templates import TemplateCache
from autoscaler.snapshot.hints import Hints
from autoscaler.tie_break import TieBreakSeed


class PassMemory(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that one pass leaves to the next. Recordings use these field names."""

    registry: Memory
    scale_down: ScaleDownMemory | None = None
    """None until the first pass has read the taints that an earlier process left."""
    templates: TemplateCache = TemplateCache()
    readings: Readings | None = None
    hints: Hints = Hints()
    unneeded: tuple[Removal, ...] = ()
    """Removable nodes, as found by the last pass that looked."""
    kept: Mapping[str, UnremovableNode] = {}
    """Why other nodes stay, as found by the same pass."""
    requests: RequestMemory = RequestMemory()
    gang_purchases: tuple[GangPurchase, ...] = ()
    """Machines on their way that only gangs that wait are to use."""
    replacements: ReplacementMemory | None = None
    """None until a pass has read the annotations that an earlier process left."""
    luck: TieBreakSeed = TieBreakSeed()
    """Changes with every scale-up plan."""


def without_timers(memory: PassMemory) -> PassMemory:
    """Reset all unneeded timers: no node is removed based on observations of an unhealthy cluster."""
    if memory.scale_down is None:
        return memory
    return replace(memory, scale_down=forgotten(memory.scale_down), unneeded=())
