"""Run all checks in order. When the database refuses one check, the remaining checks still run."""

from __future__ import annotations

import platform
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Iterable, Mapping
from functools import partial
from importlib import import_module
from typing import cast

from redrive.clock import SYSTEM_CLOCK, Clock
from redrive.doctor import failures, postgres, sqlite, streams, version, work
from redrive.doctor.finding import DEFAULT_LIMITS, DoctorLimits, Finding, HealthReport, ok, unknown
from redrive.errors import StoreError, StoreUnavailableError
from redrive.model.finding import FindingCode
from redrive.settings import Settings
from redrive.store.database import Application, Database, database_of
from redrive.store.inspection import Inspection
from redrive.store.migration import schema_of
from redrive.store.organizations import Organizations
from redrive.store.postgres import PostgresDatabase
from redrive.store.postgres_condition import PostgresCondition
from redrive.store.sqlite_reader import SqliteReader, place_of, reading

CheckFunction = Callable[[], Awaitable[Iterable[Finding]]]


async def examine(
    source: Database | Application,
    *,
    settings: Settings | None = None,
    keys: Collection[str] | None = None,
    limits: DoctorLimits = DEFAULT_LIMITS,
    clock: Clock = SYSTEM_CLOCK,
) -> HealthReport:
    """Check an application's database and the work in it, over separate read-only connections.

    settings  the application's settings; the checks compare some of them with the stored data
    keys      ids of the configured encryption keys; None skips the encryption check
    limits    thresholds for warnings
    """
    database = database_of(source) or cast(Database, source)
    reader = reading(database)
    try:
        findings = [finding async for finding in _findings(reader, settings, keys, limits, clock)]
    finally:
        if not reader.in_memory:
            await reader.close()
    return HealthReport(place_of(database), tuple(findings))


async def _findings(
    database: Database,
    settings: Settings | None,
    keys: Collection[str] | None,
    limits: DoctorLimits,
    clock: Clock,
) -> AsyncIterator[Finding]:
    redrive = import_module("redrive")  # imported late: the doctor must not depend on the top-level package
    yield version.judge_program(str(redrive.__version__), platform.python_version())
    database_findings = _sqlite_findings(database, limits)
    if isinstance(database, PostgresDatabase):
        database_findings = _postgres_findings(database, limits, clock)
    async for finding in database_findings:
        yield finding
    schema = await schema_of(database)
    yield version.judge_schema(schema)
    if schema.is_current:
        if isinstance(database, PostgresDatabase):
            async for finding in _run({"isolation": partial(_isolation, database)}):
                yield finding
        async for finding in _WorkChecks(Inspection(database), settings, keys, limits).findings():
            yield finding


async def _sqlite_findings(database: Database, limits: DoctorLimits) -> AsyncIterator[Finding]:
    if not isinstance(database, SqliteReader):
        yield ok(FindingCode.SQLITE_IN_MEMORY)
        return
    condition = await database.condition()
    yield sqlite.judge_file(database.path, condition)
    yield sqlite.judge_durability(condition)
    yield sqlite.judge_permissions(database.path, condition)
    yield sqlite.judge_log(condition, limits)
    for finding in sqlite.judge_disk(sqlite.disk_of(database.path), limits):
        yield finding


async def _postgres_findings(
    database: PostgresDatabase, limits: DoctorLimits, clock: Clock
) -> AsyncIterator[Finding]:
    condition = PostgresCondition(database)
    server, settings = await condition.server(), await condition.settings()

    async def transactions() -> Iterable[Finding]:
        found = await condition.transactions(limits.transaction_seconds)
        return postgres.judge_transactions(found, server, limits)

    async def replication() -> Iterable[Finding]:
        return postgres.judge_leftovers(await condition.leftovers(limits.transaction_seconds))

    async def tables() -> Iterable[Finding]:
        return postgres.judge_tables(await condition.tables(), settings, limits)

    yield postgres.judge_server(place_of(database), server)
    for finding in postgres.judge_durability(settings):
        yield finding
    yield await _compare_clocks(condition, clock, limits)
    checks = {"transactions": transactions, "replication": replication, "tables": tables}
    async for finding in _run(checks):
        yield finding
    yield postgres.judge_connections(server, settings, limits)


async def _isolation(database: PostgresDatabase) -> Iterable[Finding]:
    statements = await database.administrator_statements()
    sole = await Organizations(database).sole() if statements else None
    return [postgres.judge_isolation(statements, sole)]


async def _compare_clocks(condition: PostgresCondition, clock: Clock, limits: DoctorLimits) -> Finding:
    """Compare the server's clock with the middle of two local readings, taken before and after."""
    before = clock.now()
    server_time = await condition.clock()
    after = clock.now()
    return postgres.judge_clock(server_time - (before + after) / 2, (after - before) / 2, limits)


class _WorkChecks:
    def __init__(
        self,
        inspection: Inspection,
        settings: Settings | None,
        keys: Collection[str] | None,
        limits: DoctorLimits,
    ) -> None:
        self._inspection = inspection
        self._max_letters = None if settings is None else settings.dlq_max_size
        self._keys = keys
        self._limits = limits

    def findings(self) -> AsyncIterator[Finding]:
        return _run(
            {
                "workers": self._workers,
                "queues": self._queues,
                "unknown work": self._unknown_work,
                "leases": self._leases,
                "timeouts": self._overruns,
                "overdue work": self._overdue,
                "breakers": self._breakers,
                "dead letters": self._letters,
                "streams": self._streams,
                "encryption": self._encryption,
            }
        )

    async def _workers(self) -> Iterable[Finding]:
        return work.judge_workers(await self._inspection.workers(), self._limits)

    async def _queues(self) -> Iterable[Finding]:
        depths, queues = await self._inspection.depths(), await self._inspection.queues()
        return work.judge_queues(depths, queues, await self._inspection.workers(), self._limits)

    async def _unknown_work(self) -> Iterable[Finding]:
        return work.judge_unknown_work(await self._inspection.unknown_work())

    async def _leases(self) -> Iterable[Finding]:
        return [work.judge_leases(await self._inspection.expired(self._limits.leeway_seconds))]

    async def _overruns(self) -> Iterable[Finding]:
        return work.judge_overruns(await self._inspection.overruns(leeway=0.0))

    async def _overdue(self) -> Iterable[Finding]:
        return [work.judge_overdue(await self._inspection.overdue(self._limits.leeway_seconds))]

    async def _breakers(self) -> Iterable[Finding]:
        return failures.judge_breakers(await self._inspection.breakers())

    async def _letters(self) -> Iterable[Finding]:
        letters, blocked = await self._inspection.letters(), await self._inspection.blocked_orders()
        return [
            *failures.judge_letters(letters, self._max_letters, self._limits),
            *failures.judge_blocked_orders(blocked),
        ]

    async def _streams(self) -> Iterable[Finding]:
        return streams.judge_streams(*await self._inspection.streams())

    async def _encryption(self) -> Iterable[Finding]:
        if self._keys is None:
            return []
        return [work.judge_encryption(await self._inspection.sealed(), self._keys)]


async def _run(checks: Mapping[str, CheckFunction]) -> AsyncIterator[Finding]:
    for name, check in checks.items():
        try:
            findings = list(await check())
        except StoreUnavailableError:
            raise
        except StoreError as error:
            findings = [unknown(FindingCode.CHECK_REFUSED, error=str(error))._replace(check=name)]
        for finding in findings:
            yield finding
