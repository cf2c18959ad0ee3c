"""A claim: the right of one worker to execute the current step of one run, and all that it needs for it."""

from __future__ import annotations

from enum import IntEnum

from redrive.model.field import BigInt, RunId
from redrive.model.row import Row
from redrive.model.step import Tally


class Isolation(IntEnum):
    """Whether a run is executed with nothing else in its worker, because it may have crashed one before."""

    NONE = 0
    REQUIRED = 1
    ACTIVE = 2
    """It is executed alone now: if its worker dies, it has crashed it."""

    @property
    def requested(self) -> Isolation:
        """The same for the next attempt, which has not started."""
        return Isolation.NONE if self is Isolation.NONE else Isolation.REQUIRED


class Claim(Row, frozen=True):
    """`token` and `epoch` fence it: a write of this worker counts only while the run still carries both.

    `has_letter`: it is replayed for a dead letter, which keeps its place in the queue.
    """

    id: RunId
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
    isolated_crashes: int
    previous_delay: float | None
    attempt_started_at: float
    token: BigInt
    worker: str
    code_version: str
    idempotency_key: str | None
    correlation_id: str
    tags: str | None
    metadata: str | None
    slots: str | None
    policy_override: str | None
    isolation: Isolation
    cancel_requested_at: float | None
    replays: int = 0
    step_only: bool = False
    redrives: int = 0
    has_letter: bool = False
    sort_key: float = 0.0

    @property
    def tally(self) -> Tally:
        return Tally(self.failures, self.rate_limit_waits, self.holds, self.previous_delay)

    @property
    def payload(self) -> str:
        """What the current step receives: the run's input, or what the step before has given."""
        return self.input if self.step_input is None else self.step_input

    @property
    def order(self) -> tuple[float, str]:
        return self.sort_key, self.id
