"""Changes of dead letters, one or many at once.

With If-Match, a dead letter is changed only if it still has that version. A request about many changes all of
them or none: if one does not exist in the organization of the caller, the response is a 404.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Annotated, Any, Literal, Self

from fastapi import Path
from pydantic import Field, model_validator
from starlette.responses import Response

from redrive.engine.id_lookup import IdKind
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
    Ids,
    IdText,
    IfMatch,
    LetterId,
    Reason,
    Reasoned,
    RequestBody,
    reason_of,
    unchanged,
    versions,
)
from redrive.server.api.resource import ResponseBody
from redrive.server.request_context import CallersFailures, RequestContext, Visiting
from redrive.server.route import Routes

routes = Routes("dead_letters", PREFIX, ALIASES)
ARCHIVE, OPERATE, ANNOTATE = may(Permission.ARCHIVE), may(Permission.OPERATE), may(Permission.NOTE)

Word = Annotated[str, Field(min_length=1, max_length=MAX_WORD_LENGTH)]
Words = Annotated[list[Word], Field(max_length=MAX_TAGS)]
Change = Callable[..., Awaitable[int]]


class RevealRequest(RequestBody):
    """`reason` is required and recorded in the audit log."""

    reason: Annotated[str, Field(min_length=1, max_length=MAX_REASON_LENGTH)]


class NewNote(RequestBody):
    text: Annotated[str, Field(min_length=1, max_length=MAX_NOTE_LENGTH)]


class Dependency(RequestBody):
    """`depends_on` must be resolved before this dead letter is redriven."""

    depends_on: IdText


class Assignment(RequestBody):
    """`name` is the assignee; null removes the assignee."""

    name: Word | None


class Tagging(RequestBody):
    add: Words = Field(default_factory=list)
    remove: Words = Field(default_factory=list)


class Changed(ResponseBody):
    """`changed` is the number of changed dead letters."""

    changed: int


class RevealedShape(ResponseBody):
    """The original payload, including secrets."""

    payload: Any


@routes.post("/{id}/resolve", OPERATE, returns=LETTER.model)
async def resolve(
    failures: CallersFailures, letter_id: LetterId, body: Reasoned | None = None, if_match: IfMatch = None
) -> Response:
    """Mark a dead letter as resolved."""
    return await _change(failures, letter_id, if_match, failures.resolve, reason_of(body))


@routes.post("/{id}/ignore", OPERATE, returns=LETTER.model)
async def ignore(
    failures: CallersFailures, letter_id: LetterId, body: Reasoned | None = None, if_match: IfMatch = None
) -> Response:
    """Mark a dead letter as ignored."""
    return await _change(failures, letter_id, if_match, failures.ignore, reason_of(body))


@routes.post("/{id}/archive", ARCHIVE, returns=LETTER.model)
async def archive(
    failures: CallersFailures, letter_id: LetterId, body: Reasoned | None = None, if_match: IfMatch = None
) -> Response:
    """Archive a dead letter."""
    return await _change(failures, letter_id, if_match, failures.archive, reason_of(body))


@routes.post("/{id}/reopen", OPERATE, returns=LETTER.model)
async def reopen(
    failures: CallersFailures, letter_id: LetterId, body: Reasoned | None = None, if_match: IfMatch = None
) -> Response:
    """Reopen a closed dead letter, unless its run has continued since."""
    return await _change(failures, letter_id, if_match, failures.reopen, reason_of(body))


@routes.post("/{id}/assign", ANNOTATE, returns=LETTER.model)
async def assign(
    failures: CallersFailures, letter_id: LetterId, body: Assignment, if_match: IfMatch = None
) -> Response:
    """Assign a dead letter to someone, or remove the assignee."""
    return await _change(failures, letter_id, if_match, failures.assign, body.name)


@routes.post("/{id}/tags", ANNOTATE, returns=LETTER.model)
async def tag(
    failures: CallersFailures, letter_id: LetterId, body: Tagging, if_match: IfMatch = None
) -> Response:
    """Add and remove tags of a dead letter."""
    return await _change(failures, letter_id, if_match, failures.tag, body.add, body.remove)


@routes.post("/{id}/notes", ANNOTATE, status_code=201, returns=NOTE.model)
async def note(failures: CallersFailures, letter_id: LetterId, body: NewNote) -> Response:
    """Add a note to a dead letter."""
    return answer(NOTE.view(await failures.note(letter_id, body.text)), 201)


@routes.post("/{id}/dependencies", OPERATE, returns=Changed)
async def link(visit: Visiting, letter_id: LetterId, body: Dependency) -> Response:
    """Add a dependency: redrive this dead letter only after another one is resolved."""
    depends_on = await visit.ids.complete(IdKind.DEAD_LETTER, body.depends_on)
    return answer({"changed": int(await visit.failures.link(letter_id, depends_on))})


@routes.delete("/{id}/dependencies/{depends_on}", OPERATE, returns=Changed)
async def unlink(
    visit: Visiting, letter_id: LetterId, depends_on: Annotated[str, Path(min_length=1, max_length=200)]
) -> Response:
    """Remove a dependency."""
    depends_on = await visit.ids.complete(IdKind.DEAD_LETTER, depends_on)
    return answer({"changed": int(await visit.failures.unlink(letter_id, depends_on))})


@routes.post("/{id}/reveal", may(Permission.REVEAL, repeatable=False), returns=RevealedShape)
async def reveal(failures: CallersFailures, letter_id: LetterId, body: RevealRequest) -> Response:
    """Get the original payload, including secrets. The audit log records the caller and the reason."""
    return answer({"payload": await failures.reveal(letter_id, reason=body.reason)})


async def _change(
    failures: Failures, letter_id: str, if_match: str | None, change: Change, *what: object
) -> Response:
    """Change a dead letter, and respond with its new version."""
    with unchanged():
        await change(letter_id, *what, version=versions(if_match))
    letter = await failures.view(letter_id)
    return answer(LETTER.view(letter), headers=etag(version_of(letter)))


# Many at once


class Closing(RequestBody):
    """Select dead letters by `ids`, or by `query` and `expect`, the exact number of matches.

    If the number of matches is not `expect`, nothing changes.
    """

    ids: Ids | None = None
    query: Annotated[str | None, Field(max_length=2000)] = None
    expect: Annotated[int | None, Field(ge=1, le=MAX_CONCURRENT)] = None
    reason: Reason = ""

    @model_validator(mode="after")
    def _one_selection(self) -> Self:
        by_query = self.query is not None and self.expect is not None
        if (self.ids is not None) == by_query or (self.query is None) != (self.expect is None):
            raise InvalidValueError(
                "select the dead letters by ids, or by query with expect, the number of matches"
            )
        return self


class Reopening(RequestBody):
    ids: Ids
    reason: Reason = ""


class Assignments(Assignment):
    ids: Ids


class Taggings(Tagging):
    ids: Ids


class Clearing(RequestBody):
    """Deletes all dead letters of a stand-alone queue permanently.

    `expect` is their number, and `confirm` must be "clear".
    """

    queue: Annotated[str, Field(min_length=1, max_length=200, pattern="^dlq:", examples=["dlq:default"])]
    expect: Annotated[int, Field(ge=0, le=1_000_000)]
    confirm: Literal["clear"]


class Closed(Changed):
    """`ids` lists the dead letters that the query found, for an undo. It is empty for a selection by ids."""

    ids: list[str] = Field(default_factory=list)


@routes.post("/resolve", OPERATE, returns=Closed)
async def resolve_many(visit: Visiting, body: Closing) -> Response:
    """Mark many dead letters as resolved."""
    return await _close(visit, body, visit.failures.resolve, DeadLetterState.RESOLVED)


@routes.post("/ignore", OPERATE, returns=Closed)
async def ignore_many(visit: Visiting, body: Closing) -> Response:
    """Mark many dead letters as ignored."""
    return await _close(visit, body, visit.failures.ignore, DeadLetterState.IGNORED)


@routes.post("/archive", ARCHIVE, returns=Closed)
async def archive_many(visit: Visiting, body: Closing) -> Response:
    """Archive many dead letters."""
    return await _close(visit, body, visit.failures.archive, DeadLetterState.ARCHIVED)


@routes.post("/reopen", OPERATE, returns=Changed)
async def reopen_many(visit: Visiting, body: Reopening) -> Response:
    """Reopen many closed dead letters, unless one of their runs has continued since."""
    return _changed(await visit.failures.reopen(await visit.ids.complete_letters(body.ids), body.reason))


@routes.post("/assign", ANNOTATE, returns=Changed)
async def assign_many(visit: Visiting, body: Assignments) -> Response:
    """Assign many dead letters to someone, or remove the assignee."""
    return _changed(await visit.failures.assign(await visit.ids.complete_letters(body.ids), body.name))


@routes.post("/tags", ANNOTATE, returns=Changed)
async def tag_many(visit: Visiting, body: Taggings) -> Response:
    """Add and remove tags of many dead letters."""
    return _changed(
        await visit.failures.tag(await visit.ids.complete_letters(body.ids), body.add, body.remove)
    )


@routes.post("/clear", may(Permission.MANAGE), returns=Changed)
async def clear(visit: Visiting, body: Clearing) -> Response:
    """Delete all dead letters of a stand-alone queue permanently, except ones that are being replayed.

    Dead letters of runs can't be deleted this way: they are part of the history of their runs.
    """
    # The tenant role has no right to delete, so this uses the store without row-level security; the SQL names
    # the organization.
    app = visit.app
    removed = await clear_queue(
        parts_of(app).store, visit.caller, body.queue, parts_of(app).settings.dlq_max_size, expect=body.expect
    )
    return _changed(removed)


async def _close(visit: RequestContext, body: Closing, close: Change, state: DeadLetterState) -> Response:
    if body.query is None or body.expect is None:
        return _changed(await close(await visit.ids.complete_letters(body.ids or ()), body.reason))
    ids = await visit.failures.close_matching(body.query, state, body.reason, expect=body.expect)
    return answer({"changed": len(ids), "ids": ids})


def _changed(number: int) -> Response:
    return answer({"changed": number})
