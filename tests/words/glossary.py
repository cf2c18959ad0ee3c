"""The table of states in the glossary."""

from __future__ import annotations

import re
from pathlib import Path

GLOSSARY = Path(__file__).parents[2] / "docs" / "glossary.md"
_ROW = re.compile(r"^\| ([a-z ,']+) \| ((?:`\w+`(?:, )?)+) \| \S.*\|$", re.MULTILINE)


def states_by_status() -> dict[str, list[str]]:
    """Return the states for programs by the status for people."""
    text = GLOSSARY.read_text(encoding="utf-8")
    table = text[text.index("## States") : text.index("## Counting")]
    rows = _ROW.findall(table)
    found = {status: re.findall(r"\w+", states) for status, states in rows if status != "status"}
    assert len(found) == len(rows) - 1, "a status is listed twice"
    return found
