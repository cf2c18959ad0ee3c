"""A bulk replay as a durable operation: what was planned, how far it is, and what came of it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from redrive.model.field import Instant, Json, JsonObject
from redrive.model.replay import Mode, OperationState, Replay, ReplayState
from redrive.model.row import Row

MAX_ITEMS = 100_000
"""Dead letters in one operation."""

UNDER_WAY_NOTE = ("it is an item of the replay ", " that is under way")
"""The note of an item that another replay has taken, before and after the id of that replay."""


class ReplayOperation(Row, frozen=True, kw_only=True):
    """An operation as it is remembered. `selection`, `options` and `plan` are JSON.

    released         items that were begun so far
    released_at      when the last were; with a rate, until when it is used up
    ramped_at        since when more than the canary is replayed
    stopped_because  why it has stopped itself
    """

    id: str
    org: str
    state: OperationState
    mode: Mode
    selection: JsonObject
    options: JsonObject
    policy_override: Json
    reason: str
    plan: JsonObject
    planned_by: str
    planned_at: Instant
    started_by: str | None
    started_at: Instant | None
    released: int
    released_at: Instant | None
    ramped_at: Instant | None
    ended_at: Instant | None
    stopped_because: str | None
    updated_at: Instant


class Plan(NamedTuple):
    """What a bulk replay will do, frozen: the numbers shown are the numbers affected.

    digest              equal for equal dead letters, unchanged, replayed in the same way
    selected            dead letters in all: those that will run, that are skipped and that are refused
    steps               executions by the name of the step, if all goes well
    results_reused      results of earlier steps that are taken as they are stored
    waits               items that cannot run at once, by what they wait for: "breaker bank", "queue mail",
                        "dead letter 0123…"
    refused             items that cannot run at all, by why
    skipped             items that were left out because they might repeat an unsafe effect
    may_repeat_effects  items that will run and might repeat an unsafe effect
    repeat_under_key    items that might repeat an effect which their idempotency key makes harmless
    breakers            the breakers that its items depend on
    """

    operation_id: str
    digest: str
    mode: str
    selected: int
    will_run: int
    steps: Mapping[str, int]
    results_reused: int
    waits: Mapping[str, int]
    refused: Mapping[str, int]
    skipped: int
    may_repeat_effects: int
    repeat_under_key: int
    breakers: tuple[str, ...]

    def __str__(self) -> str:
        """For a person: what will happen, in a line for each thing to know."""
        lines = [f"{self.will_run:,} of {self.selected:,} dead letters will be replayed ({self.mode})."]
        lines += [f"{number:,} executions of {step!r}" for step, number in self.steps.items()]
        lines += [f"{number:,} wait for {what}" for what, number in self.waits.items()]
        lines += [f"{number:,} are refused: {why}" for why, number in self.refused.items()]
        for number, what in (
            (self.results_reused, "results of earlier steps are reused"),
            (self.may_repeat_effects, "may repeat an effect that must not happen twice"),
            (self.skipped, "are left out because they might repeat such an effect"),
            (self.repeat_under_key, "may repeat an effect under its idempotency key"),
        ):
            lines += [f"{number:,} {what}"] if number else []
        return "\n  ".join(lines)

    def to_json(self) -> dict[str, Any]:
        return {**self._asdict(), "breakers": list(self.breakers)}

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Plan:
        return cls(**{**value, "breakers": tuple(value["breakers"])})


class Drift(NamedTuple):
    """A member of a plan that is not what it was when it was planned."""

    position: int
    letter_id: str
    change: str


class Drifting(NamedTuple):
    """What has changed since a plan was made: `number` of its members, of which `changes` are the first.
    `will_run` are the others."""

    will_run: int
    number: int
    changes: tuple[Drift, ...]


class FailedAs(NamedTuple):
    """Items that failed in one way. `repeated`: of these, those that had failed just so before."""

    fingerprint: str
    number: int
    repeated: int


class OperationReport(NamedTuple):
    """What came of an operation so far.

    items             how many are in each state
    failures          failed items by the fingerprint that they failed with
    notes             refused and skipped items by why
    first_started_at  when its first item was begun
    last_ended_at     when its last item ended, of those that were begun
    """

    operation: ReplayOperation
    plan: Plan
    items: Mapping[str, int]
    failures: Mapping[str, int]
    notes: Mapping[str, int]
    first_started_at: Instant | None
    last_ended_at: Instant | None

    def __str__(self) -> str:
        """For a person: how far it is."""
        state = f"Operation {self.operation.id} is {self.operation.state}"
        because = f": {self.operation.stopped_because}" if self.operation.stopped_because else ""
        counts = ", ".join(f"{number:,} {state.lower()}" for state, number in self.items.items() if number)
        return f"{state}{because}. {counts or 'It has no items'}."

    @property
    def failure_rate(self) -> float | None:
        """The part of those that succeeded or failed; None while there are none."""
        failed = self.items[ReplayState.FAILED]
        judged = failed + self.items[ReplayState.SUCCEEDED]
        return failed / judged if judged else None

    @property
    def seconds(self) -> float | None:
        """From the first beginning to the last end."""
        if self.first_started_at is None or self.last_ended_at is None:
            return None
        return max(0.0, self.last_ended_at - self.first_started_at)


class ItemPage(NamedTuple):
    """Items in the order in which they are begun; `next_cursor` is None after the last of them."""

    items: tuple[Replay, ...]
    next_cursor: str | None


class OperationPage(NamedTuple):
    """Operations, the newest first."""

    operations: tuple[ReplayOperation, ...]
    next_cursor: str | None
