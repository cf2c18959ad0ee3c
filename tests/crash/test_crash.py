"""No work is lost, duplicated or stuck, whatever happens to processes, servers, disks and clocks."""

from __future__ import annotations

import asyncio
import os
from random import SystemRandom

import pytest
from tests.crash.backlog import look
from tests.crash.campaign import campaign
from tests.crash.environment_faults import Cut
from tests.crash.faults import FAULTS, TOGETHER, sets_of
from tests.crash.points import PLACES
from tests.crash.replays import check_replays
from tests.crash.sink import Line
from tests.crash.site import Site, site
from tests.crash.trap import DRAIN
from tests.crash.wire_protocol import known_texts
from tests.crash.work import ORGS

from redrive.engine.context import Context
from redrive.errors import FinalError
from redrive.parts import parts_of
from redrive.store.statement import statements

SEED = SystemRandom().randrange(1_000_000) if "REDRIVE_TEST_EXPLORE" in os.environ else 1


@pytest.mark.filterwarnings("default:no disk was filled")
@pytest.mark.parametrize(
    ("database", "faults"),
    [
        pytest.param(database, faults, id=f"{database}-{'-'.join(faults)}")
        for database in TOGETHER
        for faults in sets_of(database)
    ],
)
async def test_every_promise_is_kept(database: str, faults: tuple[str, ...]) -> None:
    report = await campaign(database, faults, seed=SEED, seconds=1.5)
    print(report)
    assert report.sound, str(report)


@pytest.mark.parametrize("database", TOGETHER)
async def test_without_fences_the_result_of_a_zombie_counts_and_is_found(database: str) -> None:
    """The control: the same campaign, with workers that fence neither their writes nor themselves."""
    report = await campaign(database, ("stop",), seed=SEED, seconds=2.0, unguarded=True)
    assert any(finding.startswith("I4") for finding in report.findings), str(report)


SPOILT = {
    "UPDATE redrive.replays SET state = 'RUNNING'": "has not ended: it is RUNNING",
    "UPDATE redrive.replay_operations SET state = 'PAUSED'": "has not ended: it is PAUSED",
    "DELETE FROM redrive.replays": "but no replay tells of it",
    "UPDATE redrive.runs SET replays = 2": "was begun again 2 times, but has 1 replays",
    "UPDATE redrive.replay_operations SET released = 7": "says that 7 were begun, but 1 were",
    "DELETE FROM redrive.audit": "the audit of",
}


@pytest.mark.parametrize("tampering", SPOILT)
async def test_damaged_replays_are_found(tampering: str) -> None:
    """The control of the checker: a bulk replay of one letter, first intact and then damaged."""
    async with site("sqlite") as place:
        await _replayed_in_bulk(place)
        assert await check_replays(place) == []
        await look(parts_of(place.app).database, tampering)

        found = await check_replays(place)

    assert any(SPOILT[tampering] in each for each in found), found


async def test_an_effect_that_no_attempt_explains_is_found() -> None:
    async with site("sqlite") as place:
        key = await _replayed_in_bulk(place)
        line = Line(place.sink.path, 0)
        for _ in range(3):
            line.tell("effect", key=key, replay=1)
        line.tell("replayed", id="nobody knows it")
        line.close()
        while not place.sink.count("replayed"):
            await asyncio.sleep(0.01)

        found = await check_replays(place)

    assert [each[:3] for each in found] == ["I1:", "I2:"]


async def _replayed_in_bulk(place: Site) -> str:
    """Replay a letter in bulk, and return the idempotency key of its step."""
    app, org, keys = place.app, ORGS[0], []

    @app.task(max_attempts=1)
    async def broken(context: Context) -> None:
        keys.append(context.idempotency_key)
        if context.attempt == 1:
            raise FinalError("it does not work yet")

    async with app.worker(poll_seconds=0.02):
        run = await app.start(broken, org=org)
        while not (letter := await run.dead_letter()):
            await asyncio.sleep(0.01)
        operations = app.failures(org=org).plans
        plan = await operations.create(ids=[letter.id])
        await operations.start(plan.operation_id)
        while (await operations.view(plan.operation_id)).state != "DONE":
            await asyncio.sleep(0.01)
    return keys[-1]


def test_every_fault_strikes_on_each_database_that_can_have_it() -> None:
    for database in TOGETHER:
        struck = {fault for faults in sets_of(database) for fault in faults}
        assert struck == {name for name, fault in FAULTS.items() if database in fault.databases}


def test_every_point_is_a_statement_or_part_of_the_work() -> None:
    modules = ("runs", "leases", "records", "replays", "bulk_replays", "automatic_redrive")
    known = {name for module in modules for name in statements(module)}
    assert {name for places in PLACES.values() for name in places} <= known | {"effect", DRAIN}


def test_every_commit_after_which_the_connection_is_cut_is_recognized() -> None:
    assert set(Cut.STATEMENTS) <= set(known_texts("redrive").values())
