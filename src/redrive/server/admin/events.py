"""The list of events that a query selects, with a mark for each projector."""

from __future__ import annotations

from shlex import quote
from typing import Any

from starlette.responses import Response

from redrive.engine.id_lookup import IdKind
from redrive.errors import InvalidValueError
from redrive.server.admin.jump import page_of_id
from redrive.server.admin.page import OnPage, Page, Pages
from redrive.server.api.request import Cursor, QueryText

pages = Pages("events")

PAGE_SIZE = 50
QUICK = (
    ("", "All"),
    ("is:failed", "Failed"),
    ("is:live", "In progress"),
    ("is:waiting", "Waiting"),
    ("is:succeeded", "Succeeded"),
)


@pages.get("/events")
async def listed(page: OnPage, q: QueryText = "", cursor: Cursor = None) -> Response:
    try:
        if (found_page := await page_of_id(page, q, IdKind.EVENT)) is not None:
            return found_page
        values, problem = await _found(page, q, cursor), ""
    except InvalidValueError as error:
        values, problem = {"found": (), "next_cursor": None, "count": None}, str(error)
    return await page.render(
        "events.html",
        place="events",
        status=422 if problem else 200,
        query=q,
        cursor=cursor,
        problem=problem,
        quick=QUICK,
        has_streams=bool(page.visit.parts.declared.streams),
        command=f"redrive events list {quote(q)}" if q else "redrive events list",
        **values,
    )


async def _found(page: Page, query: str, cursor: str | None) -> dict[str, Any]:
    events = page.visit.events
    size = min(PAGE_SIZE, page.visit.parts.settings.server_page_size)
    found = await events.find(query, size=size, cursor=cursor)
    return {
        "found": found.events,
        "next_cursor": found.next_cursor,
        "count": await events.count(query),
    }
