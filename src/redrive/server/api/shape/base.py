"""What requests and answers are made of."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

from redrive.engine.refusal import MOST_AT_ONCE
from redrive.engine.wording import LONGEST_REASON


class Asked(BaseModel):
    """The body of a request: what it does not know it refuses."""

    model_config = ConfigDict(extra="forbid")


class Shown(BaseModel):
    """The body of an answer. It is never validated, so it has to be true: tests compare."""

    model_config = ConfigDict(extra="forbid")


Moment = Annotated[str, Field(json_schema_extra={"format": "date-time"})]
IdText = Annotated[str, Field(min_length=1, max_length=200)]
Ids = Annotated[list[IdText], Field(min_length=1, max_length=MOST_AT_ONCE)]
Reason = Annotated[str, Field(max_length=LONGEST_REASON, description="Kept in the audit, without secrets")]


class Reasoned(Asked):
    reason: Reason = ""


def reason_of(body: Reasoned | None) -> str:
    """A reason may be left away with its whole body."""
    return "" if body is None else body.reason


class Changed(Shown):
    """How many were changed."""

    changed: int
