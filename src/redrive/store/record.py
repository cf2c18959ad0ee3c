"""Records: the change of a run that a worker reports, and everything that is written with it."""

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
from redrive.store.replays import LetterChange, Settled, Settlement


class NewDeadLetter(DeadLetter, frozen=True, kw_only=True):
    """A dead letter to store; its JSON fields contain the stored text.

    settings       the digest of config and policy, stored once for all dead letters that share them
    pattern        the message without its variable parts, for the failure group
    redrive_delay  seconds until its automatic redrive
    """

    settings: str
    pattern: str

    fingerprint_reason: str  # type: ignore[assignment]
    tags: JsonList | None = None  # type: ignore[assignment]  # the column stays empty without tags
    redrive_delay: float | None = None

    @property
    def occurrence(self) -> Occurrence:
        """The occurrence to count in its failure group."""
        return Occurrence(
            org=self.org,
            fingerprint=self.fingerprint,
            title=self.title,
            pattern=self.pattern,
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
    """A fenced write: it takes effect only while the run has the token and the epoch of the claim."""

    id: RunId
    token: BigInt
    epoch: int


class Completed(Fenced, frozen=True):
    """The last step, and therefore the run, has succeeded. A run of one step has no row in `steps`."""

    result: str

    @property
    def output(self) -> str:
        """The result of the step."""
        return self.result


class CompletedPartly(Fenced, frozen=True):
    """A step-only replay has succeeded; the later steps have not been executed."""


class Advanced(Fenced, frozen=True):
    """A step has succeeded. With `in_place`, the next step starts under the same lease, unless cancellation
    of the run was requested."""

    step_input: str
    queue: str
    in_place: bool
    ttl: float

    @property
    def output(self) -> str:
        """The result of the step."""
        return self.step_input


class AdvancedStep(Fenced, frozen=True):
    """Advanced in place, plus the columns for the row of the finished step."""

    step_input: str
    queue: str
    ttl: float
    name: str
    task: str
    attempts: int
    started_at: float | None


class CompletedStep(Fenced, frozen=True):
    """Completed, plus the columns for the row of the last step."""

    result: str
    name: str
    task: str


class Rescheduled(Fenced, frozen=True):
    """The step will be executed again.

    failed      the attempt counted as a failure
    given_back  the attempt did not start, and its number is free again
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
    """A breaker or a full limit holds the run; the attempt did not start."""

    held_by: str
    step_state: StepState
    holds: int


class Occupied(Fenced, frozen=True):
    """The slots of concurrency limits that a claim has taken, as JSON."""

    slots: str | None


class Progress(Fenced, frozen=True):
    """The progress that a task reported, as JSON."""

    progress: str


Change = Completed | CompletedPartly | Advanced | Rescheduled | Stopped | Parked

REJECTION_EVENT = "unburied"
"""The kind of event that stores the facts of a failed run without a dead letter."""


class Record(NamedTuple):
    """A change of a run and the rows written with it: all of them, or none if the lease was lost.

    limited     the run may have taken slots of limits, which are freed
    settlement  the consequence for the current replay of the run
    """

    change: Change
    attempt: AttemptRecord | None = None
    step: FinishedStep | None = None
    dead_letter: NewDeadLetter | None = None
    event: RunEvent | None = None
    settlement: Settlement | None = None
    limited: bool = False


class Recorded(NamedTuple):
    """The effect of a record. A record whose lease was lost changed nothing and has no Recorded.

    place         the place of the run now
    letter_id     the dead letter of the failed step: a new one, or the live one that the step already had
    replays       the replay that ended with the record, or the dead letter that the replay has resolved
    group_change  the failure group that the dead letter reopened
    """

    place: str
    letter_id: str | None = None
    replays: tuple[Settled | LetterChange, ...] = ()
    group_change: GroupChange | None = None
