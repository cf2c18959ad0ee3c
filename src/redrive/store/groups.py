"""Failure groups: counting occurrences, reading groups, and changing their state."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import NamedTuple

from redrive.model.caller import SELF
from redrive.model.dead_letter import DeadLetterState
from redrive.model.failure_group import (
    FailureGroup,
    GroupChange,
    GroupLine,
    GroupRecord,
    GroupShare,
    GroupSnapshot,
    GroupState,
    GroupVersion,
    Occurrence,
    Reopening,
)
from redrive.model.field import BigInt
from redrive.model.query import MAX_COUNTED
from redrive.policy.recurrence import reopen_after_time
from redrive.store.condition import BEYOND
from redrive.store.database import Row, Session
from redrive.store.group_listing import GroupListing, as_of_now, line_of
from redrive.store.rows import read_row
from redrive.store.statement import statements

Decide = Callable[[GroupSnapshot, Collection[str], float], Reopening | None]
"""Decides whether a group opens again after its failure occurred in these versions: policy.recurrence."""

MAX_VERSIONS = 100
MAX_OVER_TIME = 50_000
MAX_REPLAYS = 1_000

_Key = tuple[str, str]


class GroupWish(NamedTuple):
    """The new state of a group, as a person requested it."""

    state: str
    by: str
    reason: str
    ignored_until: float | None = None
    ignored_beyond: int | None = None
    ignored_version: str | None = None


class GroupOccurrences(NamedTuple):
    org: str
    fingerprint: str
    title: str
    pattern: str
    reason: str
    workflow: str
    step: str
    task: str
    category: str
    error_type: str
    sample: str
    occurrences: BigInt


class VersionOccurrences(NamedTuple):
    org: str
    fingerprint: str
    code_version: str
    occurrences: BigInt


class ReopenedGroup(NamedTuple):
    org: str
    fingerprint: str
    before: str
    reason: str
    regressed: bool
    by: str = SELF


class GroupKey(NamedTuple):
    org: str
    fingerprint: str
    most: int = MAX_REPLAYS


_SQL = statements(
    "groups", FailureGroup, GroupSnapshot, GroupOccurrences, VersionOccurrences, ReopenedGroup, GroupKey
)


class Groups(GroupListing):
    async def occurred(
        self, session: Session, occurrences: Sequence[Occurrence], decide: Decide
    ) -> list[GroupChange]:
        """Count failures in the transaction of their dead letters; return the groups that this reopens."""
        if not occurrences:
            return []
        rows = await session.fetch_many(_SQL["occur"], _by_group(occurrences))
        versions = _by_version(occurrences)
        await session.fetch_many(_SQL["occur_in_version"], versions)
        not_open = [row for row in rows if row[2] != GroupState.OPEN]
        return await self._reopen(session, _reopenings(not_open, versions, decide)) if not_open else []

    async def find(self, org: str, fingerprint: str, beginning: str | None, most: int) -> list[GroupLine]:
        """Find the group with this fingerprint, and those whose fingerprint starts with `beginning`."""
        parameters = {"org": org, "fingerprint": fingerprint, "most": most}
        span = {"first": beginning or fingerprint, "beyond": beginning + BEYOND if beginning else fingerprint}
        return [line_of(row) for row in await self._session.fetch(_SQL["find"], parameters | span)]

    async def versions(self, org: str, fingerprint: str) -> list[GroupVersion]:
        """Return the code versions in which this failure occurred, latest first."""
        parameters = {"org": org, "fingerprint": fingerprint, "most": MAX_VERSIONS}
        return [GroupVersion._make(row) for row in await self._session.fetch(_SQL["versions"], parameters)]

    async def replays(self, org: str, fingerprint: str) -> dict[str, int]:
        """Count the replays of this failure by state, up to 10,000."""
        parameters = {"org": org, "fingerprint": fingerprint, "most": MAX_COUNTED}
        return {row[0]: row[1] for row in await self._session.fetch(_SQL["replays"], parameters) if row[1]}

    async def sample(self, group: FailureGroup) -> str | None:
        """Return the newest dead letter as an example; None if all were removed."""
        rows = await self._session.fetch(_SQL["sample"], group.asdict())
        if rows:
            return str(rows[0][0])
        newest = await self._session.fetch_many(_SQL["newest"], _in_every_state(group.org, group.fingerprint))
        return max([(row[0], row[1]) for row in newest], default=(0.0, None))[1]

    async def over_time(self, org: str, fingerprint: str, seconds: float, buckets: int) -> list[int]:
        """Count the dead letters created in each bucket of the last `seconds`.

        Counts the latest 50,000 dead letters of each state.
        """
        rows = [
            row._replace(seconds=seconds, width=seconds / buckets)
            for row in _in_every_state(org, fingerprint)
        ]
        numbers = [0] * buckets
        for bucket, number in await self._session.fetch_many(_SQL["over_time"], rows):
            numbers[min(max(bucket, 0), buckets - 1)] += number
        return numbers

    async def records(self, org: str, fingerprints: Sequence[str]) -> dict[str, GroupRecord]:
        """Return the records of several groups at once. Replays are counted up to 1,000 of each kind."""
        rows = [GroupKey(org, fingerprint) for fingerprint in dict.fromkeys(fingerprints)]
        found = await self._session.fetch_many(_SQL["records"], rows) if rows else []
        return {row[0]: GroupRecord._make(row[1:]) for row in found}

    async def spread(self, org: str, fingerprint: str) -> list[GroupShare]:
        """Count all dead letters of a group exactly, however many there are."""
        found = await self._session.fetch(_SQL["spread"], {"org": org, "fingerprint": fingerprint})
        return [GroupShare._make(row) for row in found]

    async def lock(self, session: Session, org: str, fingerprint: str) -> FailureGroup | None:
        """Lock a group until the transaction ends; return its current state."""
        rows = await session.fetch(_SQL["lock"], {"org": org, "fingerprint": fingerprint})
        return as_of_now(rows[0]) if rows else None

    async def change(self, session: Session, group: FailureGroup, wish: GroupWish) -> FailureGroup:
        """Write the new state of a locked group."""
        key = {"org": group.org, "fingerprint": group.fingerprint}
        [row] = await session.fetch(_SQL["change"], key | wish._asdict())
        return read_row(FailureGroup, row)

    async def open_letters(self, session: Session, org: str, fingerprint: str, most: int) -> list[str]:
        """Return dead letters of a group that can be resolved, without locking them."""
        parameters = {"org": org, "fingerprint": fingerprint, "most": most}
        return [row[0] for row in await session.fetch(_SQL["open_letters"], parameters)]

    async def settle(self, session: Session, most: int) -> list[GroupChange]:
        """Reopen groups of all orgs whose `ignored_until` has passed."""
        changes = []
        for org, fingerprint, *snapshot, now in await session.fetch(
            _SQL["no_longer_ignored"], {"most": most}
        ):
            group = GroupSnapshot._make(snapshot)
            if why := reopen_after_time(group, now):
                changes.append(_change(org, fingerprint, group.state, why))
        return await self._reopen(session, sorted(changes))

    async def _reopen(self, session: Session, changes: Sequence[GroupChange]) -> list[GroupChange]:
        rows = [
            ReopenedGroup(
                org=change.org,
                fingerprint=change.fingerprint,
                before=change.before,
                reason=change.reason,
                regressed=change.regressed,
            )
            for change in changes
        ]
        written = {(row[0], row[1]) for row in await session.fetch_many(_SQL["come_back"], rows)}
        return [change for change in changes if change[:2] in written]


class _InState(NamedTuple):
    org: str
    fingerprint: str
    state: str
    seconds: float = 0.0
    width: float = 1.0
    most: int = MAX_OVER_TIME


def _in_every_state(org: str, fingerprint: str) -> list[_InState]:
    """Return one row per state: the index of dead letters is ordered by time only within a state."""
    return [_InState(org, fingerprint, state) for state in DeadLetterState]


def _by_group(occurrences: Sequence[Occurrence]) -> list[GroupOccurrences]:
    """Build one row per group, with the newest sample, sorted so that concurrent batches cannot deadlock."""
    newest = {(occurrence.org, occurrence.fingerprint): occurrence for occurrence in occurrences}
    counts = Counter((occurrence.org, occurrence.fingerprint) for occurrence in occurrences)
    fields = GroupOccurrences._fields[:-1]
    return [
        GroupOccurrences(occurrences=counts[key], **{name: getattr(newest[key], name) for name in fields})
        for key in sorted(newest)
    ]


def _by_version(occurrences: Iterable[Occurrence]) -> list[VersionOccurrences]:
    counts = Counter(
        (occurrence.org, occurrence.fingerprint, occurrence.code_version) for occurrence in occurrences
    )
    return [
        VersionOccurrences(org=org, fingerprint=fingerprint, code_version=version, occurrences=number)
        for (org, fingerprint, version), number in sorted(counts.items())
    ]


def _reopenings(
    rows: Iterable[Row], versions: Iterable[VersionOccurrences], decide: Decide
) -> list[GroupChange]:
    seen: dict[_Key, set[str]] = {}
    for version in versions:
        seen.setdefault((version.org, version.fingerprint), set()).add(version.code_version)
    changes = []
    for org, fingerprint, *snapshot, now in rows:
        group = GroupSnapshot._make(snapshot)
        if reopening := decide(group, seen[org, fingerprint], now):
            changes.append(_change(org, fingerprint, group.state, reopening))
    return changes


def _change(org: str, fingerprint: str, before: str, why: Reopening) -> GroupChange:
    return GroupChange(
        org=org,
        fingerprint=fingerprint,
        before=before,
        after=GroupState.OPEN,
        reason=why.reason,
        regressed=why.regressed,
    )
