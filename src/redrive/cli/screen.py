"""A screen for people: headings, paragraphs and tables that fit the terminal. Needs rich.

Text is given in parts, plain or with a style, never as markup. Control characters are escaped. This module
renders the lines and click writes them, because click raises an error when the reader closes the pipe.
"""

from __future__ import annotations

import io
import json
import sys
from collections.abc import Collection, Iterable, Sequence

import click
from rich.cells import cell_len
from rich.console import Console, RenderableType
from rich.padding import Padding
from rich.segment import Segment, Segments
from rich.table import Table
from rich.text import Text
from rich.theme import Theme

from redrive.cli.terminal import Part, escape, escape_controls, out, terminal_width, wants_color

Line = Part | list[Part]
"""The content of a cell: one part or several."""

INDENT = 2
GAP = 2
MAX_WIDTH = 110
"""Longer lines are hard to read."""
MIN_COLUMN_WIDTH = 8
MAX_LINES = 40
ROWS_AT_ONCE = 1_000
"""Rows of a table that are rendered together."""
MAX_LENGTH = 2_000
THEME = Theme({"good": "green", "warn": "yellow", "bad": "red"})


class Screen:
    def __init__(self) -> None:
        self.width = min(MAX_WIDTH, terminal_width())
        self._console = Console(
            file=io.StringIO(),
            force_terminal=sys.stdout.isatty() and wants_color(),
            theme=THEME,
            markup=False,
            emoji=False,
            highlight=False,
            legacy_windows=False,
        )

    def headline(self, title: str, *aside: Part) -> None:
        """Write the title, with the state on the right."""
        table = Table.grid(expand=True, padding=(0, GAP, 0, 0))
        table.add_column(ratio=1, style="bold", no_wrap=True)
        table.add_column(no_wrap=True)
        table.add_row(_cut(title), _text(list(aside)))
        self.write(table)

    def heading(self, title: str, *aside: Part) -> None:
        """Write the heading of a section."""
        out("")
        self.write(_text([(title, "bold"), " " * GAP, *aside]))

    def paragraph(self, *parts: Part, indent: int = INDENT) -> None:
        """Write text; keep its line breaks and wrap long lines."""
        self.write(_text(list(parts)), indent)

    def aside(self, pieces: Iterable[str | None]) -> None:
        """Write short facts in a row; lines break only between facts."""
        lines = [""]
        for piece in filter(None, pieces):
            joined = f"{lines[-1]} · {escape(piece)}" if lines[-1] else escape(piece)
            if lines[-1] and cell_len(joined) > self.width:
                lines.append(escape(piece))
            else:
                lines[-1] = joined
        self.write(_text(("\n".join(lines), "dim")))

    def facts(self, pairs: Iterable[tuple[str, str | None]]) -> None:
        """Write names and values in two columns; omit names without a value."""
        self.columns(((name, "dim"), value) for name, value in pairs if value)

    def columns(
        self,
        rows: Iterable[Sequence[Line]],
        *,
        heads: Sequence[str] = (),
        right: Collection[int] = (),
        widths: Sequence[int] = (),
        indent: int = INDENT,
        gap: int = GAP,
        cut: bool = False,
    ) -> None:
        """Write aligned columns. The last one wraps or is truncated; the rest are as wide as their content.

        `right` are the right-aligned columns; `widths` are the minimum widths of the first columns.
        """
        lines = [list(row) for row in rows]
        number = max(map(len, [*lines, heads]), default=0)
        table = _borderless(show_header=bool(heads), header_style="dim", gap=gap)
        for place in range(number):
            table.add_column(
                escape(heads[place]) if heads else "",
                justify="right" if place in right else "left",
                no_wrap=place < number - 1,
                min_width=widths[place] if place < len(widths) else None,
            )
        for line in lines:
            last = _cut(line[-1]) if cut and len(line) == number else _text(line[-1])
            table.add_row(*map(_cut, line[:-1]), last)
        if lines:
            self.write(table, indent)

    def document(self, value: object, more: str) -> None:
        """Write indented JSON; `more` is the command that shows the rest of a long document."""
        lines = json.dumps(value, indent=2, ensure_ascii=False).split("\n")
        shown = Text("\n".join(map(escape, lines[:MAX_LINES])), no_wrap=True, overflow="ellipsis")
        self.write(shown, INDENT)
        if len(lines) > MAX_LINES:
            out((f"{' ' * INDENT}… {len(lines) - MAX_LINES:,} more lines: {more}", "dim"))

    def next_steps(self, commands: Iterable[tuple[str, str]]) -> None:
        """Write commands to copy, never truncated, and what each one does if there is room."""
        self.heading("Next")
        known = list(commands)
        needed = max(cell_len(command) for command, _ in known) + max(cell_len(text) for _, text in known)
        if needed + INDENT + GAP <= self.width:
            self.columns((command, (meaning, "dim")) for command, meaning in known)
            return
        for command, _ in known:
            out(" " * INDENT + command)

    def table(
        self,
        rows: Sequence[Sequence[str]],
        heads: Sequence[str],
        *,
        whole: Collection[int],
        right: Collection[int],
    ) -> ScreenTable:
        """Return a table as wide as the terminal, with column widths that fit these rows.

        The widest column that is not `whole` is cut first. If the whole columns need more room than there is,
        the lines are longer than the terminal, so that an id can still be copied.
        """
        widths = [max(cell_len(escape(row[place])) for row in (heads, *rows)) for place in range(len(heads))]
        minimums = [
            width if place in whole else min(width, max(MIN_COLUMN_WIDTH, cell_len(heads[place])))
            for place, width in enumerate(widths)
        ]
        fitted = _fit(widths, minimums, terminal_width() - GAP * (len(heads) - 1))
        return ScreenTable(self, heads, fitted, whole, right)

    def write(self, renderable: RenderableType, indent: int = 0, *, width: int | None = None) -> None:
        """Write the lines without trailing spaces, with control characters escaped."""
        options = self._console.options.update(width=width or self.width)
        padded = Padding(renderable, (0, 0, 0, indent), expand=False) if indent else renderable
        segments: list[Segment] = []
        for line in self._console.render_lines(padded, options, pad=False):
            kept = [Segment(escape_controls(part.text), part.style) for part in line if not part.control]
            while kept and not kept[-1].text.strip():
                kept.pop()
            if kept:
                kept[-1] = Segment(kept[-1].text.rstrip(), kept[-1].style)
            segments += [*kept, Segment.line()]
        with self._console.capture() as capture:
            self._console.print(Segments(segments), end="", soft_wrap=True)
        click.echo(capture.get(), nl=False, color=True)


class ScreenTable:
    """A table with fixed column widths. Rows are written in any number of calls, below one header."""

    def __init__(
        self,
        screen: Screen,
        heads: Sequence[str],
        widths: Sequence[int],
        whole: Collection[int],
        right: Collection[int],
    ) -> None:
        self._screen = screen
        self._heads = heads
        self._widths = widths
        self._whole = whole
        self._right = right
        self._shows_header = True

    def write(self, rows: Sequence[Sequence[str]]) -> None:
        for start in range(0, len(rows), ROWS_AT_ONCE):
            self._write(rows[start : start + ROWS_AT_ONCE])
            self._shows_header = False

    def _write(self, rows: Sequence[Sequence[str]]) -> None:
        """Write some rows. A longer cell of a whole column widens these rows instead of being truncated."""
        table = _borderless(show_header=self._shows_header, header_style="bold")
        needed = GAP * (len(self._heads) - 1)
        for place, (head, width) in enumerate(zip(self._heads, self._widths, strict=True)):
            if place in self._whole:
                width = max(width, *(cell_len(escape(row[place])) for row in rows))
            needed += width
            is_right = place in self._right
            table.add_column(_cut(head), justify="right" if is_right else "left", width=width, no_wrap=True)
        for row in rows:
            table.add_row(*map(_cut, row))
        self._screen.write(table, width=max(1, needed))


def _fit(widths: Sequence[int], minimums: Sequence[int], room: int) -> list[int]:
    """Shrink the widest columns, down to their minimums, until all columns fit into the room."""
    fitted = [min(width, max(minimum, room)) for width, minimum in zip(widths, minimums, strict=True)]
    excess = sum(fitted) - room
    while excess > 0:
        flexible = [place for place, width in enumerate(fitted) if width > minimums[place]]
        if not flexible:
            break
        fitted[max(flexible, key=fitted.__getitem__)] -= 1
        excess -= 1
    return fitted


def _borderless(*, show_header: bool, header_style: str, gap: int = GAP) -> Table:
    return Table(
        box=None, show_header=show_header, header_style=header_style, padding=(0, gap, 0, 0), pad_edge=False
    )


def _text(line: Line) -> Text:
    """Keep line breaks and escape everything else that is not printable."""
    text = Text(overflow="fold")
    for content, style in _parts(line):
        shown = content if len(content) <= MAX_LENGTH else f"{content[:MAX_LENGTH]}…"
        text.append("\n".join(map(escape, shown.splitlines())), style)
    return text


def _cut(line: Line) -> Text:
    """One line, truncated with an ellipsis if it is too long."""
    text = Text(no_wrap=True, overflow="ellipsis")
    for content, style in _parts(line):
        text.append(escape(content), style)
    return text


def _parts(line: Line) -> list[tuple[str, str]]:
    parts = line if isinstance(line, list) else [line]
    return [(part, "") if isinstance(part, str) else part for part in parts]
