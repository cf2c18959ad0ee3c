"""Broken promises in sentences: what each promise means, how it was broken, and what to do."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

from redrive.model.violation import ViolationCode
from redrive.words.audit_chain import CHAIN_FAULTS
from redrive.words.number import noun, plural
from redrive.words.timeline import unknown_work
from redrive.words.worker import overrun_text

PROMISES: Mapping[str, str] = MappingProxyType(
    {
        "I1": "acknowledged runs exist, rejected runs don't",
        "I2": "each side effect was accepted once",
        "I3": "attempts stay within the policy's limits",
        "I4": "one worker at a time, one outcome per attempt",
        "I5": "waits match the retry policy",
        "I6": "nothing is stuck",
        "I7": "failed runs and dead letters match",
        "I8": "a run and its records belong to one organization",
        "I10": "every stored state is reachable",
        "I14": "the audit log is intact",
        "I15": "stopped workers hold no leases",
        "I16": "counters and totals add up",
    }
)
ADVICE: Mapping[str, str] = MappingProxyType(
    {
        "I1": "compare the database with a backup; rows may have been deleted, or an old backup restored",
        "I2": "send the step's idempotency key to the receiver, so that it accepts each side effect once",
        "I3": "look at the attempts of the run; a person or another program may have changed their rows",
        "I4": "look at the attempts of the run; a person or another program may have changed their rows",
        "I5": "compare the clocks of the machines that run workers, and see --tolerance",
        "I6": "start a worker for its queue, or run `redrive doctor` to see why no worker serves it",
        "I7": "look at the run and its dead letters; a person or another program may have changed their rows",
        "I8": "find out who wrote the row; until then, lock out the members of that organization",
        "I10": "look at the run; a person or another program changed its rows",
        "I14": (
            "keep a copy of the database, and run `redrive audit verify` to see where the audit was changed"
        ),
        "I15": "start a worker; it takes the lease over as soon as it has expired",
        "I16": (
            "stop the workers and verify again; if it fails again, a person or another program changed rows"
        ),
    }
)
"""What to do about a broken promise."""

_CONTRADICTIONS: Mapping[str, str] = MappingProxyType(
    {
        "states": "these contradict each other",
        "beginning": "its claims, attempts and steps disagree on whether it was started",
        "token": "a claimed run has a token, a worker and a start time; this one has only some of them",
        "lease": "only a leased run has a lease expiry and a started attempt",
        "due": "only a waiting run has a due time",
        "holder": "only a run on hold has a holder",
        "end": "only a finished run has an end time",
        "result": "a run has a result if and only if it succeeded",
        "slots": "it uses slots of limits although no worker executes it",
        "alone": "it is marked for isolation, but its place would not isolate it",
        "failures": "its number of failures does not match its attempts, its state or their times",
        "key": "it has an idempotency key without a request hash, or a hash without a key",
        "negative": "one of its counters is below zero",
    }
)
_LIMITED = MappingProxyType({"retry": "retry", "rate_limit_wait": "rate-limit wait", "release": "release"})

Describe = Callable[[Mapping[str, Any]], str]


def describe_violation(code: ViolationCode, fields: Mapping[str, Any]) -> str:
    return _SENTENCES[code](fields)


def _step(it: Mapping[str, Any]) -> str:
    return f"step {it['step_index'] + 1}"


def _attempt(it: Mapping[str, Any]) -> str:
    return f"attempt {it['attempt']} of {_step(it)}"


def _held(it: Mapping[str, Any], fault: str) -> str:
    return f"It holds {plural(it['runs'], 'run')}, but {fault}."


_SENTENCES: Mapping[ViolationCode, Describe] = MappingProxyType(
    {
        ViolationCode.START_LOST: lambda it: "Its start was acknowledged, but it is not in the database.",
        ViolationCode.REJECTED_START_FOUND: lambda it: "Its start was rejected, but it is in the database.",
        ViolationCode.EFFECT_REPEATED: lambda it: (
            f"The side effect of this step was accepted {it['times']} times."
        ),
        ViolationCode.EFFECT_MISSING: lambda it: (
            "The step succeeded, but its side effect was never accepted."
        ),
        ViolationCode.EFFECT_OF_NO_STEP: lambda it: (
            "A side effect was accepted, but no run has a step with this key."
        ),
        ViolationCode.FAILURES_MISCOUNTED: lambda it: (
            f"It counts {it['failures']} failures and {it['rate_limit_waits']} rate-limit waits, but its "
            f"attempts show {it['recorded_failures']} and {it['recorded_rate_limit_waits']}."
        ),
        ViolationCode.REDRIVES_RENEWED: lambda it: (
            f"Its dead letter {it['dead_letter_id']} counts {it['redrives']} automatic redrives, but had "
            f"{it['recorded_redrives']}; no replay may renew them."
        ),
        ViolationCode.WRONG_LAST_ATTEMPT: lambda it: (
            f"Redrive gave up after {_attempt(it)}, with {it['used_attempts']} of {it['max_attempts']} "
            f"attempts used."
        ),
        ViolationCode.LIMIT_EXCEEDED: lambda it: (
            f"After {_attempt(it)} another execution was scheduled: {_LIMITED[it['kind']]} {it['number']}, "
            f"but {it['limit']} are allowed."
        ),
        ViolationCode.RETRY_FORBIDDEN: lambda it: (
            f"Step {it['step_index'] + 1} was retried after attempt {it['attempt']}, but its policy never "
            f"retries."
        ),
        ViolationCode.ATTEMPTS_MISNUMBERED: lambda it: (
            f"The {it['attempts']} attempts of {_step(it)} have the numbers {it['lowest']} to "
            f"{it['highest']}; they should be numbered 1, 2, 3, …"
        ),
        ViolationCode.ATTEMPT_UNEXPECTED: lambda it: (
            f"Attempt {it['attempt']} of {_step(it)} has the outcome {it['outcome']!r}, but it succeeded, is "
            f"running, or never happened."
        ),
        ViolationCode.ATTEMPT_MISSING: lambda it: (
            f"Attempt {it['attempt']} of {_step(it)} did not succeed, but has no record."
        ),
        ViolationCode.CLAIMS_MISCOUNTED: lambda it: (
            f"Its epoch counts {it['claims']} claims, but its history shows at least {it['recorded_claims']}."
        ),
        ViolationCode.REPLAYS_AT_ONCE: lambda it: f"{it['replays']} replays of it are in progress at once.",
        ViolationCode.WAIT_TOO_SHORT: lambda it: (
            f"After {_attempt(it)} it had to wait {it['wait_seconds']:.3f} s, but the next attempt is "
            f"{it['actual_seconds']:.3f} s later."
        ),
        ViolationCode.WAIT_OUT_OF_RANGE: lambda it: (
            f"After {_attempt(it)}, the wait was {it['wait_seconds']:g} s; the policy allows "
            f"{it['min_seconds']:g} to {it['max_seconds']:g} s."
        ),
        ViolationCode.JITTER_WITHOUT_SPREAD: lambda it: (
            f"All {it['waits']:,} waits of {_step(it)} lie between {it['lowest']:.0%} and "
            f"{it['highest']:.0%} of their jitter interval; jitter does not spread them."
        ),
        ViolationCode.LEASE_EXPIRED: lambda it: (
            f"The lease of worker {it['worker']} expired {it['seconds']:.0f} s ago, and no worker has taken "
            f"it over; is one running?"
        ),
        ViolationCode.ORDER_OVERTAKEN: lambda it: (
            f"It may be executed (its place is {it['place']!r}), although run {it['first']} with the same "
            f"order key comes first."
        ),
        ViolationCode.ORDER_STUCK: lambda it: (
            f"It comes first of the runs with its order key, but no worker will execute it: its place is "
            f"{it['place'] or 'nowhere'!r}. {plural(it['runs'], 'run')} "
            f"{noun(it['runs'], 'waits', 'wait')} for it."
        ),
        ViolationCode.RUN_OVERDUE: lambda it: (
            f"It has been due for {it['seconds']:.0f} s, and no worker has made it ready; is one running?"
        ),
        ViolationCode.RUN_UNFINISHED: lambda it: (
            f"It has not finished: it is {it['state']}, and its place is {it['place']!r}."
        ),
        ViolationCode.WORK_UNKNOWN: lambda it: _held(it, unknown_work(it["holder"])),
        ViolationCode.HOLDER_MISSING: lambda it: _held(it, "it doesn't exist"),
        ViolationCode.BREAKER_NOT_RELEASING: lambda it: _held(
            it,
            f"it could have released them more than {it['leeway_seconds']:g} s ago. "
            f"Check that a worker is running",
        ),
        ViolationCode.LIMIT_NOT_RELEASING: lambda it: (
            f"It has free slots, but still holds run {it['run_id']} and possibly more; is a worker running?"
        ),
        ViolationCode.TIMEOUT_EXCEEDED: lambda it: (
            f"Its {overrun_text(it['step'], it['seconds'], it['timeout_seconds'])}. Worker {it['worker']} "
            f"executes it."
        ),
        ViolationCode.LETTER_MISSING: lambda it: (
            f"It finished as {it['state']} in {_step(it)}, but has no dead letter for that step."
        ),
        ViolationCode.LETTER_UNFOUNDED: lambda it: (
            f"Its dead letter {it['dead_letter_id']} is {it['dead_letter_state']} for step "
            f"{it['dead_letter_step_index'] + 1}, but the run is {it['state']} in {_step(it)}."
        ),
        ViolationCode.LETTER_DIFFERENT: lambda it: (
            f"Its dead letter {it['dead_letter_id']} has {it['dead_letter_attempts']} attempts and "
            f"{it['dead_letter_failures']} failures, but the run {it['attempts']} and {it['failures']}, or "
            f"different work."
        ),
        ViolationCode.REPLAY_UNSETTLED: lambda it: (
            f"The {it['kind']} {it['id']} is still in progress, but the run has finished as {it['state']}."
        ),
        ViolationCode.LETTER_ASTRAY: lambda it: (
            f"Its dead letter {it['dead_letter_id']} belongs to the organization {it['dead_letter_org']!r}, "
            f"but the run belongs to {it['org']!r}."
        ),
        ViolationCode.STEPS_MISSING: lambda it: (
            f"It is {it['state']} in {_step(it)}, so {it['expected_steps']} steps must have finished; "
            f"finished steps in the database: {it['finished_steps']}."
        ),
        ViolationCode.STEP_NOT_REACHED: lambda it: (
            f"Step {it['step_index'] + 1} is stored as finished ({it['step_state']}), but the run is in step "
            f"{it['run_step_index'] + 1} and {it['state']}."
        ),
        ViolationCode.RUN_CONTINUED: lambda it: (
            f"Attempt {it['attempt']} of {_step(it)} ({it['outcome']}) was recorded as final, but the run "
            f"continued and is {it['state']}."
        ),
        ViolationCode.RETRY_OMITTED: lambda it: (
            f"It finished as {it['state']}, but its last attempt, {it['attempt']}, recorded a retry after "
            f"{it['wait_seconds']:.3f} s."
        ),
        ViolationCode.DEFINITION_MISSING: lambda it: (
            f"The definition {it['definition']} of its workflow {it['workflow']!r} is missing, or belongs to "
            f"another workflow."
        ),
        ViolationCode.CONTRADICTION: lambda it: (
            f"It is {it['state']}, its step is {it['step_state']}, its place is {it['place']!r}: "
            f"{_CONTRADICTIONS[it['about']]}."
        ),
        ViolationCode.DEFINITION_UNREADABLE: lambda it: (
            f"The definition of {plural(it['runs'], 'run')} can't be read."
        ),
        ViolationCode.OVERRIDE_UNREADABLE: lambda it: (
            f"Its policy override can't be read; {plural(it['runs'], 'run')} "
            f"{noun(it['runs'], 'has', 'have')} it."
        ),
        ViolationCode.STEP_UNDEFINED: lambda it: (
            f"It is {it['state']} in {_step(it)}, but its definition has {plural(it['steps'], 'step')}."
        ),
        ViolationCode.AUDIT_ENTRIES_MISSING: CHAIN_FAULTS["audit_entries_missing"],
        ViolationCode.AUDIT_ENTRY_CHANGED: CHAIN_FAULTS["audit_entry_changed"],
        ViolationCode.AUDIT_ENTRY_MOVED: CHAIN_FAULTS["audit_entry_moved"],
        ViolationCode.AUDIT_ENTRIES_ADDED: CHAIN_FAULTS["audit_entries_added"],
        ViolationCode.AUDIT_END_CHANGED: CHAIN_FAULTS["audit_end_changed"],
        ViolationCode.LETTER_CREATION_UNRECORDED: lambda it: (
            f"The audit log has no entry that says when its dead letter {it['dead_letter_id']} was created."
        ),
        ViolationCode.LETTER_CLOSING_UNRECORDED: lambda it: (
            f"Its dead letter {it['dead_letter_id']} is {it['dead_letter_state']}, but the audit log has no "
            f"entry that says why."
        ),
        ViolationCode.LEASE_OF_STOPPED_WORKER: lambda it: (
            f"The worker {it['worker']} has stopped, but still holds the lease."
        ),
        ViolationCode.LETTERS_MISCOUNTED: lambda it: (
            f"The counter of the failure {it['fingerprint']} has {it['counted']} dead letters as "
            f"{it['dead_letter_state']}, but there are {it['found']}."
        ),
        ViolationCode.LIVE_LETTERS_MISCOUNTED: lambda it: (
            f"The counter has {it['counted']} live dead letters as {it['dead_letter_state']}, but there are "
            f"{it['found']}."
        ),
        ViolationCode.RUN_MISPLACED: lambda it: (
            f"It must be in one place, but is in {it['places']}; its input must be stored once, but is "
            f"stored {it['inputs']} times."
        ),
        ViolationCode.RUN_MISSING: lambda it: (
            f"The run doesn't exist, but rows that belong to it do: {it['kind']} ({it['rows']})."
        ),
        ViolationCode.STATE_UNKNOWN: lambda it: (
            f"No total counts {plural(it['runs'], 'run')} with this state, because Redrive doesn't know it."
        ),
        ViolationCode.SLOTS_MISCOUNTED: lambda it: (
            f"The limit counts {it['counted']} slots in use, but leased runs recorded {it['recorded']}."
        ),
    }
)
