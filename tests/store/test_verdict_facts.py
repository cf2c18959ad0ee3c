"""What happened since a step failed: never overstated, and never of another organization (W13)."""

from __future__ import annotations

from typing import Any

import pytest
from tests.store.build import ask, claimed, completed
from tests.store.by_hand import letters, replay
from tests.store.test_groups import occur, occurrence

from redrive.errors import NotFoundError
from redrive.store.database import Database
from redrive.store.record import Record
from redrive.store.store import Store
from redrive.store.verdict_facts import FactFinder, FailedLetter


@pytest.fixture
def finder(database: Database) -> FactFinder:
    return FactFinder(database, "acme")


async def one_letter(database: Database, age: float = 1_000.0, **changes: Any) -> FailedLetter:
    [letter_id] = await letters(database, age=age, **changes)
    return await FactFinder(database, changes.get("org", "acme")).letter(letter_id)


async def succeeded(database: Database, **changes: Any) -> None:
    """Create a run that has just succeeded."""
    store = Store(database)
    claim = await claimed(store, **{"org": "acme", "workflow": "checkout", **changes})
    assert await store.records.record([Record(completed(claim))])


async def test_a_letter_is_read_with_its_facts_and_the_time(database: Database) -> None:
    changes: dict[str, Any] = {
        "effect": "unsafe",
        "may_have_executed": 0,
        "breaker": "bank",
        "code_version": "v7",
    }
    redrives: dict[str, Any] = {
        "redrives": 1,
        "max_redrives": 3,
        "next_redrive_at": 7.0,
        "last_failed_at": 5.0,
    }
    letter = await one_letter(database, **changes, **redrives)
    assert {name: getattr(letter, name) for name in (*changes, *redrives)} == {**changes, **redrives}
    assert (letter.workflow, letter.step, letter.attempts, letter.queue) == (
        "checkout",
        "charge",
        4,
        "default",
    )
    assert letter.now - letter.created_at >= 1_000.0


async def test_a_letter_of_another_org_does_not_exist(database: Database, finder: FactFinder) -> None:
    letter = await one_letter(database, org="other")
    with pytest.raises(NotFoundError, match="found no dead letter"):
        await finder.letter(letter.id)


async def test_runs_that_were_started_and_succeeded_since_are_counted_by_version(
    database: Database, finder: FactFinder
) -> None:
    for _ in range(2):
        await succeeded(database)
    await succeeded(database, org="other")
    await succeeded(database, workflow="another")
    assert await finder.successes("checkout", 1.0) == {"v1": 2}
    assert await finder.successes("checkout", 1e12) == {}
    await ask(database, "UPDATE redrive.runs SET started_at = 0.5")
    assert await finder.successes("checkout", 1.0) == {}


async def test_a_cancelled_run_is_no_success(database: Database, finder: FactFinder) -> None:
    await succeeded(database)
    await ask(database, "UPDATE redrive.runs SET state = 'CANCELLED'")
    assert await finder.successes("checkout", 1.0) == {}


async def test_the_same_failure_is_counted_elsewhere_since(database: Database, finder: FactFinder) -> None:
    letter = await one_letter(database)
    await letters(database, 3, age=500.0)
    await letters(database, 1, age=5_000.0)
    await letters(database, 1, org="other")
    await letters(database, 1, fingerprint="f2")
    assert await finder.occurrences(letter, letter.created_at) == 3
    assert await finder.occurrences(letter, 1.0) == 4


async def test_versions_that_fail_in_the_same_way_since_are_named(
    database: Database, finder: FactFinder
) -> None:
    letter = await one_letter(database)
    await occur(database, occurrence(code_version="v1"), occurrence(code_version="v2"))
    await occur(database, occurrence(code_version="v3", org="other"))
    await ask(database, "UPDATE redrive.failure_group_versions SET last_seen = 1.0 WHERE code_version = 'v1'")
    assert await finder.failing(letter, 1.0) == {"v2"}
    assert await finder.failing(letter, 0.5) == {"v1", "v2"}


async def test_replays_are_counted_apart_for_the_letter_and_for_others(
    database: Database, finder: FactFinder
) -> None:
    letter = await one_letter(database)
    [[run_id]] = await ask(database, "SELECT run_id FROM redrive.dead_letters")
    own = {"letter_id": letter.id, "run_id": run_id, "fingerprint": "an earlier one"}
    await replay(database, **own, state="FAILED", ended_at=5.0)
    await replay(database, **own, state="FAILED", ended_at=7.0)
    await replay(database, **own, state="RUNNING")
    await replay(database, state="SUCCEEDED", ended_at=6.0)
    await replay(database, state="FAILED", ended_at=8.0)
    await replay(database, state="CANCELLED")
    await replay(database, state="FAILED", fingerprint="f2")
    await replay(database, state="FAILED", org="other")
    assert sorted(await finder.replays(letter)) == [
        (False, "FAILED", 1, 8.0),
        (False, "SUCCEEDED", 1, 6.0),
        (True, "FAILED", 2, 7.0),
    ]


async def test_a_letter_waits_for_unresolved_letters(database: Database, finder: FactFinder) -> None:
    """M12"""
    letter = await one_letter(database)
    [open_one] = await letters(database)
    [archived] = await letters(database, state="ARCHIVED")
    [resolved] = await letters(database, state="RESOLVED")
    link = (
        "INSERT INTO redrive.dead_letter_dependencies (letter_id, depends_on, org) VALUES (:id, :other, :org)"
    )
    for other in (open_one, archived, resolved, "removed"):
        await ask(database, link, id=letter.id, other=other, org="acme")
    [foreign] = await letters(database, org="other")
    await ask(database, link, id=letter.id, other=foreign, org="acme")
    assert await finder.waits_for(letter) == {open_one: "OPEN", archived: "ARCHIVED"}
