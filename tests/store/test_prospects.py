"""Needs you, heals itself: letters, groups and records agree, on both databases."""

from __future__ import annotations

from typing import Any, NamedTuple

import pytest
from tests.store.build import ask
from tests.store.by_hand import letters, replay
from tests.store.test_groups import occur, occurrence

from redrive.model.failure_group import GroupRecord, GroupShare
from redrive.policy.query import parse
from redrive.policy.query_language import GROUPS
from redrive.store.database import Database
from redrive.store.dead_letters import DeadLetterStore
from redrive.store.groups import Groups
from redrive.store.inspection import Inspection
from redrive.store.tallies import Live, Tallies


class Kind(NamedTuple):
    """A kind of letter. Its letters form a group of the same name."""

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


async def test_a_record_counts_scheduled_redrives_and_outcomes_of_replays(database: Database) -> None:
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


STUCK = Kind("stuck", "OPEN", "exponential", 9e9)
WAITING = Kind("waiting", "OPEN", "exponential", 9e9)


async def wait(database: Database, letter_id: str, *others: str) -> None:
    for other in others:
        columns = "redrive.dead_letter_dependencies (letter_id, depends_on, org)"
        await ask(database, f"INSERT INTO {columns} VALUES (:id, :other, 'acme')", id=letter_id, other=other)


async def put_waiting(database: Database) -> tuple[str, str]:
    """Insert a letter that waits for letters without a redrive, and one that waits for a scheduled one."""
    for kind in (STUCK, WAITING):
        await occur(database, occurrence(fingerprint=kind.name))
    [stuck] = await put(database, STUCK)
    [waiting] = await put(database, WAITING)
    others = [
        *await put(database, EXHAUSTED, fingerprint="other", step="other"),
        *await put(database, Kind("other", "ARCHIVED"), step="other"),
    ]
    await wait(database, stuck, *others, *await put(database, SCHEDULED, fingerprint="other", step="other"))
    await wait(database, waiting, *await put(database, SCHEDULED, fingerprint="other", step="other"))
    return stuck, waiting


async def test_12_gap_9_a_letter_that_waits_for_a_letter_without_a_redrive_needs_you(
    database: Database,
) -> None:
    stuck, waiting = await put_waiting(database)
    lists, groups, both = DeadLetterStore(database), Groups(database), {stuck, waiting}
    for text, expected in (
        ("is:needs-you", {stuck}),
        ("is:unscheduled", {stuck}),
        ("is:needs-you workflow:checkout -fp:f99999", {stuck}),
        ("is:heals-itself", {waiting}),
        ("is:scheduled", {waiting}),
        ("is:live", both),
        ("-is:needs-you", {waiting}),
    ):
        query = parse(f"{text} -step:other")
        assert {line.id for line in (await lists.page(query, "acme", 9)).lines} == expected, text
        assert (await lists.count(query, "acme")).number == len(expected), text
        assert set(await lists.ids(database, query, "acme", 9)) == expected, text
        named = parse(f'{text} id:"{stuck}","{waiting}"')
        assert {line.id for line in (await lists.page(named, "acme", 9)).lines} == expected, text
    for text, kinds in (("is:needs-you", {"stuck"}), ("is:heals-itself", {"waiting"})):
        found = (await groups.page(parse(text, GROUPS), "acme", 9)).lines
        assert {line.group.fingerprint for line in found} == kinds
    records = await groups.records("acme", ["stuck", "waiting"])
    assert {name: record.scheduled for name, record in records.items()} == {"stuck": 0, "waiting": 1}


async def test_12_gap_9_it_counts_as_open_and_shows_no_next_redrive(database: Database) -> None:
    stuck, waiting = await put_waiting(database)
    lists = DeadLetterStore(database)
    counted = await Tallies(database).live("acme")
    assert counted == Live(open=1, scheduled=3, exhausted=1)
    assert await Tallies(database).live("other") == Live()
    inspected = await Inspection(database).letters()
    assert (inspected.live, inspected.fullest) == (counted, 5)
    expected = {stuck: (None, False), waiting: (None, True)}
    for lines in (
        await lists.lines_by_ids([stuck, waiting], "acme"),
        (await lists.page(parse("-step:other"), "acme", 9)).lines,
        [await lists.get(letter_id, "acme") for letter_id in (stuck, waiting)],
    ):
        assert {line.id: (line.next_redrive_at, line.waits) for line in lines} == expected
    [stored] = await ask(
        database, "SELECT next_redrive_at FROM redrive.dead_letters WHERE id = :id", id=stuck
    )
    assert stored == (9e9,)
    await ask(database, "UPDATE redrive.dead_letters SET state = 'RESOLVED' WHERE fingerprint = 'other'")
    assert await Tallies(database).live("acme") == Live(scheduled=2)
    for line in await lists.lines_by_ids([stuck, waiting], "acme"):
        assert (line.next_redrive_at, line.waits) == (9e9, False)


async def test_12_gap_9_only_its_age_counts_among_what_needs_you(database: Database) -> None:
    """The doctor names the age of the oldest letter that needs you."""
    [stuck] = await put(database, STUCK, age=3600.0)
    await put(database, SCHEDULED, age=9000.0)
    assert (await Inspection(database).letters()).oldest_seconds is None
    await wait(database, stuck, *await put(database, Kind("other", "IGNORED")))
    seconds = (await Inspection(database).letters()).oldest_seconds
    assert seconds is not None
    assert 3600.0 <= seconds < 9000.0
