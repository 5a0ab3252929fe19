"""Options of notices: what happens when a cloud announces that a machine will leave."""

from collections.abc import Callable, Iterator
from typing import Annotated

import msgspec

from autoscaler.config.process import Provider
from autoscaler.config.syntax import Support, parse_names
from cloudprovider.interface import NoticeKind
from cloudprovider.nearest import nearest
from cloudprovider.structure import Seconds, Syntax


def _parse_kinds(text: str) -> tuple[NoticeKind, ...]:
    kinds = []
    for word in parse_names(text):
        try:
            kinds.append(NoticeKind(word))
        except ValueError:
            known = ", ".join(NoticeKind)
            raise ValueError(
                f'holds "{word}", which is no kind of notice; known are {known}{nearest(word, NoticeKind)}'
            ) from None
    return tuple(dict.fromkeys(kinds))


_NoticeKinds = Annotated[
    tuple[NoticeKind, ...],
    Syntax("text, comma-separated", _parse_kinds, ",".join, choices=lambda: NoticeKind),
]


class NoticeOptions(msgspec.Struct, frozen=True):
    """Notices that a machine will leave."""

    node_notices: Annotated[
        _NoticeKinds,
        "Replace nodes whose machine will leave according to notices of these kinds; none by default.",
        Support.OURS,
    ] = ()
    notice_cooldown_s: Annotated[
        Seconds,
        "How long a group grows only for pods that no other group takes, after a spot interruption of one of its nodes "
        "(with --node-notices; 0: not at all).",
        Support.OURS,
    ] = 180.0


def problems(options: NoticeOptions, provider: Provider, place: Callable[[str], str]) -> Iterator[str]:
    """Yield a line for each contradiction."""
    if provider.aws_notice_queue_url and not options.node_notices:
        yield (
            f"{place('aws-notice-queue-url')}: nobody would act on the notices of the queue; "
            f"write for example --node-notices={NoticeKind.SPOT_INTERRUPTION}"
        )
    if provider.aws_notice_queue_url and provider.cloud_provider not in (None, "aws"):
        yield f"{place('aws-notice-queue-url')}: only the provider aws reads it; drop it"
