"""Replays, as answers have them."""

from __future__ import annotations

from typing import Any

from redrive.model.replay import Mode, ReplayState
from redrive.server.api.shape.audit import EntryShape
from redrive.server.api.shape.base import Moment, Shown


class ReplayShape(Shown):
    """`edit` is what was changed in the payload, redacted; `number` is which replay of its run it is."""

    id: str
    operation_id: str | None
    position: int
    dead_letter_id: str
    run_id: str
    step_index: int
    from_step_index: int
    mode: Mode
    state: ReplayState
    automatic: bool
    requested_by: str
    requested_at: Moment
    reason: str
    override_retry_policy: Any
    edit: Any
    fingerprint: str
    effect: str
    breaker: str | None
    started_at: Moment | None
    ended_at: Moment | None
    fingerprint_after: str | None
    note: str | None
    number: int | None


class HistoryShape(Shown):
    """What was done to a dead letter, and its replays; the newest first."""

    entries: list[EntryShape]
    replays: list[ReplayShape]
