"""Revealing: the payload of a dead letter as it is, with its secrets, for a reason that the audit keeps."""

from __future__ import annotations

from redrive.engine.encryption import Encryption
from redrive.model.audit import Action, NewEntry
from redrive.model.caller import Caller
from redrive.policy.codec import JsonValue, decode
from redrive.policy.redact import DEFAULT_REDACTOR, Redactor
from redrive.policy.user_text import MAX_REASON_LENGTH, said
from redrive.store.payloads import Payloads
from redrive.store.store import Store


class Reveal:
    def __init__(
        self, store: Store, encryption: Encryption, caller: Caller, redactor: Redactor = DEFAULT_REDACTOR
    ) -> None:
        self._store = store
        self._payloads = Payloads(store.database)
        self._encryption = encryption
        self._caller = caller
        self._redactor = redactor

    async def payload(self, letter_id: str, reason: str) -> JsonValue:
        """What the failed step was given. It is given out only after the audit has it that it was."""
        why = said("reason", reason, self._redactor, shortest=1, longest=MAX_REASON_LENGTH)
        async with self._store.database.transaction() as session:
            text, run_id = await self._payloads.of_letter(session, letter_id, self._caller.org)
            value = decode(self._encryption.decrypt(text))
            detail = {"reason": why, "run_id": run_id}
            entry = NewEntry(*self._caller, Action.DEAD_LETTER_REVEALED, (letter_id,), detail)
            await self._store.audit.append(session, [entry])
        return value
