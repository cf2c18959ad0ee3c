"""A claim: one worker's right to execute the current step of one run, and the data it needs to do so."""

from __future__ import annotations

from enum import IntEnum

from redrive.model.field import BigInt, RunId
from redrive.model.row import Row
from redrive.model.step import Tally


class Isolation(IntEnum):
    """Whether a run must be the only one in its worker, because it may have crashed a worker before."""

    NONE = 0
    REQUIRED = 1
    ACTIVE = 2
    """It is the only run in its worker now: if the worker dies, this run crashed it."""

    @property
    def requested(self) -> Isolation:
        """The isolation of the next attempt, which has not started yet."""
        return Isolation.NONE if self is Isolation.NONE else Isolation.REQUIRED


class Claim(Row, frozen=True):
    """A claimed run. `token` and `epoch` fence it: a worker's write applies only while the run has both.

    `has_letter`: the run is a replay of a dead letter; if it fails again, that dead letter is kept.
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
        """The input of the current step: the run's input, or the previous step's result."""
        return self.input if self.step_input is None else self.step_input

    @property
    def size(self) -> int:
        """The bytes of the inputs that this claim keeps in memory, as the database counts them."""
        return _bytes(self.input) + (0 if self.step_input is None else _bytes(self.step_input))

    @property
    def order(self) -> tuple[float, str]:
        return self.sort_key, self.id


def _bytes(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode())
