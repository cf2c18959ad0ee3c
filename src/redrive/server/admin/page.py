"""Pages: routes that answer with HTML. Pages only read; forms and buttons change things through the API."""

from __future__ import annotations

import gzip
from collections.abc import Callable
from typing import Annotated, Any, Literal, NamedTuple, cast
from urllib.parse import unquote
from zoneinfo import ZoneInfo, available_timezones

from fastapi import Depends
from starlette.requests import Request
from starlette.responses import Response

from redrive.policy.access import Permission
from redrive.server.access_control import AccessRule, may
from redrive.server.admin.environment import PAGES, environment, link
from redrive.server.admin.shell import shell_of
from redrive.server.admin.static_files import takes_gzip
from redrive.server.request_context import RequestContext
from redrive.server.route import F, Routes
from redrive.server.site import site_of

READ = may(Permission.READ)
COMPRESSION_LEVEL = 4
"""Fast: a page is compressed for each request."""
POLICY = (
    "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; img-src 'self'; "
    "form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
)


PREFERENCES_COOKIE = "redrive_look"
Theme = Literal["auto", "light", "dark"]
_THEMES = ("auto", "light", "dark")
_ZONES = available_timezones()


class Preferences(NamedTuple):
    """How a person likes the pages. Their browser keeps it in a cookie."""

    theme: Theme = "auto"
    zone: ZoneInfo = ZoneInfo("UTC")

    @classmethod
    def of(cls, request: Request) -> Preferences:
        return cls.parse(request.cookies.get(PREFERENCES_COOKIE, ""))

    @classmethod
    def parse(cls, text: str) -> Preferences:
        """Read "dark|Europe/Zurich"; a part that is unknown keeps its default."""
        theme, _, zone = unquote(text).partition("|")
        return cls(
            cast(Theme, theme) if theme in _THEMES else "auto", ZoneInfo(zone if zone in _ZONES else "UTC")
        )


class ViewLink(NamedTuple):
    """A saved view as a link to its page."""

    id: str
    name: str
    address: str


class Pages(Routes):
    """The pages of one noun: @pages.get("/runs", READ)."""

    def __init__(self, noun: str) -> None:
        super().__init__(f"pages.{noun}", PAGES)

    def get(self, path: str, rule: AccessRule = READ, **options: Any) -> Callable[[F], F]:
        return super().get(path, rule, include_in_schema=False, **options)


class Page:
    """The request for a page: who asks, when, with which preferences; and how to answer."""

    def __init__(self, request: Request) -> None:
        self.request = request
        self.visit: RequestContext = request.state.visit
        self.preferences = Preferences.of(request)
        self.now = self.visit.app.clock.now()

    def may(self, permission: str) -> bool:
        return Permission(permission) in self.visit.principal.permissions

    async def render(self, template: str, *, place: str, status: int = 200, **values: Any) -> Response:
        """Render a whole page. `place` is the entry of the navigation that it belongs to."""
        site = site_of(self.request.scope)
        shell = await shell_of(self.visit, site.authenticator.session_token(self.request))
        banner = site.banner and await site.banner.rendered(self.request, self.visit.caller)
        around = {"shell": shell, "place": place, "banner": banner}
        return html(self.request, template, status, **self._common(), **around, **values)

    def fragment(self, template: str, **values: Any) -> Response:
        """Render a part of a page, without the shell."""
        return html(self.request, template, 200, **self._common(), **values)

    async def saved_views(self, page: str) -> list[ViewLink]:
        return [
            ViewLink(view.id, view.name, link(f"/{view.page}", q=view.query, view=view.view, sort=view.sort))
            for view in await (await self.visit.desk()).saved_views.list(page)
        ]

    def _common(self) -> dict[str, Any]:
        principal = self.visit.principal
        return {
            "preferences": self.preferences,
            "now": self.now,
            "may": self.may,
            "principal": principal,
            "at_home": principal.at_home,
            "path": self.request.url.path,
            "here": _address(self.request),
        }


def html(request: Request, template: str, status: int, /, **values: Any) -> Response:
    """Render a template, compressed. So no page may contain a secret: the compressed size would reveal it."""
    text = environment().get_template(template).render(values)
    # With no referrer at all, browsers would not send the origin of a form either.
    headers = {"Content-Security-Policy": POLICY, "Referrer-Policy": "same-origin"}
    content = _sendable(text)
    if takes_gzip(request):
        headers |= {"Content-Encoding": "gzip", "Vary": "Accept-Encoding"}
        content = gzip.compress(content, COMPRESSION_LEVEL, mtime=0)
    return Response(content, status, headers, "text/html; charset=utf-8")


def _sendable(text: str) -> bytes:
    """Encode as UTF-8; half of a surrogate pair, which has no encoding, becomes a replacement character."""
    try:
        return text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace").encode()


def _address(request: Request) -> str:
    query = request.url.query
    return f"{request.url.path}?{query}" if query else request.url.path


async def _page_of(request: Request) -> Page:
    return Page(request)


OnPage = Annotated[Page, Depends(_page_of)]
