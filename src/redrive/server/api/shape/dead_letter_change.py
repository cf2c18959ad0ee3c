"""What people do with dead letters, as requests have it."""

from __future__ import annotations

from typing import Annotated, Any, Literal, Self

from pydantic import Field, model_validator

from redrive.errors import InvalidValueError
from redrive.failures.preconditions import MAX_CONCURRENT
from redrive.model.replay import Mode
from redrive.policy.user_text import MAX_NOTE_LENGTH, MAX_REASON_LENGTH, MAX_TAGS, MAX_WORD_LENGTH
from redrive.server.api.shape.base import Asked, Ids, IdText, Reason

Word = Annotated[str, Field(min_length=1, max_length=MAX_WORD_LENGTH)]
Words = Annotated[list[Word], Field(max_length=MAX_TAGS)]
Policy = Annotated[
    dict[str, Any] | None,
    Field(
        max_length=20,
        description=(
            "For this replay only: max_retries, base_delay_ms, factor, max_delay_ms, jitter_ratio, each of "
            "which may be left out; or a whole policy as dead letters show it"
        ),
        examples=[{"max_retries": 5, "base_delay_ms": 1000}],
    ),
]


class Telling(Asked):
    """A reason that must be given."""

    reason: Annotated[str, Field(min_length=1, max_length=MAX_REASON_LENGTH)]


class NewNote(Asked):
    text: Annotated[str, Field(min_length=1, max_length=MAX_NOTE_LENGTH)]


class Dependency(Asked):
    """`depends_on` must be resolved before this one is redriven (M12)."""

    depends_on: IdText


class Assignment(Asked):
    """Who looks after it; null: nobody."""

    name: Word | None


class Tagging(Asked):
    add: Words = Field(default_factory=list)
    remove: Words = Field(default_factory=list)


class ReplayRequest(Asked):
    """STEP_ONLY executes the failed step alone; FROM_STEP lets the run go on to its end (W9).

    An earlier step to go back to is named by its index or its name. A payload takes the place of what that
    step was given; the original is kept, and a reason is needed.
    """

    mode: Annotated[Mode, Field(strict=False)] = Mode.FROM_STEP
    from_step_index: Annotated[int | None, Field(ge=0, le=100_000)] = None
    from_step: Annotated[str | None, Field(min_length=1, max_length=200)] = None
    override_retry_policy: Policy = None
    payload: Any = None
    reason: Reason = ""

    @model_validator(mode="after")
    def _one_step(self) -> Self:
        if self.from_step_index is not None and self.from_step is not None:
            raise InvalidValueError("name the step by from_step_index or by from_step, not by both")
        return self


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
