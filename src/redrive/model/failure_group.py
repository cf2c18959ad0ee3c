"""A failure group: all dead letters of one fingerprint, with a state of their own."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from hashlib import sha256
from typing import NamedTuple

from redrive.model.failure import Category
from redrive.model.field import Instant
from redrive.model.row import Row
from redrive.model.transition import TransitionTable, moves

UNKNOWN_VERSIONS = frozenset({"", "unversioned"})
"""What workers say that were not told the version of their code: nothing can be concluded from it."""


class GroupState(StrEnum):
    OPEN = "OPEN"
    ACKNOWLEDGED = "ACKNOWLEDGED"
    RESOLVED = "RESOLVED"
    IGNORED = "IGNORED"


REGRESSED = "regressed"
"""What is said of a group that is open, and has been resolved before."""


class GroupSort(StrEnum):
    """What a list of groups is sorted by: the greatest first."""

    LAST_SEEN = "last_seen"
    OCCURRENCES = "occurrences"


class Occurrence(NamedTuple):
    """A step has failed for good: what its failure adds to the group. `sample` is the dead letter."""

    org: str
    fingerprint: str
    title: str
    reason: str
    workflow: str
    step: str
    task: str
    category: str
    error_type: str
    sample: str
    code_version: str


class GroupSnapshot(NamedTuple):
    """What decides about a group when its failure occurs again, or when time passes.

    ignored_until    the instant at which it is open again
    ignored_beyond   the number of occurrences after which it is
    ignored_version  the version of the code that may fail so; it is open again when another one does
    """

    state: str
    occurrences: int
    ignored_until: Instant | None
    ignored_beyond: int | None
    ignored_version: str | None


class Reopening(NamedTuple):
    """A group is open again by itself. `regressed`: it had been resolved."""

    reason: str
    regressed: bool = False


class GroupChange(NamedTuple):
    """A group that changed its state by itself."""

    org: str
    fingerprint: str
    before: str
    after: str
    reason: str
    regressed: bool


class FailureGroup(Row, frozen=True, kw_only=True):
    """A group as it is remembered. `reason` tells why these failures are taken for one."""

    org: str
    fingerprint: str
    title: str
    reason: str
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
        """Equal as long as it is in the state that somebody has given it, however often it occurs."""
        conditions = (self.ignored_until, self.ignored_beyond, self.ignored_version)
        content = (self.state, self.changed_at, self.changed_by, self.regressed_at, *conditions)
        return sha256(repr(content).encode(errors="replace")).hexdigest()[:16]


class LetterCounts(NamedTuple):
    """How many dead letters of a group there are in each state; `closed` are the rest."""

    open: int = 0
    replaying: int = 0
    exhausted: int = 0
    closed: int = 0

    @property
    def live(self) -> int:
        return self.open + self.replaying + self.exhausted


class GroupLine(NamedTuple):
    """A group as it is listed."""

    group: FailureGroup
    letters: LetterCounts


class GroupRecord(NamedTuple):
    """`scheduled` of its open letters will be redriven automatically; the others are numbers of replays."""

    scheduled: int = 0
    succeeded: int = 0
    failed: int = 0


class GroupShare(NamedTuple):
    """How many dead letters of a group are in one state, in one queue."""

    state: str
    queue: str
    number: int


class GroupVersion(NamedTuple):
    """How often a version of the code has failed so, and when."""

    code_version: str
    occurrences: int
    first_seen: Instant
    last_seen: Instant


class GroupPage(NamedTuple):
    lines: tuple[GroupLine, ...]
    next_cursor: str | None


class GroupDetail(NamedTuple):
    """A group with all that is known about it. `replays` counts them by state, each up to 10,000."""

    group: FailureGroup
    letters: LetterCounts
    versions: tuple[GroupVersion, ...]
    sample: str | None
    replays: Mapping[str, int]


class GroupResolution(NamedTuple):
    """`ids` are the letters that were resolved with the group; `left` could be, and were not."""

    group: FailureGroup
    ids: tuple[str, ...]
    left: int

    @property
    def letters(self) -> int:
        return len(self.ids)


class Timeline(NamedTuple):
    """How many dead letters of a group came in each part, of `width` seconds, of a time.

    `capped`: there are so many that the earlier ones may not have been counted.
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
        *moves("ignored on other conditions", [_I], [_I]),
        *moves("reopened by a person, or it occurred again", [_R], [_O]),
        *moves("reopened by a person, or what it was ignored until has come", [_I], [_O]),
        *moves("reopened by a person", [_A], [_O]),
    ],
)
