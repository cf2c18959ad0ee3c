"""How much processor time work takes: it depends less on who else is at work than its rate, but it does."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress

import psutil
from bench.work.statements import fetch

from redrive import Redrive


class ProcessorTime:
    """Of worker processes, and of the server on their behalf."""

    def __init__(self, app: Redrive, workers: Sequence[int]) -> None:
        self._app = app
        self._workers = workers
        self._before: dict[int, float] = {}

    async def start(self) -> None:
        self._before = await self._spent()

    async def microseconds(self) -> float:
        """Since the start."""
        spent = await self._spent()
        return sum(seconds - self._before.get(pid, 0.0) for pid, seconds in spent.items()) * 1e6

    async def _spent(self) -> dict[int, float]:
        backends = await fetch(
            self._app,
            "SELECT 0 WHERE false",
            "SELECT pid FROM pg_stat_activity WHERE datname = current_database()",
        )
        spent = {}
        for pid in (*self._workers, *(row[0] for row in backends)):
            with suppress(psutil.NoSuchProcess):
                times = psutil.Process(pid).cpu_times()
                spent[pid] = times.user + times.system
        return spent
