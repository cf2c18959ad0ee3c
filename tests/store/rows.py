"""Inserts runs directly, for the tests of lists."""

from __future__ import annotations

import itertools
import uuid
from typing import Any

from tests.store.build import ORG, ask

from redrive.store.database import Database
from redrive.store.postgres import PostgresDatabase

_numbers = itertools.count(1)

ENDED = {"place": "ended", "ended_at": 2.0}
SUCCESS = {**ENDED, "state": "SUCCESS", "step_state": "SUCCESS"}
BURIED = {**ENDED, "state": "DLQ_PENDING", "step_state": "DLQ"}
HELD = {"place": "held", "held_by": "breaker mail"}
LEASED = {"place": "leased", "state": "RUNNING", "step_state": "RUNNING", "leased_until": 9e9}


def run_row(**changes: Any) -> dict[str, Any]:
    """Return the required columns of a run, with changes. By default the run is ready."""
    number = next(_numbers)
    identifier = f"{number:08d}{uuid.uuid4().hex[:24]}"
    columns: dict[str, Any] = {
        "id": identifier,
        "org": ORG,
        "workflow": "greet",
        "definition": "digest",
        "queue": "default",
        "priority": 0,
        "state": "PENDING",
        "place": "ready",
        "submitted_at": 1_700_000_000.0 + number,
        "step_index": 0,
        "step_state": "PENDING",
        "input": '{"canary":"payload"}',
        "attempt": 0,
        "epoch": 0,
        "failures": 0,
        "rate_limit_waits": 0,
        "holds": 0,
        "losses": 0,
        "isolated_crashes": 0,
        "isolation": 0,
        "correlation_id": identifier,
    }
    row = columns | changes
    return {"sort_key": row["submitted_at"] - 3600.0 * row["priority"]} | row


async def put_runs(database: Database, rows: list[dict[str, Any]]) -> list[str]:
    for each in rows:
        row = each if isinstance(database, PostgresDatabase) else _with_given_correlation(each)
        names, values = ", ".join(row), ", ".join(f":{name}" for name in row)
        await ask(database, f"INSERT INTO redrive.runs ({names}) VALUES ({values})", **row)
    return [each["id"] for each in rows]


def _with_given_correlation(row: dict[str, Any]) -> dict[str, Any]:
    """Leave the correlation id to SQLite, which derives it from the given one and the id of the run."""
    given = None if row["correlation_id"] == row["id"] else row["correlation_id"]
    return {name: value for name, value in row.items() if name != "correlation_id"} | {
        "given_correlation_id": given
    }
