"""What is done to dead letters: to one, or to many at once.

With If-Match, one is changed only if nobody has changed it since. Of many, all are changed or none: each is
looked up in the organization of the caller, and one that is not there makes the whole request a 404.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Annotated, Any, Literal, Self

from fastapi import Path
from pydantic import Field, model_validator
from starlette.responses import Response

from redrive.errors import InvalidValueError
from redrive.failures.external_tasks import clear_queue
from redrive.failures.preconditions import MAX_CONCURRENT
from redrive.failures.service import Failures
from redrive.model.dead_letter import DeadLetterState, version_of
from redrive.parts import parts_of
from redrive.policy.access import Permission
from redrive.policy.user_text import MAX_NOTE_LENGTH, MAX_REASON_LENGTH, MAX_TAGS, MAX_WORD_LENGTH
from redrive.server.access_control import may
from redrive.server.answer import answer, etag
from redrive.server.api.dead_letters import ALIASES, LETTER, NOTE, PREFIX
from redrive.server.api.request import (
    Id,
    Ids,
    IdText,
    IfMatch,
    Reason,
    Reasoned,
    RequestBody,
    reason_of,
    unchanged,
    versions,
)
from redrive.server.api.resource import ResponseBody
from redrive.server.request_context import CallersFailures, Visiting
from redrive.server.route import Routes

routes = Routes("dead_letters", PREFIX, ALIASES)
OPERATE, ANNOTATE = may(Permission.OPERATE), may(Permission.NOTE)

Word = Annotated[str, Field(min_length=1, max_length=MAX_WORD_LENGTH)]
Words = Annotated[list[Word], Field(max_length=MAX_TAGS)]
Change = Callable[..., Awaitable[int]]


class Telling(RequestBody):
    """A reason that must be given."""

    reason: Annotated[str, Field(min_length=1, max_length=MAX_REASON_LENGTH)]


class NewNote(RequestBody):
    text: Annotated[str, Field(min_length=1, max_length=MAX_NOTE_LENGTH)]


class Dependency(RequestBody):
    """`depends_on` must be resolved before this one is redriven."""

    depends_on: IdText


class Assignment(RequestBody):
    """Who looks after it; null: nobody."""

    name: Word | None


class Tagging(RequestBody):
    add: Words = Field(default_factory=list)
    remove: Words = Field(default_factory=list)


class Changed(ResponseBody):
    """How many were changed."""

    changed: int


class RevealedShape(ResponseBody):
    """The payload with its secrets."""

    payload: Any


@routes.post("/{id}/resolve", OPERATE, returns=LETTER.model)
async def resolve(
    failures: CallersFailures, letter_id: Id, body: Reasoned | None = None, if_match: IfMatch = None
) -> Response:
    """Say that it is done with."""
    return await _change(failures, letter_id, if_match, failures.resolve, reason_of(body))


@routes.post("/{id}/ignore", OPERATE, returns=LETTER.model)
async def ignore(
    failures: CallersFailures, letter_id: Id, body: Reasoned | None = None, if_match: IfMatch = None
) -> Response:
    """Say that nothing will be done about it."""
    return await _change(failures, letter_id, if_match, failures.ignore, reason_of(body))


@routes.post("/{id}/archive", OPERATE, returns=LETTER.model)
async def archive(
    failures: CallersFailures, letter_id: Id, body: Reasoned | None = None, if_match: IfMatch = None
) -> Response:
    """Put it away."""
    return await _change(failures, letter_id, if_match, failures.archive, reason_of(body))


@routes.post("/{id}/reopen", OPERATE, returns=LETTER.model)
async def reopen(
    failures: CallersFailures, letter_id: Id, body: Reasoned | None = None, if_match: IfMatch = None
) -> Response:
    """Undo closing it, unless its work has gone on since."""
    return await _change(failures, letter_id, if_match, failures.reopen, reason_of(body))


@routes.post("/{id}/assign", ANNOTATE, returns=LETTER.model)
async def assign(
    failures: CallersFailures, letter_id: Id, body: Assignment, if_match: IfMatch = None
) -> Response:
    """Say who looks after it."""
    return await _change(failures, letter_id, if_match, failures.assign, body.name)


@routes.post("/{id}/tags", ANNOTATE, returns=LETTER.model)
async def tag(failures: CallersFailures, letter_id: Id, body: Tagging, if_match: IfMatch = None) -> Response:
    """Add tags to it, and remove others."""
    return await _change(failures, letter_id, if_match, failures.tag, body.add, body.remove)


@routes.post("/{id}/notes", ANNOTATE, status_code=201, returns=NOTE.model)
async def note(failures: CallersFailures, letter_id: Id, body: NewNote) -> Response:
    """Write something down about it, for whoever comes next."""
    return answer(NOTE.view(await failures.note(letter_id, body.text)), 201)


@routes.post("/{id}/dependencies", OPERATE, returns=Changed)
async def link(failures: CallersFailures, letter_id: Id, body: Dependency) -> Response:
    """Redrive it only after another one was resolved; nothing changes when that is so already."""
    return answer({"changed": int(await failures.link(letter_id, body.depends_on))})


@routes.delete("/{id}/dependencies/{depends_on}", OPERATE, returns=Changed)
async def unlink(
    failures: CallersFailures, letter_id: Id, depends_on: Annotated[str, Path(min_length=1, max_length=200)]
) -> Response:
    """Let it wait for that one no longer; nothing changes when it did not."""
    return answer({"changed": int(await failures.unlink(letter_id, depends_on))})


@routes.post("/{id}/reveal", may(Permission.REVEAL, repeatable=False), returns=RevealedShape)
async def reveal(failures: CallersFailures, letter_id: Id, body: Telling) -> Response:
    """Its payload with its secrets; the audit keeps who has asked, and why."""
    return answer({"payload": await failures.reveal(letter_id, reason=body.reason)})


async def _change(
    failures: Failures, letter_id: str, if_match: str | None, change: Change, *what: object
) -> Response:
    """Change a dead letter, and return it as it is now."""
    with unchanged():
        await change(letter_id, *what, version=versions(if_match))
    letter = await failures.view(letter_id)
    return answer(LETTER.view(letter), headers=etag(version_of(letter)))


# Many at once


class Closing(RequestBody):
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


class Reopening(RequestBody):
    ids: Ids
    reason: Reason = ""


class Assignments(Assignment):
    ids: Ids


class Taggings(Tagging):
    ids: Ids


class Clearing(RequestBody):
    """A stand-alone queue is emptied for ever: say how many dead letters that is, and the word "clear"."""

    queue: Annotated[str, Field(min_length=1, max_length=200, pattern="^dlq:", examples=["dlq:default"])]
    expect: Annotated[int, Field(ge=0, le=1_000_000)]
    confirm: Literal["clear"]


class Closed(Changed):
    """`ids` are those that the query has found, to reopen just these; whoever has named them is not told."""

    ids: list[str] = Field(default_factory=list)


@routes.post("/resolve", OPERATE, returns=Closed)
async def resolve_many(failures: CallersFailures, body: Closing) -> Response:
    """Say that they are done with."""
    return await _close(body, failures, failures.resolve, DeadLetterState.RESOLVED)


@routes.post("/ignore", OPERATE, returns=Closed)
async def ignore_many(failures: CallersFailures, body: Closing) -> Response:
    """Say that nothing will be done about them."""
    return await _close(body, failures, failures.ignore, DeadLetterState.IGNORED)


@routes.post("/archive", OPERATE, returns=Closed)
async def archive_many(failures: CallersFailures, body: Closing) -> Response:
    """Put them away."""
    return await _close(body, failures, failures.archive, DeadLetterState.ARCHIVED)


@routes.post("/reopen", OPERATE, returns=Changed)
async def reopen_many(failures: CallersFailures, body: Reopening) -> Response:
    """Undo closing them, unless the work of one has gone on since."""
    return _changed(await failures.reopen(body.ids, body.reason))


@routes.post("/assign", ANNOTATE, returns=Changed)
async def assign_many(failures: CallersFailures, body: Assignments) -> Response:
    """Say who looks after them."""
    return _changed(await failures.assign(body.ids, body.name))


@routes.post("/tags", ANNOTATE, returns=Changed)
async def tag_many(failures: CallersFailures, body: Taggings) -> Response:
    """Add tags to them, and remove others."""
    return _changed(await failures.tag(body.ids, body.add, body.remove))


@routes.post("/clear", may(Permission.MANAGE), returns=Changed)
async def clear(visit: Visiting, body: Clearing) -> Response:
    """Empty a stand-alone dead-letter queue for ever, but for what is being executed.

    Dead letters of runs cannot be removed by hand: they are part of the history of these runs.
    """
    # Requests have no right to remove anything behind the wall: this one goes around it, its org in the SQL.
    app = visit.app
    removed = await clear_queue(
        parts_of(app).store, visit.caller, body.queue, parts_of(app).settings.dlq_max_size, expect=body.expect
    )
    return _changed(removed)


async def _close(body: Closing, failures: Failures, close: Change, state: DeadLetterState) -> Response:
    if body.query is None or body.expect is None:
        return _changed(await close(body.ids, body.reason))
    ids = await failures.close_matching(body.query, state, body.reason, expect=body.expect)
    return answer({"changed": len(ids), "ids": ids})


def _changed(number: int) -> Response:
    return answer({"changed": number})
