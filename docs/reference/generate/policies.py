"""Generates the page of the named policies."""

from __future__ import annotations

from docs.reference.generate.page import NOTE, page

from redrive.policy import PRESETS


def policies() -> str:
    parts = [
        "# Policies",
        NOTE,
        "The named policies in `redrive.policy`, as printed by `print(policy.explain())`.",
    ]
    for policy in PRESETS.values():
        parts += [f"## {policy.name.capitalize()}", f"```text\n{policy.explain()}\n```"]
    return page(*parts)
