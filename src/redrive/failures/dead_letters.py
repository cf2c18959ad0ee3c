"""Triage of dead letters: close, reopen, assign, tag, note, link, reveal.

Each call changes all the letters it names or none, and writes its audit entry in the same transaction.
Closing and reopening change only the letter, not its run or the evidence of the failure. A caller that passes
the `version` of a letter (redrive.model.dead_letter) gets a DriftError if the letter has changed since.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from redrive.engine.encryption import Encryption
from redrive.engine.event_bus import EventBus
from redrive.engine.ids import Ids
from redrive.errors import InvalidValueError
from redrive.failures.dead_letter_queries import DeadLetterQueries
from redrive.failures.preconditions import (
    MAX_CONCURRENT,
    Version,
    check_all_changed,
    check_letter_version,
    check_number_matching,
    check_reopenable,
    check_states,
    checked_ids,
    reject_missing,
)
from redrive.model.audit import Action, NewEntry
from redrive.model.caller import Caller
from redrive.model.dead_letter import CLOSED, DeadLetterState, Note
from redrive.model.event import DeadLetterChanged
from redrive.policy.bounds import choice, require_whole
from redrive.policy.codec import JsonValue, decode
from redrive.policy.redact import Redactor
from redrive.policy.user_text import (
    MAX_NOTE_LENGTH,
    MAX_REASON_LENGTH,
    clean_reason,
    clean_text,
    clean_word,
    clean_words,
    retagged,
)
from redrive.store.database import Session
from redrive.store.dead_letters import LetterClosing, LetterTags, Locked
from redrive.store.payloads import Payloads
from redrive.store.store import Store

_ACTIONS = {
    DeadLetterState.RESOLVED: Action.DEAD_LETTER_RESOLVED,
    DeadLetterState.IGNORED: Action.DEAD_LETTER_IGNORED,
    DeadLetterState.ARCHIVED: Action.DEAD_LETTER_ARCHIVED,
    DeadLetterState.OPEN: Action.DEAD_LETTER_REOPENED,
}


class DeadLetters(DeadLetterQueries):
    """Reads and changes the dead letters of the caller's organization. No other letters are visible."""

    def __init__(
        self,
        store: Store,
        ids: Ids,
        event_bus: EventBus,
        redactor: Redactor,
        encryption: Encryption,
        caller: Caller,
    ) -> None:
        super().__init__(store, caller)
        self._store = store
        self._payloads = Payloads(store.database)
        self._ids = ids
        self._event_bus = event_bus
        self._redactor = redactor
        self._encryption = encryption

    # Closing and reopening: each method returns the number of letters it changed

    async def resolve(self, ids: str | Iterable[str], reason: str = "", *, version: Version = None) -> int:
        """Close letters because the work was done in another way. Return how many."""
        return await self._close(ids, DeadLetterState.RESOLVED, reason, version)

    async def ignore(self, ids: str | Iterable[str], reason: str = "", *, version: Version = None) -> int:
        """Close letters because the work doesn't need to be done. Return how many."""
        return await self._close(ids, DeadLetterState.IGNORED, reason, version)

    async def archive(self, ids: str | Iterable[str], reason: str = "", *, version: Version = None) -> int:
        """Close letters without a decision, and keep them forever. Return how many."""
        return await self._close(ids, DeadLetterState.ARCHIVED, reason, version)

    async def resolve_matching(self, query: str, reason: str = "", *, expect: int) -> int:
        """Resolve the letters that match the query, if there are exactly `expect` of them."""
        return len(await self.close_matching(query, DeadLetterState.RESOLVED, reason, expect=expect))

    async def ignore_matching(self, query: str, reason: str = "", *, expect: int) -> int:
        """Ignore the letters that match the query, if there are exactly `expect` of them."""
        return len(await self.close_matching(query, DeadLetterState.IGNORED, reason, expect=expect))

    async def archive_matching(self, query: str, reason: str = "", *, expect: int) -> int:
        """Archive the letters that match the query, if there are exactly `expect` of them."""
        return len(await self.close_matching(query, DeadLetterState.ARCHIVED, reason, expect=expect))

    async def close_matching(
        self, query: str, state: DeadLetterState | str, reason: str = "", *, expect: int
    ) -> Sequence[str]:
        """Close the letters that match the query. Return their ids; pass them to `reopen` to undo it."""
        after, parsed = choice("state", state, DeadLetterState), self._parsed(query)
        if after not in CLOSED:
            raise InvalidValueError(f"a dead letter can be closed as {', '.join(CLOSED)}, not as {after}")
        why = clean_reason(reason, self._redactor)
        require_whole("expect", expect, 1, MAX_CONCURRENT)
        asked = {"query": self._redactor.text(str(parsed))}
        async with self._store.database.transaction() as session:
            found = await self._letters.ids(session, parsed, self._caller.org, MAX_CONCURRENT + 1)
            check_number_matching(len(found), expect)
            locked = await self._locked(session, found)
            await self._close_within(session, locked, after, why, asked)
        self._emit(locked, after)
        return list(locked)

    async def reopen(self, ids: str | Iterable[str], reason: str = "", *, version: Version = None) -> int:
        """Reopen closed letters. Raises TransitionError if the run of a letter has continued since."""
        named, why = checked_ids(ids), clean_reason(reason, self._redactor)
        async with self._store.database.transaction() as session:
            await self._letters.lock_runs(session, named, self._caller.org)
            locked = await self._locked(session, named, version)
            check_states(locked, DeadLetterState.OPEN)
            check_reopenable(await self._letters.standings(session, named, self._caller.org))
            changed = await self._letters.reopen_if_closed(session, named, self._caller.org)
            check_all_changed(changed, named)
            await self._audit(session, Action.DEAD_LETTER_REOPENED, named, _closing_detail(locked, why))
        self._emit(locked, DeadLetterState.OPEN)
        return changed

    # Assignees, tags, notes and links

    async def assign(self, ids: str | Iterable[str], name: str | None, *, version: Version = None) -> int:
        """Set the assignee; None clears it."""
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
        """Add and remove tags. Return the number of letters."""
        added, removed = (
            clean_words("add", add, self._redactor),
            clean_words("remove", remove, self._redactor),
        )
        if not added and not removed:
            raise InvalidValueError("name at least one tag to add or to remove")

        async def change(session: Session, locked: Mapping[str, Locked]) -> None:
            org = self._caller.org
            rows = [
                LetterTags(letter.id, org, retagged(letter.tags, added, removed))
                for letter in locked.values()
            ]
            await self._letters.tag(session, rows)

        detail = {"added": added, "removed": removed}
        return await self._work_on(ids, Action.DEAD_LETTER_TAGGED, detail, change, version)

    async def note(self, letter_id: str, text: str) -> Note:
        """Add a note to a letter."""
        [known] = checked_ids([letter_id])
        body = clean_text("text", text, self._redactor, min_length=1, max_length=MAX_NOTE_LENGTH)
        async with self._store.database.transaction() as session:
            org, author = self._caller
            note = await self._letters.note(session, known, org, self._ids.new(), author, body)
            await self._audit(session, Action.DEAD_LETTER_NOTED, [known], {"note": note.id})
        return note

    async def link(self, letter_id: str, depends_on: str) -> bool:
        """Redrive the first letter only after the second is resolved. False if they were linked already."""
        named = checked_ids([letter_id, depends_on])
        if len(named) < 2:
            raise InvalidValueError(f"the dead letter {letter_id} cannot wait for itself")
        async with self._store.database.transaction() as session:
            await self._locked(session, named)
            if not await self._letters.link(session, letter_id, depends_on, self._caller.org):
                return False
            await self._audit(session, Action.DEAD_LETTER_LINKED, [letter_id], {"depends_on": depends_on})
            # Appending locked the audit of the organization, so no other caller links letters concurrently.
            if await self._letters.depends(session, depends_on, letter_id, self._caller.org):
                raise InvalidValueError(
                    f"the dead letter {depends_on} already waits for {letter_id}; neither would ever be "
                    f"redriven. Unlink one of them first"
                )
        return True

    async def unlink(self, letter_id: str, depends_on: str) -> bool:
        """Remove a link. False if the letters were not linked."""
        named = checked_ids([letter_id, depends_on])
        async with self._store.database.transaction() as session:
            await self._locked(session, named)
            if not await self._letters.unlink(session, letter_id, depends_on, self._caller.org):
                return False
            detail = {"no_longer_depends_on": depends_on}
            await self._audit(session, Action.DEAD_LETTER_LINKED, [letter_id], detail)
        return True

    async def reveal(self, letter_id: str, *, reason: str) -> JsonValue:
        """The payload of the failed step, unredacted. The audit records the caller and the reason."""
        why = clean_text("reason", reason, self._redactor, min_length=1, max_length=MAX_REASON_LENGTH)
        async with self._store.database.transaction() as session:
            text, run_id = await self._payloads.of_letter(session, letter_id, self._caller.org)
            value = decode(self._encryption.decrypt(text))
            detail = {"reason": why, "run_id": run_id}
            await self._audit(session, Action.DEAD_LETTER_REVEALED, [letter_id], detail)
        return value

    async def _close(
        self, ids: str | Iterable[str], state: DeadLetterState, reason: str, version: Version
    ) -> int:
        named, why = checked_ids(ids), clean_reason(reason, self._redactor)
        async with self._store.database.transaction() as session:
            locked = await self._locked(session, named, version)
            await self._close_within(session, locked, state, why, {})
        self._emit(locked, state)
        return len(locked)

    async def _close_within(
        self,
        session: Session,
        locked: Mapping[str, Locked],
        state: DeadLetterState,
        why: str,
        more: Mapping[str, Any],
    ) -> None:
        check_states(locked, state)
        ids, (org, name) = list(locked), self._caller
        closing = LetterClosing(org=org, state=state, by=name, reason=why)
        check_all_changed(await self._letters.close_if_unattended(session, ids, closing), ids)
        await self._audit(session, _ACTIONS[state], ids, {**_closing_detail(locked, why), **more})

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
        reject_missing([letter_id for letter_id in ids if letter_id not in locked])
        check_letter_version(locked, version)
        return {letter_id: locked[letter_id] for letter_id in ids}

    async def _audit(
        self, session: Session, action: Action, ids: Sequence[str], detail: Mapping[str, Any]
    ) -> None:
        entry = NewEntry(
            org=self._caller.org, actor=self._caller.name, action=action, subjects=tuple(ids), detail=detail
        )
        await self._store.audit.append(session, [entry])

    def _emit(self, locked: Mapping[str, Locked], after: DeadLetterState) -> None:
        org, name = self._caller
        if self._event_bus.is_subscribed(DeadLetterChanged):
            for letter in locked.values():
                self._event_bus.emit(
                    DeadLetterChanged(org=org, dlq_id=letter.id, before=letter.state, after=after, by=name)
                )


def _closing_detail(locked: Mapping[str, Locked], why: str) -> dict[str, Any]:
    return {"reason": why, "before": dict(Counter(letter.state for letter in locked.values()))}
