"""Reading recorded attempts on each database: whole runs, page by page, of one organization."""

from __future__ import annotations

from typing import Any

import pytest
from tests.store.build import (
    ask,
    attempt_row,
    claimed,
    completed,
    enqueued,
    holder,
    rescheduled,
    step_row,
    stopped,
)
from tests.store.by_hand import replay

from redrive.model.claim import Claim
from redrive.store import attempt_history
from redrive.store.attempt_history import AttemptHistory, SucceededRow, TriedRow
from redrive.store.database import Database
from redrive.store.record import Record
from redrive.store.runs import DefinitionRow
from redrive.store.statement import statement
from redrive.store.store import Store

INSERT = statement("records", "insert_attempt")


@pytest.fixture
def store(database: Database) -> Store:
    return Store(database)


async def tried(database: Database, org: str = "default", **options: Any) -> list[TriedRow]:
    return [row async for page in AttemptHistory(database, org, **options).tried() for row in page]


async def succeeded(database: Database, org: str = "default", **options: Any) -> list[SucceededRow]:
    return [row async for page in AttemptHistory(database, org, **options).succeeded() for row in page]


async def again(store: Store, claim: Claim) -> Claim:
    """Claim the same run a second time, without waiting."""
    await ask(
        store.database, "UPDATE redrive.runs SET place = 'ready', due_at = NULL WHERE id = :id", id=claim.id
    )
    [found] = await store.leases.claim("default", 10, holder())
    return found


async def test_a_failure_and_the_success_after_it(store: Store, database: Database) -> None:
    claim = await claimed(store)
    decision = '{"code":"backoff","hint":60.0}'
    first = attempt_row(claim, reason="backoff", error_class="retryable", decision=decision)
    assert await store.records.record([Record(rescheduled(claim), first)])
    second = await again(store, claim)
    assert await store.records.record([Record(completed(second))])

    [row] = await tried(database)
    assert row[:4] == (claim.id, 0, 1, "failed")
    assert (row.delay, row.category, row.error_class, row.reason) == (60.0, "timeout", "retryable", "backoff")
    assert (row.decision, row.definition, row.workflow, row.queue) == (decision, "digest", "greet", "default")
    assert (row.success_number, row.edited) == (2, 0)
    assert row.success_started_at is not None
    assert row.success_started_at >= row.ended_at
    [won] = await succeeded(database)
    assert won[:3] == (claim.id, "digest", 0)
    assert won.at is not None
    assert won.at >= row.success_started_at


async def test_the_success_of_a_finished_step(store: Store, database: Database) -> None:
    """In a workflow, the row of the finished step is the record of its success."""
    claim = await claimed(store)
    record = Record(stopped(claim), attempt_row(claim, step_index=1), step=step_row(claim, attempts=3))
    assert await store.records.record([record])

    [row] = await tried(database)
    assert (row.step_index, row.success_number, row.queue) == (1, None, None)
    [won] = await succeeded(database)
    assert (won.step_index, won.at is None) == (0, False)


async def test_an_edited_payload_is_included_and_a_replayed_success_is_not(
    store: Store, database: Database
) -> None:
    claim = await claimed(store)
    assert await store.records.record([Record(stopped(claim), attempt_row(claim, delay=None))])
    await ask(
        database,
        "UPDATE redrive.runs SET state = 'SUCCESS', attempt = 2, replays = 1 WHERE id = :id",
        id=claim.id,
    )
    assert [row.edited for row in await tried(database)] == [0]
    await replay(database, run_id=claim.id, org="default", number=1, edit="[]")
    [row] = await tried(database)
    assert (row.edited, row.success_number, row.delay) == (1, 2, None)
    assert [row.at for row in await succeeded(database)] == [None]


async def test_whole_runs_page_by_page_and_of_one_org_only(
    store: Store, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """W13."""
    monkeypatch.setattr(attempt_history, "PAGE", 2)
    runs: dict[str, list[str]] = {"default": [], "acme": []}
    for number in range(10):
        org = "acme" if number % 2 else "default"
        claim = await claimed(store, org=org)
        runs[org].append(claim.id)
        for attempt in (1, 2, 3):
            row = attempt_row(claim, number=attempt, delay=None if attempt == 3 else 1.0)
            await database.fetch_many(INSERT, [row])
        assert await store.records.record([Record(stopped(claim))])

    for org, ids in runs.items():
        pages = [page async for page in AttemptHistory(database, org).tried()]
        assert [(row.run_id, row.number) for page in pages for row in page] == [
            (each, number) for each in sorted(ids) for number in (1, 2, 3)
        ]
        assert [len({row.run_id for row in page}) for page in pages] == [1] * 5
        assert [row.run_id for row in await succeeded(database, org)] == sorted(ids)
        assert await AttemptHistory(database, org).numbers() == (5, 15)
    assert await tried(database, "stranger") == []


async def test_only_runs_submitted_since_then(store: Store, database: Database) -> None:
    ids = sorted(await enqueued(store, 4))
    for number, run_id in enumerate(ids):
        text = "UPDATE redrive.runs SET submitted_at = :at WHERE id = :id"
        await ask(database, text, at=float(number), id=run_id)

    assert (await AttemptHistory(database, "default", since=2.0).numbers()).runs == 2
    assert [row.run_id for row in await succeeded(database, since=2.0)] == ids[2:]
    assert [row.run_id for row in await succeeded(database, after=ids[2])] == ids[3:]


async def test_the_newest_definitions_of_workflows_the_org_has_run(store: Store, database: Database) -> None:
    await enqueued(store, org="acme")
    old = DefinitionRow("a", "greet", "old")
    await store.runs.enqueue([], [old])
    await ask(
        database,
        "INSERT INTO redrive.definitions (digest, workflow, body, created_at)"
        " VALUES ('b', 'greet', 'new', 9e9), ('c', 'other', 'unused', 9e9)",
    )
    assert await AttemptHistory(database, "acme").definitions() == ["new"]
    assert await AttemptHistory(database, "default").definitions() == []
