"""The examination: all checks in their order. A check that is not permitted stops no other one."""

from __future__ import annotations

import platform
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Iterable, Mapping
from importlib import import_module

from redrive.clock import SYSTEM_CLOCK, Clock
from redrive.doctor import postgres, program, sqlite, trouble, work
from redrive.doctor.finding import DEFAULT_LIMITS, DoctorLimits, Finding, HealthReport, ok, unknown
from redrive.errors import StoreError, StoreUnavailableError
from redrive.settings import Settings
from redrive.store.database import Database
from redrive.store.inspection import Inspection
from redrive.store.postgres import PostgresDatabase
from redrive.store.postgres_condition import PostgresCondition, Server
from redrive.store.schema import schema_of
from redrive.store.sqlite_reader import SqliteReader, place_of, reading

Look = Callable[[], Awaitable[Iterable[Finding]]]


async def examine(
    database: Database,
    *,
    settings: Settings | None = None,
    keys: Collection[str] | None = None,
    limits: DoctorLimits = DEFAULT_LIMITS,
    clock: Clock = SYSTEM_CLOCK,
) -> HealthReport:
    """Examine the database and the work in it, over separate connections that only read.

    settings  those of the application; some are compared with what is stored
    keys      ids of the configured encryption keys; None skips the check
    limits    when the doctor warns
    """
    looked_at = reading(database)
    try:
        findings = [finding async for finding in _findings(looked_at, settings, keys, limits, clock)]
    finally:
        if not looked_at.in_memory:
            await looked_at.close()
    return HealthReport(place_of(database), tuple(findings))


async def _findings(
    database: Database,
    settings: Settings | None,
    keys: Collection[str] | None,
    limits: DoctorLimits,
    clock: Clock,
) -> AsyncIterator[Finding]:
    yield program.judge_program(_version(), platform.python_version())
    about_database = _postgres if isinstance(database, PostgresDatabase) else _sqlite
    async for finding in about_database(database, limits, clock):
        yield finding
    schema = await schema_of(database)
    yield program.judge_schema(schema)
    if schema.is_current:
        async for finding in _work(Inspection(database), settings, keys, limits):
            yield finding


def _version() -> str:
    """Import the package at run time: it is above all its parts."""
    return str(import_module("redrive").__version__)


async def _sqlite(database: Database, limits: DoctorLimits, clock: Clock) -> AsyncIterator[Finding]:
    if not isinstance(database, SqliteReader):
        yield ok("database", "SQLite, in memory")
        return
    condition = await database.condition()
    yield sqlite.judge_file(database.path, condition)
    yield sqlite.judge_durability(condition)
    yield sqlite.judge_rights(database.path, condition)
    yield sqlite.judge_log(condition, limits)
    for finding in sqlite.judge_disk(sqlite.disk_of(database.path), limits):
        yield finding


async def _postgres(database: Database, limits: DoctorLimits, clock: Clock) -> AsyncIterator[Finding]:
    assert isinstance(database, PostgresDatabase)  # noqa: S101
    condition = PostgresCondition(database)
    seen = await condition.server()
    known = await condition.settings()
    yield postgres.judge_server(place_of(database), seen)
    for finding in postgres.judge_durability(known):
        yield finding
    yield await _clock(condition, clock, limits)
    looks: dict[str, Look] = {
        "transactions": lambda: _transactions(condition, seen, limits),
        "replication": lambda: _leftovers(condition, limits),
        "tables": lambda: _tables(condition, known, limits),
    }
    async for finding in _look_at(looks):
        yield finding
    yield postgres.judge_connections(seen, known, limits)


async def _clock(condition: PostgresCondition, clock: Clock, limits: DoctorLimits) -> Finding:
    """Compare the clocks: the server answered at some time between the question and its arrival."""
    before = clock.now()
    theirs = await condition.clock()
    after = clock.now()
    return postgres.judge_clock(theirs - (before + after) / 2, (after - before) / 2, limits)


async def _transactions(
    condition: PostgresCondition, seen: Server, limits: DoctorLimits
) -> Iterable[Finding]:
    found = await condition.transactions(limits.transaction_seconds)
    return postgres.judge_transactions(found, seen, limits)


async def _leftovers(condition: PostgresCondition, limits: DoctorLimits) -> Iterable[Finding]:
    return postgres.judge_leftovers(await condition.leftovers(limits.transaction_seconds))


async def _tables(
    condition: PostgresCondition, known: Mapping[str, str], limits: DoctorLimits
) -> Iterable[Finding]:
    return postgres.judge_tables(await condition.tables(), known, limits)


async def _work(
    inspection: Inspection, settings: Settings | None, keys: Collection[str] | None, limits: DoctorLimits
) -> AsyncIterator[Finding]:
    looks: dict[str, Look] = {
        "workers": lambda: _workers(inspection, limits),
        "queues": lambda: _queues(inspection, limits),
        "leases": lambda: _leases(inspection, limits),
        "overdue work": lambda: _overdue(inspection, limits),
        "breakers": lambda: _breakers(inspection),
        "dead letters": lambda: _letters(inspection, settings, limits),
    }
    if keys is not None:
        looks["encryption"] = lambda: _encryption(inspection, keys)
    async for finding in _look_at(looks):
        yield finding


async def _workers(inspection: Inspection, limits: DoctorLimits) -> Iterable[Finding]:
    return work.judge_workers(await inspection.workers(), limits)


async def _queues(inspection: Inspection, limits: DoctorLimits) -> Iterable[Finding]:
    depths, queues, workers = (
        await inspection.depths(),
        await inspection.queues(),
        await inspection.workers(),
    )
    return work.judge_queues(depths, queues, workers, limits)


async def _leases(inspection: Inspection, limits: DoctorLimits) -> Iterable[Finding]:
    return [work.judge_leases(await inspection.expired(limits.leeway_seconds))]


async def _overdue(inspection: Inspection, limits: DoctorLimits) -> Iterable[Finding]:
    return [work.judge_overdue(await inspection.overdue(limits.leeway_seconds))]


async def _breakers(inspection: Inspection) -> Iterable[Finding]:
    return trouble.judge_breakers(await inspection.breakers())


async def _letters(
    inspection: Inspection, settings: Settings | None, limits: DoctorLimits
) -> Iterable[Finding]:
    most = None if settings is None else settings.dlq_max_size
    return trouble.judge_letters(await inspection.letters(), most, limits)


async def _encryption(inspection: Inspection, keys: Collection[str]) -> Iterable[Finding]:
    return [program.judge_encryption(await inspection.sealed(), keys)]


async def _look_at(looks: dict[str, Look]) -> AsyncIterator[Finding]:
    for check, look in looks.items():
        try:
            findings = list(await look())
        except StoreUnavailableError:
            raise
        except StoreError as error:
            findings = [unknown(check, str(error))]
        for finding in findings:
            yield finding
