"""Pages: routes that answer with HTML. They only read; what changes something goes through the API."""

from __future__ import annotations

import gzip
from collections.abc import Callable
from typing import Annotated, Any

from fastapi import Depends
from starlette.requests import Request
from starlette.responses import Response

from redrive.policy.access import Permission
from redrive.server.admin.environment import PAGES, environment
from redrive.server.admin.look import Look
from redrive.server.admin.shell import shell_of
from redrive.server.admin.static_files import takes_gzip
from redrive.server.cookie import session_token
from redrive.server.request_context import RequestContext
from redrive.server.route import F, Routes
from redrive.server.rule import Rule, may
from redrive.server.site import site_of

READ = may(Permission.READ)
QUICKLY = 4
POLICY = (
    "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; img-src 'self'; "
    "form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
)


class Pages(Routes):
    """The pages of one noun: @pages.get("/runs", READ)."""

    def __init__(self, noun: str) -> None:
        super().__init__(f"pages.{noun}", PAGES)

    def get(self, path: str, rule: Rule = READ, **options: Any) -> Callable[[F], F]:
        return super().get(path, rule, include_in_schema=False, **options)


class Page:
    """What a handler works with: who is there, and how the answer is written."""

    def __init__(self, request: Request) -> None:
        self.request = request
        self.visit: RequestContext = request.state.visit
        self.look = Look.of(request)
        self.now = self.visit.app.clock.now()

    def may(self, permission: str) -> bool:
        return Permission(permission) in self.visit.principal.permissions

    async def render(self, template: str, *, place: str, status: int = 200, **values: Any) -> Response:
        """`place` is the entry of the navigation that it belongs to."""
        site = site_of(self.request.scope)
        shell = await shell_of(self.visit, session_token(self.request, site))
        banner = site.banner and await site.banner.rendered(self.request, self.visit.caller)
        around = {"shell": shell, "place": place, "banner": banner}
        return html(self.request, template, status, **self._common(), **around, **values)

    def fragment(self, template: str, **values: Any) -> Response:
        """A part of a page, without what is around it."""
        return html(self.request, template, 200, **self._common(), **values)

    def _common(self) -> dict[str, Any]:
        principal = self.visit.principal
        return {
            "look": self.look,
            "now": self.now,
            "may": self.may,
            "principal": principal,
            "at_home": principal.at_home,
            "path": self.request.url.path,
            "here": _address(self.request),
        }


def html(request: Request, template: str, status: int, /, **values: Any) -> Response:
    """Compressed, as lists repeat themselves. So no page may hold a token: its size would tell of it."""
    text = environment().get_template(template).render(values)
    # Without any referrer, browsers do not say either which page a form comes from.
    headers = {"Content-Security-Policy": POLICY, "Referrer-Policy": "same-origin"}
    content = _sendable(text)
    if takes_gzip(request):
        headers |= {"Content-Encoding": "gzip", "Vary": "Accept-Encoding"}
        content = gzip.compress(content, QUICKLY, mtime=0)
    return Response(content, status, headers, "text/html; charset=utf-8")


def _sendable(text: str) -> bytes:
    """Half of a character, which somebody has stored, is in no UTF-8: it is marked as lost."""
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
