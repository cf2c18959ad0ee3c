"""Idempotency keys: their holders and the responses to their requests.

A token fences every write, so that a holder that lost its key changes nothing. The token stays on the row, so
that a write whose answer was lost can be repeated.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from redrive.model.idempotency import KeyName, KeyState, KeyStatus
from redrive.store.database import Session
from redrive.store.statement import statements


class KeyRenewal(NamedTuple):
    org: str
    domain: str
    user_id: str
    key: str
    token: int
    lease_seconds: float


class KeyPayloads(NamedTuple):
    """The stored payloads of a finished key, for encrypting them with a new encryption key."""

    org: str
    domain: str
    user_id: str
    key: str
    token: int
    response: str | None
    error: str | None


_SQL = statements("idempotency", KeyPayloads)


class IdempotencyKeys:
    def __init__(self, session: Session) -> None:
        self._session = session

    async def acquire(
        self, name: KeyName, request_hash: str, token: int, *, lease_seconds: float, ttl: float
    ) -> bool:
        """Take a free key: a new or expired one, or one abandoned by a holder with the same request."""
        times = {"lease_seconds": lease_seconds, "ttl": ttl}
        return await self._won("acquire", name, token, request_hash=request_hash, **times)

    async def find(self, name: KeyName) -> KeyState | None:
        rows = await self._session.fetch(_SQL["find"], name._asdict())
        return KeyState(KeyStatus(rows[0][0]), *rows[0][1:]) if rows else None

    async def renew_if_held(self, renewals: Sequence[KeyRenewal]) -> set[int]:
        """Renew leases; return the tokens of the renewed ones. The other keys are lost or finished."""
        rows = await self._session.fetch_many(_SQL["renew_if_held"], renewals)
        return {row[0] for row in rows}

    async def complete_if_held(self, name: KeyName, token: int, response: str, *, ttl: float) -> bool:
        return await self._won("complete_if_held", name, token, response=response, ttl=ttl)

    async def fail_if_held(self, name: KeyName, token: int, error: str, *, ttl: float) -> bool:
        return await self._won("fail_if_held", name, token, error=error, ttl=ttl)

    async def release_if_held(self, name: KeyName, token: int) -> bool:
        """Remove a held key, as if it had never been taken."""
        return await self._won("release_if_held", name, token)

    async def remove_expired(self, most: int) -> int:
        """Remove up to `most` expired keys of all orgs, oldest first; return their number."""
        return len(await self._session.fetch(_SQL["remove_expired"], {"most": most}))

    async def stale(self, current: str, size: int, after: KeyName) -> list[KeyPayloads]:
        """Return keys with a payload that does not start with `current`, sorted by name."""
        parameters = {**after._asdict(), "current": current, "length": len(current), "size": size}
        return [KeyPayloads._make(row) for row in await self._session.fetch(_SQL["stale"], parameters)]

    async def rewrite(self, rows: Sequence[KeyPayloads]) -> None:
        """Replace stored payloads, except those of keys that were taken again in the meantime."""
        await self._session.fetch_many(_SQL["rewrite"], rows)

    async def _won(self, statement: str, name: KeyName, token: int, **values: object) -> bool:
        parameters = {**name._asdict(), "token": token, **values}
        return bool(await self._session.fetch(_SQL[statement], parameters))
