"""API keys. Only hashes of their secrets are stored."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from redrive.model.identity import ApiKey
from redrive.model.role import Role
from redrive.model.row import Row
from redrive.policy.codec import decode, encode
from redrive.store.database import Session
from redrive.store.rows import read_row
from redrive.store.statement import statements

_SQL = statements("api_keys", ApiKey)


class NewApiKey(Row, frozen=True):
    """`lifetime` is in seconds from now; None: the key never expires."""

    id: str
    org: str
    name: str
    role: Role
    scopes: Sequence[str] | None
    hash: str
    by: str
    lifetime: float | None


class KnownKey(NamedTuple):
    """A key, the hashes that its secrets are checked against, and the time when it was read."""

    key: ApiKey
    hash: str
    previous_hash: str | None
    now: float


class ApiKeys:
    def __init__(self, session: Session) -> None:
        self._session = session

    async def insert(self, session: Session, new: NewApiKey) -> ApiKey | None:
        """Insert a key; return None if an active key already has its name."""
        scopes = None if new.scopes is None else encode(list(new.scopes))
        rows = await session.fetch(_SQL["insert"], {**new.asdict(), "scopes": scopes})
        return _key(rows[0]) if rows else None

    async def known(self, key_id: str) -> KnownKey | None:
        """Look up a key by its id alone: the org of a caller who presents a key is not known yet."""
        rows = await self._session.fetch(_SQL["known"], {"id": key_id})
        return KnownKey(_key(rows[0][:-3]), *rows[0][-3:]) if rows else None

    async def touch(self, key_id: str, pause: float) -> None:
        """Record that the key was used now; write at most once in `pause` seconds."""
        await self._session.fetch(_SQL["touch"], {"id": key_id, "pause": pause})

    async def any_credential(self) -> bool:
        """Return whether any key is valid, or any user can sign in without a link."""
        return bool(await self._session.fetch(_SQL["any_credential"], {}))

    async def find(self, org: str, which: str) -> ApiKey | None:
        """Find a key by its id, or by its name while the key is active."""
        rows = await self._session.fetch(_SQL["find"], {"org": org, "which": which})
        return _key(rows[0]) if rows else None

    async def lock(self, session: Session, org: str, which: str) -> tuple[ApiKey, float] | None:
        """Lock a key until the transaction ends; return it with the current time."""
        rows = await session.fetch(_SQL["lock"], {"org": org, "which": which})
        return (_key(rows[0][:-1]), rows[0][-1]) if rows else None

    async def page(self, org: str, size: int, before: str | None) -> list[ApiKey]:
        """List keys, newest first; only those older than the key with the id `before`."""
        name = "newest" if before is None else "older"
        rows = await self._session.fetch(_SQL[name], {"org": org, "size": size, "before": before})
        return [_key(row) for row in rows]

    async def rotate(
        self, session: Session, key: ApiKey, hash_: str, grace: float, lifetime: float | None
    ) -> ApiKey:
        """Replace the secret; the previous one stays valid for `grace` seconds."""
        parameters = {"org": key.org, "id": key.id, "hash": hash_, "grace": grace, "lifetime": lifetime}
        return _key((await session.fetch(_SQL["rotate"], parameters))[0])

    async def revoke(self, session: Session, key: ApiKey, by: str) -> ApiKey:
        rows = await session.fetch(_SQL["revoke"], {"org": key.org, "id": key.id, "by": by})
        return _key(rows[0])


def _key(values: Sequence[Any]) -> ApiKey:
    key = read_row(ApiKey, values)
    scopes: object = None if key.scopes is None else decode(str(key.scopes))
    named = None if scopes is None else tuple(map(str, scopes if isinstance(scopes, list) else ()))
    return key.replace(scopes=named)
