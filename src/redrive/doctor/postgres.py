"""Judge a PostgreSQL server: durability, clock, transactions, tables and connections."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from shlex import quote

from redrive.doctor.finding import DoctorLimits, Finding, bad, note, ok, unknown, warn
from redrive.model.finding import FindingCode
from redrive.store.postgres_condition import Leftover, Server, TableCondition, Transaction

_OFF = {
    "fsync": (bad, FindingCode.FSYNC_OFF),
    "synchronous_commit": (bad, FindingCode.SYNCHRONOUS_COMMIT_OFF),
    "full_page_writes": (warn, FindingCode.FULL_PAGE_WRITES_OFF),
}


def judge_server(place: str, server: Server) -> Finding:
    facts = {"version": server.version.split()[0], "database": place, "bytes": server.bytes}
    if server.in_recovery:
        return bad(FindingCode.SERVER_IS_STANDBY, "redrive config", **facts)
    return ok(FindingCode.SERVER, **facts)


def judge_durability(settings: Mapping[str, str]) -> Iterator[Finding]:
    for name, (judge, code) in _OFF.items():
        if settings.get(name) == "off":
            yield judge(code)
    if all(settings.get(name) != "off" for name in _OFF):
        yield ok(FindingCode.SERVER_DURABLE, **{name: settings.get(name) for name in _OFF})
    archive = {"wal_level": settings.get("wal_level"), "archive_mode": settings.get("archive_mode", "off")}
    if archive["archive_mode"] == "off":
        yield note(FindingCode.LOG_NOT_ARCHIVED, **archive)
    else:
        yield ok(FindingCode.LOG_ARCHIVED, **archive)


def judge_clock(difference: float, accuracy: float, limits: DoctorLimits) -> Finding:
    """`difference` is how many seconds the server is ahead, plus or minus `accuracy`."""
    certain = max(0.0, abs(difference) - accuracy)
    if certain <= limits.clock_seconds:
        return ok(FindingCode.CLOCKS_AGREE, seconds=abs(difference) + accuracy)
    judge = bad if certain > 10 * limits.clock_seconds else warn
    return judge(
        FindingCode.CLOCKS_DIFFER, "timedatectl status", seconds=certain, server_ahead=difference > 0
    )


def judge_transactions(
    transactions: Sequence[Transaction], server: Server, limits: DoctorLimits
) -> Iterator[Finding]:
    for transaction in transactions:
        yield _long_transaction(transaction, limits)
    if server.hidden:
        yield unknown(FindingCode.SESSIONS_HIDDEN, sessions=server.hidden)
    elif not transactions:
        yield ok(FindingCode.NO_LONG_TRANSACTION, limit_seconds=limits.transaction_seconds)


def _long_transaction(transaction: Transaction, limits: DoctorLimits) -> Finding:
    judge = bad if transaction.seconds >= limits.old_transaction_seconds else warn
    return judge(
        FindingCode.LONG_TRANSACTION,
        _psql(f"SELECT pg_terminate_backend({transaction.process})"),
        seconds=transaction.seconds,
        program=transaction.program,
        user=transaction.user,
        process=transaction.process,
        activity=transaction.state,
        keeps_rows=transaction.keeps_rows,
    )


def judge_leftovers(leftovers: Sequence[Leftover]) -> Iterator[Finding]:
    for leftover in leftovers:
        name = _literal(leftover.name)
        if leftover.kind == "replication slot":
            drop = _psql(f"SELECT pg_drop_replication_slot({name})")
            yield warn(FindingCode.SLOT_INACTIVE, drop, slot=leftover.name)
        else:
            yield bad(
                FindingCode.PREPARED_TRANSACTION,
                _psql(f"ROLLBACK PREPARED {name}"),
                seconds=leftover.seconds or 0.0,
                name=leftover.name,
            )


def judge_isolation(statements: Sequence[str], sole: str | None) -> Finding:
    """`statements` are missing for row-level security; `sole` names the organization if there is only one."""
    if not statements:
        return ok(FindingCode.ISOLATED)
    if sole is not None:
        return ok(FindingCode.ONE_ORGANIZATION, org=sole)
    return bad(FindingCode.ISOLATION_MISSING, "redrive migrate --print-sql")


def judge_tables(
    tables: Sequence[TableCondition], settings: Mapping[str, str], limits: DoctorLimits
) -> Iterator[Finding]:
    if settings.get("autovacuum") == "off":
        yield bad(FindingCode.AUTOVACUUM_OFF)
    troubled = [finding for table in tables if (finding := _table(table, limits))]
    yield from troubled
    if tables and not troubled:
        dead, total = sum(table.dead for table in tables), sum(table.bytes for table in tables)
        yield ok(FindingCode.TABLES_VACUUMED, bytes=total, dead_rows=dead)


def _table(table: TableCondition, limits: DoctorLimits) -> Finding | None:
    share = table.dead / max(1, table.live)
    is_bloated = table.dead >= limits.dead_rows and share >= limits.dead_share
    if not is_bloated and not table.never_vacuumed:
        return None
    judge = bad if is_bloated and share >= 5 * limits.dead_share else warn
    return judge(
        FindingCode.TABLE_NOT_VACUUMED,
        _psql(f"VACUUM (ANALYZE) {table.name}"),
        table=table.name,
        live_rows=table.live,
        dead_rows=table.dead,
        vacuumed_seconds=table.vacuumed_seconds,
        autovacuum_off=table.never_vacuumed,
    )


def judge_connections(server: Server, settings: Mapping[str, str], limits: DoctorLimits) -> Finding:
    reserved = int(settings.get("superuser_reserved_connections", 0))
    used, available = server.connections, int(settings.get("max_connections", 0)) - reserved
    if available <= 0:
        return unknown(FindingCode.CONNECTIONS_UNKNOWN)
    if used < limits.connections * available:
        return ok(FindingCode.CONNECTIONS_FREE, used=used, available=available)
    judge = bad if used >= available else warn
    return judge(FindingCode.CONNECTIONS_SCARCE, used=used, available=available)


def _psql(text: str) -> str:
    return f"psql -c {quote(text)}"


def _literal(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"
