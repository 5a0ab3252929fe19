"""The frame that all pages share: one HTML document that works without scripts and loads nothing else."""

from typing import Annotated
from urllib.parse import urlencode

import msgspec

from autoscaler.observe.http.routing import HTML, Response
from autoscaler.observe.page.markup import NOTHING, Html, html
from autoscaler.observe.page.style import CONTENT_SECURITY_POLICY, STYLE

DEFAULT_REFRESH_S = 15
_MAX_REFRESH_S = 3600


class PageOptions(msgspec.Struct, frozen=True, rename={"all_rows": "all", "refresh_s": "refresh"}):
    """Options from the URL of a page."""

    all_rows: Annotated[bool, msgspec.Meta(description="Whether to show every row.")] = False
    refresh_s: Annotated[
        int,
        msgspec.Meta(ge=0, le=_MAX_REFRESH_S, description="Seconds after which the page reloads; 0 means never."),
    ] = DEFAULT_REFRESH_S

    def link(self, *, all_rows: bool, refresh_s: int) -> str:
        """Return the relative address of the page with other options."""
        changed = [("all", 1 if all_rows else 0, 0), ("refresh", refresh_s, DEFAULT_REFRESH_S)]
        return "?" + urlencode([(name, value) for name, value, default in changed if value != default])

    @property
    def all_rows_link(self) -> str | None:
        """The address of the page with every row; None if this is that page."""
        return None if self.all_rows else self.link(all_rows=True, refresh_s=self.refresh_s)


def document(title: str, options: PageOptions, body: Html) -> Html:
    """Return a whole page."""
    refresh = html('<meta http-equiv="refresh" content="{}">', options.refresh_s) if options.refresh_s else NOTHING
    return html(
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8"><title>{} · Cluster autoscaler</title>'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        '<meta name="color-scheme" content="light dark">{}<style>{}</style></head>'
        "<body>{}</body></html>\n",
        title,
        refresh,
        Html(STYLE),
        body,
    )


def refresh_text(options: PageOptions) -> Html:
    """Return how often the page reloads, with a link that changes it."""
    if options.refresh_s:
        pause = options.link(all_rows=options.all_rows, refresh_s=0)
        return html('refreshes every {} s (<a href="{}">pause</a>)', options.refresh_s, pause)
    resume = options.link(all_rows=options.all_rows, refresh_s=DEFAULT_REFRESH_S)
    return html('does not refresh (<a href="{}">resume</a>)', resume)


def page_response(text: Html) -> Response:
    """Return the answer that carries a page; browsers may load nothing but it."""
    return Response(text.encode(), HTML, headers={"Content-Security-Policy": CONTENT_SECURITY_POLICY})
