"""Generates the page of all codes that `redrive verify` can report."""

from __future__ import annotations

from docs.reference.generate.page import NOTE, code, page, table

from redrive.model.violation import ViolationCode
from redrive.words.violation import PROMISES

INTRODUCTION = (
    "[`redrive verify -o json`](../guides/verifying.md#for-programs) and `redrive.verify.Violation` give "
    "each violation as a promise (`invariant`), a subject, a code and the fields of the code, along with a "
    "text for people. Durations are in seconds. The index of the first step is 0, the number of the first "
    "attempt is 1. Fields with `recorded` in their names are what other rows show."
)


def violations() -> str:
    rows = [
        (found.invariant, code(found), ", ".join(code(field) for field in found.fields))
        for found in ViolationCode
    ]
    return page(
        "# Violations",
        NOTE,
        INTRODUCTION,
        table(("promise", "code", "fields"), rows),
        "## Promises",
        table(("promise", "meaning"), PROMISES.items()),
    )
