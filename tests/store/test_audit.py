"""The audit chains on both databases: written together with the change, read in pages, verified (W16)."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import pytest
from tests.store.build import ask, value

from redrive.errors import InvalidValueError
from redrive.failures.audit import Audit, AuditEntry
from redrive.model.audit import Action, Head, NewEntry
from redrive.model.caller import Caller
from redrive.store.audit import MAX_SUBJECTS, PAGE
from redrive.store.database import Database
from redrive.store.store import Store

HOSTILE = "a\x00b\ud800 'x' \"y\" \\ %_ ␛ \u2028 🙂 '; DROP TABLE audit; --"


@pytest.fixture
def store(database: Database) -> Store:
    return Store(database)


@pytest.fixture
def audit(store: Store) -> Audit:
    return Audit(store, Caller("acme", "ana"))


def entry(*subjects: str, org: str = "acme", **changes: Any) -> NewEntry:
    return NewEntry(org=org, actor="ana", action=Action.DEAD_LETTER_NOTED, subjects=subjects)._replace(
        **changes
    )


async def append(store: Store, *entries: NewEntry) -> None:
    async with store.database.transaction() as session:
        await store.audit.append(session, entries)


async def append_each(store: Store, number: int, **changes: Any) -> None:
    for each in range(1, number + 1):
        await append(store, entry(f"letter-{each}", **changes))


async def everything(audit: Audit) -> Sequence[AuditEntry]:
    return (await audit.list(size=500)).entries


async def faults(audit: Audit, head: Head | None = None) -> list[tuple[str, int]]:
    return [(each.kind, each.sequence) for each in (await audit.verify(head)).faults]


# Appending


async def test_an_entry_has_actor_action_subject_and_time(store: Store, audit: Audit) -> None:
    async with store.database.transaction() as session:
        [[now]] = await ask(session, "SELECT :now")
        await store.audit.append(session, [entry("letter-1", detail={"reason": "known", "n": [1, None]})])
    [found] = await everything(audit)
    assert found[:6] == (
        1,
        now,
        "ana",
        "dead_letter.noted",
        ("letter-1",),
        {"reason": "known", "n": [1, None]},
    )
    assert await audit.head() == Head("acme", 1, found.hash)


async def test_entries_of_one_transaction_follow_each_other(store: Store, audit: Audit) -> None:
    await append(store, entry("a"), entry("b"), entry())
    await append(store, entry("c"))
    await append(store)
    found = await everything(audit)
    assert [(each.sequence, each.subjects) for each in found] == [
        (4, ("c",)),
        (3, ()),
        (2, ("b",)),
        (1, ("a",)),
    ]
    assert (await audit.verify()).sound


async def test_a_batch_is_one_entry_with_all_its_subjects(store: Store, audit: Audit) -> None:
    ids = tuple(f"letter-{number}" for number in range(500))
    await append(store, entry(*ids, detail={"reason": "x"}))
    [found] = await everything(audit)
    assert (found.subjects, found.detail) == (ids, {"reason": "x"})


async def test_very_many_subjects_make_several_entries_with_the_total_number(
    store: Store, audit: Audit
) -> None:
    ids = tuple(f"letter-{number}" for number in range(2 * MAX_SUBJECTS + 1))
    await append(store, entry(*ids, detail={"reason": "x"}))
    found = sorted(await everything(audit))
    assert [len(each.subjects) for each in found] == [MAX_SUBJECTS, MAX_SUBJECTS, 1]
    assert tuple(each for one in found for each in one.subjects) == ids
    assert all(each.detail == {"reason": "x", "subjects": len(ids)} for each in found)


async def test_each_org_has_its_own_chain(store: Store, audit: Audit) -> None:
    other = Audit(store, Caller("other", "bob"))
    await append(store, entry("a"), entry("b", org="other"), entry("c"))
    await append(store, entry("d", org="other"))
    assert [each.subjects for each in await everything(audit)] == [("c",), ("a",)]
    assert [each.subjects for each in await everything(other)] == [("d",), ("b",)]
    await ask(store.database, "UPDATE redrive.audit SET actor = 'eve' WHERE org = 'other' AND sequence = 1")
    assert await faults(audit) == []
    assert await faults(other) == [("edited", 1)]
    assert await faults(audit, await other.head()) == [("foreign head", 2)]


async def test_a_rollback_leaves_no_gap(store: Store, audit: Audit) -> None:
    for _ in range(2):  # before and after the organization has a head
        with pytest.raises(ZeroDivisionError):
            async with store.database.transaction() as session:
                await store.audit.append(session, [entry("lost"), entry("lost", org="other")])
                raise ZeroDivisionError
        await append(store, entry("kept"), entry("kept", org="other"))
    assert [(each.sequence, each.subjects) for each in await everything(audit)] == [
        (2, ("kept",)),
        (1, ("kept",)),
    ]
    assert (await audit.verify()).sound


async def test_concurrent_appenders_make_one_chain_without_gaps(
    store: Store, database: Database, audit: Audit
) -> None:
    others = [Store(database.another()) for _ in range(4)]
    orgs = ("acme", "other", "third")

    async def busy(number: int, mine: Store) -> None:
        for turn in range(10):
            several = [
                entry(f"{number}-{turn}", org=org) for org in orgs[turn % 2 :][:: 1 if number % 2 else -1]
            ]
            await append(mine, *several)

    await asyncio.gather(*(busy(number, each) for number, each in enumerate(others)))
    for org, number in (("acme", 20), ("other", 40), ("third", 40)):
        one = Audit(store, Caller(org, "ana"))
        verdict = await one.verify()
        assert (verdict.sound, verdict.checked) == (True, number)
        assert len({each.subjects for each in await everything(one)}) == number
    for each in others:
        await each.close()


async def test_a_head_that_was_removed_does_not_stop_the_work(store: Store, audit: Audit) -> None:
    await append_each(store, 2)
    await ask(store.database, "DELETE FROM redrive.audit_heads")
    assert await faults(audit) == [("added", 1)]
    await append(store, entry("a"))
    assert (await audit.head()).sequence == 3
    assert (await audit.verify()).sound


async def test_hostile_texts_are_kept_and_verified(store: Store, audit: Audit) -> None:
    await append(store, entry(HOSTILE, actor=HOSTILE, detail={HOSTILE: [HOSTILE, float("nan"), 2**80]}))
    await append(store, entry(HOSTILE, "b"))
    assert (await audit.verify()).sound
    together, alone = await everything(audit)
    shown = HOSTILE.replace("\x00", "␀").replace("\ud800", "?")
    assert (alone.actor, alone.subjects, together.subjects) == (shown, (shown,), (shown, "b"))
    assert alone.detail == {HOSTILE: [HOSTILE, "nan", 2**80]}
    assert (await audit.list(actor=HOSTILE, subject=HOSTILE)).entries == [alone]
    assert await audit.about(HOSTILE) == [together, alone]


# Reading


async def test_pages_go_from_the_newest_to_the_oldest(store: Store, audit: Audit) -> None:
    await append_each(store, 5)
    first = await audit.list(size=2)
    await append(store, entry("later"))
    second = await audit.list(size=2, cursor=first.next_cursor)
    third = await audit.list(size=2, cursor=second.next_cursor)
    pages = [[each.sequence for each in page.entries] for page in (first, second, third)]
    assert pages == [[5, 4], [3, 2], [1]]
    assert third.next_cursor is None
    assert (await audit.list(size=6)).next_cursor is None


async def test_entries_are_found_by_actor_action_subject_and_time(store: Store, audit: Audit) -> None:
    await append(store, entry("a"), entry("b", actor="bob"), entry("b", action=Action.DEAD_LETTER_RESOLVED))
    await ask(store.database, "UPDATE redrive.audit SET at = 1000.0 + sequence")

    async def sequences(**wanted: Any) -> list[int]:
        return [each.sequence for each in (await audit.list(**wanted)).entries]

    assert await sequences(actor="bob") == [2]
    assert await sequences(action="dead_letter.resolved") == [3]
    assert await sequences(subject="b") == [3, 2]
    assert await sequences(subject="b", action=Action.DEAD_LETTER_NOTED) == [2]
    assert await sequences(since=1002.0) == [3, 2]
    assert await sequences(until=1002.0) == [1]
    assert await sequences(since=datetime.fromtimestamp(1002.0, UTC), until=1003, subject="b") == [2]
    assert await sequences(actor="nobody") == []


async def test_automatic_actions_of_engines_are_found_too(store: Store, audit: Audit) -> None:
    """No index by action or actor contains such an entry."""
    moved = entry("a", actor="redrive", action=Action.DEAD_LETTER_MOVED)
    await append(store, moved, entry("b", actor="redrive"), entry("c", action=Action.DEAD_LETTER_MOVED))

    async def sequences(**wanted: Any) -> list[int]:
        return [each.sequence for each in (await audit.list(**wanted)).entries]

    assert await sequences(actor="redrive") == [2, 1]
    assert await sequences(action=Action.DEAD_LETTER_MOVED) == [3, 1]
    assert await sequences(action=Action.DEAD_LETTER_MOVED, actor="ana") == [3]
    assert await sequences(action=Action.DEAD_LETTER_NOTED, actor="redrive") == [2]


async def test_entries_of_a_time_are_found_though_they_do_not_lie_in_its_order(
    store: Store, audit: Audit
) -> None:
    """A transaction that began earlier may append later."""
    await append_each(store, 4)
    await ask(store.database, "UPDATE redrive.audit SET at = 1005.0 - sequence")

    assert [each.sequence for each in (await audit.list(since=1002.0)).entries] == [3, 2, 1]
    assert [each.sequence for each in (await audit.list(until=1003.0)).entries] == [4, 3]
    assert (await audit.list(since=2000.0)).entries == []


@pytest.mark.parametrize(
    "wrong",
    [
        {"cursor": "x"},
        {"cursor": "-1"},
        {"cursor": "9" * 30},
        {"size": 0},
        {"size": 501},
        {"action": "no"},
        {"since": datetime(2026, 1, 1)},  # noqa: DTZ001
    ],
)
async def test_invalid_filters_are_rejected(audit: Audit, wrong: dict[str, Any]) -> None:
    with pytest.raises(InvalidValueError):
        await audit.list(**wrong)


async def test_entries_about_one_letter_include_shared_entries(store: Store, audit: Audit) -> None:
    await append(store, entry("letter-1", "letter-2"), entry("letter-1"), entry("letter-10", "letter-2"))
    await append(store, entry("letter-1", "letter-3"), entry("letter-1", "x", org="other"))
    assert [each.sequence for each in await audit.about("letter-1")] == [4, 2, 1]
    assert [each.sequence for each in await audit.about("letter-1", size=2)] == [4, 2]
    [[latest]] = await ask(store.database, "SELECT max(at) FROM redrive.audit WHERE org = 'acme'")
    assert [each.sequence for each in await audit.about("letter-1", latest)] == [4, 2]


# Verifying


async def test_an_empty_chain_is_sound(audit: Audit) -> None:
    verdict = await audit.verify()
    assert (verdict.sound, verdict.checked, verdict.head) == (True, 0, Head("acme", 0, ""))


async def test_a_chain_of_several_pages_is_verified_as_a_whole(store: Store, audit: Audit) -> None:
    await append(store, *(entry(f"letter-{number}") for number in range(2 * PAGE + 1)))
    verdict = await audit.verify()
    assert (verdict.sound, verdict.checked) == (True, 2 * PAGE + 1)
    assert str(verdict) == "The audit log of 'acme' is intact: 2,001 entries checked."
    await ask(store.database, "UPDATE redrive.audit SET detail = '{\"a\":1}' WHERE sequence = 2000")
    verdict = await audit.verify()
    assert not verdict.sound
    assert "edited at 2,000" in str(verdict)


@pytest.mark.parametrize(
    "change",
    [
        "at = at + 0.001",
        "actor = 'eve'",
        "action = 'dead_letter.resolved'",
        "subject = 'letter-4'",
        "subjects = '[]'",
        "detail = '{} '",
        "hash = 'x'",
    ],
)
async def test_an_edit_of_any_column_is_found(store: Store, audit: Audit, change: str) -> None:
    await append_each(store, 5)
    await ask(store.database, f"UPDATE redrive.audit SET {change} WHERE sequence = 3")
    assert (await faults(audit))[0] == ("edited", 3)


async def test_an_entry_that_was_given_to_another_org_is_missed_in_both(store: Store, audit: Audit) -> None:
    await append_each(store, 3)
    await ask(store.database, "UPDATE redrive.audit SET org = 'other' WHERE sequence = 2")
    assert await faults(audit) == [("deleted", 2)]
    assert ("deleted", 1) in await faults(Audit(store, Caller("other", "bob")))


@pytest.mark.parametrize(
    ("tampering", "expected"),
    [
        ("DELETE FROM redrive.audit WHERE sequence = 3", [("deleted", 3)]),
        ("DELETE FROM redrive.audit WHERE sequence <= 2", [("deleted", 1)]),
        ("DELETE FROM redrive.audit WHERE sequence > 3", [("truncated", 4)]),
        ("DELETE FROM redrive.audit", [("truncated", 1)]),
    ],
)
async def test_a_deletion_is_found(
    store: Store, audit: Audit, tampering: str, expected: list[tuple[str, int]]
) -> None:
    await append_each(store, 5)
    await ask(store.database, tampering)
    assert await faults(audit) == expected


async def test_a_truncation_stays_visible_when_work_continues(store: Store, audit: Audit) -> None:
    await append_each(store, 5)
    await ask(store.database, "DELETE FROM redrive.audit WHERE sequence > 3")
    await append_each(store, 2)
    assert await faults(audit) == [("deleted", 4)]


async def test_entries_that_changed_places_are_found(store: Store, audit: Audit) -> None:
    await append_each(store, 5)
    for old, new in ((2, 99), (4, 2), (99, 4)):
        await ask(
            store.database,
            "UPDATE redrive.audit SET sequence = :new WHERE sequence = :old",
            old=old,
            new=new,
        )
    assert await faults(audit) == [("reordered", 2), ("reordered", 4)]


async def test_a_truncation_that_was_covered_up_is_found_by_an_exported_head(
    store: Store, audit: Audit
) -> None:
    await append_each(store, 3)
    early = await audit.head()
    await append_each(store, 2)
    late = await audit.head()
    assert await faults(audit, early) == await faults(audit, late) == []
    await ask(store.database, "DELETE FROM redrive.audit WHERE sequence > 3")
    hash_ = await value(store.database, "SELECT hash FROM redrive.audit WHERE sequence = 3")
    await ask(store.database, "UPDATE redrive.audit_heads SET sequence = 3, hash = :hash", hash=hash_)
    assert await faults(audit) == await faults(audit, early) == []
    assert await faults(audit, late) == [("truncated", 4)]
    await append_each(store, 2)
    assert await faults(audit, late) == [("foreign head", 5)]


async def test_verifying_while_others_append_finds_nothing(
    store: Store, database: Database, audit: Audit
) -> None:
    await append_each(store, 3)
    other = Store(database.another())
    appending = asyncio.create_task(append_each(other, 20))
    verdicts = await asyncio.gather(*(audit.verify() for _ in range(5)))
    await appending
    assert all(verdict.sound for verdict in verdicts)
    assert (await audit.verify()).checked == 23
    await other.close()


async def test_a_damaged_entry_can_still_be_listed(store: Store, audit: Audit) -> None:
    await append(store, entry("a", "b", detail={"x": 1}))
    await ask(store.database, "UPDATE redrive.audit SET subjects = 'no', detail = '[]'")
    [found] = await everything(audit)
    assert (found.subjects, found.detail) == ((), {})


def test_a_head_can_be_written_down_and_read_again() -> None:
    head = Head("acme:eu", 7, "a63f")
    assert Head.parse(f" {head}\n") == head
    for odd in ("", "7", "seven:a:acme", "7:a63f:", "²:a:b"):
        with pytest.raises(InvalidValueError, match="an audit head looks like"):
            Head.parse(odd)
