"""The guards of leases: the fence of each write separately, claims, renewals, taking over what was lost."""

from __future__ import annotations

from collections.abc import Iterator

from tests.guards.guard import Guard
from tests.guards.patch import Code, Sql

TOKEN = r"(?:run\.)?token = (?:batch\.token|[?$]\d+)"
EPOCH = r"(?:run\.)?epoch = (?:batch\.epoch|[?$]\d+)"
PLACE = r"(?:run\.)?place(?: \|\| '')? = 'leased'"
PARTS = {"token": TOKEN, "epoch": EPOCH, "place": PLACE}
AGAINST = {
    "token": "somebody who has lost the lease {}",
    "epoch": "what belongs to an earlier step under the same lease {}",
    "place": "what was written before, and ended the lease, {} again",
}
LEASES = "tests/store/test_leases.py::"
RECORDS = "tests/store/test_records.py::"
RETENTION = "tests/store/test_retention.py::"
RECORDER = "tests/engine/test_recorder.py::"
KEEPER = "tests/engine/test_lease_renewer.py::"
WORKER = "tests/engine/test_worker.py::"
FENCES = "tests/guards/test_fences.py::"
LOST = f"{RECORDS}test_without_the_lease_nothing_is_written_i4"

FENCED = {
    "records.complete": ("completes the run", f"{LOST}[{{}}-completed]"),
    "records.advance": ("goes on to the next step", f"{LOST}[{{}}-advanced]"),
    "records.reschedule": ("schedules a retry", f"{LOST}[{{}}-rescheduled]"),
    "records.stop": ("buries the run", f"{LOST}[{{}}-stopped]"),
    "records.park": ("parks the run", f"{LOST}[{{}}-parked]"),
    "records.occupied": (
        "is told its slots",
        f"{RECORDS}test_slots_are_not_told_to_who_has_lost_the_lease_i4",
    ),
    "records.occupy": ("notes slots", f"{FENCES}test_slots_and_progress_are_noted_under_the_lease_only"),
    "records.progress": ("notes progress", f"{FENCES}test_slots_and_progress_are_noted_under_the_lease_only"),
    "leases.begin_alone": ("begins alone", f"{FENCES}test_alone_is_begun_under_the_lease_only"),
}


def _fences() -> Iterator[Guard]:
    for statement, (does, test) in FENCED.items():
        tests = tuple(dict.fromkeys(test.format(side) for side in ("sqlite", "postgres")))
        for part, pattern in PARTS.items():
            name = f"{statement.partition('.')[2]}.{part}"
            yield Guard(name, AGAINST[part].format(does), (Sql(statement, pattern),), tests)


EXPIRY = r"lease_expires_at < (?:\?1|date_part\('epoch', now\(\)\))"
LIMIT = r"LIMIT ([?$]\d+|1)"
MORE = r"LIMIT \1 + 1"
PAUSED = "paused_at IS NOT NULL"
NEVER = r"(\g<0> AND 1 = 0)"
LOCK = r"FOR UPDATE(?: OF run)? SKIP LOCKED"

GUARDS = (
    *_fences(),
    Guard(
        "claim.place",
        "taking what waits, is held, has ended, or somebody else has",
        (Sql("leases.claim", "place = 'ready'"),),
        (f"{LEASES}test_only_ready_runs_are_claimed",),
    ),
    Guard(
        "claim.queue",
        "taking the work of other queues",
        (Sql("leases.claim", r"(?<!\w)queue = [?$]\d+"),),
        (f"{LEASES}test_other_queues_are_left_alone",),
    ),
    Guard(
        "claim.limit",
        "taking more than there is room for",
        (Sql("leases.claim", LIMIT, MORE),),
        (f"{LEASES}test_never_more_than_asked_for",),
    ),
    Guard(
        "claim.lock",
        "two workers taking one run",
        (Sql("leases.claim", LOCK, "", ("postgres",)),),
        (f"{FENCES}test_what_somebody_else_is_changing_is_left_alone[claim]",),
    ),
    Guard(
        "claim.materialized",
        "a claim that looks for its rows again and takes more than its limit",
        (Sql("leases.claim", "MATERIALIZED", "", ("postgres",)),),
        doubled_by="claim.lock: PostgreSQL never repeats a subquery that locks rows",
    ),
    Guard(
        "claim.epoch rises",
        "two attempts with the same fence number",
        (Sql("leases.claim", r"epoch = epoch \+ 1", "epoch = epoch"),),
        (f"{LEASES}test_epochs_rise_by_one_i4",),
    ),
    Guard(
        "claim.paused",
        "work of a paused queue being begun",
        (Sql("leases.claim", PAUSED, NEVER),),
        (f"{LEASES}test_paused_queues_are_skipped",),
    ),
    Guard(
        "claim_alone.paused",
        "suspects of a paused queue being begun",
        (Sql("leases.claim_alone", PAUSED, NEVER),),
        (f"{LEASES}test_suspects_obey_queue_pause_and_workflows",),
    ),
    Guard(
        "claim_alone.limit",
        "two suspects in one worker",
        (Sql("leases.claim_alone", LIMIT, MORE),),
        (f"{FENCES}test_one_suspect_at_a_time",),
    ),
    Guard(
        "claim_alone.lock",
        "two workers taking one suspect",
        (Sql("leases.claim_alone", LOCK, "", ("postgres",)),),
        (f"{FENCES}test_what_somebody_else_is_changing_is_left_alone[claim_alone]",),
    ),
    Guard(
        "renew.token",
        "prolonging a lease that somebody else has",
        (Sql("leases.renew", TOKEN),),
        (f"{LEASES}test_renewing_prolongs_only_matching_leases_p7",),
    ),
    Guard(
        "renew.place",
        "prolonging what has ended",
        (Sql("leases.renew", PLACE),),
        (f"{LEASES}test_renewing_prolongs_only_matching_leases_p7",),
    ),
    Guard(
        "kept.token",
        "a worker believing that it has what somebody else has",
        (Sql("leases.kept", TOKEN),),
        (f"{LEASES}test_renewing_prolongs_only_matching_leases_p7",),
    ),
    Guard(
        "kept.place",
        "a worker believing that it has what has ended",
        (Sql("leases.kept", PLACE),),
        doubled_by="the record that ends a lease clears its expiry; see kept.place and expiry",
    ),
    Guard(
        "kept.place and expiry",
        "a worker believing that it has a run that has ended",
        (Sql("leases.kept", rf"{PLACE} AND run\.{EXPIRY.replace('<', '>=')}"),),
        (f"{LEASES}test_renewing_prolongs_only_matching_leases_p7",),
    ),
    Guard(
        "reclaim.expiry",
        "taking over healthy work",
        (Sql("leases.reclaim", EXPIRY),),
        (f"{LEASES}test_only_expired_leases_are_reclaimed_p6",),
    ),
    Guard(
        "reclaim.place",
        "taking over what is not leased",
        (Sql("leases.reclaim", PLACE),),
        doubled_by="the record that ends a lease clears its expiry; see reclaim.place and expiry",
    ),
    Guard(
        "reclaim.place and expiry",
        "a run that has ended being taken over and executed again",
        (
            Sql("leases.reclaim", PLACE),
            Sql("records.complete", "lease_expires_at = NULL", "lease_expires_at = lease_expires_at"),
        ),
        tuple(
            f"{RECORDS}test_a_late_record_whose_token_still_matches_is_accepted[{side}-completed]"
            for side in ("sqlite", "postgres")
        ),
    ),
    Guard(
        "reclaim.lock",
        "two workers judging one lost attempt, or one that is just being recorded",
        (Sql("leases.reclaim", LOCK, "", ("postgres",)),),
        (f"{FENCES}test_what_somebody_else_is_changing_is_left_alone[reclaim]",),
    ),
    Guard(
        "reclaim.new token",
        "the late write of a worker whose work was taken over",
        (Sql("leases.reclaim", r"token = ([?$]\d+)", r"token = COALESCE(token, \1)"),),
        (f"{LEASES}test_a_reclaimed_lease_is_not_renewed",),
    ),
    Guard(
        "adopt.token",
        "adopting other claims than the one without an answer",
        (Sql("leases.adopt", TOKEN),),
        (f"{LEASES}test_adopting_finds_exactly_the_claims_of_the_token",),
    ),
    Guard(
        "adopt.place",
        "adopting what has ended",
        (Sql("leases.adopt", PLACE),),
        (f"{LEASES}test_adopting_finds_exactly_the_claims_of_the_token",),
    ),
    Guard(
        "adopt.worker",
        "adopting the claims of another worker",
        (Sql("leases.adopt", r"worker = [?$]\d+"),),
        (f"{LEASES}test_adopting_finds_exactly_the_claims_of_the_token",),
    ),
    Guard(
        "promote.due",
        "a retry before its time",
        (
            Sql(
                "leases.promote",
                r"due_at <= (?:\?1|date_part\('epoch', now\(\)\))",
            ),
        ),
        (f"{LEASES}test_only_what_is_due_is_promoted",),
    ),
    Guard(
        "promote.lock",
        "what was cancelled in the same moment being executed nevertheless",
        (Sql("leases.promote", LOCK, "", ("postgres",)),),
        (f"{FENCES}test_what_somebody_else_is_changing_is_left_alone[promote]",),
    ),
    Guard(
        "release.lock",
        "held work being released twice",
        (Sql("limits.release", LOCK, "", ("postgres",)),),
        (f"{FENCES}test_what_somebody_else_is_changing_is_left_alone[release]",),
    ),
    Guard(
        "unknown claim",
        "claimed work that nobody executes until its lease is over, when the answer to a claim was lost",
        (Code("redrive.engine.claimer:Claimer.adopt", "if self._unsure is None:", "if True:"),),
        (f"{RECORDER}test_a_claim_whose_answer_is_lost_is_adopted[after the commit]",),
    ),
    Guard(
        "unknown record",
        "a written result being taken for a lost one, when the answer to a record was lost",
        (Code("redrive.store.records:RecordBatch.write", "if self._tried:", "if False:"),),
        (f"{RECORDER}test_a_write_that_fails_is_made_exactly_once[complete-after the commit]",),
    ),
    Guard(
        "unknown record.token",
        "a record that was fenced off being taken for one that still can be written",
        (Code("redrive.store.records:_fate", "token != change.token", "False"),),
        (f"{RECORDS}test_after_an_unknown_commit_written_open_and_lost_are_told_apart",),
    ),
    Guard(
        "unknown record.epoch",
        "the record of an earlier step being taken for one that still can be written",
        (Code("redrive.store.records:_fate", "if epoch == change.epoch:", "if True:"),),
        (f"{RECORDS}test_a_step_that_is_over_is_not_open_under_the_lease_of_the_next",),
    ),
    Guard(
        "one record a run and batch",
        "two records of one run counting in one statement",
        (
            Code(
                "redrive.engine.recorder:_next_batch",
                "batch[run_id] = entry",
                "batch[f'{run_id} {len(batch)}'] = entry",
            ),
        ),
        (
            f"{RECORDER}test_two_records_of_one_run_in_one_batch_are_told_apart",
            f"{RECORDER}test_two_completions_of_one_run_in_one_batch_are_told_apart",
        ),
    ),
    Guard(
        "only the winner writes beside",
        "attempts, dead letters and freed slots of a record that was fenced off",
        (Code("redrive.store.records:Records.record_within", "if record.change.id in won", ""),),
        (f"{LOST}[sqlite-stopped]", f"{LOST}[postgres-stopped]"),
    ),
    Guard(
        "keeper.thread",
        "a blocked event loop losing its leases",
        (Code("redrive.engine.worker:Worker._renew_by", "if self._database.in_memory:", "if True:"),),
        (f"{KEEPER}test_a_blocked_event_loop_keeps_its_leases",),
    ),
    Guard(
        "keeper.over",
        "work going on after its lease, while the database cannot be reached",
        (
            Code(
                "redrive.engine.lease_renewer:LeaseRenewer.has_expired",
                "return lease is None or",
                "return False and",
            ),
        ),
        (f"{KEEPER}test_while_the_database_is_away_a_lease_is_given_up_when_it_is_over_and_not_before",),
    ),
    Guard(
        "keeper.not renewed",
        "work going on whose lease somebody else has",
        (
            Code(
                "redrive.engine.lease_renewer:LeaseRenewer.renew",
                "[key for key, _ in due if key not in renewed]",
                "[]",
            ),
        ),
        (f"{KEEPER}test_it_says_which_leases_somebody_else_has",),
    ),
    Guard(
        "keeper.interrupts",
        "a handler that is not told to stop when its lease is gone",
        (
            Code(
                "redrive.engine.in_flight:InFlight._lost",
                "for run_id, token in leases:",
                "for run_id, token in []:",
            ),
        ),
        (f"{FENCES}test_a_handler_whose_lease_somebody_else_has_is_stopped",),
    ),
    Guard(
        "no step under an expired lease",
        "beginning what somebody else may have begun",
        (Code("redrive.engine.executor:Executor._run", "self.in_flight.has_expired(work)", "False"),),
        (f"{RECORDER}test_the_database_may_be_away_for_long",),
    ),
    Guard(
        "boarding interrupts",
        "two attempts of one step side by side in one worker",
        (Code("redrive.engine.in_flight:InFlight.add", "before is not None and", "False and"),),
        (f"{FENCES}test_who_takes_over_from_himself_stops_the_first_attempt",),
    ),
    Guard(
        "executor.abandon",
        "handlers that outlive their worker",
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
