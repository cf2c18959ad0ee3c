"""Runs: the outcomes of runs with dead letters, a quarter as many without any, and waiting runs."""

from __future__ import annotations

from bench.dead_letters.fill_database import SPAN, columns_of, dice
from bench.work.statements import fetch
from tests.runs_view import make_runs_writable

from redrive import Redrive

make_runs_writable()

ENDED = 4
IDLE = 50
"""The number of dead letters per waiting run."""
WITH_ATTEMPTS = "%0"
"""The ids of letters whose attempts are kept end like this: one in ten."""
HOLDERS = ("payments", "mail", "search")
_NOW = ("unixepoch('subsec')", "extract(epoch FROM now())")

_NOBODY = {"worker": "NULL", "result": "NULL", "error_class": "NULL", "has_letter": "0"}
_UNFAILED = {"failures": "0", "first_failed_at": "NULL", "last_failed_at": "NULL"}
_PLACED = {
    "workflow": "'workflow-' || one.workflow",
    "queue": "'queue-' || (one.workflow % 8)",
    "submitted_at": "one.at",
    "sort_key": "one.at",
    "correlation_id": "'order-' || (one.number / 3)",
}
_ENDED = {
    **_PLACED,
    **_NOBODY,
    **_UNFAILED,
    "id": "{run_id: '0192f3a4b5c67d8e9f01' || (100000000000 + one.number)}",
    "state": "CASE WHEN one.chance < 80 THEN 'SUCCESS' WHEN one.chance < 88 THEN 'CANCELLED'"
    " WHEN one.chance < 97 THEN 'FAILED' ELSE 'PARTIAL' END",
    "step_state": "CASE WHEN one.chance < 80 THEN 'SUCCESS' WHEN one.chance < 88 THEN 'CANCELLED'"
    " ELSE 'FAILED' END",
    "started_at": "one.at + 0.1",
    "ended_at": "one.at + one.chance",
    "code_version": "'2026.' || (1 + one.number % 20)",
}
_IDLE = {
    **_PLACED,
    **_NOBODY,
    "id": "{run_id: '0192f3a4b5c67d8e9f02' || (100000000000 + one.number)}",
    "place": "CASE WHEN one.chance < 30 THEN 'ready' WHEN one.chance < 65 THEN 'waiting'"
    " WHEN one.chance < 99 THEN 'held' ELSE 'leased' END",
    "state": "CASE WHEN one.chance < 20 THEN 'PENDING' ELSE 'RUNNING' END",
    "step_state": "CASE WHEN one.chance < 30 THEN 'PENDING' WHEN one.chance = 99 THEN 'RUNNING'"
    " ELSE 'RETRYING' END",
    "due_at": "CASE WHEN one.chance BETWEEN 30 AND 64 THEN {now} + 3600 + one.chance2 END",
    "held_by": "CASE WHEN one.chance BETWEEN 65 AND 98 THEN 'breaker:' || CASE WHEN one.chance2 < 80 THEN"
    f" '{HOLDERS[0]}' WHEN one.chance2 < 95 THEN '{HOLDERS[1]}' ELSE '{HOLDERS[2]}' END END",
    "leased_until": "CASE WHEN one.chance = 99 THEN {now} + 3600 END",
    "started_at": "CASE WHEN one.chance < 20 THEN NULL ELSE one.at END",
    "ended_at": "NULL",
    "attempt": "CASE WHEN one.chance < 20 THEN 0 ELSE 1 + one.chance % 4 END",
}
_OF_LETTER = (
    "category",
    "error_class",
    "error_type",
    "message",
    "http_status",
    "public_code",
)
_OF_AN_ATTEMPT = ("stack", "public_message", "explanation")


async def outcomes(app: Redrive, letters: int) -> None:
    """Mark the runs of letters that a replay resolved as successful."""
    await fetch(
        app,
        "UPDATE redrive.runs SET state = 'SUCCESS', step_state = 'SUCCESS'"
        " WHERE id IN (SELECT run_id FROM redrive.dead_letters WHERE state = 'RESOLVED')",
    )


async def ended(app: Redrive, letters: int) -> None:
    number = letters // ENDED
    await _copy(app, _ENDED, number, f"{{now}} - {SPAN} + {SPAN / number} * number")


async def idle(app: Redrive, letters: int) -> None:
    number = letters // IDLE
    await _copy(app, _IDLE, number, f"{{now}} - {2 * 86_400.0 / number} * number")


async def _copy(app: Redrive, changes: dict[str, str], number: int, moment: str) -> None:
    columns = await columns_of(app, "runs")
    values = ", ".join(changes.get(column, f"template.{column}") for column in columns)
    text = (
        f"INSERT INTO redrive.runs ({', '.join(columns)})"
        " WITH RECURSIVE counter (number) AS (SELECT CAST(1 AS bigint)"
        f" UNION ALL SELECT number + 1 FROM counter WHERE number < {number}),"
        f" one AS (SELECT number, {moment} AS at, {dice(5, 100)} AS chance, {dice(6, 100)} AS chance2,"
        f" {dice(7, 40)} AS workflow FROM counter)"
        f" SELECT {values} FROM one CROSS JOIN redrive.runs AS template"
        " WHERE template.id = (SELECT run_id FROM redrive.dead_letters ORDER BY run_id LIMIT 1)"
    )
    await fetch(app, *(text.replace("{now}", now) for now in _NOW))


async def attempts(app: Redrive, letters: int) -> None:
    """Insert as many attempts as the letter says, but at most four."""
    copied = ", ".join((*_OF_LETTER, *_OF_AN_ATTEMPT))
    of_letter = ", ".join(f"letter.{column}" for column in _OF_LETTER)
    of_an_attempt = ", ".join(f"template.{column}" for column in _OF_AN_ATTEMPT)
    await fetch(
        app,
        "INSERT INTO redrive.attempts (run_id, step_index, number, outcome, worker, code_version, started_at,"
        f" ended_at, delay, reason, {copied})"
        " SELECT letter.run_id, letter.step_index, numbered.number, 'failed', 'w-1', letter.code_version,"
        " letter.created_at - 60 * (5 - numbered.number), letter.created_at - 60 * (5 - numbered.number) + 2,"
        f" 58.0, letter.reason, {of_letter}, {of_an_attempt}"
        " FROM redrive.dead_letters AS letter CROSS JOIN"
        " (SELECT 1 AS number UNION ALL SELECT 2 UNION ALL SELECT 3 UNION ALL SELECT 4) AS numbered"
        f" CROSS JOIN (SELECT {', '.join(_OF_AN_ATTEMPT)} FROM redrive.attempts LIMIT 1) AS template"
        f" WHERE letter.id LIKE '{WITH_ATTEMPTS}' AND letter.attempts >= numbered.number"
        " ON CONFLICT DO NOTHING",
    )
