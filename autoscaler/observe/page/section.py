"""A companion's section of the status page, and its warning at the top."""

from collections.abc import Callable

import msgspec

from autoscaler.observe.page.markup import Html


class SectionContent(msgspec.Struct, frozen=True):
    """A section as of one moment."""

    body: Html
    alarm: str = ""
    """What is wrong, as one sentence for the top of the page; empty where nothing is."""


class CompanionSection(msgspec.Struct, frozen=True):
    """A section of a companion that is configured; without it the page does not mention the companion."""

    title: str
    data: str
    """Where programs find the same as JSON."""
    show: Callable[[float, str | None], SectionContent]
    """Takes the time (Unix seconds), and the link to every row; None: this is that page."""
