"""What many requests have in common: parameters of the address, preconditions, and parts of bodies."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Annotated

from fastapi import Header, Path, Query
from pydantic import AwareDatetime, BaseModel, BeforeValidator, ConfigDict, Field

from redrive.errors import DriftError, InvalidValueError, NumberDriftError
from redrive.failures.preconditions import MAX_CONCURRENT
from redrive.policy.user_text import MAX_REASON_LENGTH
from redrive.server.problem import ProblemError
from redrive.server.request_context import RequestContext

MAX_PAGE_SIZE = 500
_TIMESTAMP = re.compile(r"\d{4}-\d\d-\d\d[Tt]\d\d:\d\d:\d\d(\.\d{1,9})?([Zz]|[+-]\d\d:\d\d)")

_TAG = r'(?:W/)?"[\x21\x23-\x7e]*"'
_TAGS = re.compile(rf"{_TAG}(?:[ \t]*,[ \t]*{_TAG})*")
_STRONG = re.compile(r'(W/)?"([\x21\x23-\x7e]*)"')

# Parameters

Id = Annotated[str, Path(alias="id", min_length=1, max_length=200)]
Name = Annotated[str, Path(min_length=1, max_length=200, description="Blanks and slashes percent-encoded")]
QueryText = Annotated[str, Query(max_length=2000, description="In the query language, such as is:open")]
Size = Annotated[int, Query(ge=1, le=MAX_PAGE_SIZE, description="The most items of the page")]
Cursor = Annotated[str | None, Query(max_length=500, description="The next_cursor of the page before")]


def at_most(size: int, visit: RequestContext) -> int:
    """The size that was asked for, up to the maximum of the settings."""
    return min(size, visit.parts.settings.server_page_size)


IfMatch = Annotated[
    str | None,
    Header(
        alias="If-Match",
        max_length=500,
        description="The ETag that was read: it is changed only if it is still the same, else 412.",
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
            "the header If-Match holds neither * nor ETags in quotes",
            hint='send the ETag as it was read, such as "6f1c2a9d0b3e4875"',
        )
    return [version for weak, version in _STRONG.findall(text) if not weak]


@contextmanager
def unchanged() -> Iterator[None]:
    """Answer 412 if it has changed since the caller read it: that is no conflict of states."""
    try:
        yield
    except NumberDriftError:
        raise
    except DriftError as error:
        hint = "read it again, then decide anew"
        raise ProblemError(412, "changed", str(error), hint=hint) from error


# Bodies


class RequestBody(BaseModel):
    """The body of a request. It rejects fields that it does not know; "yes" and 1 are not true."""

    model_config = ConfigDict(extra="forbid", strict=True)


def _timestamp(value: object) -> object:
    if not isinstance(value, str) or not _TIMESTAMP.fullmatch(value):
        raise InvalidValueError("a time is written as in RFC 3339, such as 2030-01-31T12:00:00Z")
    return value


Timestamp = Annotated[AwareDatetime, BeforeValidator(_timestamp), Field(strict=False)]
"""A time in RFC 3339. By itself, pydantic accepts numbers too."""
IdText = Annotated[str, Field(min_length=1, max_length=200)]
Ids = Annotated[list[IdText], Field(min_length=1, max_length=MAX_CONCURRENT)]
Reason = Annotated[str, Field(max_length=MAX_REASON_LENGTH, description="Kept in the audit, without secrets")]


class Reasoned(RequestBody):
    reason: Reason = ""


def reason_of(body: Reasoned | None) -> str:
    """The reason, which a caller may omit together with the whole body."""
    return "" if body is None else body.reason
