"""Breakers: which dependencies fail, by which rule, what waits for them, and forcing them open or closed."""

from __future__ import annotations

from typing import NamedTuple

from starlette.responses import Response

from redrive.engine.breaker_queries import BreakerView
from redrive.model.breaker import BreakerState
from redrive.policy.description import describe_closing, describe_opening
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


class BreakerLine(NamedTuple):
    """`rate` is the share of calls that failed within the breaker's window."""

    breaker: BreakerView
    rate: float | None
    opens: str
    closes: str

    @property
    def threshold(self) -> float:
        return self.breaker.policy.failure_rate


@pages.get("/breakers")
async def list_(page: OnPage) -> Response:
    """Show open breakers first."""
    visit = page.visit
    book = await visit.app.breaker_book(org=visit.org, by=visit.principal.name)
    breakers = sorted(await book.list(), key=lambda breaker: (_ORDER.index(breaker.state), breaker.name))
    return await page.render(
        "breakers.html", place="breakers", lines=[_line(breaker) for breaker in breakers], durations=DURATIONS
    )


def _line(breaker: BreakerView) -> BreakerLine:
    rate = breaker.failures / breaker.calls if breaker.calls else None
    return BreakerLine(breaker, rate, describe_opening(breaker.policy), describe_closing(breaker.policy))
