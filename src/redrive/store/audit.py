"""The audit log: a hash chain of entries per org, written in the transaction of the change they record.

A transaction that appends for an org locks the head of its chain, so other transactions wait until it ends.
Append once per transaction, as its last statement: heads are then locked briefly and always in the same
order.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Sequence
from itertools import groupby
from operator import attrgetter
from typing import NamedTuple

from redrive.model.audit import Action, Entry, Head, NewEntry
from redrive.model.caller import SELF
from redrive.policy.audit_chain import chained
from redrive.policy.codec import encode, storable
from redrive.store.database import Session
from redrive.store.statement import statements

MAX_SUBJECTS = 1_000
MAX_SCANNED = 5_000
PAGE = 1_000

_by_org = attrgetter("org")


class AuditFilter(NamedTuple):
    """A filter: entries must match all fields that are set. `since` and `until` are Unix timestamps."""

    action: str | None = None
    actor: str | None = None
    subject: str | None = None
    since: float | None = None
    until: float | None = None


class End(NamedTuple):
    """The stored head of a chain and the highest sequence among its entries, read by one statement."""

    head: Head
    last: int


class AuditMark(NamedTuple):
    """An action and its subjects, without the actor and the reason. `subjects` has the format of Entry."""

    sequence: int
    at: float
    action: str
    subject: str
    subjects: str | None


class OrgKey(NamedTuple):
    org: str


_SQL = statements("audit", Entry, OrgKey, AuditMark)


class AuditStore:
    def __init__(self, session: Session) -> None:
        self._session = session
        self._known: set[str] = set()

    async def append(self, session: Session, entries: Sequence[NewEntry]) -> None:
        """Append entries to the chains of their orgs. Call it once per transaction, as the last step."""
        if not entries:
            return
        rows: list[Entry] = []
        heads = await self._locked(session, sorted({_plain(entry.org) for entry in entries}))
        stored = sorted((part for entry in entries for part in _stored(entry)), key=_by_org)
        for org, several in groupby(stored, _by_org):
            head, now = heads[org]
            rows += chained(head, [entry._replace(at=now) for entry in several])
        await session.fetch_many(_SQL["insert_entry"], rows)
        await session.fetch_many(_SQL["save_head"], list({entry.org: entry for entry in rows}.values()))

    async def end(self, org: str) -> End:
        [(sequence, hash_, last)] = await self._session.fetch(_SQL["end"], {"org": _plain(org)})
        return End(Head(org, sequence, hash_), last)

    async def following(self, org: str, last: int) -> AsyncIterator[list[Entry]]:
        """Yield the chain up to the sequence `last`, oldest first, in pages."""
        parameters = {"org": _plain(org), "after": 0, "last": last, "size": PAGE}
        while rows := await self._session.fetch(_SQL["following"], parameters):
            entries = [Entry._make(row) for row in rows]
            yield entries
            parameters["after"] = entries[-1].sequence

    async def after(self, org: str, sequence: int, most: int) -> list[AuditMark]:
        """Return the next entries after `sequence`, oldest first."""
        parameters = {"org": _plain(org), "after": sequence, "most": most}
        return [AuditMark._make(row) for row in await self._session.fetch(_SQL["after"], parameters)]

    async def page(self, org: str, wanted: AuditFilter, size: int, before: int) -> list[Entry]:
        """Return entries before the sequence `before`, newest first.

        With a subject, only entries about this subject alone are found; see `batches_about`.
        """
        texts = {key: _plain(text) for key, text in wanted._asdict().items() if isinstance(text, str)}
        bounds = {"org": _plain(org), "size": size, "before": before, "look": MAX_SCANNED}
        parameters = {**wanted._asdict(), **texts, **bounds}
        return [Entry._make(row) for row in await self._session.fetch(_SQL[_page(wanted)], parameters)]

    async def batches_about(self, org: str, subject: str, since: float, size: int) -> list[Entry]:
        """Find entries about several subjects that include this one.

        The search is limited to the first and the newest entries since `since`.
        """
        parameters = {"org": _plain(org), "since": since, "look": MAX_SCANNED, "size": size}
        quoted = encode(_plain(subject))
        rows = await self._session.fetch(_SQL["batches_about"], {**parameters, "quoted": quoted})
        return [Entry._make(row) for row in rows]

    async def _locked(self, session: Session, orgs: Sequence[str]) -> dict[str, tuple[Head, float]]:
        """Lock the heads until the transaction ends, creating missing ones; return them with the time."""
        wanted = [OrgKey(org) for org in orgs]
        await self._ensure(session, [key for key in wanted if key.org not in self._known])
        heads = await self._read(session, wanted)
        if len(heads) < len(wanted):  # a head was removed
            await self._ensure(session, wanted)
            heads = await self._read(session, wanted)
        return heads

    async def _read(self, session: Session, orgs: Sequence[OrgKey]) -> dict[str, tuple[Head, float]]:
        rows = await session.fetch_many(_SQL["lock_head"], orgs)
        return {row[0]: (Head(row[0], row[1], row[2]), row[3]) for row in rows}

    async def _ensure(self, session: Session, orgs: Sequence[OrgKey]) -> None:
        if orgs:
            made = {row[0] for row in await session.fetch_many(_SQL["ensure_head"], orgs)}
            # Heads inserted here may still be rolled back, so only heads that existed before are remembered.
            self._known |= {key.org for key in orgs if key.org not in made}


def _page(wanted: AuditFilter) -> str:
    """Choose the statement. The indexes by action and actor leave out the frequent entries of the engine."""
    if wanted.subject is not None:
        return "page_about"
    if wanted.action not in (None, Action.DEAD_LETTER_MOVED):
        return "page_of_action"
    return "page_by_actor" if wanted.actor not in (None, SELF) else "page"


def _stored(new: NewEntry) -> Iterator[Entry]:
    """Yield the entry to store, without its place in the chain; split at MAX_SUBJECTS subjects."""
    ids = [_plain(subject) for subject in new.subjects]
    detail = dict(new.detail)
    if len(ids) > MAX_SUBJECTS:
        detail["subjects"] = len(ids)
    text = encode(storable(detail))
    for start in range(0, max(len(ids), 1), MAX_SUBJECTS):
        yield _entry(new, ids[start : start + MAX_SUBJECTS], text)


def _entry(new: NewEntry, ids: list[str], detail: str) -> Entry:
    return Entry(
        org=_plain(new.org),
        sequence=0,
        at=0.0,
        actor=_plain(new.actor),
        action=str(new.action),
        subject=ids[0] if len(ids) == 1 else "",
        subjects=encode(ids) if len(ids) > 1 else None,
        detail=detail,
        hash="",
    )


def _plain(text: str) -> str:
    """Replace what a database rejects: NUL on PostgreSQL, lone surrogates on both."""
    return text.replace("\x00", "␀").encode(errors="replace").decode()
