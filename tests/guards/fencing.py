"""The guards of leases: the fence of each write separately, claims, renewals, taking over what was lost."""

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
    "id": "somebody who has the lease of another run {}",
    "token": "somebody who has lost the lease {}",
    "epoch": "what belongs to an earlier step under the same lease {}",
    "place": "what was written before, and ended the lease, {} again",
}
LEASES = "tests/store/test_leases.py::"
RECORDS = "tests/store/test_records.py::"
RECORDER = "tests/engine/test_recorder.py::"
KEEPER = "tests/engine/test_lease_renewer.py::"
WORKER = "tests/engine/test_worker.py::"
FENCES = "tests/guards/test_fences.py::"
WRITES = "tests/guards/test_fenced_writes.py::"
CLAIMS = "tests/guards/test_claims.py::"
LOCKS = "tests/guards/test_locks.py::"
FAILED_RUNS = "tests/guards/test_failed_runs.py::"
POSTGRES: tuple[Side, ...] = ("postgres",)
SQLITE: tuple[Side, ...] = ("sqlite",)
"""On PostgreSQL, a place is a table: work that is elsewhere is not in it."""

FENCED = {
    "records.complete": "completes the run",
    "records.complete_partly": "completes a step that was replayed alone",
    "records.advance": "goes on to the next step",
    "records.hand_over": "hands the next step over",
    "records.reschedule": "schedules a retry",
    "records.stop": "buries the run",
    "records.park": "parks the run",
    "records.occupied": "is told its slots",
    "records.occupy": "notes slots",
    "records.progress": "notes progress",
    "leases.begin_alone": "begins alone",
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
    "claim": ("leases.claim", "two workers taking one run"),
    "claim_alone": ("leases.claim_alone", "two workers taking one suspect"),
    "reclaim": (
        "leases.reclaim",
        "two workers judging one lost attempt, or one that is just being recorded",
    ),
    "promote": ("leases.promote", "what was cancelled in the same moment being executed nevertheless"),
    "release": ("limits.release", "held work being released twice"),
}
LOCK = r"FOR UPDATE(?: OF run| OF lease)? SKIP LOCKED"


def _locks() -> Iterator[Guard]:
    """On PostgreSQL: SQLite has one writer at a time."""
    for name, (statement, what) in TAKING.items():
        tests = (f"{FENCES}test_what_somebody_else_is_changing_is_left_alone[{name}]",)
        yield Guard(f"{name}.lock", what, (Sql(statement, LOCK, "", POSTGRES),), tests)
        yield Guard(
            f"{name}.skip locked",
            f"a worker waiting for another, in {name}",
            (Sql(statement, " SKIP LOCKED", "", POSTGRES),),
            tests,
        )
    tests = (f"{LOCKS}test_a_renewal_does_not_wait_for_a_record",)
    yield Guard(
        "renew.lock",
        "renewals and records waiting for one another crosswise",
        (Sql("leases.renew", LOCK, "", POSTGRES),),
        tests,
    )
    yield Guard(
        "renew.skip locked",
        "all leases of a worker being renewed too late because of one that is being recorded",
        (Sql("leases.renew", " SKIP LOCKED", "", POSTGRES),),
        tests,
    )
    yield Guard(
        "occupied.lock",
        "a lease being taken over before its slots are noted",
        (Sql("records.occupied", "FOR UPDATE OF lease", "", POSTGRES),),
        (f"{LOCKS}test_what_is_locked_stays_so_until_the_transaction_ends[occupied]",),
    )
    yield Guard(
        "failed.lock",
        "a run being replayed, or removed, while its dead letter is made",
        (Sql("leases.failed", "FOR UPDATE OF run", "", POSTGRES),),
        (f"{LOCKS}test_what_is_locked_stays_so_until_the_transaction_ends[failed]",),
    )


EXPIRY = r"leased_until < (?:\?1|date_part\('epoch', now\(\)\))"
LIMIT = r"LIMIT ([?$]\d+|1)"
MORE = r"LIMIT \1 + 1"
PAUSED = "paused_at IS NOT NULL"
_LISTED = r"(?:value FROM json_each\(\?\d+\)|json_array_elements_text\(CAST\(\$\d+ AS json\)\) AS value)"
WANTED = rf"workflow IN \(SELECT {_LISTED}\)"
UNWANTED = WANTED.replace(" IN", " NOT IN")
BEGAN = r"COALESCE\(started_at, (\?1|date_part\('epoch', clock_timestamp\(\)\))\)"
NEVER = r"(\g<0> AND 1 = 0)"


def _claims() -> Iterator[Guard]:
    """What both kinds of claims have to heed."""
    for name in ("claim", "claim_alone"):
        for part, what, pattern, replacement in (
            ("queue", "taking the work of other queues", r"(?<!\w)queue = [?$]\d+", ALWAYS),
            ("workflows", "taking work that this worker does not know", WANTED, ALWAYS),
            ("without", "taking work that this worker has no room for", UNWANTED, ALWAYS),
            ("limit", "taking more than there is room for", LIMIT, MORE),
            ("paused", "work of a paused queue being begun", PAUSED, NEVER),
            ("epoch rises", "two attempts with the same fence number", r"epoch \+ 1", "epoch"),
            ("attempt rises", "two attempts with the same number", r"attempt \+ 1", "attempt"),
            ("begun once", "a retry looking like the beginning of the run", BEGAN, r"\1"),
        ):
            if (name, part) != ("claim_alone", "without"):  # it is never asked for there
                tests = _both(f"{CLAIMS}test_a_claim_takes_what_it_may", f"{name}-{part}")
                patches = (Sql(f"leases.{name}", pattern, replacement),)
                yield Guard(f"{name}.{part}", what, patches, tests)


GUARDS = (
    *_fences(),
    *_locks(),
    *_claims(),
    Guard(
        "claim.place",
        "taking what waits, is held, has ended, or somebody else has",
        (Sql("leases.claim", "place = 'ready'", sides=SQLITE),),
        tuple(_on("sqlite", f"{LEASES}test_only_ready_runs_are_claimed", each) for each in ("held", "ended")),
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
        (Sql("leases.renew", PLACE, sides=SQLITE),),
        (_on("sqlite", f"{LEASES}test_renewing_prolongs_only_matching_leases_p7"),),
    ),
    Guard(
        "renew.id",
        "prolonging the leases of other runs that were claimed together with this one",
        (Sql("leases.renew", ID),),
        _both(f"{WRITES}test_a_renewal_prolongs_the_lease_of_its_run_only_p7"),
    ),
    *(
        Guard(
            f"kept.{part}",
            f"a worker believing that it has {what}",
            (Sql("leases.kept", pattern),),
            _both(f"{WRITES}test_a_lease_that_is_over_is_not_kept_p7"),
        )
        for part, what, pattern in (
            ("id", "all runs that were claimed together with this one", ID),
            ("token", "what somebody else has", TOKEN),
            ("expiry", "a lease that is over", _ROW + EXPIRY.replace("<", ">=")),
        )
    ),
    Guard(
        "kept.place",
        "a worker believing that it has what has ended",
        (Sql("leases.kept", PLACE, sides=SQLITE),),
        doubled_by="the record that ends a lease clears its expiry; see kept.place and expiry",
    ),
    Guard(
        "kept.place and expiry",
        "a worker believing that it has a run that has ended",
        (Sql("leases.kept", rf"{PLACE} AND run\.{EXPIRY.replace('<', '>=')}", sides=SQLITE),),
        (_on("sqlite", f"{WRITES}test_a_lease_that_is_over_is_not_kept_p7"),),
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
        (Sql("leases.reclaim", PLACE, sides=SQLITE),),
        doubled_by="the record that ends a lease clears its expiry; see reclaim.place and expiry",
    ),
    Guard(
        "reclaim.place and expiry",
        "a run that has ended being taken over and executed again",
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
        (Sql("leases.adopt", PLACE, sides=SQLITE),),
        (_on("sqlite", f"{LEASES}test_adopting_finds_exactly_the_claims_of_the_token"),),
    ),
    Guard(
        "adopt.worker",
        "adopting the claims of another worker",
        (Sql("leases.adopt", r"worker = [?$]\d+"),),
        (f"{LEASES}test_adopting_finds_exactly_the_claims_of_the_token",),
    ),
    Guard(
        "claim_alone.place",
        "what waits, or is held, being taken for a suspect",
        (Sql("leases.claim_alone", "place = 'alone'"),),
        _both(f"{CLAIMS}test_only_suspects_are_claimed_alone"),
    ),
    *(
        Guard(
            f"{name}.suspects",
            "a suspect being executed together with others",
            (Sql(statement, "CASE WHEN isolation > 0 THEN 'alone' ELSE 'ready' END", "'ready'"),),
            _both(f"{CLAIMS}test_a_suspect_waits_to_be_alone", name),
        )
        for name, statement in (("promote", "leases.promote"), ("release", "limits.release"))
    ),
    Guard(
        "promote.place",
        "what is held being made ready",
        (Sql("leases.promote", "place = 'waiting'"),),
        doubled_by="promote.due: nothing but waiting work has a due time",
    ),
    Guard(
        "release.place",
        "what waits being made ready",
        (Sql("limits.release", "place = 'held'"),),
        doubled_by="release.holder: nothing but held work has a holder",
    ),
    Guard(
        "advance.in place",
        "the next step starting under a lease that is not meant for it",
        (Sql("records.advance", r"(?:batch\.in_place|\?\d+) = 1(?= AND)"),),
        _both(f"{WRITES}test_a_step_that_is_not_to_go_on_in_place_is_handed_over"),
    ),
    Guard(
        "advance.epoch rises",
        "the record of a step counting for the next one, under the same lease",
        (Sql("records.advance", r"epoch = (run|lease)\.epoch \+ 1", r"epoch = \1.epoch"),),
        _both(f"{LEASES}test_epochs_rise_by_one_i4"),
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
    *(
        Guard(
            f"failed.{part}",
            f"{what} being taken up as one that has failed",
            (Sql("leases.failed", pattern),),
            _both(f"{FAILED_RUNS}test_nothing_but_a_failed_run_of_the_org_is_taken_up_i8_i10", part),
        )
        for part, what, pattern in (
            ("id", "another run", ID),
            ("org", "a run of another org", _ROW + r"org = [?$]\d+"),
            ("state", "a run that has succeeded", _ROW + r"state IN \('FAILED', 'DLQ_PENDING'\)"),
        )
    ),
    Guard(
        "take_again.id",
        "all failed tasks of an org being taken again with one",
        (Sql("external_failures.take_again", ID),),
        _both(f"{FAILED_RUNS}test_a_task_that_is_reported_again_is_taken_again"),
    ),
    Guard(
        "take_again.place",
        "a task that is replayed being taken from its worker",
        (Sql("external_failures.take_again", "place = 'ended'", sides=SQLITE),),
        (_on("sqlite", f"{FAILED_RUNS}test_a_task_that_is_being_replayed_is_not_taken_again_i4"),),
    ),
    Guard(
        "take_again.new epoch",
        "two attempts with the same fence number",
        (Sql("external_failures.take_again", r"epoch \+ 1", "epoch"),),
        _both(f"{FAILED_RUNS}test_a_task_that_is_reported_again_is_taken_again"),
    ),
    Guard(
        "take_again.own input",
        "the input of every run being replaced by that of one",
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
        "a task that was never replayed not being taken again at all",
        (Sql("external_failures.take_again", r"COALESCE\(replays, 0\)", "replays", POSTGRES),),
        (_on("postgres", f"{FAILED_RUNS}test_a_task_that_is_reported_again_is_taken_again"),),
    ),
    Guard(
        "clear_runs.place",
        "clearing a queue removing what is executed",
        (Sql("external_failures.clear_runs", "place = 'ended'", sides=SQLITE),),
        (_on("sqlite", f"{FAILED_RUNS}test_what_is_being_replayed_is_not_cleared_i1"),),
    ),
    Guard(
        "clear_runs.inputs",
        "clearing a queue removing what all other runs were given",
        (Sql("external_failures.clear_runs", r"id IN \(SELECT id FROM gone\)", sides=POSTGRES),),
        (_on("postgres", f"{FAILED_RUNS}test_clearing_a_queue_leaves_other_runs_as_they_are"),),
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
        tuple(
            f"{RECORDER}test_a_write_that_fails_is_made_exactly_once[{statement}-after the commit]"
            for statement in ("complete", "advance", "insert_step", "reschedule")
        ),
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
        "unknown record.in place",
        "a step being taken for lost that has gone on under the same lease",
        (Code("redrive.store.records:_fate", '"written" if goes_on else "lost"', '"lost"'),),
        (f"{RECORDER}test_a_write_that_fails_is_made_exactly_once[advance-after the commit]",),
    ),
    Guard(
        "one record a run and batch",
        "two records of one run counting in one statement",
        (
            Code(
                "redrive.engine.recorder:_Lane.take",
                "batch[run_id] = entry",
                "batch[f'{run_id} {len(batch)}'] = entry",
            ),
        ),
        (
            f"{RECORDER}test_two_records_of_one_run_in_one_batch_are_told_apart",
            f"{RECORDER}test_two_completions_of_one_run_in_one_batch_are_told_apart",
            f"{RECORDER}test_two_advances_of_one_run_in_one_batch_are_told_apart",
        ),
    ),
    Guard(
        "only the winner writes beside",
        "attempts, dead letters and freed slots of a record that was fenced off",
        (Code("redrive.store.records:Records.record_within", "if record.change.id in won", ""),),
        _both(f"{WRITES}test_nothing_is_written_beside_a_record_that_was_fenced_off_i4"),
    ),
    Guard(
        "only the winner finishes a step",
        "the finished step of a worker that has lost its lease",
        (Code("redrive.store.records:Records._finish", "for run_id in recorded]", "for run_id in steps]"),),
        tuple(
            f"{RECORDS}test_finished_steps_of_a_batch_are_those_of_the_winners[{side}]"
            for side in ("sqlite", "postgres")
        ),
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
