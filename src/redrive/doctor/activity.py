"""PostgreSQL: what hinders its housekeeping, and whether it has connections left."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from shlex import quote

from redrive.doctor.finding import Finding, State, count, ok, unknown
from redrive.doctor.limits import Limits
from redrive.store.postgres_condition import Leftover, Server, TableCondition, Transaction
from redrive.words.duration import age
from redrive.words.number import size

KEEPS_ROWS = "As long as it is open, old versions of rows stay: tables grow, and claiming becomes slower."
KEEPS_LOCKS = "It keeps a connection and its locks; a migration, for one, would wait for it."
GRANT = "GRANT pg_read_all_stats TO the user of Redrive."


def judge_transactions(
    transactions: Sequence[Transaction], server: Server, limits: Limits
) -> Iterator[Finding]:
    for each in transactions:
        yield _long(each, limits)
    if server.hidden:
        yield unknown(
            "transactions", f"{count(server.hidden, 'session')} of other users cannot be seen into", GRANT
        )
    elif not transactions:
        yield ok("transactions", f"none is older than {age(limits.transaction_seconds)}")


def _long(transaction: Transaction, limits: Limits) -> Finding:
    who = " ".join(filter(None, (transaction.program, f"of user {transaction.user}")))
    old = transaction.seconds >= limits.old_transaction_seconds
    return Finding(
        "transactions",
        State.BAD if old else State.WARN,
        f"one is open for {age(transaction.seconds)}: {who}, process {transaction.process}, "
        f"{transaction.state or 'state unknown'}",
        KEEPS_ROWS if transaction.keeps_rows else KEEPS_LOCKS,
        "Find out what it waits for, and end it. That program should commit, or roll back, sooner.",
        _psql(f"SELECT pg_terminate_backend({transaction.process})"),
    )


def judge_leftovers(leftovers: Sequence[Leftover]) -> Iterator[Finding]:
    for each in leftovers:
        if each.kind == "replication slot":
            yield Finding(
                "replication",
                State.WARN,
                f"nobody uses the slot {each.name}",
                "The server keeps its log for it until the disk is full.",
                "Start the standby that belongs to it, or drop it.",
                _psql(f"SELECT pg_drop_replication_slot({_literal(each.name)})"),
            )
        else:
            yield Finding(
                "transactions",
                State.BAD,
                f"one was prepared {age(each.seconds or 0.0)} ago and never ended: {each.name}",
                "It keeps its locks, and keeps rows from being cleaned up, also after a restart.",
                "Commit it, or roll it back.",
                _psql(f"ROLLBACK PREPARED {_literal(each.name)}"),
            )


def judge_tables(
    tables: Sequence[TableCondition], settings: Mapping[str, str], limits: Limits
) -> Iterator[Finding]:
    if settings.get("autovacuum") == "off":
        yield Finding(
            "tables",
            State.BAD,
            "autovacuum is off on this server",
            "Old versions of rows stay for ever: tables grow, and everything becomes slower.",
            "Set autovacuum = on in postgresql.conf, and reload.",
        )
    troubled = [finding for each in tables if (finding := _table(each, limits))]
    yield from troubled
    if tables and not troubled:
        dead = sum(each.dead for each in tables)
        whole = size(sum(each.bytes for each in tables))
        yield ok("tables", f"{whole}; {count(dead, 'row version')} to be cleaned up")


def _table(table: TableCondition, limits: Limits) -> Finding | None:
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
        "End long transactions first. Then clean it up, and see why autovacuum does not keep up.",
        _psql(f"VACUUM (ANALYZE) {table.name}"),
    )


def judge_connections(server: Server, settings: Mapping[str, str], limits: Limits) -> Finding:
    reserved = int(settings.get("superuser_reserved_connections", 0))
    most = int(settings.get("max_connections", 0)) - reserved
    if most <= 0:
        return unknown("connections", "the server does not say how many it allows")
    seen = f"{server.connections} of {most} are taken"
    if server.connections < limits.connections * most:
        return ok("connections", seen)
    return Finding(
        "connections",
        State.BAD if server.connections >= most else State.WARN,
        seen,
        "Without a free one, workers and servers cannot begin, and after a loss not come back.",
        "Use fewer processes, put a pooler in between, or raise max_connections.",
    )


def _psql(text: str) -> str:
    return f"psql -c {quote(text)}"


def _literal(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"
