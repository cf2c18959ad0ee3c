"""Builders for the tests of the store: runs, claims, records, and reads of the tables themselves."""

from __future__ import annotations

import itertools
import re
import uuid
from collections.abc import Callable, Mapping
from typing import Any

from redrive.model.claim import Claim
from redrive.model.dead_letter import DeadLetter
from redrive.model.decision import Reason
from redrive.model.fact import fact
from redrive.model.failure import Category, ErrorClass
from redrive.model.run import NewRun, Place, RunEvent, RunState, new_event
from redrive.model.step import AttemptOutcome, AttemptRecord, FinishedStep, StepState
from redrive.store.database import Session
from redrive.store.leases import Holder
from redrive.store.migration import migrations
from redrive.store.record import (
    Advanced,
    Change,
    Completed,
    NewDeadLetter,
    Parked,
    Record,
    Recorded,
    Rescheduled,
    Stopped,
)
from redrive.store.runs import DefinitionRow
from redrive.store.statement import Statement, _postgres, _sqlite
from redrive.store.store import Store

ORG = "default"
EXPIRED = -1.0
"""The length of a lease that expires at once."""

DEFINITION = DefinitionRow("digest", "greet", "{}")
TABLES = tuple(
    re.findall(r"CREATE TABLE (\w+)", ";\n".join(text for each in migrations() for text in each.for_sqlite()))
)

_INPUTS = Statement(
    _sqlite("test", "SELECT 1 WHERE 1 = 0"), _postgres("test", "SELECT * FROM redrive.run_inputs")
)

_tokens = itertools.count(1)


def adhoc(text: str) -> Statement:
    """Build a statement of the test, in the same notation as the store's."""
    return Statement(_sqlite("test", text), _postgres("test", text))


async def ask(session: Session, text: str, **parameters: Any) -> list[tuple[Any, ...]]:
    return [tuple(row) for row in await session.fetch(adhoc(text), parameters)]


async def value(session: Session, text: str, **parameters: Any) -> Any:
    [[found]] = await ask(session, text, **parameters)
    return found


async def column(session: Session, run_id: str, *names: str) -> Any:
    """Read columns of a run, including columns that no statement of the store reads."""
    [found] = await ask(session, f"SELECT {', '.join(names)} FROM redrive.runs WHERE id = :id", id=run_id)
    return found if len(names) > 1 else found[0]


async def tables(session: Session) -> dict[str, list[str]]:
    """Return everything stored.

    On PostgreSQL, `runs` is a view that shows the work of all runs, but no input without work, so this also
    reads the inputs.
    """
    found = {table: await ask(session, f"SELECT * FROM redrive.{table}") for table in TABLES}
    found["run_inputs"] = [tuple(row) for row in await session.fetch(_INPUTS, {})]
    return {table: sorted(map(repr, rows)) for table, rows in found.items()}


async def submit_at(session: Session, moment: float, *ids: str) -> None:
    """Change when runs were submitted, and so their place in the order of ready work."""
    text = """UPDATE redrive.runs SET submitted_at = CAST(:moment AS double precision),
        sort_key = CAST(:moment AS double precision) - 3600.0 * priority WHERE id = :id"""
    for run_id in ids:
        await ask(session, text, moment=moment, id=run_id)


# Runs


def new_run(**changes: Any) -> NewRun:
    identifier = uuid.uuid4().hex
    run = NewRun(
        id=identifier,
        org=ORG,
        workflow="greet",
        definition=DEFINITION.digest,
        queue="default",
        priority=0,
        delay=0.0,
        at=None,
        input='{"name":"Ada"}',
        idempotency_key=None,
        request_hash=None,
        correlation_id=identifier,
        tags=None,
        metadata=None,
    )
    return run.replace(**changes)


async def enqueued(store: Store, number: int = 1, **changes: Any) -> list[str]:
    return await store.runs.enqueue([new_run(**changes) for _ in range(number)], [DEFINITION])


def holder(ttl: float = 60.0, worker: str = "worker 1", code_version: str = "v1") -> Holder:
    return Holder(token=next(_tokens), worker=worker, code_version=code_version, ttl=ttl)


async def claimed(store: Store, ttl: float = 60.0, **changes: Any) -> Claim:
    """Enqueue the only run of its queue and claim it."""
    [run_id] = await enqueued(store, **changes)
    [claim] = await store.leases.claim(changes.get("queue", "default"), 10, holder(ttl))
    assert claim.id == run_id
    return claim


async def steps_of(store: Store, run_id: str) -> list[FinishedStep]:
    return await store.runs.steps(run_id, ORG)


async def attempts_of(store: Store, run_id: str) -> list[AttemptRecord]:
    return await store.runs.attempts(run_id, ORG)


async def events_of(store: Store, run_id: str) -> list[RunEvent]:
    return await store.runs.events(run_id, ORG)


async def dead_letters_of(store: Store, run_id: str) -> list[DeadLetter]:
    return await store.dead_letters.of_run(run_id, ORG)


# Records


def completed(claim: Claim, **changes: Any) -> Completed:
    return Completed(id=claim.id, token=claim.token, epoch=claim.epoch, result='"done"').replace(**changes)


def advanced(claim: Claim, **changes: Any) -> Advanced:
    change = Advanced(
        id=claim.id,
        token=claim.token,
        epoch=claim.epoch,
        step_input='"so far"',
        queue=claim.queue,
        in_place=False,
        ttl=60.0,
    )
    return change.replace(**changes)


def advanced_in_place(claim: Claim, **changes: Any) -> Advanced:
    return advanced(claim, in_place=True).replace(**changes)


def rescheduled(claim: Claim, **changes: Any) -> Rescheduled:
    change = Rescheduled(
        claim.id,
        claim.token,
        claim.epoch,
        place=Place.WAITING,
        step_state=StepState.RETRYING,
        delay=60.0,
        failures=claim.failures + 1,
        rate_limit_waits=claim.rate_limit_waits,
        holds=claim.holds,
        losses=claim.losses,
        isolated_crashes=claim.isolated_crashes,
        isolation=claim.isolation,
        previous_delay=60.0,
        error_class=ErrorClass.RETRYABLE,
        failed=True,
    )
    return change.replace(**changes)


def stopped(claim: Claim, **changes: Any) -> Stopped:
    change = Stopped(
        id=claim.id,
        token=claim.token,
        epoch=claim.epoch,
        state=RunState.DLQ_PENDING,
        step_state=StepState.DLQ,
        failures=claim.failures + 1,
        error_class=ErrorClass.FINAL,
        failed=True,
    )
    return change.replace(**changes)


def parked(claim: Claim, **changes: Any) -> Parked:
    change = Parked(
        id=claim.id,
        token=claim.token,
        epoch=claim.epoch,
        held_by="breaker:mail",
        step_state=StepState.PENDING,
        holds=claim.holds,
    )
    return change.replace(**changes)


KINDS: dict[str, Callable[..., Change]] = {
    "completed": completed,
    "advanced": advanced,
    "advanced in place": advanced_in_place,
    "rescheduled": rescheduled,
    "stopped": stopped,
    "parked": parked,
}


def attempt_row(claim: Claim, **changes: Any) -> AttemptRecord:
    row = AttemptRecord(
        run_id=claim.id,
        step_index=claim.step_index,
        number=claim.attempt,
        outcome=AttemptOutcome.FAILED,
        worker=claim.worker,
        code_version=claim.code_version,
        started_at=claim.attempt_started_at,
        delay=60.0,
        category=Category.TIMEOUT,
        error_class=ErrorClass.RETRYABLE,
        error_type="TimeoutError",
        message="no answer",
        stack="Traceback",
        http_status=504,
        public_code="timeout",
        public_message="It took too long.",
        reason=Reason.BACKOFF,
        decision='{"code":"backoff","failures":1,"max_attempts":4,"seconds":60.0}',  # type: ignore[arg-type]
    )
    return row.replace(**changes)


def step_row(claim: Claim, **changes: Any) -> FinishedStep:
    row = FinishedStep(
        run_id=claim.id,
        step_index=claim.step_index,
        name="first",
        task="greet",
        state=StepState.SUCCESS,
        output='"so far"',
        attempts=claim.attempt,
        worker=claim.worker,
        code_version=claim.code_version,
        started_at=claim.attempt_started_at,
    )
    return row.replace(**changes)


def event_row(claim: Claim, **changes: Any) -> RunEvent:
    detail = fact("held", holder="breaker:bank")
    return new_event(uuid.uuid4().hex, claim.id, "held", claim.step_index, detail).replace(**changes)


def dead_letter_row(claim: Claim, **changes: Any) -> NewDeadLetter:
    row = NewDeadLetter(
        id=uuid.uuid4().hex,
        org=claim.org,
        run_id=claim.id,
        workflow=claim.workflow,
        step="first",
        task="greet",
        category=Category.VALIDATION,
        error_class=ErrorClass.FINAL,
        error_type="ValueError",
        message="no such name",
        stack="Traceback",
        http_status=None,
        public_code="invalid",
        public_message="The input is not valid.",
        reason=Reason.FINAL_ERROR,
        fingerprint="f" * 16,
        fingerprint_reason="type and place",
        title="ValueError in greet",
        pattern="ValueError in greet",
        payload="{}",
        config="{}",
        policy="{}",
        settings="digest",
        idempotency_key=f"{claim.id}:0",
        correlation_id=claim.correlation_id,
        tags=claim.tags,
        metadata=claim.metadata,
    )
    return row.replace(**changes)


def full(change: Change, claim: Claim) -> Record:
    """Return a record with every part that a record can have."""
    beside = (attempt_row(claim), step_row(claim), dead_letter_row(claim), event_row(claim))
    return Record(change, *beside, limited=True)


async def buried(store: Store, claim: Claim) -> str:
    """End the run with a dead letter."""
    letter = dead_letter_row(claim)
    assert await store.records.record([Record(stopped(claim), attempt_row(claim), dead_letter=letter)])
    return letter.id


def places(recorded: Mapping[str, Recorded]) -> dict[str, str]:
    """Return the new places of the recorded runs."""
    return {run_id: each.place for run_id, each in recorded.items()}
