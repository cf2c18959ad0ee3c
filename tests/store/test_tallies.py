"""Counts over time: triggers maintain those of dead letters, workers report those of runs."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Any

import pytest
from tests.store.build import ORG, ask, claimed, new_run, value
from tests.store.letters import letter, put
from tests.store.test_dead_letter_counters import bury

from redrive.model.run import Cancellation
from redrive.store.database import Database
from redrive.store.external_failures import ExternalFailures
from redrive.store.store import Store
from redrive.store.tallies import KEPT_SECONDS, Live, TallyPart

THEN = 1_700_000_100.0
"""A span of 300 seconds starts here; the hour started 800 s earlier."""
HOUR = 1_699_999_200
CHANGE = "UPDATE redrive.dead_letters SET {}, updated_at = :at WHERE id = :id"


@pytest.fixture
def store(database: Database) -> Store:
    return Store(database)


async def change(database: Database, letter_id: str, what: str, at: float = THEN) -> None:
    await ask(database, CHANGE.format(what), id=letter_id, at=at)


async def put_at(database: Database, at: float, **changes: Any) -> str:
    [identifier] = await put(database, [letter(created_at=at, updated_at=at, **changes)])
    return identifier


async def flow(
    store: Store, org: str = ORG, start: int = int(THEN), width: int = 300
) -> Counter[tuple[Any, ...]]:
    """Return the counts by figure and part."""
    found: Counter[tuple[Any, ...]] = Counter()
    for part in await store.tallies.flow(org, start, width):
        found[part.figure, part.place] += part.number
    return found


async def test_a_letter_is_in_the_part_of_its_time(store: Store, database: Database) -> None:
    for at in (THEN - 0.5, THEN, THEN + 299.9, THEN + 300, THEN + 1000):
        await put_at(database, at)
    await put_at(database, THEN, org="acme")

    assert await flow(store) == {("came", 0): 2, ("came", 1): 1, ("came", 3): 1}
    assert await flow(store, width=600) == {("came", 0): 3, ("came", 1): 1}
    assert await flow(store, "acme") == {("came", 0): 1}
    assert await flow(store, "nobody") == {}


async def test_closing_and_reopening_is_seen(store: Store, database: Database) -> None:
    first, second = await put_at(database, THEN), await put_at(database, THEN)
    await change(database, first, "state = 'RESOLVED'", THEN + 300)
    await change(database, second, "state = 'IGNORED'", THEN + 300)
    await change(database, second, "state = 'ARCHIVED'", THEN + 600)
    await change(database, first, "state = 'OPEN'", THEN + 900)
    await change(database, first, "assignee = 'ana'", THEN + 1200)

    assert await flow(store) == {("came", 0): 2, ("left", 1): 2, ("came", 3): 1}
    assert await store.tallies.live(ORG) == Live(open=1)


@pytest.mark.parametrize(
    ("outcome", "figures"),
    [
        ("state = 'RESOLVED', resolution = 'replayed'", {"replayed": 1, "left": 1}),
        ("state = 'RESOLVED', resolution = 'superseded: …'", {"replay_failed": 1, "left": 1}),
        ("state = 'OPEN'", {"replay_failed": 1}),
        ("state = 'EXHAUSTED'", {"replay_failed": 1}),
        ("state = 'IGNORED', resolution = 'the run was cancelled'", {"left": 1}),
    ],
)
async def test_outcomes_of_replays_are_seen(
    store: Store, database: Database, outcome: str, figures: dict[str, int]
) -> None:
    replayed = await put_at(database, THEN)
    await change(database, replayed, "state = 'REPLAYING'")
    await change(database, replayed, outcome, THEN + 300)

    assert await flow(store) == {("came", 0): 1, **{(name, 1): number for name, number in figures.items()}}


async def test_each_live_letter_is_counted_in_one_place(store: Store, database: Database) -> None:
    plain, due, late = [await put_at(database, THEN, next_redrive_at=at) for at in (None, THEN, THEN)]
    assert await store.tallies.live(ORG) == Live(open=1, scheduled=2)
    await change(database, due, "state = 'REPLAYING', next_redrive_at = NULL")
    await change(database, late, "state = 'EXHAUSTED'")
    await change(database, plain, "next_redrive_at = 7")
    assert await store.tallies.live(ORG) == Live(scheduled=1, replaying=1, exhausted=1)
    await change(database, plain, "org = 'acme'")
    await change(database, due, "state = 'RESOLVED'")
    await ask(database, "DELETE FROM redrive.dead_letters WHERE id IN (:a, :b)", a=due, b=late)
    assert await store.tallies.live(ORG) == Live()
    assert await store.tallies.live("acme") == Live(scheduled=1)


async def test_failures_are_counted_by_hour_in_one_query(store: Store, database: Database) -> None:
    for at in (HOUR - 1.0, float(HOUR), THEN, HOUR + 3600.0):
        await put_at(database, at, fingerprint="f")
    await put_at(database, THEN, fingerprint="g")
    await put_at(database, THEN, fingerprint="f", org="acme")

    found = await store.tallies.occurred(ORG, ["f", "g", "h", "f"], HOUR, 3600)

    sums: Counter[tuple[str, int]] = Counter()
    for fingerprint, place, number in found:
        sums[fingerprint, place] += number
    assert sums == {("f", 0): 2, ("f", 1): 1, ("g", 0): 1}
    assert await store.tallies.occurred(ORG, [], HOUR, 3600) == []


async def test_a_burial_is_counted_now_and_a_failed_replay_is_no_new_letter(
    store: Store, database: Database
) -> None:
    now = await value(database, "SELECT :now")
    start = int(now // 3600) * 3600 - 3600
    await bury(store, 3, "a")
    [[run_id]] = await ask(database, "SELECT run_id FROM redrive.dead_letters LIMIT 1")
    await ask(database, "UPDATE redrive.dead_letters SET state = 'REPLAYING' WHERE run_id = :id", id=run_id)
    text = "UPDATE redrive.dead_letters SET state = 'OPEN', updated_at = :now WHERE run_id = :id"
    await ask(database, text, id=run_id)

    parts = await store.tallies.flow(ORG, start, 14_400)
    assert sorted((part.figure, part.number) for part in summed(parts)) == [("came", 3), ("replay_failed", 1)]
    assert sum(number for _, _, number in await store.tallies.occurred(ORG, ["a"], start, 14_400)) == 3


def summed(parts: list[TallyPart]) -> list[TallyPart]:
    sums: Counter[tuple[str, str]] = Counter()
    for part in parts:
        sums[part.figure, part.subject] += part.number
    return [TallyPart(figure, subject, 0, number) for (figure, subject), number in sums.items()]


async def test_runs_that_have_ended_add_up(store: Store, database: Database) -> None:
    now = await value(database, "SELECT :now")
    start = int(now // 300) * 300 - 300
    await store.tallies.count_ended({})
    await store.tallies.count_ended({(ORG, "SUCCESS"): 5, (ORG, "FAILED"): 1, ("acme", "SUCCESS"): 7})
    await store.tallies.count_ended({(ORG, "SUCCESS"): 2})

    assert sorted(summed(await store.tallies.flow(ORG, start, 7200))) == [
        TallyPart("ended", "FAILED", 0, 1),
        TallyPart("ended", "SUCCESS", 0, 7),
    ]


async def test_a_cancelled_run_is_counted_where_it_is_cancelled(store: Store, database: Database) -> None:
    now = await value(database, "SELECT :now")
    executed, run = await claimed(store), new_run()
    await store.runs.enqueue([run], [])
    assert (await store.runs.cancel(run.id, ORG)).answer is Cancellation.CANCELLED
    assert (await store.runs.cancel(run.id, ORG)).answer is Cancellation.ENDED
    # Its worker will report this.
    assert (await store.runs.cancel(executed.id, ORG)).answer is Cancellation.REQUESTED

    parts = await store.tallies.flow(ORG, int(now // 300) * 300 - 300, 7200)
    assert summed(parts) == [TallyPart("ended", "CANCELLED", 0, 1)]


async def test_a_cleared_queue_has_been_left(store: Store, database: Database) -> None:
    now = await value(database, "SELECT :now")
    for state, queue in (("OPEN", "dlq:a"), ("EXHAUSTED", "dlq:a"), ("RESOLVED", "dlq:a"), ("OPEN", "dlq:b")):
        await put_at(database, THEN, state=state, queue=queue)
    async with database.transaction() as session:
        assert await ExternalFailures(database, store.limits).clear(session, ORG, "dlq:a", 10) == 3
    async with database.transaction() as session:
        assert await ExternalFailures(database, store.limits).clear(session, ORG, "dlq:a", 10) == 0

    parts = await store.tallies.flow(ORG, int(now // 300) * 300 - 300, 7200)
    assert summed(parts) == [TallyPart("left", "", 0, 2)]
    assert await store.tallies.live(ORG) == Live(open=1)


async def test_summing_up_while_others_write_loses_nothing(store: Store, database: Database) -> None:
    async def tidy() -> None:
        for _ in range(10):
            await store.tallies.sum_up()

    now = await value(database, "SELECT :now")
    letters = [[letter(created_at=now, updated_at=now) for _ in range(3)] for _ in range(6)]
    counting = [store.tallies.count_ended({(ORG, "FAILED"): 1}) for _ in range(10)]
    await asyncio.gather(*(put(database, batch) for batch in letters), *counting, tidy(), tidy())
    await store.tallies.sum_up()

    parts = summed(await store.tallies.flow(ORG, int(now // 300) * 300 - 300, 7200))
    assert sorted(parts) == [TallyPart("came", "", 0, 18), TallyPart("ended", "FAILED", 0, 10)]
    assert await store.tallies.live(ORG) == Live(open=18)
    keys = "SELECT org, figure, subject, bucket FROM redrive.tallies"
    rows = await ask(database, keys)
    assert len(rows) == len(set(rows))


async def test_counts_of_zero_are_deleted(store: Store, database: Database) -> None:
    identifier = await put_at(database, THEN)
    await ask(database, "DELETE FROM redrive.dead_letters WHERE id = :id", id=identifier)
    await store.tallies.sum_up()
    assert await ask(database, "SELECT 1 FROM redrive.tallies WHERE bucket = 0") == []


async def test_old_parts_are_removed_a_few_at_a_time(store: Store, database: Database) -> None:
    now = await value(database, "SELECT :now")
    for age in (0.0, KEPT_SECONDS - 4000, KEPT_SECONDS + 4000, KEPT_SECONDS * 2, KEPT_SECONDS * 3):
        await put_at(database, now - age)

    assert [await store.tallies.remove_expired(4) for _ in range(3)] == [4, 2, 0]

    rows = await ask(database, "SELECT figure FROM redrive.tallies ORDER BY figure, bucket")
    assert [row[0] for row in rows if row[0] != "standing"] == ["came", "came", "occurred", "occurred"]
    assert await store.tallies.live(ORG) == Live(open=5)
