"""Inserts dead letters and replays directly, for tests that need no run to fail."""

from __future__ import annotations

import uuid
from typing import Any

from tests.store.build import ask

from redrive.store.database import Database

_LETTER = {
    "org": "acme",
    "step_index": 0,
    "step": "charge",
    "task": "charge",
    "workflow": "checkout",
    "queue": "default",
    "state": "OPEN",
    "category": "timeout",
    "error_class": "retryable",
    "error_type": "TimeoutError",
    "message": "no answer",
    "public_code": "TIMEOUT",
    "reason": "attempts_spent",
    "fingerprint": "f1",
    "fingerprint_reason": "type and place",
    "title": "no answer",
    "attempts": 4,
    "failures": 4,
    "payload": "{}",
    "idempotency_key": "",
    "correlation_id": "",
    "replay_count": 0,
}
_REPLAY = {
    "org": "acme",
    "position": 0,
    "letter_id": "letter",
    "run_id": "run",
    "step_index": 0,
    "from_step": 0,
    "mode": "FROM_STEP",
    "state": "SUCCEEDED",
    "automatic": 0,
    "requested_by": "ana",
    "requested_at": 1.0,
    "reason": "",
    "fingerprint": "f1",
    "letter_updated_at": 1.0,
    "effect": "none",
}


async def letters(database: Database, number: int = 1, age: float = 0.0, **changes: Any) -> list[str]:
    """Insert dead letters of one failure, `age` seconds old, and return their ids."""
    ids = [f"letter {uuid.uuid4().hex}" for _ in range(number)]
    for each in ids:
        row = {**_LETTER, "id": each, "run_id": each, **changes}
        moment = ":now - :age" if age else ":now"
        moments = {"created_at": moment, "updated_at": moment}
        await _insert(database, "dead_letters", row, moments, {"age": age} if age else {})
    return ids


async def replay(database: Database, **changes: Any) -> None:
    await _insert(database, "replays", {**_REPLAY, "id": uuid.uuid4().hex, **changes}, {}, {})


async def _insert(
    database: Database, table: str, row: dict[str, Any], computed: dict[str, str], more: dict[str, Any]
) -> None:
    names = ", ".join([*row, *computed])
    values = ", ".join([*(f":{name}" for name in row), *computed.values()])
    await ask(database, f"INSERT INTO redrive.{table} ({names}) VALUES ({values})", **row, **more)
