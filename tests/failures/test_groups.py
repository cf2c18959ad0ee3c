"""Failure groups as an operator works with them (W8, W13, W16)."""

from __future__ import annotations

import base64
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from tests.engine.workbench import EventCollector, bench, new_app, sql

from redrive.app import Redrive
from redrive.errors import (
    AmbiguousIdError,
    DriftError,
    InvalidValueError,
    NotFoundError,
    StoreError,
    TransitionError,
)
from redrive.failures.groups import FailureGroups, settle
from redrive.model.audit import Action
from redrive.model.caller import Caller
from redrive.model.event import DeadLetterChanged, GroupChanged
from redrive.model.failure_group import FailureGroup, LetterCounts
from redrive.parts import parts_of
from redrive.testing import EPOCH, Harness

ANA = Caller("default", "ana")
STRANGER = Caller("other", "eve")


class Bench:
    """An application in memory whose task fails with the given error."""

    def __init__(self, app: Redrive, test: Harness) -> None:
        self.app = app
        self.test = test
        self.emitted = EventCollector(app)
        self.groups = self.of(ANA)

    def of(self, caller: Caller) -> FailureGroups:
        app = self.app
        return FailureGroups(
            parts_of(app).store, parts_of(app).event_bus, parts_of(app).redactor, parts_of(app).clock, caller
        )

    async def fail(self, how: str = "broken", times: int = 1) -> FailureGroup:
        for _ in range(times):
            await self.app.start("work", how)
        await self.test.drain()
        return (await self.groups.list(f'"it is {how}"')).lines[0].group

    async def state(self, group: FailureGroup) -> str:
        return (await self.groups.view(group.fingerprint)).group.state

    async def audit(self) -> list[tuple[Any, ...]]:
        """Return the audit entries about groups and their letters, without those that create letters."""
        rows = "SELECT actor, action, subject, detail FROM audit WHERE action <> ?1 ORDER BY org, sequence"
        return [tuple(row) for row in await sql(self.app, rows, Action.DEAD_LETTER_MOVED.value)]


@asynccontextmanager
async def failing() -> AsyncIterator[Bench]:
    app = new_app()
    errors = {"broken": ValueError, "odd": TypeError, "missing": LookupError}

    @app.task(name="work")
    async def work(how: str) -> None:
        raise errors[how](f"it is {how}")

    async with bench(app) as test:
        yield Bench(app, test)


def forged(*position: object) -> str:
    return base64.urlsafe_b64encode(json.dumps(position).encode()).decode()


# Reading groups


async def test_the_newest_message_is_the_title_and_the_pattern_is_kept() -> None:
    app = new_app()

    @app.task(name="ship")
    async def ship(name: str) -> None:
        raise ValueError(f"the parcel {name!r}\nhas no country, says Bearer {name * 20}")

    async with bench(app) as test:
        for name in ("first", "second"):
            await app.start("ship", name)
            await test.drain()
        [line] = (await app.failures().groups.list()).lines
    assert line.group.title == "the parcel 'second' has no country, says Bearer [redacted:bearer_token]"
    assert line.group.pattern == "the parcel <quoted> has no country, says Bearer [redacted:bearer_token]"


async def test_a_failure_that_occurs_again_is_one_group() -> None:
    async with failing() as at:
        await at.fail("odd")
        group = await at.fail("broken", 3)
        found = await at.groups.view(group.fingerprint)
        lines = (await at.groups.list()).lines
    assert sorted(each.group.occurrences for each in lines) == [1, 3]
    assert (found.group.title, found.group.task, found.group.error_type) == (
        "it is broken",
        "work",
        "ValueError",
    )
    assert (found.group.state, found.letters, dict(found.replays)) == ("OPEN", LetterCounts(open=3), {})
    assert [each[:2] for each in found.versions] == [("unversioned", 3)]
    assert found.sample == found.group.sample


async def test_a_group_is_found_by_the_beginning_of_its_fingerprint() -> None:
    async with failing() as at:
        group = await at.fail()
        digits = group.fingerprint.removeprefix("v1:")
        for name in (group.fingerprint, digits, digits[:6], f"v1:{digits[:6]}"):
            assert (await at.groups.view(name)).group == group
        for name in (digits[:5], "0" * 6, "", "%", "\x00" * 8, "v2:" + digits, "a" * 1_000):
            with pytest.raises(NotFoundError, match="give its fingerprint, or at least the first 6 digits"):
                await at.groups.view(name)


async def test_a_beginning_that_several_groups_share_is_refused() -> None:
    async with failing() as at:
        first, second = await at.fail("odd"), await at.fail("broken")
        for number, group in enumerate((first, second)):
            change = "UPDATE failure_groups SET fingerprint = ?2 WHERE fingerprint = ?1"
            await sql(at.app, change, group.fingerprint, f"v1:abcdef{number}")
        with pytest.raises(AmbiguousIdError, match="2 failure groups start with 'abcdef'") as refused:
            await at.groups.view("abcdef")
        assert [candidate.id for candidate in refused.value.candidates] == ["v1:abcdef0", "v1:abcdef1"]
        assert (await at.groups.view("abcdef1")).group.fingerprint == "v1:abcdef1"


async def test_a_list_is_read_page_by_page_in_either_order() -> None:
    async with failing() as at:
        await at.fail("odd", 2)
        at.test.clock.advance(1.0)
        await at.fail("missing", 3)
        at.test.clock.advance(1.0)
        await at.fail("broken", 1)
        for sort, numbers in (("last_seen", [1, 3, 2]), ("occurrences", [3, 2, 1])):
            found, cursor, pages = [], None, 0
            while pages == 0 or cursor is not None:
                page = await at.groups.list(sort=sort, size=1, cursor=cursor)
                found += [each.group.occurrences for each in page.lines]
                cursor, pages = page.next_cursor, pages + 1
            assert (found, pages) == (numbers, 3)
        assert len((await at.groups.list("group:open LookupError")).lines) == 1
        assert (await at.groups.list("group:resolved")).lines == ()


@pytest.mark.parametrize(
    "wrong",
    [
        {"size": 0},
        {"size": 501},
        {"sort": "color"},
        {"query": "group:broken"},
        {"query": "\x00"},
        {"query": "x" * 4_001},
        {"query": "queue:payments"},
        {"cursor": "nonsense"},
        {"cursor": ""},
        {"cursor": forged("last_seen", True, "x")},
        {"cursor": "ü"},
        {"cursor": forged("last_seen", 1e300, "x")},
        {"cursor": forged("last_seen", 1.0, "\x00")},
        {"cursor": forged("last_seen", 1.0)},
    ],
)
async def test_a_list_that_makes_no_sense_is_refused(wrong: dict[str, Any]) -> None:
    async with failing() as at:
        with pytest.raises(InvalidValueError):
            await at.groups.list(**wrong)


async def test_a_cursor_belongs_to_its_order() -> None:
    async with failing() as at:
        await at.fail("odd")
        await at.fail("broken")
        cursor = (await at.groups.list(size=1)).next_cursor
        with pytest.raises(InvalidValueError, match="does not belong to a list sorted by occurrences"):
            await at.groups.list(size=1, sort="occurrences", cursor=cursor)


async def test_occurrences_are_counted_over_time() -> None:
    async with failing() as at:
        await at.fail("broken", 2)
        at.test.clock.advance(50.0)
        group = await at.fail("broken", 1)
        at.test.clock.advance(5.0)
        found = await at.groups.occurrences(group.fingerprint, seconds=100.0, buckets=4)
        same = await at.groups.occurrences(group.fingerprint, seconds=timedelta(seconds=100), buckets=4)
        with pytest.raises(
            InvalidValueError, match=r"seconds must be a number of seconds from 1 to 31,536,000, got 0\.5"
        ):
            await at.groups.occurrences(group.fingerprint, seconds=timedelta(milliseconds=500))
    assert found == same == (EPOCH - 45.0, 25.0, (0, 2, 0, 1), False)


# Changing the state


async def test_every_state_has_a_reason_an_audit_entry_and_an_event() -> None:
    """W16: the entry is written with the change."""
    async with failing() as at:
        group = await at.fail()
        key = group.fingerprint
        after = [
            await at.groups.acknowledge(key[:9], "I am on it"),
            await at.groups.ignore(key, "known", beyond=5, version="v1"),
            await at.groups.reopen(key, "not so"),
            (await at.groups.resolve(key, "deployed")).group,
        ]
        entries = await at.audit()
        told = at.emitted.of(GroupChanged)
    states = ["ACKNOWLEDGED", "IGNORED", "OPEN", "RESOLVED"]
    assert [each.state for each in after] == states
    assert [each.change_reason for each in after] == ["I am on it", "known", "not so", "deployed"]
    assert {each.changed_by for each in after} == {"ana"}
    assert [each.snapshot[2:] for each in after] == [(None,) * 3, (None, 6, "v1"), (None,) * 3, (None,) * 3]
    assert [each[:3] for each in entries] == [
        ("ana", f"group.{word}", key) for word in ("acknowledged", "ignored", "reopened", "resolved")
    ]
    assert json.loads(entries[1][3]) == {
        "before": "ACKNOWLEDGED",
        "reason": "known",
        "ignored_beyond": 6,
        "ignored_version": "v1",
    }
    assert told == [
        GroupChanged(org="default", fingerprint=key, before=before, after=state, by="ana")
        for before, state in zip(["OPEN", *states], states, strict=False)
    ]


async def test_a_transition_that_the_table_does_not_allow_changes_nothing() -> None:
    """I10"""
    async with failing() as at:
        group = await at.fail()
        await at.groups.resolve(group.fingerprint, "fixed")
        with pytest.raises(TransitionError, match="cannot change from RESOLVED to IGNORED"):
            await at.groups.ignore(group.fingerprint, "whatever")
        with pytest.raises(TransitionError, match="cannot change from RESOLVED to RESOLVED"):
            await at.groups.resolve(group.fingerprint, "again")
        assert await at.state(group) == "RESOLVED"
        assert len(await at.audit()) == len(at.emitted.of(GroupChanged)) == 1


async def test_without_its_audit_entry_nothing_changes_and_no_event_is_emitted() -> None:
    """W16: the entry is written in the same transaction."""
    async with failing() as at:
        group = await at.fail("broken", 2)
        await sql(at.app, "ALTER TABLE audit RENAME TO hidden")
        with pytest.raises(StoreError):
            await at.groups.resolve(group.fingerprint, "fixed", letters=True)
        found = await at.groups.view(group.fingerprint)
        assert (found.group, found.letters) == (group, LetterCounts(open=2))
        assert not [*at.emitted.of(GroupChanged), *at.emitted.of(DeadLetterChanged)]


async def test_a_reason_is_redacted_before_it_is_stored() -> None:
    """W14"""
    async with failing() as at:
        group = await at.fail()
        after = await at.groups.acknowledge(group.fingerprint, "password=hunter2secret in the log")
        entries = await at.audit()
    assert "hunter2secret" not in str(after) + str(entries)
    assert "in the log" in str(after.change_reason)


@pytest.mark.parametrize("reason", ["x" * 2001, "a\x00b", "\ud800", 7, None])
async def test_a_reason_that_cannot_be_stored_is_refused(reason: Any) -> None:
    async with failing() as at:
        group = await at.fail()
        with pytest.raises(InvalidValueError, match="reason"):
            await at.groups.resolve(group.fingerprint, reason)
        assert await at.state(group) == "OPEN"


async def test_a_group_of_another_org_does_not_exist() -> None:
    """W13"""
    async with failing() as at:
        group = await at.fail()
        key, foreign = group.fingerprint, at.of(STRANGER)
        assert (await foreign.list()).lines == ()
        assert (await foreign.count()).number == 0
        for attempt in (
            foreign.view(key),
            foreign.occurrences(key),
            foreign.acknowledge(key),
            foreign.resolve(key, "", letters=True),
            foreign.ignore(key, ""),
            foreign.reopen(key, ""),
        ):
            with pytest.raises(NotFoundError, match="found no failure group"):
                await attempt
        found = await at.groups.view(key)
        assert (found.group.state, found.letters.open) == ("OPEN", 1)


# Letters with their group


async def test_a_group_is_resolved_with_its_letters_when_asked() -> None:
    async with failing() as at:
        await at.fail("odd")
        group = await at.fail("broken", 3)
        found = await at.groups.resolve(group.fingerprint, "fixed in v2", letters=True)
        letters = await sql(
            at.app,
            "SELECT id, state, resolved_by, resolution FROM dead_letters WHERE fingerprint = ?1 ORDER BY id",
            group.fingerprint,
        )
        counts = [each.letters for each in (await at.groups.list()).lines]
        entries, told = await at.audit(), at.emitted.of(DeadLetterChanged)
    assert (found.ids, found.remaining) == (tuple(each[0] for each in letters), 0)
    assert [tuple(each[1:]) for each in letters] == [("RESOLVED", "ana", "fixed in v2")] * 3
    assert sorted(counts) == [LetterCounts(closed=3), LetterCounts(open=1)]
    assert [each[1] for each in entries] == ["dead_letter.resolved", "group.resolved"]
    assert told == [
        DeadLetterChanged(org="default", dlq_id=each[0], before="OPEN", after="RESOLVED", by="ana")
        for each in letters
    ]


async def test_without_being_asked_letters_stay_as_they_are() -> None:
    async with failing() as at:
        group = await at.fail("broken", 2)
        assert (await at.groups.resolve(group.fingerprint, "fixed"))[1:] == ((), 2)
        assert (await at.groups.view(group.fingerprint)).letters == LetterCounts(open=2)


@pytest.mark.parametrize("expect", [0, 2, 4])
async def test_other_letters_than_expected_are_not_resolved(expect: int) -> None:
    """The change affects exactly the number of letters that the operator saw."""
    async with failing() as at:
        group = await at.fail("broken", 3)
        said = f"3 dead letters would be resolved with the group, {expect} were expected; nothing"
        with pytest.raises(DriftError, match=said) as refused:
            await at.groups.resolve(group.fingerprint, "fixed", letters=True, expect=expect)
        found = await at.groups.view(group.fingerprint)
        assert (found.group, found.letters) == (group, LetterCounts(open=3))
        assert (refused.value.number, await at.audit()) == (3, [])
        assert not [*at.emitted.of(GroupChanged), *at.emitted.of(DeadLetterChanged)]
        done = await at.groups.resolve(group.fingerprint, "fixed", letters=True, expect=3)
        assert (done.group.state, done.letters) == ("RESOLVED", 3)


async def test_letters_that_are_left_are_resolved_by_asking_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("redrive.failures.groups.MAX_LETTERS", 2)
    async with failing() as at:
        group = await at.fail("broken", 5)
        key = group.fingerprint
        answers = [await at.groups.resolve(key, f"turn {turn}", letters=True) for turn in range(4)]
        entries, told = await at.audit(), at.emitted.of(GroupChanged)
    assert [(each.letters, each.remaining) for each in answers] == [(2, 3), (2, 1), (1, 0), (0, 0)]
    assert {each.group.change_reason for each in answers} == {"turn 0"}
    assert [(each[1], json.loads(each[3])["reason"]) for each in entries] == [
        ("dead_letter.resolved", "turn 0"),
        ("group.resolved", "turn 0"),
        ("dead_letter.resolved", "turn 1"),
        ("dead_letter.resolved", "turn 2"),
    ]
    assert len(told) == 1


# Automatic changes


async def test_a_resolved_group_that_occurs_again_has_regressed() -> None:
    async with failing() as at:
        group = await at.fail()
        await at.groups.resolve(group.fingerprint, "fixed")
        at.test.clock.advance(10.0)
        again = await at.fail()
    assert (again.state, again.regressed_at, again.changed_by) == ("OPEN", EPOCH + 10.0, "redrive")


async def test_an_ignored_group_is_open_beyond_its_count() -> None:
    async with failing() as at:
        group = await at.fail("broken", 2)
        await at.groups.ignore(group.fingerprint, "rare", beyond=2)
        assert (await at.fail("broken", 2)).state == "IGNORED"
        assert (await at.fail("broken", 1)).state == "OPEN"


@pytest.mark.parametrize("until", [60.0, timedelta(minutes=1), datetime.fromtimestamp(EPOCH + 60.0, UTC)])
async def test_an_ignored_group_is_open_when_its_time_is_over(until: Any) -> None:
    async with failing() as at:
        group = await at.fail()
        await at.groups.ignore(group.fingerprint, "tonight", until=until)
        at.test.clock.advance(59.0)
        assert await at.state(group) == "IGNORED"
        at.test.clock.advance(1.0)
        assert await at.state(group) == "OPEN"
        assert len((await at.groups.list("group:open")).lines) == 1
        assert (await at.groups.acknowledge(group.fingerprint)).state == "ACKNOWLEDGED"


@pytest.mark.parametrize(
    "wrong",
    [
        {"until": 0.0},
        {"until": -5.0},
        {"until": timedelta(seconds=-5)},
        {"until": timedelta(days=366)},
        {"until": float("nan")},
        {"until": datetime(2001, 1, 1, tzinfo=UTC)},
        {"until": datetime(2050, 1, 1)},  # noqa: DTZ001
        {"beyond": 0},
        {"beyond": 1.5},
        {"version": "\x00"},
    ],
)
async def test_a_condition_that_makes_no_sense_is_refused(wrong: dict[str, Any]) -> None:
    async with failing() as at:
        group = await at.fail()
        with pytest.raises(InvalidValueError, match=next(iter(wrong))):
            await at.groups.ignore(group.fingerprint, "", **wrong)


async def test_changes_by_time_are_stored_audited_and_emitted() -> None:
    async with failing() as at:
        first, second = await at.fail("odd"), await at.fail("broken")
        for group in (first, second):
            await at.groups.ignore(group.fingerprint, "", until=60.0)
        assert await settle(parts_of(at.app).store, parts_of(at.app).event_bus) == 0
        at.test.clock.advance(60.0)
        assert await settle(parts_of(at.app).store, parts_of(at.app).event_bus) == 2
        assert await settle(parts_of(at.app).store, parts_of(at.app).event_bus) == 0
        stored = await sql(at.app, "SELECT DISTINCT state, ignored_until, changed_by FROM failure_groups")
        entries, told = await at.audit(), at.emitted.of(GroupChanged)[2:]
    assert [tuple(row) for row in stored] == [("OPEN", None, "redrive")]
    assert [each[:2] for each in entries[2:]] == [("redrive", "group.reopened")]
    assert {each.fingerprint for each in told} == {first.fingerprint, second.fingerprint}
    assert {each[2:] for each in told} == {("IGNORED", "OPEN", "redrive")}
