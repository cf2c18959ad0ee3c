"""Related failures: in the same run, with the same correlation id, in the same group."""

from __future__ import annotations

from typing import Any

import pytest
from tests.store.by_hand import letters

from redrive.errors import NotFoundError
from redrive.failures.dead_letter_queries import MAX_RELATED, DeadLetterQueries
from redrive.model.caller import Caller
from redrive.model.dead_letter import Related
from redrive.store.database import Database
from redrive.store.store import Store


def queries(database: Database, org: str = "acme") -> DeadLetterQueries:
    return DeadLetterQueries(Store(database), Caller(org, "ana"))


def ids_of(found: Related) -> list[list[str]]:
    return [[line.id for line in lines] for lines in found]


async def test_other_letters_are_listed_by_what_they_share(database: Database) -> None:
    mine: dict[str, Any] = {"run_id": "r1", "correlation_id": "c1", "fingerprint": "f1"}
    [letter] = await letters(database, age=10.0, **mine)
    [step] = await letters(database, age=9.0, **{**mine, "fingerprint": "f2", "step_index": 1})
    [beside] = await letters(database, age=8.0, **{**mine, "run_id": "r2", "fingerprint": "f3"})
    [alike] = await letters(database, age=7.0, run_id="r3", correlation_id="c3", state="ARCHIVED")
    [later] = await letters(database, age=6.0, run_id="r4", correlation_id="c4")
    await letters(database, run_id="r5", correlation_id="c5", fingerprint="f5")
    await letters(database, org="other", step_index=2, **mine)

    found = await queries(database).related(letter)
    assert ids_of(found) == [[step], [beside], [later, alike]]


async def test_the_newest_of_each_kind_are_listed(database: Database) -> None:
    mine: dict[str, Any] = {"run_id": "r1", "correlation_id": "r1", "fingerprint": "f1"}
    made = [await letters(database, age=float(age), step_index=age, **mine) for age in range(MAX_RELATED + 3)]
    newest_first = [letter for [letter] in made]
    oldest = newest_first[-1]
    found = await queries(database).related(oldest)
    assert ids_of(found) == [newest_first[:MAX_RELATED], [], newest_first[:MAX_RELATED]]
    found = await queries(database).related(newest_first[0])
    assert ids_of(found)[0] == newest_first[1 : MAX_RELATED + 1]


async def test_a_letter_that_is_alone_has_none(database: Database) -> None:
    [letter] = await letters(database, run_id="r1", correlation_id="r1")
    assert await queries(database).related(letter) == Related()


async def test_that_of_another_org_does_not_exist(database: Database) -> None:
    """W13"""
    [letter] = await letters(database)
    with pytest.raises(NotFoundError, match="found no dead letter"):
        await queries(database, "other").related(letter)
