"""A screen for people: headings, paragraphs and tables that fit the terminal. Needs rich.

Texts come as parts, plain or with a style, and never as markup; control characters in them are escaped. The
lines are rendered here and written by click, which raises an error when the reader has closed the pipe.
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
        """What the screen is about, and on the right its state."""
        table = Table.grid(expand=True, padding=(0, GAP, 0, 0))
        table.add_column(ratio=1, style="bold", no_wrap=True)
        table.add_column(no_wrap=True)
        table.add_row(_cut(title), _text(list(aside)))
        self._write(table)

    def heading(self, title: str, *aside: Part) -> None:
        """Of a section."""
        out("")
        self._write(_text([(title, "bold"), " " * GAP, *aside]))

    def paragraph(self, *parts: Part, indent: int = INDENT) -> None:
        """A text whose lines stay lines; long ones go on below."""
        self._write(_text(list(parts)), indent)

    def aside(self, pieces: Iterable[str | None]) -> None:
        """Small facts, one after the other; a line ends between two of them."""
        lines = [""]
        for piece in filter(None, pieces):
            joined = f"{lines[-1]} · {escape(piece)}" if lines[-1] else escape(piece)
            if lines[-1] and cell_len(joined) > self.width:
                lines.append(escape(piece))
            else:
                lines[-1] = joined
        self._write(_text(("\n".join(lines), "dim")))

    def facts(self, pairs: Iterable[tuple[str, str | None]]) -> None:
        """Names and values below each other; those without a value are left out."""
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

        `right` are the columns whose cells end below each other; `widths` are the least of the first ones.
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
            self._write(table, indent)

    def document(self, value: object, more: str) -> None:
        """JSON as people read it; `more` is the command that shows the rest of a long one."""
        lines = json.dumps(value, indent=2, ensure_ascii=False).split("\n")
        shown = Text("\n".join(map(escape, lines[:MAX_LINES])), no_wrap=True, overflow="ellipsis")
        self._write(shown, INDENT)
        if len(lines) > MAX_LINES:
            out((f"{' ' * INDENT}… {len(lines) - MAX_LINES:,} more lines: {more}", "dim"))

    def next_steps(self, commands: Iterable[tuple[str, str]]) -> None:
        """What to type, and where there is room, what that does. A command is never cut: it is copied."""
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
        show_heads: bool,
    ) -> None:
        """A list, over the whole width of the terminal.

        Of the columns that are not `whole` the widest is cut first. If the others need more room than there
        is, the lines are longer than the terminal, so that an id can still be copied.
        """
        table = _borderless(show_header=show_heads, header_style="bold")
        needed = GAP * (len(heads) - 1)
        for place, head in enumerate(heads):
            widest = max(cell_len(escape(row[place])) for row in (heads, *rows))
            needed += widest if place in whole else min(widest, max(MIN_COLUMN_WIDTH, cell_len(head)))
            table.add_column(
                escape(head), justify="right" if place in right else "left", no_wrap=place in whole
            )
        for row in rows:
            table.add_row(*map(_cut, row))
        self._write(table, width=max(needed, terminal_width()))

    def _write(self, renderable: RenderableType, indent: int = 0, *, width: int | None = None) -> None:
        """Write the lines without trailing blanks. No text of a segment can steer the terminal."""
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


def _borderless(*, show_header: bool, header_style: str, gap: int = GAP) -> Table:
    return Table(
        box=None, show_header=show_header, header_style=header_style, padding=(0, gap, 0, 0), pad_edge=False
    )


def _text(line: Line) -> Text:
    """Its lines stay lines; everything else that is not printable is escaped."""
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
