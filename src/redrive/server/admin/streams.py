"""The pages of streams: the list, and the page of one with its projectors and gaps."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from typing import NamedTuple

from starlette.responses import Response

from redrive.errors import NotFoundError
from redrive.events import Projector, Stream
from redrive.model.query import Count, Term
from redrive.model.stream import Gap, StreamState, read_position
from redrive.model.stream_condition import NEEDS_YOU, StreamCondition, stream_condition
from redrive.server.admin.page import OnPage, Page, Pages
from redrive.server.api.request import Name
from redrive.words.suggestion import suggest

pages = Pages("streams")

MAX_GAPS = 50
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
    """A stream of the organization.

    state     None if no consumer has ever read it
    declared  None if the application of this server does not declare it
    """

    name: str
    condition: StreamCondition
    state: StreamState | None
    declared: Stream | None

    @property
    def needs_you(self) -> bool:
        """Whether a person should look at it. No consumer reads a stream that was removed from the code."""
        if self.condition == StreamCondition.PAUSED:
            return self.state is not None and bool(self.state.lag)
        was_removed = self.declared is None and self.condition == StreamCondition.SILENT
        return self.condition in NEEDS_YOU and not was_removed

    @property
    def gaps(self) -> Sequence[Gap]:
        """The newest first."""
        return [] if self.state is None else list(reversed(self.state.known_gaps))

    @property
    def last_message_id(self) -> str | None:
        return None if self.state is None else read_position(self.state.last_position).message_id


class Letters(NamedTuple):
    """Dead letters of a task that need attention, and the query that finds them."""

    number: Count
    query: str


class ProjectorLine(NamedTuple):
    """A declared projector: the number of its unfinished runs, and its dead letters."""

    projector: Projector
    live: Count
    live_query: str
    all_query: str
    letters: Letters


@pages.get("/streams")
async def listed(page: OnPage) -> Response:
    """Show streams that need attention first."""
    lines = sorted(await streams(page), key=lambda line: (_ORDER.index(line.condition), line.name))
    entries = {line.name: await _unstored_entries(page, line.name) for line in lines}
    return await page.render("streams.html", place="events", lines=lines, entries=entries)


@pages.get("/streams/{name}")
async def one(page: OnPage, name: Name) -> Response:
    line = _named(name, await streams(page))
    projectors = () if line.declared is None else line.declared.projectors
    return await page.render(
        "stream.html",
        place="events",
        line=line,
        entries=await _unstored_entries(page, name),
        projectors=[await _projector(page, projector) for projector in projectors],
        gaps=line.gaps[:MAX_GAPS],
        events_query=str(Term("stream", (name,))),
        command=shlex.join(["redrive", "stream", "view", name]),
    )


async def streams(page: Page) -> list[StreamLine]:
    """Return the streams of the organization: those that this server declares, and those that were read."""
    org, parts = page.visit.org, page.visit.parts
    states = {state.name: state for state in await parts.store_of(org).streams.all(org)}
    declared = {name: stream for name, stream in parts.declared.streams.items() if stream.org == org}
    return [
        StreamLine(name, _condition(states.get(name), page.now), states.get(name), declared.get(name))
        for name in sorted({*states, *declared})
    ]


def _condition(state: StreamState | None, now: float) -> StreamCondition:
    return StreamCondition.UNREAD if state is None else stream_condition(state, now)


def _named(name: str, lines: Sequence[StreamLine]) -> StreamLine:
    for line in lines:
        if line.name == name:
            return line
    raise NotFoundError(f"there is no stream {name!r:.100}; {suggest(name, [line.name for line in lines])}")


async def _projector(page: Page, projector: Projector) -> ProjectorLine:
    runs = str(Term("workflow", (projector.task,)))
    live = f"is:live {runs}"
    return ProjectorLine(
        projector, await page.visit.runs.count(live), live, runs, await _letters(page, projector.task)
    )


async def _unstored_entries(page: Page, stream: str) -> Letters:
    """Return the dead letters of entries that could not be stored."""
    return await _letters(page, f"{stream}: store entry")


async def _letters(page: Page, task: str) -> Letters:
    query = f"is:needs-you {Term('task', (task,))}"
    return Letters(await page.visit.failures.count(query), query)
