"""`python -m docs.reference.generate` (`make docs`). A test checks that the pages are up to date."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

from docs.reference.generate.commands import command_page
from docs.reference.generate.decisions import decisions
from docs.reference.generate.drawing import drawing
from docs.reference.generate.errors import error_page
from docs.reference.generate.events import events
from docs.reference.generate.findings import findings
from docs.reference.generate.interface import interface
from docs.reference.generate.known_errors import known_error_page
from docs.reference.generate.policies import policies
from docs.reference.generate.query_language import query_language
from docs.reference.generate.rest import rest
from docs.reference.generate.settings import settings
from docs.reference.generate.states import TABLES, file_of, states
from docs.reference.generate.tables import table_page
from docs.reference.generate.violations import violations

DOCS = Path(__file__).parents[2]
PAGES: dict[str, Callable[[], str]] = {
    "reference/api.md": interface,
    "reference/cli.md": command_page,
    "reference/errors.md": error_page,
    "reference/events.md": events,
    "reference/findings.md": findings,
    "reference/known-errors.md": known_error_page,
    "reference/policies.md": policies,
    "reference/query-language.md": query_language,
    "reference/rest.md": rest,
    "reference/settings.md": settings,
    "reference/states.md": states,
    "reference/tables.md": table_page,
    "reference/violations.md": violations,
    "decisions/index.md": decisions,
    **{f"images/{file_of(each)}": partial(drawing, each) for each in TABLES},
}


def main() -> None:
    for name, write in PAGES.items():
        (DOCS / name).write_text(write())


if __name__ == "__main__":
    main()
