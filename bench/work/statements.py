"""The benchmark's own statements on Redrive's tables, on either database."""

from __future__ import annotations

import re
from typing import Any

from redrive import Redrive
from redrive.parts import parts_of
from redrive.store.statement import SqlQuery, Statement

_RUN_ID = re.compile(r"\{run_id: ([^}]+)\}")


def statement(text: str, postgresql: str | None = None) -> Statement:
    """Build a statement from one text, with tables as `redrive.runs`, or another text for PostgreSQL.

    `{run_id: …}` converts a text of 32 digits to the id of a run, which is a `uuid` on PostgreSQL.
    """
    on_sqlite = _RUN_ID.sub(r"\1", text).replace("redrive.", "")
    on_postgresql = _RUN_ID.sub(r"CAST(\1 AS uuid)", postgresql or text)
    return Statement(SqlQuery("bench", on_sqlite, ()), SqlQuery("bench", on_postgresql, ()))


async def fetch(app: Redrive, text: str, postgresql: str | None = None) -> list[Any]:
    return list(await parts_of(app).database.fetch(statement(text, postgresql), {}))
