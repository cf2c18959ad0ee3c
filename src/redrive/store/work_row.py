"""The work of a run on PostgreSQL: the row that moves between the tables ready, idle and leases.

Placeholders in statements use this class for the columns that these tables share.
"""

from __future__ import annotations

from redrive.model.field import BigInt, RunId
from redrive.model.row import Row


class WorkRow(Row, frozen=True, kw_only=True):
    submitted_at: float
    sort_key: float
    attempt_started_at: float | None
    started_at: float | None
    cancel_requested_at: float | None
    previous_delay: float | None
    first_failed_at: float | None
    last_failed_at: float | None
    token: BigInt | None
    epoch: int
    attempt: int
    step_index: int
    priority: int
    failures: int
    rate_limit_waits: int
    holds: int
    losses: int
    isolated_crashes: int
    isolation: int
    replays: int
    redrives: int
    step_only: int
    has_letter: int
    id: RunId
    org: str
    workflow: str
    queue: str
    step_input: str | None
    error_class: str | None
    worker: str | None
    code_version: str | None
    policy_override: str | None
    progress: str | None
