"""Two attempts of a step side by side: what was different when it failed, and where their stacks part."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from difflib import SequenceMatcher
from typing import NamedTuple

from redrive.engine.run_view import AttemptView
from redrive.server.admin.mark import mark
from redrive.server.admin.words import duration

MAX_LINES = 300
MAX_SHOWN = 400
MAX_LINE_LENGTH = 500
CONTEXT = 3
NOTICEABLE = 1.5
"""How many times as long an attempt takes before that is worth a mark."""

_MAX_ALIKE = 8
_NONE = "–"


class Field(NamedTuple):
    name: str
    before: str
    after: str
    changed: bool


class DiffLine(NamedTuple):
    """`sign`: "-" only the first has it, "+" only the second has it, "…" so many lines are not shown."""

    sign: str
    text: str


class StackDiff(NamedTuple):
    """`equal`: they do not differ at all. `left`: lines at the end that were not looked at."""

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
        return tuple(each for each in self.fields if each.changed)

    @property
    def unchanged(self) -> tuple[Field, ...]:
        return tuple(each for each in self.fields if not each.changed)


def compared(before: AttemptView, after: AttemptView) -> Comparison:
    fields = tuple(_fields(before, after))
    return Comparison(before, after, fields, stack_diff(before.stack or "", after.stack or ""))


def seconds_of(attempt: AttemptView) -> float | None:
    if attempt.started_at is None or attempt.ended_at is None:
        return None
    return max(0.0, attempt.ended_at - attempt.started_at)


def _fields(before: AttemptView, after: AttemptView) -> Iterator[Field]:
    for name, text in _SHOWN.items():
        one, other = text(before), text(after)
        yield Field(name, one, other, one != other)
    # The words tell moments and draws, which are never the same twice.
    decided = before.reason != after.reason
    yield Field("Decision", _text(before.explanation), _text(after.explanation), decided)
    yield _took(seconds_of(before), seconds_of(after))


def _took(before: float | None, after: float | None) -> Field:
    """No two attempts take equally long; only what is much longer tells something."""
    if before is None or after is None:
        return Field("Took", duration(before), duration(after), before is not after)
    longer, shorter = max(before, after), max(min(before, after), 1e-3)
    return Field("Took", duration(before), duration(after), longer / shorter >= NOTICEABLE)


def _text(value: object) -> str:
    return _NONE if value is None or value == "" else str(value)


_SHOWN: dict[str, Callable[[AttemptView], str]] = {
    "Outcome": lambda each: mark(each.outcome).word,
    "Worker": lambda each: _text(each.worker),
    "Version": lambda each: _text(each.code_version),
    "Category": lambda each: _text(each.category),
    "Class": lambda each: _text(each.error_class),
    "Error": lambda each: _text(each.error_type),
    "HTTP status": lambda each: _text(each.http_status),
    "Message": lambda each: _text(each.message),
    "Wait after it": lambda each: duration(each.delay),
}


# Stacks


def stack_diff(before: str, after: str) -> StackDiff:
    """The lines that differ, with some around them. Its time does not depend on what is in them."""
    if before == after:
        return StackDiff((), True)
    one, other = before.split("\n"), after.split("\n")
    start = _shared(one, other)
    end = _shared(one[start:][::-1], other[start:][::-1])
    middle, others = one[start : len(one) - end], other[start : len(other) - end]
    left = max(0, len(middle) - MAX_LINES) + max(0, len(others) - MAX_LINES)
    lines = [DiffLine(" ", each) for each in one[:start]]
    lines += _changed(middle[:MAX_LINES], others[:MAX_LINES])
    if not left:
        lines += [DiffLine(" ", each) for each in one[len(one) - end :]]
    shown = [DiffLine(sign, _cut(text)) for sign, text in _around(lines)]
    return StackDiff(tuple(shown[:MAX_SHOWN]), False, left + max(0, len(shown) - MAX_SHOWN))


def _shared(one: Sequence[str], other: Sequence[str]) -> int:
    """How many lines they have in common at the beginning."""
    pairs = enumerate(zip(one, other, strict=False))
    return next((index for index, (a, b) in pairs if a != b), min(len(one), len(other)))


def _changed(one: list[str], other: list[str]) -> Iterator[DiffLine]:
    """Lines that come again and again are no landmarks, and would take the time of their square."""
    times = Counter(other)
    matcher = SequenceMatcher(lambda line: times[line] > _MAX_ALIKE, one, other, autojunk=False)
    for kind, first, last, other_first, other_last in matcher.get_opcodes():
        if kind == "equal":
            yield from (DiffLine(" ", each) for each in one[first:last])
            continue
        yield from (DiffLine("-", each) for each in one[first:last])
        yield from (DiffLine("+", each) for each in other[other_first:other_last])


def _around(lines: Sequence[DiffLine]) -> Iterator[DiffLine]:
    """What differs, with a few lines around it; for the rest, how many they are."""
    near: set[int] = set()
    for index, line in enumerate(lines):
        if line.sign != " ":
            near.update(range(index - CONTEXT, index + CONTEXT + 1))
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
        yield DiffLine("…", f"{number:,} equal line{'s' * (number != 1)}")


def _cut(line: str) -> str:
    return (
        line
        if len(line) <= MAX_LINE_LENGTH
        else f"{line[:MAX_LINE_LENGTH]} … {len(line) - MAX_LINE_LENGTH:,} more"
    )
