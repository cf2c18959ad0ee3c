"""The demo's screen: redraws lines in place on a terminal, and prints plain lines elsewhere."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Sequence
from typing import TextIO

BOLD, DIM, RED, GREEN, YELLOW = "1", "2", "31", "32", "33"
_STYLE = re.compile(r"\033\[[0-9;]*m")


class DemoScreen:
    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self.live = stream.isatty() and os.environ.get("TERM") != "dumb"
        self.colored = self.live and not os.environ.get("NO_COLOR")
        self._drawn: list[str] = []
        self._size = shutil.get_terminal_size()

    def has_room(self, lines: int) -> bool:
        return lines < shutil.get_terminal_size().lines

    def paint(self, style: str, text: str) -> str:
        return f"\033[{style}m{text}\033[0m" if self.colored and text else text

    def say(self, text: str = "") -> None:
        """Print a permanent line below everything."""
        self._write(f"{text}\n")
        self._drawn = []

    def draw(self, lines: Sequence[str]) -> None:
        """Replace the lines of the last `draw`."""
        size = shutil.get_terminal_size()
        if not self._drawn:
            self._write("".join(f"{line}\n" for line in lines))
        elif size != self._size or not self._fits(lines, size.lines):
            self._draw_all(lines, size != self._size)
        else:
            for number in self._changed(lines):
                self._draw_one(lines, number)
        self._drawn, self._size = list(lines), size

    def _fits(self, lines: Sequence[str], rows: int) -> bool:
        """Return whether each changed line takes one row, so that it can be redrawn separately."""
        if len(lines) != len(self._drawn) or self._height(lines) >= rows:
            return False
        changed = self._changed(lines)
        return all(self._height([line]) == 1 for at in changed for line in (lines[at], self._drawn[at]))

    def _changed(self, lines: Sequence[str]) -> list[int]:
        return [number for number, line in enumerate(lines) if line != self._drawn[number]]

    def _draw_all(self, lines: Sequence[str], resized: bool) -> None:
        """Redraw everything. Clear a resized terminal first, because it has wrapped the old lines."""
        height = self._height(self._drawn)
        if resized or height >= self._size.lines:
            self._write("\033[H\033[2J")
        else:
            self._write(f"\033[{height}A\r\033[J")
        self._write("".join(f"{line}\n" for line in lines))

    def _draw_one(self, lines: Sequence[str], number: int) -> None:
        up = self._height(self._drawn, number)
        self._write(f"\033[{up}A\r\033[2K{lines[number]}\033[{up}B\r")

    def _height(self, lines: Sequence[str], first: int = 0) -> int:
        columns = max(1, self._size.columns)
        return sum(max(1, -(-len(_STYLE.sub("", line)) // columns)) for line in lines[first:])

    def _write(self, text: str) -> None:
        self._stream.write(text)
        self._stream.flush()
