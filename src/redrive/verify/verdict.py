"""The verdict: broken promises, and the number of rows checked for each promise."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from redrive.model.violation import INVARIANTS, ViolationCode
from redrive.words.violation import PROMISES, describe_violation

OnCheck = Callable[[str], object]
"""Receives each promise, such as "I4", before its check."""


class Violation(NamedTuple):
    """A broken promise, as facts. `text` is rendered from them.

    subject  a run id, or the name of a breaker, limit, organization or definition
    fields   the values that belong to the code, which are JSON values
    """

    invariant: str
    subject: str
    code: ViolationCode
    fields: Mapping[str, Any]

    @property
    def text(self) -> str:
        """How the promise is broken, in a sentence or two."""
        return describe_violation(self.code, self.fields)

    def to_json(self) -> dict[str, Any]:
        facts = {"invariant": self.invariant, "subject": self.subject, "code": self.code, **self.fields}
        return {**facts, "text": self.text}


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

    def add_violation(self, code: ViolationCode, subject: str, /, **fields: Any) -> None:
        """Count a violation, and list it unless `max_listed` violations are listed already."""
        invariant = code.invariant
        self._found[invariant] += 1
        if self._found[invariant] <= self._max_listed:
            self.findings.append(Violation(invariant, subject, code, fields))

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
            f"{name:<4} {PROMISES[name]}: {f'{rows:,} checked' if rows else 'nothing to check'}"
            for name, rows in self.checked.items()
        ]
