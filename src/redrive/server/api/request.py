"""What many requests share: path and query parameters, preconditions, and parts of bodies."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Annotated, Any

from fastapi import Depends, Header, Path, Query
from pydantic import AwareDatetime, BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from redrive.engine.id_lookup import IdKind
from redrive.errors import DriftError, InvalidValueError, NumberDriftError
from redrive.failures.preconditions import MAX_CONCURRENT
from redrive.model.spelling import own_names
from redrive.policy.user_text import MAX_REASON_LENGTH
from redrive.server.problem import ProblemError
from redrive.server.request_context import RequestContext, Visiting

MAX_PAGE_SIZE = 500
_TIMESTAMP = re.compile(r"\d{4}-\d\d-\d\d[Tt]\d\d:\d\d:\d\d(\.\d{1,9})?([Zz]|[+-]\d\d:\d\d)")

_TAG = r'(?:W/)?"[\x21\x23-\x7e]*"'
_TAGS = re.compile(rf"{_TAG}(?:[ \t]*,[ \t]*{_TAG})*")
_STRONG = re.compile(r'(W/)?"([\x21\x23-\x7e]*)"')

# Parameters

Id = Annotated[str, Path(alias="id", min_length=1, max_length=200)]
_GivenId = Annotated[
    str, Path(alias="id", min_length=1, max_length=200, description="The id, or at least its first 6 digits")
]


def _completed(kind: IdKind) -> Any:
    async def complete(visit: Visiting, given: _GivenId) -> str:
        return await visit.ids.complete(kind, given)

    return Depends(complete)


RunId = Annotated[str, _completed(IdKind.RUN)]
LetterId = Annotated[str, _completed(IdKind.DEAD_LETTER)]
ReplayId = Annotated[str, _completed(IdKind.REPLAY)]
OperationId = Annotated[str, _completed(IdKind.OPERATION)]
EventId = Annotated[str, _completed(IdKind.EVENT)]
RebuildId = Annotated[str, _completed(IdKind.REBUILD)]
"""Ids in the path. If a request gives only the first digits of one, the route gets the whole id."""
Name = Annotated[str, Path(min_length=1, max_length=200, description="Percent-encode spaces and slashes")]
QueryText = Annotated[
    str, Query(max_length=2000, description="A query in the query language, such as is:open")
]
Size = Annotated[int, Query(ge=1, le=MAX_PAGE_SIZE, description="The maximum number of items per page")]
Cursor = Annotated[str | None, Query(max_length=500, description="The next_cursor of the previous page")]


def at_most(size: int, visit: RequestContext) -> int:
    """Limit the requested size to the maximum of the settings."""
    return min(size, visit.parts.settings.server_page_size)


IfMatch = Annotated[
    str | None,
    Header(
        alias="If-Match",
        max_length=500,
        description="The ETag that was read. If the resource has changed since, the response is 412.",
    ),
]


def versions(if_match: str | None) -> Sequence[str] | None:
    """Read the versions that If-Match (RFC 9110) accepts; None: any. A weak ETag matches nothing."""
    text = "*" if if_match is None else if_match.strip()
    if text == "*":
        return None
    if not _TAGS.fullmatch(text):
        raise ProblemError(
            400,
            "malformed_if_match",
            "the If-Match header must be * or ETags in quotes",
            hint='send the ETag exactly as received, such as "6f1c2a9d0b3e4875"',
        )
    return [version for weak, version in _STRONG.findall(text) if not weak]


@contextmanager
def unchanged() -> Iterator[None]:
    """Respond with 412, not 409, if the resource has changed since the caller read it."""
    try:
        yield
    except NumberDriftError:
        raise
    except DriftError as error:
        raise ProblemError(412, "changed", str(error)) from error


# Bodies


class RequestBody(BaseModel):
    """The body of a request. It rejects fields that it does not know; "yes" and 1 are not true.

    Fields may be in camelCase, too: fromStepIndex for from_step_index.
    """

    model_config = ConfigDict(extra="forbid", strict=True)

    @model_validator(mode="before")
    @classmethod
    def _own_names(cls, body: object) -> object:
        return own_names(body, cls.model_fields) if isinstance(body, dict) else body


def _timestamp(value: object) -> object:
    if not isinstance(value, str) or not _TIMESTAMP.fullmatch(value):
        raise InvalidValueError("not a time in RFC 3339, such as 2030-01-31T12:00:00Z")
    return value


Timestamp = Annotated[AwareDatetime, BeforeValidator(_timestamp), Field(strict=False)]
"""A time in RFC 3339. Pydantic's own type accepts numbers too."""
IdText = Annotated[str, Field(min_length=1, max_length=200)]
Ids = Annotated[list[IdText], Field(min_length=1, max_length=MAX_CONCURRENT)]
Reason = Annotated[
    str, Field(max_length=MAX_REASON_LENGTH, description="Stored in the audit log, with secrets redacted")
]


class Reasoned(RequestBody):
    reason: Reason = ""


def reason_of(body: Reasoned | None) -> str:
    """Return the reason, or an empty string if the caller sent no body."""
    return "" if body is None else body.reason
