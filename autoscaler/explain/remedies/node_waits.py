"""Says when a removable node may go that only time, or a person, keeps."""

from collections.abc import Iterator

from autoscaler.explain.remedies.changes import Wait
from autoscaler.explain.remedies.remedy import CulpritKind, Remedy, remedy
from autoscaler.reasons import UnremovableNode


def until_open(stays: UnremovableNode) -> Iterator[Remedy]:
    """Yield how long no window of the group is open."""
    wait = Wait(seconds=stays.time_left_s or 0.0)
    text, cause = f"Wait {wait.span} until the window opens.", "is unneeded outside --scale-down-window"
    yield remedy(stays.reason, (CulpritKind.FLAG, "scale-down-window"), text, [wait], cause)


def until_resumed(stays: UnremovableNode) -> Iterator[Remedy]:
    """Yield how long removals of the node are paused, if the pause has an end."""
    waits = [] if stays.time_left_s is None else [Wait(seconds=stays.time_left_s)]
    text = f"Wait {waits[0].span}, or run autoscaler resume." if waits else "Run autoscaler resume."
    yield remedy(stays.reason, (CulpritKind.NODE, stays.node), text, waits, f"has to wait: {stays.detail}")


def until_next_minute(stays: UnremovableNode) -> Iterator[Remedy]:
    """Yield when the limit on the rate of removals allows another one."""
    wait = Wait(seconds=stays.time_left_s or 0.0)
    text, flag = f"Wait {wait.span}; the next removal may begin then.", "max-node-deletions-per-minute"
    cause = f"has to wait, since as many nodes as --{flag} allows went within a minute"
    yield remedy(stays.reason, (CulpritKind.FLAG, flag), text, [wait], cause)
