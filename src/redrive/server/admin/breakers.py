"""Breakers: which dependencies fail, how it is known, what waits for them, and taking them by hand."""

from __future__ import annotations

from typing import NamedTuple

from starlette.responses import Response

from redrive.engine.breaker_queries import BreakerView
from redrive.model.breaker import BreakerState
from redrive.server.admin.breaker_words import closes, opens
from redrive.server.admin.page import OnPage, Pages

pages = Pages("breakers")

DURATIONS = (
    (300, "5 minutes"),
    (900, "15 minutes"),
    (3600, "1 hour"),
    (14_400, "4 hours"),
    (86_400, "1 day"),
)

_ORDER = (BreakerState.OPEN, BreakerState.HALF_OPEN, BreakerState.CLOSED)


class Line(NamedTuple):
    """`rate` is the part of the calls that failed, of the window that it judges by."""

    breaker: BreakerView
    rate: float | None
    opens: str
    closes: str

    @property
    def threshold(self) -> float:
        return self.breaker.policy.failure_rate


@pages.get("/breakers")
async def list_(page: OnPage) -> Response:
    """Those that fail first."""
    visit = page.visit
    book = await visit.app.breaker_book(org=visit.org, by=visit.principal.name)
    found = sorted(await book.list(), key=lambda each: (_ORDER.index(each.state), each.name))
    return await page.render(
        "breakers.html", place="breakers", lines=[_line(each) for each in found], durations=DURATIONS
    )


def _line(breaker: BreakerView) -> Line:
    rate = breaker.failures / breaker.calls if breaker.calls else None
    return Line(breaker, rate, opens(breaker.policy), closes(breaker.policy))
