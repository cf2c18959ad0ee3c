"""The programs on the page, in order: each names its file, and prints the text shown before it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "comparison.md"
PEERS = Path(__file__).parent / "peers"

_BLOCK = re.compile(r'^```(python|text)(?: title="(\S+)")?\n(.*?)^```$', re.MULTILINE | re.DOTALL)


class Program(NamedTuple):
    """A program of a peer. `output` is what Redrive's program for the same job prints."""

    file: Path
    text: str
    output: str


def peer_programs() -> Iterator[Program]:
    output = ""
    for language, title, text in _BLOCK.findall(PAGE.read_text()):
        if language == "text":
            output = text
        elif title:
            yield Program(ROOT / title, text, output)
        else:
            output = ""  # the next job starts


def own_programs() -> list[str]:
    """Return Redrive's programs, which the tests of the documentation run."""
    return [
        text
        for language, title, text in _BLOCK.findall(PAGE.read_text())
        if language == "python" and not title
    ]
