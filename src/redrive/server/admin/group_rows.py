"""Rows of a list of failure groups, in sections: those that need somebody, those that heal themselves."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from redrive.failures.group_queries import GroupQueries
from redrive.failures.preconditions import MAX_CONCURRENT
from redrive.model.failure_group import (
    REGRESSED,
    FailureGroup,
    GroupLine,
    GroupRecord,
    GroupState,
    LetterCounts,
    Timeline,
)

SHORT_LENGTH = 16
"""Digits of a fingerprint in a query: enough to be unique, and fifty fingerprints fit into one query."""


class GroupRow(NamedTuple):
    """
    needs, heals  how many of its dead letters need somebody, and how many heal themselves
    found         the query for those that can be replayed and closed
    """

    group: FailureGroup
    letters: LetterCounts
    day: Timeline
    record: GroupRecord

    @property
    def needs(self) -> int:
        return needs_of(self.letters, self.record)

    @property
    def ignored(self) -> bool:
        return self.group.state == GroupState.IGNORED

    @property
    def heals(self) -> int:
        return self.record.scheduled + self.letters.replaying

    @property
    def actionable(self) -> int:
        return self.letters.open + self.letters.exhausted

    @property
    def too_many(self) -> bool:
        return self.actionable > MAX_CONCURRENT

    @property
    def state(self) -> str:
        return state_of(self.group)

    @property
    def sign(self) -> str:
        """The state to show: settled if the group is open and none of its dead letters is live."""
        settled = self.letters.live == 0 and self.group.state == GroupState.OPEN
        return f"settled_{self.state}" if settled else self.state

    @property
    def short(self) -> str:
        return short(self.group.fingerprint)

    @property
    def found(self) -> str:
        return f"fp:{self.short} is:open,exhausted"


class Section(NamedTuple):
    """`kind` is one of needs, heals, ignored and closed."""

    kind: str
    rows: Sequence[GroupRow]

    @property
    def letters(self) -> int:
        return sum(row.heals if self.kind == "heals" else row.needs for row in self.rows)


async def rows_of(groups: GroupQueries, lines: Iterable[GroupLine]) -> list[GroupRow]:
    """Add the sparklines and records, with one query each for all groups."""
    known = list(lines)
    names = [line.group.fingerprint for line in known]
    days, records = await groups.sparklines(names), await groups.records(names)
    return [
        GroupRow(line.group, line.letters, days[name], records.get(name, GroupRecord()))
        for name, line in zip(names, known, strict=True)
    ]


def sections_of(rows: Sequence[GroupRow]) -> list[Section]:
    """Split rows into sections; the order within a section stays."""
    kinds: dict[str, list[GroupRow]] = {"needs": [], "heals": [], "ignored": [], "closed": []}
    for row in rows:
        kinds[_kind(row)].append(row)
    return [Section(kind, found) for kind, found in kinds.items() if found]


def _kind(row: GroupRow) -> str:
    if row.needs > 0:
        return "ignored" if row.ignored else "needs"
    return "heals" if row.heals > 0 else "closed"


def needs_of(letters: LetterCounts, record: GroupRecord) -> int:
    """Count those that need somebody: not those that will be redriven automatically."""
    return letters.open - record.scheduled + letters.exhausted


def state_of(group: FailureGroup) -> str:
    """Return REGRESSED for a group that was closed and is open again."""
    is_back = group.state == GroupState.OPEN and group.regressed_at is not None
    return REGRESSED.upper() if is_back else group.state


def short(fingerprint: str) -> str:
    version, mark, digits = fingerprint.rpartition(":")
    return f"{version}{mark}{digits[:SHORT_LENGTH]}"
