"""Guards of leases: the fence of every write, claims, renewals and the takeover of expired leases."""

from __future__ import annotations

from collections.abc import Iterator

from tests.guards.guard import Guard
from tests.guards.patch import ALWAYS, Code, Side, Sql

_ROW = r"(?<![\w.])(?:run\.|lease\.)?"
ID = _ROW + r"id = (?:batch\.id|[?$]\d+)"
TOKEN = _ROW + r"token = (?:batch\.token|[?$]\d+)"
EPOCH = _ROW + r"epoch = (?:batch\.epoch|[?$]\d+)"
PLACE = _ROW + r"place(?: \|\| '')? = 'leased'"
PARTS = {"id": ID, "token": TOKEN, "epoch": EPOCH, "place": PLACE}
AGAINST = {
    "id": "a worker that holds another run's lease {}",
    "token": "a worker that lost its lease {}",
    "epoch": "a late write from an earlier step under the same lease {}",
    "place": "a repeat of the write that ended the lease {} again",
}
LEASES = "tests/store/test_leases.py::"
RECORDS = "tests/store/test_records.py::"
RECORDER = "tests/engine/test_recorder.py::"
KEEPER = "tests/engine/test_lease_renewer.py::"
CUT_OFF = "tests/journeys/test_cut_off.py::"
WATCH = "tests/engine/test_loop_watch.py::"
THREADS = "tests/engine/test_threads.py::"
WORKER = "tests/engine/test_worker.py::"
GRACE = "tests/engine/test_takeover_grace.py::"
FOUND = "tests/simulation/test_found.py::"
FENCES = "tests/guards/test_fences.py::"
WRITES = "tests/guards/test_fenced_writes.py::"
CLAIMS = "tests/guards/test_claims.py::"
LOCKS = "tests/guards/test_locks.py::"
FAILED_RUNS = "tests/guards/test_failed_runs.py::"
POSTGRES: tuple[Side, ...] = ("postgres",)
SQLITE: tuple[Side, ...] = ("sqlite",)
"""On PostgreSQL each place is a table, so a statement cannot reach a run in another place."""

FENCED = {
    "records.complete": "completes the run",
    "records.complete_partly": "completes a step replayed on its own",
    "records.complete_step": "completes the run with its last step",
    "records.advance": "advances the run to the next step",
    "records.advance_step": "finishes a step and advances the run to the next one",
    "records.hand_over": "hands over the next step",
    "records.reschedule": "schedules a retry",
    "records.stop": "ends the run as failed",
    "records.park": "puts the run on hold",
    "records.occupied": "reads the slots of the run",
    "records.occupy": "records the slots of the run",
    "records.progress": "records progress",
    "leases.begin_alone": "starts the run in isolation",
}


def _both(test: str, which: str = "") -> tuple[str, ...]:
    return tuple(_on(side, test, which) for side in ("sqlite", "postgres"))


def _on(side: str, test: str, which: str = "") -> str:
    return f"{test}[{side}-{which}]" if which else f"{test}[{side}]"


def _fences() -> Iterator[Guard]:
    test = f"{WRITES}test_a_write_counts_under_its_own_lease_only_i4"
    for statement, does in FENCED.items():
        name = statement.partition(".")[2]
        for part, pattern in PARTS.items():
            which, what = f"{name}-{part}", AGAINST[part].format(does)
            if part == "place":
                patches = (Sql(statement, pattern, sides=SQLITE),)
                yield Guard(f"{name}.{part}", what, patches, (_on("sqlite", test, which),))
            else:
                yield Guard(f"{name}.{part}", what, (Sql(statement, pattern),), _both(test, which))


TAKING = {
    "claim": ("leases.claim", "two workers claim the same run"),
    "claim_alone": ("leases.claim_alone", "two workers claim the same suspect run"),
    "reclaim": (
        "leases.reclaim",
        "two workers handle the same lost attempt, or an attempt whose record is being written",
    ),
    "promote": ("leases.promote", "a run cancelled at the same moment is executed anyway"),
    "release": ("limits.release", "a held run is released twice"),
}
LOCK = r"FOR UPDATE(?: OF run| OF lease)? SKIP LOCKED"


def _locks() -> Iterator[Guard]:
    """Only on PostgreSQL: SQLite has one writer at a time."""
    for name, (statement, what) in TAKING.items():
        tests = (f"{FENCES}test_rows_locked_by_another_transaction_are_left_alone[{name}]",)
        yield Guard(f"{name}.lock", what, (Sql(statement, LOCK, "", POSTGRES),), tests)
        yield Guard(
            f"{name}.skip locked",
            f"a worker waits for another worker's lock in {name}",
            (Sql(statement, " SKIP LOCKED", "", POSTGRES),),
            tests,
        )
    tests = (f"{LOCKS}test_a_renewal_does_not_wait_for_a_record",)
    yield Guard(
        "renew.lock",
        "renewals and records deadlock",
        (Sql("leases.renew", LOCK, "", POSTGRES),),
        tests,
    )
    yield Guard(
        "renew.skip locked",
        "one run whose record is being written delays the renewal of all leases of its worker",
        (Sql("leases.renew", " SKIP LOCKED", "", POSTGRES),),
        tests,
    )
    yield Guard(
        "occupied.lock",
        "another worker takes over a lease before its slots are recorded",
        (Sql("records.occupied", "FOR UPDATE OF lease", "", POSTGRES),),
        (f"{LOCKS}test_locked_rows_stay_locked_until_the_transaction_ends[occupied]",),
    )
    yield Guard(
        "failed.lock",
        "a run is replayed or removed while its dead letter is being written",
        (Sql("leases.failed", "FOR UPDATE OF run", "", POSTGRES),),
        (f"{LOCKS}test_locked_rows_stay_locked_until_the_transaction_ends[failed]",),
    )


EXPIRY = r"leased_until < (?:\?1|date_part\('epoch', now\(\)\))"
LIMIT = r"LIMIT ([?$]\d+|1)"
MORE = r"LIMIT \1 + 1"
PAUSED = "paused_at IS NOT NULL"
_LISTED = r"(?:value FROM json_each\(\?\d+\)|json_array_elements_text\(CAST\(\$\d+ AS json\)\) AS value)"
WANTED = rf"workflow IN \(SELECT {_LISTED}\)"
EACH_WANTED = r"workflow = (?:known|named|several|turn)\.(?:workflow|value)"
BEGAN = r"COALESCE\(started_at, (\?1|date_part\('epoch', clock_timestamp\(\)\))\)"
NEVER = r"(\g<0> AND 1 = 0)"


def _claims() -> Iterator[Guard]:
    """Conditions of both kinds of claims."""
    for name, wanted in (("claim", EACH_WANTED), ("claim_alone", WANTED)):
        for part, what, pattern, replacement in (
            ("queue", "a worker claims runs from other queues", r"(?<!\w)queue = [?$]\d+", ALWAYS),
            ("workflows", "a worker claims runs of workflows that it does not know", wanted, ALWAYS),
            ("limit", "a worker claims more runs than it has room for", LIMIT, MORE),
            ("paused", "a worker starts runs from a paused queue", PAUSED, NEVER),
            ("epoch rises", "two attempts have the same fencing epoch", r"epoch \+ 1", "epoch"),
            ("attempt rises", "two attempts have the same number", r"attempt \+ 1", "attempt"),
            ("first start", "a retry overwrites the start time of the run", BEGAN, r"\1"),
        ):
            tests = _both(f"{CLAIMS}test_a_claim_takes_only_eligible_runs", f"{name}-{part}")
            patches = (Sql(f"leases.{name}", pattern, replacement),)
            yield Guard(f"{name}.{part}", what, patches, tests)


GUARDS = (
    *_fences(),
    *_locks(),
    *_claims(),
    Guard(
        "claim.place",
        "a worker claims a run that is waiting, on hold, finished or leased to another worker",
        (Sql("leases.claim", "place = 'ready'", sides=SQLITE),),
        tuple(_on("sqlite", f"{LEASES}test_only_ready_runs_are_claimed", each) for each in ("held", "ended")),
    ),
    Guard(
        "renew.token",
        "a worker renews another worker's lease",
        (Sql("leases.renew", TOKEN),),
        (f"{LEASES}test_renewing_prolongs_only_matching_leases_p7",),
    ),
    Guard(
        "renew.place",
        "a worker renews the lease of a finished run",
        (Sql("leases.renew", PLACE, sides=SQLITE),),
        (_on("sqlite", f"{LEASES}test_renewing_prolongs_only_matching_leases_p7"),),
    ),
    Guard(
        "renew.id",
        "renewing one lease renews the leases of all runs claimed together with it",
        (Sql("leases.renew", ID),),
        _both(f"{WRITES}test_a_renewal_prolongs_the_lease_of_its_run_only_p7"),
    ),
    *(
        Guard(
            f"kept.{part}",
            f"a worker assumes that it still holds {what}",
            (Sql("leases.kept", pattern),),
            _both(f"{WRITES}test_an_expired_lease_is_not_kept_p7"),
        )
        for part, what, pattern in (
            ("id", "the leases of all runs claimed together with one that it holds", ID),
            ("token", "a lease that another worker holds", TOKEN),
            ("expiry", "an expired lease", _ROW + EXPIRY.replace("<", ">=")),
        )
    ),
    Guard(
        "kept.place",
        "a worker assumes that it still holds the lease of a finished run",
        (Sql("leases.kept", PLACE, sides=SQLITE),),
        doubled_by="the record that ends a lease also clears its expiry; see kept.place and expiry",
    ),
    Guard(
        "kept.place and expiry",
        "a worker assumes that it still holds the lease of a finished run",
        (Sql("leases.kept", rf"{PLACE} AND run\.{EXPIRY.replace('<', '>=')}", sides=SQLITE),),
        (_on("sqlite", f"{WRITES}test_an_expired_lease_is_not_kept_p7"),),
    ),
    Guard(
        "reclaim.expiry",
        "a worker takes over a run whose lease has not expired",
        (Sql("leases.reclaim", EXPIRY),),
        (f"{LEASES}test_only_expired_leases_are_reclaimed_p6",),
    ),
    Guard(
        "reclaim.place",
        "a worker takes over a run that is not leased",
        (Sql("leases.reclaim", PLACE, sides=SQLITE),),
        doubled_by="the record that ends a lease also clears its expiry; see reclaim.place and expiry",
    ),
    Guard(
        "reclaim.place and expiry",
        "a worker takes over a finished run and executes it again",
        (
            Sql("leases.reclaim", PLACE, sides=SQLITE),
            Sql(
                "records.complete",
                "leased_until = NULL",
                "leased_until = leased_until",
                sides=SQLITE,
            ),
        ),
        (f"{RECORDS}test_a_late_record_whose_token_still_matches_is_accepted[sqlite-completed]",),
    ),
    Guard(
        "reclaim.new token",
        "a worker whose run was taken over writes its late result",
        (Sql("leases.reclaim", r"token = ([?$]\d+)", r"token = COALESCE(token, \1)"),),
        (f"{LEASES}test_a_reclaimed_lease_is_not_renewed",),
    ),
    Guard(
        "adopt.token",
        "a worker adopts other claims than the one whose response it lost",
        (Sql("leases.adopt", TOKEN),),
        (f"{LEASES}test_adopting_finds_exactly_the_claims_of_the_token",),
    ),
    Guard(
        "adopt.place",
        "a worker adopts a finished run",
        (Sql("leases.adopt", PLACE, sides=SQLITE),),
        (_on("sqlite", f"{LEASES}test_adopting_finds_exactly_the_claims_of_the_token"),),
    ),
    Guard(
        "adopt.worker",
        "a worker adopts another worker's claims",
        (Sql("leases.adopt", r"worker = [?$]\d+"),),
        (f"{LEASES}test_adopting_finds_exactly_the_claims_of_the_token",),
    ),
    Guard(
        "claim_alone.place",
        "a worker claims a waiting or held run as a suspect",
        (Sql("leases.claim_alone", "place = 'alone'"),),
        _both(f"{CLAIMS}test_only_runs_that_need_isolation_are_claimed_alone"),
    ),
    *(
        Guard(
            f"{name}.suspects",
            "a suspect run executes at the same time as other runs",
            (Sql(statement, "CASE WHEN isolation > 0 THEN 'alone' ELSE 'ready' END", "'ready'"),),
            _both(f"{CLAIMS}test_an_isolated_run_waits_until_it_is_alone", name),
        )
        for name, statement in (("promote", "leases.promote"), ("release", "limits.release"))
    ),
    Guard(
        "promote.place",
        "a held run becomes ready",
        (Sql("leases.promote", "place = 'waiting'"),),
        doubled_by="promote.due: only waiting runs have a due time",
    ),
    Guard(
        "release.place",
        "a waiting run becomes ready",
        (Sql("limits.release", "place = 'held'"),),
        doubled_by="release.holder: only held runs have a holder",
    ),
    Guard(
        "advance.in place",
        "the next step starts under the current lease although it must be handed over",
        (Sql("records.advance", r"(?:batch\.in_place|\?\d+) = 1(?= AND)"),),
        _both(f"{WRITES}test_a_step_that_cannot_continue_in_place_is_handed_over"),
    ),
    Guard(
        "advance.epoch rises",
        "the record of one step counts for the next step under the same lease",
        (Sql("records.advance", r"epoch = (run|lease)\.epoch \+ 1", r"epoch = \1.epoch"),),
        _both(f"{LEASES}test_epochs_rise_by_one_i4"),
    ),
    Guard(
        "advance_step.epoch rises",
        "the record of one step counts for the next step under the same lease",
        (Sql("records.advance_step", r"epoch = (run|lease)\.epoch \+ 1", r"epoch = \1.epoch"),),
        _both(f"{RECORDS}test_a_step_that_finishes_in_place_is_stored_and_the_next_one_starts"),
    ),
    Guard(
        "promote.due",
        "a retry starts before it is due",
        (
            Sql(
                "leases.promote",
                r"due_at <= (?:\?1|date_part\('epoch', now\(\)\))",
            ),
        ),
        (f"{LEASES}test_only_due_runs_are_promoted",),
    ),
    *(
        Guard(
            f"failed.{part}",
            f"{what} is processed as a failed run",
            (Sql("leases.failed", pattern),),
            _both(f"{FAILED_RUNS}test_only_a_failed_run_of_the_org_is_taken_up_i8_i10", part),
        )
        for part, what, pattern in (
            ("id", "another run", ID),
            ("org", "a run of another org", _ROW + r"org = [?$]\d+"),
            ("state", "a successful run", _ROW + r"state IN \('FAILED', 'DLQ_PENDING'\)"),
        )
    ),
    Guard(
        "take_again.id",
        "reporting one failed task again reports all failed tasks of the org again",
        (Sql("external_failures.take_again", ID),),
        _both(f"{FAILED_RUNS}test_a_task_that_is_reported_again_is_taken_again"),
    ),
    Guard(
        "take_again.place",
        "reporting a task again takes it from the worker that is replaying it",
        (Sql("external_failures.take_again", "place = 'ended'", sides=SQLITE),),
        (_on("sqlite", f"{FAILED_RUNS}test_a_task_that_is_being_replayed_is_not_taken_again_i4"),),
    ),
    Guard(
        "take_again.new epoch",
        "two attempts have the same fencing epoch",
        (Sql("external_failures.take_again", r"epoch \+ 1", "epoch"),),
        _both(f"{FAILED_RUNS}test_a_task_that_is_reported_again_is_taken_again"),
    ),
    Guard(
        "take_again.own input",
        "the input of one run replaces the input of every run",
        (
            Sql(
                "external_failures.take_again",
                r"redrive\.run_inputs\.id = gone\.id",
                sides=POSTGRES,
            ),
        ),
        (_on("postgres", f"{FAILED_RUNS}test_a_task_that_is_reported_again_is_taken_again"),),
    ),
    Guard(
        "take_again.replays",
        "a task that was never replayed cannot be reported again",
        (Sql("external_failures.take_again", r"COALESCE\(replays, 0\)", "replays", POSTGRES),),
        (_on("postgres", f"{FAILED_RUNS}test_a_task_that_is_reported_again_is_taken_again"),),
    ),
    Guard(
        "clear_runs.place",
        "clearing a queue removes a run in progress",
        (Sql("external_failures.clear_runs", "place = 'ended'", sides=SQLITE),),
        (_on("sqlite", f"{FAILED_RUNS}test_a_letter_that_is_being_replayed_is_not_cleared_i1"),),
    ),
    Guard(
        "clear_runs.inputs",
        "clearing a queue removes the inputs of all other runs",
        (Sql("external_failures.clear_runs", r"id IN \(SELECT id FROM gone\)", sides=POSTGRES),),
        (_on("postgres", f"{FAILED_RUNS}test_clearing_a_queue_does_not_change_other_runs"),),
    ),
    Guard(
        "unknown claim",
        "when the response to a claim is lost, no worker executes the claimed runs until their leases expire",
        (Code("redrive.engine.claimer:Claimer.adopt", "if self._unsure is None:", "if True:"),),
        (f"{RECORDER}test_a_claim_whose_answer_is_lost_is_adopted[after the commit]",),
    ),
    Guard(
        "unknown takeover",
        "after a lost response to a takeover, no worker executes the runs until their leases expire again",
        (
            Code(
                "redrive.engine.maintenance:Maintenance.finish_reclaim",
                "if self._unsure is None:",
                "if True:",
            ),
        ),
        (f"{RECORDER}test_a_takeover_whose_answer_is_lost_is_finished[after the commit]",),
    ),
    Guard(
        "reclaimed.token",
        "a worker handles the leases of other workers as if it had taken them over",
        (Sql("leases.reclaimed", TOKEN),),
        (f"{LEASES}test_the_claims_of_a_takeover_are_found_by_its_token",),
    ),
    Guard(
        "reclaimed.place",
        "a worker handles a finished run as one whose lease it has taken over",
        (Sql("leases.reclaimed", PLACE, sides=SQLITE),),
        (_on("sqlite", f"{LEASES}test_the_claims_of_a_takeover_are_found_by_its_token"),),
    ),
    Guard(
        "unknown record",
        "when the response to a record is lost, the worker takes a written result for a lost one",
        (Code("redrive.store.records:RecordBatch.write", "if self._tried:", "if False:"),),
        tuple(
            f"{RECORDER}test_a_write_that_fails_is_made_exactly_once[{statement}-after the commit]"
            for statement in ("complete_step", "advance_step", "reschedule")
        ),
    ),
    Guard(
        "unknown record.token",
        "the worker tries to write a record again although it was fenced off",
        (Code("redrive.store.records:_fate", "token != change.token", "False"),),
        (f"{RECORDS}test_after_an_unknown_commit_written_open_and_lost_are_distinguished",),
    ),
    Guard(
        "unknown record.epoch",
        "the worker tries to write the record of an earlier step again",
        (Code("redrive.store.records:_fate", "if epoch == change.epoch:", "if True:"),),
        (f"{RECORDS}test_a_finished_step_is_not_open_under_the_lease_of_the_next_one",),
    ),
    Guard(
        "unknown record.in place",
        "the worker takes a step for lost although the run has advanced under the same lease",
        (Code("redrive.store.records:_fate", '"written" if goes_on else "lost"', '"lost"'),),
        (f"{RECORDER}test_a_write_that_fails_is_made_exactly_once[advance_step-after the commit]",),
    ),
    Guard(
        "one record a run and batch",
        "two records of one run count in one statement",
        (
            Code(
                "redrive.engine.recorder:_Lane.take",
                "batch[run_id] = entry",
                "batch[f'{run_id} {len(batch)}'] = entry",
            ),
        ),
        (
            f"{RECORDER}test_two_records_of_one_run_in_one_batch_are_distinguished",
            f"{RECORDER}test_two_completions_of_one_run_in_one_batch_are_distinguished",
            f"{RECORDER}test_two_advances_of_one_run_in_one_batch_are_distinguished",
        ),
    ),
    Guard(
        "only the winner writes other rows",
        "a fenced-off record still writes its attempts and dead letters, and frees its slots",
        (Code("redrive.store.records:Records.record_within", "if record.change.id in won", ""),),
        _both(f"{WRITES}test_nothing_is_written_with_a_fenced_off_record_i4"),
    ),
    Guard(
        "only the winner finishes a step",
        "a worker that lost its lease finishes a step",
        (
            Code(
                "redrive.store.records:Records._hand_over",
                "[steps[row[0]] for row in rows]",
                "[*steps.values()]",
            ),
        ),
        tuple(
            f"{RECORDS}test_finished_steps_of_a_batch_are_those_of_the_winners[{side}]"
            for side in ("sqlite", "postgres")
        ),
    ),
    Guard(
        "only the winner finishes a step.sqlite",
        "a worker that lost its lease finishes a step, where a record takes two statements",
        (Code("redrive.store.sqlite_session:SqliteSession._fetch_many", "if answer:", "if True:"),),
        tuple(
            f"{RECORDS}test_a_finished_step_without_the_lease_writes_nothing_i4[sqlite-{kind}-reclaimed]"
            for kind in ("completed", "advanced in place")
        ),
    ),
    Guard(
        "lease renewer.thread",
        "a worker with a blocked event loop loses its leases",
        (Code("redrive.engine.worker:Worker._renew_by", "if self._database.in_memory:", "if True:"),),
        (f"{KEEPER}test_a_blocked_event_loop_keeps_its_leases",),
    ),
    Guard(
        "lease renewer.deadline",
        "a worker that is cut off executes a step that another worker has",
        (
            Code(
                "redrive.engine.lease_renewer:LeaseRenewer.give_up_expired",
                "if now >= deadline(*lease)",
                "if False",
            ),
        ),
        (f"{CUT_OFF}test_3_an_async_task_stops_before_its_lease_has_ended",),
    ),
    Guard(
        "lease renewer.kills",
        "the process of a step runs on after its lease has ended",
        (Code("redrive.engine.work:Work.revoke", "if kill is not None:", "if False:"),),
        (f"{CUT_OFF}test_3_a_process_is_killed_before_its_lease_has_ended",),
    ),
    Guard(
        "lease renewer.revokes",
        "a thread whose lease is lost calls other systems",
        (Code("redrive.engine.work:Work.revoke", "if context is not None:", "if False:"),),
        (f"{CUT_OFF}test_3_a_thread_is_refused_everything_that_reaches_others",),
    ),
    Guard(
        "loop watch.vouches",
        "a worker with a blocked event loop keeps its leases forever",
        (
            Code(
                "redrive.engine.loop_watch:LoopWatch.vouches", "if self._silent < self._patience:", "if True:"
            ),
        ),
        (f"{WATCH}test_leases_are_not_renewed_for_a_loop_that_is_silent_for_longer_than_a_lease",),
    ),
    Guard(
        "loop watch.blames the step",
        "the neighbors of a step that blocks the event loop count as crashed",
        (
            Code(
                "redrive.engine.maintenance:Maintenance._handle_all_lost",
                "blocking.get(claim.worker, claim.id) == claim.id",
                "True",
            ),
        ),
        (f"{KEEPER}test_only_the_step_that_blocks_the_event_loop_is_blamed",),
    ),
    Guard(
        "loop watch.keeps reporting",
        "a worker whose blocked event loop has lost its leases counts as silent",
        (
            Code(
                "redrive.engine.lease_renewer:LeaseRenewer._seconds_until_check",
                "self._watch.awaits_answer",
                "False",
            ),
        ),
        (f"{KEEPER}test_a_silent_loop_is_reported_even_after_its_leases_were_given_up",),
    ),
    Guard(
        "lease renewer.survives",
        "the thread that renews leases ends because a process has just ended",
        (Code("redrive.engine.in_flight:InFlight._lost_from_thread", "suppress(ValueError)", "suppress()"),),
        (f"{KEEPER}test_a_process_that_has_just_ended_does_not_keep_other_leases_from_being_given_up",),
    ),
    Guard(
        "abandons stubborn tasks",
        "a task that swallows its cancellation never times out",
        (
            Code(
                "redrive.engine.executor:Executor.abandon_stubborn",
                "if now - since >= CLEAN_UP_SECONDS and",
                "if False and",
            ),
        ),
        (f"{THREADS}test_an_async_task_that_swallows_its_cancellation_is_abandoned",),
    ),
    Guard(
        "waiting is not stubborn",
        "a step that waits for a thread is abandoned, and executed twice",
        (Code("redrive.engine.executor:Executor.abandon_stubborn", " or not work.was_called", ""),),
        (f"{THREADS}test_a_step_that_waits_for_a_thread_is_not_abandoned",),
    ),
    Guard(
        "stop watchdog",
        "a process whose event loop is blocked ignores SIGTERM",
        (
            Code(
                "redrive.engine.stop_watchdog:StopWatchdog._watch",
                "end_process(1,",
                "str(1,",
            ),
        ),
        (f"{WATCH}test_a_blocked_loop_that_is_asked_to_stop_ends_the_process",),
    ),
    Guard(
        "results before leases",
        "after an outage, a worker executes again what it has a result of",
        (Code("redrive.engine.maintenance:Maintenance._maintain", "if after_outage:", "if False:"),),
        (f"{RECORDER}test_after_an_outage_results_are_written_before_leases_are_taken_over",),
    ),
    Guard(
        "results of others before leases",
        "after an outage, a worker executes again what another worker has a result of",
        (
            Code(
                "redrive.engine.maintenance:Maintenance._maintain",
                "takes_over = self._grace.seconds_left() == 0.0",
                "takes_over = True",
            ),
        ),
        (f"{FOUND}test_after_an_outage_all_workers_write_their_results_before_leases_are_taken_over",),
    ),
    Guard(
        "takeover grace ends",
        "a database that often fails for a moment delays the takeover of leases forever",
        (
            Code(
                "redrive.engine.takeover_grace:TakeoverGrace.reached",
                "min(passed, MAX_COUNTED_SECONDS) if",
                "0.0 if",
            ),
        ),
        (f"{GRACE}test_the_grace_ends_although_something_fails_before_every_pass",),
    ),
    Guard(
        "takeover grace spares",
        "runs of which a worker takes over the leases after the grace count as suspects",
        (
            Code(
                "redrive.engine.maintenance:Maintenance._maintain",
                "self._blames or (takes_over and taken_over < MAX_RECLAIM_BATCH)",
                "True",
            ),
        ),
        (f"{GRACE}test_after_the_grace_no_run_is_blamed_for_the_outage",),
    ),
    Guard(
        "outage batches",
        "after an outage, runs count as suspects if more leases have expired than one pass takes over",
        (
            Code(
                "redrive.engine.maintenance:Maintenance._maintain",
                "(takes_over and taken_over < MAX_RECLAIM_BATCH)",
                "takes_over",
            ),
        ),
        (f"{GRACE}test_no_batch_of_expired_leases_is_blamed_for_the_outage",),
    ),
    Guard(
        "lease renewer.expired",
        "work continues after its lease has expired while the database is unreachable",
        (
            Code(
                "redrive.engine.lease_renewer:LeaseRenewer.has_expired",
                "return lease is None or",
                "return False and",
            ),
        ),
        (f"{KEEPER}test_a_lease_found_lost_counts_as_expired_before_the_loop_learns_of_it",),
    ),
    Guard(
        "lease renewer.not renewed",
        "work continues although another worker holds its lease",
        (
            Code(
                "redrive.engine.lease_renewer:LeaseRenewer.renew",
                "[key for key, _ in due if key not in renewed]",
                "[]",
            ),
        ),
        (f"{KEEPER}test_it_reports_leases_that_another_holder_has",),
    ),
    Guard(
        "lease renewer.interrupts",
        "a handler keeps running after its lease is lost",
        (
            Code(
                "redrive.engine.in_flight:InFlight._lost",
                "for run_id, token in leases:",
                "for run_id, token in []:",
            ),
        ),
        (f"{FENCES}test_a_handler_is_stopped_when_another_worker_has_its_lease",),
    ),
    Guard(
        "no step under an expired lease",
        "a worker starts a step that another worker may have started",
        (Code("redrive.engine.executor:Executor._run", "self.in_flight.has_expired(work)", "False"),),
        (f"{RECORDER}test_a_long_outage_of_the_database_is_survived",),
    ),
    Guard(
        "in flight.interrupts",
        "one worker runs two attempts of the same step at once",
        (Code("redrive.engine.in_flight:InFlight.add", "before is not None and", "False and"),),
        (f"{FENCES}test_a_worker_that_takes_over_its_own_run_stops_the_first_attempt",),
    ),
    Guard(
        "executor.abandon",
        "handlers keep running after their worker has stopped",
        (
            Code(
                "redrive.engine.executor:Executor.abandon",
                "for work in self.in_flight.works:",
                "for work in []:",
            ),
        ),
        (f"{WORKER}test_a_worker_whose_task_is_cancelled_leaves_nothing_running",),
    ),
)
