"""A failure group: all dead letters with the same fingerprint. The group has its own state."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from hashlib import sha256
from typing import NamedTuple

from redrive.model.fact import StoredFact
from redrive.model.failure import Category
from redrive.model.field import Instant
from redrive.model.row import Row
from redrive.model.transition import TransitionTable, moves

UNKNOWN_VERSIONS = frozenset({"", "unversioned"})
"""Values that workers report if no code version is configured. They allow no conclusions."""


class GroupState(StrEnum):
    OPEN = "OPEN"
    ACKNOWLEDGED = "ACKNOWLEDGED"
    RESOLVED = "RESOLVED"
    IGNORED = "IGNORED"


REGRESSED = "regressed"
"""The label of an open group that was resolved before."""


class GroupSort(StrEnum):
    """The sort key of a list of groups, in descending order."""

    LAST_SEEN = "last_seen"
    OCCURRENCES = "occurrences"


class Occurrence(NamedTuple):
    """A permanent failure of a step, as added to its group. `sample` is the dead letter."""

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
    code_version: str


class GroupSnapshot(NamedTuple):
    """The facts that decide whether a group reopens when its failure occurs again or time passes.

    ignored_until    the instant at which the group reopens
    ignored_beyond   the number of occurrences after which the group reopens
    ignored_version  the code version whose failures are ignored; another version's failure reopens the group
    """

    state: str
    occurrences: int
    ignored_until: Instant | None
    ignored_beyond: int | None
    ignored_version: str | None


class Reopening(NamedTuple):
    """The reason why a group reopens automatically. `regressed`: the group was resolved before."""

    reason: str
    regressed: bool = False


class GroupChange(NamedTuple):
    """An automatic change of a group's state."""

    org: str
    fingerprint: str
    before: str
    after: str
    reason: str
    regressed: bool


class FailureGroup(Row, frozen=True, kw_only=True):
    """A stored group. `reason` explains why these failures count as the same.

    title    the newest message, redacted and on one line
    pattern  the message without its variable parts; None if only an earlier version has stored the group
    """

    org: str
    fingerprint: str
    title: str
    pattern: str | None
    reason: StoredFact
    workflow: str
    step: str
    task: str
    category: Category
    error_type: str
    sample: str
    state: GroupState
    occurrences: int
    first_seen: Instant
    last_seen: Instant
    regressed_at: Instant | None
    ignored_until: Instant | None
    ignored_beyond: int | None
    ignored_version: str | None
    changed_by: str | None
    changed_at: Instant | None
    change_reason: str | None

    @property
    def snapshot(self) -> GroupSnapshot:
        return GroupSnapshot(
            state=self.state,
            occurrences=self.occurrences,
            ignored_until=self.ignored_until,
            ignored_beyond=self.ignored_beyond,
            ignored_version=self.ignored_version,
        )

    @property
    def version(self) -> str:
        """A version that changes with the group's state, but not with the number of occurrences."""
        conditions = (self.ignored_until, self.ignored_beyond, self.ignored_version)
        content = (self.state, self.changed_at, self.changed_by, self.regressed_at, *conditions)
        return sha256(repr(content).encode(errors="replace")).hexdigest()[:16]


class LetterCounts(NamedTuple):
    """The number of a group's dead letters by state; `closed` counts all other states."""

    open: int = 0
    replaying: int = 0
    exhausted: int = 0
    closed: int = 0

    @property
    def live(self) -> int:
        return self.open + self.replaying + self.exhausted


class GroupLine(NamedTuple):
    """A group in a list."""

    group: FailureGroup
    letters: LetterCounts


class GroupRecord(NamedTuple):
    """`scheduled` counts open dead letters that will be redriven automatically; `succeeded` and `failed`
    count replays."""

    scheduled: int = 0
    succeeded: int = 0
    failed: int = 0


class GroupShare(NamedTuple):
    """The number of a group's dead letters in one state and one queue."""

    state: str
    queue: str
    number: int


class GroupVersion(NamedTuple):
    """How often and when one code version failed this way."""

    code_version: str
    occurrences: int
    first_seen: Instant
    last_seen: Instant


class GroupPage(NamedTuple):
    lines: tuple[GroupLine, ...]
    next_cursor: str | None


class GroupDetail(NamedTuple):
    """A group with all details. `replays` counts its replays by state, each up to 10,000."""

    group: FailureGroup
    letters: LetterCounts
    versions: tuple[GroupVersion, ...]
    sample: str | None
    replays: Mapping[str, int]


class GroupResolution(NamedTuple):
    """`ids` are the dead letters resolved with the group; `remaining` others are open or exhausted."""

    group: FailureGroup
    ids: tuple[str, ...]
    remaining: int

    @property
    def letters(self) -> int:
        return len(self.ids)


class Timeline(NamedTuple):
    """The number of a group's new dead letters in each interval of `width` seconds.

    `capped`: there are too many to count all; earlier intervals may be too low.
    """

    start: Instant
    width: float
    numbers: tuple[int, ...]
    capped: bool = False


_O, _A = GroupState.OPEN, GroupState.ACKNOWLEDGED
_R, _I = GroupState.RESOLVED, GroupState.IGNORED

GROUP_TRANSITIONS = TransitionTable(
    "failure group",
    _O,
    [
        *moves("acknowledged by a person", [_O], [_A]),
        *moves("resolved by a person", [_O, _A, _I], [_R]),
        *moves("ignored by a person", [_O, _A], [_I]),
        *moves("ignored under other conditions", [_I], [_I]),
        *moves("reopened by a person, or it occurred again", [_R], [_O]),
        *moves("reopened by a person, or its ignore condition was reached", [_I], [_O]),
        *moves("reopened by a person", [_A], [_O]),
    ],
)
