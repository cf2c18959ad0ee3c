"""The page of an event: its facts, its payload, and how each projector has fared with it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, NamedTuple

from fastapi import Path
from starlette.responses import Response

from redrive.failures.service import Failures
from redrive.model.dead_letter import DeadLetterLine
from redrive.model.query import Query, Term
from redrive.model.stream import ProjectionRecord, ProjectionStatus
from redrive.server.admin.page import OnPage, Pages
from redrive.server.admin.tree import tree_of

pages = Pages("event")

FAILED = (ProjectionStatus.DEAD, ProjectionStatus.FAILED)
UNFINISHED = (
    ProjectionStatus.WAITING,
    ProjectionStatus.QUEUED,
    ProjectionStatus.RUNNING,
    ProjectionStatus.RETRYING,
)

EventId = Annotated[str, Path(alias="id", min_length=1, max_length=200)]


class ProjectionLine(NamedTuple):
    """A projector of an event. `letter` is the dead letter of its run, if it has one."""

    record: ProjectionRecord
    letter: DeadLetterLine | None

    @property
    def seconds(self) -> float | None:
        """How long it took from the start of the first attempt."""
        started, completed = self.record.started_at, self.record.completed_at
        return None if started is None or completed is None else max(0.0, completed - started)

    @property
    def has_run(self) -> bool:
        return self.record.status not in (ProjectionStatus.WAITING, ProjectionStatus.REMOVED)


@pages.get("/events/{id}")
async def event(page: OnPage, event_id: EventId) -> Response:
    view = await page.visit.events.get(event_id)
    lines = await _lines(page.visit.failures, view.projections)
    return await page.render(
        "event.html",
        place="events",
        event=view.event,
        lines=lines,
        failed=[line for line in lines if line.record.status in FAILED],
        is_live=any(line.record.status in UNFINISHED for line in lines),
        payload=tree_of(view.event.payload),
    )


async def _lines(failures: Failures, records: Sequence[ProjectionRecord]) -> list[ProjectionLine]:
    """Add the dead letters of the runs, which one query finds."""
    dead = tuple(record.run_id for record in records if record.status in FAILED)
    letters: dict[str, DeadLetterLine] = {}
    if dead:
        found = await failures.list(str(Query((Term("run", dead),))), size=len(dead))
        letters = {letter.run_id: letter for letter in found.lines}
    return [ProjectionLine(record, letters.get(record.run_id)) for record in records]
