"""Guards of dead letters: replays, bulk replays, automatic redrives, counters and the audit log."""

from __future__ import annotations

from tests.guards.guard import Guard
from tests.guards.patch import Code, Schema, Side, Sql

REPLAYS = "tests/guards/test_replays.py::"
NOT_BEGUN = f"{REPLAYS}test_an_item_that_differs_from_the_plan_does_not_start_i7_i10"
NOT_RESUMED = f"{REPLAYS}test_only_a_failed_run_without_a_live_letter_is_resumed"
IN_BETWEEN = f"{REPLAYS}test_closing_a_letter_while_its_replay_starts_undoes_the_replay_i1"
NOT_DUE = f"{REPLAYS}test_letters_that_are_not_due_are_neither_found_nor_taken_m3"
AFTER_ANOTHER = f"{REPLAYS}test_letters_that_wait_for_another_are_neither_found_nor_taken_m12"
RECORDS = "tests/store/test_records.py::"
LETTERS = "tests/store/test_dead_letters.py::"
COUNTERS = "tests/store/test_dead_letter_counters.py::"
REDRIVING = "tests/store/test_automatic_redrive.py::"
OPERATIONS = "tests/store/test_bulk_replays.py::"
BULK = "tests/failures/test_bulk_replays.py::"
AUDIT = "tests/store/test_audit.py::"
FILTER = "tests/store/test_dead_letter_filter.py::"
TRIAGE = "tests/failures/test_triage.py::"
PROCESSOR = "tests/failures/test_redrive_processor.py::"
QUEUE = "tests/test_dead_letter_queue.py::"
LIMIT = "tests/policy/test_automatic_redrive.py::"
MOVES = "tests/guards/test_moves.py::"
LOCKS = "tests/guards/test_locks.py::"
LOCKED = f"{LOCKS}test_locked_rows_stay_locked_until_the_transaction_ends"
PASSED_OVER = f"{LOCKS}test_locked_rows_are_skipped"
SQLITE: tuple[Side, ...] = ("sqlite",)
"""On PostgreSQL each place is a table, so a statement cannot reach a run in another place."""
POSTGRES: tuple[Side, ...] = ("postgres",)


def _both(test: str, which: str = "") -> tuple[str, ...]:
    return tuple(f"{test}[{side}-{which}]" if which else f"{test}[{side}]" for side in ("sqlite", "postgres"))


NEVER = r"(\g<0> AND 1 = 0)"
LOCK = r"FOR UPDATE(?: OF [\w, ]+)?(?: SKIP LOCKED)?"
PLACE = r"(?:run\.)?place = 'ended'"
FAILED = r"(?<!letter\.)(?:run\.)?state IN \('DLQ_PENDING', 'FAILED'(?:, 'PARTIAL')?\)"
STEP = r"(?<=AND )(?:run\.)?step_index = (?:batch\.step_index|[?$]\d+)"
LETTER_STEP = r"letter\.step_index >= (?:redrive\.)?runs?\.step_index"
MARKED = r"letter\.run_id = (?:batch\.run_id|\?\d+)"
LETTER_RUN = r"letter\.run_id = (?:redrive\.)?runs?\.id"
LETTER_OPEN = r"\(?(?:letter\.)?state(?: \|\| ''\))? IN \('OPEN', 'EXHAUSTED'\)"
FREE = r"NOT EXISTS \(\s*SELECT 1 FROM (?:redrive\.)?dead_letter_dependencies[^()]*\)"
DUE = r"letter\.next_redrive_at <= (?:\?1|date_part\('epoch', now\(\)\))"

BEGINNING = (
    Guard(
        "restart.place",
        "a replay starts a run that is already in progress",
        (Sql("replays.restart", PLACE, sides=SQLITE),),
        doubled_by="restart.state: a failed run has always ended; see restart.place and state",
    ),
    Guard(
        "restart.state",
        "a replay executes a cancelled or successful run again",
        (Sql("replays.restart", FAILED),),
        (*_both(NOT_BEGUN, "it was cancelled"), *_both(NOT_BEGUN, "it has succeeded")),
    ),
    Guard(
        "restart.place and state",
        "a replay starts a run that is already in progress",
        (Sql("replays.restart", PLACE, sides=SQLITE), Sql("replays.restart", FAILED, sides=SQLITE)),
        (f"{NOT_BEGUN}[sqlite-it is at work]",),
    ),
    Guard(
        "restart.step",
        "a replay of one step starts at another step that the run has reached since",
        (Sql("replays.restart", STEP),),
        _both(NOT_BEGUN, "both have gone on"),
    ),
    Guard(
        "restart.letter",
        "a closed dead letter is replayed",
        (Sql("replays.restart", LETTER_OPEN),),
        (*_both(NOT_BEGUN, "the letter was closed"), *_both(NOT_BEGUN, "the letter is replayed already")),
    ),
    Guard(
        "restart.letter's step",
        "the dead letter of one step starts another step",
        (Sql("replays.restart", LETTER_STEP),),
        _both(NOT_BEGUN, "the run has gone on"),
    ),
    Guard(
        "restart.letter's run",
        "the dead letter of one run starts another run",
        (Sql("replays.restart", LETTER_RUN),),
        _both(NOT_BEGUN, "the letter is of another run"),
    ),
    Guard(
        "restart.run",
        "a replay starts other runs than its own",
        (Sql("replays.restart", r"run\.id = (?:batch\.run_id|[?$]\d+)"),),
        doubled_by="restart.letter's run: a dead letter belongs to one run",
    ),
    Guard(
        "restart.own replay",
        "a run gets the payload edited for another run's replay",
        (Sql("replays.restart", r"batch\.run_id = run\.id", sides=POSTGRES),),
        (f"{MOVES}test_replays_of_several_runs_do_not_mix[postgres]",),
    ),
    Guard(
        "resume.run",
        "a retry restarts other runs than its own",
        (Sql("replays.resume", r"run\.id = (?:batch\.run_id|[?$]\d+)"),),
        _both(f"{MOVES}test_a_change_of_one_run_does_not_change_others", "resume"),
    ),
    *(
        Guard(
            f"{name}.replays",
            "a run that was never replayed cannot be replayed",
            (Sql(f"replays.{name}", r"COALESCE\(run\.replays, 0\)", "run.replays", POSTGRES),),
            (f"{MOVES}test_later_moves_of_a_run_keep_the_marks_of_its_lease_i4[postgres-{name}]",),
        )
        for name in ("restart", "resume")
    ),
    Guard(
        "mark_replaying.state",
        "a dead letter closed at the last moment is open again",
        (Sql("replays.mark_replaying", LETTER_OPEN),),
        _both(IN_BETWEEN),
    ),
    Guard(
        "mark_replaying.all",
        "a run is in progress although its dead letter is closed",
        (Code("redrive.store.replays:ReplayStore._restart", "if not all(", "if False and not all("),),
        _both(IN_BETWEEN),
    ),
    Guard(
        "restart.later letter",
        "a replay of one step leaves the run partly done while a later step has a live dead letter",
        (
            Sql("replays.restart", r"later\.run_id = run\.id", NEVER),
            Code(
                "redrive.failures.replays:Replays._check_later_letters",
                "other.step_index > run.step_index",
                "False",
            ),
        ),
        (
            "tests/failures/test_replays.py::test_12_w9_the_reopened_letter_can_be_replayed_too",
            "tests/failures/test_replays.py::test_12_w9_a_bulk_replay_refuses_to_leave_a_later_letter_behind",
        ),
    ),
    Guard(
        "letter reopened",
        "a replay that fails in an earlier step closes or forgets the dead letter of the later step",
        (
            Code(
                "redrive.store.replays:_is_missed",
                "letter.step_index > settlement.step_index",
                "False",
            ),
        ),
        (
            "tests/failures/test_replays.py::test_12_w9_a_replay_that_fails_in_an_earlier_step_reopens_the_letter",
        ),
    ),
    Guard(
        "letter failed along",
        "a dead letter that fails again in an earlier letter's replay is open, and no audit entry says why",
        (Code("redrive.store.records:_failed_along", "if letter.id in along", "if False"),),
        (
            "tests/failures/test_replays.py"
            "::test_12_w9_a_later_letter_that_fails_again_in_a_replay_of_the_earlier_one_is_reopened",
        ),
    ),
    Guard(
        "letter replayed along",
        "the run succeeds, and the dead letter of a later step stays open",
        (
            Sql("replays.mark_replaying", MARKED, r"\g<0> AND letter.id = ?3", SQLITE),
            Sql("replays.mark_replaying", MARKED, r"\g<0> AND letter.id = batch.letter_id", POSTGRES),
        ),
        (
            "tests/failures/test_replays.py::test_12_w9_a_replay_that_fails_in_an_earlier_step_reopens_the_letter",
        ),
    ),
    Guard(
        "resume.place",
        "a run in progress is retried",
        (Sql("replays.resume", PLACE, sides=SQLITE),),
        doubled_by="resume.state: a failed run has always ended; see resume.place and state",
    ),
    Guard(
        "resume.state",
        "a successful run is retried",
        (Sql("replays.resume", FAILED),),
        _both(NOT_RESUMED, "it has succeeded"),
    ),
    Guard(
        "resume.place and state",
        "a run in progress is retried",
        (Sql("replays.resume", PLACE, sides=SQLITE), Sql("replays.resume", FAILED, sides=SQLITE)),
        (f"{NOT_RESUMED}[sqlite-it is at work]",),
    ),
    Guard(
        "resume.step",
        "a run that has advanced is retried at its old step",
        (Sql("replays.resume", STEP),),
        _both(NOT_RESUMED, "it has gone on"),
    ),
    Guard(
        "resume.letter",
        "a run is in progress while its dead letter is still live",
        (Sql("replays.resume", r"letter\.state IN \('OPEN', 'REPLAYING', 'EXHAUSTED'\)", NEVER),),
        _both(NOT_RESUMED, "it has a live letter"),
    ),
    Guard(
        "unknown replay",
        "when the response is lost, a started replay is reported as rejected",
        (Code("redrive.failures.replays:Replays._refuse", "if replay.id == new.id:", "if False:"),),
        (f"{REPLAYS}test_a_replay_whose_answer_was_lost_is_not_refused",),
    ),
    *(
        Guard(
            f"{statement}.redrives",
            "a replay from an earlier step resets the number of automatic redrives of the failed step",
            (Sql(f"records.{statement}", r"SELECT letter\.redrives FROM", "SELECT 0 FROM"),),
            tuple(
                f"{RECORDS}test_the_next_step_continues_the_redrives_of_its_live_letter_i3"
                f"[{side}-{which}-REPLAYING-2]"
                for side in ("sqlite", "postgres")
            ),
        )
        for statement, which in (("advance", "in place"), ("hand_over", "handed over"))
    ),
    Guard(
        "settled with the record",
        "a replay ends while its run continues, or the other way round",
        (
            Code(
                "redrive.store.records:Records._write_letters",
                "self._replays.settle(session, settlements, locked)",
                "self._replays.settle(self._session, settlements, locked)",
            ),
        ),
        (
            f"{REPLAYS}test_the_outcome_of_a_replay_is_rolled_back_with_its_record_w2[postgres-SUCCEEDED]",
            f"{REPLAYS}test_the_outcome_of_a_replay_is_rolled_back_with_its_record_w2[sqlite-SUCCEEDED]",
        ),
    ),
)
OF_OPERATIONS = (
    Guard(
        "pick.state",
        "an item of a bulk replay starts twice",
        (Sql("replays.pick", r"state = 'PLANNED'"),),
        _both(f"{REPLAYS}test_an_item_starts_once"),
    ),
    Guard(
        "pick.lock",
        "two drivers start the same items",
        (Sql("replays.pick", LOCK, "", ("postgres",)),),
        doubled_by="lock_running: only one driver at a time holds a bulk replay",
    ),
    Guard(
        "pick.dependency",
        "an item starts before the item that it depends on",
        (Sql("replays.pick", FREE),),
        _both(f"{OPERATIONS}test_an_item_does_not_start_before_the_dead_letter_it_depends_on_is_resolved"),
    ),
    Guard(
        "lock_running.lock",
        "two drivers overwrite each other's counts of started items",
        (Sql("bulk_replays.lock_running", LOCK, "", ("postgres",)),),
        (f"{OPERATIONS}test_a_locked_operation_is_skipped",),
    ),
    Guard(
        "lock_running.state",
        "a paused, stopped or cancelled bulk replay continues",
        (Sql("bulk_replays.lock_running", r"state = 'RUNNING'"),),
        _both(f"{OPERATIONS}test_only_running_operations_are_driven"),
    ),
    Guard(
        "bulk_replays.run",
        "a bulk replay starts a run once for each of its dead letters",
        (Sql("bulk_replays.freeze_ids", r"member\.step_index = member\.first_step"),),
        ("tests/failures/test_replays.py::test_12_w9_a_bulk_replay_of_both_letters_starts_the_run_once",),
    ),
    Guard(
        "bulk_replays.lock",
        "when two users control a bulk replay, the second does not see the first one's change",
        (Sql("bulk_replays.lock", LOCK, "", ("postgres",)),),
        (f"{REPLAYS}test_concurrent_changes_of_an_operation_see_each_other",),
    ),
    Guard(
        "bulk_replays.states",
        "a finished bulk replay starts again",
        (
            Code(
                "redrive.failures.bulk_replays:BulkReplays._locked",
                "if moment.operation.state not in allowed:",
                "if False:",
            ),
        ),
        (f"{BULK}test_changes_that_a_state_does_not_allow_are_refused",),
    ),
    Guard(
        "drift at the start",
        "a bulk replay starts although its dead letters have changed since it was planned",
        (
            Code(
                "redrive.failures.bulk_replays:BulkReplays.start",
                "if drifted and not accept_drift:",
                "if False:",
            ),
        ),
        (f"{BULK}test_drift_between_plan_and_start_is_a_conflict_with_a_diff",),
    ),
    Guard(
        "number at the start",
        "a bulk replay replays a different number of dead letters than the user saw",
        (
            Code(
                "redrive.failures.bulk_replays:BulkReplays.start",
                "check_number_replayed(remaining, expect)",
                "pass",
            ),
        ),
        (f"{BULK}test_another_number_than_was_expected_starts_nothing",),
    ),
    *(
        Guard(
            f"obstacles.{part}",
            f"a dead letter {what} since planning counts as unchanged",
            (Sql("bulk_replays.obstacles", pattern, NEVER),),
            _both(
                f"{OPERATIONS}test_items_that_changed_or_cannot_be_replayed_are_found_with_the_reason",
                situation,
            ),
        )
        for part, what, pattern, situation in (
            ("updated_at", "changed", r"letter\.updated_at <> item\.letter_updated_at", "touched"),
            ("state", "closed", r"letter\.state NOT IN \('OPEN', 'EXHAUSTED'\)", "closed"),
            ("step", "whose run has advanced", r"run\.step_index <> item\.step_index", "elsewhere"),
        )
    ),
    Guard(
        "pick.updated_at",
        "a bulk replay replays an item that has changed since the bulk replay started",
        (Sql("replays.pick", r"letter\.updated_at = (?:redrive\.)?replays\.letter_updated_at"),),
        _both(
            f"{OPERATIONS}test_items_that_changed_or_cannot_be_replayed_are_found_with_the_reason", "touched"
        ),
    ),
    Guard(
        "pick.step",
        "a bulk replay counts two dead letters of one run as started, although the run is at one of them",
        (Sql("replays.pick", r"run\.step_index = (?:redrive\.)?replays\.step_index"),),
        _both(f"{OPERATIONS}test_of_two_dead_letters_of_a_run_only_that_of_its_step_starts"),
    ),
    Guard(
        "drift while running",
        "a bulk replay replays an item that cannot start any more",
        (Code("redrive.store.replays:ReplayStore.begin_planned", "if row[-1] is not None", "if True"),),
        (f"{BULK}test_items_that_change_while_the_operation_runs_are_left_out_with_a_note",),
    ),
    Guard(
        "decided under the lock",
        "a driver acts on a decision that another process has made out of date",
        (
            Code(
                "redrive.failures.bulk_replay_driver:BulkReplayDriver._advance",
                "move = await self._decide(session, moment, open_breakers)",
                "move = ItemRelease(500, moment.now)",
            ),
        ),
        (f"{BULK}test_only_the_canary_starts_before_it_has_finished",),
    ),
)
OF_REDRIVES = (
    Guard(
        "due.dependency",
        "dead letters that wait for another one fill the batch of a redrive processor",
        (Sql("automatic_redrive.due", FREE),),
        _both(AFTER_ANOTHER),
    ),
    Guard(
        "lock_due.dependency",
        "a dead letter is redriven before the one that it depends on",
        (Sql("automatic_redrive.lock_due", FREE),),
        _both(AFTER_ANOTHER),
    ),
    Guard(
        "due.time",
        "dead letters that are not due fill the batch of a redrive processor",
        (Sql("automatic_redrive.due", DUE),),
        _both(NOT_DUE, "not yet"),
    ),
    Guard(
        "lock_due.time",
        "a dead letter that was just redriven is redriven again",
        (Sql("automatic_redrive.lock_due", DUE),),
        _both(NOT_DUE, "never"),
    ),
    *(
        Guard(
            f"{name}.state",
            "an exhausted dead letter, or one already being replayed, is redriven",
            (Sql(f"automatic_redrive.{name}", r"letter\.state = 'OPEN'"),),
            (*_both(NOT_DUE, "exhausted"), *_both(NOT_DUE, "replayed")),
        )
        for name in ("due", "lock_due")
    ),
    Guard(
        "lock_due.lock",
        "redrive processors wait for each other",
        (Sql("automatic_redrive.lock_due", LOCK, "", POSTGRES),),
        (f"{REPLAYS}test_a_processor_skips_letters_taken_by_another_one",),
    ),
    Guard(
        "lock_due.run",
        "a run is removed or replayed manually while it is being redriven",
        (Sql("automatic_redrive.lock_due", "OF run, letter", "OF letter", POSTGRES),),
        (f"{LOCKED}[lock_due]",),
    ),
    Guard(
        "lock_due.letter",
        "a dead letter is closed while it is being redriven",
        (Sql("automatic_redrive.lock_due", "OF run, letter", "OF run", POSTGRES),),
        (f"{LOCKED}[lock_due, the letter]",),
    ),
    Guard(
        "lock_due.skip locked",
        "a redrive processor waits for a transaction that has locked a dead letter or its run",
        (Sql("automatic_redrive.lock_due", " SKIP LOCKED", "", POSTGRES),),
        (f"{PASSED_OVER}[lock_due]", f"{PASSED_OVER}[lock_due, the letter]"),
    ),
    *(
        Guard(
            f"{name}.lock",
            what,
            (Sql(f"{module}.{name}", LOCK, "", POSTGRES),),
            (f"{LOCKED}[{name}]",),
        )
        for module, name, what in (
            (
                "dead_letters",
                "lock_runs",
                "a run is removed or replayed while its dead letter is reopened",
            ),
            ("external_failures", "lock_removable", "a run is replayed while its queue is cleared"),
            ("external_failures", "lock_known", "a run is removed while its task is reported again"),
        )
    ),
    Guard(
        "due.breaker",
        "a dead letter is redriven although its dependency is down",
        (Sql("automatic_redrive.due", r"letter\.breaker IS NULL"),),
        _both(f"{REDRIVING}test_letters_that_are_not_redriven"),
    ),
    Guard(
        "due.open breakers",
        "a dead letter is redriven although its dependency is down",
        (
            Code(
                "redrive.failures.redrive_processor:Processor._due",
                "open_breakers=held",
                "open_breakers=()",
            ),
        ),
        (f"{PROCESSOR}TestBreakers::test_an_open_breaker_is_respected",),
    ),
    Guard(
        "due.known policy",
        "a processor redrives a dead letter whose custom policy it does not know",
        (Sql("automatic_redrive.due", r"letter\.redrive NOT LIKE 'custom:%'"),),
        _both(f"{REDRIVING}test_letters_that_are_not_redriven"),
    ),
    Guard(
        "redrive limit",
        "a dead letter is redriven forever",
        (Code("redrive.policy.automatic_redrive:_counted", "redrives >= most or", "False or"),),
        (
            f"{LIMIT}TestLimit::test_used_up_is_exhausted",
            f"{PROCESSOR}TestPolicies::test_a_letter_that_has_used_up_its_redrives_is_exhausted",
        ),
    ),
    Guard(
        "unsafe redrive",
        "an automatic redrive repeats a side effect that must not be repeated",
        (
            Code(
                "redrive.policy.automatic_redrive:redriving",
                "effect is Effect.UNSAFE and may_have_executed",
                "False",
            ),
        ),
        (
            f"{LIMIT}TestEffect::test_unsafe_work_that_may_have_been_executed_is_never_redriven",
            f"{QUEUE}TestPolicies::test_unsafe_work_is_not_redriven",
        ),
    ),
    Guard(
        "max_size.lock of a queue",
        "two callers that report failed tasks take the last free place in a stand-alone queue",
        (
            Code(
                "redrive.store.external_failures:ExternalFailures._lock_queue",
                "await self._limits.lock_limits(",
                "(lambda *_: None)(",
            ),
        ),
        (f"{REPLAYS}test_two_concurrent_reports_do_not_both_take_the_last_place_m6",),
    ),
)
OF_LETTERS = (
    Guard(
        "close.state",
        "a dead letter is closed twice, or while it is being replayed",
        (Sql("dead_letters.close", LETTER_OPEN),),
        tuple(
            test
            for state in ("REPLAYING", "RESOLVED")
            for test in _both(f"{LETTERS}test_only_letters_that_are_not_replaying_are_closed", state)
        ),
    ),
    Guard(
        "reopen.state",
        "a dead letter is reopened while it is being replayed",
        (Sql("dead_letters.reopen", r"(?:letter\.)?state IN \('RESOLVED', 'IGNORED', 'ARCHIVED'\)"),),
        _both(f"{LETTERS}test_only_closed_letters_are_reopened", "REPLAYING"),
    ),
    Guard(
        "reopen.standing",
        "a dead letter is reopened although its run has succeeded since",
        (
            Code(
                "redrive.failures.dead_letters:DeadLetters.reopen",
                "check_reopenable(await self._letters.standings(session, named, self._caller.org))",
                "pass",
            ),
        ),
        (f"{TRIAGE}test_a_letter_whose_run_has_succeeded_since_is_not_reopened_i7",),
    ),
    Guard(
        "dead_letters.lock",
        "when two users tag a dead letter, the second overwrites the first one's tags",
        (Sql("dead_letters.lock", LOCK, "", ("postgres",)),),
        (f"{REPLAYS}test_concurrent_changes_of_a_letter_see_each_other",),
    ),
    Guard(
        "dependencies have no cycle",
        "two dead letters wait for each other forever",
        (
            Code(
                "redrive.failures.dead_letters:DeadLetters.link",
                "if await self._letters.depends(session, depends_on, letter_id, self._caller.org):",
                "if False:",
            ),
        ),
        (f"{TRIAGE}test_dependencies_have_no_cycles_m12",),
    ),
    Guard(
        "number shown is number affected",
        "a bulk action changes dead letters that the user has not seen",
        (
            Code(
                "redrive.failures.dead_letters:DeadLetters.close_matching",
                "check_number_matching(len(found), expect)",
                "pass",
            ),
        ),
        (f"{TRIAGE}test_the_number_shown_is_the_number_affected",),
    ),
    Guard(
        "query.org",
        "a query lets an org plan a replay of another org's dead letters",
        (
            Code(
                "redrive.store.dead_letter_filter:Filter.of",
                'all_of(["org = :org", ',
                'all_of(["(org = :org OR 1 = 1)", ',
            ),
        ),
        _both(f"{OPERATIONS}test_dead_letters_of_another_org_do_not_exist"),
    ),
    Guard(
        "branch.org",
        "a query shows an org another org's dead letters",
        (
            Code(
                "redrive.store.dead_letter_filter:_branches",
                '"org = :org", *first',
                '"(org = :org OR 1 = 1)", *first',
            ),
        ),
        (f"{FILTER}test_data_of_another_org_does_not_exist_w13",),
    ),
    Guard(
        "looked up.org",
        "a query by run id shows an org another org's dead letter",
        (
            Code(
                "redrive.store.dead_letter_filter:_looked_up", 'f"{org} = :org"', 'f"({org} = :org OR 1 = 1)"'
            ),
        ),
        (f"{FILTER}test_data_of_another_org_does_not_exist_w13",),
    ),
    Guard(
        "counts.inserted",
        "a new dead letter is not counted",
        (
            Schema("AFTER INSERT ON dead_letters\nBEGIN", "AFTER INSERT ON dead_letters WHEN 1 = 0\nBEGIN"),
            Schema(
                "EXECUTE FUNCTION redrive.dead_letters_inserted()",
                "WHEN (false) EXECUTE FUNCTION redrive.dead_letters_inserted()",
            ),
        ),
        _both(f"{LETTERS}test_figures_are_exact_m7"),
    ),
    Guard(
        "counts.moved",
        "a dead letter is counted in its previous state",
        (
            Schema("WHEN OLD.state <> NEW.state OR", "WHEN"),
            Schema(
                "EXECUTE FUNCTION redrive.dead_letters_updated()",
                "WHEN (false) EXECUTE FUNCTION redrive.dead_letters_updated()",
            ),
        ),
        _both(f"{LETTERS}test_figures_are_exact_m7"),
    ),
    Guard(
        "counts.plan",
        "counting a batch of dead letters takes time quadratic in its size",
        (Schema(" SET enable_nestloop = off", ""),),
        (f"{COUNTERS}test_the_plan_for_one_letter_is_not_used_for_a_batch",),
    ),
    Guard(
        "counts.deleted",
        "a deleted dead letter is still counted",
        (
            Schema("AFTER DELETE ON dead_letters\nBEGIN", "AFTER DELETE ON dead_letters WHEN 1 = 0\nBEGIN"),
            Schema(
                "EXECUTE FUNCTION redrive.dead_letters_deleted()",
                "WHEN (false) EXECUTE FUNCTION redrive.dead_letters_deleted()",
            ),
        ),
        _both(f"{COUNTERS}test_counters_follow_every_change_of_a_letter_i16"),
    ),
)
OF_THE_AUDIT = (
    Guard(
        "audit.lock head",
        "two audit entries have the same number, and the chain breaks",
        (Sql("audit.lock_head", LOCK, "", ("postgres",)),),
        (f"{AUDIT}test_concurrent_appenders_make_one_chain_without_gaps[postgres]",),
    ),
    Guard(
        "audited with the replay",
        "the audit log has an entry about a replay that never started",
        (
            Code(
                "redrive.store.replays:ReplayStore.begin",
                "self._audit.append(session, ",
                "self._audit.append(self._session, ",
            ),
        ),
        _both(f"{REPLAYS}test_a_replay_that_is_rolled_back_leaves_no_entry_in_the_audit_w16"),
    ),
    Guard(
        "audited with the items",
        "the audit log has an entry about items that never started",
        (
            Code(
                "redrive.store.replays:ReplayStore.begin_planned",
                "self._audit.append(session, ",
                "self._audit.append(self._session, ",
            ),
        ),
        _both(f"{REPLAYS}test_items_that_are_rolled_back_leave_no_entry_in_the_audit_w16"),
    ),
    Guard(
        "audited before it is revealed",
        "a payload is revealed without an audit entry",
        (
            Code(
                "redrive.failures.dead_letters:DeadLetters.reveal",
                "await self._audit(session, Action.DEAD_LETTER_REVEALED, [letter_id], detail)",
                "pass",
            ),
        ),
        _both("tests/store/test_payloads.py::test_nothing_is_revealed_when_the_audit_cannot_be_written"),
    ),
    Guard(
        "letter entries",
        "the audit entries of a dead letter are deleted with the whole chain, and nobody notices",
        (Code("redrive.verify.checks:check_chains", "letters.report_missing(verdict)", "pass"),),
        tuple(
            f"tests/verify/test_tampering.py::{test}[{side}]"
            for test in ("test_12_i14_a_dead_letter_without_its_entries_is_found",)
            for side in ("sqlite", "postgres")
        ),
    ),
    Guard(
        "chained",
        "an audit entry that was changed afterwards passes verification",
        (Code("redrive.policy.audit_chain:chain_hash", "*entry[:-1]]", "*entry[:2]]"),),
        (f"{AUDIT}test_an_edit_of_any_column_is_found",),
    ),
)
OF_OVERRIDES = (
    Guard(
        "merged override",
        "asking for more retries replaces the waits and the categories of the step's policy",
        (
            Code(
                "redrive.policy.policy_change:PolicyOverride.of",
                "replace(\n        policy,",
                "replace(\n        STEP,",
            ),
        ),
        (
            "tests/policy/test_override.py::test_12_a_partial_override_changes_only_the_fields_that_it_names",
            "tests/failures/test_replays.py::test_12_a_partial_override_keeps_the_rest_of_the_steps_policy",
        ),
    ),
)
KNOWN = "tests/test_known_ids.py::"
OF_KNOWN_IDS = (
    Guard(
        "known id.payload",
        "a failed task disappears because another one was reported under its id",
        (
            Code(
                "redrive.store.external_failures:_is_other",
                "task.request_hash != new.request_hash",
                "False",
            ),
        ),
        (
            *_both(f"{KNOWN}test_10_a_live_task_and_another_payload_is_a_conflict"),
            *_both(f"{KNOWN}test_10_captured_failures_are_stored_separately_with_a_warning"),
        ),
    ),
    Guard(
        "known id.exhausted",
        "a task that was exhausted once is never redriven again",
        (
            Sql(
                "external_failures.lock_known",
                r"letter\.state IN \('OPEN', 'REPLAYING'\)",
                "letter.state IN ('OPEN', 'REPLAYING', 'EXHAUSTED')",
            ),
        ),
        (f"{KNOWN}test_10_gap_6_a_nightly_job_gets_its_redrives_every_day",),
    ),
)
GUARDS = (*OF_KNOWN_IDS, *OF_OVERRIDES, *BEGINNING, *OF_OPERATIONS, *OF_REDRIVES, *OF_LETTERS, *OF_THE_AUDIT)
