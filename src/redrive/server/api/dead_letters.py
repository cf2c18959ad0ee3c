"""Dead letters: list and count them, and read one with its attempts, history and verdict."""

from __future__ import annotations

from typing import Annotated

from fastapi import Query
from starlette.responses import Response

from redrive.errors import InvalidValueError
from redrive.model.alias import dead_letter_state
from redrive.model.dead_letter import DeadLetter, DeadLetterLine, Note, version_of
from redrive.model.failure import Category
from redrive.model.query import Order, Term
from redrive.policy.access import Permission
from redrive.policy.verdict import ReplayVerdict
from redrive.server.access_control import may
from redrive.server.answer import answer, etag, page
from redrive.server.api.audit import ENTRY
from redrive.server.api.overview import STATISTICS, QueueName, statistics_of
from redrive.server.api.replays import REPLAY, workflow_dlq
from redrive.server.api.request import MAX_PAGE_SIZE, Cursor, LetterId, QueryText, Size, at_most
from redrive.server.api.resource import COUNT, Resource, ResponseBody
from redrive.server.api.runs import ATTEMPT, ATTEMPTS, exceptions_of
from redrive.server.request_context import CallersFailures, CallersRuns, Visiting
from redrive.server.route import Routes
from redrive.words.state import letter_state, status

PREFIX = "/api/v1/dead-letters"
ALIASES = ("/api/v1/workflow-dlq",)

routes = Routes("dead_letters", PREFIX, ALIASES)
list_routes = Routes("dead_letters", PREFIX)
"""Apart, because the list of the alias takes more parameters."""
READ = may(Permission.READ)

_APART = ("payload", "config")


def _status(letter: DeadLetterLine | DeadLetter) -> str:
    return status(letter_state(letter))


LINE = Resource(
    DeadLetterLine,
    "DeadLetterLineShape",
    description="A dead letter in a list. `message` is shortened; `version` is its ETag.",
    computed={"version": version_of},
    status=_status,
)
LINES = LINE.page("DeadLetterPage")
LETTER = Resource(
    DeadLetter,
    "DeadLetterShape",
    description=(
        "A dead letter, redacted. Its payload and config are at `/{id}/payload`. `exceptions` is the parsed "
        "`stack`; a text without frames of Python has none."
    ),
    hidden=_APART,
    computed={"version": version_of, "exceptions": exceptions_of},
    status=_status,
)
PAYLOAD = Resource(
    DeadLetter,
    "PayloadShape",
    description="The payload and the config of the failed step, redacted before they were stored.",
    only=_APART,
)
NOTE = Resource(Note, "NoteShape", renamed={"body": "text"})
VERDICT = Resource(
    ReplayVerdict,
    "VerdictShape",
    description="Why the run stopped, what changed since, and whether a replay is likely to succeed.",
)


class HistoryShape(ResponseBody):
    """The actions on a dead letter and its replays, newest first."""

    entries: list[ENTRY.model]  # type: ignore[name-defined]
    replays: list[REPLAY.model]  # type: ignore[name-defined]


@workflow_dlq.get("", READ, returns=LINES)
async def list_workflow_dlq(
    visit: Visiting,
    q: QueryText = "",
    status: Annotated[
        str | None, Query(max_length=100, description="Only dead letters in this state; the same as is: in q")
    ] = None,
    error_category: Annotated[
        Category | None, Query(alias="errorCategory", description="The same as category: in q")
    ] = None,
    step_type: Annotated[
        str | None,
        Query(alias="stepType", min_length=1, max_length=200, description="The same as task: in q"),
    ] = None,
    size: Annotated[int | None, Query(ge=1, le=MAX_PAGE_SIZE)] = None,
    limit: Annotated[int | None, Query(ge=1, le=MAX_PAGE_SIZE, description="The same as size")] = None,
    cursor: Cursor = None,
    order: Annotated[Order, Query()] = Order.NEWEST,
) -> Response:
    """List dead letters, with the query parameters that other systems use."""
    if size is not None and limit is not None:
        raise InvalidValueError("size and limit are two names of one parameter; pass only size")
    terms = [
        Term("is", (dead_letter_state(status),)) if status is not None else None,
        Term("category", (error_category,)) if error_category is not None else None,
        Term("task", (step_type,)) if step_type is not None else None,
    ]
    query = " ".join([q, *map(str, filter(None, terms))]).strip()
    return await list_(visit, query, size or limit or 50, cursor, order)


@list_routes.get("", READ, returns=LINES)
async def list_(
    visit: Visiting,
    q: QueryText = "",
    size: Size = 50,
    cursor: Cursor = None,
    order: Annotated[Order, Query()] = Order.NEWEST,
) -> Response:
    """List dead letters that match a query."""
    letters = visit.failures
    found = await letters.list(q, size=at_most(size, visit), cursor=cursor, order=order)
    return page(LINE.views(found.lines), found.next_cursor)


@routes.get("/count", READ, returns=COUNT.model)
async def count(failures: CallersFailures, q: QueryText = "") -> Response:
    """Count dead letters that match a query, up to 10,000."""
    return answer(COUNT.view(await failures.count(q)))


@routes.get("/statistics", READ, returns=STATISTICS.model)
async def figures(visit: Visiting, queue: QueueName = None) -> Response:
    """Get the statistics of the organization, or of one of its queues."""
    return answer(STATISTICS.view(await statistics_of(visit, queue)))


@routes.get("/{id}", READ, returns=LETTER.model)
async def get(failures: CallersFailures, letter_id: LetterId) -> Response:
    """Get a dead letter and its ETag."""
    letter = await failures.view(letter_id)
    return answer(LETTER.view(letter), headers=etag(version_of(letter)))


@routes.get("/{id}/payload", READ, returns=PAYLOAD.model)
async def payload(failures: CallersFailures, letter_id: LetterId) -> Response:
    """Get the payload and the config of the failed step, redacted."""
    return answer(PAYLOAD.view(await failures.view(letter_id)))


@routes.get("/{id}/attempts", READ, returns=ATTEMPTS)
async def attempts(failures: CallersFailures, runs: CallersRuns, letter_id: LetterId) -> Response:
    """List the attempts of the failed step, oldest first."""
    letter = await failures.view(letter_id)
    found = [
        attempt for attempt in await runs.attempts(letter.run_id) if attempt.step_index == letter.step_index
    ]
    return page(ATTEMPT.views(found), None)


@routes.get("/{id}/history", READ, returns=HistoryShape)
async def history(failures: CallersFailures, letter_id: LetterId) -> Response:
    """List the actions on a dead letter and its replays, newest first."""
    letter = await failures.view(letter_id)
    entries = await failures.audit.about(letter.id, letter.created_at)
    replays = await failures.replays.list(letter.id)
    return answer({"entries": ENTRY.views(entries), "replays": REPLAY.views(replays)})


@routes.get("/{id}/verdict", READ, returns=VERDICT.model)
async def verdict(failures: CallersFailures, letter_id: LetterId) -> Response:
    """Explain why the run stopped, what changed since, and whether a replay is likely to succeed."""
    return answer(VERDICT.view(await failures.verdict(letter_id)))


@routes.get("/{id}/notes", READ, returns=NOTE.page("NoteList"))
async def notes(failures: CallersFailures, letter_id: LetterId) -> Response:
    """List the notes on a dead letter, oldest first."""
    return page(NOTE.views(await failures.notes(letter_id)), None)


@routes.get("/{id}/dependencies", READ, returns=LINES)
async def dependencies(failures: CallersFailures, letter_id: LetterId) -> Response:
    """List the dead letters that must be resolved before this one is redriven."""
    return page(LINE.views(await failures.dependencies(letter_id)), None)
