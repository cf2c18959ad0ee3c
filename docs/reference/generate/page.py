"""Helpers for all generated pages: paragraphs, tables, and a note that the page is generated."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterable, Sequence

NOTE = "<!-- Written by docs/reference/generate; change the code, then run make docs. -->"


def page(*parts: str) -> str:
    """Join paragraphs with empty lines. Empty paragraphs are omitted."""
    return "\n\n".join(part for part in parts if part) + "\n"


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(re.sub(r"(?<=\|) (?= \|)", "", f"| {' | '.join(line)} |") for line in lines)


def cell(text: object) -> str:
    """Format text for a table cell: one line, with bars escaped."""
    return re.sub(r"\s+", " ", str(text)).strip().replace("|", "\\|")


def code(text: object) -> str:
    """Format text as code for a table cell, where bars inside backticks must be escaped too."""
    return f"`{cell(text)}`"


def said(thing: object) -> str:
    """Return its own docstring with its paragraphs, not an inherited or generated one."""
    text = thing.__doc__ or ""
    generated = isinstance(thing, type) and re.match(rf"{thing.__name__}\([^)]*\)", text)
    return "" if generated else inspect.cleandoc(text)


def first_line(text: str) -> str:
    return text.split("\n\n", 1)[0].replace("\n", " ").strip()


def sentence(text: str) -> str:
    """Capitalize the first letter and end with a full stop."""
    text = text.strip()
    if not text:
        return ""
    return text[0].upper() + text[1:] + ("" if text[-1] in ".:!?…" else ".")
