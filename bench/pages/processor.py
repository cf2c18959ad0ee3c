"""Processor time of a server and of its database: on a busy machine, it says more than elapsed time."""

from __future__ import annotations

from contextlib import suppress

import psutil
import psycopg

_BACKENDS = "SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"


class Processor:
    """`process` is the server; SQLite is part of it."""

    def __init__(self, process: int, url: str) -> None:
        self._process = process
        self._url = url
        self._before = self._spent()

    def milliseconds(self) -> float:
        """Return the milliseconds since the last call."""
        before, self._before = self._before, self._spent()
        return sum(spent - before.get(pid, 0.0) for pid, spent in self._before.items()) * 1e3

    def _spent(self) -> dict[int, float]:
        spent = {}
        for pid in (self._process, *self._backends()):
            with suppress(psutil.NoSuchProcess):
                times = psutil.Process(pid).cpu_times()
                spent[pid] = times.user + times.system
        return spent

    def _backends(self) -> list[int]:
        if not self._url.startswith("postgresql:"):
            return []
        with psycopg.connect(self._url) as connection:
            return [row[0] for row in connection.execute(_BACKENDS)]
