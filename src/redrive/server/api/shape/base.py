"""What requests and answers are made of."""

from __future__ import annotations

import re
from typing import Annotated

from pydantic import AwareDatetime, BaseModel, BeforeValidator, ConfigDict, Field

from redrive.errors import InvalidValueError
from redrive.failures.preconditions import MAX_CONCURRENT
from redrive.policy.user_text import MAX_REASON_LENGTH

_INSTANT = re.compile(r"\d{4}-\d\d-\d\d[Tt]\d\d:\d\d:\d\d(\.\d{1,9})?([Zz]|[+-]\d\d:\d\d)")


class Asked(BaseModel):
    """The body of a request: what it does not know it refuses, and "yes" or 1 is not true."""

    model_config = ConfigDict(extra="forbid", strict=True)


class Shown(BaseModel):
    """The body of an answer. It is never validated, so it has to be true: tests compare."""

    model_config = ConfigDict(extra="forbid")


def _instant(value: object) -> object:
    if not isinstance(value, str) or not _INSTANT.fullmatch(value):
        raise InvalidValueError("a time is written as in RFC 3339, such as 2030-01-31T12:00:00Z")
    return value


Moment = Annotated[str, Field(json_schema_extra={"format": "date-time"})]
Instant = Annotated[AwareDatetime, BeforeValidator(_instant), Field(strict=False)]
"""A time that somebody names. Left to itself, pydantic takes numbers too."""
IdText = Annotated[str, Field(min_length=1, max_length=200)]
Ids = Annotated[list[IdText], Field(min_length=1, max_length=MAX_CONCURRENT)]
Reason = Annotated[str, Field(max_length=MAX_REASON_LENGTH, description="Kept in the audit, without secrets")]


class Reasoned(Asked):
    reason: Reason = ""


def reason_of(body: Reasoned | None) -> str:
    """A reason may be left away with its whole body."""
    return "" if body is None else body.reason


class Changed(Shown):
    """How many were changed."""

    changed: int


class Closed(Changed):
    """`ids` are those that the query has found, to reopen just these; whoever has named them is not told."""

    ids: list[str] = Field(default_factory=list)
