"""Generates the page of all codes that the doctor can report."""

from __future__ import annotations

from docs.reference.generate.page import NOTE, code, page, table

from redrive.model.finding import FindingCode

INTRODUCTION = (
    "[`redrive doctor -o json`](../guides/doctor.md#for-programs) and `redrive.doctor.Finding` give each "
    "finding as a check, a code, a state and the fields of the code, along with the texts for people. "
    "Durations are in seconds and sizes in bytes. Numbers of runs, steps and dead letters stop at 10,000."
)


def findings() -> str:
    rows = [
        (found.check or "any", code(found), ", ".join(code(field) for field in found.fields))
        for found in FindingCode
    ]
    return page("# Findings", NOTE, INTRODUCTION, table(("check", "code", "fields"), rows))
