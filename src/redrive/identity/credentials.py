"""Credentials: from what a request shows to who it is. None is the answer to all that does not hold."""

from __future__ import annotations

from contextlib import suppress

from redrive.errors import StoreUnavailableError
from redrive.identity.sessions import Sessions
from redrive.model.identity import HOME, ApiKey
from redrive.model.role import Role
from redrive.policy.access import Permission, permitted
from redrive.policy.credential import KEY_ACTOR, digest, is_secret_of, parse_key
from redrive.policy.principal import KEY, Principal
from redrive.store.api_keys import KnownKey
from redrive.store.store import Store

USED_PAUSE = 60.0


class Credentials:
    def __init__(self, store: Store, sessions: Sessions) -> None:
        self._store = store
        self.of_session = sessions.of

    async def any(self) -> bool:
        """Could anybody prove who they are: by a key, a password, or an identity elsewhere?"""
        return await self._store.api_keys.any_credential()

    async def of_key(self, text: str) -> Principal | None:
        """One look at the database. It is noted once a minute that the key was used."""
        parsed = parse_key(text)
        known = None if parsed is None else await self._store.api_keys.known(parsed.id)
        if parsed is None or known is None or not _is_valid(known, digest(parsed.secret)):
            return None
        used = known.key.last_used_at
        if used is None or known.now - used >= USED_PAUSE:
            with suppress(StoreUnavailableError):  # to be read is enough
                await self._store.api_keys.touch(known.key.id, USED_PAUSE)
        return _principal(known.key)


def _is_valid(known: KnownKey, given: str) -> bool:
    key = known.key
    if key.revoked_at is not None or key.has_expired(known.now):
        return False
    if is_secret_of(given, known.hash):
        return True
    graced = key.previous_expires_at is not None and key.previous_expires_at > known.now
    return graced and is_secret_of(given, known.previous_hash)


def _principal(key: ApiKey) -> Principal:
    scopes = None if key.scopes is None else frozenset(map(Permission, key.scopes))
    permissions = permitted(key.role, scopes)
    everywhere = key.org == HOME and key.role is Role.OWNER and permissions == permitted(Role.OWNER)
    return Principal(key.org, f"{KEY_ACTOR}{key.name}", key.role, permissions, KEY, key.id, None, everywhere)
