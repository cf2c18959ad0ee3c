"""The schedule of a policy: the earliest, typical and latest start of each attempt."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from redrive.policy.backoff import Backoff
from redrive.words.time import duration

MAX_ROWS = 1000
_DRAWS = (0.0, 0.5, 1.0)
_HEADINGS = ("earliest", "typical", "latest")


@dataclass(frozen=True, slots=True)
class ScheduledAttempt:
    """One attempt: the wait before it, and its start counted from the first failure, in seconds.

    Each is a triple of earliest, typical (the middle of the jitter) and latest. The duration of the attempts
    is not included.
    """

    number: int
    wait: tuple[float, float, float]
    start: tuple[float, float, float]


@dataclass(frozen=True, slots=True)
class Schedule:
    name: str
    max_attempts: int
    formula: str
    attempts: tuple[ScheduledAttempt, ...]

    @classmethod
    def of(cls, name: str, max_attempts: int, backoff: Backoff) -> Schedule:
        formula = f"{backoff.formula('failures')} s, {backoff.jitter.describe()}"
        rows = _attempts(backoff, min(max_attempts, MAX_ROWS))
        return cls(name, max_attempts, formula, tuple(rows))

    def __str__(self) -> str:
        rows = [_cells(attempt) for attempt in self.attempts]
        width = max(len(cell) for row in (_HEADINGS, *rows) for cell in row)
        half = 3 * width + 4
        lines = [*self._summary(), ""]
        lines.append(f"attempt  {'wait before it':^{half}}   {'starts after the first failure':^{half}}")
        lines += [_line(number, row, width) for number, row in enumerate((2 * _HEADINGS, *rows))]
        if self.max_attempts > len(self.attempts) > 1:
            lines.append(f"… and so on, up to attempt {self.max_attempts}")
        return "\n".join(lines)

    def _summary(self) -> list[str]:
        if len(self.attempts) == 1:
            return [f"policy {self.name}: one attempt, no retries"]
        return [f"policy {self.name}: at most {self.max_attempts} attempts", f"waits {self.formula}"]


def _cells(attempt: ScheduledAttempt) -> tuple[str, ...]:
    if attempt.number == 1:
        return ("at once",)
    return tuple(duration(seconds) for seconds in (*attempt.wait, *attempt.start))


def _line(number: int, cells: tuple[str, ...], width: int) -> str:
    """Lay out the three waits and the three starts of an attempt; number 0 is the line of headings."""
    words = [f"{cell:>{width}}" for cell in cells]
    return f"{number or '':>7}  {'  '.join(words[:3])}   {'  '.join(words[3:])}".rstrip()


def _attempts(backoff: Backoff, count: int) -> Iterator[ScheduledAttempt]:
    zero = (0.0, 0.0, 0.0)
    yield ScheduledAttempt(1, zero, zero)
    start: list[float] = [0.0, 0.0, 0.0]
    previous: list[float | None] = [None, None, None]
    for failures in range(1, count):
        waits = [
            backoff.wait(failures, draw=draw, previous=before)
            for draw, before in zip(_DRAWS, previous, strict=True)
        ]
        seconds = [wait.seconds for wait in waits if wait is not None]
        if len(seconds) < len(_DRAWS):
            return
        start = [begin + wait for begin, wait in zip(start, seconds, strict=True)]
        previous = list(seconds)
        yield ScheduledAttempt(failures + 1, _triple(seconds), _triple(start))


def _triple(values: list[float]) -> tuple[float, float, float]:
    earliest, typical, latest = values
    return earliest, typical, latest
