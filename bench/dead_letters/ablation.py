"""Omits one part of a dead letter at a time: the difference is the cost of that part."""

from __future__ import annotations

from collections.abc import Sequence

from bench.work.statements import fetch

from redrive import Redrive
from redrive.model.audit import NewEntry
from redrive.model.failure_group import GroupChange, Occurrence
from redrive.parts import parts_of
from redrive.store.audit import AuditStore
from redrive.store.database import Session
from redrive.store.dead_letter_writer import DeadLetterWriter
from redrive.store.groups import Decide, Groups

GROUPS, AUDIT, COUNTS, INDEXES = "groups", "audit", "counts", "indexes"

COMPLETE = "complete"
VARIANTS = {
    COMPLETE: (),
    "without groups": (GROUPS,),
    "without audit": (AUDIT,),
    "without groups and audit": (GROUPS, AUDIT),
    "without counts": (COUNTS,),
    "without indexes for queries": (INDEXES,),
    "without any of these": (GROUPS, AUDIT, COUNTS, INDEXES),
}

_TRIGGERS = ("dead_letters_inserted", "dead_letters_moved", "dead_letters_deleted")
_NEEDED = ("dead_letters_of_run", "dead_letters_pkey", "dead_letters_by_state")


class NoGroups(Groups):
    async def occurred(
        self, session: Session, occurrences: Sequence[Occurrence], decide: Decide
    ) -> list[GroupChange]:
        return []


class NoAudit(AuditStore):
    async def append(self, session: Session, entries: Sequence[NewEntry]) -> None:
        return None


def spare_writes(app: Redrive, spared: Sequence[str]) -> None:
    """Omit writes in the worker process."""
    store, database = parts_of(app).store, parts_of(app).database
    groups = NoGroups(database) if GROUPS in spared else store.groups
    audit = NoAudit(database) if AUDIT in spared else store.audit
    store.letter_writer = store.records.letter_writer = DeadLetterWriter(database, groups, audit)


async def spare_tables(app: Redrive, spared: Sequence[str]) -> None:
    """Omit tables and triggers in the database, before the work starts."""
    if COUNTS in spared:
        for name in _TRIGGERS:
            await fetch(app, f"DROP TRIGGER redrive.{name}", f"DROP TRIGGER {name} ON redrive.dead_letters")
    if INDEXES in spared:
        for name in await _indexes(app):
            await fetch(app, f"DROP INDEX redrive.{name}")


async def _indexes(app: Redrive) -> list[str]:
    rows = await fetch(
        app,
        "SELECT name FROM sqlite_master WHERE type = 'index' AND sql IS NOT NULL"
        " AND tbl_name = 'dead_letters'",
        "SELECT indexname::text FROM pg_indexes WHERE schemaname = 'redrive' AND tablename = 'dead_letters'",
    )
    return [row[0] for row in rows if row[0] not in _NEEDED]
