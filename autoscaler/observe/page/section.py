"""A companion's section of the status page, and its warning at the top."""

from collections.abc import Callable

import msgspec

from autoscaler.observe.page.markup import Html


class SectionContent(msgspec.Struct, frozen=True):
    """The content of a section at one moment."""

    body: Html
    alarm: str = ""
    """A problem as one sentence for the top of the page; empty if there is none."""


class CompanionSection(msgspec.Struct, frozen=True):
    """The section of a configured companion; without it the page does not mention the companion."""

    title: str
    data: str
    """The path of the same data as JSON."""
    show: Callable[[float, str | None], SectionContent]
    """Takes the time (Unix seconds) and the link to every row (None if this is that page)."""
