"""A campaign: load and faults for a while, then reliable workers until all work ends, then the checker."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Sequence
from random import Random

from tests.crash.backlog import unfinished
from tests.crash.check import check, zombies
from tests.crash.fault import Fault
from tests.crash.faults import FAULTS
from tests.crash.figures import Figures, figures_of
from tests.crash.process_faults import AtPoint, Kill
from tests.crash.process_group import ProcessGroup
from tests.crash.report import Report
from tests.crash.site import Site, site
from tests.crash.work import ORGS

from redrive.model.caller import SELF
from redrive.model.replay import OperationState
from redrive.parts import parts_of

PATIENCE = 120.0
"""Seconds after which a campaign gives up: a fault never takes effect, or work is stuck."""

WORKERS, ENQUEUERS, REPLAYERS = 3, 1, 1
MAX_ROUNDS = 15


async def campaign(
    database: str,
    faults: Sequence[str],
    *,
    seed: int,
    seconds: float,
    lease: float = 1.0,
    unguarded: bool = False,
) -> Report:
    """Run a campaign for at least this many seconds, and until every fault has taken effect.

    `unguarded` is the control: it continues until the result of a zombie has counted.
    """
    async with site(database, small="disk" in faults) as place:
        group = ProcessGroup(place, Random(f"{seed} crew"), lease=lease, unguarded=unguarded)
        chosen = [FAULTS[name](place, group, Random(f"{seed} {name}"), lease) for name in faults]
        try:
            outcome = await _fought(place, group, chosen, seconds, lease, until_zombie=unguarded)
        except BaseException:
            print((place.folder / "log").read_text()[-5000:])
            raise
        return Report(database, tuple(faults), seed, *outcome)


async def _fought(
    place: Site,
    group: ProcessGroup,
    faults: Sequence[Fault],
    seconds: float,
    lease: float,
    *,
    until_zombie: bool,
) -> tuple[dict[str, int], list[str], Figures]:
    began = time.time()
    for fault in faults:
        fault.prepare()
    group.employ(workers=WORKERS, enqueuers=ENQUEUERS, replayers=REPLAYERS)
    try:
        for _ in range(MAX_ROUNDS):
            await _strike(place, faults, seconds)
            if not until_zombie or await zombies(place):
                break
    finally:
        await group.dismiss()
    struck = time.time()
    exit_codes = await _settle(place, group)
    findings = await check(place, group, exit_codes, (began, time.time()))
    only_kills = all(isinstance(fault, Kill | AtPoint) for fault in faults)
    figures = await figures_of(place, group, struck - began, lease, only_kills=only_kills)
    taken_over = {"killed in flight": figures.in_flight, "taken over": figures.lost}
    return {**_bites(place, faults), **taken_over}, findings, figures


async def _strike(place: Site, faults: Sequence[Fault], seconds: float) -> None:
    tasks = [asyncio.create_task(fault.run()) for fault in faults]
    end = time.monotonic() + seconds
    try:
        while time.monotonic() < end or not all(_bites(place, faults).values()):
            done, _ = await asyncio.wait(tasks, timeout=0.1, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                task.result()
            if time.monotonic() > end + PATIENCE:
                return  # the report names the faults that never took effect
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for fault in faults:
            await fault.stop()


def _bites(place: Site, faults: Sequence[Fault]) -> dict[str, int]:
    occurrences = {name: count for fault in faults for name, count in fault.occurrences().items()}
    return {**occurrences, **_load(place)}


def _load(place: Site) -> dict[str, int]:
    """Return counts of events that must happen with any faults."""
    requested = Counter(note["by"] for note in place.sink.of("replay.requested"))
    return {
        "refused": place.sink.count("refused"),
        "single replays": place.sink.count("replayed"),
        "bulk replays": place.sink.count("started"),
        "redrives": requested[SELF],
    }


async def _take_up(place: Site) -> None:
    """Resume the bulk replays that a dead replayer has left in progress, and cancel planned ones."""
    for org in ORGS:
        operations = place.app.failures(org=org).plans
        cursor: str | None = None
        while True:
            page = await operations.list(size=500, cursor=cursor)
            for each in page.operations:
                if each.state == OperationState.PAUSED:
                    await operations.resume(each.id)
                elif each.state == OperationState.PLANNED:
                    await operations.cancel(each.id)
            cursor = page.next_cursor
            if cursor is None:
                break


async def _settle(place: Site, group: ProcessGroup) -> list[int | None]:
    """Run reliable workers until all work has ended, then stop them. The checker finds stuck work."""
    await _take_up(place)
    group.employ(workers=WORKERS)
    deadline = time.monotonic() + PATIENCE
    while await unfinished(parts_of(place.app).database) and time.monotonic() < deadline:
        await asyncio.sleep(0.05)
    return await group.retire()
