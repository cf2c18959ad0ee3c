"""Checks that take one SQL statement each, the check of the audit chain (I14), and the check of totals (I16).

Each row of a statement is a broken promise: the first column is the subject, the others are the fields.
"""

from __future__ import annotations

from collections import Counter
from typing import NamedTuple

from redrive.model.run import RunState
from redrive.model.violation import ViolationCode
from redrive.policy.audit_chain import ChainCheck
from redrive.store.inspection import Inspection
from redrive.store.records import slot_names
from redrive.store.verification import VerificationQueries
from redrive.verify.letter_entries import LetterEntries
from redrive.verify.verdict import Verdict


class Check(NamedTuple):
    """A check by one statement.

    code        of its violations; the statement returns the subject, then the fields in their order
    statement   name of the SQL statement
    population  the rows that it covers, for the count of checked rows
    """

    code: ViolationCode
    statement: str
    population: str


ALWAYS = (
    Check(ViolationCode.FAILURES_MISCOUNTED, "tallies", "unfinished steps"),
    Check(ViolationCode.REDRIVES_RENEWED, "redrives_renewed", "dead letters"),
    Check(ViolationCode.ATTEMPTS_MISNUMBERED, "numbers_open", "attempts"),
    Check(ViolationCode.ATTEMPT_UNEXPECTED, "numbers_beyond", "attempts"),
    Check(ViolationCode.ATTEMPT_MISSING, "numbers_missing", "runs"),
    Check(ViolationCode.CLAIMS_MISCOUNTED, "epochs", "runs"),
    Check(ViolationCode.WAIT_TOO_SHORT, "gaps", "waits"),
    Check(ViolationCode.LETTER_MISSING, "failures_without_letter", "failed runs"),
    Check(ViolationCode.LETTER_UNFOUNDED, "letters_unfounded", "dead letters"),
    Check(ViolationCode.LETTER_DIFFERENT, "letters_disagree", "dead letters"),
    Check(ViolationCode.REPLAY_UNSETTLED, "replays_unsettled", "replays"),
    Check(ViolationCode.REPLAYS_AT_ONCE, "replays_doubled", "replays"),
    Check(ViolationCode.ORDER_OVERTAKEN, "orders_overtaken", "runs in order"),
    Check(ViolationCode.ORDER_STUCK, "orders_stuck", "runs in order"),
    Check(ViolationCode.LETTER_ASTRAY, "letters_astray", "dead letters"),
    Check(ViolationCode.STEPS_MISSING, "steps_missing", "runs"),
    Check(ViolationCode.STEP_NOT_REACHED, "steps_beyond", "steps"),
    Check(ViolationCode.RUN_CONTINUED, "endings_left", "attempts"),
    Check(ViolationCode.RETRY_OMITTED, "endings_undecided", "failed runs"),
    Check(ViolationCode.DEFINITION_MISSING, "definitions_missing", "runs"),
    Check(ViolationCode.LEASE_OF_STOPPED_WORKER, "leases_of_stopped", "leased runs"),
    Check(ViolationCode.LETTERS_MISCOUNTED, "letters_miscounted", "dead letters"),
    Check(ViolationCode.LIVE_LETTERS_MISCOUNTED, "live_miscounted", "dead letters"),
    Check(ViolationCode.RUN_MISPLACED, "misplaced", "runs"),
    Check(ViolationCode.RUN_MISSING, "strays", "runs"),
    Check(ViolationCode.CONTRADICTION, "contradictions", "runs"),
)

WHILE_WORKING = (
    Check(ViolationCode.LEASE_EXPIRED, "leases_expired", "leased runs"),
    Check(ViolationCode.RUN_OVERDUE, "due_forgotten", "waiting runs"),
)

SETTLED = (Check(ViolationCode.RUN_UNFINISHED, "unended", "runs"),)


async def run_checks(
    checks: tuple[Check, ...], store: VerificationQueries, verdict: Verdict, populations: dict[str, int]
) -> None:
    for check in checks:
        verdict.start(check.code.invariant)
        verdict.add_checked(check.code.invariant, populations[check.population])
        for subject, *columns in await store.ask(check.statement):
            verdict.add_violation(check.code, subject, **dict(zip(check.code.fields, columns, strict=True)))


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
            verdict.add_violation(ViolationCode(fault.fact.code), org, **fault.fact.fields)
        letters.report_missing(verdict)


_STATES = frozenset(map(str, RunState))


async def check_sums(store: VerificationQueries, verdict: Verdict) -> None:
    """I16: every run is in a known state, and limits count the slots that their runs use."""
    verdict.start("I16")
    for state, runs in await store.ask("states"):
        verdict.add_checked("I16", runs)
        if state not in _STATES:
            verdict.add_violation(ViolationCode.STATE_UNKNOWN, state, runs=runs)
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
            verdict.add_violation(
                ViolationCode.SLOTS_MISCOUNTED, name, counted=counted, recorded=recorded[name]
            )


async def check_timeouts(inspection: Inspection, verdict: Verdict, leeway: float) -> None:
    """I6: no step blocks its worker for much longer than its timeout."""
    verdict.start("I6")
    for overrun in await inspection.overruns(leeway):
        verdict.add_violation(
            ViolationCode.TIMEOUT_EXCEEDED,
            overrun.run_id,
            step=overrun.step,
            seconds=overrun.seconds,
            timeout_seconds=overrun.timeout,
            worker=overrun.worker,
        )
