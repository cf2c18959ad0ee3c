"""A finding: what was looked at, how it is, what that means, and what to do about it."""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum
from typing import NamedTuple

from redrive.model.query import MAX_COUNTED
from redrive.words.number import noun

MAX_NAMED = 5


class State(StrEnum):
    BAD = "bad"
    WARN = "warn"
    UNKNOWN = "unknown"
    OK = "ok"


class Finding(NamedTuple):
    """
    check    what was looked at
    seen     what was seen, in one sentence
    meaning  why that matters; empty when all is well
    advice   what to do
    command  a command that does it, or that shows more
    """

    check: str
    state: State
    seen: str
    meaning: str = ""
    advice: str = ""
    command: str = ""


class Report(NamedTuple):
    """`database` is where it was looked."""

    database: str
    findings: tuple[Finding, ...]

    def of(self, state: State) -> list[Finding]:
        return [each for each in self.findings if each.state is state]

    def is_well(self, *, strict: bool = False) -> bool:
        """Is nothing bad; strict: and nothing to be warned of?"""
        return not self.of(State.BAD) and not (strict and self.of(State.WARN))

    def __str__(self) -> str:
        return "\n".join(line for state in State for each in self.of(state) for line in _lines(each))


def count(number: int, one: str, many: str = "") -> str:
    """Return the number with its noun, and with a "+" if it reaches `MAX_COUNTED`."""
    more = "+" if number >= MAX_COUNTED else ""
    return f"{min(number, MAX_COUNTED):,}{more} {noun(number, one, many)}"


def ok(check: str, seen: str) -> Finding:
    return Finding(check, State.OK, seen)


def unknown(check: str, why: str, advice: str = "") -> Finding:
    return Finding(check, State.UNKNOWN, f"it could not be looked at: {why}", advice=advice)


def _lines(finding: Finding) -> Iterable[str]:
    yield f"{finding.state:<8}{finding.check}: {finding.seen}"
    for text in (finding.meaning, finding.advice, finding.command):
        if text:
            yield f"{'':8}{text}"
