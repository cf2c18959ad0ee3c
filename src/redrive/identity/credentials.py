"""Resolve a request's credential, an API key or a session token, to its owner and their permissions."""

from __future__ import annotations

from contextlib import suppress

from redrive.errors import StoreUnavailableError
from redrive.identity.sessions import UserSessions
from redrive.identity.sign_in import SignedInUser
from redrive.model.identity import HOME, ApiKey
from redrive.model.role import Role
from redrive.policy.access import KEY, Permission, Principal, permitted
from redrive.policy.credential import KEY_ACTOR, digest, is_secret_of, parse_key
from redrive.store.api_keys import KnownKey
from redrive.store.store import Store

USED_PAUSE_SECONDS = 60.0


class CredentialLookup:
    """Looks up keys and sessions. Returns None for every invalid credential."""

    def __init__(self, store: Store, sessions: UserSessions) -> None:
        self._keys = store.api_keys
        self._sessions = sessions

    async def any(self) -> bool:
        """Return whether any credential exists: an API key, a password or an identity at a provider."""
        return await self._keys.any_credential()

    async def of_session(self, token: str) -> SignedInUser | None:
        return await self._sessions.of(token)

    async def of_key(self, text: str) -> Principal | None:
        """Look up the key with one query, and record its use at most once a minute."""
        parsed = parse_key(text)
        known = None if parsed is None else await self._keys.known(parsed.id)
        if parsed is None or known is None or not _is_valid(known, digest(parsed.secret)):
            return None
        used = known.key.last_used_at
        if used is None or known.now - used >= USED_PAUSE_SECONDS:
            with suppress(StoreUnavailableError):  # a read-only database is enough
                await self._keys.touch(known.key.id, USED_PAUSE_SECONDS)
        return _principal(known.key)


def _is_valid(known: KnownKey, given: str) -> bool:
    key = known.key
    if key.revoked_at is not None or key.has_expired(known.now):
        return False
    if is_secret_of(given, known.hash):
        return True
    in_grace = key.previous_expires_at is not None and key.previous_expires_at > known.now
    return in_grace and is_secret_of(given, known.previous_hash)


def _principal(key: ApiKey) -> Principal:
    scopes = None if key.scopes is None else frozenset(map(Permission, key.scopes))
    permissions = permitted(key.role, scopes)
    everywhere = key.org == HOME and key.role is Role.OWNER and permissions == permitted(Role.OWNER)
    return Principal(key.org, f"{KEY_ACTOR}{key.name}", key.role, permissions, KEY, key.id, None, everywhere)
