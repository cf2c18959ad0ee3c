"""Guards of execution: retry budgets, breakers, limits, isolation, shutdown, the codec and redaction."""

from __future__ import annotations

from tests.guards.guard import Guard
from tests.guards.patch import Code, Sql

RETRY = "tests/policy/test_retry.py::"
BREAKER = "tests/policy/test_breaker.py::"
BREAKERS = "tests/engine/test_breakers.py::"
LIMITS = "tests/engine/test_limits.py::"
KNOWN_WORK = "tests/engine/test_known_work.py::"
KEEPER = "tests/engine/test_lease_renewer.py::"
WORKER = "tests/engine/test_worker.py::"
CODEC = "tests/policy/test_codec.py::"
RETRYING = "tests/engine/test_retrying.py::"
CALLS = "tests/calls/test_hard_limits.py::"
CANCELLATION = "tests/engine/test_cancellation.py::"
WORKERS = "tests/guards/test_workers.py::"

AND_LOST = Code(
    "redrive.engine.failure_handler:FailureHandler.lost",
    "if work.claim.cancel_requested_at is not None:",
    "if False:",
)
BEFORE_THE_GATE = Code(
    "redrive.engine.claimer:Claimer._take_through",
    """    for work in works:
        if work.claim.cancel_requested_at is not None:
            self._failure_handler.cancelled(work)
    works = [work for work in works if work.claim.cancel_requested_at is None]
""",
    "",
)

GUARDS = (
    Guard(
        "attempt budget",
        "a run gets more attempts than its policy allows",
        (Code("redrive.policy.retry:_back_off", "failures >= policy.max_attempts", "False"),),
        (f"{RETRY}TestDecide::test_d4_a_rate_limit_without_a_hint_backs_off_and_counts",),
    ),
    Guard(
        "rate limit budget",
        "a run waits for a rate limit forever",
        (
            Code(
                "redrive.policy.retry:_wait_for_rate_limit",
                "tally.rate_limit_waits >= policy.max_rate_limit_waits",
                "False",
            ),
        ),
        (f"{RETRY}TestDecide::test_rate_limit_waits_have_a_separate_limit",),
    ),
    Guard(
        "hold budget",
        "a run is put on hold and released forever",
        (Code("redrive.policy.retry:_release", "tally.holds >= policy.max_holds", "False"),),
        (f"{RETRY}TestDecide::test_holds_have_a_generous_limit",),
    ),
    Guard(
        "deferral budget",
        "a task defers itself forever",
        (
            Code(
                "redrive.engine.failure_handler:FailureHandler._deferred",
                "work.claim.holds >= work.policy.max_holds",
                "False",
            ),
        ),
        (f"{RETRYING}test_a_task_can_defer_itself_too_often",),
    ),
    Guard(
        "give back what never started",
        "a stopping worker gives started work back as if it had not been executed",
        (Code("redrive.engine.executor:Executor._record_failure", "not work.was_called", "True"),),
        ("tests/engine/test_worker.py::test_unsafe_work_that_never_started_is_released",),
    ),
    Guard(
        "unsafe work",
        "a retry repeats a side effect that must not be repeated",
        (Code("redrive.policy.retry:decide", "not repeatable and failure.may_have_executed", "False"),),
        (f"{RETRYING}test_unsafe_work_that_may_have_been_executed_is_not_repeated",),
    ),
    Guard(
        "longest hint",
        "the mistake of a server delays work for a year",
        (Code("redrive.policy.retry:decide", "failure.retry_after > longest_hint", "False"),),
        (f"{RETRY}TestDecide::test_15_d4_a_hint_longer_than_a_day_is_honored_up_to_a_limit",),
    ),
    Guard(
        "late return",
        "a sync call that took longer than its timeout counts as a success",
        (Code("redrive.calls.drive:drive", "controller.clock.monotonic() >= attempt.expires", "False"),),
        (f"{CALLS}TestG2::test_15_g2_a_late_return_is_a_timeout_and_is_retried",),
    ),
    Guard(
        "socket deadline",
        "a server that sends a byte now and then keeps a sync request forever",
        (
            Code(
                "redrive.calls.socket_deadline:_seconds_left",
                "attempt = CURRENT.get()",
                "attempt = None",
            ),
            Code("redrive.calls.exchange:Body.add", "self._attempt.check()", "pass"),
            Code("redrive.calls.drive:drive", "controller.clock.monotonic() >= attempt.expires", "False"),
        ),
        (f"{CALLS}TestSocketDeadline::test_g2_headers_that_drip",),
    ),
    Guard(
        "two spellings",
        "a request has two values for one name, and one of them is silently ignored",
        (Code("redrive.model.spelling:own_names", "own in spellings", "False"),),
        ("tests/model/test_spelling.py::test_14_two_spellings_of_one_name_are_a_mistake[given0]",),
    ),
    Guard(
        "stable key",
        "other systems treat a second attempt as new work",
        (
            Code(
                "redrive.engine.context:step_key",
                "claim.step_index)",
                "claim.step_index + claim.attempt)",
            ),
        ),
        (
            "tests/engine/test_context.py::"
            "test_the_idempotency_key_is_the_same_on_every_attempt_and_different_for_every_step_and_run",
        ),
    ),
    Guard(
        "breaker at the gate",
        "workers call a dependency that is down",
        (
            Code(
                "redrive.engine.shared_breakers:SharedBreakers.admit",
                "if known is None or known.breaker.closed_permit is not None:",
                "if True:",
            ),
        ),
        (f"{BREAKERS}test_held_work_waits_uncharged_and_visible_while_other_work_continues",),
    ),
    Guard(
        "probe slots",
        "workers flood a dependency that is just recovering",
        (
            Code(
                "redrive.policy.breaker:Breaker.admit", "len(self._probes) < self._policy.probe_slots", "True"
            ),
        ),
        (f"{BREAKER}TestRecovery::test_probes_are_limited_and_enough_successes_close_it",),
    ),
    Guard(
        "breaker generations",
        "late results of an earlier generation open or close a breaker",
        (Code("redrive.policy.breaker:Breaker.report", "permit.generation != self._generation", "False"),),
        (f"{BREAKER}TestRecovery::test_results_of_an_old_generation_are_dropped",),
    ),
    Guard(
        "probe given back",
        "a probe that a full limit holds back never frees its probe slot",
        (
            Code(
                "redrive.engine.gate:Gate._give_probe_back",
                "if work.permit is not None and work.step.breaker is not None:",
                "if False:",
            ),
        ),
        (
            "tests/journeys/test_gateway.py::"
            "test_work_held_by_a_limit_does_not_keep_the_probe_slots_of_a_breaker",
        ),
    ),
    Guard(
        "full limit",
        "more runs execute at once than a limit allows",
        (Code("redrive.engine.gate:_split", "free[name] <= 0", "False"),),
        (f"{LIMITS}test_a_task_executes_no_more_often_at_once_than_its_limit",),
    ),
    Guard(
        "slots counted once",
        "a lost database response at the gate leaks a slot",
        (Code("redrive.engine.gate:_occupy", "if work.slots is None:", "if True:"),),
        (f"{LIMITS}test_a_lost_answer_at_the_gate_counts_no_slot_twice",),
    ),
    Guard(
        "lost before the gate",
        "the worker executes a run whose lease it lost while waiting for a slot",
        (Code("redrive.engine.gate:_split", "if work.claim.id not in known:", "if False:"),),
        (f"{LIMITS}test_a_lease_that_is_lost_before_the_gate_leaves_nothing_behind",),
    ),
    Guard(
        "suspects alone",
        "a step that crashes its workers takes unrelated runs down with it again and again",
        (Code("redrive.engine.failure_handler:_with_loss", "losses >= MAX_LOSSES", "False"),),
        (f"{KEEPER}test_a_step_that_keeps_killing_workers_becomes_a_dead_letter",),
    ),
    Guard(
        "crashes alone",
        "a step crashes workers forever",
        (
            Code(
                "redrive.engine.failure_handler:FailureHandler.lost",
                "work.claim.isolated_crashes >= MAX_ISOLATED_CRASHES",
                "False",
            ),
        ),
        (f"{KEEPER}test_a_step_that_keeps_killing_workers_becomes_a_dead_letter",),
    ),
    Guard(
        "alone means alone",
        "a suspect run is blamed for a crash that happened while it waited for other runs to finish",
        (
            Code(
                "redrive.engine.failure_handler:_with_loss",
                "claim.isolation is Isolation.ACTIVE",
                "claim.isolation",
            ),
        ),
        (f"{WORKER}test_only_a_crash_during_isolated_execution_counts_as_isolated",),
    ),
    Guard(
        "suspects wait for others",
        "a suspect run executes at the same time as other runs",
        (Code("redrive.engine.claimer:Claimer._has_others", "len(self._in_flight) > len(works)", "False"),),
        (f"{WORKERS}test_an_isolated_run_does_not_start_next_to_other_work",),
    ),
    Guard(
        "outages blame no run",
        "a database outage makes every run in progress a suspect",
        (
            Code(
                "redrive.engine.maintenance:Maintenance._maintain",
                "blame=self._blames",
                "blame=True",
            ),
        ),
        (f"{WORKERS}test_leases_that_expired_during_an_outage_are_blamed_on_no_run",),
    ),
    Guard(
        "drain.loop",
        "a stopping worker keeps claiming runs",
        (
            Code(
                "redrive.engine.claimer:Claimer.run",
                "while not stopping.is_set():",
                "while True:",
            ),
        ),
        doubled_by="drain.room, which checks again right after",
    ),
    Guard(
        "drain.room",
        "a stopping worker claims once more",
        (
            Code(
                "redrive.engine.claimer:Claimer.run",
                "if stopping.is_set():\n            return",
                "if False:\n            return",
            ),
        ),
        (f"{WORKERS}test_a_stopping_worker_claims_no_isolated_run",),
    ),
    Guard(
        "drain.queues",
        "a stopping worker claims from its remaining queues",
        (
            Code(
                "redrive.engine.claimer:Claimer.claim",
                "if self._signals.stopping.is_set():\n            break",
                "if False:\n            break",
            ),
        ),
        (f"{WORKERS}test_a_stopping_worker_queries_no_further_queue",),
    ),
    Guard(
        "drain.in place",
        "a stopping worker starts the next step",
        (
            Code(
                "redrive.engine.executor:Executor._advance",
                "self.signals.stopping.is_set() or",
                "",
            ),
        ),
        (f"{WORKERS}test_a_stopping_worker_starts_no_further_step",),
    ),
    Guard(
        "drain.give back",
        "a stopped worker leaves leases behind",
        (Code("redrive.engine.worker:Worker._give_back", "for work in works:", "for work in []:"),),
        (f"{WORKERS}test_a_stopping_worker_releases_work_that_never_started",),
    ),
    Guard(
        "drain.keeps what executes",
        "two workers execute a step at once after one of them was stopped",
        (Code("redrive.engine.worker:Worker._give_back", "if not work.is_executing:", "if True:"),),
        (f"{WORKERS}test_a_stopping_worker_keeps_leases_of_executing_work",),
    ),
    Guard(
        "drain.revokes what executes",
        "a function that outlives its worker calls other systems while another worker executes its step",
        (Code("redrive.engine.executor:Executor.abandon", "work.revoke()", "pass"),),
        (f"{WORKERS}test_work_that_still_executes_after_its_worker_has_stopped_is_revoked",),
    ),
    Guard(
        "cancelled before the gate",
        "a worker executes a cancelled run",
        (BEFORE_THE_GATE,),
        (f"{CANCELLATION}test_a_failure_after_the_request_is_not_retried",),
    ),
    Guard(
        "cancelled and lost",
        "a cancelled run whose worker crashed is executed again",
        (AND_LOST,),
        doubled_by="cancelled before the gate: a worker claims the run once more and ends it there",
    ),
    Guard(
        "cancelled and lost, or before the gate",
        "a cancelled run whose worker crashed is executed again",
        (AND_LOST, BEFORE_THE_GATE),
        (f"{CANCELLATION}test_a_cancelled_run_whose_worker_died_is_not_executed_again",),
    ),
    Guard(
        "bounded backlog",
        "a worker keeps claiming runs while it cannot write results",
        (
            Code(
                "redrive.engine.claimer:Claimer.free",
                "self._recorder.pending >= MAX_PENDING_RECORDS",
                "False",
            ),
        ),
        (f"{WORKERS}test_nothing_is_claimed_while_too_much_waits_to_be_written",),
    ),
    Guard(
        "known work.task",
        "a run whose task its worker does not know is not released when a worker knows it",
        (
            Code(
                "redrive.engine.failure_handler:FailureHandler.unknown",
                "HELD_BY_TASK + work.step.task",
                "HELD_BY_TASK + work.step.name + '?'",
            ),
        ),
        ("tests/engine/test_workflow.py::test_an_unknown_task_in_the_middle_delays_no_other_run",),
    ),
    Guard(
        "known work.learned",
        "a worker claims runs of which it can't execute a single step",
        (
            Code(
                "redrive.engine.known_work:KnownWork._has_a_task_of",
                "return any(",
                "return True or any(",
            ),
        ),
        (f"{KNOWN_WORK}test_a_workflow_of_which_no_worker_has_a_task_is_held_by_its_name",),
    ),
    Guard(
        "known work.held",
        "work that no worker knows waits unseen",
        (
            Code(
                "redrive.engine.maintenance:Maintenance._hold_unknown",
                "if not any(worker.claims(queue, workflow) for worker in workers):",
                "if False:",
            ),
        ),
        (f"{KNOWN_WORK}test_5_work_that_no_worker_knows_is_held_until_one_does",),
    ),
    Guard(
        "known work.releases its own",
        "a worker releases runs that it does not claim, and another holds them again, endlessly",
        (
            Code(
                "redrive.engine.maintenance:Maintenance._release_unknown",
                ", queues=queues, workflows=known.only",
                "",
            ),
        ),
        (
            f"{KNOWN_WORK}test_a_worker_releases_nothing_in_the_queues_of_others",
            f"{KNOWN_WORK}test_a_worker_that_is_limited_to_workflows_releases_their_held_runs",
        ),
    ),
    Guard(
        "known work.learns held",
        "a held workflow waits forever although a worker has its tasks",
        (
            Code(
                "redrive.engine.maintenance:Maintenance._release_unknown",
                "if strange := workflows - set(known.workflows):",
                "if strange := set():",
            ),
        ),
        (
            f"{KNOWN_WORK}test_a_held_workflow_is_released_by_a_worker_that_has_its_tasks_but_does_not_register_it",
        ),
    ),
    Guard(
        "known work.restart",
        "the restart of a worker moves its whole backlog, and alarms people",
        (
            Code(
                "redrive.store.limits:WorkerRow.claims",
                "self.seconds_silent > SILENT_SECONDS",
                "self.state == 'stopped'",
            ),
        ),
        (f"{KNOWN_WORK}test_a_worker_that_stopped_a_moment_ago_may_come_back",),
    ),
    Guard(
        "worker.bytes",
        "a worker claims more payloads than fit into its memory",
        (
            Code(
                "redrive.engine.claimer:Claimer._max_bytes",
                "return None if fits else max(1, free)",
                "return None",
            ),
        ),
        ("tests/engine/test_memory.py::test_6_a_worker_claims_no_more_bytes_than_it_may_hold",),
    ),
    Guard(
        "claim.cut",
        "a claim that was ended by the size of payloads leaves ready work until the next poll",
        (
            Code(
                "redrive.engine.claimer:Claimer._claim_ready",
                "sum(claim.size for claim in claims) >= max_bytes",
                "False",
            ),
        ),
        (
            "tests/engine/test_memory.py::"
            "test_a_claim_goes_on_with_the_next_queue_unless_bytes_ended_it[first exceeds]",
        ),
    ),
    Guard(
        "claim.bytes",
        "one claim fills the memory of a worker",
        (Sql("leases.claim_within", r"before < (?:CAST\(\S+ AS bigint\)|\?\d+)"),),
        ("tests/store/test_leases.py::test_a_claim_ends_where_its_inputs_exceed_the_limit",),
    ),
    Guard(
        "codec.text",
        "text that a database cannot store reaches it: NUL and lone surrogates",
        (Code("redrive.policy.codec.text:plain_text", "NUL_SPELLED_OUT in text or ESCAPE in text or", ""),),
        (f"{CODEC}TestRoundTrip::test_each_troublesome_text_is_escaped_as_value_and_as_key",),
    ),
    Guard(
        "codec.numbers",
        "NaN and infinities, which JSON does not support, reach the database",
        (Code("redrive.policy.codec.text:_Escaping._float", "if not isfinite(number):", "if False:"),),
        (f"{CODEC}TestRefusals::test_nan_and_infinities_are_refused",),
    ),
    Guard(
        "codec.size",
        "values too large to store reach the database",
        (Code("redrive.policy.codec.text:_is_too_large", "return 4", "return False and 4"),),
        (f"{CODEC}TestRefusals::test_size_is_counted_in_bytes_of_the_stored_text",),
    ),
    Guard(
        "codec.depth",
        "values nested too deeply to be read back reach the database",
        (
            Code(
                "redrive.policy.codec.text:_Escaping.value",
                "if len(path) > self._limits.depth:",
                "if False:",
            ),
        ),
        (f"{CODEC}TestRefusals::test_nesting_is_allowed_up_to_the_limit_and_refused_beyond",),
    ),
    Guard(
        "codec.items",
        "values with too many items reach the database",
        (Code("redrive.policy.codec.text:_Escaping._count", "if self._items < 0:", "if False:"),),
        (f"{CODEC}TestRefusals::test_items_are_counted_over_the_whole_value",),
    ),
    Guard(
        "evidence.redacted",
        "error messages and tracebacks expose secrets",
        (
            Code(
                "redrive.engine.evidence:clean",
                "redactor.text(_cut(text, MAX_TO_REDACT_LENGTH))",
                "_cut(text, MAX_TO_REDACT_LENGTH)",
            ),
        ),
        ("tests/engine/test_evidence.py::test_secrets_are_redacted_also_where_the_text_is_cut",),
    ),
    Guard(
        "evidence.causes redacted",
        "the messages of an error's causes expose secrets",
        (
            Code(
                "redrive.engine.evidence:_chain",
                "all(redactor.text(part) == part for part in parts)",
                "True",
            ),
        ),
        ("tests/engine/test_error_chains.py::test_a_chain_is_printed_as_python_prints_it",),
    ),
    Guard(
        "evidence.storable",
        "a failure whose text cannot be stored strands its run",
        (
            Code(
                "redrive.engine.evidence:_storable_text",
                r'if redacted.isascii() and "\x00" not in redacted:',
                "if True:",
            ),
        ),
        ("tests/engine/test_evidence.py::test_any_text_can_be_kept",),
    ),
    Guard(
        "evidence.bounded",
        "every attempt stores a 50 MB error message",
        (Code("redrive.engine.evidence:_cut", "if len(text) <= max_length:", "if True:"),),
        ("tests/engine/test_evidence.py::test_a_text_of_50_megabytes_is_cut_and_quick",),
    ),
    Guard(
        "dead letter.redacted",
        "the payload of a dead letter exposes secrets",
        (Code("redrive.engine.dead_letter_policy:snapshot", "redactor.value(value)", "value"),),
        (f"{RETRYING}test_a_dead_letter_contains_the_full_context",),
    ),
    Guard(
        "progress.redacted",
        "a task's progress notes expose secrets",
        (Code("redrive.engine.work:Work.take_progress", "redactor.text(note)", "note"),),
        (f"{WORKERS}test_secrets_in_progress_are_redacted_i9",),
    ),
    Guard(
        "listeners",
        "a listener that raises an exception breaks the run",
        (
            Code(
                "redrive.engine.event_bus:EventBus.emit",
                "except (Exception, CancelledError):",
                "except ZeroDivisionError:",
            ),
        ),
        ("tests/engine/test_events.py::test_a_listener_that_raises_harms_nothing",),
    ),
)
