"""What the demo needs of a terminal: a little colour, headings, and one line that is drawn anew."""

from __future__ import annotations

import io
import os
import shutil
import sys
from textwrap import wrap

LIVE = sys.stdout.isatty()
COLOUR = LIVE and not os.environ.get("NO_COLOR")
COLUMNS = shutil.get_terminal_size((88, 24)).columns
WIDTH = max(60, min(COLUMNS, 88))

BOLD, DIM, RED, GREEN, YELLOW = "1", "2", "31", "32", "33"


def prepare() -> None:
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")  # a terminal without Unicode shows ? for ·


def paint(code: str, text: str) -> str:
    return f"\033[{code}m{text}\033[0m" if COLOUR and code and text.strip() else text


def heading(text: str) -> None:
    print(f"\n\n{paint(BOLD, text)}\n")


def say(text: str = "", code: str = "") -> None:
    print(f"  {paint(code, text)}".rstrip(), flush=True)


def tell(text: str) -> None:
    """A paragraph."""
    for line in wrap(text, WIDTH - 2):
        say(line)


def field(name: str, text: str, code: str = "") -> None:
    """A name and its text, which goes on under itself where it is long."""
    for line in wrap(text, WIDTH - 14, break_on_hyphens=False) or [""]:
        say(f"{paint(DIM, f'{name:<10}')}  {paint(code, line)}")
        name = ""


def draw(line: str, *, keep: bool) -> None:
    """Draw the last line anew. What is not a terminal gets only the lines that are kept."""
    if LIVE:
        print(f"\r\033[2K  {line}", end="\n" if keep else "", flush=True)
    elif keep:
        say(line)
