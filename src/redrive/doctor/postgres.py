"""PostgreSQL: durability and clock of the server, its transactions, tables and connections."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from shlex import quote

from redrive.doctor.finding import DoctorLimits, Finding, State, count, ok, unknown
from redrive.store.postgres_condition import Leftover, Server, TableCondition, Transaction
from redrive.words.number import size
from redrive.words.time import age, duration

KEEPS_ROWS = "As long as it is open, old versions of rows stay: tables grow, and claiming becomes slower."
KEEPS_LOCKS = "It keeps a connection and its locks; a migration, for example, has to wait for it."
GRANT = "GRANT pg_read_all_stats TO the user of Redrive."

_OFF = {
    "fsync": (
        State.BAD,
        "A crash of the machine can damage the whole database beyond repair.",
        "Set fsync = on in postgresql.conf, and reload.",
    ),
    "synchronous_commit": (
        State.BAD,
        "A crash of the server loses the writes that it acknowledged last.",
        "Set synchronous_commit = on, for the server, the database, the user or in the address.",
    ),
    "full_page_writes": (
        State.WARN,
        "A crash can leave pages half written, unless the file system prevents it.",
        "Set full_page_writes = on in postgresql.conf, and reload.",
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
            "Name the primary, or several hosts, in database_url.",
            "redrive config",
        )
    return ok("database", seen)


def judge_durability(settings: Mapping[str, str]) -> Iterator[Finding]:
    for name, (state, meaning, advice) in _OFF.items():
        if settings.get(name) == "off":
            yield Finding("durability", state, f"{name} is off", meaning, advice)
    if all(settings.get(name) != "off" for name in _OFF):
        seen = ", ".join(f"{name} is {settings.get(name, 'not known')}" for name in _OFF)
        yield ok("durability", seen)
    archive = settings.get("archive_mode", "off")
    hint = "only what was dumped can be restored" if archive == "off" else "the log is archived"
    yield ok("backups", f"wal_level is {settings.get('wal_level')}, archive_mode is {archive}: {hint}")


def judge_clock(difference: float, accuracy: float, limits: DoctorLimits) -> Finding:
    """`difference` is how many seconds the server is ahead, plus or minus `accuracy`."""
    certain = max(0.0, abs(difference) - accuracy)
    if certain <= limits.clock_seconds:
        return ok("clock", f"the server's and this machine's agree within {_fine(abs(difference), accuracy)}")
    which = "ahead of" if difference > 0 else "behind"
    return Finding(
        "clock",
        State.BAD if certain > 10 * limits.clock_seconds else State.WARN,
        f"the server's is {duration(certain)} {which} this machine's",
        "Leases use the server's clock, but logs and due times are compared with this machine's.",
        "Synchronise both clocks with NTP.",
        "timedatectl status",
    )


def _fine(difference: float, accuracy: float) -> str:
    return f"{max(0.001, difference + accuracy) * 1000:.0f} ms"


def judge_transactions(
    transactions: Sequence[Transaction], server: Server, limits: DoctorLimits
) -> Iterator[Finding]:
    for transaction in transactions:
        yield _long(transaction, limits)
    if server.hidden:
        yield unknown(
            "transactions", f"{count(server.hidden, 'session')} of other users cannot be read", GRANT
        )
    elif not transactions:
        yield ok("transactions", f"none is older than {age(limits.transaction_seconds)}")


def _long(transaction: Transaction, limits: DoctorLimits) -> Finding:
    who = " ".join(filter(None, (transaction.program, f"of user {transaction.user}")))
    old = transaction.seconds >= limits.old_transaction_seconds
    return Finding(
        "transactions",
        State.BAD if old else State.WARN,
        f"one is open for {age(transaction.seconds)}: {who}, process {transaction.process}, "
        f"{transaction.state or 'state unknown'}",
        KEEPS_ROWS if transaction.keeps_rows else KEEPS_LOCKS,
        "Find out what it waits for, and end it. Make the program commit or roll back sooner.",
        _psql(f"SELECT pg_terminate_backend({transaction.process})"),
    )


def judge_leftovers(leftovers: Sequence[Leftover]) -> Iterator[Finding]:
    for leftover in leftovers:
        if leftover.kind == "replication slot":
            yield Finding(
                "replication",
                State.WARN,
                f"the slot {leftover.name} is inactive",
                "The server keeps its log for it until the disk is full.",
                "Start its standby, or drop the slot.",
                _psql(f"SELECT pg_drop_replication_slot({_literal(leftover.name)})"),
            )
        else:
            yield Finding(
                "transactions",
                State.BAD,
                f"one was prepared {age(leftover.seconds or 0.0)} ago and never finished: {leftover.name}",
                "It keeps its locks and blocks vacuum, even after a restart.",
                "Commit it, or roll it back.",
                _psql(f"ROLLBACK PREPARED {_literal(leftover.name)}"),
            )


def judge_tables(
    tables: Sequence[TableCondition], settings: Mapping[str, str], limits: DoctorLimits
) -> Iterator[Finding]:
    if settings.get("autovacuum") == "off":
        yield Finding(
            "tables",
            State.BAD,
            "autovacuum is off on this server",
            "Old versions of rows stay forever: tables grow, and every query becomes slower.",
            "Set autovacuum = on in postgresql.conf, and reload.",
        )
    troubled = [finding for table in tables if (finding := _table(table, limits))]
    yield from troubled
    if tables and not troubled:
        dead = sum(table.dead for table in tables)
        whole = size(sum(table.bytes for table in tables))
        yield ok("tables", f"{whole}; {count(dead, 'row version')} to be cleaned up")


def _table(table: TableCondition, limits: DoctorLimits) -> Finding | None:
    share = table.dead / max(1, table.live)
    crowded = table.dead >= limits.dead_rows and share >= limits.dead_share
    if not crowded and not table.never_vacuumed:
        return None
    last = "never" if table.vacuumed_seconds is None else f"{age(table.vacuumed_seconds)} ago"
    reason = "; autovacuum is off for it" if table.never_vacuumed else ""
    return Finding(
        "tables",
        State.BAD if crowded and share >= 5 * limits.dead_share else State.WARN,
        f"{table.name}: {table.live:,} live rows and {table.dead:,} dead versions, cleaned up {last}{reason}",
        "Dead versions make it larger and slower.",
        "End long transactions first. Then vacuum the table, and find out why autovacuum does not keep up.",
        _psql(f"VACUUM (ANALYZE) {table.name}"),
    )


def judge_connections(server: Server, settings: Mapping[str, str], limits: DoctorLimits) -> Finding:
    reserved = int(settings.get("superuser_reserved_connections", 0))
    most = int(settings.get("max_connections", 0)) - reserved
    if most <= 0:
        return unknown("connections", "the server does not report how many it allows")
    seen = f"{server.connections} of {most} are taken"
    if server.connections < limits.connections * most:
        return ok("connections", seen)
    return Finding(
        "connections",
        State.BAD if server.connections >= most else State.WARN,
        seen,
        "Without a free connection, workers and servers can't start or reconnect.",
        "Use fewer processes, put a pooler in between, or raise max_connections.",
    )


def _psql(text: str) -> str:
    return f"psql -c {quote(text)}"


def _literal(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"
