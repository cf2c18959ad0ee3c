"""Lists of failure groups by a query, with the exact numbers of their dead letters, and counts."""

from __future__ import annotations

from base64 import urlsafe_b64encode
from collections.abc import Iterator
from functools import cache
from typing import NamedTuple

from redrive.errors import InvalidValueError
from redrive.model.caller import SELF
from redrive.model.failure_group import (
    FailureGroup,
    GroupLine,
    GroupPage,
    GroupSort,
    GroupState,
    LetterCounts,
)
from redrive.model.query import MAX_COUNTED, Count, Query
from redrive.policy.codec import encode
from redrive.policy.recurrence import reopen_after_time
from redrive.store.cursor import content
from redrive.store.database import Row, Session
from redrive.store.group_filter import GroupFilter
from redrive.store.statement import Statement, template, written

_GROUP = len(FailureGroup.__struct_fields__)


class Position(NamedTuple):
    """Where a page ended: the value that it is sorted by, and the fingerprint."""

    sort: GroupSort
    value: float
    fingerprint: str

    def __str__(self) -> str:
        return urlsafe_b64encode(encode([self.sort.value, *self[1:]]).encode()).decode()

    @classmethod
    def of(cls, last: FailureGroup, sort: GroupSort) -> Position:
        return cls(sort, getattr(last, sort.value), last.fingerprint)

    @classmethod
    def read(cls, cursor: str, sort: GroupSort) -> Position:
        match content(cursor):
            case [sort.value, int() | float() as value, str() as name] if _is_place(value, name):
                return cls(sort, float(value) if sort is GroupSort.LAST_SEEN else int(value), name)
        raise InvalidValueError(
            f"the cursor is none of a list sorted by {sort.value}; take it from the page before, or leave it "
            f"out"
        )


class GroupListing:
    def __init__(self, session: Session) -> None:
        self._session = session

    async def page(
        self,
        query: Query,
        org: str,
        size: int,
        cursor: str | None = None,
        sort: GroupSort = GroupSort.LAST_SEEN,
    ) -> GroupPage:
        """The latest or the most frequent first."""
        after = None if cursor is None else Position.read(cursor, sort)
        wanted = GroupFilter.of(query, org)
        more = {} if after is None else {"last_value": after.value, "last_fingerprint": after.fingerprint}
        statement = _statement("_page", "_branch", wanted, sort, onwards=after is not None)
        rows = await self._session.fetch(statement, {**wanted.parameters, **more, "most": size + 1})
        lines = tuple([line_of(row) for row in rows[:size]])
        return GroupPage(lines, str(Position.of(lines[-1].group, sort)) if len(rows) > size else None)

    async def count(self, query: Query, org: str, most: int = MAX_COUNTED) -> Count:
        """How many there are; counted up to `most`."""
        wanted = GroupFilter.of(query, org)
        statement = _statement("_count", "_counted", wanted)
        [[number]] = await self._session.fetch(statement, {**wanted.parameters, "most": most + 1})
        return Count(min(number, most), number > most)


def _statement(
    name: str,
    branch: str,
    wanted: GroupFilter,
    sort: GroupSort = GroupSort.LAST_SEEN,
    *,
    onwards: bool = False,
) -> Statement:
    sqlite, postgres = (_text(name, branch, wanted, onwards, each) for each in (False, True))
    return written(f"groups{name}", *(text.replace("{sort}", sort.value) for text in (sqlite, postgres)))


def _text(name: str, branch: str, wanted: GroupFilter, onwards: bool, postgres: bool) -> str:
    after = f" AND {_template('_after', postgres)}" if onwards else ""
    letters = " OR ".join(_letters(wanted, postgres))
    more = after + (f" AND ({letters})" if letters else "")
    branches = [_template(branch, postgres).replace("{where}", each + more) for each in wanted.branches]
    return _template(name, postgres).replace("{branches}", " UNION ALL ".join(branches))


def _letters(wanted: GroupFilter, postgres: bool) -> Iterator[str]:
    if wanted.letters:
        yield _template("_has_letters", postgres).replace("{states}", wanted.letters)
    if wanted.prospect:
        yield _template(f"_has_{wanted.prospect.lower()}", postgres)


@cache
def _template(name: str, postgres: bool) -> str:
    return template("groups", name, postgres=postgres)


def line_of(row: Row) -> GroupLine:
    return GroupLine(as_of_now(row), LetterCounts._make(row[_GROUP + 1 :]))


def as_of_now(row: Row) -> FailureGroup:
    """The group, then the moment: one whose time to be ignored is over is open, written or not."""
    group = FailureGroup.from_row(row[:_GROUP])
    why = reopen_after_time(group.snapshot, row[_GROUP])
    if why is None:
        return group
    return group.replace(
        state=GroupState.OPEN,
        ignored_until=None,
        ignored_beyond=None,
        ignored_version=None,
        changed_by=SELF,
        changed_at=group.ignored_until,
        change_reason=why.reason,
    )


def _is_place(value: float, fingerprint: str) -> bool:
    """Cursors come back from outside: what no database can compare with is none."""
    return not isinstance(value, bool) and 0 <= value <= 2**62 and fingerprint.isprintable()
