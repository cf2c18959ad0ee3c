"""The shell: what every page shows around its own content, and the help about the keyboard."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from redrive.engine.breaker_queries import BreakerView
from redrive.model.breaker import BreakerState
from redrive.model.dead_letter import LIVE
from redrive.model.identity import Membership
from redrive.policy.access import SESSION
from redrive.server.request_context import RequestContext


class NavigationPlace(NamedTuple):
    """An entry of the navigation. g and its key lead there."""

    name: str
    path: str
    title: str
    key: str


PLACES = (
    NavigationPlace("overview", "", "Overview", "o"),
    NavigationPlace("dlq", "/dlq", "Dead letters", "d"),
    NavigationPlace("runs", "/runs", "Runs", "r"),
    NavigationPlace("replays", "/replays", "Replays", "p"),
    NavigationPlace("breakers", "/breakers", "Breakers", "b"),
    NavigationPlace("queues", "/queues", "Queues", "q"),
    NavigationPlace("workers", "/workers", "Workers", "w"),
    NavigationPlace("audit", "/audit", "Audit", "a"),
    NavigationPlace("settings", "/settings", "Settings", "s"),
)


KEYS = (
    (
        "Everywhere",
        (
            ("?", "this help"),
            ("/", "search"),
            ("u", "undo the last action"),
            ("c", "copy as a command"),
            ("Esc", "close"),
        ),
    ),
    (
        "In lists",
        (
            ("j k", "next, previous row"),
            ("Enter", "open it"),
            ("x", "select it"),
            ("n", "next page"),
        ),
    ),
    (
        "Dead letters",
        (
            ("r", "replay: shows the plan first"),
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
    """
    counters   dead letters by state
    attention  how many of them need somebody
    failing    breakers that are not closed, those that hold the most work first
    watched    whether there are any breakers
    standings  the organizations that the caller may enter
    """

    counters: Mapping[str, int]
    attention: int
    failing: Sequence[BreakerView]
    standings: Sequence[Membership]
    watched: bool
    places: Sequence[NavigationPlace] = PLACES

    @property
    def live(self) -> str:
        """The counters that live.js compares with those of the event stream."""
        return " ".join(str(self.counters.get(state, 0)) for state in LIVE)


async def shell_of(visit: RequestContext, token: str | None) -> Shell:
    figures = await (await visit.desk()).dead_letters.statistics()
    seen = await visit.app.overview(org=visit.org, by=visit.principal.name)
    standings: Sequence[Membership] = ()
    if visit.principal.kind == SESSION and token:
        standings = await (await visit.app.sessions()).organizations(token)
    book = await visit.app.breaker_book(org=visit.org, by=visit.principal.name)
    breakers = await book.list()
    attention = (await seen.needs_you()).total
    return Shell(figures.by_state, attention, _failing(breakers), standings, bool(breakers))


def _failing(breakers: Sequence[BreakerView]) -> Sequence[BreakerView]:
    failing = [breaker for breaker in breakers if breaker.state != BreakerState.CLOSED]
    return sorted(failing, key=lambda breaker: (-breaker.waiting.number, breaker.name))
