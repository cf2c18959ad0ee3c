"""The index of decisions: their numbers and titles."""

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
        "Why things are as they are: one page for each decision that was not obvious, with what it costs.",
        table(("", "decision"), rows),
    )


def _row(file: Path) -> tuple[str, str]:
    heading = file.read_text().splitlines()[0]
    found = re.fullmatch(r"# (\d+)\. (.+)", heading)
    if found is None or int(found[1]) != int(file.name[:4]):
        raise SystemExit(f"{file.name} must begin with its number and its title, such as '# 7. A title'")
    return found[1], f"[{found[2]}]({file.name})"
