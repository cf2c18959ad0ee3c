"""Redrive's statements, for the bare server, which sends the same ones."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from bench.http.case import QUERY, WORK

from redrive.model.dead_letter import DeadLetter, DeadLetterLine
from redrive.model.run import NewRun
from redrive.policy.query import parse
from redrive.store.dead_letters import DeadLetterStore
from redrive.store.statement import Statement, statement

ORG = "default"
PAGE = 50
ENQUEUE = statement("runs", "enqueue")
LETTER = statement("dead_letters", "get")
LINE_FIELDS, LETTER_FIELDS = DeadLetterLine.__struct_fields__, DeadLetter.__struct_fields__


class Asked(NamedTuple):
    statement: Statement
    parameters: Mapping[str, Any]


class _Listening:
    """Replaces the database, and records the statements."""

    asked: Asked

    async def fetch(self, statement: Statement, parameters: Mapping[str, Any]) -> list[Any]:
        self.asked = Asked(statement, parameters)
        return []


async def pages() -> dict[str, Asked]:
    """Return the statement for the first page of each query."""
    return {query: await _page(query) for query in ("", QUERY)}


async def _page(query: str) -> Asked:
    database: Any = _Listening()
    await DeadLetterStore(database).page(parse(query), ORG, PAGE)
    asked: Asked = database.asked
    return asked


def new_run(identifier: str, payload: str) -> NewRun:
    return NewRun(
        id=identifier,
        org=ORG,
        workflow=WORK,
        definition="none",
        queue="default",
        priority=0,
        delay=0.0,
        at=None,
        input=payload,
        idempotency_key=None,
        request_hash=None,
        correlation_id=identifier,
        tags=None,
        metadata=None,
    )
