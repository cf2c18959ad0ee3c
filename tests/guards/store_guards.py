"""Guards of the store: idempotent starts, orgs, dead letters, cancellation, retention and the databases."""

from __future__ import annotations

from collections.abc import Iterator

from tests.guards.guard import Guard
from tests.guards.patch import ALWAYS, Code, Schema, Side, Sql

ORGS = "tests/guards/test_orgs.py::"
RUNS = "tests/store/test_runs.py::"
RECORDS = "tests/store/test_records.py::"
RETENTION = "tests/store/test_retention.py::"
SQLITE = "tests/store/test_sqlite.py::"
POSTGRES = "tests/store/test_postgres.py::"
FORKING = "tests/test_forking.py::"
SIDES = ("sqlite", "postgres")
SILENT = "tests/store/test_silent_hosts.py::"
FOREIGN = "tests/store/test_foreign.py::"
MIGRATION = "tests/store/test_migration.py::"
CONVERSION = "tests/store/test_conversion.py::"
HOLDS = "tests/store/test_limits.py::"
BAD_INPUT = "tests/engine/test_bad_input.py::"
MOVES = "tests/guards/test_moves.py::"
LOCKS = "tests/guards/test_locks.py::"
LOCKED = f"{LOCKS}test_locked_rows_stay_locked_until_the_transaction_ends"
PASSED_OVER = f"{LOCKS}test_locked_rows_are_skipped"
OTHERS = f"{MOVES}test_a_change_of_one_run_does_not_change_others"
SQLITE_ONLY: tuple[Side, ...] = ("sqlite",)
"""On PostgreSQL each place is a table, so a statement cannot reach a run in another place."""
POSTGRES_ONLY: tuple[Side, ...] = ("postgres",)

ORG = r"(?<!\w)org = [?$]\d+"
FOREIGN_RUN = f"{RUNS}test_a_run_of_another_org_does_not_exist_i8"
PARTS_OF_A_RUN = f"{ORGS}test_nothing_about_a_run_of_another_org_is_revealed_i8"
FILTERED = {
    "get": ("a run", f"{FOREIGN_RUN}[{{}}-get]"),
    "outcome": ("the result of a run", f"{FOREIGN_RUN}[{{}}-outcome]"),
    "steps": ("the steps of a run", f"{PARTS_OF_A_RUN}[{{}}-steps]"),
    "attempts": ("the attempts of a run", f"{PARTS_OF_A_RUN}[{{}}-attempts]"),
    "events": ("the events of a run", f"{PARTS_OF_A_RUN}[{{}}-events]"),
    "count_by_state": ("the run counts", f"{RUNS}test_counts_are_those_of_the_org_and_add_up_i8_i16[{{}}]"),
    "count_by_place": ("the run counts", f"{RUNS}test_counts_are_those_of_the_org_and_add_up_i8_i16[{{}}]"),
}


def _orgs() -> Iterator[Guard]:
    for name, (what, test) in FILTERED.items():
        tests = tuple(test.format(side) for side in ("sqlite", "postgres"))
        yield Guard(f"{name}.org", f"an org sees {what} of another org", (Sql(f"runs.{name}", ORG),), tests)


def _both(test: str, which: str = "") -> tuple[str, ...]:
    return tuple(f"{test}[{side}-{which}]" if which else f"{test}[{side}]" for side in ("sqlite", "postgres"))


NOT_CANCELLED = r"(?:lease\.)?cancel_requested_at IS NULL"
ID = r"(?<![\w.])id = [?$]\d+"
NOW = r"(\?1|date_part\('epoch', now\(\)\))"
LOCK = r"FOR UPDATE(?: SKIP LOCKED)?"
LIVE = r"state NOT IN \('OPEN', 'REPLAYING', 'EXHAUSTED'\)"

GUARDS = (
    *_orgs(),
    Guard(
        "cancel_idle.org",
        "an org cancels another org's waiting run",
        (Sql("runs.cancel_idle", ORG, sides=SQLITE_ONLY),),
        (f"{ORGS}test_a_waiting_run_of_another_org_is_not_cancelled_i8[sqlite-0.0]",),
    ),
    Guard(
        "cancel_idle.id",
        "cancelling one run cancels other runs",
        (Sql("runs.cancel_idle", ID, sides=SQLITE_ONLY),),
        (f"{OTHERS}[sqlite-cancel_idle, ready]",),
    ),
    *(
        guard
        for table, delay, place in (("ready", "0.0", "ready"), ("idle", "60.0", "waiting"))
        for guard in (
            Guard(
                f"cancel_idle.org, {table}",
                f"an org cancels another org's run in the table {table}",
                (
                    Sql(
                        "runs.cancel_idle",
                        rf"(redrive\.{table} WHERE id = \$\d+ AND )(org = \$\d+)",
                        r"\1(\2 OR 1 = 1)",
                        POSTGRES_ONLY,
                    ),
                ),
                (f"{ORGS}test_a_waiting_run_of_another_org_is_not_cancelled_i8[postgres-{delay}]",),
            ),
            Guard(
                f"cancel_idle.id, {table}",
                f"cancelling one run cancels other runs in the table {table}",
                (
                    Sql(
                        "runs.cancel_idle",
                        rf"(redrive\.{table} WHERE )(id = \$\d+)",
                        r"\1(\2 OR 1 = 1)",
                        POSTGRES_ONLY,
                    ),
                ),
                (f"{OTHERS}[postgres-cancel_idle, {place}]",),
            ),
        )
    ),
    Guard(
        "cancel_leased.id",
        "a request to cancel one run is recorded on other runs",
        (Sql("runs.cancel_leased", ID),),
        _both(OTHERS, "cancel_leased"),
    ),
    Guard(
        "cancel_leased.place",
        "a request to cancel is recorded on a finished run",
        (Sql("runs.cancel_leased", "place = 'leased'", sides=SQLITE_ONLY),),
        (f"{RUNS}test_a_finished_run_does_not_change[sqlite]",),
    ),
    Guard(
        "cancel_leased.first",
        "a second request to cancel overwrites the time of the first",
        (Sql("runs.cancel_leased", rf"COALESCE\(cancel_requested_at, {NOW}\)", r"\1"),),
        _both(f"{MOVES}test_a_second_cancellation_keeps_the_time_of_the_first"),
    ),
    *(
        Guard(
            f"{name}.first failure",
            "each failure overwrites the time of the first failure",
            (Sql(f"records.{name}", rf"COALESCE\((?:lease\.)?first_failed_at, {NOW}\)", r"\1"),),
            _both(f"{MOVES}test_the_first_failure_stays_the_first", name),
        )
        for name in ("reschedule", "stop")
    ),
    Guard(
        "cancel_leased.org",
        "an org cancels another org's run in progress",
        (Sql("runs.cancel_leased", ORG),),
        (f"{FOREIGN_RUN}[sqlite-cancel]", f"{FOREIGN_RUN}[postgres-cancel]"),
    ),
    Guard(
        "known.org",
        "the idempotency keys of two orgs collide",
        (Sql("runs.known", ORG),),
        (f"{RUNS}test_orgs_have_their_own_keys_i8",),
    ),
    Guard(
        "enqueue.unique key",
        "one idempotency key starts two runs",
        (
            Schema("CREATE UNIQUE INDEX runs_idempotency", "CREATE INDEX runs_idempotency"),
            Schema("CREATE UNIQUE INDEX run_inputs_idempotency", "CREATE INDEX run_inputs_idempotency"),
        ),
        (f"{RUNS}test_the_same_key_for_the_same_work_is_the_same_run",),
    ),
    Guard(
        "enqueue.conflict",
        "a repeated start fails instead of finding the run",
        (Sql("runs.enqueue", "ON CONFLICT DO NOTHING", ""),),
        (f"{RUNS}test_the_same_ids_again_change_nothing",),
    ),
    Guard(
        "enqueue_mixed.conflict",
        "a repeated start of a delayed run fails instead of finding the run",
        (Sql("runs.enqueue_mixed", "ON CONFLICT DO NOTHING", ""),),
        _both(f"{MOVES}test_a_start_that_is_repeated_does_not_start_again_i1", "60.0"),
    ),
    Guard(
        "enqueue_mixed.given",
        "a repeated start of a delayed run executes it again after it has finished",
        (Sql("runs.enqueue_mixed", "JOIN given", "LEFT JOIN given", POSTGRES_ONLY),),
        tuple(
            f"{MOVES}test_a_finished_run_is_not_started_again_i1[postgres-0.01-{by}]" for by in ("id", "key")
        ),
    ),
    *(
        Guard(
            f"enqueue_mixed.into {table}",
            "a new run is in two tables and is executed twice",
            (Sql("runs.enqueue_mixed", rf"(?<=FROM due WHERE )due_at {sign} {NOW}", ALWAYS, POSTGRES_ONLY),),
            (f"{MOVES}test_a_new_run_is_in_one_table[{caught}]",),
        )
        for table, sign, caught in (("ready", "<=", "idle"), ("idle", ">", "ready"))
    ),
    *(
        Guard(
            f"{name}.duplicate",
            "a repeated start fails instead of finding the runs",
            (
                Code(
                    f"redrive.store.runs:RunStore.{name}",
                    "suppress(DuplicateRowError)",
                    "suppress(LookupError)",
                ),
            ),
            (f"{RUNS}{caught}",),
        )
        for name, caught in (
            ("enqueue", "test_some_of_a_batch_may_be_known"),
            ("enqueue_pieces", "test_pieces_that_are_stored_again_change_nothing"),
        )
    ),
    Guard(
        "enqueue_new.no key",
        "a run is stored without its idempotency key",
        (Code("redrive.store.runs:_are_plain", "all(run.idempotency_key is None for run in runs) and ", ""),),
        (f"{RUNS}test_the_same_key_for_the_same_work_is_the_same_run[postgres]",),
    ),
    Guard(
        "enqueue.same request",
        "a start with a key in use returns another run, and its own work is lost",
        (Code("redrive.store.runs:_same_request", "known_hash != run.request_hash", "False"),),
        (f"{RUNS}test_the_same_key_for_other_work_is_a_conflict",),
    ),
    Guard(
        "enqueue.all or nothing",
        "part of a rejected batch is stored",
        (
            Code(
                "redrive.store.runs:RunStore.enqueue",
                "if len(runs) == 1 or all(run.idempotency_key is None for run in runs):",
                "if True:",
            ),
        ),
        (f"{RUNS}test_a_conflict_refuses_the_whole_batch_i1",),
    ),
    Guard(
        "enqueue.ids of the client",
        "a start whose response was lost is stored twice",
        (
            Code(
                "redrive.engine.enqueue:Enqueuer._store_runs",
                "partial(self._store.runs.enqueue, runs, definitions)",
                "lambda: self._store.runs.enqueue("
                "[run.replace(id=self._ids.new()) for run in runs], definitions)",
            ),
        ),
        (
            "tests/engine/test_recorder.py::"
            "test_starting_survives_a_short_outage_and_stores_nothing_twice[enqueue_new-after the commit]",
        ),
    ),
    Guard(
        "one live dead letter",
        "one step has two live dead letters",
        (
            Schema("CREATE UNIQUE INDEX dead_letters_of_run", "CREATE INDEX dead_letters_of_run"),
            Sql("records.insert_dead_letter", r"(?s)ON CONFLICT.*", ""),
        ),
        (f"{RECORDS}test_dying_again_reopens_the_live_dead_letter_i7",),
    ),
    Guard(
        "records are one transaction",
        "half a record is stored: a failed run without its dead letter",
        (
            Code(
                "redrive.store.records:Records._record",
                "recorded |= await self.record_within(session, ",
                "pass\n    recorded |= await self.record_within(self._session, ",
            ),
        ),
        (f"{RECORDS}test_all_or_nothing_w2",),
    ),
    Guard(
        "finished steps are one transaction",
        "a run advances without the result of its step",
        (
            Code(
                "redrive.store.records:Records._hand_over",
                "async with self._session.transaction() as session:",
                "for session in [self._session]:",
            ),
        ),
        (f"{RECORDS}test_a_finished_step_is_all_or_nothing_w2",),
    ),
    Guard(
        "slots never below zero",
        "a limit counts more free slots than it has slots",
        (Sql("records.free_slots", r"CASE WHEN in_use > \S+ THEN (in_use - \S+) ELSE 0 END", r"\1"),),
        (f"{RECORDS}test_slots_of_a_batch_are_counted_together_and_never_below_zero",),
    ),
    Guard(
        "advance.cancel",
        "a cancelled run starts another step",
        (Sql("records.advance", NOT_CANCELLED),),
        (f"{RECORDS}test_a_run_cancelled_in_the_meantime_does_not_continue_in_place",),
    ),
    Guard(
        "advance_step.cancel",
        "a run cancelled while its step was finishing starts another step",
        (Sql("records.advance_step", NOT_CANCELLED),),
        (f"{RECORDS}test_a_finished_step_of_a_cancelled_run_is_handed_over",),
    ),
    Guard(
        "reschedule.cancel",
        "a cancelled run waits for its retry before it ends",
        (Sql("records.reschedule", NOT_CANCELLED),),
        (f"{RECORDS}test_a_run_cancelled_in_the_meantime_is_ready_immediately",),
    ),
    Guard(
        "park.cancel",
        "a cancelled run waits for a breaker before it ends",
        (Sql("records.park", NOT_CANCELLED),),
        (f"{RECORDS}test_a_run_cancelled_in_the_meantime_is_not_held",),
    ),
    Guard(
        "cancel_idle.place",
        "a cancellation overwrites a finished run or a run in progress",
        (Sql("runs.cancel_idle", r"\(place IN [^)]*\)\)", sides=SQLITE_ONLY),),
        (f"{RUNS}test_a_finished_run_does_not_change[sqlite]",),
    ),
    Guard(
        "retention.live",
        "retention removes an unresolved dead letter",
        (
            Code("redrive.store.runs:RunStore.remove_expired", "if run.id not in live", ""),
            Sql("runs.expired_failures", r"'OPEN', 'REPLAYING', 'EXHAUSTED', 'ARCHIVED'", "'NONE'"),
        ),
        (f"{RETENTION}test_one_live_dead_letter_of_several_is_enough_i1",),
    ),
    Guard(
        "retention.lock",
        "retention removes a run while it is being replayed",
        (Sql("runs.expired_failures", LOCK, "", POSTGRES_ONLY),),
        (f"{LOCKED}[expired_failures]",),
    ),
    Guard(
        "expired.lock",
        "two processes remove the same runs",
        (Sql("runs.expired", LOCK, "", POSTGRES_ONLY),),
        (f"{LOCKED}[expired]",),
    ),
    *(
        Guard(
            f"{name}.skip locked",
            "retention waits for a transaction that has locked one of the old runs",
            (Sql(f"runs.{name}", " SKIP LOCKED", "", POSTGRES_ONLY),),
            (f"{PASSED_OVER}[{name}]",),
        )
        for name in ("expired", "expired_failures")
    ),
    Guard(
        "expired.state",
        "retention removes a failed run that has no dead letter",
        (Sql("runs.expired", r"state IN \('SUCCESS', 'CANCELLED'\)"),),
        _both(OTHERS, "delete_run"),
    ),
    Guard(
        "expired.age",
        "retention removes a run that has just ended",
        (Sql("runs.expired", r"ended_at < (?:\?1|date_part\('epoch', now\(\)\)) - [?$]\d+"),),
        _both(f"{MOVES}test_a_run_that_has_just_ended_is_kept"),
    ),
    Guard(
        "delete_run.id",
        "removing one run removes all runs",
        (Sql("runs.delete_run", rf"{ID}$"),),
        _both(OTHERS, "delete_run"),
    ),
    Guard(
        "delete_run.id of the work",
        "removing one run removes the rows of all finished runs",
        (Sql("runs.delete_run", rf"{ID}(?=\))", sides=POSTGRES_ONLY),),
        (f"{OTHERS}[postgres-delete_run]",),
    ),
    Guard(
        "retention.dead letters",
        "retention removes a live dead letter together with its run",
        (Sql("runs.delete_dead_letters", LIVE),),
        doubled_by="retention.live: a run with a live dead letter is not removed",
    ),
    Guard(
        "retention.ended",
        "retention removes a run that has not ended",
        (Sql("runs.expired", "place = 'ended'", sides=SQLITE_ONLY),),
        doubled_by="expired.state and expired.age: only a finished run has such a state and an end time",
    ),
    Guard(
        "limits.lock",
        "two workers take the last slot",
        (Sql("limits.lock_limit", LOCK, "", ("postgres",)),),
        (f"{HOLDS}test_concurrent_callers_never_take_more_tokens_than_exist[postgres]",),
    ),
    Guard(
        "limits.in use",
        "a counter in use is deleted",
        (Sql("limits.forget_limits", "in_use = 0"),),
        (f"{HOLDS}test_unused_counters_are_removed",),
    ),
    Guard(
        "breakers.lock",
        "one worker's report to a breaker overwrites another's",
        (Sql("limits.lock_breaker", LOCK, "", ("postgres",)),),
        (f"{HOLDS}test_concurrent_changes_of_a_breaker_are_all_kept[postgres-True]",),
    ),
    Guard(
        "release.holder",
        "a breaker or limit releases a run that another one holds",
        (Sql("limits.release", r"held_by = [?$]\d+"),),
        (f"{HOLDS}test_only_keys_of_this_holder_are_released",),
    ),
    Guard(
        "silent host",
        "a silent host in the address keeps Redrive from using the next one",
        (
            Code(
                "redrive.store.postgres_hosts:Hosts._first",
                "timeout=HOST_DELAY if left else None",
                "timeout=None",
            ),
        ),
        (f"{SILENT}test_7_a_silent_first_host_is_passed_by_and_then_tried_last",),
    ),
    Guard(
        "silent server",
        "a statement waits for a frozen server until its own timeout",
        (
            Code(
                "redrive.store.postgres_connections:Connections.lend",
                "self._watch.add(connection, loop)",
                "pass",
            ),
        ),
        (f"{SILENT}test_7_a_frozen_server_is_left_for_another_host[statement]",),
    ),
    Guard(
        "cancelled statement",
        "the server executes and commits the statement of a caller that was cancelled",
        (
            Code(
                "redrive.store.postgres_cancellation:Cancellations._end",
                'await connection.execute("SELECT 1")',
                "pass",
            ),
        ),
        ("tests/store/test_postgres.py::test_a_cancelled_statement_is_not_committed_later",),
    ),
    Guard(
        "fork.loop",
        "a forked child waits forever for a thread of its parent",
        (
            Code(
                "redrive.engine.background_loop:BackgroundLoop.after_fork_in_child",
                "self._loop = self._thread = self._pause = None",
                "pass",
            ),
        ),
        tuple(f"{FORKING}test_start_works_in_a_child_and_after_it_in_the_parent[{side}]" for side in SIDES),
    ),
    Guard(
        "fork.sqlite",
        "a forked child uses a SQLite database that its parent has open",
        (
            Code(
                "redrive.store.sqlite_session:SqliteSession.before_fork",
                "self._pause = self._thread.pause(self._close_unless_in_use)",
                "pass",
            ),
        ),
        (f"{FORKING}test_sqlite_is_closed_during_the_fork",),
    ),
    Guard(
        "fork.sqlite in a transaction",
        "a child that was forked during a transaction uses the SQLite database",
        (
            Code(
                "redrive.store.sqlite_session:SqliteSession.after_fork_in_child",
                "_open_at_fork.add(self._file)",
                "pass",
            ),
        ),
        (f"{FORKING}test_a_child_of_a_transaction_on_sqlite_is_refused",),
    ),
    Guard(
        "fork.finalizers",
        "a forked child disturbs the event loop and the connections of its parent",
        (Code("redrive.forking:never_finalize", "pythonapi.Py_IncRef(py_object(thing))", "pass"),),
        (f"{FORKING}test_a_child_that_does_nothing_disturbs_no_event_loop_of_the_parent[postgres]",),
    ),
    Guard(
        "migration.lock",
        "two processes create the tables at the same time",
        (
            Code(
                "redrive.store.postgres_migration:migrate",
                "await connection.execute(_LOCK, _lock_key(schema), timeout=TIMEOUT)",
                "pass",
            ),
        ),
        (f"{POSTGRES}test_many_migrate_at_once",),
    ),
    Guard(
        "migration.newer",
        "an old version of Redrive writes to the tables of a newer one",
        (Code("redrive.store.migration:pending", "if version > newest:", "if False:"),),
        (f"{MIGRATION}test_tables_of_a_newer_program_are_refused",),
    ),
    Guard(
        "conversion.drained workers",
        "the tables of 0.1 are converted while workers use them",
        (Code("redrive.store.drain:require_drained", "if not names:", "if True:"),),
        (f"{CONVERSION}test_it_is_refused_while_a_worker_is_alive",),
    ),
    Guard(
        "conversion.heartbeats",
        "the conversion of 0.1 misses a worker that starts meanwhile",
        (
            Code(
                "redrive.store.postgres_migration:migrate",
                "await _lock(connection, schema, qualified, _HEARTBEATS)",
                "pass",
            ),
        ),
        (f"{CONVERSION}test_a_worker_cannot_report_while_the_conversion_runs",),
    ),
    Guard(
        "private file",
        "other users of the machine read payloads",
        (Code("redrive.store.sqlite_session:_create_private", "0o600", "0o644"),),
        (f"{SQLITE}test_only_the_owner_may_read_the_file",),
    ),
    Guard(
        "durable commits",
        "a power failure loses acknowledged writes",
        (
            Code(
                "redrive.store.sqlite_session:SqliteSession._open",
                '"full" if self._durable else "off"',
                '"off"',
            ),
        ),
        (f"{SQLITE}test_every_commit_is_on_disk_before_it_is_reported",),
    ),
    Guard(
        "replaced file",
        "a worker writes to a database file that was removed",
        (
            Code(
                "redrive.store.sqlite_session:SqliteSession._open",
                "elif self._file is not None and _identity(self.path) != self._file:",
                "elif False:",
            ),
        ),
        ("tests/engine/test_worker.py::test_a_file_that_is_removed_under_the_worker_is_noticed",),
    ),
    Guard(
        "immediate transactions",
        "a transaction that has read cannot write because another transaction wrote first",
        (Code("redrive.store.sqlite_session:SqliteSession._begin", "BEGIN IMMEDIATE", "BEGIN"),),
        ("tests/guards/test_fences.py::test_a_transaction_that_has_read_may_write",),
    ),
    Guard(
        "failed commit",
        "a rolled-back transaction counts as committed",
        (
            Code(
                "redrive.store.postgres_session:PostgresSession._commit",
                'if await self._call(connection.execute, "COMMIT") != "COMMIT":',
                'if not await self._call(connection.execute, "COMMIT"):',
            ),
        ),
        (f"{POSTGRES}test_a_failure_that_the_body_ignores_is_not_a_success",),
    ),
    Guard(
        "rolled back or thrown away",
        "the pool hands out a connection in the middle of a transaction",
        (
            Code(
                "redrive.store.postgres_session:PostgresSession._transaction",
                "await _finished(self._roll_back(connection))",
                "pass",
            ),
        ),
        doubled_by="asyncpg's pool, which rolls back open transactions on returned connections",
    ),
    Guard(
        "foreign transaction",
        "a start commits outside the caller's transaction",
        (
            Code(
                "redrive.store.joined.drivers:AsyncpgDriver.check",
                "if not self._connection.is_in_transaction():",
                "if False:",
            ),
        ),
        (f"{FOREIGN}test_asyncpg_outside_a_transaction",),
    ),
    Guard(
        "foreign completion",
        "a worker that lost its lease commits its side effect",
        (
            Code(
                "redrive.engine.executor:Executor._write_within",
                "if recorded is None:",
                "if False:",
            ),
        ),
        ("tests/guards/test_transactions.py::test_a_task_that_has_lost_its_lease_is_asked_to_roll_back",),
    ),
    Guard(
        "foreign completion.committed",
        "a step counts as done although its transaction was rolled back",
        (
            Code(
                "redrive.engine.executor:Executor._confirm",
                "if work.claim.id not in written:",
                "if False:",
            ),
        ),
        ("tests/guards/test_transactions.py::test_a_completion_that_was_rolled_back_is_a_failure",),
    ),
    Guard(
        "stored definition",
        "a run executes with a definition that was altered in the database",
        (Code("redrive.engine.definition:Definitions.get", "if known.digest != digest:", "if False:"),),
        (f"{BAD_INPUT}test_a_run_with_an_unreadable_definition_stops_no_other_run_and_is_not_lost",),
    ),
    Guard(
        "known queues",
        "a run is started in an unknown queue that no worker serves",
        (Code("redrive.engine.registry:Registry.queue", "if name not in self.queues:", "if False:"),),
        (f"{BAD_INPUT}test_unknown_names_are_refused_with_a_suggestion",),
    ),
)
