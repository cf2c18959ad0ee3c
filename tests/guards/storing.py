"""The guards of what is stored: starting once, orgs, dead letters, cancellation, retention, the databases."""

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
FOREIGN = "tests/store/test_foreign.py::"
MIGRATION = "tests/store/test_migration.py::"
CONVERSION = "tests/store/test_conversion.py::"
HOLDS = "tests/store/test_limits.py::"
BAD_INPUT = "tests/engine/test_bad_input.py::"
MOVES = "tests/guards/test_moves.py::"
LOCKS = "tests/guards/test_locks.py::"
LOCKED = f"{LOCKS}test_what_is_locked_stays_so_until_the_transaction_ends"
PASSED_OVER = f"{LOCKS}test_what_somebody_has_locked_is_passed_over"
OTHERS = f"{MOVES}test_what_is_done_to_one_run_leaves_others_as_they_are"
SQLITE_ONLY: tuple[Side, ...] = ("sqlite",)
"""On PostgreSQL, a place is a table: work that is elsewhere is not in it."""
POSTGRES_ONLY: tuple[Side, ...] = ("postgres",)

ORG = r"(?<!\w)org = [?$]\d+"
FOREIGN_RUN = f"{RUNS}test_a_foreign_run_is_not_there_i8"
PARTS_OF_A_RUN = f"{ORGS}test_nothing_of_a_foreign_run_is_told_i8"
FILTERED = {
    "get": ("a run", f"{FOREIGN_RUN}[{{}}-get]"),
    "outcome": ("the result of a run", f"{FOREIGN_RUN}[{{}}-outcome]"),
    "steps": ("the steps of a run", f"{PARTS_OF_A_RUN}[{{}}-steps]"),
    "attempts": ("the attempts of a run", f"{PARTS_OF_A_RUN}[{{}}-attempts]"),
    "events": ("the events of a run", f"{PARTS_OF_A_RUN}[{{}}-events]"),
    "count_by_state": ("numbers", f"{RUNS}test_counts_are_those_of_the_org_and_add_up_i8_i16[{{}}]"),
    "count_by_place": ("numbers", f"{RUNS}test_counts_are_those_of_the_org_and_add_up_i8_i16[{{}}]"),
}


def _orgs() -> Iterator[Guard]:
    for name, (what, test) in FILTERED.items():
        tests = tuple(test.format(side) for side in ("sqlite", "postgres"))
        yield Guard(f"{name}.org", f"an org seeing {what} of another", (Sql(f"runs.{name}", ORG),), tests)


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
        "an org cancelling what waits for another",
        (Sql("runs.cancel_idle", ORG, sides=SQLITE_ONLY),),
        (f"{ORGS}test_a_foreign_run_that_waits_is_not_cancelled_i8[sqlite-0.0]",),
    ),
    Guard(
        "cancel_idle.id",
        "a cancellation reaching other runs",
        (Sql("runs.cancel_idle", ID, sides=SQLITE_ONLY),),
        (f"{OTHERS}[sqlite-cancel_idle, ready]",),
    ),
    *(
        guard
        for table, delay, place in (("ready", "0.0", "ready"), ("idle", "60.0", "waiting"))
        for guard in (
            Guard(
                f"cancel_idle.org, {table}",
                f"an org cancelling what lies in {table} for another",
                (
                    Sql(
                        "runs.cancel_idle",
                        rf"(redrive\.{table} WHERE id = \$\d+ AND )(org = \$\d+)",
                        r"\1(\2 OR 1 = 1)",
                        POSTGRES_ONLY,
                    ),
                ),
                (f"{ORGS}test_a_foreign_run_that_waits_is_not_cancelled_i8[postgres-{delay}]",),
            ),
            Guard(
                f"cancel_idle.id, {table}",
                f"a cancellation reaching other runs in {table}",
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
        "a request to cancel reaching other runs",
        (Sql("runs.cancel_leased", ID),),
        _both(OTHERS, "cancel_leased"),
    ),
    Guard(
        "cancel_leased.place",
        "a request to cancel being noted on what has ended",
        (Sql("runs.cancel_leased", "place = 'leased'", sides=SQLITE_ONLY),),
        (f"{RUNS}test_a_run_that_has_ended_stays_as_it_is[sqlite]",),
    ),
    Guard(
        "cancel_leased.first",
        "the time of a request to cancel being changed by a second one",
        (Sql("runs.cancel_leased", rf"COALESCE\(cancel_requested_at, {NOW}\)", r"\1"),),
        _both(f"{MOVES}test_who_cancels_again_does_not_change_when_it_was_asked_for"),
    ),
    *(
        Guard(
            f"{name}.first failure",
            "the time of the first failure being that of the last",
            (Sql(f"records.{name}", rf"COALESCE\((?:lease\.)?first_failed_at, {NOW}\)", r"\1"),),
            _both(f"{MOVES}test_the_first_failure_stays_the_first", name),
        )
        for name in ("reschedule", "stop")
    ),
    Guard(
        "cancel_leased.org",
        "an org cancelling what is executed for another",
        (Sql("runs.cancel_leased", ORG),),
        (f"{FOREIGN_RUN}[sqlite-cancel]", f"{FOREIGN_RUN}[postgres-cancel]"),
    ),
    Guard(
        "known.org",
        "the idempotency keys of two orgs meeting",
        (Sql("runs.known", ORG),),
        (f"{RUNS}test_orgs_have_keys_of_their_own_i8",),
    ),
    Guard(
        "enqueue.unique key",
        "one idempotency key starting two runs",
        (
            Schema("CREATE UNIQUE INDEX runs_idempotency", "CREATE INDEX runs_idempotency"),
            Schema("CREATE UNIQUE INDEX run_inputs_idempotency", "CREATE INDEX run_inputs_idempotency"),
        ),
        (f"{RUNS}test_the_same_key_for_the_same_work_is_the_same_run",),
    ),
    Guard(
        "enqueue.conflict",
        "a repeated start failing instead of finding the run",
        (Sql("runs.enqueue", "ON CONFLICT DO NOTHING", ""),),
        (f"{RUNS}test_the_same_ids_again_change_nothing",),
    ),
    Guard(
        "enqueue_mixed.conflict",
        "a repeated start of work that waits failing instead of finding the run",
        (Sql("runs.enqueue_mixed", "ON CONFLICT DO NOTHING", ""),),
        _both(f"{MOVES}test_a_start_that_is_repeated_does_not_start_again_i1", "60.0"),
    ),
    Guard(
        "enqueue_mixed.given",
        "a repeated start of work that waited executing again what has ended",
        (Sql("runs.enqueue_mixed", "JOIN given", "LEFT JOIN given", POSTGRES_ONLY),),
        tuple(
            f"{MOVES}test_what_has_ended_is_not_started_again_i1[postgres-0.01-{by}]" for by in ("id", "key")
        ),
    ),
    *(
        Guard(
            f"enqueue_mixed.into {table}",
            "new work lying in two tables, and being executed twice",
            (Sql("runs.enqueue_mixed", rf"(?<=FROM due WHERE )due_at {sign} {NOW}", ALWAYS, POSTGRES_ONLY),),
            (f"{MOVES}test_a_new_run_lies_in_one_table[{caught}]",),
        )
        for table, sign, caught in (("ready", "<=", "idle"), ("idle", ">", "ready"))
    ),
    Guard(
        "enqueue.same request",
        "other work being swallowed by a key that is in use",
        (Code("redrive.store.runs:_same_request", "known_hash != run.request_hash", "False"),),
        (f"{RUNS}test_the_same_key_for_other_work_is_a_conflict",),
    ),
    Guard(
        "enqueue.all or nothing",
        "some of a refused batch being stored",
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
        "a start whose answer was lost being stored twice",
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
            "test_starting_survives_a_short_outage_and_stores_nothing_twice[enqueue-after the commit]",
        ),
    ),
    Guard(
        "one live dead letter",
        "two live dead letters of one step",
        (
            Schema("CREATE UNIQUE INDEX dead_letters_of_run", "CREATE INDEX dead_letters_of_run"),
            Sql("records.insert_dead_letter", r"(?s)ON CONFLICT.*", ""),
        ),
        (f"{RECORDS}test_dying_again_reopens_the_live_dead_letter_i7",),
    ),
    Guard(
        "records are one transaction",
        "half a record: an ended run without its dead letter",
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
        "a run that goes on without the result of its step",
        (
            Code(
                "redrive.store.records:Records._finish",
                "async with self._session.transaction() as session:",
                "for session in [self._session]:",
            ),
        ),
        (f"{RECORDS}test_a_finished_step_is_all_or_nothing_w2",),
    ),
    Guard(
        "slots never below zero",
        "more free slots than there are",
        (Sql("records.free_slots", r"CASE WHEN in_use > \S+ THEN (in_use - \S+) ELSE 0 END", r"\1"),),
        (f"{RECORDS}test_slots_of_a_batch_are_counted_together_and_never_below_zero",),
    ),
    Guard(
        "advance.cancel",
        "a further step of a run that was cancelled",
        (Sql("records.advance", NOT_CANCELLED),),
        (f"{RECORDS}test_cancelled_meanwhile_it_does_not_go_on_in_place",),
    ),
    Guard(
        "reschedule.cancel",
        "a cancelled run waiting for its retry before it ends",
        (Sql("records.reschedule", NOT_CANCELLED),),
        (f"{RECORDS}test_cancelled_meanwhile_it_is_ready_at_once",),
    ),
    Guard(
        "park.cancel",
        "a cancelled run waiting for a breaker before it ends",
        (Sql("records.park", NOT_CANCELLED),),
        (f"{RECORDS}test_cancelled_meanwhile_it_is_not_held",),
    ),
    Guard(
        "cancel_idle.place",
        "a cancellation overwriting what has ended or is executed",
        (Sql("runs.cancel_idle", r"\(place IN [^)]*\)\)", sides=SQLITE_ONLY),),
        (f"{RUNS}test_a_run_that_has_ended_stays_as_it_is[sqlite]",),
    ),
    Guard(
        "retention.live",
        "the removal of a dead letter that nobody has dealt with",
        (
            Code("redrive.store.runs:RunStore.remove_expired", "if each.id not in live", ""),
            Sql("runs.expired_failures", r"'OPEN', 'REPLAYING', 'EXHAUSTED', 'ARCHIVED'", "'NONE'"),
        ),
        (f"{RETENTION}test_one_live_dead_letter_of_several_is_enough_i1",),
    ),
    Guard(
        "retention.lock",
        "the removal of a run that is replayed in the same moment",
        (Sql("runs.expired_failures", LOCK, "", POSTGRES_ONLY),),
        (f"{LOCKED}[expired_failures]",),
    ),
    Guard(
        "expired.lock",
        "two processes removing the same runs",
        (Sql("runs.expired", LOCK, "", POSTGRES_ONLY),),
        (f"{LOCKED}[expired]",),
    ),
    *(
        Guard(
            f"{name}.skip locked",
            "the removal of old runs waiting for somebody who works on one of them",
            (Sql(f"runs.{name}", " SKIP LOCKED", "", POSTGRES_ONLY),),
            (f"{PASSED_OVER}[{name}]",),
        )
        for name in ("expired", "expired_failures")
    ),
    Guard(
        "expired.state",
        "the removal of a run that has failed, and has no dead letter",
        (Sql("runs.expired", r"state IN \('SUCCESS', 'CANCELLED'\)"),),
        _both(OTHERS, "delete_run"),
    ),
    Guard(
        "expired.age",
        "the removal of a run that has just ended",
        (Sql("runs.expired", r"ended_at < (?:\?1|date_part\('epoch', now\(\)\)) - [?$]\d+"),),
        _both(f"{MOVES}test_what_has_just_ended_is_kept"),
    ),
    Guard(
        "delete_run.id",
        "the removal of one run removing all",
        (Sql("runs.delete_run", rf"{ID}$"),),
        _both(OTHERS, "delete_run"),
    ),
    Guard(
        "delete_run.id of the work",
        "the removal of one run removing the work of all that have ended",
        (Sql("runs.delete_run", rf"{ID}(?=\))", sides=POSTGRES_ONLY),),
        (f"{OTHERS}[postgres-delete_run]",),
    ),
    Guard(
        "retention.dead letters",
        "the removal of a live dead letter together with its run",
        (Sql("runs.delete_dead_letters", LIVE),),
        doubled_by="retention.live: a run with a live dead letter is not removed",
    ),
    Guard(
        "retention.ended",
        "the removal of a run that has not ended",
        (Sql("runs.expired", "place = 'ended'", sides=SQLITE_ONLY),),
        doubled_by="the state, SUCCESS or CANCELLED, and the time of the end, which others do not have",
    ),
    Guard(
        "limits.lock",
        "two workers taking the last slot",
        (Sql("limits.lock_limit", LOCK, "", ("postgres",)),),
        (f"{HOLDS}test_concurrent_takers_never_take_more_than_there_is[postgres]",),
    ),
    Guard(
        "limits.in use",
        "forgetting a counter that is in use",
        (Sql("limits.forget_limits", "in_use = 0"),),
        (f"{HOLDS}test_counters_that_nobody_uses_are_forgotten",),
    ),
    Guard(
        "breakers.lock",
        "what one worker reports to a breaker being overwritten by another",
        (Sql("limits.lock_breaker", LOCK, "", ("postgres",)),),
        (f"{HOLDS}test_concurrent_changes_of_a_breaker_are_all_kept[postgres-True]",),
    ),
    Guard(
        "release.holder",
        "work being released that something else holds",
        (Sql("limits.release", r"held_by = [?$]\d+"),),
        (f"{HOLDS}test_only_what_this_holder_holds_is_released",),
    ),
    Guard(
        "migration.lock",
        "two processes making the tables at once",
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
        "an old program writing to the tables of a newer one",
        (Code("redrive.store.migration:pending", "if version > newest:", "if False:"),),
        (f"{MIGRATION}test_tables_of_a_newer_program_are_refused",),
    ),
    Guard(
        "conversion.drained workers",
        "tables of 0.1 being converted under workers that use them",
        (Code("redrive.store.drain:require_drained", "if not names:", "if True:"),),
        (f"{CONVERSION}test_it_is_refused_while_a_worker_is_alive",),
    ),
    Guard(
        "conversion.heartbeats",
        "a worker that starts while 0.1 is converted being overlooked",
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
        "others on the machine reading payloads",
        (Code("redrive.store.sqlite_session:_create_private", "0o600", "0o644"),),
        (f"{SQLITE}test_only_the_owner_may_read_the_file",),
    ),
    Guard(
        "durable commits",
        "a power cut losing what was acknowledged",
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
        "writing into a database file that was removed",
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
        "a transaction that has read, and then cannot write because another has",
        (Code("redrive.store.sqlite_session:SqliteSession._begin", "BEGIN IMMEDIATE", "BEGIN"),),
        ("tests/guards/test_fences.py::test_who_has_begun_to_read_may_write",),
    ),
    Guard(
        "failed commit",
        "a transaction that was rolled back being taken for a committed one",
        (
            Code(
                "redrive.store.postgres_session:PostgresSession._commit",
                'if await self._asked(connection.execute, "COMMIT") != "COMMIT":',
                'if not await self._asked(connection.execute, "COMMIT"):',
            ),
        ),
        (f"{POSTGRES}test_a_failure_that_the_body_ignores_is_no_success",),
    ),
    Guard(
        "rolled back or thrown away",
        "a connection that is lent again in the middle of a transaction",
        (
            Code(
                "redrive.store.postgres_session:PostgresSession._transaction",
                "await _finished(self._roll_back(connection))",
                "pass",
            ),
        ),
        doubled_by="the pool of asyncpg, which rolls back what is given back in a transaction",
    ),
    Guard(
        "foreign transaction",
        "a start outside of the transaction that it was to be part of",
        (
            Code(
                "redrive.store.joined.drivers:AsyncpgDriver.check",
                "if not self._connection.is_in_transaction():",
                "if False:",
            ),
        ),
        (f"{FOREIGN}test_asyncpg_outside_of_a_transaction",),
    ),
    Guard(
        "foreign completion",
        "the effect of a worker that has lost its lease being committed",
        (
            Code(
                "redrive.engine.executor:Executor._write_within",
                "if recorded is None:",
                "if False:",
            ),
        ),
        ("tests/guards/test_transactions.py::test_who_has_lost_the_lease_is_told_to_roll_back",),
    ),
    Guard(
        "foreign completion.committed",
        "a step counting as done whose transaction was rolled back",
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
        "a run being executed by a definition that somebody has changed",
        (Code("redrive.engine.definition:Definitions.get", "if known.digest != digest:", "if False:"),),
        (f"{BAD_INPUT}test_a_run_whose_definition_cannot_be_read_stops_no_other_and_is_not_lost",),
    ),
    Guard(
        "known queues",
        "work in a queue that nobody serves",
        (Code("redrive.engine.registry:Registry.queue", "if name not in self.queues:", "if False:"),),
        (f"{BAD_INPUT}test_unknown_names_are_refused_with_a_suggestion",),
    ),
)
