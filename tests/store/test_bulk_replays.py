"""Bulk replays in the store: the frozen plan, obstacles, and that no item starts twice."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from tests.store.build import ORG, ask, column, value
from tests.store.letters import alter, column_of, letter, put, put_failed

from redrive.errors import NotFoundError
from redrive.model.fact import fact
from redrive.model.operation import ReplayOperation
from redrive.model.replay import ReplayState
from redrive.policy.query import parse
from redrive.policy.rollout import Score
from redrive.store.bulk_replays import ItemTally, NewOperation, item_id
from redrive.store.database import Database
from redrive.store.dead_letter_filter import Filter
from redrive.store.postgres import PostgresDatabase
from redrive.store.store import Store
from redrive.words.fact import text_of

RUN_ID = "1" * 32
DEFINITION = '{"steps":[{"name":"first"},{"name":"second"}],"workflow":"greet"}'


@pytest.fixture
def store(database: Database) -> Store:
    return Store(database)


def new_operation(identifier: str = "operation", **changes: Any) -> NewOperation:
    new = NewOperation(
        id=identifier,
        org=ORG,
        mode="FROM_STEP",
        selection="{}",
        options="{}",
        policy_override=None,
        reason="fixed",
        plan="{}",
        planned_by="ana",
    )
    return new._replace(**changes)


async def frozen(store: Store, ids: list[str] | None = None, query: str = "", **changes: Any) -> str:
    """Freeze a plan of these dead letters, or of a query."""
    new = new_operation(**changes)
    item = {**new._asdict(), "requested_by": new.planned_by}
    async with store.database.transaction() as session:
        if ids is None:
            await store.operations.freeze(session, item, Filter.of(parse(query), new.org))
        else:
            await store.operations.freeze_ids(session, item, ids)
        await store.operations.insert(session, new)
    return new.id


async def started(store: Store, operation_id: str, **changes: Any) -> ReplayOperation:
    operation = await store.operations.get(operation_id, ORG)
    running = operation.replace(**{"state": "RUNNING", "started_by": "bob", "started_at": 5.0, **changes})
    async with store.database.transaction() as session:
        await store.operations.save(session, running)
    return running


async def begun(store: Store, operation_id: str, most: int = 500) -> int:
    async with store.database.transaction() as session:
        return len((await store.replays.begin_planned(session, operation_id, most)).replays)


async def letters_of(store: Store, operation_id: str, state: ReplayState | None = None) -> list[str]:
    items = await store.operations.items(operation_id, ORG, state, 1000, 0)
    return [each.letter_id for each in items]


# Freezing


async def test_items_are_ordered_by_priority_then_age_then_id(store: Store, database: Database) -> None:
    made = [("d", 0, 5.0), ("c", 0, 5.0), ("b", 9, 7.0), ("a", 9, 6.0), ("e", -1, 1.0)]
    for name, priority, created_at in made:
        await put_failed(database, id=name, priority=priority, created_at=created_at)

    operation_id = await frozen(store, ["c", "e", "a", "d", "b"])

    assert await letters_of(store, operation_id) == ["a", "b", "c", "d", "e"]
    items = await store.operations.items(operation_id, ORG, None, 10, 0)
    assert [each.position for each in items] == [1, 2, 3, 4, 5]
    assert [each.id for each in items] == [item_id(operation_id, number) for number in range(1, 6)]


async def test_an_item_keeps_the_state_of_its_dead_letter(store: Store, database: Database) -> None:
    known = {
        "step_index": 1,
        "fingerprint": "v1:abc",
        "effect": "unsafe",
        "breaker": "bank",
        "updated_at": 12.25,
    }
    letter_id = await put_failed(database, **known)

    operation_id = await frozen(store, [letter_id], mode="STEP_ONLY", policy_override='{"name":"twice"}')

    [item] = await store.operations.items(operation_id, ORG, None, 10, 0)
    assert (item.letter_id, item.state, item.mode, item.automatic) == (letter_id, "PLANNED", "STEP_ONLY", 0)
    assert (item.step_index, item.from_step, item.fingerprint, item.effect) == (1, 1, "v1:abc", "unsafe")
    assert (item.breaker, item.requested_by, item.reason) == ("bank", "ana", "fixed")
    assert (item.policy_override, item.started_at, item.ended_at) == ({"name": "twice"}, None, None)
    assert await value(database, "SELECT letter_updated_at FROM redrive.replays") == 12.25


async def test_a_later_letter_than_its_run_freezes_the_step_of_the_run(
    store: Store, database: Database
) -> None:
    """An earlier replay went back. If a letter of that step is selected too, only that letter can start."""
    later = await put_failed(database, id="later", step_index=2, run_id=RUN_ID)
    await ask(database, "UPDATE redrive.runs SET step_index = 0 WHERE id = :id", id=RUN_ID)

    await frozen(store, [later], identifier="alone")
    await frozen(store, None, "is:open", identifier="asked")
    await put(database, [letter(id="earlier", step_index=0, run_id=RUN_ID)])
    await frozen(store, ["earlier", later], identifier="both")
    [obstacle] = await store.operations.obstacles(database, "both")
    assert obstacle.letter_id == later
    await alter(database, "earlier", state="ARCHIVED")
    await frozen(store, ["earlier", later], identifier="closed")

    rows = await ask(database, "SELECT operation_id, letter_id, step_index, from_step FROM redrive.replays")
    assert sorted(rows) == [
        ("alone", "later", 0, 0),
        ("asked", "later", 0, 0),
        ("both", "earlier", 0, 0),
        ("both", "later", 2, 2),
        ("closed", "earlier", 0, 0),
        ("closed", "later", 0, 0),
    ]
    assert await store.operations.obstacles(database, "alone") == []


async def test_a_query_freezes_matching_letters_and_no_later_ones(store: Store, database: Database) -> None:
    open_one = await put_failed(database, queue="mail")
    await put_failed(database, queue="post")
    await put_failed(database, queue="mail", state="RESOLVED")

    operation_id = await frozen(store, query="is:open queue:mail since:9999d")
    await put_failed(database, queue="mail")

    assert await letters_of(store, operation_id) == [open_one]


async def test_dead_letters_of_another_org_do_not_exist(store: Store, database: Database) -> None:
    """W13."""
    mine = await put_failed(database)
    foreign = await put_failed(database, org="other")

    by_ids = await frozen(store, [mine, foreign])
    by_query = await frozen(store, identifier="by query")

    assert await letters_of(store, by_ids) == await letters_of(store, by_query) == [mine]
    assert await ask(database, "SELECT DISTINCT letter_id FROM redrive.replays") == [(mine,)]
    unknown = await store.operations.unknown_ids(database, ORG, [mine, foreign, "it's \0"], 5)
    assert foreign in unknown
    assert mine not in unknown
    assert len(unknown) == 2


async def test_an_operation_of_another_org_does_not_exist(store: Store, database: Database) -> None:
    """W13."""
    operation_id = await frozen(store, [await put_failed(database)])

    for org, name in (("other", operation_id), (ORG, "nobody"), (ORG, "it\0s")):
        with pytest.raises(NotFoundError, match="found no bulk replay"):
            await store.operations.get(name, org)
        with pytest.raises(NotFoundError, match="found no bulk replay"):
            async with database.transaction() as session:
                await store.operations.lock(session, name, org)
    assert await store.operations.items(operation_id, "other", None, 10, 0) == []
    assert await store.operations.items(operation_id, "other", ReplayState.PLANNED, 10, 0) == []
    assert await store.operations.page("other", 10, None) == []
    assert await store.operations.page("other", 10, operation_id) == []


# Obstacles


OBSTACLES = {
    "replaying": ("UPDATE redrive.dead_letters SET state = 'REPLAYING'", "it is being replayed already"),
    "closed": ("UPDATE redrive.dead_letters SET state = 'IGNORED'", "it is ignored; reopen it first"),
    "removed": ("DELETE FROM redrive.dead_letters", "the dead letter no longer exists"),
    "cancelled": ("UPDATE redrive.runs SET state = 'CANCELLED'", "its run was cancelled"),
    "run removed": ("DELETE FROM redrive.runs", "its run no longer exists"),
    "run working": ("UPDATE redrive.runs SET place = 'ready', state = 'RUNNING'", "its run is running"),
    "elsewhere": ("UPDATE redrive.runs SET step_index = 3", "its run is at step 4 now, not at step 1"),
    "touched": (
        "UPDATE redrive.dead_letters SET updated_at = updated_at + 1",
        "it changed after it was planned",
    ),
    "another failure": (
        "UPDATE redrive.dead_letters SET fingerprint = 'another', updated_at = updated_at + 1",
        "it failed with another error after it was planned",
    ),
}


@pytest.mark.parametrize("obstacle", OBSTACLES)
async def test_items_that_changed_or_cannot_be_replayed_are_found_with_the_reason(
    store: Store, database: Database, obstacle: str
) -> None:
    tampering, note = OBSTACLES[obstacle]
    fine, bad = await put_failed(database), await put_failed(database)
    operation_id = await frozen(store, [fine, bad])
    assert await store.operations.obstacles(database, operation_id) == []
    target = bad if "dead_letters" in tampering else await column_of(database, bad, "run_id")

    await ask(database, f"{tampering} WHERE id = :id", id=target)

    [found] = await store.operations.obstacles(database, operation_id)
    assert (found.letter_id, found.position) == (bad, 2)
    assert text_of(found.reason).startswith(note)
    assert await begun(store, operation_id) == 1
    assert await letters_of(store, operation_id, ReplayState.RUNNING) == [fine]
    assert await store.operations.notes(database, operation_id) == ((found.reason, 1),)


async def test_of_two_dead_letters_of_a_run_only_that_of_its_step_starts(
    store: Store, database: Database
) -> None:
    """A run has several after a replay that went back.

    Another item of the batch may have restarted the run.
    """
    first = await put_failed(database)
    run_id = await column_of(database, first, "run_id")
    await put(database, [later := letter(run_id=run_id, step_index=1)])
    operation_id = await frozen(store, [first, later["id"]])

    assert await begun(store, operation_id) == 1

    assert await letters_of(store, operation_id, ReplayState.RUNNING) == [first]
    assert await letters_of(store, operation_id, ReplayState.REFUSED) == [later["id"]]


async def test_an_exhausted_dead_letter_can_be_replayed(store: Store, database: Database) -> None:
    operation_id = await frozen(store, [await put_failed(database, state="EXHAUSTED")])

    assert await store.operations.obstacles(database, operation_id) == []
    assert await begun(store, operation_id) == 1


async def test_unsafe_effects_that_may_have_happened_can_be_left_out(
    store: Store, database: Database
) -> None:
    risky = await put_failed(database, effect="unsafe", may_have_executed=1)
    harmless = await put_failed(database, effect="unsafe", may_have_executed=0)
    keyed = await put_failed(database, effect="idempotent", may_have_executed=1)
    operation_id = await frozen(store, [risky, harmless, keyed])
    before = await store.operations.forecast(database, operation_id)

    await store.operations.skip_unsafe(database, operation_id, fact("may_repeat_unsafe_effect"))

    assert await letters_of(store, operation_id, ReplayState.SKIPPED) == [risky]
    assert await letters_of(store, operation_id, ReplayState.PLANNED) == [harmless, keyed]
    assert (before.unsafe, before.repeatable) == (1, 1)
    assert (await store.operations.forecast(database, operation_id)).unsafe == 0


async def test_12_the_policy_of_items_is_set_per_definition_and_step(
    store: Store, database: Database
) -> None:
    for digest, workflow in (("digest", "greet"), ("other", "other")):
        await ask(
            database,
            "INSERT INTO redrive.definitions (digest, workflow, body, created_at) "
            "VALUES (:digest, :workflow, :body, 1.0)",
            digest=digest,
            workflow=workflow,
            body=DEFINITION,
        )
    letters = [await put_failed(database), await put_failed(database, step_index=1)]
    operation_id = await frozen(store, letters)
    stations = (await store.operations.forecast(database, operation_id)).stations
    assert [(station.step_index, station.items) for station in stations] == [(0, 1), (1, 1)]
    await store.operations.override(database, operation_id, stations[1], '{"name":"second"}')
    foreign = stations[0]._replace(definition="other")
    await store.operations.override(database, operation_id, foreign, '{"name":"foreign"}')
    items = await store.operations.items(operation_id, "default", None, 10, 0)
    policies = {item.letter_id: item.policy_override for item in items}
    assert policies == {letters[0]: None, letters[1]: {"name": "second"}}


async def test_the_forecast_names_reused_results_and_dependencies(store: Store, database: Database) -> None:
    await ask(
        database,
        "INSERT INTO redrive.definitions (digest, workflow, body, created_at) "
        "VALUES ('digest', 'greet', :body, 1.0)",
        body=DEFINITION,
    )
    await store.limits.pause("default", "ana", "deploy")
    needed = await put_failed(database, breaker="bank")
    later = await put_failed(database, step_index=1, breaker="bank")
    await depend(database, later, needed)

    operation_id = await frozen(store, [needed, later])
    forecast = await store.operations.forecast(database, operation_id)

    assert forecast.results_reused == 1
    assert forecast.stations == (("digest", DEFINITION, 0, 1), ("digest", DEFINITION, 1, 1))
    assert forecast.breakers == {"bank": 2}
    assert forecast.paused_queues == {"default": 2}
    assert forecast.awaited_letters == {needed: 1}
    assert await store.operations.depends_on(database, operation_id, "bank")
    assert not await store.operations.depends_on(database, operation_id, "mail")


# Dependencies (M12)


async def depend(database: Database, letter_id: str, on: str) -> None:
    columns = "redrive.dead_letter_dependencies (letter_id, depends_on, org)"
    await ask(
        database, f"INSERT INTO {columns} VALUES (:one, :other, :org)", one=letter_id, other=on, org=ORG
    )


async def test_an_item_does_not_start_before_the_dead_letter_it_depends_on_is_resolved(
    store: Store, database: Database
) -> None:
    needed = await put_failed(database)
    first = await put_failed(database, priority=9)
    await depend(database, first, needed)
    operation_id = await frozen(store, [first, needed])

    assert (await store.operations.tally(database, operation_id)).ready == 1
    assert await begun(store, operation_id) == 1
    assert await letters_of(store, operation_id, ReplayState.RUNNING) == [needed]
    assert await begun(store, operation_id) == 0

    await ask(database, "UPDATE redrive.dead_letters SET state = 'RESOLVED' WHERE id = :id", id=needed)
    assert (await store.operations.tally(database, operation_id)).ready == 1
    assert await begun(store, operation_id) == 1


async def test_impossible_dependencies_are_refused_and_replays_in_progress_are_awaited(
    store: Store, database: Database
) -> None:
    needed, replaying, one, other = [await put_failed(database) for _ in range(4)]
    await depend(database, one, needed)
    await depend(database, other, replaying)
    await ask(database, "UPDATE redrive.dead_letters SET state = 'REPLAYING' WHERE id = :id", id=replaying)
    operation_id = await frozen(store, [one, other])

    assert await store.operations.refuse_blocked(database, operation_id, fact("dependency_unresolved"))
    assert await letters_of(store, operation_id, ReplayState.REFUSED) == [one]
    await ask(database, "UPDATE redrive.dead_letters SET state = 'OPEN' WHERE id = :id", id=replaying)
    assert not await store.operations.refuse_blocked(database, operation_id, fact("dependency_unresolved"))


# Starting and counting items


async def test_items_are_started_in_order_together_with_their_runs_and_dead_letters(
    store: Store, database: Database
) -> None:
    ids = [await put_failed(database) for _ in range(5)]
    operation_id = await frozen(store, ids)
    await started(store, operation_id)

    assert await begun(store, operation_id, 2) == 2

    assert await letters_of(store, operation_id, ReplayState.RUNNING) == ids[:2]
    states = [await column_of(database, each, "state", "last_replayed_by") for each in ids[:3]]
    assert states == [("REPLAYING", "bob"), ("REPLAYING", "bob"), ("OPEN", None)]
    run_id = await column_of(database, ids[0], "run_id")
    assert await column(database, run_id, "place", "state", "replays") == ("ready", "RUNNING", 1)


async def test_the_tally_counts_the_outcomes_of_the_items(store: Store, database: Database) -> None:
    operation_id = await frozen(store, [await put_failed(database) for _ in range(8)])
    outcomes = {1: "RUNNING", 2: "FAILED", 3: "FAILED", 4: "CANCELLED", 5: "SUCCEEDED", 6: "REFUSED"}
    change = "UPDATE redrive.replays SET state = :state WHERE id = :id"
    for position, state in outcomes.items():
        await ask(database, change, id=item_id(operation_id, position), state=state)
    again = "UPDATE redrive.replays SET fingerprint_after = fingerprint WHERE id = :id"
    await ask(database, again, id=item_id(operation_id, 2))
    await ask(database, again.replace("= fingerprint ", "= 'other' "), id=item_id(operation_id, 3))

    tally = await store.operations.tally(database, operation_id)

    assert tally == ItemTally(running=1, failed=2, cancelled=1, repeated=1, ready=2)
    assert tally.score(5) == Score(begun=5, succeeded=1, failed=2, repeated=1)
    counts = await store.operations.counts(database, operation_id)
    assert {state: number for state, number in counts.items() if number} == {
        "RUNNING": 1,
        "FAILED": 2,
        "CANCELLED": 1,
        "SUCCEEDED": 1,
        "REFUSED": 1,
        "PLANNED": 2,
    }
    assert await store.operations.failures(database, operation_id) == {"other": 1, "v1:" + "0" * 40: 1}


async def test_cancelling_leaves_items_in_progress(store: Store, database: Database) -> None:
    operation_id = await frozen(store, [await put_failed(database) for _ in range(3)])
    await begun(store, operation_id, 1)

    await store.operations.cancel_planned(database, operation_id, fact("operation_cancelled"))

    counts = await store.operations.counts(database, operation_id)
    assert (counts[ReplayState.RUNNING], counts[ReplayState.CANCELLED]) == (1, 2)


async def test_drivers_at_the_same_moment_begin_every_item_once(store: Store, database: Database) -> None:
    """I4: one holder at a time, for operations too."""
    ids = [await put_failed(database) for _ in range(30)]
    operation_id = await frozen(store, ids)
    await started(store, operation_id)
    others = [Store(database.another()) for _ in range(3)]

    async def drive(other: Store) -> list[str]:
        letters: list[str] = []
        for _ in range(20):
            async with other.database.transaction() as session:
                moment = await other.operations.lock_running(session, operation_id)
                if moment is None:
                    continue
                done = await other.replays.begin_planned(session, operation_id, 4)
                await other.operations.save(
                    session,
                    moment.operation.replace(released=moment.operation.released + len(done.replays)),
                )
                letters += [each.letter_id for each in done.replays]
        return letters

    answers = await asyncio.gather(*[drive(other) for other in others])
    while more := await begun(store, operation_id, 4):  # if all drivers yielded to one another
        answers.append(["?"] * more)

    assert sum(map(len, answers)) == 30
    named = [each for answer in answers for each in answer if each != "?"]
    assert len(set(named)) == len(named)
    assert await value(database, "SELECT count(*) FROM redrive.runs WHERE replays = 1") == 30
    operation = await store.operations.get(operation_id, ORG)
    assert operation.released == len(named)
    for other in others:
        await other.close()


async def test_a_locked_operation_is_skipped(
    postgres_database: PostgresDatabase,
) -> None:
    """SQLite has one writer at a time, so no lock is skipped there."""
    store, other = Store(postgres_database), Store(postgres_database.another())
    operation_id = await frozen(store, [await put_failed(postgres_database)])
    await started(store, operation_id)

    async with postgres_database.transaction() as session, other.database.transaction() as theirs:
        assert await store.operations.lock_running(session, operation_id) is not None
        assert await other.operations.lock_running(theirs, operation_id) is None
    await other.close()


# Reading operations


async def test_only_running_operations_are_driven(store: Store, database: Database) -> None:
    operation_id = await frozen(store, [await put_failed(database)])
    assert await store.operations.running() == []

    running = await started(store, operation_id)

    [moment] = await store.operations.running()
    assert moment.operation == running.replace(updated_at=moment.operation.updated_at)
    assert moment.now >= moment.operation.updated_at > moment.operation.planned_at - 1.0
    await started(store, operation_id, state="PAUSED")
    assert await store.operations.running() == []
    async with database.transaction() as session:
        assert await store.operations.lock_running(session, operation_id) is None


async def test_operations_are_listed_newest_first_in_pages(store: Store, database: Database) -> None:
    for number in range(5):
        await frozen(store, [], identifier=f"operation {number}")
    await ask(database, "UPDATE redrive.replay_operations SET planned_at = 7.0")
    await ask(database, "UPDATE redrive.replay_operations SET planned_at = 9.0 WHERE id = 'operation 0'")

    first = await store.operations.page(ORG, 2, None)
    second = await store.operations.page(ORG, 2, first[-1].id)
    third = await store.operations.page(ORG, 2, second[-1].id)

    names = [each.id[-1] for page in (first, second, third) for each in page]
    assert names == ["0", "4", "3", "2", "1"]


@pytest.mark.parametrize("state", [None, ReplayState.PLANNED])
async def test_items_are_paged_by_position(
    store: Store, database: Database, state: ReplayState | None
) -> None:
    await frozen(store, [await put_failed(database)], identifier="another")
    operation_id = await frozen(store, [await put_failed(database) for _ in range(7)])

    positions, after = [], 0
    while page := await store.operations.items(operation_id, ORG, state, 3, after):
        positions.append([each.position for each in page])
        after = page[-1].position

    assert positions == [[1, 2, 3], [4, 5, 6], [7]]


async def test_when_the_first_began_and_the_last_ended(store: Store, database: Database) -> None:
    operation_id = await frozen(store, [await put_failed(database) for _ in range(3)])
    assert await store.operations.span(database, operation_id) == (None, None)
    change = "UPDATE redrive.replays SET started_at = :one, ended_at = :other WHERE id = :id"
    await ask(database, change, id=item_id(operation_id, 1), one=5.0, other=9.0)
    await ask(database, change, id=item_id(operation_id, 2), one=4.0, other=None)
    await ask(database, change, id=item_id(operation_id, 3), one=None, other=99.0)

    assert await store.operations.span(database, operation_id) == (4.0, 9.0)


async def test_an_operation_can_be_large(store: Store, database: Database) -> None:
    """One statement freezes all items."""
    await ask(database, "DELETE FROM redrive.dead_letters")
    template = letter(id="template", created_at=0.0)
    await put(database, [template])
    names = ", ".join(each for each in template if each not in ("id", "run_id"))
    numbers = "WITH RECURSIVE numbers (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM numbers WHERE n < 3000)"
    is_postgres = isinstance(database, PostgresDatabase)
    run_id = "gen_random_uuid()" if is_postgres else "'run ' || CAST(n AS text)"
    await ask(
        database,
        f"{numbers} INSERT INTO redrive.dead_letters (id, run_id, {names}) "
        f"SELECT 'letter ' || CAST(n AS text), {run_id}, {names} "
        f"FROM redrive.dead_letters CROSS JOIN numbers WHERE id = 'template'",
    )

    operation_id = await frozen(store, query="is:live")

    assert await value(database, "SELECT count(*) FROM redrive.replays") == 3001
    assert len(await store.operations.obstacles(database, operation_id)) == 3001
    assert len(await store.operations.members(database, operation_id)) == 3001


async def test_the_progress_of_several_operations_is_read_at_once(store: Store, database: Database) -> None:
    ids = [await put_failed(database) for _ in range(3)]
    await frozen(store, ids[:2], identifier="one")
    await frozen(store, ids[2:], identifier="two")

    found = await store.operations.progress(ORG, ["one", "two", "unknown"])

    assert {each: found[each][ReplayState.PLANNED] for each in found} == {"one": 2, "two": 1, "unknown": 0}
    assert await store.operations.progress("acme", ["one"]) == {"one": dict.fromkeys(ReplayState, 0)}
