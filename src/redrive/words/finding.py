"""Findings of the doctor in sentences: what it saw, what that means and what to do."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

from redrive.model.breaker import BreakerState
from redrive.model.finding import FindingCode
from redrive.model.query import MAX_COUNTED
from redrive.model.worker import BlockingStep
from redrive.words.number import names, noun, size
from redrive.words.state import status
from redrive.words.time import age, duration
from redrive.words.timeline import unknown_work
from redrive.words.worker import blocked_text, overrun_text

MAX_NAMED = 5


class Description(NamedTuple):
    """A finding in words. The meaning is empty if all is well."""

    seen: str
    meaning: str = ""
    advice: str = ""


Describe = Callable[[Mapping[str, Any]], Description]


def describe_finding(code: FindingCode, fields: Mapping[str, Any]) -> Description:
    return _DESCRIPTIONS[code](fields)


def _count(number: int, one: str) -> str:
    """Format the number with its noun, and append "+" once it reaches `MAX_COUNTED`."""
    more = "+" if number >= MAX_COUNTED else ""
    return f"{min(number, MAX_COUNTED):,}{more} {noun(number, one)}"


def _stream(it: Mapping[str, Any]) -> str:
    return f"the stream {it['stream']} of {it['org']}"


def _unchecked(why: str, advice: str = "") -> Description:
    return Description(f"could not be checked: {why}", advice=advice)


def _sqlite_file(it: Mapping[str, Any]) -> Description:
    free = f", {size(it['free_bytes'])} of it free" if it["free_bytes"] else ""
    return Description(f"SQLite {it['version']}: {it['path']}, {size(it['bytes'])}{free}")


def _modes(it: Mapping[str, Any]) -> str:
    return f"journal_mode is {it['journal_mode']}, synchronous is {it['synchronous']}"


def _space(it: Mapping[str, Any]) -> str:
    return f"{size(it['free_bytes'])} of {size(it['bytes'])} free"


def _server(it: Mapping[str, Any]) -> str:
    return f"PostgreSQL {it['version']}: {it['database']}, {size(it['bytes'])}"


def _server_durable(it: Mapping[str, Any]) -> Description:
    settings = ("fsync", "synchronous_commit", "full_page_writes")
    return Description(", ".join(f"{name} is {it[name] or 'unknown'}" for name in settings))


def _archive(it: Mapping[str, Any]) -> str:
    return f"wal_level is {it['wal_level']}, archive_mode is {it['archive_mode']}"


def _clocks_agree(it: Mapping[str, Any]) -> Description:
    milliseconds = f"{max(0.001, it['seconds']) * 1000:.0f} ms"
    return Description(f"the server and this machine agree within {milliseconds}")


def _clocks_differ(it: Mapping[str, Any]) -> Description:
    which = "ahead of" if it["server_ahead"] else "behind"
    return Description(
        f"the server is {duration(it['seconds'])} {which} this machine",
        "Leases use the server's clock, but logs and due times are compared with this machine's.",
        "Synchronize both clocks with NTP.",
    )


def _long_transaction(it: Mapping[str, Any]) -> Description:
    owner = " ".join(filter(None, (it["program"], f"of user {it['user']}")))
    keeps_rows = (
        "While it is open, vacuum can't remove old row versions: tables grow and claiming slows down."
    )
    keeps_locks = "It holds a connection and its locks. A migration, for example, has to wait for it."
    return Description(
        f"one has been open for {age(it['seconds'])}: {owner}, process {it['process']}, "
        f"{it['activity'] or 'state unknown'}",
        keeps_rows if it["keeps_rows"] else keeps_locks,
        "Find out what it is waiting for, and end it. Make the program commit or roll back sooner.",
    )


def _table_not_vacuumed(it: Mapping[str, Any]) -> Description:
    seconds = it["vacuumed_seconds"]
    last = "never vacuumed" if seconds is None else f"last vacuumed {age(seconds)} ago"
    reason = "; autovacuum is off for this table" if it["autovacuum_off"] else ""
    rows = f"{it['live_rows']:,} live rows, {it['dead_rows']:,} dead row versions"
    return Description(
        f"{it['table']}: {rows}, {last}{reason}",
        "Dead row versions make the table larger and slower.",
        "End long transactions first. Then vacuum the table, and find out why autovacuum doesn't keep up.",
    )


def _worker(it: Mapping[str, Any]) -> str:
    return f"{it['worker']} ({it['host']}, process {it['process']})"


def _worker_blocked(it: Mapping[str, Any]) -> Description:
    step = None if it["blocking_step"] is None else BlockingStep(**it["blocking_step"])
    return Description(
        f"{_worker(it)} is blocked: {blocked_text(it['seconds'], step)}",
        "It executes nothing. Other workers take over its runs when its leases expire.",
        'Stop it (SIGTERM), and make the step a sync task or give it isolation="process".',
    )


def _queue_paused(it: Mapping[str, Any]) -> Description:
    reason = f" (reason: {it['reason']})" if it["reason"] else ""
    return Description(
        f"{it['by'] or 'an unknown user'} paused the queue {it['queue']}{reason}; "
        f"{_count(it['runs'], 'run')} waiting in it",
        "Its runs don't start until an operator resumes it.",
        "Resume it when the reason no longer applies.",
    )


def _ready(it: Mapping[str, Any]) -> str:
    runs = _count(it["runs"], "run")
    return f"the queue {it['queue']} has {runs} ready (oldest: {age(it['oldest_seconds'])})"


def _leases_expired(it: Mapping[str, Any]) -> Description:
    workers = names([worker or "an unknown worker" for worker in it["workers"]], MAX_NAMED)
    return Description(
        f"{_count(it['steps'], 'step')} leased to {workers}; the oldest lease expired "
        f"{age(it['oldest_seconds'])} ago, and no worker has taken it over",
        "The workers that hold these leases were killed or are frozen, and no other worker has continued.",
        "Start a worker. It takes the steps over immediately.",
    )


def _held(it: Mapping[str, Any]) -> str:
    return f"; {_count(it['held_runs'], 'run')} on hold" if it["held_runs"] else ""


def _breaker_tripped(it: Mapping[str, Any]) -> Description:
    seconds = it["probe_in_seconds"]
    when = "as soon as a worker has work for it" if seconds is None else f"in {duration(seconds)}"
    state = status(it["breaker_state"], "breaker")
    return Description(
        f"the breaker {it['breaker']} is {state}{_held(it)}; next probe {when}",
        "Its dependency failed too often. Runs on hold resume automatically when the dependency recovers.",
        "If the dependency doesn't recover soon, repair it.",
    )


def _breaker_forced(it: Mapping[str, Any]) -> Description:
    seconds = it["remaining_seconds"]
    until = "" if seconds is None else f" for another {duration(seconds)}"
    closed = it["breaker_state"] == BreakerState.CLOSED
    return Description(
        f"{it['by']} forced the breaker {it['breaker']} {status(it['breaker_state'], 'breaker')}{until} "
        f"(reason: {it['reason']}){_held(it)}",
        "It won't open, no matter how many calls fail." if closed else "Runs that need it are on hold.",
        "Return it to automatic control when the reason no longer applies.",
    )


def _letters_handled(it: Mapping[str, Any]) -> Description:
    healing = it["self_healing"]
    rest = f"; {healing:,} {noun(healing, 'heals itself', 'heal themselves')}" if healing else ""
    return Description(f"none need you{rest}")


def _letters_need_you(it: Mapping[str, Any]) -> Description:
    number, spent = it["dead_letters"], it["exhausted"]
    exhausted = f" ({spent:,} without automatic redrives left)" if spent else ""
    late = f" The oldest has waited longer than {duration(it['limit_seconds'])}." if it["is_late"] else ""
    return Description(
        f"{number:,} {noun(number, 'needs', 'need')} you{exhausted}, "
        f"the oldest for {age(it['oldest_seconds'])}",
        f"They stay until an operator handles them.{late}",
        "Find out what they have in common, fix the cause, and replay them.",
    )


_DESCRIPTIONS: Mapping[FindingCode, Describe] = MappingProxyType(
    {
        FindingCode.CHECK_REFUSED: lambda it: _unchecked(it["error"]),
        FindingCode.PROGRAM: lambda it: Description(f"Redrive {it['redrive']} on Python {it['python']}"),
        # The database: a SQLite file
        FindingCode.SQLITE_IN_MEMORY: lambda it: Description("SQLite, in memory"),
        FindingCode.SQLITE_FILE: _sqlite_file,
        FindingCode.SQLITE_DURABLE: lambda it: Description(_modes(it)),
        FindingCode.SQLITE_SYNCHRONOUS_OFF: lambda it: Description(
            _modes(it),
            "A machine crash loses the last acknowledged writes and can damage the file.",
            "Create the application without durable=False.",
        ),
        FindingCode.SQLITE_WITHOUT_LOG: lambda it: Description(
            _modes(it),
            "Readers and writers block each other.",
            "Start a worker: the first one turns on the write-ahead log. If a worker has already run, check "
            "whether the file is on a network disk or another program changed the mode.",
        ),
        FindingCode.FILE_PRIVATE: lambda it: Description("only the owner can read and write the file"),
        FindingCode.FILE_OPEN_TO_OTHERS: lambda it: Description(
            f"other users of this machine can open the file (mode {it['mode']})",
            "The file contains payloads.",
            "Restrict the file to the user that runs the workers.",
        ),
        FindingCode.LOG_SIZE: lambda it: Description(size(it["bytes"])),
        FindingCode.LOG_LARGE: lambda it: Description(
            size(it["bytes"]),
            "A long read keeps SQLite from truncating the log: the log grows and reads slow down.",
            "End long transactions and backups in other programs that use the file.",
        ),
        FindingCode.DISK_SPACE: lambda it: Description(_space(it)),
        FindingCode.DISK_FULL: lambda it: Description(
            _space(it),
            "When the disk is full, no run can start and no result can be stored.",
            "Free some space, or lower retention_days to keep finished runs for a shorter time.",
        ),
        FindingCode.FILE_SYSTEM_LOCAL: lambda it: Description(f"{it['file_system']}, local"),
        FindingCode.FILE_SYSTEM_NETWORK: lambda it: Description(
            f"the file is on a network file system ({it['file_system']})",
            "SQLite's locks are unreliable there: two machines can damage the file.",
            "Move the file to a local disk, or use PostgreSQL.",
        ),
        FindingCode.FILE_SYSTEM_UNKNOWN: lambda it: _unchecked(
            "the operating system doesn't report the type"
        ),
        # The database: a PostgreSQL server
        FindingCode.SERVER: lambda it: Description(_server(it)),
        FindingCode.SERVER_IS_STANDBY: lambda it: Description(
            f"{_server(it)}; it is a standby",
            "It is read-only: no run can start, and no worker can use it.",
            "Point database_url at the primary, or list several hosts in it.",
        ),
        FindingCode.SERVER_DURABLE: _server_durable,
        FindingCode.FSYNC_OFF: lambda it: Description(
            "fsync is off",
            "A machine crash can damage the whole database beyond repair.",
            "Set fsync = on in postgresql.conf and reload the server.",
        ),
        FindingCode.SYNCHRONOUS_COMMIT_OFF: lambda it: Description(
            "synchronous_commit is off",
            "A server crash loses the last acknowledged writes.",
            "Set synchronous_commit = on for the server, the database or the user, or in database_url.",
        ),
        FindingCode.FULL_PAGE_WRITES_OFF: lambda it: Description(
            "full_page_writes is off",
            "A crash can leave partially written pages, unless the file system prevents that.",
            "Set full_page_writes = on in postgresql.conf and reload the server.",
        ),
        FindingCode.LOG_ARCHIVED: lambda it: Description(f"{_archive(it)}: the server archives its log"),
        FindingCode.LOG_NOT_ARCHIVED: lambda it: Description(
            f"{_archive(it)}: you can only restore from dumps"
        ),
        FindingCode.CLOCKS_AGREE: _clocks_agree,
        FindingCode.CLOCKS_DIFFER: _clocks_differ,
        FindingCode.NO_LONG_TRANSACTION: lambda it: Description(
            f"none older than {age(it['limit_seconds'])}"
        ),
        FindingCode.LONG_TRANSACTION: _long_transaction,
        FindingCode.PREPARED_TRANSACTION: lambda it: Description(
            f"one was prepared {age(it['seconds'])} ago and never finished: {it['name']}",
            "It holds its locks and blocks vacuum, even after a restart.",
            "Commit it or roll it back.",
        ),
        FindingCode.SESSIONS_HIDDEN: lambda it: _unchecked(
            f"Redrive's database user can't see {_count(it['sessions'], 'session')} of other users",
            "Ask an administrator to run GRANT pg_read_all_stats TO the database user of Redrive.",
        ),
        FindingCode.SLOT_INACTIVE: lambda it: Description(
            f"the slot {it['slot']} is inactive",
            "The server keeps its log for this slot until the disk is full.",
            "Start its standby, or drop the slot.",
        ),
        FindingCode.TABLES_VACUUMED: lambda it: Description(
            f"{size(it['bytes'])}, {_count(it['dead_rows'], 'dead row version')}"
        ),
        FindingCode.TABLE_NOT_VACUUMED: _table_not_vacuumed,
        FindingCode.AUTOVACUUM_OFF: lambda it: Description(
            "autovacuum is off on this server",
            "Old row versions are never removed: tables grow and every query slows down.",
            "Set autovacuum = on in postgresql.conf and reload the server.",
        ),
        FindingCode.CONNECTIONS_FREE: lambda it: Description(f"{it['used']} of {it['available']} in use"),
        FindingCode.CONNECTIONS_SCARCE: lambda it: Description(
            f"{it['used']} of {it['available']} in use",
            "Without a free connection, workers and servers can't start or reconnect.",
            "Run fewer processes, use a connection pooler, or raise max_connections.",
        ),
        FindingCode.CONNECTIONS_UNKNOWN: lambda it: _unchecked("the server doesn't report max_connections"),
        FindingCode.ISOLATED: lambda it: Description(
            "row-level security isolates the organizations, or will when a server starts"
        ),
        FindingCode.ONE_ORGANIZATION: lambda it: Description(
            f"{it['org']!r} is the only organization, so no row-level security is needed"
        ),
        FindingCode.ISOLATION_MISSING: lambda it: Description(
            "there are several organizations, but the role for row-level security is missing",
            "Servers do not start.",
            "Ask an administrator of PostgreSQL to run the missing statements.",
        ),
        # The tables
        FindingCode.SCHEMA_CURRENT: lambda it: Description(
            f"the tables are up to date (version {it['version']})"
        ),
        FindingCode.SCHEMA_OLDER: lambda it: Description(
            f"the tables are at version {it['version']}; this Redrive needs {it['newest']}",
            "The work was not checked. An application migrates its tables when it starts.",
            "To choose the moment yourself, migrate now.",
        ),
        FindingCode.SCHEMA_NEWER: lambda it: Description(
            f"the tables are at version {it['version']}; this Redrive supports up to {it['newest']}",
            "A newer Redrive migrated the tables, so this one refuses to use them.",
            "Install the newer Redrive here too.",
        ),
        FindingCode.SCHEMA_MISSING: lambda it: Description(
            "this database has no Redrive tables",
            "The work was not checked. An application migrates its tables when it starts.",
            "To choose the moment yourself, migrate now.",
        ),
        # The work
        FindingCode.NO_WORKER: lambda it: Description("no workers are running"),
        FindingCode.WORKERS_RUNNING: lambda it: Description(
            f"{_count(it['workers'], 'worker')} running, {it['in_flight']:,} of {it['slots']:,} slots in use"
        ),
        FindingCode.WORKER_SILENT: lambda it: Description(
            f"{_worker(it)} has not reported for {age(it['seconds'])}",
            "It was killed or is frozen. Other workers take over its runs when its leases expire.",
            "Start it again, unless you stopped it. Redrive drops it from the list after a day.",
        ),
        FindingCode.WORKER_BLOCKED: _worker_blocked,
        FindingCode.NOTHING_WAITS: lambda it: Description("nothing is waiting"),
        FindingCode.QUEUES_SERVED: lambda it: Description(
            f"{_count(it['runs'], 'run')} waiting in {_count(it['queues'], 'queue')}, none without a worker"
        ),
        FindingCode.QUEUE_PAUSED: _queue_paused,
        FindingCode.QUEUE_WITHOUT_WORKER: lambda it: Description(
            f"{_ready(it)} and no worker",
            "These runs can't start.",
            "Start a worker that serves this queue.",
        ),
        FindingCode.QUEUE_WILL_NEED_WORKER: lambda it: Description(
            f"the queue {it['queue']} has no worker; {_count(it['runs'], 'run')} in it will need one later",
            "The runs are waiting for their due time, a breaker or a limit. Then they will need a worker.",
            "Start a worker that serves this queue.",
        ),
        FindingCode.QUEUE_BACKLOG: lambda it: Description(
            _ready(it),
            "Work arrives faster than the workers finish it, or they are busy with other queues.",
            "Start more workers, or raise worker_concurrency.",
        ),
        FindingCode.WORK_KNOWN: lambda it: Description("workers know all ready work"),
        FindingCode.WORK_UNKNOWN: lambda it: Description(
            f"{unknown_work(it['holder'])}: {_count(it['runs'], 'run')}",
            "These runs can't start. Their task was renamed or removed, or its worker is not running.",
            "Start a worker that has the task, or give the renamed task its old name as an alias.",
        ),
        FindingCode.LEASES_CURRENT: lambda it: Description("no expired leases"),
        FindingCode.LEASES_EXPIRED: _leases_expired,
        FindingCode.TIMEOUTS_KEPT: lambda it: Description(
            "no step blocks a worker for longer than its timeout"
        ),
        FindingCode.TIMEOUT_EXCEEDED: lambda it: Description(
            f"run {it['run_id']}: {overrun_text(it['step'], it['seconds'], it['timeout_seconds'])}; "
            f"worker {it['worker']} executes it",
            "The step blocks the event loop of its worker, so the worker's other runs wait for it.",
            'An async task must not block. Make it a sync task, or give it isolation="process".',
        ),
        FindingCode.NOTHING_OVERDUE: lambda it: Description("no run is overdue"),
        FindingCode.WORK_OVERDUE: lambda it: Description(
            f"{_count(it['runs'], 'run')} overdue, the oldest for {age(it['oldest_seconds'])}",
            "Retries and scheduled runs don't start.",
            "Start a worker. If one is running, check its log.",
        ),
        FindingCode.NO_BREAKER: lambda it: Description("no breakers"),
        FindingCode.BREAKERS_CLOSED: lambda it: Description(
            f"{_count(it['breakers'], 'breaker')}, none open"
        ),
        FindingCode.BREAKER_TRIPPED: _breaker_tripped,
        FindingCode.BREAKER_FORCED: _breaker_forced,
        FindingCode.LETTERS_HANDLED: _letters_handled,
        FindingCode.LETTERS_NEED_YOU: _letters_need_you,
        FindingCode.LETTERS_FULL: lambda it: Description(
            f"an organization has {it['dead_letters']:,} live dead letters; dlq_max_size is {it['limit']:,}",
            "New permanent failures still become dead letters; the size only alerts.",
            "Replay, resolve or archive some dead letters, or raise dlq_max_size.",
        ),
        FindingCode.LETTERS_STUCK: lambda it: Description(
            f"{_count(it['dead_letters'], 'dead letter')} {noun(it['dead_letters'], 'waits', 'wait')} "
            f"for another one that is exhausted, ignored or archived",
            "No automatic redrive will resolve the other one, so they would wait forever.",
            "Replay or resolve the other one, or remove the dependency.",
        ),
        FindingCode.LETTERS_BLOCKING: lambda it: Description(
            f"{_count(it['runs'], 'run')} {noun(it['runs'], 'waits', 'wait')} for dead letters of earlier "
            f"runs with the same order key, of {_count(it['order_keys'], 'key')}",
            "They start when the dead letter is resolved, ignored or archived.",
            "Replay the dead letter, or close it.",
        ),
        FindingCode.NO_STREAM: lambda it: Description("no stream was ever read"),
        FindingCode.STREAMS_READ: lambda it: Description(f"consumers read {_count(it['streams'], 'stream')}"),
        FindingCode.STREAM_FAILING: lambda it: Description(
            f"{_stream(it)} can't be read: {it['error']}",
            "Its entries stay in Redis, and the consumer tries again.",
        ),
        FindingCode.STREAM_SILENT: lambda it: Description(
            f"no consumer has reported on {_stream(it)} for {age(it['seconds'])}",
            "Its entries stay in Redis until a consumer reads them.",
            "Start a consumer, or a worker with --streams.",
        ),
        FindingCode.STREAM_BEHIND: lambda it: Description(
            f"{_stream(it)} is behind: its oldest entry has waited for {age(it['seconds'])}"
            + ("" if it["lag"] is None else f", and {it['lag']:,} are not read yet"),
            "Projections are late, and Redis may trim the stream before a consumer has read it.",
            "Start more consumers or workers.",
        ),
        FindingCode.STREAM_PAUSED: lambda it: Description(
            f"{it['by'] or 'an operator'} paused {_stream(it)}",
            "Consumers read nothing. New entries stay in Redis.",
        ),
        FindingCode.STREAM_GAPS: lambda it: Description(
            f"{_stream(it)} has {_count(it['gaps'], 'gap')}: Redis removed entries that no consumer had read",
            "They were never stored.",
            "Publish them again if they matter, and let Redis keep more entries.",
        ),
        FindingCode.NO_KEY: lambda it: Description("no key is configured; payloads are stored unencrypted"),
        FindingCode.KEYS_COMPLETE: lambda it: Description(
            f"{_count(it['keys'], 'key')} configured; all unfinished runs can be decrypted"
        ),
        FindingCode.KEY_MISSING: lambda it: Description(
            f"{_count(it['runs'], 'unfinished run')} can't be decrypted here: encrypted with "
            f"the key {names(it['missing_keys'], MAX_NAMED)}, which is not configured",
            "Workers with these settings postpone these runs until they have the key.",
            "Add the key to encryption_keys, after the newest one.",
        ),
    }
)
