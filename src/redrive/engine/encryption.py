"""The vault: what a run needs to execute is encrypted before it is stored, when there is a key (M11, I9).

A sealed value is JSON text: {"$sealed":"<id of the key>:<token>"}. A payload that happens to look like one is
wrapped under the id `plain` where there is no key, so whatever begins so was written here. The first key
seals, all of them open: a new key is put before the old ones, and these can go when everything was sealed
anew (see rotation). Without keys nothing is changed, and nothing is imported.
"""

from __future__ import annotations

from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Sequence
from hashlib import sha256
from typing import Any

from redrive.errors import InvalidValueError, NotStorableError, SealedError
from redrive.model.claim import Claim

MARK = '{"$sealed":"'
_END = '"}'
_PLAIN = "plain"


class Encryption:
    """Seals and opens texts. `keys` are the newest first."""

    def __init__(self, keys: Sequence[str] = ()) -> None:
        self._locks: dict[str, Any] = {key_id(key): _lock(key) for key in keys}
        self._newest = next(iter(self._locks), None)

    def __repr__(self) -> str:
        return f"Encryption({', '.join(self._locks) or 'no keys'})"

    @property
    def newest(self) -> str | None:
        """The id of the key that seals."""
        return self._newest

    def encrypt(self, text: str) -> str:
        if self._newest is not None:
            token: bytes = self._locks[self._newest].encrypt(text.encode())
            return f"{MARK}{self._newest}:{token.decode()}{_END}"
        if text.startswith(MARK):
            return f"{MARK}{_PLAIN}:{urlsafe_b64encode(text.encode()).decode()}{_END}"
        return text

    def decrypt(self, text: str) -> str:
        """The text that was sealed; any other is given back as it is."""
        if not text.startswith(MARK):
            return text
        identifier, _, token = text[len(MARK) : -len(_END)].partition(":")
        try:
            if identifier == _PLAIN:
                return urlsafe_b64decode(token).decode()
            return str(self._lock_of(identifier).decrypt(token.encode()).decode())
        except SealedError:
            raise
        except Exception:  # noqa: BLE001 — InvalidToken, and what else a damaged text leads to
            raise NotStorableError(_damaged(identifier)) from None

    def is_sealed(self, text: str) -> bool:
        """Is it encrypted, so that only a key opens it?"""
        return text.startswith(MARK) and not text.startswith(f"{MARK}{_PLAIN}:")

    def opened(self, claim: Claim) -> Claim:
        """The claim as it is executed: everything in it can be read."""
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
                f"add it to encryption_keys (known here: {', '.join(self._locks) or 'none'})",
                key_id=identifier,
            )
        return lock


def key_id(key: str) -> str:
    """What a sealed value and a message call a key; it does not tell the key."""
    return sha256(key.encode()).hexdigest()[:8]


def new_encryption_key() -> str:
    """A key to put first into encryption_keys."""
    return str(_fernet().generate_key().decode())


def _lock(key: str) -> Any:
    try:
        return _fernet()(key.encode())
    except ValueError:
        raise InvalidValueError(
            "an encryption key must be 32 bytes in URL-safe base64, 44 characters; make one with "
            "redrive.new_encryption_key()"
        ) from None


def _fernet() -> Any:
    try:
        from cryptography.fernet import Fernet
    except ImportError:
        raise InvalidValueError(
            "encryption_keys need the package cryptography; install redrive[encryption]"
        ) from None
    return Fernet


def _damaged(identifier: str) -> str:
    return (
        f"the value was encrypted with the key {identifier[:20]!r} but cannot be opened: it was changed "
        f"afterwards, or cut; restore it from a backup"
    )


NO_ENCRYPTION = Encryption()
"""Without keys: everything is stored as it is."""
