"""Attempts: the rows of their table, and a comparison of two of them.

The comparison shows what was different when the attempts failed, and where their tracebacks differ.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from difflib import SequenceMatcher
from typing import NamedTuple

from redrive.engine.run_view import AttemptView
from redrive.policy.fingerprint import normalize
from redrive.words.decision import explain
from redrive.words.number import plural
from redrive.words.state import state_label
from redrive.words.time import duration

MAX_ROWS = 50
MAX_LINES = 300
MAX_DIFF_LINES = 400
MAX_LINE_LENGTH = 500
CONTEXT_LINES = 3
NOTICEABLE = 1.5
"""An attempt that takes this many times as long as another is marked."""

_MAX_EQUAL_LINES = 8
_NONE = "–"


class AttemptRow(NamedTuple):
    """An attempt in the table. `same`: it failed like the previous one, apart from numbers and ids."""

    attempt: AttemptView
    seconds: float | None
    same: bool


class Pair(NamedTuple):
    """The numbers of two attempts to compare, or what was wrong with the request for it."""

    numbers: tuple[int, int] | None = None
    problem: str = ""


def attempt_rows(attempts: Sequence[AttemptView]) -> Sequence[AttemptRow]:
    """Return the newest `MAX_ROWS` attempts, the newest first."""
    rows = [
        AttemptRow(attempt, seconds_of(attempt), before is not None and _manner(attempt) == _manner(before))
        for attempt, before in zip(attempts, [None, *attempts], strict=False)
    ]
    return rows[::-1][:MAX_ROWS]


def _manner(attempt: AttemptView) -> tuple[object, ...]:
    message = normalize(attempt.message or "")
    return attempt.outcome, attempt.category, attempt.error_type, attempt.http_status, message


def seconds_of(attempt: AttemptView) -> float | None:
    if attempt.started_at is None or attempt.ended_at is None:
        return None
    return max(0.0, attempt.ended_at - attempt.started_at)


def pair_of(given: Sequence[str] | None, attempts: Sequence[AttemptView]) -> Pair:
    """Read two numbers of attempts, given as "2,5" or as two parameters."""
    if not given:
        return Pair()
    known = {str(attempt.number): attempt.number for attempt in attempts}
    wanted = dict.fromkeys(part.strip() for part in ",".join(given).split(",") if part.strip())
    if len(wanted) != 2:
        return Pair(problem=f"Select two attempts to compare. {len(wanted):,} selected.")
    missing = [number for number in wanted if number not in known]
    if missing:
        return Pair(problem=f"Can't compare: attempt {missing[0][:20]} doesn't exist.")
    first, second = sorted(known[number] for number in wanted)
    return Pair((first, second))


# Comparing


class Field(NamedTuple):
    name: str
    before: str
    after: str
    changed: bool


class DiffLine(NamedTuple):
    """`sign`: "-" a line of the first, "+" a line of the second, "…" the number of omitted lines."""

    sign: str
    text: str


class StackDiff(NamedTuple):
    """`equal`: the stacks do not differ. `left`: lines at the end that were not compared."""

    lines: tuple[DiffLine, ...]
    equal: bool
    left: int = 0


class Comparison(NamedTuple):
    before: AttemptView
    after: AttemptView
    fields: tuple[Field, ...]
    stack: StackDiff

    @property
    def changed(self) -> tuple[Field, ...]:
        return tuple(field for field in self.fields if field.changed)

    @property
    def unchanged(self) -> tuple[Field, ...]:
        return tuple(field for field in self.fields if not field.changed)


def compare_attempts(before: AttemptView, after: AttemptView) -> Comparison:
    fields = tuple(_fields(before, after))
    return Comparison(before, after, fields, stack_diff(before.stack or "", after.stack or ""))


def _fields(before: AttemptView, after: AttemptView) -> Iterator[Field]:
    for name, text in _FIELDS.items():
        one, other = text(before), text(after)
        yield Field(name, one, other, one != other)
    # Draws and due times always differ, so only the reasons are compared.
    decided = before.reason != after.reason
    yield Field("Decision", explain(before.decision), explain(after.decision), decided)
    yield _took(seconds_of(before), seconds_of(after))


def _took(before: float | None, after: float | None) -> Field:
    """Compare the durations: they always differ, so only a much longer one is a difference."""
    if before is None or after is None:
        return Field("Duration", _duration(before), _duration(after), before is not after)
    longer, shorter = max(before, after), max(min(before, after), 1e-3)
    return Field("Duration", _duration(before), _duration(after), longer / shorter >= NOTICEABLE)


def _text(value: object) -> str:
    return _NONE if value is None or value == "" else str(value)


def _duration(seconds: float | None) -> str:
    return _NONE if seconds is None else duration(seconds)


_FIELDS: dict[str, Callable[[AttemptView], str]] = {
    "Outcome": lambda attempt: state_label(attempt.outcome).word,
    "Worker": lambda attempt: _text(attempt.worker),
    "Code version": lambda attempt: _text(attempt.code_version),
    "Category": lambda attempt: _text(attempt.category),
    "Error class": lambda attempt: _text(attempt.error_class),
    "Error type": lambda attempt: _text(attempt.error_type),
    "HTTP status": lambda attempt: _text(attempt.http_status),
    "Message": lambda attempt: _text(attempt.message),
    "Delay after it": lambda attempt: _duration(attempt.delay),
}


def stack_diff(before: str, after: str) -> StackDiff:
    """Return the lines that differ, with context. The running time doesn't depend on their text."""
    if before == after:
        return StackDiff((), True)
    one, other = before.split("\n"), after.split("\n")
    start = _equal_lines(one, other)
    end = _equal_lines(one[start:][::-1], other[start:][::-1])
    middle, others = one[start : len(one) - end], other[start : len(other) - end]
    left = max(0, len(middle) - MAX_LINES) + max(0, len(others) - MAX_LINES)
    lines = [DiffLine(" ", line) for line in one[:start]]
    lines += _differences(middle[:MAX_LINES], others[:MAX_LINES])
    if not left:
        lines += [DiffLine(" ", line) for line in one[len(one) - end :]]
    visible = [DiffLine(sign, _cut(text)) for sign, text in _with_context(lines)]
    return StackDiff(tuple(visible[:MAX_DIFF_LINES]), False, left + max(0, len(visible) - MAX_DIFF_LINES))


def _equal_lines(one: Sequence[str], other: Sequence[str]) -> int:
    """Count the equal lines at the beginning."""
    pairs = enumerate(zip(one, other, strict=False))
    return next((index for index, (a, b) in pairs if a != b), min(len(one), len(other)))


def _differences(one: list[str], other: list[str]) -> Iterator[DiffLine]:
    """Compare the lines. Frequent lines align nothing, and would take quadratic time."""
    times = Counter(other)
    matcher = SequenceMatcher(lambda line: times[line] > _MAX_EQUAL_LINES, one, other, autojunk=False)
    for kind, first, last, other_first, other_last in matcher.get_opcodes():
        if kind == "equal":
            yield from (DiffLine(" ", line) for line in one[first:last])
            continue
        yield from (DiffLine("-", line) for line in one[first:last])
        yield from (DiffLine("+", line) for line in other[other_first:other_last])


def _with_context(lines: Sequence[DiffLine]) -> Iterator[DiffLine]:
    """Yield the lines that differ with some context, and count the lines in between."""
    near: set[int] = set()
    for index, line in enumerate(lines):
        if line.sign != " ":
            near.update(range(index - CONTEXT_LINES, index + CONTEXT_LINES + 1))
    hidden = 0
    for index, line in enumerate(lines):
        if index not in near:
            hidden += 1
            continue
        yield from _hidden(hidden)
        hidden = 0
        yield line
    yield from _hidden(hidden)


def _hidden(number: int) -> Iterator[DiffLine]:
    if number:
        yield DiffLine("…", plural(number, "equal line"))


def _cut(line: str) -> str:
    more = len(line) - MAX_LINE_LENGTH
    return line if more <= 0 else f"{line[:MAX_LINE_LENGTH]} … {more:,} more"
