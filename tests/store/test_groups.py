"""Failure groups: each occurrence counts once, in its version, and changes the state of its group."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from tests.store.build import ask, value
from tests.store.by_hand import letters, replay

from redrive.model.failure_group import (
    FailureGroup,
    GroupChange,
    Occurrence,
)
from redrive.policy.recurrence import reopen_after_failure
from redrive.store.database import Database
from redrive.store.groups import Groups, GroupWish


@pytest.fixture
def groups(database: Database) -> Groups:
    return Groups(database)


def occurrence(**changes: Any) -> Occurrence:
    made = Occurrence(
        org="acme",
        fingerprint="f1",
        title="TimeoutError in charge",
        pattern="TimeoutError in <quoted>",
        reason="type and place",
        workflow="checkout",
        step="charge",
        task="charge",
        category="timeout",
        error_type="TimeoutError",
        sample="letter 1",
        code_version="v1",
    )
    return made._replace(**changes)


async def occur(database: Database, *occurrences: Occurrence) -> list[GroupChange]:
    async with database.transaction() as session:
        return await Groups(database).occurred(session, occurrences, reopen_after_failure)


async def put(database: Database, state: str, **conditions: Any) -> None:
    """Give every group a state, as an operator would."""
    columns = ", ".join(f"{name} = :{name}" for name in ("state", *conditions))
    await ask(database, f"UPDATE redrive.failure_groups SET {columns}", state=state, **conditions)


async def state_of(database: Database, fingerprint: str = "f1") -> str:
    text = "SELECT state FROM redrive.failure_groups WHERE fingerprint = :fingerprint"
    return str(await value(database, text, fingerprint=fingerprint))


# Counting


async def test_a_batch_is_counted_by_group_and_by_version(database: Database) -> None:
    batch = [
        occurrence(),
        occurrence(sample="letter 2", code_version="v2", title="newer"),
        occurrence(fingerprint="f2"),
        occurrence(org="other", sample="letter 3"),
    ]
    assert await occur(database, *batch) == []
    await occur(database, occurrence(sample="letter 4"), occurrence(sample="letter 5"))

    counted = """SELECT org, fingerprint, state, occurrences, sample, title FROM redrive.failure_groups
        ORDER BY 1, 2"""
    assert await ask(database, counted) == [
        ("acme", "f1", "OPEN", 4, "letter 5", "TimeoutError in charge"),
        ("acme", "f2", "OPEN", 1, "letter 1", "TimeoutError in charge"),
        ("other", "f1", "OPEN", 1, "letter 3", "TimeoutError in charge"),
    ]
    by_version = """SELECT org, fingerprint, code_version, occurrences FROM redrive.failure_group_versions
        ORDER BY 1, 2, 3"""
    assert await ask(database, by_version) == [
        ("acme", "f1", "v1", 3),
        ("acme", "f1", "v2", 1),
        ("acme", "f2", "v1", 1),
        ("other", "f1", "v1", 1),
    ]


async def test_the_first_and_the_last_time_are_remembered_and_never_go_back(database: Database) -> None:
    await occur(database, occurrence())
    for table in ("failure_groups", "failure_group_versions"):
        await ask(database, f"UPDATE redrive.{table} SET first_seen = 7.0, last_seen = 8.0")
    await occur(database, occurrence())
    seen = "SELECT first_seen, last_seen FROM redrive."
    for table in ("failure_groups", "failure_group_versions"):
        [(first, last)] = await ask(database, seen + table)
        assert first == 7.0
        assert last > 1e9
        await ask(database, f"UPDATE redrive.{table} SET last_seen = 1e12")
    await occur(database, occurrence())
    for table in ("failure_groups", "failure_group_versions"):
        assert await ask(database, seen + table) == [(7.0, 1e12)]


async def test_nothing_is_counted_of_a_transaction_that_is_rolled_back(database: Database) -> None:
    with pytest.raises(ZeroDivisionError):
        async with database.transaction() as session:
            await Groups(database).occurred(session, [occurrence()], reopen_after_failure)
            raise ZeroDivisionError
    assert await value(database, "SELECT count(*) FROM redrive.failure_groups") == 0
    assert await value(database, "SELECT count(*) FROM redrive.failure_group_versions") == 0


async def test_an_empty_batch_changes_nothing(database: Database) -> None:
    assert await occur(database) == []


async def test_concurrent_batches_in_any_order_are_all_counted(database: Database) -> None:
    batch = [occurrence(fingerprint=f"f{number}") for number in range(20)]
    await asyncio.gather(*(occur(database, *batch[turn:], *batch[:turn]) for turn in range(20)))
    counts = await ask(database, "SELECT DISTINCT occurrences FROM redrive.failure_groups")
    assert counts == [(20,)]


# Recurrence


async def test_a_resolved_group_that_occurs_again_is_open_and_regressed(database: Database) -> None:
    await occur(database, occurrence(), occurrence(fingerprint="f2"))
    await put(database, "RESOLVED")

    [change] = await occur(database, occurrence())

    assert change[:4] == ("acme", "f1", "RESOLVED", "OPEN")
    assert change.regressed
    assert (await state_of(database), await state_of(database, "f2")) == ("OPEN", "RESOLVED")
    text = """SELECT regressed_at = last_seen, changed_at = last_seen, changed_by, change_reason
        FROM redrive.failure_groups WHERE fingerprint = 'f1'"""
    [(regressed, changed, by, reason)] = await ask(database, text)
    assert (bool(regressed), bool(changed), by, reason) == (True, True, "redrive", change.reason)


async def test_a_group_of_another_org_does_not_come_back(database: Database) -> None:
    await occur(database, occurrence(), occurrence(org="other"))
    await put(database, "RESOLVED")
    await occur(database, occurrence())
    states = await ask(database, "SELECT org, state FROM redrive.failure_groups ORDER BY org")
    assert states == [("acme", "OPEN"), ("other", "RESOLVED")]


@pytest.mark.parametrize("state", ["OPEN", "ACKNOWLEDGED", "IGNORED"])
async def test_the_state_stays_without_a_reason_to_change(database: Database, state: str) -> None:
    await occur(database, occurrence())
    await put(database, state)
    assert await occur(database, occurrence()) == []
    assert await state_of(database) == state


@pytest.mark.parametrize(
    ("conditions", "comes_back"),
    [
        ({"ignored_until": 1e12}, False),
        ({"ignored_until": 1.0}, True),
        ({"ignored_beyond": 3}, False),
        ({"ignored_beyond": 2}, True),
        ({"ignored_version": "v2"}, False),
        ({"ignored_version": "v1"}, True),
        ({"ignored_until": 1e12, "ignored_beyond": 3, "ignored_version": "v1"}, True),
    ],
)
async def test_an_ignored_group_comes_back_when_its_condition_is_met(
    database: Database, conditions: dict[str, Any], comes_back: bool
) -> None:
    await occur(database, occurrence())
    await put(database, "IGNORED", **conditions)

    changes = await occur(database, *[occurrence(code_version="v2")] * 2)

    assert [each[2:4] for each in changes] == [("IGNORED", "OPEN")] * comes_back
    assert not any(each.regressed for each in changes)
    text = "SELECT ignored_until, ignored_beyond, ignored_version, regressed_at FROM redrive.failure_groups"
    [left] = await ask(database, text)
    assert (left == (None,) * 4) is comes_back


# One group


async def test_a_group_is_found_by_the_beginning_of_its_fingerprint(
    database: Database, groups: Groups
) -> None:
    names = ["v1:abc0", "v1:abc9", "v1:abcf", "v1:abd0", "v1:abb9", "v2:abc1"]
    await occur(database, *(occurrence(fingerprint=name) for name in names))
    await occur(database, occurrence(org="other", fingerprint="v1:abc5"))

    async def found(fingerprint: str, beginning: str | None) -> list[str]:
        return [each.group.fingerprint for each in await groups.find("acme", fingerprint, beginning, 5)]

    assert await found("abc", "v1:abc") == ["v1:abc0", "v1:abc9", "v1:abcf"]
    assert await found("v1:abd0", None) == ["v1:abd0"]
    assert await found("v1:abc", None) == []
    assert await found("v1:abc5", "v1:abc5") == []


async def test_the_versions_of_a_group_are_listed_with_the_latest_first(
    database: Database, groups: Groups
) -> None:
    await occur(database, *[occurrence(code_version="v1")] * 2, occurrence(code_version="v2"))
    seen = """UPDATE redrive.failure_group_versions SET first_seen = 1.0, last_seen = :at
        WHERE code_version = :name"""
    for name, at in (("v1", 5.0), ("v2", 6.0)):
        await ask(database, seen, name=name, at=at)
    assert await groups.versions("acme", "f1") == [("v2", 1, 1.0, 6.0), ("v1", 2, 1.0, 5.0)]
    assert await groups.versions("other", "f1") == []


async def test_replays_of_a_failure_are_counted_by_state(database: Database, groups: Groups) -> None:
    for state in ["SUCCEEDED"] * 3 + ["FAILED"] * 2 + ["REFUSED"]:
        await replay(database, state=state)
        await replay(database, state="FAILED", org="other")
    assert await groups.replays("acme", "f1") == {"SUCCEEDED": 3, "FAILED": 2, "REFUSED": 1}
    assert await groups.replays("acme", "f2") == {}


async def test_the_sample_is_a_letter_that_there_is(database: Database, groups: Groups) -> None:
    await occur(database, occurrence(sample="gone"))
    [line] = await groups.find("acme", "f1", None, 1)
    assert await groups.sample(line.group) is None
    [older] = await letters(database, age=50.0)
    [newer] = await letters(database, age=5.0)
    await letters(database, age=20.0, state="ARCHIVED")
    await letters(database, org="other")
    assert await groups.sample(line.group) == newer
    assert await groups.sample(line.group.replace(sample=older)) == older


async def test_dead_letters_are_counted_over_time(database: Database, groups: Groups) -> None:
    hour = 3_600.0
    for age, number in ((0.5, 1), (2.5, 2), (9.5, 3), (15.0, 4)):
        await letters(database, number, age=age * hour)
    await letters(database, 1, age=2.5 * hour, state="RESOLVED")
    await letters(database, 1, age=hour, org="other")
    assert await groups.over_time("acme", "f1", 10 * hour, 10) == [3, 0, 0, 0, 0, 0, 0, 3, 0, 1]
    assert await groups.over_time("acme", "f1", 100 * hour, 1) == [11]


# Notes and assignees


async def changed(database: Database, wish: GroupWish) -> FailureGroup:
    groups = Groups(database)
    async with database.transaction() as session:
        group = await groups.lock(session, "acme", "f1")
        assert group is not None
        return await groups.change(session, group, wish)


async def test_a_change_of_a_group_has_actor_and_reason(database: Database) -> None:
    await occur(database, occurrence(), occurrence(fingerprint="f2"), occurrence(org="other"))
    after = await changed(
        database,
        GroupWish(
            state="IGNORED",
            by="ana",
            reason="known",
            ignored_until=1e12,
            ignored_beyond=7,
            ignored_version="v1",
        ),
    )
    assert (after.state, after.changed_by, after.change_reason) == ("IGNORED", "ana", "known")
    assert after.snapshot[2:] == (1e12, 7, "v1")
    assert after.changed_at is not None
    assert await changed(database, GroupWish("RESOLVED", "bo", "")) == after.replace(
        state="RESOLVED",
        changed_by="bo",
        change_reason="",
        changed_at=await value(database, "SELECT max(changed_at) FROM redrive.failure_groups"),
        ignored_until=None,
        ignored_beyond=None,
        ignored_version=None,
    )
    states = await ask(database, "SELECT org, fingerprint, state FROM redrive.failure_groups ORDER BY 1, 2")
    assert states == [("acme", "f1", "RESOLVED"), ("acme", "f2", "OPEN"), ("other", "f1", "OPEN")]


async def test_a_group_that_is_not_there_cannot_be_locked(database: Database, groups: Groups) -> None:
    await occur(database, occurrence(org="other"))
    async with database.transaction() as session:
        assert await groups.lock(session, "acme", "f1") is None


async def test_a_person_can_resolve_the_letters_without_a_replay_in_progress(
    database: Database, groups: Groups
) -> None:
    mine = [*await letters(database, 2), *await letters(database, 1, state="EXHAUSTED")]
    await letters(database, 1, state="REPLAYING")
    await letters(database, 1, state="ARCHIVED")
    await letters(database, 1, fingerprint="f2")
    await letters(database, 1, org="other")
    async with database.transaction() as session:
        found = await groups.open_letters(session, "acme", "f1", 10)
    assert sorted(found) == sorted(mine)


async def test_at_most_so_many_letters_are_taken_at_once(database: Database, groups: Groups) -> None:
    await letters(database, 5)
    async with database.transaction() as session:
        assert len(await groups.open_letters(session, "acme", "f1", 3)) == 3


async def test_groups_whose_ignore_period_is_over_are_opened_in_the_tables(
    database: Database, groups: Groups
) -> None:
    for org in ("acme", "other"):
        await occur(database, occurrence(org=org), occurrence(org=org, fingerprint="f2"))
    await put(database, "IGNORED", ignored_until=1.0, ignored_beyond=9)
    later = "UPDATE redrive.failure_groups SET ignored_until = 1e12 WHERE fingerprint = 'f2'"
    await ask(database, later)
    async with database.transaction() as session:
        changes = await groups.settle(session, 10)
    assert [each[:4] for each in changes] == [
        ("acme", "f1", "IGNORED", "OPEN"),
        ("other", "f1", "IGNORED", "OPEN"),
    ]
    states = (
        "SELECT fingerprint, state, ignored_beyond FROM redrive.failure_groups WHERE org = 'acme' ORDER BY 1"
    )
    assert await ask(database, states) == [("f1", "OPEN", None), ("f2", "IGNORED", 9)]
    async with database.transaction() as session:
        assert await groups.settle(session, 10) == []
