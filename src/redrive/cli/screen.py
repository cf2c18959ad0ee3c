"""A story on a terminal: headings, paragraphs that fit, and what to type next."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence

from redrive.cli.cell import cut, padded, width
from redrive.cli.output import terminal_width
from redrive.cli.terminal import bad, bold, dim, good, out, visible, warn

INDENT = 2
MAX_WIDTH = 110
"""Longer lines are hard to read."""
MAX_LINES = 40
MAX_LENGTH = 2_000

_COLOURS = {
    **dict.fromkeys(("SUCCESS", "SUCCEEDED", "RESOLVED", "likely"), good),
    **dict.fromkeys(("OPEN", "EXHAUSTED", "FAILED", "DLQ_PENDING", "DLQ", "PARTIAL", "unlikely"), bad),
    **dict.fromkeys(("RUNNING", "RETRYING", "REPLAYING", "BLOCKED", "unknown"), warn),
}


def room() -> int:
    return min(MAX_WIDTH, terminal_width())


def coloured(state: str, text: str | None = None) -> str:
    """What it is called, or another text in its colour; red is what somebody has to look at."""
    shown = visible(state if text is None else text)
    return _COLOURS.get(state, str)(shown) if shown else ""


def headline(title: str, state: str) -> None:
    """What it is, and on the right how it stands."""
    space = room() - width(visible(state)) - INDENT
    out(f"{bold(padded(cut(visible(title), space), space, False))}{' ' * INDENT}{coloured(state)}")


def heading(title: str, aside: str = "") -> None:
    """Of a section."""
    out(f"\n{bold(title)}" + (f"{' ' * INDENT}{aside}" if aside else ""))


def paragraph(text: str, indent: int = INDENT) -> None:
    """Its lines stay lines, and long ones go on below."""
    for line in wrapped(text, room() - indent):
        out(" " * indent + line)


def entry(before: str, lines: Sequence[str]) -> None:
    """What happened at some time; what does not fit beside that time stands below, not under it."""
    for place, line in enumerate(lines):
        first = dim(before) if place == 0 else " " * width(before)
        out(f"{' ' * INDENT}{first}{' ' * INDENT}{line}")


def beside(before: str) -> int:
    """The room for the lines of an entry."""
    return room() - width(before) - 2 * INDENT


def item(text: str) -> None:
    """Of a list."""
    first, *others = wrapped(text, room() - 2 * INDENT) or [""]
    out(f"{' ' * INDENT}- {first}")
    for line in others:
        out(" " * 2 * INDENT + line)


def facts(pairs: Iterable[tuple[str, str | None]]) -> None:
    """Names and values below each other; what has no value is left out."""
    known = [(name, value) for name, value in pairs if value]
    names = max((len(name) for name, _ in known), default=0) + INDENT
    for name, value in known:
        first, *others = wrapped(value, room() - INDENT - names) or [""]
        out(f"{' ' * INDENT}{dim(f'{name:{names}}')}{first}")
        for line in others:
            out(" " * (INDENT + names) + line)


def aside(pieces: Sequence[str | None]) -> None:
    """Small things in few lines, one after the other."""
    line = ""
    for piece in filter(None, pieces):
        text = cut(visible(piece), room())
        if line and width(line) + width(text) + 3 > room():
            out(dim(line))
            line = ""
        line = f"{line} · {text}" if line else text
    if line:
        out(dim(line))


def document(value: object, more: str) -> None:
    """JSON as people read it; `more` tells where the rest of a long one is to be seen."""
    lines = json.dumps(value, indent=2, ensure_ascii=False).split("\n")
    for line in lines[:MAX_LINES]:
        out(" " * INDENT + cut(visible(line), room() - INDENT))
    if len(lines) > MAX_LINES:
        out(dim(f"{' ' * INDENT}… {len(lines) - MAX_LINES:,} more lines: {more}"))


def grid(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """A small table; the last column gets what room there is."""
    shown = [[visible(text) for text in row] for row in rows]
    widths = [max(width(row[place]) for row in [list(heads), *shown]) for place in range(len(heads) - 1)]
    for number, row in enumerate((heads, *shown)):
        parts = [padded(text, space, False) for text, space in zip(row, widths, strict=False)]
        line = cut((" " * INDENT).join([*parts, row[-1]]), room() - INDENT).rstrip()
        out(" " * INDENT + (line if number else dim(line)))


def next_steps(commands: Iterable[tuple[str, str]]) -> None:
    """What to type, and what that does."""
    heading("Next")
    known = list(commands)
    longest = max(len(command) for command, _ in known)
    fits = longest + 2 * INDENT + max(len(meaning) for _, meaning in known) <= room()
    for command, meaning in known:
        if fits:
            out(f"{' ' * INDENT}{command:{longest + INDENT}}{dim(meaning)}")
        else:
            out(f"{' ' * INDENT}{command}")


def wrapped(text: str, space: int) -> list[str]:
    shown = text if len(text) <= MAX_LENGTH else text[:MAX_LENGTH] + "…"
    return list(_lines(shown, max(20, space)))


def _lines(text: str, space: int) -> Iterator[str]:
    for line in text.splitlines():
        yield from _wrapped(visible(line), space)


def _wrapped(line: str, space: int) -> Iterator[str]:
    """Where signs may take two places; a word that is too long is broken."""
    begun: str | None = None
    for word in line.split(" "):
        if begun is not None and width(begun) + 1 + width(word) > space:
            yield begun.rstrip()
            begun = None
        begun = word if begun is None else f"{begun} {word}"
        while width(begun) > space:
            fitting = _fitting(begun, space)
            yield begun[:fitting]
            begun = begun[fitting:]
    yield (begun or "").rstrip()


def _fitting(text: str, space: int) -> int:
    """How many signs of it."""
    number = min(len(text), space)
    while width(text[:number]) > space:
        number -= 1
    return number
