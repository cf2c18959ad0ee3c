"""A bulk replay as a durable operation: its plan, its progress and its results."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from redrive.model.fact import SENTENCE, CountedFact, Fact, StoredFact, fact, from_json
from redrive.model.field import Instant, Json, JsonObject
from redrive.model.replay import Mode, OperationState, Replay, ReplayState
from redrive.model.row import Row

MAX_ITEMS = 100_000
"""The maximum number of dead letters in one operation."""


class ReplayOperation(Row, frozen=True, kw_only=True):
    """A stored operation. `selection`, `options` and `plan` are JSON.

    released         the number of items started so far
    released_at      when the last items started; with a rate, the time from which it grants further items
    ramped_at        when the canary passed
    stopped_because  why the operation stopped automatically
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
    stopped_because: StoredFact | None
    updated_at: Instant


class Plan(NamedTuple):
    """The frozen plan of a bulk replay. Starting it affects exactly these items, unless they change first.

    digest              identical for identical, unchanged dead letters with the same mode and retry policy
    selected            all selected dead letters: items that will run, skipped items and refused items
    steps               executions by step name, if every item succeeds
    results_reused      stored results of earlier steps that the replay reuses
    waits               items that can't run yet, by the breaker, queue or dead letter they wait for
    refused             items that can't run, by reason
    skipped             items left out because they may repeat an unsafe side effect
    may_repeat_effects  items that will run and may repeat an unsafe side effect
    repeat_under_key    items whose side effect may repeat, but is protected by their idempotency key
    breakers            the breakers on which the items depend
    """

    operation_id: str
    digest: str
    mode: str
    selected: int
    will_run: int
    steps: Mapping[str, int]
    results_reused: int
    waits: tuple[CountedFact, ...]
    refused: tuple[CountedFact, ...]
    skipped: int
    may_repeat_effects: int
    repeat_under_key: int
    breakers: tuple[str, ...]

    def to_json(self) -> dict[str, Any]:
        return {
            **self._asdict(),
            "waits": [_counted_to_json(counted) for counted in self.waits],
            "refused": [_counted_to_json(counted) for counted in self.refused],
            "breakers": list(self.breakers),
        }

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Plan:
        changed = {
            "waits": _counted_from_json(value["waits"]),
            "refused": _counted_from_json(value["refused"]),
            "breakers": tuple(value["breakers"]),
        }
        return cls(**{**value, **changed})


def _counted_to_json(counted: CountedFact) -> dict[str, Any]:
    return {"code": counted.fact.code, **counted.fact.fields, "items": counted.items}


def _counted_from_json(value: Any) -> tuple[CountedFact, ...]:
    """Read counted facts. An earlier version of Redrive stored a mapping from sentences to numbers."""
    if isinstance(value, Mapping):
        return tuple(CountedFact(fact(SENTENCE, text=text), items) for text, items in value.items())
    facts = [dict(stored) for stored in value]
    return tuple(CountedFact(items=stored.pop("items"), fact=from_json(stored)) for stored in facts)


class Drift(NamedTuple):
    """A planned item whose dead letter has changed since planning."""

    position: int
    letter_id: str
    change: Fact


class Drifting(NamedTuple):
    """The changes since planning: `number` items have changed, `changes` lists the first of them.

    `will_run` items are unchanged.
    """

    will_run: int
    number: int
    changes: tuple[Drift, ...]


class FailedAs(NamedTuple):
    """Items with one failure. `repeated` of them had the same failure before the replay."""

    fingerprint: str
    number: int
    repeated: int


class OperationReport(NamedTuple):
    """The results of an operation so far.

    items             the number of items in each state
    failures          the number of failed items by the fingerprint of their new failure
    notes             refused and skipped items by reason
    first_started_at  when the first item started
    last_ended_at     when the last started item finished
    """

    operation: ReplayOperation
    plan: Plan
    items: Mapping[str, int]
    failures: Mapping[str, int]
    notes: tuple[CountedFact, ...]
    first_started_at: Instant | None
    last_ended_at: Instant | None

    @property
    def failure_rate(self) -> float | None:
        """The share of failures among succeeded and failed items; None if no item has finished."""
        failed = self.items[ReplayState.FAILED]
        judged = failed + self.items[ReplayState.SUCCEEDED]
        return failed / judged if judged else None

    @property
    def seconds(self) -> float | None:
        """The seconds from the first start to the last end."""
        if self.first_started_at is None or self.last_ended_at is None:
            return None
        return max(0.0, self.last_ended_at - self.first_started_at)


class ItemPage(NamedTuple):
    """Items in the order in which they start; `next_cursor` is None on the last page."""

    items: tuple[Replay, ...]
    next_cursor: str | None


class OperationPage(NamedTuple):
    """Operations, newest first; `next_cursor` is None on the last page."""

    operations: tuple[ReplayOperation, ...]
    next_cursor: str | None
