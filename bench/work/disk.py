"""How many bytes a finished run of Redrive takes on disk, with its share of the indexes."""

from __future__ import annotations

from bench.work import drain
from bench.work.contender import Entry
from bench.work.contenders.of_redrive import Contender
from bench.work.jobs import Kind, Payload
from bench.work.statements import fetch
from bench.work.workers import workers

from redrive import Redrive

RUNS = 10_000
ROUNDS = 4
_TEXT = "x" * 141
_SIZE_ON_SQLITE = "SELECT page_count * page_size FROM pragma_page_count(), pragma_page_size()"
_SIZE_ON_POSTGRESQL = "SELECT pg_database_size(current_database())"


async def bytes_per_run(entry: Entry, url: str) -> float:
    """Return the growth after the first round, which fills empty tables and the space for updates."""
    contender = Contender(url)
    sizes = []
    async with contender.app as app:
        for _ in range(ROUNDS):
            await contender.enqueue_many(Kind.NOTHING, [_payload(number) for number in range(RUNS)])
            with workers(entry, url, Kind.NOTHING, 1) as group:
                await drain.measured(contender, group, Kind.NOTHING, RUNS)
            for _ in range(
                2
            ):  # after the second round, space that the first one freed in an index is usable again
                await fetch(app, "SELECT 1", "VACUUM")
            sizes.append(await _size(app))
    return (sizes[-1] - sizes[0]) / (RUNS * (ROUNDS - 1))


async def _size(app: Redrive) -> int:
    return int((await fetch(app, _SIZE_ON_SQLITE, _SIZE_ON_POSTGRESQL))[0][0])


def _payload(number: int) -> Payload:
    """Return 170 bytes of JSON."""
    return {"number": number, "text": _TEXT}
