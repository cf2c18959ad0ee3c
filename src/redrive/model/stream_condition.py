"""The condition of a stream: whether a consumer reads it, and if not, what prevents it."""

from __future__ import annotations

from enum import StrEnum
from typing import Protocol

from redrive.model.fact import Fact
from redrive.model.field import Instant

SILENT_SECONDS = 30.0
"""A stream without a report (due every 2 s) for this long has no consumer."""
BEHIND_SECONDS = 300.0
"""A stream is behind if its oldest unread or unacknowledged entry is older."""
OTHER_READER = "stream_other_reader"
"""Reported by a consumer that stands by while another one reads."""


class StreamCondition(StrEnum):
    """What a stream does.

    unread   no consumer has ever reported
    silent   no consumer reports any longer
    failing  the consumer can't reach Redis
    paused   a person paused it
    held     a consumer has stopped reading for a while, such as while too many runs are queued
    behind   a consumer reads, but entries wait for long
    reading  a consumer reads
    """

    UNREAD = "unread"
    SILENT = "silent"
    FAILING = "failing"
    PAUSED = "paused"
    HELD = "held"
    BEHIND = "behind"
    READING = "reading"


class Reported(Protocol):
    """The fields of a stream that decide: its row, or a view of it."""

    @property
    def paused_at(self) -> Instant | None: ...
    @property
    def reported_at(self) -> Instant | None: ...
    @property
    def pending(self) -> int | None: ...
    @property
    def oldest_at(self) -> Instant | None: ...
    @property
    def last_error(self) -> Fact | None: ...
    @property
    def held_back(self) -> Fact | None: ...


def stream_condition(state: Reported, now: float) -> StreamCondition:
    """Return the condition with the most urgent cause."""
    if state.paused_at is not None:
        return StreamCondition.PAUSED
    if state.reported_at is None:
        return StreamCondition.UNREAD
    if now - state.reported_at > SILENT_SECONDS:
        return StreamCondition.SILENT
    if state.pending is None and state.last_error is not None:
        return StreamCondition.FAILING
    if state.held_back is not None and state.held_back.code != OTHER_READER:
        return StreamCondition.HELD
    if state.oldest_at is not None and now - state.oldest_at > BEHIND_SECONDS:
        return StreamCondition.BEHIND
    return StreamCondition.READING


NEEDS_YOU = (StreamCondition.FAILING, StreamCondition.SILENT, StreamCondition.BEHIND)
"""The conditions that a person should look at. Backlog drains, and a pause is deliberate."""
