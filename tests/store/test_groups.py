"""Failure groups: what occurs is counted once, in every version, and changes the state of its group."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from tests.store.build import ask, value

from redrive.model.failure_group import GroupChange, Occurrence
from redrive.policy.recurrence import recurred
from redrive.store.database import Database
from redrive.store.groups import Groups


@pytest.fixture
def groups(database: Database) -> Groups:
    return Groups(database)


def occurrence(**changes: Any) -> Occurrence:
    made = Occurrence(
        org="acme",
        fingerprint="f1",
        title="TimeoutError in charge",
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
        return await Groups(database).occurred(session, occurrences, recurred)


async def put(database: Database, state: str, **conditions: Any) -> None:
    """Give every group a state, as a person would."""
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

    counted = "SELECT org, fingerprint, state, occurrences, sample, title FROM redrive.failure_groups ORDER BY 1, 2"
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
            await Groups(database).occurred(session, [occurrence()], recurred)
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
async def test_the_state_stays_where_nothing_asks_for_another(database: Database, state: str) -> None:
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
