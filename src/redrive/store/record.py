"""A record: a change of a run that a worker has brought about, and everything that is written beside it."""

from __future__ import annotations

from typing import NamedTuple

from redrive.model.claim import Isolation
from redrive.model.dead_letter import DeadLetter
from redrive.model.failure import ErrorClass
from redrive.model.failure_group import GroupChange, Occurrence
from redrive.model.field import BigInt, JsonList, RunId
from redrive.model.row import Row
from redrive.model.run import Place, RunEvent, RunState
from redrive.model.step import AttemptRecord, FinishedStep, StepState
from redrive.store.replays import Resolved, Settled, Settlement


class NewDeadLetter(DeadLetter, frozen=True, kw_only=True):
    """A dead letter to be stored: its JSON fields hold the texts that are stored.

    settings       the digest of config and policy, which are stored once for all letters that share them
    redrive_delay  the time until it is redriven automatically
    """

    settings: str

    tags: JsonList | None = None  # type: ignore[assignment]  # the column stays empty without tags
    redrive_delay: float | None = None

    @property
    def occurrence(self) -> Occurrence:
        """What it adds to the group of its failure."""
        return Occurrence(
            org=self.org,
            fingerprint=self.fingerprint,
            title=self.title,
            reason=self.fingerprint_reason,
            workflow=self.workflow,
            step=self.step,
            task=self.task,
            category=self.category,
            error_type=self.error_type,
            sample=self.id,
            code_version=self.code_version,
        )


class Fenced(Row, frozen=True):
    """A write of a claim: it counts only while the run still carries the token and the epoch of the claim."""

    id: RunId
    token: BigInt
    epoch: int


class Completed(Fenced, frozen=True):
    """The last step has succeeded, and with it the run. A run of one step has no row for it."""

    result: str

    @property
    def output(self) -> str:
        """What the step has given."""
        return self.result


class CompletedPartly(Fenced, frozen=True):
    """A step that was replayed alone has succeeded; those after it have not been executed."""


class Advanced(Fenced, frozen=True):
    """A step has succeeded. `in_place` when the next one is to start under the same lease: it does so,
    unless somebody has asked to cancel the run."""

    step_input: str
    queue: str
    in_place: bool
    ttl: float

    @property
    def output(self) -> str:
        """What the step has given."""
        return self.step_input


class Rescheduled(Fenced, frozen=True):
    """The step will be executed again.

    failed      the attempt was counted as a failure
    given_back  there was no attempt at all, and its number is free again
    """

    place: Place
    step_state: StepState
    delay: float
    failures: int
    rate_limit_waits: int
    holds: int
    losses: int
    isolated_crashes: int
    isolation: Isolation
    previous_delay: float | None
    error_class: ErrorClass | None
    failed: bool
    given_back: bool = False


class Stopped(Fenced, frozen=True):
    """The run has ended without success."""

    state: RunState
    step_state: StepState
    failures: int
    error_class: ErrorClass | None
    failed: bool


class Parked(Fenced, frozen=True):
    """Held by a breaker or a full limit: the attempt never was."""

    held_by: str
    step_state: StepState
    holds: int


class Occupied(Fenced, frozen=True):
    """The slots of limits that a claim has taken, as JSON."""

    slots: str | None


class Progress(Fenced, frozen=True):
    """How far a task says that it is, as JSON."""

    progress: str


Change = Completed | CompletedPartly | Advanced | Rescheduled | Stopped | Parked

UNBURIED = "unburied"
"""The kind of event that keeps the evidence of a failed run without a dead letter."""


class Record(NamedTuple):
    """A change of a run, and what is written beside it: all of it, or nothing when the lease was lost.

    limited     the run may have taken slots of limits: those that it has taken are freed
    settlement  what it means for the replay that the run is in
    """

    change: Change
    attempt: AttemptRecord | None = None
    step: FinishedStep | None = None
    dead_letter: NewDeadLetter | None = None
    event: RunEvent | None = None
    settlement: Settlement | None = None
    limited: bool = False


class Recorded(NamedTuple):
    """What a record has changed. A record whose lease was lost has none: it changed nothing.

    place         where the run is now
    letter_id     the dead letter of the failed step: a new one, or the live one that the step already had
    rejected      the run failed without a dead letter, because its organization has as many as it may have
    replays       the replay that ended with the record, or the dead letter that its replay leaves resolved
    group_change  the failure group that its dead letter opened again
    """

    place: str
    letter_id: str | None = None
    rejected: bool = False
    replays: tuple[Settled | Resolved, ...] = ()
    group_change: GroupChange | None = None
