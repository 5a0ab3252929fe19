"""Hints: the nodes where pods found room in earlier passes, which a search tries first."""

from collections.abc import Mapping

import msgspec

from autoscaler.objects.pod import Pod


class Hints(msgspec.Struct, frozen=True):
    """Nodes, by name, on which pods were placed, by `identity`; kept for two passes."""

    newer: Mapping[str, str] = {}
    older: Mapping[str, str] = {}

    def get(self, pod: Pod) -> str | None:
        """Return the node on which a pod was last placed."""
        who = identity(pod)
        return self.newer.get(who) or self.older.get(who)

    def updated(self, places: Mapping[str, str]) -> "Hints":
        """Return the hints of the next pass; `places` are nodes by pod identity, as this pass placed them."""
        return Hints(places, self.newer)


def identity(pod: Pod) -> str:
    """Return what identifies a pod: its uid, or its key where it has none."""
    return pod.uid or pod.key
