"""Nothing is lost, done twice or left behind, whatever happens to processes, servers, disks and clocks."""

from __future__ import annotations

import os
from random import SystemRandom

import pytest
from tests.crash.campaign import campaign
from tests.crash.faults import FAULTS, TOGETHER, sets_of
from tests.crash.points import PLACES
from tests.crash.surrounding_faults import Cut
from tests.crash.talk import known_texts
from tests.crash.trap import DRAIN

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
    report = await campaign(database, faults, seed=SEED, seconds=5.0)
    print(report)
    assert report.sound, str(report)


@pytest.mark.parametrize("database", TOGETHER)
async def test_without_fences_the_result_of_a_zombie_counts_and_is_found(database: str) -> None:
    """The control: the same campaign, with workers that fence neither their completions nor themselves."""
    report = await campaign(database, ("stop",), seed=SEED, seconds=4.0, unguarded=True)
    assert any(finding.startswith("I4") for finding in report.findings), str(report)


def test_every_fault_strikes_on_each_database_that_can_have_it() -> None:
    for database in TOGETHER:
        struck = {fault for faults in sets_of(database) for fault in faults}
        assert struck == {name for name, fault in FAULTS.items() if database in fault.databases}


def test_every_point_is_a_statement_or_part_of_the_work() -> None:
    modules = ("runs", "leases", "records", "replays", "operations", "redriving")
    known = {name for module in modules for name in statements(module)}
    assert {name for places in PLACES.values() for name in places} <= known | {"effect", DRAIN}


def test_every_commit_after_which_the_connection_is_cut_is_recognised() -> None:
    assert set(Cut.STATEMENTS) <= set(known_texts("redrive").values())
