"""Tampering with a healthy history by hand, in a transaction that is never committed."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any, NamedTuple

from tests.store.build import ask
from tests.verify.history import History

from redrive.parts import parts_of
from redrive.store.database import Session


class Change(NamedTuple):
    """`text` is SQL about the run of that name, `:id`; what is found is about `subject`, or that run.

    `only` names the one database on which such rows can exist.
    """

    invariants: str
    run: str
    text: str
    says: str
    subject: str = ""
    only: str = ""


class _RolledBackError(Exception):
    pass


@asynccontextmanager
async def tampering(history: History) -> AsyncIterator[Session]:
    try:
        async with parts_of(history.app).database.transaction() as session:
            yield session
            raise _RolledBackError
    except _RolledBackError:
        pass


async def definition_of(session: Session, run_id: str) -> str:
    [[digest]] = await ask(session, "SELECT definition FROM redrive.runs WHERE id = :id", id=run_id)
    return str(digest)


async def redefine(session: Session, run_id: str, change: Callable[[dict[str, Any]], object]) -> None:
    """Change the stored retry policy of the first step of the run's definition."""
    digest = await definition_of(session, run_id)
    [[text]] = await ask(
        session, "SELECT body FROM redrive.definitions WHERE digest = :digest", digest=digest
    )
    body = json.loads(text)
    change(body["steps"][0]["retry"])
    update = "UPDATE redrive.definitions SET body = :body WHERE digest = :digest"
    await ask(session, update, body=json.dumps(body), digest=digest)


RUN = "UPDATE redrive.runs SET {} WHERE id = :id"
ATTEMPT = "UPDATE redrive.attempts SET {} WHERE run_id = :id AND number = {}"
LETTER = "UPDATE redrive.dead_letters SET {} WHERE run_id = :id"
INSERT_ATTEMPT = """
    INSERT INTO redrive.attempts (run_id, step_index, number, outcome, ended_at, delay, reason, explanation)
    VALUES (:id, {}, {}, 'failed', 0.0, 0.0, 'lease_lost', '')
"""
INSERT_STEP = """
    INSERT INTO redrive.steps (run_id, step_index, name, task, state, attempts)
    VALUES (:id, {}, 'step', 'task', 'SUCCESS', 1)
"""
_WORK = """
    sort_key, submitted_at, epoch, attempt, step_index, priority, failures, rate_limit_waits, holds, losses,
    isolated_crashes, isolation, replays, redrives, step_only, has_letter, id, org, workflow, queue,
    state, step_state
"""
INSERT_WAITING = f"""
    INSERT INTO redrive.idle (place, due_at, {_WORK})
    SELECT 'waiting', 9e9, {_WORK} FROM redrive.ready WHERE id = :id
"""
LOST_IN_TIME = "attempt_started_at = 1"

CHANGES = [
    # The budget
    Change("I3", "fading", RUN.format("rate_limit_waits = 5"), "It counts 1 failures and 5 rate-limit waits"),
    Change("I3", "deferred", RUN.format("failures = 2"), "It counts 2 failures"),
    Change("I3", "dead", ATTEMPT.format("reason = 'lease_lost'", 1), "with 2 of 3 attempts used"),
    # One holder, one outcome
    Change(
        "I4",
        "flaky",
        "DELETE FROM redrive.attempts WHERE run_id = :id AND number = 1",
        "1 attempts of step 1",
    ),
    Change("I4", "flaky", "DELETE FROM redrive.attempts WHERE run_id = :id AND number = 2", "has no record"),
    Change(
        "I4",
        "workflow",
        "DELETE FROM redrive.attempts WHERE run_id = :id AND step_index = 1 AND number = 2",
        "2",
    ),
    Change("I3 I4", "fading", "DELETE FROM redrive.attempts WHERE run_id = :id", "has no record"),
    Change("I4", "single", INSERT_ATTEMPT.format(0, 1), "Attempt 1 of step 1 has the outcome 'failed'"),
    Change("I4", "workflow", INSERT_ATTEMPT.format(0, 1), "Attempt 1 of step 1 has the outcome 'failed'"),
    Change("I4", "leased", INSERT_ATTEMPT.format(0, 1), "is running"),
    Change("I4", "midway", INSERT_ATTEMPT.format(2, 1), "never happened"),
    Change(
        "I4",
        "workflow",
        RUN.format("epoch = 3"),
        "Its epoch counts 3 claims, but its history shows at least 6",
    ),
    Change("I4", "flaky", RUN.format("epoch = 1"), "shows at least 3"),
    # The order of a key
    Change("I4", "second", RUN.format("held_by = NULL, due_at = 9e9"), "with the same order key comes first"),
    Change("I6", "second", "DELETE FROM redrive.run_order WHERE run_id = :id", "its place is 'waiting'"),
    Change("I10", "second", RUN.format("held_by = 'nobody'"), "only a run on hold has a holder"),
    # Waits
    Change("I5", "flaky", ATTEMPT.format("started_at = started_at - 1000", 2), "the next attempt is -"),
    Change("I5", "flaky", RUN.format("attempt_started_at = attempt_started_at - 1000"), "After attempt 2"),
    Change(
        "I5",
        "workflow",
        "UPDATE redrive.steps SET started_at = started_at - 1000 WHERE run_id = :id AND step_index = 1",
        "After attempt 2 of step 2",
    ),
    Change("I5", "fading", RUN.format("due_at = due_at - 100"), "it had to wait "),
    Change(
        "I5",
        "fading",
        ATTEMPT.format("delay = 1700.0", 1),
        "the wait was 1700 s; the policy allows 1800 to 3600",
    ),
    Change("I5", "fading", ATTEMPT.format("delay = 3700.0", 1), "the wait was 3700 s"),
    # Nothing is stuck
    Change("I6", "leased", RUN.format("leased_until = 1"), "no worker has taken it over"),
    Change("I6", "future", RUN.format("due_at = 1"), "no worker has made it ready"),
    Change(
        "I6",
        "limited",
        RUN.format(f"held_by = 'limit:' || 'nobody', {LOST_IN_TIME}"),
        "It holds 1 run, but it doesn't exist",
        "limit:nobody",
    ),
    Change(
        "I6",
        "broken",
        RUN.format(f"held_by = 'breaker:' || 'nobody', {LOST_IN_TIME}"),
        "doesn't exist",
        "breaker:nobody",
    ),
    # Dead letters
    Change("I7", "dead", "DELETE FROM redrive.dead_letters WHERE run_id = :id", "has no dead letter"),
    Change(
        "I7 I14",
        "dead",
        LETTER.format("step_index = 1, state = 'RESOLVED'"),
        "has no dead letter for that step",
    ),
    Change("I7", "dead", LETTER.format("attempts = 9"), "has 9 attempts and 3 failures, but the run 3 and 3"),
    Change("I7", "dead", LETTER.format("workflow = 'other'"), "or different work"),
    Change(
        "I7",
        "dead",
        LETTER.format("state = 'REPLAYING', next_redrive_at = NULL"),
        "is still in progress, but the run has finished as DLQ_PENDING",
    ),
    Change(
        "I8 I14",
        "dead",
        LETTER.format("org = 'other'"),
        "belongs to the organization 'other', but the run belongs to 'default'",
    ),
    # States
    Change("I10", "leased", RUN.format("state = 'PENDING'"), "contradict each other", only="sqlite"),
    Change("I10", "leased", RUN.format("step_state = 'RETRYING'"), "contradict each other", only="sqlite"),
    Change("I10", "single", RUN.format("step_state = 'DLQ'"), "contradict each other"),
    Change("I10", "ready", RUN.format("step_state = 'RUNNING'"), "contradict each other"),
    Change(
        "I10",
        "future",
        RUN.format("place = 'nowhere', due_at = NULL"),
        "contradict each other",
        only="sqlite",
    ),
    Change("I10", "future", RUN.format("step_state = 'RUNNING'"), "contradict each other"),
    Change("I10", "limited", RUN.format("state = 'SUCCESS'"), "contradict each other"),
    Change("I10", "future", RUN.format("step_state = 'RETRYING'"), "whether it was started"),
    Change("I10", "future", RUN.format("state = 'RUNNING'"), "whether it was started"),
    Change("I10", "single", RUN.format("token = NULL"), "a claimed run has a token"),
    Change("I10", "single", RUN.format("worker = NULL"), "a claimed run has a token"),
    Change("I10", "future", RUN.format("started_at = 1"), "whether it was started"),
    Change("I10", "single", RUN.format("leased_until = 1"), "only a leased run", only="sqlite"),
    Change("I10", "leased", RUN.format("leased_until = NULL"), "only a leased run", only="sqlite"),
    Change("I10", "leased", RUN.format("attempt_started_at = NULL"), "only a leased run"),
    Change("I10", "ready", RUN.format("due_at = 1"), "only a waiting run", only="sqlite"),
    Change("I10", "future", RUN.format("due_at = NULL"), "only a waiting run"),
    Change("I10", "ready", RUN.format("held_by = 'limit:' || 'x'"), "only a run on hold", only="sqlite"),
    Change("I10", "limited", RUN.format("held_by = NULL"), "only a run on hold"),
    Change("I10", "single", RUN.format("ended_at = NULL"), "only a finished run", only="sqlite"),
    Change("I10", "ready", RUN.format("ended_at = 1"), "only a finished run", only="sqlite"),
    Change("I10", "single", RUN.format("result = NULL"), "a result if and only if it succeeded"),
    Change("I10", "ready", RUN.format("result = '1'"), "a result if and only if it succeeded", only="sqlite"),
    Change(
        "I10",
        "single",
        RUN.format("slots = '[]'"),
        "slots of limits although no worker executes it",
        only="sqlite",
    ),
    Change("I10", "ready", RUN.format("isolation = 2"), "marked for isolation"),
    Change("I10", "limited", RUN.format("isolation = 2"), "marked for isolation"),
    Change("I10", "ready", RUN.format("place = 'alone'"), "marked for isolation"),
    Change("I10", "single", RUN.format("failures = 1"), "its number of failures"),
    Change("I10", "dead", RUN.format("last_failed_at = NULL"), "its number of failures"),
    Change("I10", "limited", RUN.format("step_state = 'RETRYING'"), "whether it was started"),
    Change("I10", "single", RUN.format("idempotency_key = 'k'"), "without a request hash"),
    Change("I10", "single", RUN.format("holds = -1"), "below zero"),
    Change("I16", "ready", "DELETE FROM redrive.ready WHERE id = :id", "but is in 0", only="postgres"),
    Change(
        "I16",
        "ready",
        INSERT_WAITING,
        "but is in 2",
        only="postgres",
    ),
    Change(
        "I10 I16",
        "ready",
        "DELETE FROM redrive.run_inputs WHERE id = :id",
        "is stored 0 times",
        only="postgres",
    ),
    Change(
        "I10",
        "ready",
        RUN.format("policy_override = '[]'"),
        "Its policy override can't be read; 1 run has it",
    ),
    Change(
        "I10", "workflow", "DELETE FROM redrive.steps WHERE run_id = :id AND step_index = 0", "so 3 steps"
    ),
    Change(
        "I10", "workflow", "DELETE FROM redrive.steps WHERE run_id = :id AND step_index = 2", "so 3 steps"
    ),
    Change(
        "I10",
        "midway",
        INSERT_STEP.format(1),
        "Step 2 is stored as finished (SUCCESS), but the run is in step 2",
    ),
    Change("I10", "midway", INSERT_STEP.format(2), "Step 3 is stored as finished"),
    Change(
        "I10",
        "workflow",
        "UPDATE redrive.steps SET state = 'FAILED' WHERE run_id = :id AND step_index = 0",
        "Step 1 is stored as finished (FAILED)",
    ),
    Change(
        "I10",
        "flaky",
        ATTEMPT.format("delay = NULL", 2),
        "recorded as final, but the run continued",
    ),
    Change("I10", "final", ATTEMPT.format("delay = 1.0", 1), "recorded a retry after 1.000 s"),
    Change("I10", "single", RUN.format("workflow = 'other'"), "is missing, or belongs to another workflow"),
    Change("I10", "single", RUN.format("definition = 'other'"), "is missing, or belongs to another workflow"),
    Change("I10", "single", RUN.format("step_index = 1"), "in step 2, but its definition has 1 step"),
    Change(
        "I15",
        "leased",
        "UPDATE redrive.workers SET state = 'stopped' "
        "WHERE id IN (SELECT worker FROM redrive.runs WHERE id = :id)",
        "has stopped, but still holds the lease",
    ),
    # Sums
    Change(
        "I16", "dead", "DELETE FROM redrive.runs WHERE id = :id", "rows that belong to it do: attempt (3)"
    ),
    Change("I16", "workflow", "DELETE FROM redrive.runs WHERE id = :id", "finished step (3)"),
    Change("I16", "final", "DELETE FROM redrive.runs WHERE id = :id", "dead letter (1)"),
    Change(
        "I16", "leased", RUN.format("slots = NULL"), "counts 1 slots in use, but leased", "task:alone_at_work"
    ),
    Change(
        "I16", "leased", RUN.format("slots = '[\"x\"]'"), "leased runs recorded 1", "task:alone_at_work x"
    ),
    Change("I16", "leased", RUN.format("slots = 'nonsense'"), "leased runs recorded 0", "task:alone_at_work"),
    Change(
        "I16",
        "dead",
        "UPDATE redrive.tallies SET number = number + 1 WHERE figure = 'standing' AND subject = 'OPEN' "
        "AND org IN (SELECT org FROM redrive.runs WHERE id = :id)",
        "live dead letters as OPEN, but there are",
        "default",
    ),
    Change(
        "I16",
        "dead",
        "UPDATE redrive.dead_letter_counts SET number = number + 1 WHERE fingerprint IN "
        "(SELECT fingerprint FROM redrive.dead_letters WHERE run_id = :id)",
        "has 2 dead letters as OPEN, but there are 1",
        "default",
    ),
]
