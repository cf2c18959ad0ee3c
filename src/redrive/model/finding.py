"""What the doctor can find: each code with its check and its fields. `redrive.words.finding` renders them."""

from __future__ import annotations

from redrive.model.code import DeclaredCode


class FindingCode(DeclaredCode):
    """A code that the doctor can report, with its check and the names of its fields.

    Durations are in seconds and sizes in bytes. Numbers of runs, steps and dead letters stop at 10,000.
    """

    @property
    def check(self) -> str:
        return self.group

    CHECK_REFUSED = "check_refused", "", "error"
    """The database refused a check; the finding names it."""

    PROGRAM = "program", "program", "redrive python"

    # The database: a SQLite file
    SQLITE_IN_MEMORY = "sqlite_in_memory", "database"
    SQLITE_FILE = "sqlite_file", "database", "version path bytes free_bytes"
    SQLITE_DURABLE = "sqlite_durable", "durability", "journal_mode synchronous"
    SQLITE_SYNCHRONOUS_OFF = "sqlite_synchronous_off", "durability", "journal_mode synchronous"
    SQLITE_WITHOUT_LOG = "sqlite_without_log", "durability", "journal_mode synchronous"
    FILE_PRIVATE = "file_private", "file permissions"
    FILE_OPEN_TO_OTHERS = "file_open_to_others", "file permissions", "mode"
    LOG_SIZE = "log_size", "write-ahead log", "bytes"
    LOG_LARGE = "log_large", "write-ahead log", "bytes"
    DISK_SPACE = "disk_space", "disk", "free_bytes bytes"
    DISK_FULL = "disk_full", "disk", "free_bytes bytes"
    FILE_SYSTEM_LOCAL = "file_system_local", "file system", "file_system"
    FILE_SYSTEM_NETWORK = "file_system_network", "file system", "file_system"
    FILE_SYSTEM_UNKNOWN = "file_system_unknown", "file system"

    # The database: a PostgreSQL server
    SERVER = "server", "database", "version database bytes"
    SERVER_IS_STANDBY = "server_is_standby", "database", "version database bytes"
    SERVER_DURABLE = "server_durable", "durability", "fsync synchronous_commit full_page_writes"
    FSYNC_OFF = "fsync_off", "durability"
    SYNCHRONOUS_COMMIT_OFF = "synchronous_commit_off", "durability"
    FULL_PAGE_WRITES_OFF = "full_page_writes_off", "durability"
    LOG_ARCHIVED = "log_archived", "backups", "wal_level archive_mode"
    LOG_NOT_ARCHIVED = "log_not_archived", "backups", "wal_level archive_mode"
    CLOCKS_AGREE = "clocks_agree", "clock", "seconds"
    CLOCKS_DIFFER = "clocks_differ", "clock", "seconds server_ahead"
    NO_LONG_TRANSACTION = "no_long_transaction", "transactions", "limit_seconds"
    LONG_TRANSACTION = "long_transaction", "transactions", "seconds program user process activity keeps_rows"
    PREPARED_TRANSACTION = "prepared_transaction", "transactions", "seconds name"
    SESSIONS_HIDDEN = "sessions_hidden", "transactions", "sessions"
    SLOT_INACTIVE = "slot_inactive", "replication", "slot"
    TABLES_VACUUMED = "tables_vacuumed", "tables", "bytes dead_rows"
    TABLE_NOT_VACUUMED = (
        "table_not_vacuumed",
        "tables",
        "table live_rows dead_rows vacuumed_seconds autovacuum_off",
    )
    AUTOVACUUM_OFF = "autovacuum_off", "tables"
    CONNECTIONS_FREE = "connections_free", "connections", "used available"
    CONNECTIONS_SCARCE = "connections_scarce", "connections", "used available"
    CONNECTIONS_UNKNOWN = "connections_unknown", "connections"
    ISOLATED = "isolated", "isolation"
    ONE_ORGANIZATION = "one_organization", "isolation", "org"
    ISOLATION_MISSING = "isolation_missing", "isolation"

    # The tables
    SCHEMA_CURRENT = "schema_current", "schema", "version"
    SCHEMA_OLDER = "schema_older", "schema", "version newest"
    SCHEMA_NEWER = "schema_newer", "schema", "version newest"
    SCHEMA_MISSING = "schema_missing", "schema"

    # The work
    NO_WORKER = "no_worker", "workers"
    WORKERS_RUNNING = "workers_running", "workers", "workers in_flight slots"
    WORKER_SILENT = "worker_silent", "workers", "worker host process seconds"
    WORKER_BLOCKED = "worker_blocked", "workers", "worker host process seconds blocking_step"
    NOTHING_WAITS = "nothing_waits", "queues"
    QUEUES_SERVED = "queues_served", "queues", "runs queues"
    QUEUE_PAUSED = "queue_paused", "queues", "queue by reason runs"
    QUEUE_WITHOUT_WORKER = "queue_without_worker", "queues", "queue runs oldest_seconds"
    QUEUE_WILL_NEED_WORKER = "queue_will_need_worker", "queues", "queue runs"
    QUEUE_BACKLOG = "queue_backlog", "queues", "queue runs oldest_seconds"
    WORK_KNOWN = "work_known", "unknown work"
    WORK_UNKNOWN = "work_unknown", "unknown work", "holder runs"
    LEASES_CURRENT = "leases_current", "leases"
    LEASES_EXPIRED = "leases_expired", "leases", "steps workers oldest_seconds"
    TIMEOUTS_KEPT = "timeouts_kept", "timeouts"
    TIMEOUT_EXCEEDED = "timeout_exceeded", "timeouts", "run_id step seconds timeout_seconds worker"
    NOTHING_OVERDUE = "nothing_overdue", "overdue work"
    WORK_OVERDUE = "work_overdue", "overdue work", "runs oldest_seconds"
    NO_BREAKER = "no_breaker", "breakers"
    BREAKERS_CLOSED = "breakers_closed", "breakers", "breakers"
    BREAKER_TRIPPED = "breaker_tripped", "breakers", "breaker breaker_state held_runs probe_in_seconds"
    BREAKER_FORCED = (
        "breaker_forced",
        "breakers",
        "breaker breaker_state by reason remaining_seconds held_runs",
    )
    LETTERS_HANDLED = "letters_handled", "dead letters", "self_healing"
    LETTERS_NEED_YOU = (
        "letters_need_you",
        "dead letters",
        "dead_letters exhausted oldest_seconds limit_seconds is_late",
    )
    LETTERS_FULL = "letters_full", "dead letters", "dead_letters limit"
    LETTERS_STUCK = "letters_stuck", "dead letters", "dead_letters dead_letter_id"
    LETTERS_BLOCKING = "letters_blocking", "dead letters", "runs order_keys dead_letter_id"
    NO_STREAM = "no_stream", "streams"
    STREAMS_READ = "streams_read", "streams", "streams"
    STREAM_FAILING = "stream_failing", "streams", "stream org error"
    STREAM_SILENT = "stream_silent", "streams", "stream org seconds"
    STREAM_BEHIND = "stream_behind", "streams", "stream org seconds lag"
    STREAM_PAUSED = "stream_paused", "streams", "stream org by"
    STREAM_GAPS = "stream_gaps", "streams", "stream org gaps"
    NO_KEY = "no_key", "encryption"
    KEYS_COMPLETE = "keys_complete", "encryption", "keys"
    KEY_MISSING = "key_missing", "encryption", "missing_keys runs"
