"""Hints: the nodes where pods found room in earlier passes, which a search tries first."""

from collections.abc import Mapping

import msgspec

from autoscaler.objects.pod import Pod


class Hints(msgspec.Struct, frozen=True):
    """Node names by pod `identity`, from the last two passes."""

    newer: Mapping[str, str] = {}
    older: Mapping[str, str] = {}

    def get(self, pod: Pod) -> str | None:
        """Return the name of the node where a pod was last placed; None if there is none."""
        who = identity(pod)
        return self.newer.get(who) or self.older.get(who)

    def updated(self, places: Mapping[str, str]) -> "Hints":
        """Return the hints for the next pass; `places` holds this pass's node names by pod identity."""
        return Hints(places, self.newer)


def identity(pod: Pod) -> str:
    """Return the pod's uid, or its key if it has no uid."""
    return pod.uid or pod.key
