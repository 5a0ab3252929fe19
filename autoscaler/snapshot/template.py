"""What a new node of a group would look like."""

import msgspec

from autoscaler.objects.node import Node
from autoscaler.objects.pod import Pod


class Template(msgspec.Struct, frozen=True):
    """A node as it would join a group, with the pods that come with it."""

    node: Node
    pods: tuple[Pod, ...] = ()
