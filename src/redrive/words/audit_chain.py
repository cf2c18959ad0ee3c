"""Faults of an audit chain in sentences."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any


def _missing(it: Mapping[str, Any]) -> str:
    if it["first"] == it["last"]:
        return f"Entry {it['first']:,} is missing."
    return f"Entries {it['first']:,} to {it['last']:,} are missing."


CHAIN_FAULTS: Mapping[str, Callable[[Mapping[str, Any]], str]] = MappingProxyType(
    {
        "audit_entries_missing": _missing,
        "audit_entry_changed": lambda it: (
            "Its hash does not match: this entry, or the one before it, was changed after it was written."
        ),
        "audit_entry_moved": lambda it: f"It was written as entry {it['written_as']:,}.",
        "audit_entries_added": lambda it: (
            f"Entries {it['first']:,} to {it['last']:,} come after the head: Redrive did not write them."
        ),
        "audit_end_changed": lambda it: "The last entry does not match the head.",
        "audit_rewritten": lambda it: (
            "The entry does not match the exported head: the chain was rewritten, or the head belongs to "
            "another database."
        ),
        "audit_head_of_other_org": lambda it: (
            f"The head belongs to {it['head_org']!r}, the chain to {it['org']!r}; use the head of this org."
        ),
    }
)
"""The sentence of each fact about a chain."""
