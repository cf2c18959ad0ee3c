"""Dead letters: find them, and read everything about one."""

from __future__ import annotations

from typing import Annotated

from fastapi import Query
from starlette.responses import Response

from redrive.model.dead_letter import DeadLetter, DeadLetterLine, Note, version_of
from redrive.model.query import Order
from redrive.policy.access import Permission
from redrive.policy.verdict import ReplayVerdict
from redrive.server.access_control import may
from redrive.server.answer import answer, etag, page
from redrive.server.api.audit import ENTRY
from redrive.server.api.overview import STATISTICS, QueueName, statistics_of
from redrive.server.api.replays import REPLAY
from redrive.server.api.request import Cursor, Id, QueryText, Size, at_most
from redrive.server.api.resource import COUNT, Resource, ResponseBody
from redrive.server.api.runs import ATTEMPT, ATTEMPTS
from redrive.server.request_context import CallersFailures, CallersRuns, Visiting
from redrive.server.route import Routes

PREFIX = "/api/v1/dead-letters"
ALIASES = ("/api/v1/workflow-dlq",)

routes = Routes("dead_letters", PREFIX, ALIASES)
READ = may(Permission.READ)

_APART = ("payload", "config")

LINE = Resource(
    DeadLetterLine,
    "DeadLetterLineShape",
    description="As lists show it; `message` is its beginning. `version` is its ETag.",
    computed={"version": version_of},
)
LINES = LINE.page("DeadLetterPage")
LETTER = Resource(
    DeadLetter,
    "DeadLetterShape",
    description="The whole story, redacted; its payload and config are apart.",
    hidden=_APART,
    computed={"version": version_of},
)
PAYLOAD = Resource(
    DeadLetter,
    "PayloadShape",
    description="What the failed step was given, and its config, redacted before they were stored.",
    only=_APART,
)
NOTE = Resource(Note, "NoteShape", renamed={"body": "text"})
VERDICT = Resource(
    ReplayVerdict,
    "VerdictShape",
    description="Why it stopped, what has changed since, and whether a replay is likely to help.",
)


class HistoryShape(ResponseBody):
    """What was done to a dead letter, and its replays; the newest first."""

    entries: list[ENTRY.model]  # type: ignore[name-defined]
    replays: list[REPLAY.model]  # type: ignore[name-defined]


@routes.get("", READ, returns=LINES)
async def list_(
    visit: Visiting,
    q: QueryText = "",
    size: Size = 50,
    cursor: Cursor = None,
    order: Annotated[Order, Query()] = Order.NEWEST,
) -> Response:
    """Those that fulfil a query, a page of them."""
    letters = visit.failures
    found = await letters.list(q, size=at_most(size, visit), cursor=cursor, order=order)
    return page(LINE.views(found.lines), found.next_cursor)


@routes.get("/count", READ, returns=COUNT.model)
async def count(failures: CallersFailures, q: QueryText = "") -> Response:
    """How many fulfil a query; counted up to 10,000."""
    return answer(COUNT.view(await failures.count(q)))


@routes.get("/statistics", READ, returns=STATISTICS.model)
async def figures(visit: Visiting, queue: QueueName = None) -> Response:
    """The figures of the organization, or of one of its queues."""
    return answer(STATISTICS.view(await statistics_of(visit, queue)))


@routes.get("/{id}", READ, returns=LETTER.model)
async def get(failures: CallersFailures, letter_id: Id) -> Response:
    """One dead letter, with its ETag."""
    letter = await failures.view(letter_id)
    return answer(LETTER.view(letter), headers=etag(version_of(letter)))


@routes.get("/{id}/payload", READ, returns=PAYLOAD.model)
async def payload(failures: CallersFailures, letter_id: Id) -> Response:
    """What the failed step was given, and its config, redacted."""
    return answer(PAYLOAD.view(await failures.view(letter_id)))


@routes.get("/{id}/attempts", READ, returns=ATTEMPTS)
async def attempts(failures: CallersFailures, runs: CallersRuns, letter_id: Id) -> Response:
    """How its step was executed, in order, with what came of it."""
    letter = await failures.view(letter_id)
    found = [each for each in await runs.attempts(letter.run_id) if each.step_index == letter.step_index]
    return page(ATTEMPT.views(found), None)


@routes.get("/{id}/history", READ, returns=HistoryShape)
async def history(failures: CallersFailures, letter_id: Id) -> Response:
    """What was done to it, and its replays; the newest first."""
    letter = await failures.view(letter_id)
    entries = await failures.audit.about(letter.id, letter.created_at)
    replays = await failures.replays.list(letter.id)
    return answer({"entries": ENTRY.views(entries), "replays": REPLAY.views(replays)})


@routes.get("/{id}/verdict", READ, returns=VERDICT.model)
async def verdict(failures: CallersFailures, letter_id: Id) -> Response:
    """Why it stopped, what has changed since, and what is likely to help."""
    return answer(VERDICT.view(await failures.verdict(letter_id)))


@routes.get("/{id}/notes", READ, returns=NOTE.page("NoteList"))
async def notes(failures: CallersFailures, letter_id: Id) -> Response:
    """What was written about it, the oldest first."""
    return page(NOTE.views(await failures.notes(letter_id)), None)


@routes.get("/{id}/dependencies", READ, returns=LINES)
async def dependencies(failures: CallersFailures, letter_id: Id) -> Response:
    """Those that must be resolved before it is redriven."""
    return page(LINE.views(await failures.dependencies(letter_id)), None)
