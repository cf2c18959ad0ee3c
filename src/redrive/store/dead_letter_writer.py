"""What accompanies every new dead letter: its failure group and its audit entry."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple, Protocol

from redrive.errors import NotStorableError
from redrive.model.audit import Action, NewEntry
from redrive.model.caller import SELF
from redrive.model.fact import SENTENCE, Fact
from redrive.model.failure_group import GroupChange, Occurrence
from redrive.policy.codec import decode
from redrive.policy.recurrence import reopen_after_failure
from redrive.store.audit import AuditStore
from redrive.store.database import Session
from redrive.store.groups import Groups
from redrive.store.replays import LetterChange, Settled, outcomes
from redrive.store.statement import statements

_SQL = statements("dead_letter_writer")

LETTER_REJECTED = "letter_rejected"


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
    """Counts and audits new dead letters. None is ever rejected for lack of room, or evicted."""

    def __init__(
        self,
        session: Session,
        groups: Groups,
        audit: AuditStore,
    ) -> None:
        self._session = session
        self._groups = groups
        self._audit = audit

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
