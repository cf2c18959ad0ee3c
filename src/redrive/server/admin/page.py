"""Pages: routes that return HTML inside a shell with the navigation and the counters.

Pages only read. Forms and buttons change data through the API.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any, NamedTuple

from fastapi import Depends
from starlette.requests import Request
from starlette.responses import Response

from redrive.engine.breakers import BreakerView
from redrive.model.breaker import BreakerState
from redrive.model.dead_letter import LIVE
from redrive.model.identity import Membership
from redrive.policy.access import SESSION, Permission
from redrive.server.access_control import AccessRule, may
from redrive.server.admin.environment import PAGES, Preferences, html, link
from redrive.server.request_context import RequestContext
from redrive.server.route import F, Routes
from redrive.server.site import site_of

READ = may(Permission.READ)


class NavigationPlace(NamedTuple):
    """An entry of the navigation. The keys "g" and `key` open it."""

    name: str
    path: str
    title: str
    key: str


PLACES = (
    NavigationPlace("overview", "", "Overview", "o"),
    NavigationPlace("dlq", "/dlq", "Dead letters", "d"),
    NavigationPlace("runs", "/runs", "Runs", "r"),
    NavigationPlace("events", "/events", "Events", "e"),
    NavigationPlace("replays", "/replays", "Replays", "p"),
    NavigationPlace("breakers", "/breakers", "Breakers", "b"),
    NavigationPlace("queues", "/queues", "Queues", "q"),
    NavigationPlace("workers", "/workers", "Workers", "w"),
    NavigationPlace("audit", "/audit", "Audit", "a"),
    NavigationPlace("settings", "/settings", "Settings", "s"),
)

PLACES_WITHOUT_EVENTS = tuple(place for place in PLACES if place.name != "events")
"""For an organization that has no events, in an application without a stream."""

KEYS = (
    (
        "Everywhere",
        (
            ("?", "show keyboard shortcuts"),
            ("/", "search"),
            ("u", "undo the last action"),
            ("c", "copy as CLI command"),
            ("Esc", "close"),
        ),
    ),
    (
        "In lists",
        (
            ("j k", "next / previous row"),
            ("Enter", "open row"),
            ("x", "select row"),
            ("n", "next page"),
        ),
    ),
    (
        "Dead letters",
        (
            ("r", "replay (shows the plan first)"),
            ("e", "resolve"),
            ("i", "ignore"),
            ("a", "assign"),
            ("t", "tag"),
            ("p", "pause or resume a replay"),
        ),
    ),
    ("Go to", tuple((f"g {place.key}", place.title) for place in PLACES)),
)
"""The keyboard shortcuts, by where they work."""


class Shell(NamedTuple):
    """What surrounds every page.

    counters     dead letters by state
    attention    number of dead letters that need attention
    failing      breakers that are open, or probe while runs wait, sorted by the number of runs that they hold
    memberships  the organizations that the caller can switch to
    watched      whether any breaker exists
    """

    counters: Mapping[str, int]
    attention: int
    failing: Sequence[BreakerView]
    memberships: Sequence[Membership]
    watched: bool
    places: Sequence[NavigationPlace] = PLACES

    @property
    def live(self) -> str:
        """The counters that live.js compares with those of the event stream."""
        return " ".join(str(self.counters.get(state, 0)) for state in LIVE)


async def shell_of(visit: RequestContext, token: str | None) -> Shell:
    figures = await visit.failures.statistics()
    memberships: Sequence[Membership] = ()
    if visit.principal.kind == SESSION and token:
        memberships = await visit.app.members().sessions.organizations(token)
    breakers = await visit.breakers.list()
    attention = (await visit.failures.needs_you()).total
    failing = [breaker for breaker in breakers if breaker.state != BreakerState.CLOSED and not breaker.idle]
    failing.sort(key=lambda breaker: (-breaker.waiting.number, breaker.name))
    places = PLACES if await _has_events(visit) else PLACES_WITHOUT_EVENTS
    return Shell(figures.by_state, attention, failing, memberships, bool(breakers), places)


async def _has_events(visit: RequestContext) -> bool:
    """Return whether the application declares a stream, or the organization has events."""
    return bool(visit.parts.declared.streams) or await visit.events.exist()


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
    """A request for a page: the caller, the time, the preferences, and how to render the response."""

    def __init__(self, request: Request) -> None:
        self.request = request
        self.visit: RequestContext = request.state.visit
        self.preferences = Preferences.of(request)
        self.now = self.visit.parts.clock.now()

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
            for view in await self.visit.failures.views.list(page)
        ]

    def _common(self) -> dict[str, Any]:
        principal, url = self.visit.principal, self.request.url
        return {
            "preferences": self.preferences,
            "now": self.now,
            "may": self.may,
            "principal": principal,
            "at_home": principal.at_home,
            "path": url.path,
            "here": f"{url.path}?{url.query}" if url.query else url.path,
        }


async def _page_of(request: Request) -> Page:
    return Page(request)


OnPage = Annotated[Page, Depends(_page_of)]

pages = Pages("shell")


@pages.get("/status")
async def status(page: OnPage) -> Response:
    return page.fragment("parts/status.html", shell=await shell_of(page.visit, None))


@pages.get("/keys")
async def keys(page: OnPage) -> Response:
    return await page.render("keys.html", place="", groups=KEYS)
