"""The verdict: broken promises, and the number of rows checked for each promise."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import NamedTuple

INVARIANTS = {
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
ADVICE = {
    "I1": "compare the database with a backup; rows may have been deleted, or an old backup restored",
    "I2": "send the step's idempotency key to the receiver, so that it accepts each side effect once",
    "I3": "look at the attempts of the run; a person or another program may have changed their rows",
    "I4": "look at the attempts of the run; a person or another program may have changed their rows",
    "I5": "compare the clocks of the machines that run workers, and see --tolerance",
    "I6": "start a worker for its queue, or run `redrive doctor` to see why no worker serves it",
    "I7": "look at the run and its dead letters; a person or another program may have changed their rows",
    "I8": "find out who wrote the row; until then, lock out the members of that organization",
    "I10": "look at the run; a person or another program changed its rows",
    "I14": "keep a copy of the database, and run `redrive audit verify` to see where the audit was changed",
    "I15": "start a worker; it takes the lease over as soon as it has expired",
    "I16": "stop the workers and verify again; if it fails again, a person or another program changed rows",
}
"""What to do about a broken promise."""

OnCheck = Callable[[str], object]
"""Receives each promise, such as "I4", before its check."""


class Violation(NamedTuple):
    """A broken promise. `subject` is a run id, or names a breaker, limit, organization or definition."""

    invariant: str
    subject: str
    text: str


class Verdict:
    """The result of a verification. `checked` counts the rows checked for each promise; 0 proves nothing."""

    def __init__(self, max_listed: int, on_check: OnCheck | None = None) -> None:
        self.findings: list[Violation] = []
        self.checked: dict[str, int] = dict.fromkeys(INVARIANTS, 0)
        self._max_listed = max_listed
        self._found: Counter[str] = Counter()
        self._on_check = on_check
        self._current = ""

    @property
    def sound(self) -> bool:
        return not self.findings

    def found(self, invariant: str) -> int:
        """Count the violations, up to one more than the verdict lists."""
        return min(self._found[invariant], self._max_listed + 1)

    def is_capped(self, invariant: str) -> bool:
        """Return whether there are more violations than the verdict lists."""
        return self._found[invariant] > self._max_listed

    def start(self, invariant: str) -> None:
        """Report that the checks of this promise start."""
        if invariant != self._current:
            self._current = invariant
            if self._on_check is not None:
                self._on_check(invariant)

    def add_checked(self, invariant: str, rows: int) -> None:
        self.checked[invariant] += rows

    def add_violation(self, invariant: str, subject: str, text: str) -> None:
        """Count a violation, and list it unless `max_listed` violations are listed already."""
        self._found[invariant] += 1
        if self._found[invariant] <= self._max_listed:
            self.findings.append(Violation(invariant, subject, text))

    def __str__(self) -> str:
        return "\n".join([self._summary(), *self._listed(), *self._counts()])

    def _summary(self) -> str:
        if self.sound:
            return "Every checked promise is kept."
        broken = ", ".join(f"{name} ({self._count(name)})" for name in INVARIANTS if self._found[name])
        return f"Broken promises: {broken}."

    def _count(self, invariant: str) -> str:
        found = self.found(invariant)
        return f"at least {found:,}" if self.is_capped(invariant) else f"{found:,}"

    def _listed(self) -> list[str]:
        return [
            f"  {violation.invariant:<4} {violation.subject}: {violation.text}" for violation in self.findings
        ]

    def _counts(self) -> list[str]:
        return [
            f"{name:<4} {INVARIANTS[name]}: {f'{rows:,} checked' if rows else 'nothing to check'}"
            for name, rows in self.checked.items()
        ]
