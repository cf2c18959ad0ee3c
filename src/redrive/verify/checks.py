"""Checks that take one SQL statement each, the check of the audit chain (I14), and the check of totals (I16).

Each row of a statement is a broken promise: the first column is the subject, the remaining columns fill the
sentence.
"""

from __future__ import annotations

from collections import Counter
from string import Formatter
from typing import Any, NamedTuple, cast

from redrive.model.run import RunState
from redrive.policy.audit_chain import ChainCheck
from redrive.store.inspection import Inspection
from redrive.store.records import slot_names
from redrive.store.verification import VerificationQueries
from redrive.verify.letter_entries import LetterEntries
from redrive.verify.verdict import Verdict
from redrive.words.number import plural
from redrive.words.worker import overrun_text


class Check(NamedTuple):
    """A check by one statement.

    statement   name of the SQL statement
    population  the rows that it covers, for the count of checked rows
    sentence    describes a violation, with a placeholder for each column after the first;
                `!n` formats the index of a step as its number from 1
    """

    invariant: str
    statement: str
    population: str
    sentence: str


class _Sentences(Formatter):
    def convert_field(self, value: Any, conversion: str | None) -> Any:
        if conversion == "n":
            return int(value) + 1
        return super().convert_field(value, cast(Any, conversion))


_SENTENCES = _Sentences()

ALWAYS = (
    Check(
        "I3",
        "tallies",
        "unfinished steps",
        "It counts {0} failures and {2} rate-limit waits, but its attempts show {1} and {3}.",
    ),
    Check(
        "I3",
        "redrives_renewed",
        "dead letters",
        "Its dead letter {0} counts {1} automatic redrives, but had {2}; no replay may renew them.",
    ),
    Check(
        "I4",
        "numbers_open",
        "attempts",
        "The {1} attempts of step {0!n} have the numbers {2} to {3}; they should be numbered 1, 2, 3, …",
    ),
    Check(
        "I4",
        "numbers_beyond",
        "attempts",
        "Attempt {1} of step {0!n} has the outcome {2!r}, but it succeeded, is running, or never happened.",
    ),
    Check("I4", "numbers_missing", "runs", "Attempt {1} of step {0!n} did not succeed, but has no record."),
    Check(
        "I4",
        "epochs",
        "runs",
        "Its epoch counts {0} claims, but its history shows at least {1}.",
    ),
    Check(
        "I5",
        "gaps",
        "waits",
        "After attempt {1} of step {0!n} it had to wait {2:.3f} s, but the next attempt is {3:.3f} s later.",
    ),
    Check(
        "I7",
        "failures_without_letter",
        "failed runs",
        "It finished as {0} in step {1!n}, but has no dead letter for that step.",
    ),
    Check(
        "I7",
        "letters_unfounded",
        "dead letters",
        "Its dead letter {0} is {1} for step {2!n}, but the run is {3} in step {4!n}.",
    ),
    Check(
        "I7",
        "letters_disagree",
        "dead letters",
        "Its dead letter {0} has {1} attempts and {3} failures, but the run {2} and {4}, or different work.",
    ),
    Check(
        "I7",
        "replays_unsettled",
        "replays",
        "The {0} is still in progress, but the run has finished as {1}.",
    ),
    Check("I4", "replays_doubled", "replays", "{0} replays of it are in progress at once."),
    Check(
        "I8",
        "letters_astray",
        "dead letters",
        "Its dead letter {0} belongs to the organization {1!r}, but the run belongs to {2!r}.",
    ),
    Check(
        "I10",
        "steps_missing",
        "runs",
        "It is {0} in step {1!n}, so {2} steps must have finished; finished steps in the database: {3}.",
    ),
    Check(
        "I10",
        "steps_beyond",
        "steps",
        "Step {0!n} is stored as finished ({1}), but the run is in step {2!n} and {3}.",
    ),
    Check(
        "I10",
        "endings_left",
        "attempts",
        "Attempt {1} of step {0!n} ({2}) was recorded as final, but the run continued and is {3}.",
    ),
    Check(
        "I10",
        "endings_undecided",
        "failed runs",
        "It finished as {0}, but its last attempt, {1}, recorded a retry after {2:.3f} s.",
    ),
    Check(
        "I10",
        "definitions_missing",
        "runs",
        "The definition {1} of its workflow {0!r} is missing, or belongs to another workflow.",
    ),
    Check(
        "I15", "leases_of_stopped", "leased runs", "The worker {0} has stopped, but still holds the lease."
    ),
    Check(
        "I16",
        "letters_miscounted",
        "dead letters",
        "The counter of the failure {0} has {2} dead letters as {1}, but there are {3}.",
    ),
    Check(
        "I16",
        "live_miscounted",
        "dead letters",
        "The counter has {1} live dead letters as {0}, but there are {2}.",
    ),
    Check(
        "I16",
        "misplaced",
        "runs",
        "It must be in one place, but is in {0}; its input must be stored once, but is stored {1} times.",
    ),
    Check("I16", "strays", "runs", "The run doesn't exist, but rows that belong to it do: {0} ({1})."),
)

WHILE_WORKING = (
    Check(
        "I6",
        "leases_expired",
        "leased runs",
        "The lease of worker {0} expired {1:.0f} s ago, and no worker has taken it over; is one running?",
    ),
    Check(
        "I6",
        "due_forgotten",
        "waiting runs",
        "It has been due for {0:.0f} s, and no worker has made it ready; is one running?",
    ),
)

SETTLED = (Check("I6", "unended", "runs", "It has not finished: it is {1}, and its place is {0!r}."),)

CONTRADICTIONS = {
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


async def run_checks(
    checks: tuple[Check, ...], store: VerificationQueries, verdict: Verdict, populations: dict[str, int]
) -> None:
    for check in checks:
        verdict.start(check.invariant)
        verdict.add_checked(check.invariant, populations[check.population])
        for subject, *columns in await store.ask(check.statement):
            verdict.add_violation(check.invariant, subject, _SENTENCES.format(check.sentence, *columns))


async def check_contradictions(
    store: VerificationQueries, verdict: Verdict, populations: dict[str, int]
) -> None:
    """I10: state, place, lease, times and counters of every run agree."""
    verdict.start("I10")
    verdict.add_checked("I10", populations["runs"])
    for run_id, word, state, place, step_state in await store.ask("contradictions"):
        verdict.add_violation(
            "I10",
            run_id,
            f"It is {state}, its step is {step_state}, its place is {place!r}: {CONTRADICTIONS[word]}.",
        )


async def check_chains(store: VerificationQueries, verdict: Verdict) -> None:
    """I14: the audit chain of every organization is unbroken, and has the entries of its dead letters."""
    verdict.start("I14")
    for (org,) in await store.ask("audited_orgs"):
        letters = LetterEntries([tuple(row) for row in await store.ask("letters_of_org", org=org)])
        head, last = await store.audit.end(org)
        check = ChainCheck(org, None)
        async for entries in store.audit.following(org, last):
            check.take(entries)
            letters.take(entries)
        faults = check.finish(head, last)
        verdict.add_checked("I14", check.checked + letters.checked)
        for fault in faults:
            verdict.add_violation("I14", org, fault.text)
        for run_id, text in letters.missing():
            verdict.add_violation("I14", run_id, text)


_STATES = frozenset(map(str, RunState))


async def check_sums(store: VerificationQueries, verdict: Verdict) -> None:
    """I16: every run is in a known state, and limits count the slots that their runs use."""
    verdict.start("I16")
    for state, runs in await store.ask("states"):
        verdict.add_checked("I16", runs)
        if state not in _STATES:
            verdict.add_violation(
                "I16",
                state,
                f"No total counts {plural(runs, 'run')} with this state, because Redrive doesn't know it.",
            )
    await _check_slots(store, verdict)


async def _check_slots(store: VerificationQueries, verdict: Verdict) -> None:
    in_use: dict[str, int] = {}
    recorded: Counter[str] = Counter()
    for kind, text, number in await store.ask("slots"):
        if kind == "in use":
            in_use[text] = number
        else:
            for name in slot_names(text):
                recorded[name] += number
    verdict.add_checked("I16", len(in_use))
    for name in sorted(in_use.keys() | recorded.keys()):
        counted = in_use.get(name, 0)
        if counted != recorded[name]:
            text = f"The limit counts {counted} slots in use, but leased runs recorded {recorded[name]}."
            verdict.add_violation("I16", name, text)


async def check_timeouts(inspection: Inspection, verdict: Verdict, leeway: float) -> None:
    """I6: no step blocks its worker for much longer than its timeout."""
    verdict.start("I6")
    for overrun in await inspection.overruns(leeway):
        text = overrun_text(overrun.step, overrun.seconds, overrun.timeout)
        verdict.add_violation("I6", overrun.run_id, f"Its {text}. Worker {overrun.worker} executes it.")
