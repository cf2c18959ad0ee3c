"""What is done to one dead letter. With If-Match, only if nobody has changed it since."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Annotated, Any

from fastapi import Path
from pydantic import Field
from starlette.responses import Response

from redrive.failures.service import Failures
from redrive.model.dead_letter import version_of
from redrive.policy.access import Permission
from redrive.policy.user_text import MAX_NOTE_LENGTH, MAX_REASON_LENGTH, MAX_TAGS, MAX_WORD_LENGTH
from redrive.server.answer import answer
from redrive.server.api.dead_letters import ALIASES, LETTER, NOTE, PREFIX
from redrive.server.api.request import Asked, Id, IdText, Reasoned, reason_of
from redrive.server.api.resource import Shown
from redrive.server.precondition import IfMatch, etag, unchanged, versions
from redrive.server.request_context import AtDesk
from redrive.server.route import Routes
from redrive.server.rule import may

routes = Routes("dead_letters", PREFIX, ALIASES)
OPERATE, ANNOTATE = may(Permission.OPERATE), may(Permission.NOTE)

Word = Annotated[str, Field(min_length=1, max_length=MAX_WORD_LENGTH)]
Words = Annotated[list[Word], Field(max_length=MAX_TAGS)]
Change = Callable[..., Awaitable[int]]


class Telling(Asked):
    """A reason that must be given."""

    reason: Annotated[str, Field(min_length=1, max_length=MAX_REASON_LENGTH)]


class NewNote(Asked):
    text: Annotated[str, Field(min_length=1, max_length=MAX_NOTE_LENGTH)]


class Dependency(Asked):
    """`depends_on` must be resolved before this one is redriven."""

    depends_on: IdText


class Assignment(Asked):
    """Who looks after it; null: nobody."""

    name: Word | None


class Tagging(Asked):
    add: Words = Field(default_factory=list)
    remove: Words = Field(default_factory=list)


class Changed(Shown):
    """How many were changed."""

    changed: int


class RevealedShape(Shown):
    """The payload with its secrets."""

    payload: Any


_LETTER = {200: {"model": LETTER.model}}
_CHANGED = {200: {"model": Changed}}


@routes.post("/{id}/resolve", OPERATE, responses=_LETTER)
async def resolve(
    desk: AtDesk, letter_id: Id, body: Reasoned | None = None, if_match: IfMatch = None
) -> Response:
    """Say that it is done with."""
    return await _changed(desk, letter_id, if_match, desk.dead_letters.resolve, reason_of(body))


@routes.post("/{id}/ignore", OPERATE, responses=_LETTER)
async def ignore(
    desk: AtDesk, letter_id: Id, body: Reasoned | None = None, if_match: IfMatch = None
) -> Response:
    """Say that nothing will be done about it."""
    return await _changed(desk, letter_id, if_match, desk.dead_letters.ignore, reason_of(body))


@routes.post("/{id}/archive", OPERATE, responses=_LETTER)
async def archive(
    desk: AtDesk, letter_id: Id, body: Reasoned | None = None, if_match: IfMatch = None
) -> Response:
    """Put it away."""
    return await _changed(desk, letter_id, if_match, desk.dead_letters.archive, reason_of(body))


@routes.post("/{id}/reopen", OPERATE, responses=_LETTER)
async def reopen(
    desk: AtDesk, letter_id: Id, body: Reasoned | None = None, if_match: IfMatch = None
) -> Response:
    """Undo closing it, unless its work has gone on since."""
    return await _changed(desk, letter_id, if_match, desk.dead_letters.reopen, reason_of(body))


@routes.post("/{id}/assign", ANNOTATE, responses=_LETTER)
async def assign(desk: AtDesk, letter_id: Id, body: Assignment, if_match: IfMatch = None) -> Response:
    """Say who looks after it."""
    return await _changed(desk, letter_id, if_match, desk.dead_letters.assign, body.name)


@routes.post("/{id}/tags", ANNOTATE, responses=_LETTER)
async def tag(desk: AtDesk, letter_id: Id, body: Tagging, if_match: IfMatch = None) -> Response:
    """Add tags to it, and remove others."""
    return await _changed(desk, letter_id, if_match, desk.dead_letters.tag, body.add, body.remove)


@routes.post("/{id}/notes", ANNOTATE, status_code=201, responses={201: {"model": NOTE.model}})
async def note(desk: AtDesk, letter_id: Id, body: NewNote) -> Response:
    """Write something down about it, for whoever comes next."""
    return answer(NOTE.view(await desk.dead_letters.note(letter_id, body.text)), 201)


@routes.post("/{id}/dependencies", OPERATE, responses=_CHANGED)
async def link(desk: AtDesk, letter_id: Id, body: Dependency) -> Response:
    """Redrive it only after another one was resolved; nothing changes when that is so already."""
    return answer({"changed": int(await desk.dead_letters.link(letter_id, body.depends_on))})


@routes.delete("/{id}/dependencies/{depends_on}", OPERATE, responses=_CHANGED)
async def unlink(
    desk: AtDesk, letter_id: Id, depends_on: Annotated[str, Path(min_length=1, max_length=200)]
) -> Response:
    """Let it wait for that one no longer; nothing changes when it did not."""
    return answer({"changed": int(await desk.dead_letters.unlink(letter_id, depends_on))})


@routes.post(
    "/{id}/reveal", may(Permission.REVEAL, repeatable=False), responses={200: {"model": RevealedShape}}
)
async def reveal(desk: AtDesk, letter_id: Id, body: Telling) -> Response:
    """Its payload with its secrets; the audit keeps who has asked, and why."""
    return answer({"payload": await desk.reveal(letter_id, reason=body.reason)})


async def _changed(
    desk: Failures, letter_id: str, if_match: str | None, change: Change, *what: object
) -> Response:
    """As it is now."""
    with unchanged():
        await change(letter_id, *what, version=versions(if_match))
    letter = await desk.dead_letters.get(letter_id)
    return answer(LETTER.view(letter), headers=etag(version_of(letter)))
