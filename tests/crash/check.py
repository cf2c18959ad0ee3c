"""The checker over the history of a campaign, with observations that only its processes have."""

from __future__ import annotations

import json
from collections.abc import Sequence

from tests.crash.backlog import look
from tests.crash.process_group import ProcessGroup
from tests.crash.replays import check_replays
from tests.crash.site import Site

from redrive.parts import parts_of
from redrive.verify import Witness, verify

MUST_BE_CHECKED = ("I1", "I2", "I3", "I4", "I5", "I6", "I7", "I10", "I16")
LAST_WORDS = 3000
SLOWEST_LEAP = 1.0
"""A clock that is set back makes a wait look shorter by this much; see Skew."""


def witness_of(site: Site) -> Witness:
    """Return the requested starts, and the first effect that an idempotent receiver accepted per key."""
    sink = site.sink
    asked = {name: run_id for note in sink.of("asked") for name, run_id in note["runs"].items()}
    return Witness(
        acknowledged={run_id for note in sink.of("acknowledged") for run_id in note["ids"]},
        refused={asked[note["name"]] for note in sink.of("refused")},
        effects=dict.fromkeys(sink.effects, 1),
    )


async def check(
    site: Site, group: ProcessGroup, exit_codes: Sequence[int | None], time: tuple[float, float]
) -> list[str]:
    """Return the broken promises."""
    return [
        *await _verified(site, group),
        *await _strangers(site),
        *await zombies(site),
        *await _times(site, time),
        *await check_replays(site),
        *_died(site, group),
        *(f"a drained worker ended with {code}" for code in exit_codes if code != 0),
    ]


async def _verified(site: Site, group: ProcessGroup) -> list[str]:
    tolerance = SLOWEST_LEAP if site.database == "sqlite" and group.errors != [0.0] else 0.05
    verdict = await verify(
        parts_of(site.app).database, witness=witness_of(site), settled=True, most=10, tolerance=tolerance
    )
    unproven = [f"{each}: nothing was checked" for each in MUST_BE_CHECKED if not verdict.checked[each]]
    return [f"{each.invariant}: {each.subject}: {each.text}" for each in verdict.findings] + unproven


def _died(site: Site, group: ProcessGroup) -> list[str]:
    if not group.died_by_itself:
        return []
    return [*group.died_by_itself, f"the last words:\n{(site.folder / 'log').read_text()[-LAST_WORDS:]}"]


async def _strangers(site: Site) -> list[str]:
    asked = {run_id for note in site.sink.of("asked") for run_id in note["runs"].values()}
    rows = await look(parts_of(site.app).database, "SELECT id FROM redrive.runs")
    accepted = [f"I1: {note['name']} should have been refused" for note in site.sink.of("not refused")]
    return accepted + [f"I1: nobody has asked for run {run_id}" for [run_id] in rows if run_id not in asked]


async def zombies(site: Site) -> list[str]:
    """Check that each stored result is that of the last holder of the lease."""
    rows = await look(
        parts_of(site.app).database, "SELECT id, epoch, result FROM redrive.runs WHERE state = 'SUCCESS'"
    )
    return [
        f"I4: run {run_id} was held under fence {epoch}, and has the result of fence {fence}"
        for run_id, epoch, result in rows
        if (fence := json.loads(result)["fence"]) != epoch
    ]


async def _times(site: Site, time: tuple[float, float]) -> list[str]:
    """Check the times by the database's clock, however wrong those of the workers are."""
    if site.database == "sqlite":
        return []
    rows = await look(
        parts_of(site.app).database, "SELECT id, submitted_at, started_at, ended_at FROM redrive.runs"
    )
    return [
        f"run {run_id} has a time of another clock: {times}"
        for run_id, *times in rows
        if not all(time[0] - 1.0 <= each <= time[1] + 1.0 for each in times if each is not None)
    ]
