"""The audit of an organization: list its entries, export its head, verify its chain."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any, NamedTuple

from redrive.errors import InvalidValueError, NotStorableError
from redrive.model.audit import Action, Entry, Head
from redrive.model.caller import Caller
from redrive.model.field import Instant
from redrive.policy.audit_chain import ChainCheck, ChainFault
from redrive.policy.bounds import choice, require, require_kind, require_whole
from redrive.policy.codec import decode
from redrive.store.audit import AuditFilter
from redrive.store.store import Store
from redrive.words.number import plural

LATEST = 1e11
MAX_PAGE_SIZE = 500
_BEYOND = 2**62


class AuditEntry(NamedTuple):
    """One action of an actor. `subjects` are the ids of changed objects; `at` is in seconds since 1970."""

    sequence: int
    at: Instant
    actor: str
    action: str
    subjects: tuple[str, ...]
    detail: dict[str, Any]
    hash: str


class AuditPage(NamedTuple):
    """`next_cursor` is None on the last page."""

    entries: list[AuditEntry]
    next_cursor: str | None


class AuditVerdict(NamedTuple):
    """`found` counts all faults and `faults` lists the first ones; `head` is the current end of the chain."""

    head: Head
    checked: int
    faults: tuple[ChainFault, ...]
    found: int

    @property
    def sound(self) -> bool:
        return self.found == 0

    def __str__(self) -> str:
        entries = plural(self.checked, "entry", "entries")
        if self.sound:
            return f"The audit log of {self.head.org!r} is intact: {entries} checked."
        faults = plural(self.found, "fault")
        title = f"The audit log of {self.head.org!r} has {faults} in {entries}."
        listed = [f"  {fault.kind} at {fault.sequence:,}: {fault.text}" for fault in self.faults]
        return "\n".join([title, *listed])


class Audit:
    """The audit of the caller's organization."""

    def __init__(self, store: Store, caller: Caller) -> None:
        self._store = store
        self._org = caller.org

    async def list(
        self,
        *,
        action: Action | str | None = None,
        actor: str | None = None,
        subject: str | None = None,
        since: float | datetime | None = None,
        until: float | datetime | None = None,
        size: int = 50,
        cursor: str | None = None,
    ) -> AuditPage:
        """A page of entries, newest first.

        `subject` finds entries about this subject only; `about` also finds entries about several subjects.
        """
        require_whole("size", size, 1, MAX_PAGE_SIZE)
        known = None if action is None else choice("action", action, Action)
        wanted = AuditFilter(
            action=known,
            actor=actor,
            subject=subject,
            since=_seconds("since", since),
            until=_seconds("until", until),
        )
        found = await self._store.audit.page(self._org, wanted, size + 1, _before(cursor))
        entries = [_readable(entry) for entry in found[:size]]
        return AuditPage(entries, str(entries[-1].sequence) if len(found) > size else None)

    async def about(self, subject: str, since: float = 0.0, *, size: int = 100) -> Sequence[AuditEntry]:
        """Entries about this subject, newest first, including entries about several subjects.

        Entries about several subjects are searched among the first 5,000 and the newest 5,000 since `since`;
        pass the time at which the subject was created.
        """
        require_whole("size", size, 1, MAX_PAGE_SIZE)
        since = _seconds("since", since) or 0.0
        alone = await self._store.audit.page(self._org, AuditFilter(subject=subject), size, _BEYOND)
        together = await self._store.audit.batches_about(self._org, subject, since, size)
        found = sorted([*alone, *together], key=lambda entry: -entry.sequence)
        return [_readable(entry) for entry in found[:size]]

    async def head(self) -> Head:
        """The head of the chain. Store it outside this database and pass it to `verify` later."""
        return (await self._store.audit.end(self._org)).head

    async def verify(self, head: Head | str | None = None) -> AuditVerdict:
        """Check that the chain is complete and still contains the entry of this head.

        Entries may be appended during the check. Without a head, a truncated or rewritten chain looks sound.
        """
        head = _parsed(head)
        head_now, last = await self._store.audit.end(self._org)
        check = ChainCheck(self._org, head)
        async for entries in self._store.audit.following(self._org, last):
            check.take(entries)
        faults = check.finish(head_now, last)
        return AuditVerdict(head_now, check.checked, tuple(faults), check.found)


def _parsed(head: Head | str | None) -> Head | None:
    if head is None or isinstance(head, Head):
        return head
    require_kind("head", head, str)
    return Head.parse(head)


def _readable(entry: Entry) -> AuditEntry:
    single = (entry.subject,) if entry.subject else ()
    subjects = single if entry.subjects is None else tuple(_decode(entry.subjects, []))
    detail = _decode(entry.detail, {})
    return AuditEntry(entry.sequence, entry.at, entry.actor, entry.action, subjects, detail, entry.hash)


def _decode(text: str, default: Any) -> Any:
    """Return `default` for damaged text: the entry is still listed, and `verify` reports the damage."""
    try:
        value = decode(text)
    except NotStorableError:
        return default
    return value if type(value) is type(default) else default


def _before(cursor: object) -> int:
    if cursor is None:
        return _BEYOND
    if not isinstance(cursor, str) or not cursor.isdecimal() or not cursor.isascii() or len(cursor) > 18:
        raise InvalidValueError(
            f"the cursor {cursor!r} is not from a page; start from the first page, without a cursor"
        )
    return int(cursor)


def _seconds(name: str, moment: float | datetime | None) -> float | None:
    if moment is None:
        return None
    if not isinstance(moment, datetime):
        require(f"{name}, in seconds since 1970,", moment, 0.0, LATEST)
        return float(moment)
    if moment.tzinfo is None:
        raise InvalidValueError(
            f"{name} must have a time zone, got {moment!r}; for example datetime.now(UTC)"
        )
    return moment.timestamp()
