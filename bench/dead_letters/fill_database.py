"""Fills a database with dead letters: any number, of 5,000 failures, over 30 days, in every state.

First one run fails permanently; the database makes all other letters as copies of its rows, each with its own
failure, state and time. Indexes are created at the end. Attempts are omitted, because no measurement reads
them.
"""

from __future__ import annotations

from time import monotonic

from bench.dead_letters.failures import KnownFailure, failures
from bench.work.contenders.of_redrive import Contender
from bench.work.jobs import Kind, payload
from bench.work.statements import fetch
from tests.runs_view import make_runs_writable

from redrive import Redrive
from redrive.parts import parts_of
from redrive.store.statement import compose

make_runs_writable()

BATCH = 50_000
SPAN = 30 * 86_400.0
OF_ONE_OUTAGE = 5
_SIDES = 1_000_003
_FIRST_ID = 10**11

_COLUMNS = ", ".join(KnownFailure._fields)
_KEEP = compose(
    "keep",
    f"INSERT INTO redrive.bench_failures ({_COLUMNS})"
    f" VALUES ({', '.join(f':{name}' for name in KnownFailure._fields)})",
)


def dice(salt: int, sides: int) -> str:
    """Return SQL for a number below `sides` that looks independent of the number of the letter."""
    return f"((number * {7_919 * salt + 104_729}) % {_SIDES} * {salt + 31} % {_SIDES} % {sides})"


def _failure(groups: int) -> str:
    """A few outages cause a fifth of all letters; of the other failures some are frequent, most are rare."""
    skewed = f"{dice(2, groups)} * {dice(3, groups)} / {groups}"
    return f"CASE WHEN {dice(1, 5)} = 0 THEN {dice(4, OF_ONE_OUTAGE)} ELSE {skewed} END"


_ID = f"'0192f3a4b5c67d8e9f00' || ({_FIRST_ID} + letter.number)"
_RUN_ID = f"{{run_id: {_ID}}}"
_STATE = (
    "CASE WHEN letter.chance < 60 THEN 'OPEN' WHEN letter.chance < 61 THEN 'REPLAYING'"
    " WHEN letter.chance < 66 THEN 'EXHAUSTED' WHEN letter.chance < 90 THEN 'RESOLVED'"
    " WHEN letter.chance < 96 THEN 'IGNORED' ELSE 'ARCHIVED' END"
)
_OF_FAILURE = (
    "fingerprint",
    "workflow",
    "step",
    "queue",
    "category",
    "error_type",
    "message",
    "title",
)
_PAYLOAD = "'{\"order\": ' || letter.number || ', \"note\": \"' || failure.filling || '\"}'"
_RUN = {
    "id": _RUN_ID,
    "workflow": "failure.workflow",
    "queue": "failure.queue",
    "input": _PAYLOAD,
    "submitted_at": "letter.at",
    "ended_at": "letter.at",
    "correlation_id": "'order-' || (letter.number / 3)",
}
_LETTER = {
    "id": _ID,
    "run_id": _RUN_ID,
    "state": _STATE,
    "payload": _PAYLOAD,
    "task": "failure.step",
    "org": "CASE WHEN letter.chance2 < 5 THEN 'another' ELSE 'default' END",
    "attempts": "1 + letter.chance % 6",
    "code_version": "'2026.' || (1 + letter.number / 50000)",
    "assignee": "CASE WHEN letter.chance2 = 7 THEN 'ana' WHEN letter.chance2 = 8 THEN 'ben' END",
    "tags": "CASE WHEN letter.chance2 = 9 THEN '[\"vip\"]' END",
    "exhausted_at": "CASE WHEN letter.chance BETWEEN 61 AND 65 THEN letter.at END",
    "created_at": "letter.at",
    "updated_at": "letter.at",
    "first_failed_at": "letter.at",
    "last_failed_at": "letter.at",
    "correlation_id": _RUN["correlation_id"],
} | {name: f"failure.{name}" for name in _OF_FAILURE}


async def fill(url: str, letters: int, groups: int) -> float:
    """Fill the database and return the seconds that it took."""
    started = monotonic()
    contender = Contender(url)
    async with contender.app as app:
        template = await _failed(contender)
        await _know_failures(app, groups)
        indexes = await _without_indexes(app)
        for first in range(0, letters, BATCH):
            numbers = (first + 1, min(letters, first + BATCH))
            moment = f"{{now}} - {SPAN} + {SPAN / letters} * number"
            for table, key, changes in (("runs", "id", _RUN), ("dead_letters", "run_id", _LETTER)):
                await _copy(app, table, key, template, changes, numbers, moment, groups)
        await _add_up(app)
        await parts_of(app).store.letter_writer.sum_up()  # as workers do
        for index in indexes:
            await fetch(app, index, index)
        await fetch(app, "DROP TABLE redrive.bench_failures")
        await fetch(app, "ANALYZE", "VACUUM ANALYZE")
    return monotonic() - started


async def _failed(contender: Contender) -> str:
    run = await contender.app.start(str(Kind.FAIL), payload(0))
    async with contender.app.worker():
        await run.wait(30.0)
    return run.id


async def _know_failures(app: Redrive, groups: int) -> None:
    columns = ", ".join(f"{name} text NOT NULL" for name in KnownFailure._fields[1:])
    await fetch(app, f"CREATE TABLE redrive.bench_failures (number bigint PRIMARY KEY, {columns})")
    await parts_of(app).database.fetch_many(_KEEP, list(failures(groups)))


async def _copy(
    app: Redrive,
    table: str,
    key: str,
    template: str,
    changes: dict[str, str],
    numbers: tuple[int, int],
    moment: str,
    groups: int,
) -> None:
    columns = await columns_of(app, table)
    values = ", ".join(changes.get(column, f"template.{column}") for column in columns)
    text = (
        f"INSERT INTO redrive.{table} ({', '.join(columns)})"
        f" WITH RECURSIVE counter (number) AS (SELECT CAST({numbers[0]} AS bigint)"
        f" UNION ALL SELECT number + 1 FROM counter WHERE number < {numbers[1]}),"
        f" letter AS (SELECT number, {moment} AS at, {dice(5, 100)} AS chance, {dice(6, 100)} AS chance2,"
        f" {_failure(groups)} AS failure FROM counter)"
        f" SELECT {values} FROM letter CROSS JOIN redrive.{table} AS template"
        f" JOIN redrive.bench_failures AS failure ON failure.number = letter.failure"
        f" WHERE template.{key} = '{template}'"
    )
    now = ("unixepoch('subsec')", "extract(epoch FROM now())")
    await fetch(app, *(text.replace("{now}", each) for each in now))


async def _add_up(app: Redrive) -> None:
    """Insert the groups with their versions, and a replay for every resolved letter."""
    # WHERE true: SQLite would parse ON CONFLICT as the condition of a join.
    groups = "org, fingerprint, title, fingerprint_reason, workflow, step, task, category, error_type"
    await fetch(
        app,
        "INSERT INTO redrive.failure_groups (org, fingerprint, title, reason, workflow, step, task, category,"
        " error_type, sample, state, occurrences, first_seen, last_seen)"
        f" SELECT {groups}, max(id), 'OPEN', count(*), min(created_at), max(created_at)"
        f" FROM redrive.dead_letters WHERE true GROUP BY {groups} ON CONFLICT DO NOTHING",
    )
    await fetch(
        app,
        "INSERT INTO redrive.failure_group_versions (org, fingerprint, code_version, occurrences, first_seen,"
        " last_seen) SELECT org, fingerprint, code_version, count(*), min(created_at), max(created_at)"
        " FROM redrive.dead_letters WHERE true GROUP BY org, fingerprint, code_version"
        " ON CONFLICT DO NOTHING",
    )
    await fetch(
        app,
        "INSERT INTO redrive.replays (id, org, position, letter_id, run_id, number, step_index, from_step,"
        " mode, state, automatic, requested_by, requested_at, reason, fingerprint, letter_updated_at, effect,"
        " started_at, ended_at) SELECT id, org, 0, id, run_id, 1, 0, 0, 'FROM_STEP', 'SUCCEEDED', 0, 'ana',"
        " created_at, '', fingerprint, created_at, effect, created_at, updated_at"
        " FROM redrive.dead_letters WHERE state = 'RESOLVED'",
    )


async def _without_indexes(app: Redrive) -> list[str]:
    """Drop the indexes of the filled tables, and return the statements that create them again."""
    rows = await fetch(
        app,
        "SELECT name, sql FROM sqlite_master WHERE type = 'index' AND sql IS NOT NULL"
        " AND tbl_name IN ('runs', 'dead_letters', 'replays')",
        "SELECT indexname::text, indexdef FROM pg_indexes WHERE schemaname = 'redrive'"
        " AND tablename IN ('runs', 'dead_letters', 'replays') AND indexname NOT LIKE '%\\_pkey'",
    )
    for name, _ in rows:
        await fetch(app, f"DROP INDEX redrive.{name}")
    return [row[1] for row in rows]


async def columns_of(app: Redrive, table: str) -> list[str]:
    rows = await fetch(
        app,
        f"SELECT name FROM pragma_table_info('{table}')",
        "SELECT column_name::text FROM information_schema.columns"
        f" WHERE table_schema = 'redrive' AND table_name = '{table}' ORDER BY ordinal_position",
    )
    return [row[0] for row in rows]
