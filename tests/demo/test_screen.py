"""The screen of the demo: a terminal shows the latest drawing, and only changes are written."""

from __future__ import annotations

import io
import re

import pytest

from redrive.demo.screen import GREEN, DemoScreen

COLUMNS, ROWS = 40, 20
_TOKEN = re.compile(r"\033\[(\d*)([A-Za-z])|(.|\n)", re.DOTALL)


class Terminal(io.StringIO):
    """A minimal terminal: it moves up and down, clears, and wraps lines that are too long."""

    def __init__(self) -> None:
        super().__init__()
        self._rows: list[str] = [""]
        self._row = self._column = 0

    def isatty(self) -> bool:
        return True

    def write(self, text: str) -> int:
        for number, command, sign in _TOKEN.findall(text):
            self._put(sign) if sign else self._obey(command, int(number or 1))
        return super().write(text)

    def _put(self, sign: str) -> None:
        if sign == "\r":
            self._column = 0
            return
        if sign == "\n" or self._column == COLUMNS:
            self._row, self._column = self._row + 1, 0
        self._rows += [""] * (self._row + 1 - len(self._rows))
        if sign != "\n":
            row = self._rows[self._row].ljust(self._column)
            self._rows[self._row] = row[: self._column] + sign + row[self._column + 1 :]
            self._column += 1

    def _obey(self, command: str, number: int) -> None:
        if command == "A":
            self._row -= number
        elif command == "B":
            self._row += number
        elif command == "K":
            self._rows[self._row] = ""
        elif command == "H":
            self._row = self._column = 0
        elif command == "J":
            kept = [] if number == 2 else self._rows[: self._row]
            self._rows = [*kept, ""]
        assert self._row >= 0, "it has left the terminal"

    @property
    def shown(self) -> list[str]:
        return "\n".join(self._rows).rstrip("\n").split("\n")


@pytest.fixture(autouse=True)
def size(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", str(COLUMNS))
    monkeypatch.setenv("LINES", str(ROWS))
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("NO_COLOR", "1")


def test_a_new_drawing_replaces_the_previous_one() -> None:
    terminal = Terminal()
    screen = DemoScreen(terminal)
    long, longer = "x" * (COLUMNS + 5), "y" * (2 * COLUMNS + 5)
    for lines in (
        ["one", "two", "three"],
        ["one", "2", "three"],
        ["one", long, "three"],
        ["ONE", long, "three"],
        ["ONE", longer, "three"],
        ["ONE", "two", "THREE"],
        ["ONE"],
        ["a", "b", "c", "d"],
    ):
        screen.draw(lines)
        wrapped = [line[at : at + COLUMNS] for line in lines for at in range(0, len(line), COLUMNS)]
        assert terminal.shown == wrapped


def test_lines_that_have_not_changed_are_not_written_again() -> None:
    terminal = Terminal()
    screen = DemoScreen(terminal)
    screen.draw(["the first", "the second"])
    written = len(terminal.getvalue())
    screen.draw(["the first", "the 2nd"])
    assert "the first" not in terminal.getvalue()[written:]
    screen.draw(["the first", "the 2nd"])
    assert terminal.getvalue().count("the 2nd") == 1


def test_messages_stay_above_the_next_drawing() -> None:
    terminal = Terminal()
    screen = DemoScreen(terminal)
    screen.draw(["drawn"])
    screen.say("said")
    screen.draw(["drawn anew"])
    screen.draw(["drawn once more"])
    assert terminal.shown == ["drawn", "said", "drawn once more"]


def test_another_size_begins_with_an_empty_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Terminal()
    screen = DemoScreen(terminal)
    screen.draw(["one", "two"])
    monkeypatch.setenv("LINES", str(ROWS + 5))
    screen.draw(["one", "two"])
    assert terminal.shown == ["one", "two"]


def test_colors_are_for_terminals_that_want_them(monkeypatch: pytest.MonkeyPatch) -> None:
    assert DemoScreen(Terminal()).paint(GREEN, "fine") == "fine"
    monkeypatch.delenv("NO_COLOR")
    assert DemoScreen(Terminal()).paint(GREEN, "fine") == "\033[32mfine\033[0m"
    assert DemoScreen(io.StringIO()).paint(GREEN, "fine") == "fine"
