"""What is done to many dead letters at once: to all of them, or to none.

Each is looked up in the organization of whoever asks; one that is not there makes the whole request a 404.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Annotated, Literal, Self

from pydantic import Field, model_validator
from starlette.responses import Response

from redrive.errors import InvalidValueError
from redrive.failures.external_tasks import clear_queue
from redrive.failures.preconditions import MAX_CONCURRENT
from redrive.failures.service import Failures
from redrive.model.dead_letter import DeadLetterState
from redrive.policy.access import Permission
from redrive.server.answer import answer
from redrive.server.api.dead_letter_changes import Assignment, Changed, Tagging
from redrive.server.api.dead_letters import ALIASES, PREFIX
from redrive.server.api.request import Asked, Ids, Reason
from redrive.server.request_context import AtDesk, Visiting
from redrive.server.route import Routes
from redrive.server.rule import may

routes = Routes("dead_letters", PREFIX, ALIASES)
OPERATE, ANNOTATE = may(Permission.OPERATE), may(Permission.NOTE)

Closer = Callable[..., Awaitable[int]]


class Closing(Asked):
    """Those with these ids, or all that fulfil a query: exactly as many as expected, or none."""

    ids: Ids | None = None
    query: Annotated[str | None, Field(max_length=2000)] = None
    expect: Annotated[int | None, Field(ge=1, le=MAX_CONCURRENT)] = None
    reason: Reason = ""

    @model_validator(mode="after")
    def _one_selection(self) -> Self:
        by_query = self.query is not None and self.expect is not None
        if (self.ids is not None) == by_query or (self.query is None) != (self.expect is None):
            raise InvalidValueError("name the dead letters by ids, or by query and expect: how many they are")
        return self


class Reopening(Asked):
    ids: Ids
    reason: Reason = ""


class Assignments(Assignment):
    ids: Ids


class Taggings(Tagging):
    ids: Ids


class Clearing(Asked):
    """A stand-alone queue is emptied for ever: say how many dead letters that is, and the word "clear"."""

    queue: Annotated[str, Field(min_length=1, max_length=200, pattern="^dlq:", examples=["dlq:default"])]
    expect: Annotated[int, Field(ge=0, le=1_000_000)]
    confirm: Literal["clear"]


class Closed(Changed):
    """`ids` are those that the query has found, to reopen just these; whoever has named them is not told."""

    ids: list[str] = Field(default_factory=list)


_CHANGED = {200: {"model": Changed}}
_CLOSED = {200: {"model": Closed}}


@routes.post("/resolve", OPERATE, responses=_CLOSED)
async def resolve_many(desk: AtDesk, body: Closing) -> Response:
    """Say that they are done with."""
    return await _closed(body, desk, desk.dead_letters.resolve, DeadLetterState.RESOLVED)


@routes.post("/ignore", OPERATE, responses=_CLOSED)
async def ignore_many(desk: AtDesk, body: Closing) -> Response:
    """Say that nothing will be done about them."""
    return await _closed(body, desk, desk.dead_letters.ignore, DeadLetterState.IGNORED)


@routes.post("/archive", OPERATE, responses=_CLOSED)
async def archive_many(desk: AtDesk, body: Closing) -> Response:
    """Put them away."""
    return await _closed(body, desk, desk.dead_letters.archive, DeadLetterState.ARCHIVED)


@routes.post("/reopen", OPERATE, responses=_CHANGED)
async def reopen_many(desk: AtDesk, body: Reopening) -> Response:
    """Undo closing them, unless the work of one has gone on since."""
    return _changed(await desk.dead_letters.reopen(body.ids, body.reason))


@routes.post("/assign", ANNOTATE, responses=_CHANGED)
async def assign_many(desk: AtDesk, body: Assignments) -> Response:
    """Say who looks after them."""
    return _changed(await desk.dead_letters.assign(body.ids, body.name))


@routes.post("/tags", ANNOTATE, responses=_CHANGED)
async def tag_many(desk: AtDesk, body: Taggings) -> Response:
    """Add tags to them, and remove others."""
    return _changed(await desk.dead_letters.tag(body.ids, body.add, body.remove))


@routes.post("/clear", may(Permission.MANAGE), responses=_CHANGED)
async def clear(visit: Visiting, body: Clearing) -> Response:
    """Empty a stand-alone dead-letter queue for ever, but for what is being executed.

    Dead letters of runs cannot be removed by hand: they are part of the history of these runs.
    """
    # Requests have no right to remove anything behind the wall: this one goes around it, its org in the SQL.
    app = visit.app
    removed = await clear_queue(
        app.store, visit.caller, body.queue, app.settings.dlq_max_size, expect=body.expect
    )
    return _changed(removed)


async def _closed(body: Closing, desk: Failures, close: Closer, state: DeadLetterState) -> Response:
    if body.query is None or body.expect is None:
        return _changed(await close(body.ids, body.reason))
    ids = await desk.dead_letters.close_matching(body.query, state, body.reason, expect=body.expect)
    return answer({"changed": len(ids), "ids": ids})


def _changed(number: int) -> Response:
    return answer({"changed": number})
