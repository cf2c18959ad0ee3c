"""DeadLetterWriter: what belongs to every dead letter: a place in the queue, its group, its audit entry."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import NamedTuple, Protocol

from redrive.errors import NotStorableError
from redrive.model.audit import Action, NewEntry
from redrive.model.caller import SELF
from redrive.model.failure_group import GroupChange, Occurrence
from redrive.policy.codec import decode, encode
from redrive.policy.recurrence import reopen_after_failure
from redrive.store.audit import AuditStore
from redrive.store.database import Session
from redrive.store.groups import Groups
from redrive.store.limits import Limits
from redrive.store.replays import Resolved, Settled, outcomes
from redrive.store.statement import statements

_SQL = statements("dead_letter_writer")

TOO_MANY = "refused a dead letter: the organization has as many as it may have; resolve or archive some"
_QUEUE = "dead letters of "


class RejectedLetter(NamedTuple):
    """What is remembered of a failure whose run was refused a dead letter, to make one of it later."""

    reason: str
    fingerprint: str
    fingerprint_reason: str
    title: str
    may_have_executed: int

    def __str__(self) -> str:
        return encode(self._asdict())

    @classmethod
    def read(cls, text: str) -> RejectedLetter | None:
        """None when it is none."""
        try:
            return cls(**decode(text))  # type: ignore[arg-type]
        except (NotStorableError, TypeError):
            return None


class Letter(Protocol):
    """What is asked of a dead letter that is to be written."""

    @property
    def id(self) -> str: ...
    @property
    def org(self) -> str: ...
    @property
    def run_id(self) -> str: ...
    @property
    def occurrence(self) -> Occurrence: ...


class DeadLetterWriter:
    """`max_size` bounds the live dead letters of an org. What is beyond it is refused, never evicted."""

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
        """The runs whose letters have no room."""
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

    async def written(
        self,
        session: Session,
        letters: Sequence[Letter],
        settled: Sequence[Settled | Resolved],
        by: str = SELF,
    ) -> list[GroupChange]:
        """Count them in their groups, and write the audit entries: the last that their transaction does."""
        changes = await self._groups.occurred(
            session, [each.occurrence for each in letters], reopen_after_failure
        )
        entries = [*_moved(letters, by), *outcomes(settled), *map(_reopened, changes)]
        if entries:
            await self._audit.append(session, entries)
        return changes

    async def count_refused(
        self, org: str, queue: str, number: int = 1, *, session: Session | None = None
    ) -> None:
        """What is refused is a figure of its own, so that it is seen."""
        parameters = {"org": org, "queue": queue, "number": number}
        await (session or self._session).fetch(_SQL["count_refused"], parameters)

    async def sum_up(self) -> None:
        """Tidy the counters: on PostgreSQL every change of them is a row of its own at first."""
        for name in ("sum_up_counts", "sum_up_figures"):
            await self._session.fetch(_SQL[name], {})

    async def _room(self, session: Session, org: str, most: int) -> int:
        """Two that look at once would both find the last place: the first one locks the other out."""
        await self._limits.lock_limits(session, {_QUEUE + org: most})
        [row] = await session.fetch(_SQL["live"], {"org": org})
        return most - int(row[0] or 0)


def _moved(letters: Iterable[Letter], by: str) -> list[NewEntry]:
    """One entry for all letters of an org that are written together."""
    by_org: dict[str, list[Letter]] = {}
    for letter in letters:
        by_org.setdefault(letter.org, []).append(letter)
    return [
        NewEntry(
            org=org,
            actor=by,
            action=Action.DEAD_LETTER_MOVED,
            subjects=tuple(each.id for each in own),
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


def _reopened(change: GroupChange) -> NewEntry:
    action = Action.GROUP_REGRESSED if change.regressed else Action.GROUP_REOPENED
    return NewEntry(
        org=change.org,
        actor=SELF,
        action=action,
        subjects=(change.fingerprint,),
        detail={"reason": change.reason},
    )
