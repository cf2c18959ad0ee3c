"""Draws a transition table: one vertical line for each state, one horizontal arrow for each transition.

Arrows never cross a label, so no table needs a manual layout. Transitions with the same cause and end share
one arrow, with a dot at each state in which it can start.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import StrEnum
from html import escape
from typing import Any, NamedTuple

from redrive.model.transition import TransitionTable

COLUMN, ROW, HEAD, EDGE = 104, 34, 58, 12
BOX = (96, 30)
LETTER = 6.4
STYLE = (
    "svg.states{color:#24292f;font:12px system-ui,sans-serif}"
    "@media (prefers-color-scheme:dark){svg.states{color:#e6edf3}}"
)


class Arrow(NamedTuple):
    cause: str
    before: tuple[int, ...]
    after: int


def drawing(table: TransitionTable[Any]) -> str:
    states = ordered(table)
    arrows = list(_arrows(table, states))
    width = COLUMN * len(states) + EDGE
    height = HEAD + ROW * len(arrows) + EDGE
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" class="states" viewBox="0 0 {width} {height}" '
        f'width="{width}" height="{height}" role="img" aria-label="{_description(table)}">',
        f"<style>{STYLE}</style>",
        *(_state(number, str(name), name is table.initial, height) for number, name in enumerate(states)),
        *(_arrow(number, arrow, width) for number, arrow in enumerate(arrows)),
        "</svg>",
    ]
    return "\n".join(parts) + "\n"


def ordered(table: TransitionTable[Any]) -> list[StrEnum]:
    """Return the states in the order in which they are first reached, starting with the initial state."""
    found = [table.initial]
    for state in found:
        ends = [each.after for each in table.transitions if each.before is state]
        found += [end for end in dict.fromkeys(ends) if end not in found]
    rest = [each.before for each in table.transitions if each.before not in found]
    return [*found, *dict.fromkeys(rest)]


def _arrows(table: TransitionTable[Any], states: list[StrEnum]) -> Iterator[Arrow]:
    ways: dict[tuple[str, StrEnum], list[int]] = {}
    for each in table.transitions:
        ways.setdefault((each.cause, each.after), []).append(states.index(each.before))
    for (cause, after), before in ways.items():
        yield Arrow(cause, tuple(before), states.index(after))


def _description(table: TransitionTable[Any]) -> str:
    return escape(f"The states of a {table.noun}; the table below lists the transitions")


def _state(number: int, name: str, initial: bool, height: int) -> str:
    x, (width, high) = _x(number), BOX
    weight = ' stroke-width="2.2"' if initial else ""
    return (
        f'<rect x="{x - width / 2}" y="{EDGE}" width="{width}" height="{high}" rx="6" fill="currentColor" '
        f'fill-opacity=".07" stroke="currentColor" stroke-opacity=".75"{weight}/>'
        f'<text x="{x}" y="{EDGE + 20}" text-anchor="middle" fill="currentColor" font-size="11" '
        f'font-weight="600">{name}</text>'
        f'<path d="M{x} {EDGE + high}V{height - 4}" stroke="currentColor" stroke-opacity=".28" '
        'stroke-dasharray="2 4"/>'
    )


def _arrow(number: int, arrow: Arrow, width: int) -> str:
    y = HEAD + ROW * number + 24
    end = _x(arrow.after)
    starts = [_x(each) for each in arrow.before]
    left, right = min(*starts, end), max(*starts, end)
    dots = "".join(f'<circle cx="{x}" cy="{y}" r="3.4" fill="currentColor"/>' for x in starts)
    heads = "".join(_head(end, y, side) for side in _sides(starts, end))
    return (
        f'<path d="M{left} {y}H{right}" stroke="currentColor" stroke-width="1.4"/>'
        f"{dots}{heads}{_label(arrow.cause, left, right, y - 7, width)}"
    )


def _sides(starts: list[float], end: float) -> Iterator[int]:
    """Yield the directions of the arrow: 1 from the left, -1 from the right."""
    if any(start < end for start in starts):
        yield 1
    if any(start > end for start in starts):
        yield -1


def _head(x: float, y: int, side: int) -> str:
    return f'<path d="M{x - side} {y}l{-9 * side} -4.5v9z" fill="currentColor"/>'


def _label(text: str, left: float, right: float, y: int, width: int) -> str:
    half = len(text) * LETTER / 2
    x = min(max((left + right) / 2, half + 4), width - half - 4)
    return f'<text x="{x:.0f}" y="{y}" text-anchor="middle" fill="currentColor">{escape(text)}</text>'


def _x(number: int) -> float:
    return EDGE / 2 + COLUMN * (number + 0.5)
