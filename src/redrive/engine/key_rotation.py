"""Rotation: everything stored is sealed anew with the newest key, so that the older ones can go (M11).

Restart all workers with the new key first. It may be stopped and begun again at any time: what is done is
not done twice. Work goes on meanwhile; what a worker changes between reading and writing stays as it is.
"""

from __future__ import annotations

from collections import Counter
from typing import NamedTuple

from redrive.engine.encryption import MARK, Encryption
from redrive.errors import InvalidValueError, NotStorableError, SealedError
from redrive.model.audit import Action, NewEntry
from redrive.model.caller import Caller
from redrive.model.idempotency import KeyName
from redrive.store.payloads import NewAttemptPayload, NewRunPayloads, NewStepPayload, Payloads, RunPayloads
from redrive.store.store import Store

BATCH = 200


class Rotated(NamedTuple):
    """How many values were sealed anew, and how many could not be opened, by the ids of their keys."""

    key_id: str
    rewritten: int
    unreadable: dict[str, int]


class KeyRotation:
    def __init__(self, store: Store, encryption: Encryption, caller: Caller) -> None:
        if encryption.newest is None:
            raise InvalidValueError("there is no key to seal with; set encryption_keys, the newest first")
        self._store = store
        self._payloads = Payloads(store.database)
        self._encryption = encryption
        self._caller = caller
        self._key_id = encryption.newest
        self._current = f"{MARK}{encryption.newest}:"
        self._rewritten = 0
        self._unreadable: Counter[str] = Counter()

    async def run(self) -> Rotated:
        """Seal everything anew that the newest key has not sealed, plain values too."""
        self._rewritten, self._unreadable = 0, Counter()
        await self._audit("begun")
        await self._runs()
        await self._steps()
        await self._attempts()
        await self._idempotency_keys()
        await self._audit("finished")
        return Rotated(self._key_id, self._rewritten, dict(self._unreadable))

    async def _runs(self) -> None:
        after = ""
        while rows := await self._payloads.stale_runs(self._current, BATCH, after):
            renewed = [self._renewed_run(row) for row in rows]
            await self._payloads.rewrite_runs([each for each in renewed if each[1:5] != each[5:]])
            after = rows[-1].id

    async def _steps(self) -> None:
        place = ("", -1)
        while rows := await self._payloads.stale_steps(self._current, BATCH, *place):
            renewed = [NewStepPayload(**row._asdict(), new_output=self._renewed(row.output)) for row in rows]
            await self._payloads.rewrite_steps([each for each in renewed if each.output != each.new_output])
            place = rows[-1][:2]

    async def _attempts(self) -> None:
        place = ("", -1, -1)
        while rows := await self._payloads.stale_attempts(self._current, BATCH, *place):
            renewed = [
                NewAttemptPayload(**row._asdict(), new_output=self._renewed(row.output)) for row in rows
            ]
            await self._payloads.rewrite_attempts(
                [each for each in renewed if each.output != each.new_output]
            )
            place = rows[-1][:3]

    async def _idempotency_keys(self) -> None:
        keys, after = self._store.idempotency, KeyName(org="", domain="", user_id="", key="")
        while rows := await keys.stale(self._current, BATCH, after):
            renewed = [
                row._replace(
                    response=None if row.response is None else self._renewed(row.response),
                    error=None if row.error is None else self._renewed(row.error),
                )
                for row in rows
            ]
            await keys.rewrite([new for new, old in zip(renewed, rows, strict=True) if new != old])
            after = KeyName(*rows[-1][:4])

    def _renewed_run(self, row: RunPayloads) -> NewRunPayloads:
        return NewRunPayloads(
            **row._asdict(),
            new_input=self._renewed(row.input),
            new_step_input=None if row.step_input is None else self._renewed(row.step_input),
            new_result=None if row.result is None else self._renewed(row.result),
            new_metadata=None if row.metadata is None else self._renewed(row.metadata),
        )

    def _renewed(self, text: str) -> str:
        """Sealed with the newest key; what cannot be opened stays as it is, and is counted."""
        if text.startswith(self._current):
            return text
        try:
            renewed = self._encryption.encrypt(self._encryption.decrypt(text))
        except SealedError as missing:
            self._unreadable[missing.key_id] += 1
            return text
        except NotStorableError:
            self._unreadable["damaged"] += 1
            return text
        self._rewritten += 1
        return renewed

    async def _audit(self, stage: str) -> None:
        numbers = {"rewritten": self._rewritten, "unreadable": dict(self._unreadable)}
        detail = {"key": self._key_id, "stage": stage, **(numbers if stage == "finished" else {})}
        entry = NewEntry(
            org=self._caller.org,
            actor=self._caller.name,
            action=Action.KEYS_ROTATED,
            subjects=(),
            detail=detail,
        )
        async with self._store.database.transaction() as session:
            await self._store.audit.append(session, [entry])
