"""A worker process: jobs that fail permanently, or the same jobs after a repair."""

from __future__ import annotations

import logging
import sys
from pathlib import Path

from bench.dead_letters.ablation import spare_writes
from bench.work.contenders.of_redrive import Contender
from bench.work.jobs import Jobs, Kind, Payload
from bench.work.shared_counters import SharedCounters


class Mended(Contender):
    """Jobs that have failed before succeed."""

    async def _fail(self, payload: Payload) -> None:
        await self._perform(payload)


def main(url: str, kind: str, counters: str, *spared: str) -> None:
    logging.disable(logging.CRITICAL)
    contender = Contender(url) if kind == Kind.FAIL else Mended(url)
    spare_writes(contender.app, spared)
    shared = SharedCounters(Path(counters))
    shared.wait(0)
    contender.work(Jobs(Kind(kind), shared, 0))


if __name__ == "__main__":
    main(*sys.argv[1:])
