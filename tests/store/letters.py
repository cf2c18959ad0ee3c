"""Inserts dead letters directly, for the tests of lists and triage."""

from __future__ import annotations

import itertools
import uuid
from typing import Any

from tests.store.build import ORG, ask

from redrive.store.database import Database

_numbers = itertools.count(1)

RUN = """
    INSERT INTO redrive.runs (id, org, workflow, definition, queue, priority, state, place, submitted_at,
        step_index, step_state, input, attempt, epoch, failures, rate_limit_waits, holds, losses,
        isolated_crashes, isolation, ended_at, sort_key)
    VALUES (:id, :org, 'greet', 'digest', 'default', 0, :state, 'ended', 1.0,
        :step_index, 'DLQ', '{}', 1, 1, 1, 0, 0, 0, 0, 0, 2.0, 1.0)
"""


def letter(**changes: Any) -> dict[str, Any]:
    """Return all columns of a dead letter."""
    number = next(_numbers)
    columns = {
        "id": f"{number:08d}-{uuid.uuid4().hex[:8]}",
        "org": ORG,
        "run_id": uuid.uuid4().hex,
        "step_index": 0,
        "step": "first",
        "task": "greet",
        "workflow": "greet",
        "queue": "default",
        "state": "OPEN",
        "category": "timeout",
        "error_class": "retryable",
        "error_type": "TimeoutError",
        "message": "no answer",
        "http_status": None,
        "public_code": "TIMEOUT",
        "reason": "exhausted",
        "fingerprint": "v1:" + "0" * 40,
        "fingerprint_reason": "type and place",
        "title": "TimeoutError in greet",
        "attempts": 4,
        "failures": 4,
        "first_failed_at": 1.0,
        "last_failed_at": 2.0,
        "payload": '{"canary":"payload"}',
        "settings": "digest",
        "idempotency_key": "key",
        "correlation_id": "correlation",
        "tags": None,
        "metadata": None,
        "created_at": 1_700_000_000.0 + number,
        "updated_at": 1_700_000_000.0 + number,
        "replay_count": 0,
        "last_replayed_at": None,
        "last_replayed_by": None,
        "replay_override": None,
        "resolved_by": None,
        "resolved_at": None,
        "resolution": None,
        "effect": "idempotent",
        "may_have_executed": 1,
        "breaker": None,
        "code_version": "v1",
        "priority": 0,
        "assignee": None,
        "template": None,
        "runbook": None,
        "redrive": "never",
        "redrive_policy": None,
        "redrives": 0,
        "max_redrives": 0,
        "next_redrive_at": None,
        "exhausted_at": None,
    }
    assert changes.keys() <= columns.keys()
    return columns | changes


async def put(database: Database, letters: list[dict[str, Any]]) -> list[str]:
    for each in letters:
        names = ", ".join(each)
        values = ", ".join(f":{name}" for name in each)
        await ask(database, f"INSERT INTO redrive.dead_letters ({names}) VALUES ({values})", **each)
    return [each["id"] for each in letters]


async def put_failed(database: Database, **changes: Any) -> str:
    """Insert a letter together with its failed run."""
    made = letter(**changes)
    run = {"id": made["run_id"], "org": made["org"], "state": "DLQ_PENDING", "step_index": made["step_index"]}
    await ask(database, RUN, **run)
    [identifier] = await put(database, [made])
    return identifier


_OF_ATTEMPT = ("stack", "public_message", "decision")
_OF_SETTINGS = ("config", "policy")


async def alter(database: Database, letter_id: str, **fields: Any) -> None:
    """Change fields of a letter in every table that has them."""
    for name, value in fields.items():
        await ask(database, _change_of(name), value=value, id=letter_id)


def _change_of(name: str) -> str:
    letter = "redrive.dead_letters AS letter WHERE letter.id = :id"
    if name in _OF_ATTEMPT:
        return f"""UPDATE redrive.attempts SET {name} = :value
            WHERE number = (SELECT letter.attempts FROM {letter})
                AND run_id = (SELECT letter.run_id FROM {letter})"""
    if name in _OF_SETTINGS:
        return f"""UPDATE redrive.dead_letter_settings SET {name} = :value
            WHERE digest = (SELECT letter.settings FROM {letter})"""
    return f"UPDATE redrive.dead_letters SET {name} = :value WHERE id = :id"


async def column_of(database: Database, letter_id: str, *names: str) -> Any:
    [found] = await ask(
        database, f"SELECT {', '.join(names)} FROM redrive.dead_letters WHERE id = :id", id=letter_id
    )
    return found if len(names) > 1 else found[0]
