"""API keys. Of their secrets only hashes are stored."""

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
    """`lifetime` is in seconds from now; None: for ever."""

    id: str
    org: str
    name: str
    role: Role
    scopes: Sequence[str] | None
    hash: str
    by: str
    lifetime: float | None


class KnownKey(NamedTuple):
    """A key, the hashes that it is recognised by, and the moment it was read at."""

    key: ApiKey
    hash: str
    previous_hash: str | None
    now: float


class ApiKeys:
    def __init__(self, session: Session) -> None:
        self._session = session

    async def insert(self, session: Session, new: NewApiKey) -> ApiKey | None:
        """None when a key of that name is in use."""
        scopes = None if new.scopes is None else encode(list(new.scopes))
        rows = await session.fetch(_SQL["insert"], {**new.asdict(), "scopes": scopes})
        return _key(rows[0]) if rows else None

    async def known(self, key_id: str) -> KnownKey | None:
        """By its id alone: for whoever shows a key, and so is not known to be of any org yet."""
        rows = await self._session.fetch(_SQL["known"], {"id": key_id})
        return KnownKey(_key(rows[0][:-3]), *rows[0][-3:]) if rows else None

    async def touch(self, key_id: str, pause: float) -> None:
        """It was used now; written once in so many seconds."""
        await self._session.fetch(_SQL["touch"], {"id": key_id, "pause": pause})

    async def any_credential(self) -> bool:
        """Is there a key that holds, or a user who can sign in without a link?"""
        return bool(await self._session.fetch(_SQL["any_credential"], {}))

    async def find(self, org: str, which: str) -> ApiKey | None:
        """By its id, or by its name while it is in use."""
        rows = await self._session.fetch(_SQL["find"], {"org": org, "which": which})
        return _key(rows[0]) if rows else None

    async def lock(self, session: Session, org: str, which: str) -> tuple[ApiKey, float] | None:
        """The key and the moment; locked until the transaction ends."""
        rows = await session.fetch(_SQL["lock"], {"org": org, "which": which})
        return (_key(rows[0][:-1]), rows[0][-1]) if rows else None

    async def page(self, org: str, size: int, before: str | None) -> list[ApiKey]:
        """The newest first; before the one of this id."""
        name = "newest" if before is None else "older"
        rows = await self._session.fetch(_SQL[name], {"org": org, "size": size, "before": before})
        return [_key(row) for row in rows]

    async def rotate(
        self, session: Session, key: ApiKey, hash_: str, grace: float, lifetime: float | None
    ) -> ApiKey:
        """Another secret; the one before is valid for so many seconds more."""
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
