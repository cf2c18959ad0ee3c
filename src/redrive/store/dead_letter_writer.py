"""What accompanies every new dead letter: the limit of the org, its failure group, its audit entry."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import NamedTuple, Protocol

from redrive.errors import NotStorableError
from redrive.model.audit import Action, NewEntry
from redrive.model.caller import SELF
from redrive.model.fact import SENTENCE, Fact, fact
from redrive.model.failure_group import GroupChange, Occurrence
from redrive.policy.codec import decode
from redrive.policy.recurrence import reopen_after_failure
from redrive.store.audit import AuditStore
from redrive.store.database import Session
from redrive.store.groups import Groups
from redrive.store.limits import Limits
from redrive.store.replays import LetterChange, Settled, outcomes
from redrive.store.statement import statements

_SQL = statements("dead_letter_writer")

QUEUE_FULL = fact("queue_full")
LETTER_REJECTED = "letter_rejected"
_QUEUE = "dead letters of "


class RejectedLetter(NamedTuple):
    """The facts of a failure without a dead letter, to create one later.

    reason  a code
    title   the pattern of the message, under the name that earlier versions stored
    """

    reason: str
    fingerprint: str
    fingerprint_reason: str
    title: str
    may_have_executed: int

    def fact(self) -> Fact:
        return Fact(LETTER_REJECTED, self._asdict())

    @classmethod
    def read(cls, stored: Fact) -> RejectedLetter | None:
        """Read a stored fact; None if it is another one. Workers of the previous version store no code."""
        try:
            fields = decode(stored.fields["text"]) if stored.code == SENTENCE else stored.fields
            return cls(**fields)  # type: ignore[arg-type]
        except (NotStorableError, TypeError):
            return None


class Letter(Protocol):
    """The attributes of a new dead letter that this module reads."""

    @property
    def id(self) -> str: ...
    @property
    def org(self) -> str: ...
    @property
    def run_id(self) -> str: ...
    @property
    def occurrence(self) -> Occurrence: ...


class DeadLetterWriter:
    """Limits, counts and audits new dead letters.

    `max_size` limits the live dead letters of an org. Beyond it new ones are refused; none is ever evicted.
    """

    def __init__(
        self,
        session: Session,
        limits: Limits,
        groups: Groups,
        audit: AuditStore,
        max_size: int | None = None,
    ) -> None:
        self._session = session
        self._limits = limits
        self._groups = groups
        self._audit = audit
        self.max_size = max_size

    async def refused(self, session: Session, letters: Sequence[Letter]) -> set[str]:
        """Return the ids of runs whose dead letters exceed the limit of their org."""
        if self.max_size is None:
            return set()
        refused: set[str] = set()
        for org, number in sorted(Counter(letter.org for letter in letters).items()):
            room = await self._room(session, org, self.max_size)
            if number > room:
                own = sorted(letter.run_id for letter in letters if letter.org == org)
                refused |= set(own[max(0, room) :])
                await self.count_refused(org, "", number - max(0, room), session=session)
        return refused

    async def count_and_audit(
        self,
        session: Session,
        letters: Sequence[Letter],
        settled: Sequence[Settled | LetterChange],
        by: str = SELF,
    ) -> list[GroupChange]:
        """Count dead letters in their groups and write the audit entries. Call it last in a transaction."""
        changes = await self._groups.occurred(
            session, [letter.occurrence for letter in letters], reopen_after_failure
        )
        entries = [*_moved_entries(letters, by), *outcomes(settled), *map(_reopened_entry, changes)]
        if entries:
            await self._audit.append(session, entries)
        return changes

    async def count_refused(
        self, org: str, queue: str, number: int = 1, *, session: Session | None = None
    ) -> None:
        """Count refused dead letters in a separate figure, so that operators see them."""
        parameters = {"org": org, "queue": queue, "number": number}
        await (session or self._session).fetch(_SQL["count_refused"], parameters)

    async def sum_up(self) -> None:
        """Compact the counters: on PostgreSQL, every change of a counter first inserts a row."""
        for name in ("sum_up_counts", "sum_up_figures"):
            await self._session.fetch(_SQL[name], {})

    async def _room(self, session: Session, org: str, most: int) -> int:
        """Return the free places; the lock keeps two transactions from both taking the last one."""
        await self._limits.lock_limits(session, {_QUEUE + org: most})
        [row] = await session.fetch(_SQL["live"], {"org": org})
        return most - int(row[0] or 0)


def _moved_entries(letters: Iterable[Letter], by: str) -> list[NewEntry]:
    """Build one audit entry per org for all dead letters written together."""
    by_org: dict[str, list[Letter]] = {}
    for letter in letters:
        by_org.setdefault(letter.org, []).append(letter)
    return [
        NewEntry(
            org=org,
            actor=by,
            action=Action.DEAD_LETTER_MOVED,
            subjects=tuple(letter.id for letter in own),
            detail=_detail(own),
        )
        for org, own in by_org.items()
    ]


def _detail(letters: Sequence[Letter]) -> dict[str, str]:
    if len(letters) > 1:
        return {}
    what = letters[0].occurrence
    return {
        "run": letters[0].run_id,
        "step": what.step,
        "category": what.category,
        "error_type": what.error_type,
        "fingerprint": what.fingerprint,
    }


def _reopened_entry(change: GroupChange) -> NewEntry:
    action = Action.GROUP_REGRESSED if change.regressed else Action.GROUP_REOPENED
    return NewEntry(
        org=change.org,
        actor=SELF,
        action=action,
        subjects=(change.fingerprint,),
        detail={"reason": change.reason},
    )
