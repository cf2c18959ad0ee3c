"""Processor time of the work: it depends less on other programs than the rate does, but still somewhat."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress

import psutil
from bench.work.statements import fetch

from redrive import Redrive


class ProcessorTime:
    """The processor time of worker processes, and of the server on their behalf."""

    def __init__(self, app: Redrive, workers: Sequence[int]) -> None:
        self._app = app
        self._workers = workers
        self._before: dict[int, float] = {}

    async def start(self) -> None:
        self._before = await self._spent()

    async def microseconds(self) -> float:
        """Return the microseconds since the start."""
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
