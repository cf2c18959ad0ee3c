"""What runs are started with, as requests have it."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field

from redrive.engine.enqueue import MAX_KEY_LENGTH, MAX_PRIORITY, MAX_START_DELAY_SECONDS, MAX_TAGS
from redrive.engine.task import MAX_NAME_LENGTH
from redrive.policy.user_text import MAX_WORD_LENGTH
from redrive.server.api.shape.base import Asked, Instant

MAX_RUNS = 1_000

Name = Annotated[str, Field(min_length=1, max_length=MAX_NAME_LENGTH)]
Key = Annotated[str, Field(min_length=1, max_length=MAX_KEY_LENGTH)]
Tag = Annotated[str, Field(min_length=1, max_length=MAX_WORD_LENGTH)]


class Options(Asked):
    """`work` is the name of a task or a workflow. It is due at once, after `delay_seconds`, or at `at`."""

    work: Name
    priority: Annotated[int, Field(ge=-MAX_PRIORITY, le=MAX_PRIORITY)] = 0
    delay_seconds: Annotated[float, Field(ge=0, le=MAX_START_DELAY_SECONDS, allow_inf_nan=False)] = 0.0
    at: Instant | None = None
    queue: Annotated[Name | None, Field(description="Another queue than that of its first task")] = None
    correlation_id: Key | None = None
    tags: Annotated[list[Tag], Field(max_length=MAX_TAGS)] = Field(default_factory=list)
    metadata: Annotated[dict[str, Any] | None, Field(max_length=1_000)] = None


class StartRequest(Options):
    payload: Any = None


class StartManyRequest(Options):
    """All of them, or none. `keys` are their idempotency keys, one for each payload."""

    payloads: Annotated[list[Any], Field(min_length=1, max_length=MAX_RUNS)]
    keys: Annotated[list[Key] | None, Field(max_length=MAX_RUNS)] = None
