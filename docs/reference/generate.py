"""Writes the reference pages that follow from the code (`make docs`); a test finds them out of date."""

from __future__ import annotations

from pathlib import Path

from redrive.model.breaker import BREAKER_TRANSITIONS
from redrive.model.dead_letter import DEAD_LETTER_TRANSITIONS
from redrive.model.run import RUN_TRANSITIONS
from redrive.model.step import STEP_TRANSITIONS
from redrive.policy import PRESETS

HERE = Path(__file__).parent
NOTE = "<!-- Written by generate.py; change the code, then run make docs. -->"


def states() -> str:
    parts = ["# States", NOTE, "What is not drawn here cannot happen."]
    for table in (RUN_TRANSITIONS, STEP_TRANSITIONS, DEAD_LETTER_TRANSITIONS, BREAKER_TRANSITIONS):
        rows = [f"| `{each.before}` | `{each.after}` | {each.cause} |" for each in table.transitions]
        parts += [
            f"## {table.noun.capitalize()}",
            f"```mermaid\n{table.mermaid()}\n```",
            "\n".join(["| from | to | when |", "| --- | --- | --- |", *rows]),
        ]
    return "\n\n".join(parts) + "\n"


def policies() -> str:
    parts = [
        "# Policies",
        NOTE,
        "The named policies of `redrive.policy`, as `print(policy.explain())` shows them.",
    ]
    for policy in PRESETS.values():
        parts += [f"## {policy.name.capitalize()}", f"```text\n{policy.explain()}\n```"]
    return "\n\n".join(parts) + "\n"


PAGES = {"states.md": states, "policies.md": policies}


def main() -> None:
    for name, write in PAGES.items():
        (HERE / name).write_text(write())


if __name__ == "__main__":
    main()
