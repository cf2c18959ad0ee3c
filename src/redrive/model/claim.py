"""A claim: the right of one worker to execute the current step of one run, and all that it needs for it."""

from __future__ import annotations

from typing import NamedTuple

from redrive.model.step import Tally


class Claim(NamedTuple):
    """`token` and `epoch` fence it: a write of this worker counts only while the run still carries both.

    `has_letter` is 1 when it is replayed for a dead letter, which is in that place already.
    """

    id: str
    org: str
    workflow: str
    definition: str
    queue: str
    priority: int
    submitted_at: float
    step_index: int
    input: str
    step_input: str | None
    attempt: int
    epoch: int
    failures: int
    rate_limit_waits: int
    holds: int
    losses: int
    lonely_losses: int
    previous_delay: float | None
    attempt_started_at: float
    token: int
    worker: str
    code_version: str
    idempotency_key: str | None
    correlation_id: str
    tags: str | None
    metadata: str | None
    slots: str | None
    policy_override: str | None
    alone: int
    cancel_requested_at: float | None
    replays: int = 0
    step_only: int = 0
    redrives: int = 0
    has_letter: int = 0

    @property
    def tally(self) -> Tally:
        return Tally(self.failures, self.rate_limit_waits, self.holds, self.previous_delay)

    @property
    def payload(self) -> str:
        """What the current step receives: the run's input, or what the step before has given."""
        return self.input if self.step_input is None else self.step_input

    @property
    def order(self) -> tuple[int, float, str]:
        return -self.priority, self.submitted_at, self.id
