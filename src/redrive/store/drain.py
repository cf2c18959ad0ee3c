"""The check that no process of version 0.1 is running before its database is converted."""

from __future__ import annotations

from collections.abc import Iterable

from redrive.errors import SchemaError
from redrive.model.worker import SILENT_SECONDS
from redrive.store.automatic_redrive import SILENT_INTERVALS
from redrive.store.database import Row
from redrive.store.statement import Statement, statements

_SQL = statements("drain")
_MAX_NAMED = 5

ALIVE = {"silent": SILENT_SECONDS, "intervals": SILENT_INTERVALS}
"""The parameters of `live_processes`: how long a process may be silent."""


def live_processes() -> Statement:
    """Return the statement that finds live workers and processors by the database's clock."""
    return _SQL["live"]


def require_drained(live: Iterable[Row]) -> None:
    """Raise SchemaError, which names the live processes, if there are any."""
    names = [_name(*row) for row in live]
    if not names:
        return
    more = [f"{len(names) - _MAX_NAMED} more"] if len(names) > _MAX_NAMED else []
    running = "1 process is" if len(names) == 1 else f"{len(names)} processes are"
    raise SchemaError(
        f"{running} still working on this database of Redrive 0.1: "
        f"{', '.join([*names[:_MAX_NAMED], *more])}. Nothing was changed. Stop all workers and servers of "
        f"0.1 (SIGTERM lets them finish their work), then run `redrive migrate` again. A process that was "
        f"killed counts as running until it has been silent for {SILENT_SECONDS:g} s"
    )


def _name(kind: str, identifier: str, host: str, process: int) -> str:
    return f"{kind} {identifier} (process {process} on {host})" if host else f"{kind} {identifier}"
