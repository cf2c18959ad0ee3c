"""Lists of failure groups by a query, with exact counts of their dead letters."""

from __future__ import annotations

from base64 import urlsafe_b64encode
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, NamedTuple

from redrive.errors import InvalidValueError
from redrive.model.caller import SELF
from redrive.model.dead_letter import Prospect
from redrive.model.failure_group import (
    REGRESSED,
    FailureGroup,
    GroupLine,
    GroupPage,
    GroupSort,
    GroupState,
    LetterCounts,
)
from redrive.model.query import MAX_COUNTED, Count, Query, Term, Value, letter_states
from redrive.policy.codec import encode
from redrive.policy.recurrence import reopen_after_time
from redrive.store.condition import GROUP_COLUMNS, GROUP_TEXTS, Writer, all_of
from redrive.store.cursor import content
from redrive.store.database import Row, Session
from redrive.store.dead_letter_filter import NEVER, about_states
from redrive.store.rows import read_row
from redrive.store.statement import Statement, compose, template

_GROUP = len(FailureGroup.__struct_fields__)


class Position(NamedTuple):
    """The end of a page: the sort value and the fingerprint of its last group."""

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
            f"the cursor does not belong to a list sorted by {sort.value}; pass the cursor of the previous "
            f"page, or none"
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
        """List matching groups, the latest or the most frequent first."""
        after = None if cursor is None else Position.read(cursor, sort)
        wanted = GroupFilter.of(query, org)
        more = {} if after is None else {"last_value": after.value, "last_fingerprint": after.fingerprint}
        statement = _statement("_page", "_branch", wanted, sort, onwards=after is not None)
        rows = await self._session.fetch(statement, {**wanted.parameters, **more, "most": size + 1})
        lines = tuple([line_of(row) for row in rows[:size]])
        return GroupPage(lines, str(Position.of(lines[-1].group, sort)) if len(rows) > size else None)

    async def count(self, query: Query, org: str, most: int = MAX_COUNTED) -> Count:
        """Count matching groups, up to `most`."""
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
    sqlite, postgres = (_text(name, branch, wanted, onwards, postgres) for postgres in (False, True))
    return compose(f"groups{name}", *(text.replace("{sort}", sort.value) for text in (sqlite, postgres)))


def _text(name: str, branch: str, wanted: GroupFilter, onwards: bool, postgres: bool) -> str:
    after = f" AND {_template('_after', postgres)}" if onwards else ""
    letters = " OR ".join(_letters(wanted, postgres))
    more = after + (f" AND ({letters})" if letters else "")
    branches = [_template(branch, postgres).replace("{where}", where + more) for where in wanted.branches]
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
    """Read a group and the current time. A group whose `ignored_until` has passed is open already."""
    group = read_row(FailureGroup, row[:_GROUP])
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
    """Return whether a cursor, which is untrusted input, has values that a database can compare."""
    return not isinstance(value, bool) and 0 <= value <= 2**62 and fingerprint.isprintable()


@dataclass(frozen=True, slots=True)
class GroupFilter:
    """A query over failure groups as disjoint branches of a statement.

    Unless the query allows all stored states, there is one branch per stored state, which scans the index by
    state and time. The stored state may be outdated: a group whose `ignored_until` has passed is open, even
    before the change is written. An org has at most some thousands of groups, so all other terms are checked
    row by row.

    letters   states in SQL; at least one dead letter of the group must have one of them
    prospect  alternatively, an open dead letter must have this redrive prospect
    """

    branches: tuple[str, ...]
    parameters: Mapping[str, Any]
    letters: str = ""
    prospect: Prospect | None = None

    @classmethod
    def of(cls, query: Query, org: str) -> GroupFilter:
        writer = Writer({"org": org}, GROUP_COLUMNS, GROUP_TEXTS)
        where = all_of(
            ["org = :org", *(_condition(term, writer) for term in query.terms if term.key != "is")]
        )
        return cls(tuple(_branches(query, where)) or (NEVER,), writer.parameters, *_letter_states(query))


def _branches(query: Query, where: str) -> Iterator[str]:
    states = _stored(query) if letter_states(query) else set()
    if len(states) == len(GroupState):
        yield where
    else:
        yield from (f"state = '{state}' AND {where}" for state in sorted(states))


def _letter_states(query: Query) -> tuple[str, Prospect | None]:
    """Return what `is:` requires of a dead letter of the group; `is:any` requires only that one exists."""
    states = letter_states(query) if about_states(query) else {}
    whole = ", ".join(f"'{state}'" for state, prospect in states.items() if prospect is None)
    return whole, next((prospect for prospect in states.values() if prospect is not None), None)


def _condition(term: Term, writer: Writer) -> str:
    if term.key != "group":
        return writer.condition(term)
    either = " OR ".join(_MEANINGS[value].condition for value in term.values)
    return f"(({either}) IS NOT TRUE)" if term.negated else f"({either})"


def _stored(query: Query) -> set[GroupState]:
    """Return the stored states that matching groups may have; a negated term excludes none."""
    found = set(GroupState)
    for term in query.terms:
        if term.key == "group" and not term.negated:
            found &= {state for value in term.values for state in _MEANINGS[value].stored}
    return found


class _Meaning(NamedTuple):
    """A value of `group:` as a condition, and the stored states that it may match."""

    condition: str
    stored: tuple[GroupState, ...]


_OPEN = "(state = 'OPEN' OR (state = 'IGNORED' AND ignored_until <= :now))"
_IGNORED = "(state = 'IGNORED' AND (ignored_until IS NULL OR ignored_until > :now))"

_MEANINGS: Mapping[Value, _Meaning] = {
    "open": _Meaning(_OPEN, (GroupState.OPEN, GroupState.IGNORED)),
    "acknowledged": _Meaning("state = 'ACKNOWLEDGED'", (GroupState.ACKNOWLEDGED,)),
    "resolved": _Meaning("state = 'RESOLVED'", (GroupState.RESOLVED,)),
    "ignored": _Meaning(_IGNORED, (GroupState.IGNORED,)),
    REGRESSED: _Meaning(f"(regressed_at IS NOT NULL AND {_OPEN})", (GroupState.OPEN, GroupState.IGNORED)),
}
