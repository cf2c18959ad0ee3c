"""How promises can be broken: each code with its promise and fields. `redrive.words.violation` renders it."""

from __future__ import annotations

from redrive.model.code import DeclaredCode


class ViolationCode(DeclaredCode):
    """A code that `redrive verify` can report, with its promise, such as "I4", and the names of its fields.

    Durations are in seconds. The index of the first step is 0, the number of the first attempt 1.
    """

    @property
    def invariant(self) -> str:
        return self.group

    START_LOST = "start_lost", "I1"
    REJECTED_START_FOUND = "rejected_start_found", "I1"

    EFFECT_REPEATED = "effect_repeated", "I2", "times"
    EFFECT_MISSING = "effect_missing", "I2"
    EFFECT_OF_NO_STEP = "effect_of_no_step", "I2"

    FAILURES_MISCOUNTED = (
        "failures_miscounted",
        "I3",
        "failures recorded_failures rate_limit_waits recorded_rate_limit_waits",
    )
    REDRIVES_RENEWED = "redrives_renewed", "I3", "dead_letter_id redrives recorded_redrives"
    WRONG_LAST_ATTEMPT = "wrong_last_attempt", "I3", "step_index attempt used_attempts max_attempts"
    LIMIT_EXCEEDED = "limit_exceeded", "I3", "step_index attempt kind number limit"
    """`kind` is what the policy limits: `retry`, `rate_limit_wait` or `release`."""
    RETRY_FORBIDDEN = "retry_forbidden", "I3", "step_index attempt"

    ATTEMPTS_MISNUMBERED = "attempts_misnumbered", "I4", "step_index attempts lowest highest"
    ATTEMPT_UNEXPECTED = "attempt_unexpected", "I4", "step_index attempt outcome"
    ATTEMPT_MISSING = "attempt_missing", "I4", "step_index attempt"
    CLAIMS_MISCOUNTED = "claims_miscounted", "I4", "claims recorded_claims"
    REPLAYS_AT_ONCE = "replays_at_once", "I4", "replays"
    ORDER_OVERTAKEN = "order_overtaken", "I4", "place first"
    """`first` is the run whose turn it is."""

    WAIT_TOO_SHORT = "wait_too_short", "I5", "step_index attempt wait_seconds actual_seconds"
    WAIT_OUT_OF_RANGE = "wait_out_of_range", "I5", "step_index attempt wait_seconds min_seconds max_seconds"
    JITTER_WITHOUT_SPREAD = "jitter_without_spread", "I5", "step_index waits lowest highest"
    """`lowest` and `highest` are positions in the interval of the jitter, from 0 to 1."""

    LEASE_EXPIRED = "lease_expired", "I6", "worker seconds"
    RUN_OVERDUE = "run_overdue", "I6", "seconds"
    RUN_UNFINISHED = "run_unfinished", "I6", "place state"
    WORK_UNKNOWN = "work_unknown", "I6", "holder runs"
    HOLDER_MISSING = "holder_missing", "I6", "runs"
    BREAKER_NOT_RELEASING = "breaker_not_releasing", "I6", "runs leeway_seconds"
    ORDER_STUCK = "order_stuck", "I6", "place runs"
    """`place` is where the first run of the order is stored; None: nowhere. `runs` wait for it."""
    LIMIT_NOT_RELEASING = "limit_not_releasing", "I6", "run_id"
    TIMEOUT_EXCEEDED = "timeout_exceeded", "I6", "step seconds timeout_seconds worker"

    LETTER_MISSING = "letter_missing", "I7", "state step_index"
    LETTER_UNFOUNDED = (
        "letter_unfounded",
        "I7",
        "dead_letter_id dead_letter_state dead_letter_step_index state step_index",
    )
    LETTER_DIFFERENT = (
        "letter_different",
        "I7",
        "dead_letter_id dead_letter_attempts attempts dead_letter_failures failures",
    )
    REPLAY_UNSETTLED = "replay_unsettled", "I7", "kind id state"
    """`kind` is what is still in progress: `dead letter` or `replay`."""

    LETTER_ASTRAY = "letter_astray", "I8", "dead_letter_id dead_letter_org org"

    STEPS_MISSING = "steps_missing", "I10", "state step_index expected_steps finished_steps"
    STEP_NOT_REACHED = "step_not_reached", "I10", "step_index step_state run_step_index state"
    RUN_CONTINUED = "run_continued", "I10", "step_index attempt outcome state"
    RETRY_OMITTED = "retry_omitted", "I10", "state attempt wait_seconds"
    DEFINITION_MISSING = "definition_missing", "I10", "workflow definition"
    CONTRADICTION = "contradiction", "I10", "about state place step_state"
    """`about` names the columns that contradict each other, such as `lease`."""
    DEFINITION_UNREADABLE = "definition_unreadable", "I10", "runs"
    OVERRIDE_UNREADABLE = "override_unreadable", "I10", "runs"
    STEP_UNDEFINED = "step_undefined", "I10", "state step_index steps"

    # Faults of an audit chain, as redrive.policy.audit_chain reports them
    AUDIT_ENTRIES_MISSING = "audit_entries_missing", "I14", "first last"
    AUDIT_ENTRY_CHANGED = "audit_entry_changed", "I14", "sequence"
    AUDIT_ENTRY_MOVED = "audit_entry_moved", "I14", "sequence written_as"
    AUDIT_ENTRIES_ADDED = "audit_entries_added", "I14", "first last"
    AUDIT_END_CHANGED = "audit_end_changed", "I14", "sequence"
    LETTER_CREATION_UNRECORDED = "letter_creation_unrecorded", "I14", "dead_letter_id"
    LETTER_CLOSING_UNRECORDED = "letter_closing_unrecorded", "I14", "dead_letter_id dead_letter_state"

    LEASE_OF_STOPPED_WORKER = "lease_of_stopped_worker", "I15", "worker"

    LETTERS_MISCOUNTED = "letters_miscounted", "I16", "fingerprint dead_letter_state counted found"
    LIVE_LETTERS_MISCOUNTED = "live_letters_miscounted", "I16", "dead_letter_state counted found"
    RUN_MISPLACED = "run_misplaced", "I16", "places inputs"
    RUN_MISSING = "run_missing", "I16", "kind rows"
    """`kind` is what belongs to the run: `attempt`, `finished step` or `dead letter`."""
    STATE_UNKNOWN = "state_unknown", "I16", "runs"
    SLOTS_MISCOUNTED = "slots_miscounted", "I16", "counted recorded"


INVARIANTS = tuple(dict.fromkeys(code.invariant for code in ViolationCode))
"""The names of all promises that `redrive verify` checks, in order."""
