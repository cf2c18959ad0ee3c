"""Generates the index of decisions: their numbers and titles."""

from __future__ import annotations

import re
from pathlib import Path

from docs.reference.generate.page import NOTE, page, table

DECISIONS = Path(__file__).parents[2] / "decisions"


def decisions() -> str:
    rows = [_row(file) for file in sorted(DECISIONS.glob("[0-9]*.md"))]
    return page(
        "# Decisions",
        NOTE,
        "The design decisions that were not obvious, one page each, with their reasons and costs.",
        table(("no.", "decision"), rows),
    )


def _row(file: Path) -> tuple[str, str]:
    heading = file.read_text().splitlines()[0]
    found = re.fullmatch(r"# (\d+)\. (.+)", heading)
    if found is None or int(found[1]) != int(file.name[:4]):
        raise SystemExit(f"{file.name} must start with its number and its title, such as '# 7. A title'")
    return found[1], f"[{found[2]}]({file.name})"
