"""Statements of the benchmark's own on Redrive's tables, on either database."""

from __future__ import annotations

from typing import Any

from redrive import Redrive
from redrive.parts import parts_of
from redrive.store.statement import SqlQuery, Statement


def statement(text: str, postgresql: str | None = None) -> Statement:
    """One text for both, with tables as `redrive.runs`, or another one for PostgreSQL."""
    return Statement(
        SqlQuery("bench", text.replace("redrive.", ""), ()), SqlQuery("bench", postgresql or text, ())
    )


async def fetch(app: Redrive, text: str, postgresql: str | None = None) -> list[Any]:
    return list(await parts_of(app).database.fetch(statement(text, postgresql), {}))
