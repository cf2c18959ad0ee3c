"""Rows of a list of failure groups: those that need somebody apart from those that heal by themselves."""

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

SHORT = 16
"""So many digits of a fingerprint tell it from all others, and fifty of them fit into a query."""


class GroupRow(NamedTuple):
    """
    needs, heals  how many of its dead letters need somebody, and how many heal by themselves
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
        """Its state; calm where that asks for somebody and no dead letter of it is left to be done with."""
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
        return sum(each.heals if self.kind == "heals" else each.needs for each in self.rows)


async def rows_of(groups: GroupQueries, lines: Iterable[GroupLine]) -> list[GroupRow]:
    """With their sparklines and records, each in one query for all."""
    known = list(lines)
    names = [each.group.fingerprint for each in known]
    days, records = await groups.sparklines(names), await groups.records(names)
    return [
        GroupRow(line.group, line.letters, days[name], records.get(name, GroupRecord()))
        for name, line in zip(names, known, strict=True)
    ]


def sections_of(rows: Sequence[GroupRow]) -> list[Section]:
    """In each of them the order stays."""
    kinds: dict[str, list[GroupRow]] = {"needs": [], "heals": [], "ignored": [], "closed": []}
    for row in rows:
        kinds[_kind(row)].append(row)
    return [Section(kind, found) for kind, found in kinds.items() if found]


def _kind(row: GroupRow) -> str:
    if row.needs > 0:
        return "ignored" if row.ignored else "needs"
    return "heals" if row.heals > 0 else "closed"


def needs_of(letters: LetterCounts, record: GroupRecord) -> int:
    """How many need somebody: those that will be redriven automatically do not."""
    return letters.open - record.scheduled + letters.exhausted


def state_of(group: FailureGroup) -> str:
    """A group that is open once more says so."""
    is_back = group.state == GroupState.OPEN and group.regressed_at is not None
    return REGRESSED.upper() if is_back else group.state


def short(fingerprint: str) -> str:
    version, mark, digits = fingerprint.rpartition(":")
    return f"{version}{mark}{digits[:SHORT]}"
