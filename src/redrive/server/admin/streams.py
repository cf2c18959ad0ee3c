"""The pages of streams: the list, and the page of one with its projectors and gaps."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from starlette.responses import Response

from redrive.errors import NotFoundError
from redrive.events import Projector, Stream
from redrive.model.query import Count, Term
from redrive.model.stream import Gap, StreamState, read_position
from redrive.model.stream_condition import StreamCondition, stream_condition
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


class ProjectorLine(NamedTuple):
    """A declared projector, with the numbers of its runs.

    live      runs that have not finished
    needs_you dead letters that need attention
    """

    projector: Projector
    live: Count
    needs_you: Count
    all_query: str
    runs_query: str
    letters_query: str


class StreamLine(NamedTuple):
    """A stream in the list.

    state     None if no consumer has ever read it
    declared  None if the application of this server does not declare it
    letters   dead letters of entries that could not be stored, and need attention
    """

    name: str
    condition: StreamCondition
    state: StreamState | None
    declared: Stream | None
    letters: Count
    letters_query: str

    @property
    def gaps(self) -> Sequence[Gap]:
        """The newest first."""
        return [] if self.state is None else list(reversed(self.state.known_gaps))

    @property
    def last_message_id(self) -> str | None:
        return None if self.state is None else read_position(self.state.last_position).message_id


@pages.get("/streams")
async def listed(page: OnPage) -> Response:
    """Show streams that need attention first."""
    lines = [await _line(page, name, *found) for name, found in (await _streams(page)).items()]
    lines.sort(key=lambda line: (_ORDER.index(line.condition), line.name))
    return await page.render("streams.html", place="events", lines=lines)


@pages.get("/streams/{name}")
async def one(page: OnPage, name: Name) -> Response:
    known = await _streams(page)
    if name not in known:
        raise NotFoundError(f"there is no stream {name!r:.100}; {suggest(name, known)}")
    line = await _line(page, name, *known[name])
    projectors = () if line.declared is None else line.declared.projectors
    return await page.render(
        "stream.html",
        place="events",
        line=line,
        projectors=[await _projector(page, projector) for projector in projectors],
        gaps=line.gaps[:MAX_GAPS],
        events_query=str(Term("stream", (name,))),
        command=shlex.join(["redrive", "stream", "view", name]),
    )


async def _streams(page: Page) -> Mapping[str, tuple[StreamState | None, Stream | None]]:
    """Return the streams of the organization: those that this server declares, and those that were read."""
    org, parts = page.visit.org, page.visit.parts
    states = {state.name: state for state in await parts.store_of(org).streams.all(org)}
    declared = {name: stream for name, stream in parts.declared.streams.items() if stream.org == org}
    return {name: (states.get(name), declared.get(name)) for name in sorted({*states, *declared})}


async def _line(page: Page, name: str, state: StreamState | None, declared: Stream | None) -> StreamLine:
    query = _letters(f"{name}: store entry")
    return StreamLine(
        name,
        StreamCondition.UNREAD if state is None else stream_condition(state, page.now),
        state,
        declared,
        await page.visit.failures.count(query),
        query,
    )


async def _projector(page: Page, projector: Projector) -> ProjectorLine:
    its_runs = str(Term("workflow", (projector.task,)))
    live, letters = f"is:live {its_runs}", _letters(projector.task)
    visit = page.visit
    return ProjectorLine(
        projector, await visit.runs.count(live), await visit.failures.count(letters), its_runs, live, letters
    )


def _letters(task: str) -> str:
    return f"is:needs-you {Term('task', (task,))}"
