"""The guards of what is done and kept: budgets, breakers, limits, suspects, stopping, codec, redaction."""

from __future__ import annotations

from tests.guards.guard import Guard
from tests.guards.patch import Code

RETRY = "tests/policy/test_retry.py::"
BREAKER = "tests/policy/test_breaker.py::"
BREAKERS = "tests/engine/test_breakers.py::"
LIMITS = "tests/engine/test_limits.py::"
KEEPER = "tests/engine/test_lease_renewer.py::"
WORKER = "tests/engine/test_worker.py::"
CODEC = "tests/policy/test_codec.py::"
RETRYING = "tests/engine/test_retrying.py::"
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
        "more attempts than the policy allows",
        (Code("redrive.policy.retry:_back_off", "failures >= policy.max_attempts", "False"),),
        (f"{RETRY}TestDecide::test_d4_a_rate_limit_without_a_hint_backs_off_and_counts",),
    ),
    Guard(
        "rate limit budget",
        "waiting for a rate limit for ever",
        (
            Code(
                "redrive.policy.retry:_wait_for_rate_limit",
                "tally.rate_limit_waits >= policy.max_rate_limit_waits",
                "False",
            ),
        ),
        (f"{RETRY}TestDecide::test_rate_limit_waits_have_a_limit_of_their_own",),
    ),
    Guard(
        "hold budget",
        "work that is held and released for ever",
        (Code("redrive.policy.retry:_release", "tally.holds >= policy.max_holds", "False"),),
        (f"{RETRY}TestDecide::test_holds_have_a_generous_limit",),
    ),
    Guard(
        "deferral budget",
        "a task that defers itself for ever",
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
        "unsafe work",
        "an effect that must not be repeated being repeated",
        (Code("redrive.policy.retry:decide", "not repeatable and failure.may_have_executed", "False"),),
        (f"{RETRYING}test_unsafe_work_that_may_have_been_executed_is_not_repeated",),
    ),
    Guard(
        "stable key",
        "the outside world taking a second attempt for other work",
        (
            Code(
                "redrive.engine.context:step_key",
                "claim.step_index)",
                "claim.step_index + claim.attempt)",
            ),
        ),
        (
            "tests/engine/test_context.py::"
            "test_the_idempotency_key_is_the_same_on_every_attempt_and_another_for_every_step_and_run",
        ),
    ),
    Guard(
        "breaker at the gate",
        "calls to a dependency that is down",
        (
            Code(
                "redrive.engine.shared_breakers:SharedBreakers.admit",
                "if known is None or known.breaker.closed_permit is not None:",
                "if True:",
            ),
        ),
        (f"{BREAKERS}test_held_work_waits_uncharged_and_visible_while_other_work_goes_on",),
    ),
    Guard(
        "probe slots",
        "a dependency that is just coming back being flooded",
        (
            Code(
                "redrive.policy.breaker:Breaker.admit", "len(self._probes) < self._policy.probe_slots", "True"
            ),
        ),
        (f"{BREAKER}TestRecovery::test_probes_are_limited_and_enough_successes_close_it",),
    ),
    Guard(
        "breaker generations",
        "late results of an earlier time opening or closing a breaker",
        (Code("redrive.policy.breaker:Breaker.report", "permit.generation != self._generation", "False"),),
        (f"{BREAKER}TestRecovery::test_results_of_an_old_generation_are_dropped",),
    ),
    Guard(
        "probe given back",
        "a probe slot that is never free again, since a full limit kept its probe back",
        (
            Code(
                "redrive.engine.gate:Gate._give_probe_back",
                "if work.permit is not None and work.step.breaker is not None:",
                "if False:",
            ),
        ),
        (
            "tests/journeys/test_gateway.py::"
            "test_what_a_limit_holds_back_does_not_keep_the_probe_slots_of_a_breaker",
        ),
    ),
    Guard(
        "full limit",
        "more at once than a limit allows",
        (Code("redrive.engine.gate:_split", "free[name] <= 0", "False"),),
        (f"{LIMITS}test_a_task_is_executed_so_many_times_at_once_and_no_more",),
    ),
    Guard(
        "slots counted once",
        "a slot that is lost when the answer at the gate is",
        (Code("redrive.engine.gate:_occupy", "if work.slots is None:", "if True:"),),
        (f"{LIMITS}test_a_lost_answer_at_the_gate_counts_no_slot_twice",),
    ),
    Guard(
        "lost before the gate",
        "the execution of what was lost while it waited for its slot",
        (Code("redrive.engine.gate:_split", "if work.claim.id not in known:", "if False:"),),
        (f"{LIMITS}test_a_lease_that_is_lost_before_the_gate_leaves_nothing_behind",),
    ),
    Guard(
        "suspects alone",
        "a step that kills its workers taking innocent neighbours along for ever",
        (Code("redrive.engine.failure_handler:_with_loss", "losses >= MAX_LOSSES", "False"),),
        (f"{KEEPER}test_a_step_whose_workers_die_again_and_again_ends_as_a_dead_letter",),
    ),
    Guard(
        "crashes alone",
        "a step killing workers for ever",
        (
            Code(
                "redrive.engine.failure_handler:FailureHandler.lost",
                "work.claim.isolated_crashes >= MAX_ISOLATED_CRASHES",
                "False",
            ),
        ),
        (f"{KEEPER}test_a_step_whose_workers_die_again_and_again_ends_as_a_dead_letter",),
    ),
    Guard(
        "alone means alone",
        "a suspect being blamed for a death while it waited for its neighbours",
        (
            Code(
                "redrive.engine.failure_handler:_with_loss",
                "claim.isolation is Isolation.ACTIVE",
                "claim.isolation",
            ),
        ),
        (f"{WORKER}test_only_a_death_while_it_was_executed_alone_is_a_lonely_one",),
    ),
    Guard(
        "suspects wait for others",
        "a suspect being executed beside others",
        (Code("redrive.engine.claimer:Claimer._has_others", "len(self._in_flight) > len(works)", "False"),),
        (f"{WORKERS}test_a_suspect_is_not_begun_beside_others",),
    ),
    Guard(
        "outages blame nobody",
        "an outage of the database making suspects of everything that was executed",
        (
            Code(
                "redrive.engine.maintenance:Maintenance._maintain",
                "after_outage=silent >",
                "after_outage=False and silent >",
            ),
        ),
        (f"{WORKERS}test_leases_that_expired_while_nobody_looked_speak_against_nobody",),
    ),
    Guard(
        "drain.loop",
        "a worker that is told to stop claiming on",
        (
            Code(
                "redrive.engine.claimer:Claimer.run",
                "while not stopping.is_set():",
                "while True:",
            ),
        ),
        doubled_by="drain.room, which comes right after it",
    ),
    Guard(
        "drain.room",
        "a worker that is told to stop claiming once more",
        (
            Code(
                "redrive.engine.claimer:Claimer.run",
                "if stopping.is_set():\n            return",
                "if False:\n            return",
            ),
        ),
        (f"{WORKERS}test_a_worker_that_is_told_to_stop_claims_no_suspect",),
    ),
    Guard(
        "drain.queues",
        "a worker that is told to stop claiming from its further queues",
        (
            Code(
                "redrive.engine.claimer:Claimer.claim",
                "if self._signals.stopping.is_set():\n            break",
                "if False:\n            break",
            ),
        ),
        (f"{WORKERS}test_a_worker_that_is_told_to_stop_asks_no_further_queue",),
    ),
    Guard(
        "drain.in place",
        "a worker that is told to stop going on to the next step",
        (
            Code(
                "redrive.engine.executor:Executor._advance",
                "self.signals.stopping.is_set() or",
                "",
            ),
        ),
        (f"{WORKERS}test_a_worker_that_is_told_to_stop_begins_no_further_step",),
    ),
    Guard(
        "drain.give back",
        "leases that a stopped worker leaves behind",
        (
            Code(
                "redrive.engine.worker:Worker._give_back",
                "for work in self.in_flight.works:\n        self._executor",
                "for work in []:\n        self._executor",
            ),
        ),
        (f"{WORKERS}test_what_does_not_listen_is_given_back_by_a_worker_that_stops",),
    ),
    Guard(
        "cancelled before the gate",
        "the execution of a run that was cancelled",
        (BEFORE_THE_GATE,),
        (f"{CANCELLATION}test_a_failure_after_the_request_is_not_retried",),
    ),
    Guard(
        "cancelled and lost",
        "the second execution of a cancelled run whose worker died",
        (AND_LOST,),
        doubled_by="cancelled before the gate: it is claimed once more, and ends there",
    ),
    Guard(
        "cancelled and lost, or before the gate",
        "the second execution of a cancelled run whose worker died",
        (AND_LOST, BEFORE_THE_GATE),
        (f"{CANCELLATION}test_a_cancelled_run_whose_worker_died_is_not_executed_again",),
    ),
    Guard(
        "bounded backlog",
        "claiming on while results cannot be written",
        (
            Code(
                "redrive.engine.claimer:Claimer.free",
                "if self._recorder.pending >= MAX_PENDING_RECORDS:",
                "if False:",
            ),
        ),
        (f"{WORKERS}test_nothing_is_claimed_while_too_much_waits_to_be_written",),
    ),
    Guard(
        "unknown task",
        "work being discarded that a newer worker knows",
        (
            Code(
                "redrive.engine.failure_handler:FailureHandler.unknown",
                "unavailable=True,",
                "unavailable=False,",
            ),
        ),
        ("tests/engine/test_workflow.py::test_an_unknown_task_waits_for_a_worker_that_knows_it",),
    ),
    Guard(
        "codec.text",
        "texts that no database can hold: NUL and lone surrogates",
        (Code("redrive.policy.codec.text:plain_text", "NUL_SPELLED_OUT in text or ESCAPE in text or", ""),),
        (f"{CODEC}TestRoundTrip::test_each_troublesome_text_is_escaped_as_value_and_as_key",),
    ),
    Guard(
        "codec.numbers",
        "NaN and infinities, which JSON does not have",
        (Code("redrive.policy.codec.text:_Escaping._float", "if not isfinite(number):", "if False:"),),
        (f"{CODEC}TestRefusals::test_nan_and_infinities_are_refused",),
    ),
    Guard(
        "codec.size",
        "values that are too large to be stored",
        (Code("redrive.policy.codec.text:_is_too_large", "return 4", "return False and 4"),),
        (f"{CODEC}TestRefusals::test_size_is_counted_in_bytes_of_the_stored_text",),
    ),
    Guard(
        "codec.depth",
        "values that are nested too deep to be read",
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
        "values with too many parts",
        (Code("redrive.policy.codec.text:_Escaping._count", "if self._items < 0:", "if False:"),),
        (f"{CODEC}TestRefusals::test_items_are_counted_over_the_whole_value",),
    ),
    Guard(
        "evidence.redacted",
        "secrets in the messages and stacks of failures",
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
        "secrets in the messages of causes",
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
        "a failure that cannot be stored and strands its work",
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
        "an error message of 50 megabytes in every attempt",
        (Code("redrive.engine.evidence:_cut", "if len(text) <= longest:", "if True:"),),
        ("tests/engine/test_evidence.py::test_a_text_of_50_megabytes_is_cut_and_quick",),
    ),
    Guard(
        "dead letter.redacted",
        "secrets in the payload of a dead letter",
        (Code("redrive.engine.dead_letter_policy:snapshot", "redactor.value(value)", "value"),),
        (f"{RETRYING}test_a_dead_letter_tells_the_whole_story",),
    ),
    Guard(
        "progress.redacted",
        "secrets in what a task says about its progress",
        (Code("redrive.engine.work:Work.take_progress", "redactor.text(note)", "note"),),
        (f"{WORKERS}test_secrets_in_progress_are_redacted_i9",),
    ),
    Guard(
        "listeners",
        "a listener that raises harming the work",
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
