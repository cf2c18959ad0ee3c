"""Checks that one statement answers, and those of the audit chain (I14) and of totals (I16).

Each row of a statement is a broken promise: its first column is the subject, the others fill the sentence.
"""

from __future__ import annotations

from collections import Counter
from typing import NamedTuple

from redrive.model.run import RunState
from redrive.policy.audit_chain import ChainCheck
from redrive.store.records import slot_names
from redrive.store.verification import VerificationQueries
from redrive.verify.verdict import Verdict


class Check(NamedTuple):
    invariant: str
    statement: str
    population: str
    sentence: str


ALWAYS = (
    Check(
        "I3",
        "tallies",
        "unfinished steps",
        "It counts {0} failures and {2} rate-limit waits; its attempts show {1} and {3}.",
    ),
    Check(
        "I4",
        "numbers_open",
        "attempts",
        "The {1} attempts of step {0} are numbered from {2} to {3}; they should be numbered 1, 2, 3, …",
    ),
    Check(
        "I4",
        "numbers_beyond",
        "attempts",
        "Attempt {1} of step {0} has the outcome {2!r}, but it succeeded, is in progress, or never happened.",
    ),
    Check("I4", "numbers_missing", "runs", "Attempt {1} of step {0} did not succeed, but has no record."),
    Check(
        "I4",
        "epochs",
        "runs",
        "It was claimed {0} times by its epoch, but at least {1} times by its history.",
    ),
    Check(
        "I5",
        "gaps",
        "waits",
        "After attempt {1} of step {0} it had to wait for {2:.3f} s, but the next one is {3:.3f} s later.",
    ),
    Check(
        "I7",
        "failures_unburied",
        "failed runs",
        "It ended as {0} in step {1}, but has no dead letter for it.",
    ),
    Check(
        "I7",
        "letters_unfounded",
        "dead letters",
        "Its dead letter {0} is {1} for step {2}, but the run is {3} in step {4}.",
    ),
    Check(
        "I7",
        "letters_disagree",
        "dead letters",
        "Its dead letter {0} has {1} attempts and {3} failures, the run {2} and {4}, or other work.",
    ),
    Check(
        "I7",
        "replays_unsettled",
        "replays",
        "The {0} is still in progress, but the run has ended as {1}.",
    ),
    Check("I4", "replays_doubled", "replays", "{0} replays of it are in progress at once."),
    Check(
        "I8",
        "letters_astray",
        "dead letters",
        "Its dead letter {0} belongs to the organization {1!r}, the run to {2!r}.",
    ),
    Check(
        "I10",
        "steps_missing",
        "runs",
        "It is {0} in step {1}, so {2} steps have succeeded; there are {3} of them.",
    ),
    Check(
        "I10",
        "steps_beyond",
        "steps",
        "Step {0} is stored as finished ({1}), but the run is in step {2} and {3}.",
    ),
    Check(
        "I10",
        "endings_left",
        "attempts",
        "Attempt {1} of step {0} ({2}) was decided to be the last one, but the run continued; it is {3}.",
    ),
    Check(
        "I10",
        "endings_undecided",
        "failed runs",
        "It ended as {0}, but after attempt {1}, its last one, a retry in {2:.3f} s was decided.",
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
        "Of the failure {0} {2} dead letters are counted as {1}, but there are {3}.",
    ),
    Check(
        "I16",
        "live_miscounted",
        "dead letters",
        "{1} live dead letters are counted as {0}, but there are {2}.",
    ),
    Check(
        "I16",
        "misplaced",
        "runs",
        "Its work must lie in one place, and lies in {0}; its input must be stored once, and is {1} times.",
    ),
    Check("I16", "strays", "runs", "The run does not exist, but rows of it do: {0} ({1})."),
)

AT_WORK = (
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

SETTLED = (Check("I6", "unended", "runs", "It has not ended: it is {1}, and its place is {0!r}."),)

CONTRADICTIONS = {
    "states": "these contradict each other",
    "beginning": "its claims, attempts and steps disagree on whether it was started",
    "token": "a claimed run has a token, a worker and a start; it has only some of these",
    "lease": "only a leased run has an end of its lease, and with it a started attempt",
    "due": "only a waiting run has a due time",
    "holder": "only a held run has a holder",
    "end": "only an ended run has an end time",
    "result": "a run has a result if and only if it succeeded",
    "slots": "it uses slots of limits without being executed",
    "alone": "it is marked for isolation, but its place would not isolate it",
    "failures": "its number of failures does not match its attempts, its state or their times",
    "key": "it has an idempotency key without a request hash, or a hash without a key",
    "negative": "one of its counters is below zero",
}


async def run_checks(
    checks: tuple[Check, ...], store: VerificationQueries, verdict: Verdict, populations: dict[str, int]
) -> None:
    for check in checks:
        verdict.begin(check.invariant)
        verdict.look(check.invariant, populations[check.population])
        for subject, *figures in await store.ask(check.statement):
            verdict.find(check.invariant, subject, check.sentence.format(*figures))


async def check_contradictions(
    store: VerificationQueries, verdict: Verdict, populations: dict[str, int]
) -> None:
    """I10: state, place, lease, times and counters of every run agree."""
    verdict.begin("I10")
    verdict.look("I10", populations["runs"])
    for run_id, word, state, place, step_state in await store.ask("contradictions"):
        verdict.find(
            "I10",
            run_id,
            f"It is {state}, its step {step_state}, its place {place!r}: {CONTRADICTIONS[word]}.",
        )


async def check_chains(store: VerificationQueries, verdict: Verdict) -> None:
    verdict.begin("I14")
    for (org,) in await store.ask("audited_orgs"):
        head, last = await store.audit.end(org)
        check = ChainCheck(org, None)
        async for entries in store.audit.following(org, last):
            check.take(entries)
        faults = check.finish(head, last)
        verdict.look("I14", check.checked)
        for fault in faults:
            verdict.find("I14", org, fault.text)


_STATES = frozenset(map(str, RunState))


async def check_sums(store: VerificationQueries, verdict: Verdict) -> None:
    verdict.begin("I16")
    for state, runs in await store.ask("states"):
        verdict.look("I16", runs)
        if state not in _STATES:
            verdict.find(
                "I16",
                state,
                f"{runs:,} runs are in this state, which does not exist, so no total includes them.",
            )
    await _check_slots(store, verdict)


async def _check_slots(store: VerificationQueries, verdict: Verdict) -> None:
    in_use: dict[str, int] = {}
    noted: Counter[str] = Counter()
    for kind, text, number in await store.ask("slots"):
        if kind == "in use":
            in_use[text] = number
        else:
            for name in slot_names(text):
                noted[name] += number
    verdict.look("I16", len(in_use))
    for name in sorted(in_use.keys() | noted.keys()):
        counted = in_use.get(name, 0)
        if counted != noted[name]:
            text = f"The limit counts {counted} slots in use, but leased runs have recorded {noted[name]}."
            verdict.find("I16", name, text)
