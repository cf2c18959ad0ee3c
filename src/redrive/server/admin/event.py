"""The page of an event: its facts, its payload, how each projector has fared with it, and its replay."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from starlette.responses import Response

from redrive.events.replays import ProjectionReplay, ReplayAction
from redrive.failures.service import Failures
from redrive.model.dead_letter import DeadLetterLine
from redrive.model.query import Query, Term
from redrive.model.rebuild import Rebuild
from redrive.model.replay import OperationState
from redrive.model.stream import UNFINISHED_PROJECTIONS, ProjectionRecord, ProjectionStatus
from redrive.server.admin.page import OnPage, Page, Pages
from redrive.server.admin.tree import tree_of
from redrive.server.api.request import EventId

pages = Pages("event")

FAILED = (ProjectionStatus.DEAD, ProjectionStatus.FAILED)
WITHOUT_RUN = (ProjectionStatus.WAITING, ProjectionStatus.REMOVED)


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
        return self.record.status not in WITHOUT_RUN


class ReplayChoice(NamedTuple):
    """A projector to choose for a replay, with all of its versions.

    is_possible  whether a replay executes any of them
    is_failed    whether one has failed; those are chosen already
    """

    name: str
    versions: Sequence[ProjectionReplay]
    is_possible: bool
    is_failed: bool


@pages.get("/events/{id}")
async def event(page: OnPage, event_id: EventId) -> Response:
    events = page.visit.events
    view = await events.get(event_id)
    lines = await _lines(page.visit.failures, view.projections)
    plan = await events.replays.preview(view.event.id)
    return await page.render(
        "event.html",
        place="events",
        event=view.event,
        lines=lines,
        failed=[line for line in lines if line.record.status in FAILED],
        missing=[replay for replay in plan if replay.status is None],
        choices=choices_of(plan),
        rebuilds=await _rebuilds(page, view.event.stream),
        is_live=any(line.record.status in UNFINISHED_PROJECTIONS for line in lines),
        payload=tree_of(view.event.payload),
    )


def choices_of(plan: Sequence[ProjectionReplay]) -> list[ReplayChoice]:
    """Group the plan of a replay by projector: the API takes names, and a name means all versions."""
    names = dict.fromkeys(replay.projector for replay in plan)
    choices = []
    for name in names:
        versions = [replay for replay in plan if replay.projector == name]
        is_possible = any(replay.action is not ReplayAction.NONE for replay in versions)
        choices.append(
            ReplayChoice(name, versions, is_possible, any(replay.status in FAILED for replay in versions))
        )
    return choices


async def _lines(failures: Failures, records: Sequence[ProjectionRecord]) -> list[ProjectionLine]:
    """Add the dead letters of the runs, which one query finds."""
    dead = tuple(record.run_id for record in records if record.status in FAILED)
    letters: dict[str, DeadLetterLine] = {}
    if dead:
        found = await failures.list(str(Query((Term("run", dead),))), size=len(dead))
        letters = {letter.run_id: letter for letter in found.lines}
    return [ProjectionLine(record, letters.get(record.run_id)) for record in records]


async def _rebuilds(page: Page, stream: str) -> list[Rebuild]:
    """Return the rebuilds of its stream that are in progress."""
    found = (await page.visit.events.rebuilds.list(size=20)).rebuilds
    active = (OperationState.RUNNING, OperationState.PAUSED)
    return [rebuild for rebuild in found if rebuild.stream == stream and rebuild.state in active]
