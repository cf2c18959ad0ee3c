"""The audit: entries appended to the chains of their orgs, in the transaction of what they tell about.

Of two transactions that append for one org, the later waits until the earlier has ended. Append last, and
once a transaction: then heads are locked for a moment only, and always in the same order.
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
LOOK = 5_000
PAGE = 1_000

_by_org = attrgetter("org")


class Wanted(NamedTuple):
    """Which entries: those that fit all that is given; `since` and `until` in seconds since 1970."""

    action: str | None = None
    actor: str | None = None
    subject: str | None = None
    since: float | None = None
    until: float | None = None


class End(NamedTuple):
    """The stored head of a chain, and the last sequence that there is, read in one moment."""

    head: Head
    last: int


class AuditMark(NamedTuple):
    """That something was done, and to what; not by whom, and not why. `subjects` as in Entry."""

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
        """Append to the chains of their orgs. The last statement of a transaction, and once in it."""
        if not entries:
            return
        rows: list[Entry] = []
        heads = await self._locked(session, sorted({_plain(each.org) for each in entries}))
        stored = sorted((each for entry in entries for each in _stored(entry)), key=_by_org)
        for org, several in groupby(stored, _by_org):
            head, now = heads[org]
            rows += chained(head, [each._replace(at=now) for each in several])
        await session.fetch_many(_SQL["insert_entry"], rows)
        await session.fetch_many(_SQL["save_head"], list({each.org: each for each in rows}.values()))

    async def end(self, org: str) -> End:
        [(sequence, hash_, last)] = await self._session.fetch(_SQL["end"], {"org": _plain(org)})
        return End(Head(org, sequence, hash_), last)

    async def following(self, org: str, last: int) -> AsyncIterator[list[Entry]]:
        """The whole chain up to `last`, oldest first, in pages."""
        parameters = {"org": _plain(org), "after": 0, "last": last, "size": PAGE}
        while rows := await self._session.fetch(_SQL["following"], parameters):
            entries = [Entry._make(row) for row in rows]
            yield entries
            parameters["after"] = entries[-1].sequence

    async def after(self, org: str, sequence: int, most: int) -> list[AuditMark]:
        """The next entries after that one, the oldest first."""
        parameters = {"org": _plain(org), "after": sequence, "most": most}
        return [AuditMark._make(row) for row in await self._session.fetch(_SQL["after"], parameters)]

    async def page(self, org: str, wanted: Wanted, size: int, before: int) -> list[Entry]:
        """Those before this sequence, newest first. A subject finds the entries about it alone."""
        texts = {key: _plain(text) for key, text in wanted._asdict().items() if isinstance(text, str)}
        bounds = {"org": _plain(org), "size": size, "before": before, "look": LOOK}
        parameters = {**wanted._asdict(), **texts, **bounds}
        return [Entry._make(row) for row in await self._session.fetch(_SQL[_page(wanted)], parameters)]

    async def batches_about(self, org: str, subject: str, since: float, size: int) -> list[Entry]:
        """Entries about several subjects, this one among them: looked for among the first and the newest
        since a moment."""
        parameters = {"org": _plain(org), "since": since, "look": LOOK, "size": size}
        quoted = encode(_plain(subject))
        rows = await self._session.fetch(_SQL["batches_about"], {**parameters, "quoted": quoted})
        return [Entry._make(row) for row in rows]

    async def _locked(self, session: Session, orgs: Sequence[str]) -> dict[str, tuple[Head, float]]:
        """The heads and the moment, locked until the transaction ends; made where there are none yet."""
        wanted = [OrgKey(org) for org in orgs]
        await self._ensure(session, [each for each in wanted if each.org not in self._known])
        heads = await self._read(session, wanted)
        if len(heads) < len(wanted):  # somebody has removed one
            await self._ensure(session, wanted)
            heads = await self._read(session, wanted)
        return heads

    async def _read(self, session: Session, orgs: Sequence[OrgKey]) -> dict[str, tuple[Head, float]]:
        rows = await session.fetch_many(_SQL["lock_head"], orgs)
        return {row[0]: (Head(row[0], row[1], row[2]), row[3]) for row in rows}

    async def _ensure(self, session: Session, orgs: Sequence[OrgKey]) -> None:
        if orgs:
            made = {row[0] for row in await session.fetch_many(_SQL["ensure_head"], orgs)}
            # What was made here may yet be rolled back, and nobody else sees it before the commit.
            self._known |= {each.org for each in orgs if each.org not in made}


def _page(wanted: Wanted) -> str:
    """What engines do by themselves all the time is in no index by action or actor: it is found anyway."""
    if wanted.subject is not None:
        return "page_about"
    if wanted.action not in (None, Action.DEAD_LETTER_MOVED):
        return "page_of_action"
    return "page_by_actor" if wanted.actor not in (None, SELF) else "page"


def _stored(new: NewEntry) -> Iterator[Entry]:
    """As it is stored, but for its place in the chain; in several pieces when it has very many subjects."""
    ids = [_plain(each) for each in new.subjects]
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
    """What both databases can hold: PostgreSQL has no NUL, and neither has lone surrogates."""
    return text.replace("\x00", "␀").encode(errors="replace").decode()
