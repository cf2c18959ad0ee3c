"""What all generated pages have in common: paragraphs, tables, and a note that they are generated."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterable, Sequence

NOTE = "<!-- Written by docs/reference/generate; change the code, then run make docs. -->"


def page(*parts: str) -> str:
    """Paragraphs, with an empty line between them; empty ones are left out."""
    return "\n\n".join(part for part in parts if part) + "\n"


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(re.sub(r"(?<=\|) (?= \|)", "", f"| {' | '.join(line)} |") for line in lines)


def cell(text: object) -> str:
    """A text within a table: one line, with its bars escaped."""
    return re.sub(r"\s+", " ", str(text)).strip().replace("|", "\\|")


def code(text: object) -> str:
    """As code within a table, where a bar inside of backticks must be escaped too."""
    return f"`{cell(text)}`"


def said(thing: object) -> str:
    """Its own docstring, with the paragraphs that it has; not one that a base class has written."""
    text = thing.__doc__ or ""
    generated = isinstance(thing, type) and re.match(rf"{thing.__name__}\([^)]*\)", text)
    return "" if generated else inspect.cleandoc(text)


def first_line(text: str) -> str:
    return text.split("\n\n", 1)[0].replace("\n", " ").strip()


def sentence(text: str) -> str:
    """With a capital at its beginning and a full stop at its end."""
    text = text.strip()
    if not text:
        return ""
    return text[0].upper() + text[1:] + ("" if text[-1] in ".:!?…" else ".")
