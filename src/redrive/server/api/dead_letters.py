"""Dead letters: finding them, and looking at them from all sides."""

from __future__ import annotations

from typing import Annotated

from fastapi import Query
from starlette.responses import Response

from redrive.model.dead_letter import version_of
from redrive.model.query import Order
from redrive.policy.access import Permission
from redrive.server.answer import answer, page
from redrive.server.api import statistics
from redrive.server.api.parameter import Cursor, Id, QueryText, Size, at_most
from redrive.server.api.shape.attempt import AttemptList
from redrive.server.api.shape.dead_letter import (
    CountShape,
    DeadLetterPage,
    DeadLetterShape,
    NoteList,
    PayloadShape,
    VerdictShape,
)
from redrive.server.api.shape.replay import HistoryShape
from redrive.server.api.shape.statistics import StatisticsShape
from redrive.server.api.view.attempt import attempt_view
from redrive.server.api.view.audit import entry_view
from redrive.server.api.view.dead_letter import (
    letter_view,
    line_view,
    note_view,
    payload_view,
    verdict_view,
)
from redrive.server.api.view.replay import replay_view
from redrive.server.precondition import etag
from redrive.server.request_context import AtDesk, Runs, Visiting
from redrive.server.route import Routes
from redrive.server.rule import may

PREFIX = "/api/v1/dead-letters"
ALIASES = ("/api/v1/workflow-dlq",)

routes = Routes("dead_letters", PREFIX, ALIASES)
READ = may(Permission.READ)


@routes.get("", READ, responses={200: {"model": DeadLetterPage}})
async def list_(
    visit: Visiting,
    q: QueryText = "",
    size: Size = 50,
    cursor: Cursor = None,
    order: Annotated[Order, Query()] = Order.NEWEST,
) -> Response:
    """Those that fulfil a query, a page of them."""
    letters = (await visit.desk()).dead_letters
    found = await letters.list(q, size=at_most(size, visit), cursor=cursor, order=order)
    return page([line_view(each) for each in found.lines], found.next_cursor)


@routes.get("/count", READ, responses={200: {"model": CountShape}})
async def count(desk: AtDesk, q: QueryText = "") -> Response:
    """How many fulfil a query; counted up to 10,000."""
    return answer((await desk.dead_letters.count(q))._asdict())


@routes.get("/statistics", READ, responses={200: {"model": StatisticsShape}})
async def figures(visit: Visiting, queue: statistics.Queue = None) -> Response:
    """The figures of the organization, or of one of its queues."""
    return await statistics.get(visit, queue)


@routes.get("/{id}", READ, responses={200: {"model": DeadLetterShape}})
async def get(desk: AtDesk, letter_id: Id) -> Response:
    """One dead letter, with its ETag."""
    letter = await desk.dead_letters.get(letter_id)
    return answer(letter_view(letter), headers=etag(version_of(letter)))


@routes.get("/{id}/payload", READ, responses={200: {"model": PayloadShape}})
async def payload(desk: AtDesk, letter_id: Id) -> Response:
    """What the failed step was given, and its config, redacted."""
    return answer(payload_view(await desk.dead_letters.get(letter_id)))


@routes.get("/{id}/attempts", READ, responses={200: {"model": AttemptList}})
async def attempts(desk: AtDesk, runs: Runs, letter_id: Id) -> Response:
    """How its step was executed, in order, with what came of it."""
    letter = await desk.dead_letters.get(letter_id)
    found = [each for each in await runs.attempts(letter.run_id) if each.step_index == letter.step_index]
    return page([attempt_view(each) for each in found], None)


@routes.get("/{id}/history", READ, responses={200: {"model": HistoryShape}})
async def history(desk: AtDesk, letter_id: Id) -> Response:
    """What was done to it, and its replays; the newest first."""
    letter = await desk.dead_letters.get(letter_id)
    entries = await desk.audit.about(letter.id, letter.created_at)
    replays = await desk.replays.of(letter.id)
    return answer(
        {
            "entries": [entry_view(each) for each in entries],
            "replays": [replay_view(each) for each in replays],
        }
    )


@routes.get("/{id}/verdict", READ, responses={200: {"model": VerdictShape}})
async def verdict(desk: AtDesk, letter_id: Id) -> Response:
    """Why it stopped, what has changed since, and what is likely to help."""
    return answer(verdict_view(await desk.verdict(letter_id)))


@routes.get("/{id}/notes", READ, responses={200: {"model": NoteList}})
async def notes(desk: AtDesk, letter_id: Id) -> Response:
    """What was written about it, the oldest first."""
    found = await desk.dead_letters.notes(letter_id)
    return page([note_view(each) for each in found], None)


@routes.get("/{id}/dependencies", READ, responses={200: {"model": DeadLetterPage}})
async def dependencies(desk: AtDesk, letter_id: Id) -> Response:
    """Those that must be resolved before it is redriven."""
    found = await desk.dead_letters.dependencies(letter_id)
    return page([line_view(each) for each in found], None)
