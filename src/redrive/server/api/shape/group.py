"""Failure groups, as requests and answers have them."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from redrive.failures.groups import MAX_LETTERS
from redrive.model.failure_group import GroupState
from redrive.server.api.shape.base import Asked, Instant, Moment, Reason, Shown


class LetterCountsShape(Shown):
    """How many of its dead letters are in each state."""

    open: int
    replaying: int
    exhausted: int
    closed: int
    live: int


class GroupStandingShape(Shown):
    """All failures of one fingerprint. `reason` tells why they are taken for one; `version` is its ETag."""

    fingerprint: str
    version: str
    title: str
    reason: str
    workflow: str
    step: str
    task: str
    category: str
    error_type: str
    state: GroupState
    occurrences: int
    first_seen: Moment
    last_seen: Moment
    regressed_at: Moment | None
    ignored_until: Moment | None
    ignored_beyond: int | None
    ignored_version: str | None
    changed_by: str | None
    changed_at: Moment | None
    change_reason: str | None


class GroupLineShape(GroupStandingShape):
    dead_letters: LetterCountsShape


class GroupPage(Shown):
    items: list[GroupLineShape]
    next_cursor: str | None


class GroupVersionShape(Shown):
    code_version: str
    occurrences: int
    first_seen: Moment
    last_seen: Moment


class GroupShape(GroupLineShape):
    """`sample` is its newest dead letter; `replays` counts those of this failure by state."""

    versions: list[GroupVersionShape]
    sample: str | None
    replays: dict[str, int]


class TimelineShape(Shown):
    """How many of its dead letters came in each part of `seconds`. `capped`: earlier ones may be missing."""

    start: Moment
    seconds: float
    numbers: list[int]
    capped: bool


class ResolutionShape(GroupStandingShape):
    """`resolved` dead letters were resolved with it, by these `ids`; `left` could be, and were not."""

    resolved: int
    left: int
    ids: list[str]


class GroupResolving(Asked):
    """With `dead_letters`, up to 10,000 of its open ones are resolved too.

    `expect` is how many these are: if they are not as many, nothing is changed.
    """

    reason: Reason = ""
    dead_letters: bool = False
    expect: Annotated[int | None, Field(ge=0, le=MAX_LETTERS)] = None


class GroupIgnoring(Asked):
    """Until one of these is met: a moment, more occurrences than so many, another version of the code."""

    reason: Reason = ""
    until: Instant | None = None
    beyond: Annotated[int | None, Field(ge=1, le=10**9)] = None
    version: Annotated[str | None, Field(min_length=1, max_length=100)] = None
