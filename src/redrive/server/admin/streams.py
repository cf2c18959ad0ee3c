"""The pages of streams: the list, and the page of one with its projectors, rebuilds and gaps."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from typing import NamedTuple

from starlette.responses import Response

from redrive.errors import NotFoundError
from redrive.events import Stream
from redrive.events.streams import ProjectorView, StreamView
from redrive.model.query import Count, Term
from redrive.model.rebuild import Rebuild
from redrive.model.stream_condition import NEEDS_YOU, StreamCondition, stream_condition
from redrive.server.admin.page import OnPage, Page, Pages
from redrive.server.api.request import Name

pages = Pages("streams")

MAX_GAPS, MAX_REBUILDS = 50, 5
_ORDER = (
    StreamCondition.FAILING,
    StreamCondition.SILENT,
    StreamCondition.PAUSED,
    StreamCondition.BEHIND,
    StreamCondition.HELD,
    StreamCondition.UNREAD,
    StreamCondition.READING,
)
"""The most urgent first."""


class StreamLine(NamedTuple):
    """A stream with its condition.

    declared  None if the application of this server does not declare it
    is_own    whether it belongs to the organization; others only have events of it
    """

    stream: StreamView
    condition: StreamCondition
    declared: Stream | None
    is_own: bool

    @property
    def needs_you(self) -> bool:
        """Whether it needs a person. No consumer reads a stream that was removed from the code."""
        if not self.is_own:
            return False
        if self.condition == StreamCondition.PAUSED:
            return bool(self.stream.lag)
        was_removed = self.declared is None and self.condition == StreamCondition.SILENT
        return self.condition in NEEDS_YOU and not was_removed


class StreamLetters(NamedTuple):
    """Dead letters of a task that need attention, and the query that finds them."""

    number: Count
    query: str


class ProjectorLine(NamedTuple):
    """A declared projector: the number of its unfinished runs, and its dead letters."""

    projector: ProjectorView
    live: Count
    live_query: str
    all_query: str
    letters: StreamLetters


@pages.get("/streams")
async def listed(page: OnPage) -> Response:
    """Show streams that need attention first."""
    lines = sorted(await streams(page), key=lambda line: (_ORDER.index(line.condition), line.stream.name))
    entries = {line.stream.name: await _unstored_entries(page, line.stream.name) for line in lines}
    return await page.render("streams.html", place="events", lines=lines, entries=entries)


@pages.get("/streams/{name}")
async def one(page: OnPage, name: Name) -> Response:
    line = _named(name, await streams(page))
    return await page.render(
        "stream.html",
        place="events",
        line=line,
        entries=await _unstored_entries(page, name),
        projectors=[await _projector(page, projector) for projector in line.stream.projectors],
        gaps=list(reversed(line.stream.gaps))[:MAX_GAPS],
        rebuilds=await _rebuilds(page, name),
        events_query=str(Term("stream", (name,))),
        command=shlex.join(["redrive", "stream", "view", name]),
    )


async def streams(page: Page) -> list[StreamLine]:
    """Return the streams of the organization, and other streams with events of it."""
    declared, org = page.visit.parts.declared.streams, page.visit.org
    lines = []
    for stream in await page.visit.streams.list():
        known = declared.get(stream.name)
        is_own = known is None or known.org == org
        lines.append(StreamLine(stream, stream_condition(stream, page.now), known, is_own))
    return lines


def _named(name: str, lines: Sequence[StreamLine]) -> StreamLine:
    for line in lines:
        if line.stream.name == name:
            return line
    raise NotFoundError(f"found no stream {name!r:.100}")


async def _projector(page: Page, projector: ProjectorView) -> ProjectorLine:
    runs = str(Term("workflow", (projector.task,)))
    live = f"is:live {runs}"
    return ProjectorLine(
        projector, await page.visit.runs.count(live), live, runs, await _letters(page, projector.task)
    )


async def _rebuilds(page: Page, stream: str) -> list[Rebuild]:
    """Return the newest rebuilds of a stream."""
    found = (await page.visit.events.rebuilds.list(size=50)).rebuilds
    return [rebuild for rebuild in found if rebuild.stream == stream][:MAX_REBUILDS]


async def _unstored_entries(page: Page, stream: str) -> StreamLetters:
    """Return the dead letters of entries that could not be stored."""
    return await _letters(page, f"{stream}: store entry")


async def _letters(page: Page, task: str) -> StreamLetters:
    query = f"is:needs-you {Term('task', (task,))}"
    return StreamLetters(await page.visit.failures.count(query), query)
