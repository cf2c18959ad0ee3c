"""Dead letters in the store: reading, notes, tags and assignees, exact statistics (W8, W13, M7, M12)."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import pytest
from tests.store.build import ask, buried, claimed
from tests.store.conftest import migrated
from tests.store.letters import column_of, letter, put, put_failed

from redrive.clock import SYSTEM_CLOCK
from redrive.engine.encryption import NO_ENCRYPTION
from redrive.engine.event_bus import EventBus
from redrive.engine.ids import Ids
from redrive.errors import NotFoundError
from redrive.failures.dead_letters import DeadLetters as Triage
from redrive.model.caller import Caller
from redrive.model.dead_letter import DeadLetter, DeadLetterLine, DeadLetterState
from redrive.model.statistics import LifetimeStats
from redrive.policy.redact import DEFAULT_REDACTOR
from redrive.store.database import Database
from redrive.store.dead_letters import DeadLetterStore, LetterClosing, LetterTags
from redrive.store.rows import read_row
from redrive.store.sqlite import SqliteDatabase
from redrive.store.statement import Statement, statements
from redrive.store.store import Store

BASE = 1_700_000_000.0


@pytest.fixture
def letters(database: Database) -> DeadLetterStore:
    return DeadLetterStore(database)


def closing(state: str = "RESOLVED", org: str = "default") -> LetterClosing:
    return LetterClosing(org=org, state=state, by="ana", reason="known")


# Reading


@pytest.mark.parametrize(
    ("module", "name"),
    [
        ("dead_letters", "of_run"),
        ("dead_letters", "dependencies"),
        ("bulk_replays", "freeze_ids"),
        ("replays", "mark_replaying"),
    ],
)
async def test_sqlite_finds_a_letter_by_its_run_or_id_and_not_among_all_of_its_organization(
    tmp_path: Path, module: str, name: str
) -> None:
    query = statements(module)[name].sqlite
    explained = replace(query, text=f"EXPLAIN QUERY PLAN {query.text}")
    parameters = dict.fromkeys(query.names)
    async with migrated(SqliteDatabase(str(tmp_path / "redrive.db"), durable=False)) as sqlite:
        rows = await sqlite.fetch(Statement(explained, explained), parameters)
    plan = [row[-1] for row in rows if "dead_letters" in row[-1] and "dependencies" not in row[-1]]
    assert plan
    assert not [line for line in plan if "org=?" in line or line.startswith("SCAN")], plan


async def test_a_letter_has_every_column_of_its_table(letters: DeadLetterStore, database: Database) -> None:
    made = letter(assignee="ana", redrive="linear", next_redrive_at=5.0, tags='["a"]')
    await put(database, [made])
    attempt = {
        "stack": "Traceback",
        "public_message": "It took too long.",
        "decision": '{"code":"attempts_spent"}',
    }
    await ask(
        database,
        "INSERT INTO redrive.attempts (run_id, step_index, number, outcome, ended_at, reason, stack,"
        " public_message, explanation, decision)"
        " VALUES (:run_id, 0, 4, 'failed', 1.0, '', :stack, :public_message, '', :decision)",
        run_id=made["run_id"],
        **attempt,
    )
    settings = {"config": '{"a":1}', "policy": "{}"}
    await ask(
        database,
        "INSERT INTO redrive.dead_letter_settings (org, digest, config, policy)"
        " VALUES ('default', 'digest', :config, :policy)",
        **settings,
    )

    found = await letters.get(made["id"], "default")

    whole = made | attempt | settings | {"waits": 0}
    assert found == read_row(DeadLetter, [whole[name] for name in DeadLetter.__struct_fields__])
    [line] = await letters.lines_by_ids([made["id"]], "default")
    assert line == read_row(DeadLetterLine, [whole[name] for name in DeadLetterLine.__struct_fields__])


async def test_a_dead_letter_of_a_worker_is_found(database: Database, letters: DeadLetterStore) -> None:
    store = Store(database)
    claim = await claimed(store)
    letter_id = await buried(store, claim)

    [of_run] = await store.dead_letters.of_run(claim.id, "default")

    assert await letters.get(letter_id, "default") == of_run
    assert (of_run.state, of_run.assignee, of_run.redrives) == ("OPEN", None, 0)


@pytest.mark.parametrize("org", ["other", ""])
async def test_a_foreign_letter_does_not_exist_w13(
    letters: DeadLetterStore, database: Database, org: str
) -> None:
    [mine] = await put(database, [letter()])

    with pytest.raises(NotFoundError) as foreign:
        await letters.get(mine, org)
    with pytest.raises(NotFoundError) as unknown:
        await letters.get("x" * len(mine), org)

    assert str(foreign.value).replace(mine, "x" * len(mine)) == str(unknown.value)
    assert await letters.lines_by_ids([mine], org) == []
    assert await letters.lock(database, [mine], org) == {}
    assert await letters.notes(mine, org) == []
    assert await letters.dependencies(mine, org) == []


async def test_lines_come_in_the_order_they_are_asked_for(
    letters: DeadLetterStore, database: Database
) -> None:
    [a, b, c] = await put(database, [letter(), letter(), letter()])

    found = await letters.lines_by_ids([c, "unknown", a, c, b], "default")

    assert [line.id for line in found] == [c, a, c, b]
    assert await letters.lines_by_ids([], "default") == []


# Writing


@pytest.mark.parametrize("state", list(DeadLetterState))
async def test_only_letters_that_are_not_replaying_are_closed(
    letters: DeadLetterStore, database: Database, state: DeadLetterState
) -> None:
    [mine] = await put(database, [letter(state=state)])

    changed = await letters.close_if_unattended(database, [mine], closing("IGNORED"))

    assert changed == (1 if state in ("OPEN", "EXHAUSTED") else 0)
    after = await column_of(database, mine, "state", "resolved_by", "resolution")
    assert after == (("IGNORED", "ana", "known") if changed else (state, None, None))


@pytest.mark.parametrize("state", list(DeadLetterState))
async def test_only_closed_letters_are_reopened(
    letters: DeadLetterStore, database: Database, state: DeadLetterState
) -> None:
    [mine] = await put(
        database, [letter(state=state, resolved_by="ana", resolved_at=3.0, resolution="r", exhausted_at=2.0)]
    )

    changed = await letters.reopen_if_closed(database, [mine], "default")

    assert changed == (1 if state in ("RESOLVED", "IGNORED", "ARCHIVED") else 0)
    columns = ("state", "resolved_by", "resolved_at", "resolution", "exhausted_at")
    after = await column_of(database, mine, *columns)
    assert after == (("OPEN", None, None, None, None) if changed else (state, "ana", 3.0, "r", 2.0))


async def test_no_write_reaches_a_foreign_letter_w13(letters: DeadLetterStore, database: Database) -> None:
    [mine, closed] = await put(database, [letter(), letter(state="RESOLVED")])
    before = await ask(database, "SELECT * FROM redrive.dead_letters ORDER BY id")

    assert await letters.close_if_unattended(database, [mine], closing(org="other")) == 0
    assert await letters.reopen_if_closed(database, [closed], "other") == 0
    await letters.assign(database, [mine], "other", "bo")
    await letters.tag(database, [LetterTags(mine, "other", '["a"]')])
    with pytest.raises(NotFoundError):
        await letters.note(database, mine, "other", "n1", "bo", "text")

    assert await ask(database, "SELECT * FROM redrive.dead_letters ORDER BY id") == before
    assert await ask(database, "SELECT * FROM redrive.dead_letter_notes") == []


async def test_many_are_closed_at_once(letters: DeadLetterStore, database: Database) -> None:
    ids = await put(database, [letter() for _ in range(40)])

    assert await letters.close_if_unattended(database, ids, closing()) == 40

    assert (await letters.figures("default")).by_state == {"RESOLVED": 40}


async def test_assigning_and_tagging_is_no_change_of_the_failure(
    letters: DeadLetterStore, database: Database
) -> None:
    [mine] = await put(database, [letter(updated_at=BASE)])

    await letters.assign(database, [mine], "default", "bo")
    await letters.tag(database, [LetterTags(mine, "default", '["a"]')])
    assert await column_of(database, mine, "assignee", "tags", "updated_at") == ("bo", '["a"]', BASE)

    await letters.assign(database, [mine], "default", None)
    await letters.tag(database, [LetterTags(mine, "default", None)])
    assert await column_of(database, mine, "assignee", "tags", "updated_at") == (None, None, BASE)


async def test_notes_are_read_in_the_order_they_were_written(
    letters: DeadLetterStore, database: Database
) -> None:
    [mine, other] = await put(database, [letter(), letter()])
    for number in range(3):
        made = await letters.note(database, mine, "default", f"n{number}", "ana", f"text {number}")
        assert made[::2] == (f"n{number}", "ana")
    await letters.note(database, other, "default", "n9", "bo", "other")

    assert [note.body for note in await letters.notes(mine, "default")] == ["text 0", "text 1", "text 2"]


async def test_two_that_close_the_same_letter_do_not_both_do_it(
    letters: DeadLetterStore, database: Database
) -> None:
    ids = await put(database, [letter() for _ in range(10)])

    async def close(order: list[str]) -> int:
        async with database.transaction() as session:
            locked = await letters.lock(session, order, "default")
            wanted = [each.id for each in locked.values() if each.state == "OPEN"]
            return await letters.close_if_unattended(session, wanted, closing())

    numbers = await asyncio.gather(close(ids), close(ids[::-1]), close(ids))

    assert sorted(numbers) == [0, 0, 10]


# The position of the run


async def test_the_standing_of_a_letter(letters: DeadLetterStore, database: Database) -> None:
    old = await put_failed(database, run_id="r", state="RESOLVED", created_at=BASE)
    [new] = await put(database, [letter(run_id="r", created_at=BASE + 1)])
    await put(database, [letter(run_id="r", step_index=1, created_at=BASE + 2)])

    [first] = await letters.standings(database, [old], "default")
    [second] = await letters.standings(database, [new], "default")

    assert first == (old, 0, "DLQ_PENDING", 0, new)
    assert second == (new, 0, "DLQ_PENDING", 0, None)
    assert await letters.standings(database, [old], "other") == []


async def test_a_locked_run_is_not_removed_in_the_meantime(
    letters: DeadLetterStore, database: Database
) -> None:
    """Retention and reopening take the run's lock first, so a reopened letter never loses its run."""
    mine = await put_failed(database, state="RESOLVED", updated_at=1.0)
    store = Store(database)

    async def reopen() -> None:
        async with database.transaction() as session:
            await letters.lock_runs(session, [mine], "default")
            await letters.lock(session, [mine], "default")
            if await letters.standings(session, [mine], "default"):
                await letters.reopen_if_closed(session, [mine], "default")

    await asyncio.gather(reopen(), store.runs.remove_expired(60.0, 10))

    left = await ask(database, "SELECT state FROM redrive.dead_letters")
    runs = await ask(database, "SELECT id FROM redrive.runs")
    assert (left, len(runs)) in (([("OPEN",)], 1), ([], 0))


# Dependencies


async def test_dependencies_are_followed(letters: DeadLetterStore, database: Database) -> None:
    [a, b, c] = await put(database, [letter(), letter(), letter()])

    assert await letters.link(database, a, b, "default")
    assert not await letters.link(database, a, b, "default")
    assert await letters.link(database, b, c, "default")

    assert await letters.depends(database, a, c, "default")
    assert not await letters.depends(database, c, a, "default")
    assert not await letters.depends(database, a, c, "other")
    assert [line.id for line in await letters.dependencies(a, "default")] == [b]
    assert not await letters.unlink(database, a, b, "other")
    assert await letters.unlink(database, a, b, "default")
    assert not await letters.depends(database, a, c, "default")


# Statistics


async def test_figures_are_exact_m7(letters: DeadLetterStore, database: Database) -> None:
    open_one: dict[str, Any] = {"category": "network", "redrive": "linear"}
    [a, b, *_] = await put(
        database,
        [
            letter(**open_one),
            letter(queue="payments"),
            letter(state="EXHAUSTED", queue="payments", category="network"),
            letter(state="REPLAYING"),
            letter(org="other"),
        ],
    )
    await letters.close_if_unattended(database, [a], closing("ARCHIVED"))
    await letters.close_if_unattended(database, [b], closing())

    figures = await letters.figures("default")
    assert figures.queue_size == 2
    assert figures.by_state == {"ARCHIVED": 1, "EXHAUSTED": 1, "REPLAYING": 1, "RESOLVED": 1}
    assert figures.by_category == {"network": 1, "timeout": 1}
    assert figures.by_redrive == {"never": 2}
    assert figures.lifetime == LifetimeStats(enqueued_total=4, archived=1)

    of_queue = await letters.figures("default", "payments")
    assert of_queue.by_state == {"EXHAUSTED": 1, "RESOLVED": 1}
    assert of_queue.lifetime == LifetimeStats(enqueued_total=2)
    assert (await letters.figures("nobody")).queue_size == 0


async def test_lifetime_figures_outlive_the_letters_m7(letters: DeadLetterStore, database: Database) -> None:
    [mine] = await put(database, [letter()])
    await letters.close_if_unattended(database, [mine], closing("ARCHIVED"))
    await ask(database, "DELETE FROM redrive.dead_letters")

    figures = await letters.figures("default")

    assert figures.by_state == {}
    assert figures.lifetime == LifetimeStats(enqueued_total=1, archived=1)


# Concurrent transactions


def failures(database: Database, name: str) -> Triage:
    ids = Ids(SYSTEM_CLOCK, Random(name))
    return Triage(Store(database), ids, EventBus(), DEFAULT_REDACTOR, NO_ENCRYPTION, Caller("default", name))


async def test_links_made_in_the_same_moment_make_no_circle_m12(database: Database) -> None:
    for _ in range(5):
        [a, b, c, d] = await put(database, [letter() for _ in range(4)])
        await failures(database, "ana").link(a, b)
        await failures(database, "ana").link(c, d)

        results = await asyncio.gather(
            failures(database, "ana").link(b, c), failures(database, "bo").link(d, a), return_exceptions=True
        )

        assert sorted(type(each).__name__ for each in results) == ["InvalidValueError", "bool"]


async def test_many_people_at_once_change_each_letter_once(database: Database) -> None:
    ids = [await put_failed(database) for _ in range(12)]
    people = [failures(database, name) for name in ("ana", "bo", "cy", "di")]

    done = await asyncio.gather(
        people[0].resolve(ids, "mine"),
        people[1].ignore(ids[::-1], "no, mine"),
        people[2].archive_matching("is:open", expect=12),
        people[3].tag(ids[::2], add=["seen"]),
        return_exceptions=True,
    )

    assert sorted(type(each).__name__ for each in done[:3] if each != 12) in (
        ["NumberDriftError", "TransitionError"],
        ["TransitionError", "TransitionError"],
    )
    assert done[3] == 6
    figures = await DeadLetterStore(database).figures("default")
    assert list(figures.by_state.values()) == [12]
    assert len(await ask(database, "SELECT 1 FROM redrive.audit")) == 2

    assert await people[0].reopen(ids) == 12
    assert (await DeadLetterStore(database).figures("default")).by_state == {"OPEN": 12}
