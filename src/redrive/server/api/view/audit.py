"""The audit, as answers have it."""

from __future__ import annotations

from typing import Any

from redrive.failures.audit import AuditEntry, AuditVerdict
from redrive.model.audit import Head
from redrive.server.answer import when


def entry_view(entry: AuditEntry) -> dict[str, Any]:
    return {**entry._asdict(), "at": when(entry.at)}


def head_view(head: Head) -> dict[str, Any]:
    return {**head._asdict(), "text": str(head)}


def chain_view(verdict: AuditVerdict) -> dict[str, Any]:
    return {
        "sound": verdict.sound,
        "checked": verdict.checked,
        "found": verdict.found,
        "faults": [each._asdict() for each in verdict.faults],
        "head": head_view(verdict.head),
    }
