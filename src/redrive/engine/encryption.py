"""Encryption of payloads and results before they are stored, and rotation of the keys.

An encrypted value is JSON text: {"$sealed":"<key id>:<token>"}. Without keys, a payload that happens to look
like one is wrapped with the key id `plain`, so any text with this prefix was written by this module.

The first key encrypts, all keys decrypt: put a new key first, and remove the old ones after a `KeyRotation`.
Without keys, values are stored unchanged and the cryptography package is not imported.
"""

from __future__ import annotations

from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections import Counter
from collections.abc import Sequence
from hashlib import sha256
from typing import Any, NamedTuple

from redrive.errors import InvalidValueError, NotStorableError, SealedError
from redrive.model.audit import Action, NewEntry
from redrive.model.caller import Caller
from redrive.model.claim import Claim
from redrive.model.idempotency import KeyName
from redrive.store.payloads import (
    NewAttemptPayload,
    NewEventPayload,
    NewRunPayloads,
    NewStepPayload,
    Payloads,
    RunPayloads,
)
from redrive.store.store import Store

MARK = '{"$sealed":"'
_END = '"}'
_PLAIN = "plain"


class Encryption:
    """Encrypts and decrypts text. `keys` are ordered newest first."""

    def __init__(self, keys: Sequence[str] = ()) -> None:
        self._locks: dict[str, Any] = {key_id(key): _lock(key) for key in keys}
        self._newest = next(iter(self._locks), None)

    def __repr__(self) -> str:
        return f"Encryption({', '.join(self._locks) or 'no keys'})"

    @property
    def newest(self) -> str | None:
        """The id of the key used to encrypt."""
        return self._newest

    def encrypt(self, text: str) -> str:
        if self._newest is not None:
            token: bytes = self._locks[self._newest].encrypt(text.encode())
            return f"{MARK}{self._newest}:{token.decode()}{_END}"
        if text.startswith(MARK):
            return f"{MARK}{_PLAIN}:{urlsafe_b64encode(text.encode()).decode()}{_END}"
        return text

    def decrypt(self, text: str) -> str:
        """Decrypt an encrypted text. Return any other text unchanged."""
        if not text.startswith(MARK):
            return text
        identifier, _, token = text[len(MARK) : -len(_END)].partition(":")
        try:
            if identifier == _PLAIN:
                return urlsafe_b64decode(token).decode()
            return str(self._lock_of(identifier).decrypt(token.encode()).decode())
        except SealedError:
            raise
        except Exception:  # noqa: BLE001 — InvalidToken, and anything else that damaged text can raise
            raise NotStorableError(_damaged(identifier)) from None

    def is_sealed(self, text: str) -> bool:
        """Whether the text can only be read with a key."""
        return text.startswith(MARK) and not text.startswith(f"{MARK}{_PLAIN}:")

    def opened(self, claim: Claim) -> Claim:
        """Return the claim with all its values decrypted, for execution."""
        step_input, metadata = claim.step_input, claim.metadata
        if not (
            claim.input.startswith(MARK)
            or (step_input is not None and step_input.startswith(MARK))
            or (metadata is not None and metadata.startswith(MARK))
        ):
            return claim
        return claim.replace(
            input=self.decrypt(claim.input),
            step_input=None if step_input is None else self.decrypt(step_input),
            metadata=None if metadata is None else self.decrypt(metadata),
        )

    def _lock_of(self, identifier: str) -> Any:
        lock = self._locks.get(identifier)
        if lock is None:
            raise SealedError(
                f"the value is encrypted with the key {identifier[:20]!r}, which is not configured here; "
                f"add it to encryption_keys (configured keys: {', '.join(self._locks) or 'none'})",
                key_id=identifier,
            )
        return lock


def key_id(key: str) -> str:
    """Return the id of a key for encrypted values and messages. It does not reveal the key."""
    return sha256(key.encode()).hexdigest()[:8]


def _lock(key: str) -> Any:
    try:
        return _fernet()(key.encode())
    except ValueError:
        raise InvalidValueError(
            "an encryption key must be 32 bytes in URL-safe base64 (44 characters); generate one with "
            "redrive.settings.new_encryption_key()"
        ) from None


def _fernet() -> Any:
    try:
        from cryptography.fernet import Fernet
    except ImportError:
        raise InvalidValueError(
            "encryption_keys needs the package cryptography; run: pip install 'redrive[encryption]'"
        ) from None
    return Fernet


def _damaged(identifier: str) -> str:
    return (
        f"the value encrypted with the key {identifier[:20]!r} cannot be decrypted: it was modified or "
        f"truncated; restore it from a backup"
    )


NO_ENCRYPTION = Encryption()
"""No keys: values are stored unencrypted."""


BATCH_SIZE = 200


class Rotated(NamedTuple):
    """How many values were re-encrypted, and how many could not be decrypted, by the id of their key."""

    key_id: str
    rewritten: int
    unreadable: dict[str, int]


class KeyRotation:
    def __init__(self, store: Store, encryption: Encryption, caller: Caller) -> None:
        if encryption.newest is None:
            raise InvalidValueError("no encryption key is configured; set encryption_keys, newest key first")
        self._store = store
        self._payloads = Payloads(store.database)
        self._encryption = encryption
        self._caller = caller
        self._key_id = encryption.newest
        self._current = f"{MARK}{encryption.newest}:"
        self._rewritten = 0
        self._unreadable: Counter[str] = Counter()

    async def run(self) -> Rotated:
        """Encrypt every stored value with the newest key, including values stored unencrypted."""
        self._rewritten, self._unreadable = 0, Counter()
        await self._audit("begun")
        while await self._runs():  # repeat: a run that moved in the meantime may have been skipped
            self._unreadable.clear()
        await self._steps()
        await self._attempts()
        await self._events()
        await self._idempotency_keys()
        await self._audit("finished")
        return Rotated(self._key_id, self._rewritten, dict(self._unreadable))

    async def _runs(self) -> bool:
        """Rewrite the values of runs. Return whether there were any."""
        before, after = self._rewritten, ""
        while rows := await self._payloads.stale_runs(self._current, BATCH_SIZE, after):
            renewed = [self._re_encrypt_run(row) for row in rows]
            await self._payloads.rewrite_runs([run for run in renewed if run[1:5] != run[5:]])
            after = rows[-1].id
        return self._rewritten > before

    async def _steps(self) -> None:
        place = ("", -1)
        while rows := await self._payloads.stale_steps(self._current, BATCH_SIZE, *place):
            renewed = [
                NewStepPayload(**row._asdict(), new_output=self._re_encrypt(row.output)) for row in rows
            ]
            await self._payloads.rewrite_steps([step for step in renewed if step.output != step.new_output])
            place = rows[-1][:2]

    async def _attempts(self) -> None:
        place = ("", -1, -1)
        while rows := await self._payloads.stale_attempts(self._current, BATCH_SIZE, *place):
            renewed = [
                NewAttemptPayload(**row._asdict(), new_output=self._re_encrypt(row.output)) for row in rows
            ]
            await self._payloads.rewrite_attempts(
                [attempt for attempt in renewed if attempt.output != attempt.new_output]
            )
            place = rows[-1][:3]

    async def _events(self) -> None:
        rows = await self._payloads.stale_events(self._current, BATCH_SIZE)
        while rows:
            renewed = [
                NewEventPayload(**row._asdict(), new_payload=self._re_encrypt(row.payload)) for row in rows
            ]
            await self._payloads.rewrite_events([row for row in renewed if row.payload != row.new_payload])
            rows = await self._payloads.stale_events(self._current, BATCH_SIZE, rows[-1].id)

    async def _idempotency_keys(self) -> None:
        keys, after = self._store.idempotency, KeyName(org="", domain="", user_id="", key="")
        while rows := await keys.stale(self._current, BATCH_SIZE, after):
            renewed = [
                row._replace(
                    response=None if row.response is None else self._re_encrypt(row.response),
                    error=None if row.error is None else self._re_encrypt(row.error),
                )
                for row in rows
            ]
            await keys.rewrite([new for new, old in zip(renewed, rows, strict=True) if new != old])
            after = KeyName(*rows[-1][:4])

    def _re_encrypt_run(self, row: RunPayloads) -> NewRunPayloads:
        return NewRunPayloads(
            **row._asdict(),
            new_input=self._re_encrypt(row.input),
            new_step_input=None if row.step_input is None else self._re_encrypt(row.step_input),
            new_result=None if row.result is None else self._re_encrypt(row.result),
            new_metadata=None if row.metadata is None else self._re_encrypt(row.metadata),
        )

    def _re_encrypt(self, text: str) -> str:
        """Re-encrypt a value with the newest key. A value that cannot be decrypted stays unchanged."""
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
