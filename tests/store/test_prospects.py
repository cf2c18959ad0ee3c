"""What needs somebody and what heals itself: letters, groups and records say the same, on both databases."""

from __future__ import annotations

from typing import Any, NamedTuple

import pytest
from tests.store.by_hand import letters, replay
from tests.store.test_groups import occur, occurrence

from redrive.model.failure_group import GroupRecord, GroupShare
from redrive.policy.query import parse
from redrive.policy.query_language import GROUPS
from redrive.store.database import Database
from redrive.store.dead_letters import DeadLetterStore
from redrive.store.groups import Groups


class Kind(NamedTuple):
    """A kind of letter; those of one kind are a group of their own, called like it."""

    name: str
    state: str
    redrive: str = "never"
    next_redrive_at: float | None = None


SCHEDULED = Kind("scheduled", "OPEN", "exponential", 9e9)
NEVER = Kind("never", "OPEN")
LEFT = Kind("left", "OPEN", "exponential")
REPLAYING = Kind("replaying", "REPLAYING", "exponential")
EXHAUSTED = Kind("exhausted", "EXHAUSTED", "exponential")
CLOSED = Kind("closed", "RESOLVED", "exponential", 9e9)
KINDS = (SCHEDULED, NEVER, LEFT, REPLAYING, EXHAUSTED, CLOSED)


async def put(database: Database, kind: Kind, number: int = 1, **changes: Any) -> list[str]:
    columns = {**kind._asdict(), "fingerprint": kind.name, **changes}
    columns.pop("name")
    return await letters(database, number, **columns)


@pytest.mark.parametrize(
    ("text", "kinds"),
    [
        ("is:scheduled", {SCHEDULED}),
        ("is:unscheduled", {NEVER, LEFT}),
        ("is:needs-you", {NEVER, LEFT, EXHAUSTED}),
        ("is:heals-itself", {SCHEDULED, REPLAYING}),
        ("is:open", {SCHEDULED, NEVER, LEFT}),
        ("is:open -is:scheduled", {NEVER, LEFT}),
        ("is:live -is:needs-you", {SCHEDULED, REPLAYING}),
        ("-is:needs-you", {SCHEDULED, REPLAYING, CLOSED}),
        ("-is:heals-itself", {NEVER, LEFT, EXHAUSTED, CLOSED}),
        ("is:scheduled,unscheduled", {SCHEDULED, NEVER, LEFT}),
        ("is:scheduled,resolved", {SCHEDULED, CLOSED}),
        ("is:scheduled is:unscheduled", set[Kind]()),
        ("is:needs-you is:heals-itself", set[Kind]()),
        ("is:needs-you step:charge -category:network", {NEVER, LEFT, EXHAUSTED}),
    ],
)
async def test_a_query_finds_letters_and_their_groups_alike(
    database: Database, text: str, kinds: set[Kind]
) -> None:
    wanted, names = set(), {each.name for each in kinds}
    for kind in KINDS:
        await occur(database, occurrence(fingerprint=kind.name))
        ids = await put(database, kind, 2)
        wanted |= set(ids) if kind in kinds else set()
        await put(database, kind, org="other")
    lists, groups = DeadLetterStore(database), Groups(database)
    assert {each.id for each in (await lists.page(parse(text), "acme", 500)).lines} == wanted
    assert (await lists.count(parse(text), "acme")).number == len(wanted)
    assert set(await lists.ids(database, parse(text), "acme", 500)) == wanted
    found = (await groups.page(parse(text, GROUPS), "acme", 500)).lines
    assert {each.group.fingerprint for each in found} == names
    assert (await groups.count(parse(text, GROUPS), "acme")).number == len(names)


async def test_a_record_tells_how_many_will_be_redriven_and_how_replays_went(database: Database) -> None:
    for kind in (SCHEDULED, SCHEDULED, NEVER, LEFT, REPLAYING, CLOSED):
        await put(database, kind, fingerprint="f1")
    await put(database, NEVER, fingerprint="f2")
    for state, org in (("SUCCEEDED", "acme"), ("SUCCEEDED", "acme"), ("FAILED", "acme"), ("FAILED", "other")):
        await replay(database, state=state, org=org)
    found = await Groups(database).records("acme", ["f1", "f2", "f3", "f1"])
    assert found == {"f1": GroupRecord(2, 2, 1), "f2": GroupRecord(), "f3": GroupRecord()}
    assert await Groups(database).records("acme", []) == {}


async def test_letters_are_spread_over_states_and_queues(database: Database) -> None:
    await put(database, NEVER, 3, fingerprint="f1")
    await put(database, SCHEDULED, 2, fingerprint="f1")
    await put(database, CLOSED, 1, fingerprint="f1", queue="mail")
    await put(database, NEVER, 1, fingerprint="f1", org="other")
    expected = [GroupShare("OPEN", "default", 5), GroupShare("RESOLVED", "mail", 1)]
    assert await Groups(database).spread("acme", "f1") == expected
    assert await Groups(database).spread("acme", "f2") == []
