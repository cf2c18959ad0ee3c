"""The verdict: broken promises, and how many rows were checked."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import NamedTuple

INVARIANTS = {
    "I1": "acknowledged runs exist, refused ones do not",
    "I2": "each effect was accepted once",
    "I3": "attempts stay within the budget",
    "I4": "one holder at a time, one outcome per attempt",
    "I5": "waits are as long as the policy says",
    "I6": "nothing is stuck",
    "I7": "failed runs and dead letters correspond",
    "I8": "a run and its records belong to one organization",
    "I10": "only states that can be reached",
    "I14": "the audit is whole",
    "I15": "a stopped worker holds no lease",
    "I16": "everything adds up",
}


ADVICE = {
    "I1": "compare it with a backup: an older one may have been restored, or rows deleted",
    "I2": "give the receiver the idempotency key of the step, so that it accepts each effect once",
    "I3": "look at the attempts of the run; their rows may have been changed by hand, or by another program",
    "I4": "look at the attempts of the run; their rows may have been changed by hand, or by another program",
    "I5": "compare the clocks of the machines that run workers, and see --tolerance",
    "I6": "start a worker for its queue, or find out with `redrive doctor` why none serves it",
    "I7": "look at the run and its dead letters; their rows may have been deleted or changed by hand",
    "I8": "find out who wrote it; until then lock that organization's members out",
    "I10": "look at the run; its rows were changed by hand, or by another program",
    "I14": "keep a copy of the database, and find out who has changed the audit: `redrive audit verify`",
    "I15": "start a worker: it takes the lease over as soon as it has expired",
    "I16": "stop the workers and verify again; what is still wrong was changed by hand or another program",
}
"""What to do about a broken promise."""

Told = Callable[[str], object]
"""Receives the promise that is checked next."""


class Violation(NamedTuple):
    """A broken promise. `subject` is the id of a run, or the name of what it is about."""

    invariant: str
    subject: str
    text: str


class Verdict:
    """`checked` counts the rows that were checked for each invariant: 0 proves nothing."""

    def __init__(self, most: int, told: Told | None = None) -> None:
        self.findings: list[Violation] = []
        self.checked: dict[str, int] = dict.fromkeys(INVARIANTS, 0)
        self._most = most
        self._found: Counter[str] = Counter()
        self._told = told
        self._begun = ""

    @property
    def sound(self) -> bool:
        return not self.findings

    def found(self, invariant: str) -> int:
        """Count the violations, up to one more than are listed."""
        return min(self._found[invariant], self._most + 1)

    def is_capped(self, invariant: str) -> bool:
        """Tell whether there are more violations than are listed."""
        return self._found[invariant] > self._most

    def begin(self, invariant: str) -> None:
        """Start to check this promise."""
        if invariant != self._begun:
            self._begun = invariant
            if self._told is not None:
                self._told(invariant)

    def look(self, invariant: str, rows: int) -> None:
        self.checked[invariant] += rows

    def find(self, invariant: str, subject: str, text: str) -> None:
        self._found[invariant] += 1
        if self._found[invariant] <= self._most:
            self.findings.append(Violation(invariant, subject, text))

    def __str__(self) -> str:
        return "\n".join([self._summary(), *self._listed(), *self._counts()])

    def _summary(self) -> str:
        if self.sound:
            return "Every promise that was checked is kept."
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
