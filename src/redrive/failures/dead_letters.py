"""Dead letters as a person works with them: finding them, and saying what becomes of them (W8).

What is done to several of them is done to all or to none, together with its audit entry. A letter is closed
and reopened; its run, and the evidence of what failed, stay as they are. Whoever names the `version` of a
letter that they have read (redrive.model.dead_letter) is refused with DriftError when it has changed since.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from redrive.engine.event_bus import EventBus
from redrive.engine.ids import Ids
from redrive.errors import InvalidValueError
from redrive.failures.refusal import (
    MAX_CONCURRENT,
    Version,
    checked_ids,
    refuse_drift,
    refuse_missing,
    refuse_stale,
    refuse_standings,
    refuse_states,
    require_all,
)
from redrive.failures.related import related_to
from redrive.model.audit import Action, NewEntry
from redrive.model.caller import Caller
from redrive.model.dead_letter import CLOSED, DeadLetter, DeadLetterLine, DeadLetterState, Note, Related
from redrive.model.event import DeadLetterChanged
from redrive.model.operation import MAX_ITEMS
from redrive.model.query import MAX_COUNTED, Count, Order, Query
from redrive.policy.bounds import choice, require_whole
from redrive.policy.query import parse
from redrive.policy.redact import Redactor
from redrive.policy.user_text import MAX_NOTE_LENGTH, clean_reason, clean_word, clean_words, retagged, said
from redrive.store.database import Session
from redrive.store.dead_letters import Closing, Figures, Locked, Tagging
from redrive.store.listing import Page
from redrive.store.store import Store

MAX_PAGE_SIZE = 500

_ACTIONS = {
    DeadLetterState.RESOLVED: Action.DEAD_LETTER_RESOLVED,
    DeadLetterState.IGNORED: Action.DEAD_LETTER_IGNORED,
    DeadLetterState.ARCHIVED: Action.DEAD_LETTER_ARCHIVED,
    DeadLetterState.OPEN: Action.DEAD_LETTER_REOPENED,
}


class DeadLetters:
    """The dead letters of the caller's org. One of another org does not exist (W13)."""

    def __init__(
        self, store: Store, ids: Ids, event_bus: EventBus, redactor: Redactor, caller: Caller
    ) -> None:
        self._store = store
        self._letters = store.dead_letters
        self._ids = ids
        self._event_bus = event_bus
        self._redactor = redactor
        self._caller = caller

    # Finding them

    async def list(
        self, query: str = "", *, size: int = 50, cursor: str | None = None, order: Order | str = Order.NEWEST
    ) -> Page:
        """A page of those that fulfil the query (redrive.policy.query), without their payloads."""
        require_whole("size", size, 1, MAX_PAGE_SIZE)
        known = choice("order", order, Order)
        return await self._letters.page(self._parsed(query), self._caller.org, size, cursor, known)

    async def count(self, query: str = "", *, most: int = MAX_COUNTED) -> Count:
        """How many fulfil the query; counted up to `most`."""
        require_whole("most", most, 1, MAX_ITEMS)
        return await self._letters.count(self._parsed(query), self._caller.org, most)

    async def lines(self, ids: Sequence[str]) -> Sequence[DeadLetterLine]:
        """Those of these that there are, in the same order."""
        known = [each for each in dict.fromkeys(ids) if each.isprintable()]
        return await self._letters.lines_by_ids(known, self._caller.org)

    async def get(self, letter_id: str) -> DeadLetter:
        [known] = checked_ids([letter_id])
        return await self._letters.get(known, self._caller.org)

    async def notes(self, letter_id: str) -> Sequence[Note]:
        """What was written about it, the oldest first."""
        return await self._letters.notes(await self._known(letter_id), self._caller.org)

    async def dependencies(self, letter_id: str) -> Sequence[DeadLetterLine]:
        """The letters that must be resolved before this one is redriven."""
        return await self._letters.dependencies(await self._known(letter_id), self._caller.org)

    async def related(self, letter_id: str) -> Related:
        """Others that may have to do with it, without their payloads."""
        [known] = checked_ids([letter_id])
        return await related_to(self._letters, known, self._caller.org)

    async def statistics(self, queue: str | None = None) -> Figures:
        return await self._letters.figures(self._caller.org, queue)

    # Closing and reopening them; each answers how many it was

    async def resolve(self, ids: str | Iterable[str], reason: str = "", *, version: Version = None) -> int:
        return await self._close(ids, DeadLetterState.RESOLVED, reason, version)

    async def ignore(self, ids: str | Iterable[str], reason: str = "", *, version: Version = None) -> int:
        return await self._close(ids, DeadLetterState.IGNORED, reason, version)

    async def archive(self, ids: str | Iterable[str], reason: str = "", *, version: Version = None) -> int:
        return await self._close(ids, DeadLetterState.ARCHIVED, reason, version)

    async def resolve_matching(self, query: str, reason: str = "", *, expect: int) -> int:
        """Those that fulfil the query: exactly as many as expected, or none."""
        return len(await self.close_matching(query, DeadLetterState.RESOLVED, reason, expect=expect))

    async def ignore_matching(self, query: str, reason: str = "", *, expect: int) -> int:
        return len(await self.close_matching(query, DeadLetterState.IGNORED, reason, expect=expect))

    async def archive_matching(self, query: str, reason: str = "", *, expect: int) -> int:
        return len(await self.close_matching(query, DeadLetterState.ARCHIVED, reason, expect=expect))

    async def close_matching(
        self, query: str, state: DeadLetterState | str, reason: str = "", *, expect: int
    ) -> Sequence[str]:
        """The same, the state an argument: the ids of those that were closed, to reopen just these."""
        after, parsed = choice("state", state, DeadLetterState), self._parsed(query)
        if after not in CLOSED:
            raise InvalidValueError(f"a dead letter is closed as {', '.join(CLOSED)}, not as {after}")
        why = clean_reason(reason, self._redactor)
        require_whole("expect", expect, 1, MAX_CONCURRENT)
        asked = {"query": self._redactor.text(str(parsed))}
        async with self._store.database.transaction() as session:
            found = await self._letters.ids(session, parsed, self._caller.org, MAX_CONCURRENT + 1)
            refuse_drift(len(found), expect)
            locked = await self._locked(session, found)
            await self._close_within(session, locked, after, why, asked)
        self._tell(locked, after)
        return list(locked)

    async def reopen(self, ids: str | Iterable[str], reason: str = "", *, version: Version = None) -> int:
        """Undo closing them. Refused where their work has gone on since."""
        named, why = checked_ids(ids), clean_reason(reason, self._redactor)
        async with self._store.database.transaction() as session:
            await self._letters.lock_runs(session, named, self._caller.org)
            locked = await self._locked(session, named, version)
            refuse_states(locked, DeadLetterState.OPEN)
            refuse_standings(await self._letters.standings(session, named, self._caller.org))
            changed = await self._letters.reopen_if_closed(session, named, self._caller.org)
            require_all(changed, named)
            await self._audit(session, Action.DEAD_LETTER_REOPENED, named, _moved(locked, why))
        self._tell(locked, DeadLetterState.OPEN)
        return changed

    # Working on them

    async def assign(self, ids: str | Iterable[str], name: str | None, *, version: Version = None) -> int:
        """Say who looks after them; None: nobody."""
        assignee = None if name is None else clean_word("name", name, self._redactor)

        async def change(session: Session, locked: Mapping[str, Locked]) -> None:
            await self._letters.assign(session, list(locked), self._caller.org, assignee)

        detail = {"assignee": assignee}
        return await self._work_on(ids, Action.DEAD_LETTER_ASSIGNED, detail, change, version)

    async def tag(
        self,
        ids: str | Iterable[str],
        add: Iterable[str] = (),
        remove: Iterable[str] = (),
        *,
        version: Version = None,
    ) -> int:
        more, less = clean_words("add", add, self._redactor), clean_words("remove", remove, self._redactor)
        if not more and not less:
            raise InvalidValueError("name at least one tag to add or to remove")

        async def change(session: Session, locked: Mapping[str, Locked]) -> None:
            org = self._caller.org
            rows = [Tagging(each.id, org, retagged(each.tags, more, less)) for each in locked.values()]
            await self._letters.tag(session, rows)

        detail = {"added": more, "removed": less}
        return await self._work_on(ids, Action.DEAD_LETTER_TAGGED, detail, change, version)

    async def note(self, letter_id: str, text: str) -> Note:
        """Write something down about it, for whoever comes next."""
        [known] = checked_ids([letter_id])
        body = said("text", text, self._redactor, shortest=1, longest=MAX_NOTE_LENGTH)
        async with self._store.database.transaction() as session:
            org, author = self._caller
            note = await self._letters.note(session, known, org, self._ids.new(), author, body)
            await self._audit(session, Action.DEAD_LETTER_NOTED, [known], {"note": note.id})
        return note

    async def link(self, letter_id: str, depends_on: str) -> bool:
        """Redrive the first only after the second was resolved (M12). False when it was so before."""
        named = checked_ids([letter_id, depends_on])
        if len(named) < 2:
            raise InvalidValueError(f"the dead letter {letter_id} cannot wait for itself")
        async with self._store.database.transaction() as session:
            await self._locked(session, named)
            if not await self._letters.link(session, letter_id, depends_on, self._caller.org):
                return False
            await self._audit(session, Action.DEAD_LETTER_LINKED, [letter_id], {"depends_on": depends_on})
            # Now that this org's audit is locked, nobody else can be linking in the same moment.
            if await self._letters.depends(session, depends_on, letter_id, self._caller.org):
                raise InvalidValueError(
                    f"the dead letter {depends_on} already waits for {letter_id}; neither would ever be "
                    f"redriven. Unlink one of them first"
                )
        return True

    async def unlink(self, letter_id: str, depends_on: str) -> bool:
        """Undo a link. False when there was none."""
        named = checked_ids([letter_id, depends_on])
        async with self._store.database.transaction() as session:
            await self._locked(session, named)
            if not await self._letters.unlink(session, letter_id, depends_on, self._caller.org):
                return False
            detail = {"no_longer_depends_on": depends_on}
            await self._audit(session, Action.DEAD_LETTER_LINKED, [letter_id], detail)
        return True

    async def _close(
        self, ids: str | Iterable[str], state: DeadLetterState, reason: str, version: Version
    ) -> int:
        named, why = checked_ids(ids), clean_reason(reason, self._redactor)
        async with self._store.database.transaction() as session:
            locked = await self._locked(session, named, version)
            await self._close_within(session, locked, state, why, {})
        self._tell(locked, state)
        return len(locked)

    async def _close_within(
        self,
        session: Session,
        locked: Mapping[str, Locked],
        state: DeadLetterState,
        why: str,
        more: Mapping[str, Any],
    ) -> None:
        refuse_states(locked, state)
        ids, (org, name) = list(locked), self._caller
        closing = Closing(org, state, name, why)
        require_all(await self._letters.close_if_unattended(session, ids, closing), ids)
        await self._audit(session, _ACTIONS[state], ids, {**_moved(locked, why), **more})

    async def _work_on(
        self,
        ids: str | Iterable[str],
        action: Action,
        detail: Mapping[str, Any],
        change: Callable[[Session, Mapping[str, Locked]], Any],
        version: Version,
    ) -> int:
        named = checked_ids(ids)
        async with self._store.database.transaction() as session:
            await change(session, await self._locked(session, named, version))
            await self._audit(session, action, named, detail)
        return len(named)

    async def _locked(
        self, session: Session, ids: Sequence[str], version: Version = None
    ) -> Mapping[str, Locked]:
        locked = await self._letters.lock(session, ids, self._caller.org)
        refuse_missing([each for each in ids if each not in locked])
        refuse_stale(locked, version)
        return {each: locked[each] for each in ids}

    async def _known(self, letter_id: str) -> str:
        [known] = checked_ids([letter_id])
        refuse_missing([] if await self._letters.lines_by_ids([known], self._caller.org) else [known])
        return known

    def _parsed(self, query: str) -> Query:
        return parse(query).asked_by(self._caller.name)

    async def _audit(
        self, session: Session, action: Action, ids: Sequence[str], detail: Mapping[str, Any]
    ) -> None:
        entry = NewEntry(self._caller.org, self._caller.name, action, tuple(ids), detail)
        await self._store.audit.append(session, [entry])

    def _tell(self, locked: Mapping[str, Locked], after: DeadLetterState) -> None:
        org, name = self._caller
        if self._event_bus.is_subscribed(DeadLetterChanged):
            for each in locked.values():
                self._event_bus.emit(DeadLetterChanged(org, each.id, each.state, after, name))


def _moved(locked: Mapping[str, Locked], why: str) -> dict[str, Any]:
    return {"reason": why, "before": dict(Counter(each.state for each in locked.values()))}
