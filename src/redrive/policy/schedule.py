"""The schedule of a policy: when each attempt starts, at the earliest, typically and at the latest."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from redrive.policy.backoff import Backoff

MAX_ROWS = 1000
_DRAWS = (0.0, 0.5, 1.0)
_HEADINGS = ("earliest", "typical", "latest")


@dataclass(frozen=True, slots=True)
class ScheduledAttempt:
    """One attempt: the wait before it, and its start counted from the first failure, in seconds.

    Each is a triple of earliest, typical (the middle of the jitter) and latest. The time that the attempts
    themselves take comes on top.
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
        lines = [*self._summary(), ""]
        lines.append(f"attempt  {'wait before it':^26}   {'starts after the first failure':^28}")
        lines.append(f"{'':>7}  {_columns(_HEADINGS)}   {_columns(_HEADINGS)}")
        lines += [self._line(each) for each in self.attempts]
        if self.max_attempts > len(self.attempts) > 1:
            lines.append(f"… and so on, up to attempt {self.max_attempts}")
        return "\n".join(lines)

    def _summary(self) -> list[str]:
        if len(self.attempts) == 1:
            return [f"policy {self.name}: one attempt, no retries"]
        return [f"policy {self.name}: at most {self.max_attempts} attempts", f"waits {self.formula}"]

    @staticmethod
    def _line(row: ScheduledAttempt) -> str:
        if row.number == 1:
            return f"{1:>7}  {'at once':>8}"
        wait = _columns([format_duration(each) for each in row.wait])
        start = _columns([format_duration(each) for each in row.start])
        return f"{row.number:>7}  {wait}   {start}"


def _columns(words: Sequence[str]) -> str:
    return " ".join(f"{word:>8}" for word in words)


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


def format_duration(seconds: float) -> str:
    """Short and exact enough to read: 250ms, 1.5s, 2m, 1h30m, 3d."""
    if seconds < 0.9995:
        return f"{seconds * 1000:.3g}ms" if seconds else "0s"
    if seconds < 59.95:
        return f"{seconds:.3g}s"
    if seconds < 3600:
        return _two_units(seconds, 60, "m", 1, "s")
    if seconds < 86_400:
        return _two_units(seconds, 3600, "h", 60, "m")
    return _two_units(seconds, 86_400, "d", 3600, "h")


def _two_units(seconds: float, large: int, large_sign: str, small: int, small_sign: str) -> str:
    whole, rest = divmod(round(seconds / small), large // small)
    return f"{whole}{large_sign}{rest}{small_sign}" if rest else f"{whole}{large_sign}"
