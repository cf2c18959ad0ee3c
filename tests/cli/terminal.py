"""A real terminal for a command: it types each answer after the question, as a person would."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple


class Talk(NamedTuple):
    code: int
    out: str
    """What a program behind a pipe would receive."""
    shown: str
    """Everything that the terminal showed, including typed text."""


def talk(directory: Path, arguments: list[str], *answers: tuple[str, str], on_terminal: bool = False) -> Talk:
    """Run a command. Each answer is a question, or its end, and the text to type then."""
    master, slave = pty.openpty()
    command = [sys.executable, "-m", "redrive.cli", *arguments]
    process = subprocess.Popen(
        command,
        cwd=directory,
        stdin=slave,
        stdout=slave if on_terminal else subprocess.PIPE,
        stderr=slave,
        text=True,
        start_new_session=True,
    )
    os.close(slave)
    shown = ""
    for question, answer in answers:
        shown = _read_until(master, shown, question)
        os.write(master, f"{answer}\n".encode())
    shown += _rest(master)
    out, _ = process.communicate(timeout=60)
    os.close(master)
    return Talk(process.returncode, out or "", shown)


def _read_until(master: int, shown: str, question: str) -> str:
    already = len(shown)
    while question not in shown[already:]:
        piece = _piece(master)
        assert piece, f"it has ended without asking {question!r}: {shown}"
        shown += piece
    return shown


def _rest(master: int) -> str:
    shown = ""
    while piece := _piece(master):
        shown += piece
    return shown


def _piece(master: int) -> str:
    try:
        return os.read(master, 4096).decode(errors="replace")  # a chunk may end within a character
    except OSError:  # Linux reports the other end's exit like this
        return ""
