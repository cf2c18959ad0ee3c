"""The shell: what every page shows around its own content."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from redrive.engine.breaker_queries import BreakerView
from redrive.model.breaker import BreakerState
from redrive.model.dead_letter import LIVE
from redrive.model.identity import Membership
from redrive.policy.principal import SESSION
from redrive.server.request_context import RequestContext


class Place(NamedTuple):
    """An entry of the navigation; `key` is typed after g."""

    name: str
    path: str
    title: str
    key: str


PLACES = (
    Place("overview", "", "Overview", "o"),
    Place("dlq", "/dlq", "Dead letters", "d"),
    Place("runs", "/runs", "Runs", "r"),
    Place("replays", "/replays", "Replays", "p"),
    Place("breakers", "/breakers", "Breakers", "b"),
    Place("queues", "/queues", "Queues", "q"),
    Place("workers", "/workers", "Workers", "w"),
    Place("audit", "/audit", "Audit", "a"),
    Place("settings", "/settings", "Settings", "s"),
)


class Shell(NamedTuple):
    """
    counters   dead letters by state
    attention  how many of them need somebody
    failing    breakers that are not closed, those that hold the most work first
    watched    are there any breakers that would tell?
    standings  the organizations that one may enter
    """

    counters: Mapping[str, int]
    attention: int
    failing: Sequence[BreakerView]
    standings: Sequence[Membership]
    watched: bool
    places: Sequence[Place] = PLACES

    @property
    def live(self) -> str:
        """What live.js compares with the counters that it hears."""
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
    found = [each for each in breakers if each.state != BreakerState.CLOSED]
    return sorted(found, key=lambda each: (-each.waiting.number, each.name))
