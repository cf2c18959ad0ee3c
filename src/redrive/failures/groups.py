"""Triage of failure groups: acknowledge, resolve, ignore, reopen."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import datetime
from itertools import groupby
from operator import attrgetter

from redrive.clock import Clock
from redrive.duration import Seconds
from redrive.engine.event_bus import EventBus
from redrive.engine.event_reporter import group_changed
from redrive.errors import InvalidValueError
from redrive.failures.group_queries import GroupQueries, not_found
from redrive.failures.preconditions import Version, check_number_resolved, check_version
from redrive.model.audit import Action, NewEntry
from redrive.model.caller import SELF, Caller
from redrive.model.dead_letter import DeadLetterState
from redrive.model.event import DeadLetterChanged, GroupChanged
from redrive.model.failure_group import (
    GROUP_TRANSITIONS,
    FailureGroup,
    GroupChange,
    GroupResolution,
    GroupState,
)
from redrive.policy.bounds import MAX_DELAY_SECONDS, require_seconds, require_whole
from redrive.policy.redact import Redactor
from redrive.policy.user_text import clean_reason, clean_word
from redrive.store.database import Session
from redrive.store.dead_letters import LetterClosing
from redrive.store.groups import GroupWish
from redrive.store.store import Store

MAX_LETTERS = 10_000
MAX_SETTLED = 500

_ACTIONS = {
    GroupState.ACKNOWLEDGED: Action.GROUP_ACKNOWLEDGED,
    GroupState.RESOLVED: Action.GROUP_RESOLVED,
    GroupState.IGNORED: Action.GROUP_IGNORED,
    GroupState.OPEN: Action.GROUP_REOPENED,
}
_UNATTENDED = (DeadLetterState.OPEN, DeadLetterState.EXHAUSTED)
_CONDITIONS = ("ignored_until", "ignored_beyond", "ignored_version")
_Condition = tuple[float | None, int | None, str | None]
_Conditions = Callable[[FailureGroup], _Condition]
_Letters = list[tuple[str, str]]


def _unconditional(group: FailureGroup) -> _Condition:
    return None, None, None


class FailureGroups(GroupQueries):
    """Reads and changes the failure groups of the caller's organization. No other groups are visible.

    A caller that passes the version it has `read` gets a DriftError if the group has changed since.
    """

    def __init__(
        self, store: Store, event_bus: EventBus, redactor: Redactor, clock: Clock, caller: Caller
    ) -> None:
        super().__init__(store, clock, caller)
        self._event_bus = event_bus
        self._redactor = redactor

    async def acknowledge(self, fingerprint: str, reason: str = "", *, read: Version = None) -> FailureGroup:
        """Mark a group as being worked on. It stays acknowledged when the failure occurs again."""
        return await self._change(fingerprint, GroupState.ACKNOWLEDGED, reason, read)

    async def resolve(
        self,
        fingerprint: str,
        reason: str,
        *,
        letters: bool = False,
        expect: int | None = None,
        read: Version = None,
    ) -> GroupResolution:
        """Mark the cause of a group as fixed. If the failure occurs again, the group reopens as regressed.

        With `letters`, also resolve up to 10,000 of its open dead letters; call it again for more. Raises
        DriftError and changes nothing if their number differs from `expect`.
        """
        if letters:
            return await self._resolve_with_letters(fingerprint, reason, expect, read)
        group = await self._change(fingerprint, GroupState.RESOLVED, reason, read)
        left = (await self._found(group.fingerprint)).letters
        return GroupResolution(group, (), left.open + left.exhausted)

    async def ignore(
        self,
        fingerprint: str,
        reason: str,
        *,
        until: datetime | Seconds | None = None,
        beyond: int | None = None,
        version: str | None = None,
        read: Version = None,
    ) -> FailureGroup:
        """Ignore a group until one of these conditions is met, or until a person reopens it.

        until    a time, or seconds or a timedelta from now
        beyond   the failure has occurred more than this many times from now on
        version  the failure occurs in a code version other than this one
        """
        instant = None if until is None else _instant(until, self._clock.now())
        if beyond is not None:
            require_whole("beyond", beyond, 1, 10**9)
        only = None if version is None else clean_word("version", version, self._redactor)

        def conditions(group: FailureGroup) -> _Condition:
            return instant, None if beyond is None else group.occurrences + beyond, only

        return await self._change(fingerprint, GroupState.IGNORED, reason, read, conditions)

    async def reopen(self, fingerprint: str, reason: str, *, read: Version = None) -> FailureGroup:
        return await self._change(fingerprint, GroupState.OPEN, reason, read)

    async def _change(
        self,
        fingerprint: str,
        state: GroupState,
        reason: str,
        read: Version,
        conditions: _Conditions = _unconditional,
    ) -> FailureGroup:
        whole, text = (await self._found(fingerprint)).group.fingerprint, clean_reason(reason, self._redactor)
        async with self._store.database.transaction() as session:
            before = await self._locked(session, whole, read)
            after = await self._changed(session, before, state, text, conditions)
            await self._store.audit.append(session, [self._entry(before, after)])
        self._emit(before, after)
        return after

    async def _resolve_with_letters(
        self, fingerprint: str, reason: str, expect: int | None, read: Version
    ) -> GroupResolution:
        """Resolve the open letters of a group, and the group itself unless it is already resolved."""
        whole, text = (await self._found(fingerprint)).group.fingerprint, clean_reason(reason, self._redactor)
        async with self._store.database.transaction() as session:
            letters = await self._resolve_letters(session, whole, text)
            before = after = await self._locked(session, whole, read)
            check_number_resolved(len(letters), expect)
            if before.state != GroupState.RESOLVED:
                after = await self._changed(session, before, GroupState.RESOLVED, text)
            closed = self._letter_entries(letters, whole, text)
            changed = [] if before == after else [self._entry(before, after)]
            await self._store.audit.append(session, [*closed, *changed])
        self._emit_letters(letters)
        self._emit(before, after)
        left = (await self._found(whole)).letters
        ids = tuple(letter_id for letter_id, _ in letters)
        return GroupResolution(after, ids, left.open + left.exhausted)

    async def _changed(
        self,
        session: Session,
        before: FailureGroup,
        state: GroupState,
        reason: str,
        conditions: _Conditions = _unconditional,
    ) -> FailureGroup:
        GROUP_TRANSITIONS.check(GroupState(before.state), state)
        wish = GroupWish(state, self._caller.name, reason, *conditions(before))
        return await self._store.groups.change(session, before, wish)

    async def _locked(self, session: Session, fingerprint: str, read: Version) -> FailureGroup:
        group = await self._store.groups.lock(session, self._caller.org, fingerprint)
        if group is None:
            raise not_found(fingerprint)
        check_version(f"failure group {fingerprint}", group.state, group.version, read)
        return group

    async def _resolve_letters(self, session: Session, fingerprint: str, reason: str) -> _Letters:
        org, by = self._caller
        ids = await self._store.groups.open_letters(session, org, fingerprint, MAX_LETTERS)
        locked = await self._store.dead_letters.lock(session, ids, org)
        letters = [(letter.id, letter.state) for letter in locked.values() if letter.state in _UNATTENDED]
        closing = LetterClosing(org=org, state=DeadLetterState.RESOLVED, by=by, reason=reason)
        letter_ids = [letter_id for letter_id, _ in letters]
        await self._store.dead_letters.close_if_unattended(session, letter_ids, closing)
        return letters

    def _entry(self, before: FailureGroup, after: FailureGroup) -> NewEntry:
        conditions = {name: getattr(after, name) for name in _CONDITIONS if getattr(after, name) is not None}
        detail = {"before": before.state, "reason": after.change_reason, **conditions}
        action = _ACTIONS[GroupState(after.state)]
        return NewEntry(
            org=self._caller.org,
            actor=self._caller.name,
            action=action,
            subjects=(after.fingerprint,),
            detail=detail,
        )

    def _letter_entries(self, letters: _Letters, fingerprint: str, reason: str) -> Iterable[NewEntry]:
        if letters:
            ids = tuple(letter_id for letter_id, _ in letters)
            detail = {"group": fingerprint, "reason": reason}
            yield NewEntry(
                org=self._caller.org,
                actor=self._caller.name,
                action=Action.DEAD_LETTER_RESOLVED,
                subjects=ids,
                detail=detail,
            )

    def _emit(self, before: FailureGroup, after: FailureGroup) -> None:
        if before != after:
            org, by = self._caller
            self._event_bus.emit(
                GroupChanged(
                    org=org, fingerprint=after.fingerprint, before=before.state, after=after.state, by=by
                )
            )

    def _emit_letters(self, letters: _Letters) -> None:
        org, by = self._caller
        for letter_id, state in letters if self._event_bus.is_subscribed(DeadLetterChanged) else ():
            self._event_bus.emit(
                DeadLetterChanged(
                    org=org, dlq_id=letter_id, before=state, after=DeadLetterState.RESOLVED, by=by
                )
            )


async def settle(store: Store, event_bus: EventBus, most: int = MAX_SETTLED) -> int:
    """Reopen groups of all organizations that are no longer to be ignored. Return how many."""
    async with store.database.transaction() as session:
        changes = await store.groups.settle(session, most)
        await store.audit.append(session, list(_settlements(changes)))
    for change in changes:
        event_bus.emit(group_changed(change))
    return len(changes)


def _settlements(changes: Iterable[GroupChange]) -> Iterable[NewEntry]:
    for org, grouped in groupby(changes, key=attrgetter("org")):
        own = list(grouped)
        fingerprints = tuple(change.fingerprint for change in own)
        yield NewEntry(
            org=org,
            actor=SELF,
            action=Action.GROUP_REOPENED,
            subjects=fingerprints,
            detail={"reason": own[0].reason},
        )


def _instant(until: datetime | Seconds, now: float) -> float:
    if isinstance(until, datetime):
        if until.tzinfo is None:
            raise InvalidValueError(
                f"until must have a time zone, got {until!r}; for example datetime.now(UTC)"
            )
        until = until.timestamp() - now
    return now + require_seconds("until, counted from now,", until, 1.0, MAX_DELAY_SECONDS)
