"""Judge a PostgreSQL server: durability, clock, transactions, tables and connections."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from shlex import quote

from redrive.doctor.finding import DoctorLimits, Finding, State, count, note, ok, unknown
from redrive.store.postgres_condition import Leftover, Server, TableCondition, Transaction
from redrive.words.number import size
from redrive.words.time import age, duration

KEEPS_ROWS = "While it is open, vacuum can't remove old row versions: tables grow and claiming slows down."
KEEPS_LOCKS = "It holds a connection and its locks. A migration, for example, has to wait for it."
GRANT = "Ask an administrator to run GRANT pg_read_all_stats TO the database user of Redrive."

_OFF = {
    "fsync": (
        State.BAD,
        "A machine crash can damage the whole database beyond repair.",
        "Set fsync = on in postgresql.conf and reload the server.",
    ),
    "synchronous_commit": (
        State.BAD,
        "A server crash loses the last acknowledged writes.",
        "Set synchronous_commit = on for the server, the database or the user, or in database_url.",
    ),
    "full_page_writes": (
        State.WARN,
        "A crash can leave partially written pages, unless the file system prevents that.",
        "Set full_page_writes = on in postgresql.conf and reload the server.",
    ),
}


def judge_server(place: str, server: Server) -> Finding:
    seen = f"PostgreSQL {server.version.split()[0]}: {place}, {size(server.bytes)}"
    if server.in_recovery:
        return Finding(
            "database",
            State.BAD,
            f"{seen}; it is a standby",
            "It is read-only: no run can start, and no worker can use it.",
            "Point database_url at the primary, or list several hosts in it.",
            "redrive config",
        )
    return ok("database", seen)


def judge_durability(settings: Mapping[str, str]) -> Iterator[Finding]:
    for name, (state, meaning, advice) in _OFF.items():
        if settings.get(name) == "off":
            yield Finding("durability", state, f"{name} is off", meaning, advice)
    if all(settings.get(name) != "off" for name in _OFF):
        seen = ", ".join(f"{name} is {settings.get(name, 'unknown')}" for name in _OFF)
        yield ok("durability", seen)
    archive = settings.get("archive_mode", "off")
    hint = "you can only restore from dumps" if archive == "off" else "the server archives its log"
    tell = note if archive == "off" else ok
    yield tell("backups", f"wal_level is {settings.get('wal_level')}, archive_mode is {archive}: {hint}")


def judge_clock(difference: float, accuracy: float, limits: DoctorLimits) -> Finding:
    """`difference` is how many seconds the server is ahead, plus or minus `accuracy`."""
    certain = max(0.0, abs(difference) - accuracy)
    if certain <= limits.clock_seconds:
        within = _milliseconds(abs(difference), accuracy)
        return ok("clock", f"the server and this machine agree within {within}")
    which = "ahead of" if difference > 0 else "behind"
    return Finding(
        "clock",
        State.BAD if certain > 10 * limits.clock_seconds else State.WARN,
        f"the server is {duration(certain)} {which} this machine",
        "Leases use the server's clock, but logs and due times are compared with this machine's.",
        "Synchronize both clocks with NTP.",
        "timedatectl status",
    )


def _milliseconds(difference: float, accuracy: float) -> str:
    return f"{max(0.001, difference + accuracy) * 1000:.0f} ms"


def judge_transactions(
    transactions: Sequence[Transaction], server: Server, limits: DoctorLimits
) -> Iterator[Finding]:
    for transaction in transactions:
        yield _long_transaction(transaction, limits)
    if server.hidden:
        hidden = count(server.hidden, "session")
        yield unknown("transactions", f"Redrive's database user can't see {hidden} of other users", GRANT)
    elif not transactions:
        yield ok("transactions", f"none older than {age(limits.transaction_seconds)}")


def _long_transaction(transaction: Transaction, limits: DoctorLimits) -> Finding:
    owner = " ".join(filter(None, (transaction.program, f"of user {transaction.user}")))
    is_old = transaction.seconds >= limits.old_transaction_seconds
    return Finding(
        "transactions",
        State.BAD if is_old else State.WARN,
        f"one has been open for {age(transaction.seconds)}: {owner}, process {transaction.process}, "
        f"{transaction.state or 'state unknown'}",
        KEEPS_ROWS if transaction.keeps_rows else KEEPS_LOCKS,
        "Find out what it is waiting for, and end it. Make the program commit or roll back sooner.",
        _psql(f"SELECT pg_terminate_backend({transaction.process})"),
    )


def judge_leftovers(leftovers: Sequence[Leftover]) -> Iterator[Finding]:
    for leftover in leftovers:
        if leftover.kind == "replication slot":
            yield Finding(
                "replication",
                State.WARN,
                f"the slot {leftover.name} is inactive",
                "The server keeps its log for this slot until the disk is full.",
                "Start its standby, or drop the slot.",
                _psql(f"SELECT pg_drop_replication_slot({_literal(leftover.name)})"),
            )
        else:
            yield Finding(
                "transactions",
                State.BAD,
                f"one was prepared {age(leftover.seconds or 0.0)} ago and never finished: {leftover.name}",
                "It holds its locks and blocks vacuum, even after a restart.",
                "Commit it or roll it back.",
                _psql(f"ROLLBACK PREPARED {_literal(leftover.name)}"),
            )


def judge_isolation(statements: Sequence[str], sole: str | None) -> Finding:
    """`statements` are missing for row-level security; `sole` names the organization if there is only one."""
    if not statements:
        return ok("isolation", "row-level security isolates the organizations, or will when a server starts")
    if sole is not None:
        return ok("isolation", f"{sole!r} is the only organization, so no row-level security is needed")
    return Finding(
        "isolation",
        State.BAD,
        "there are several organizations, but the role for row-level security is missing",
        "Servers do not start.",
        "Ask an administrator of PostgreSQL to run the missing statements.",
        "redrive migrate --print-sql",
    )


def judge_tables(
    tables: Sequence[TableCondition], settings: Mapping[str, str], limits: DoctorLimits
) -> Iterator[Finding]:
    if settings.get("autovacuum") == "off":
        yield Finding(
            "tables",
            State.BAD,
            "autovacuum is off on this server",
            "Old row versions are never removed: tables grow and every query slows down.",
            "Set autovacuum = on in postgresql.conf and reload the server.",
        )
    troubled = [finding for table in tables if (finding := _table(table, limits))]
    yield from troubled
    if tables and not troubled:
        dead = sum(table.dead for table in tables)
        total = size(sum(table.bytes for table in tables))
        yield ok("tables", f"{total}, {count(dead, 'dead row version')}")


def _table(table: TableCondition, limits: DoctorLimits) -> Finding | None:
    share = table.dead / max(1, table.live)
    is_bloated = table.dead >= limits.dead_rows and share >= limits.dead_share
    if not is_bloated and not table.never_vacuumed:
        return None
    never = table.vacuumed_seconds is None
    last = "never vacuumed" if never else f"last vacuumed {age(table.vacuumed_seconds or 0.0)} ago"
    reason = "; autovacuum is off for this table" if table.never_vacuumed else ""
    return Finding(
        "tables",
        State.BAD if is_bloated and share >= 5 * limits.dead_share else State.WARN,
        f"{table.name}: {table.live:,} live rows, {table.dead:,} dead row versions, {last}{reason}",
        "Dead row versions make the table larger and slower.",
        "End long transactions first. Then vacuum the table, and find out why autovacuum doesn't keep up.",
        _psql(f"VACUUM (ANALYZE) {table.name}"),
    )


def judge_connections(server: Server, settings: Mapping[str, str], limits: DoctorLimits) -> Finding:
    reserved = int(settings.get("superuser_reserved_connections", 0))
    available = int(settings.get("max_connections", 0)) - reserved
    if available <= 0:
        return unknown("connections", "the server doesn't report max_connections")
    seen = f"{server.connections} of {available} in use"
    if server.connections < limits.connections * available:
        return ok("connections", seen)
    return Finding(
        "connections",
        State.BAD if server.connections >= available else State.WARN,
        seen,
        "Without a free connection, workers and servers can't start or reconnect.",
        "Run fewer processes, use a connection pooler, or raise max_connections.",
    )


def _psql(text: str) -> str:
    return f"psql -c {quote(text)}"


def _literal(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"
