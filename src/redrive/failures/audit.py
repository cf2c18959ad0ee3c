"""The audit as its readers see it: list it, take its head away, verify it (W16)."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any, NamedTuple

from redrive.errors import InvalidValueError, NotStorableError
from redrive.model.audit import Action, Entry, Head
from redrive.model.caller import Caller
from redrive.model.field import Instant
from redrive.policy.bounds import choice, require, require_kind, require_whole
from redrive.policy.chain import ChainCheck, Fault
from redrive.policy.codec import decode
from redrive.store.audit import Wanted
from redrive.store.store import Store

LATEST = 1e11
MAX_PAGE_SIZE = 500
_BEYOND = 2**62


class AuditEntry(NamedTuple):
    """What was done. `subjects` are the ids of what it was done to; `at` is in seconds since 1970."""

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
    """`found` counts all faults, `faults` lists the first of them; `head` is where the chain ends now."""

    head: Head
    checked: int
    faults: tuple[Fault, ...]
    found: int

    @property
    def sound(self) -> bool:
        return self.found == 0

    def __str__(self) -> str:
        if self.sound:
            return f"The audit of {self.head.org!r} is sound: {self.checked:,} entries checked."
        title = f"The audit of {self.head.org!r} has {self.found:,} faults in {self.checked:,} entries."
        listed = [f"  {each.kind} at {each.sequence:,}: {each.text}" for each in self.faults]
        return "\n".join([title, *listed])


class Audit:
    """The audit of the caller's org."""

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
        """A page of entries, newest first. A subject finds what was done to it alone; see `about`."""
        require_whole("size", size, 1, MAX_PAGE_SIZE)
        known = None if action is None else choice("action", action, Action)
        wanted = Wanted(known, actor, subject, _seconds("since", since), _seconds("until", until))
        found = await self._store.audit.page(self._org, wanted, size + 1, _before(cursor))
        entries = [_readable(entry) for entry in found[:size]]
        return AuditPage(entries, str(entries[-1].sequence) if len(found) > size else None)

    async def about(self, subject: str, since: float = 0.0, *, size: int = 100) -> Sequence[AuditEntry]:
        """What was done to this, newest first: alone, and together with others.

        The latter is looked for among the first and the newest 5,000 entries since that moment: give the one
        in which it came to be.
        """
        require_whole("size", size, 1, MAX_PAGE_SIZE)
        since = _seconds("since", since) or 0.0
        alone = await self._store.audit.page(self._org, Wanted(subject=subject), size, _BEYOND)
        together = await self._store.audit.batches_about(self._org, subject, since, size)
        found = sorted([*alone, *together], key=lambda entry: -entry.sequence)
        return [_readable(entry) for entry in found[:size]]

    async def head(self) -> Head:
        """Where the chain ends. Keep it outside of this database, and give it to `verify` later."""
        return (await self._store.audit.end(self._org)).head

    async def verify(self, head: Head | str | None = None) -> AuditVerdict:
        """Is the chain whole, and does it still hold the entry that this head was taken from?

        Others may go on appending. Without a head, a cut end and a chain that was written anew look sound.
        """
        head = _known(head)
        head_now, last = await self._store.audit.end(self._org)
        check = ChainCheck(self._org, head)
        async for entries in self._store.audit.following(self._org, last):
            check.take(entries)
        faults = check.finish(head_now, last)
        return AuditVerdict(head_now, check.checked, tuple(faults), check.found)


def _known(head: Head | str | None) -> Head | None:
    if head is None or isinstance(head, Head):
        return head
    require_kind("head", head, str)
    return Head.parse(head)


def _readable(entry: Entry) -> AuditEntry:
    alone = (entry.subject,) if entry.subject else ()
    subjects = alone if entry.subjects is None else tuple(_decoded(entry.subjects, []))
    detail = _decoded(entry.detail, {})
    return AuditEntry(entry.sequence, entry.at, entry.actor, entry.action, subjects, detail, entry.hash)


def _decoded(text: str, instead: Any) -> Any:
    """An entry that somebody has damaged is still to be listed; `verify` tells that it was."""
    try:
        value = decode(text)
    except NotStorableError:
        return instead
    return value if type(value) is type(instead) else instead


def _before(cursor: object) -> int:
    if cursor is None:
        return _BEYOND
    if not isinstance(cursor, str) or not cursor.isdecimal() or not cursor.isascii() or len(cursor) > 18:
        raise InvalidValueError(f"the cursor {cursor!r} is not one that a page has given; begin anew without")
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
