"""Fills a database of Redrive with rows that no worker has to touch.

First, real runs finish, one with success and one with a permanent failure; the rows are copies of theirs,
moved to another place if the burden says so.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from time import monotonic

from bench.work.contenders.of_redrive import Contender
from bench.work.jobs import Kind, payload
from bench.work.statements import fetch
from tests.runs_view import make_runs_writable

from redrive import Redrive

make_runs_writable()

BATCH = 100_000
HELD_BY = "down"
_LATER = "submitted_at + 1000000"
_NOT_ENDED = {"ended_at": "NULL", "result": "NULL"}


@dataclass(frozen=True)
class Burden:
    """Rows that fill a database.

    fails    they are copies of the failed run; otherwise of the successful one
    changes  columns that differ from the original
    tables   tables with further rows of each run
    """

    fails: bool = False
    changes: dict[str, str] = field(default_factory=dict)
    tables: tuple[str, ...] = ()


def _moved(place: str, state: str, step_state: str, **changes: str) -> dict[str, str]:
    words = {"place": place, "state": state, "step_state": step_state}
    return {name: f"'{word}'" for name, word in words.items()} | _NOT_ENDED | changes


BURDENS = {
    "finished": Burden(),
    "waiting": Burden(changes=_moved("waiting", "PENDING", "PENDING", due_at=_LATER)),
    "held": Burden(changes=_moved("held", "RUNNING", "PENDING", held_by=f"'breaker:{HELD_BY}'")),
    "retrying": Burden(True, _moved("waiting", "RUNNING", "RETRYING", due_at=_LATER), ("attempts",)),
    "dead": Burden(True, tables=("attempts", "dead_letters")),
}


async def fill(url: str, burden: str, rows: int) -> float:
    """Fill the database and return the seconds that it took."""
    started = monotonic()
    contender = Contender(url)
    async with contender.app as app:
        succeeded, failed = await _worked_off(contender)
        await app.breakers().force(HELD_BY, "OPEN", reason="the benchmark holds work")
        for first in range(0, rows, BATCH):
            numbers = (first + 1, min(rows, first + BATCH))
            template = failed if BURDENS[burden].fails else succeeded
            await _copy(app, BURDENS[burden], template, numbers)
        await fetch(app, "SELECT 1", "VACUUM ANALYZE")
    return monotonic() - started


async def _worked_off(contender: Contender) -> tuple[str, str]:
    """Return the ids of a successful run and of a failed one."""
    runs = [await contender.app.start(str(kind), payload(0)) for kind in (Kind.NOTHING, Kind.FAIL)]
    async with contender.app.worker():
        for run in runs:
            await run.wait(30.0)
    return runs[0].id, runs[1].id


async def _copy(app: Redrive, burden: Burden, template: str, numbers: tuple[int, int]) -> None:
    copied = f"'{template[:20]}' || (100000000000 + copy_number)"
    run_id = f"{{run_id: {copied}}}"
    await _copy_rows(app, "runs", "id", template, {"id": run_id, **burden.changes}, numbers)
    for table in burden.tables:
        changes = {"run_id": run_id, "id": copied}
        await _copy_rows(app, table, "run_id", template, changes, numbers)


async def _copy_rows(
    app: Redrive, table: str, key: str, template: str, changes: dict[str, str], numbers: tuple[int, int]
) -> None:
    columns = await _columns(app, table)
    values = ", ".join(changes.get(column, column) for column in columns)
    await fetch(
        app,
        f"INSERT INTO redrive.{table} ({', '.join(columns)})"
        f" WITH RECURSIVE counter (copy_number) AS (SELECT {numbers[0]}"
        f" UNION ALL SELECT copy_number + 1 FROM counter WHERE copy_number < {numbers[1]})"
        f" SELECT {values} FROM redrive.{table} CROSS JOIN counter WHERE {key} = '{template}'",
    )


async def _columns(app: Redrive, table: str) -> list[str]:
    rows = await fetch(
        app,
        f"SELECT name FROM pragma_table_info('{table}')",
        "SELECT column_name::text FROM information_schema.columns"
        f" WHERE table_schema = 'redrive' AND table_name = '{table}' ORDER BY ordinal_position",
    )
    return [row[0] for row in rows]
