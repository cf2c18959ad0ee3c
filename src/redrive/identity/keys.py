"""API keys of an organization: create, list, rotate and revoke. Only a hash of the secret is stored."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from redrive.duration import Seconds
from redrive.errors import AlreadyExistsError, InvalidValueError, NotFoundError, TransitionError
from redrive.identity.services import IdentityServices
from redrive.model.audit import Action
from redrive.model.identity import ApiKey, KeyPage, NewKey
from redrive.model.role import Role
from redrive.policy.access import Permission, Principal, require_grant, require_permission
from redrive.policy.bounds import MAX_DELAY_SECONDS, require_seconds, require_whole
from redrive.policy.credential import KEY_ACTOR, KeyText, checked_scopes, digest, is_id
from redrive.policy.user_text import clean_word
from redrive.store.api_keys import NewApiKey
from redrive.store.database import Session, findable

MAX_PAGE_SIZE = 500
GRACE_SECONDS = 3600.0
MAX_GRACE_SECONDS = 30 * 86_400.0
MAX_LIFETIME_SECONDS = 10 * MAX_DELAY_SECONDS
MIN_LIFETIME_SECONDS = 1.0


class Keys:
    """Keys of the principal's organization. `which` is the id of a key, or its name until it is revoked."""

    def __init__(self, services: IdentityServices, principal: Principal) -> None:
        self._services = services
        self._store = services.store
        self._keys = services.store.api_keys
        self._principal = principal
        self._org = principal.org

    async def list(self, *, size: int = 50, cursor: str | None = None) -> KeyPage:
        """List keys, the newest first. `cursor` is the `next_cursor` of the previous page."""
        require_whole("size", size, 1, MAX_PAGE_SIZE)
        if cursor is not None and not is_id(findable(cursor)):
            raise InvalidValueError("this is not a valid cursor of this list; start from the first page")
        found = await self._keys.page(self._org, size + 1, cursor)
        return KeyPage(tuple(found[:size]), found[size - 1].id if len(found) > size else None)

    async def view(self, which: str) -> ApiKey:
        found = await self._keys.find(self._org, findable(which))
        if found is None:
            raise _not_found(which)
        return found

    async def create(
        self,
        name: str,
        role: Role | str,
        *,
        scopes: Iterable[str] | None = None,
        expires_in: Seconds | None = None,
    ) -> NewKey:
        """Create a key. `scopes` limits it to some of the role's permissions."""
        parsed = Role.parse(role)
        limited = checked_scopes(scopes, parsed)
        self._require(parsed, limited)
        text = KeyText(self._services.ids.new(), self._services.secret())
        new = NewApiKey(
            id=text.id,
            org=self._org,
            name=self._checked_name(name),
            role=parsed,
            scopes=None if limited is None else sorted(map(str, limited)),
            hash=digest(text.secret),
            by=self._principal.name,
            lifetime=_lifetime(expires_in),
        )
        return NewKey(await self._insert(new), str(text))

    async def _insert(self, new: NewApiKey) -> ApiKey:
        async with self._store.database.transaction() as session:
            await self._store.organizations.lock(session, self._org)
            key = await self._keys.insert(session, new)
            if key is None:
                raise AlreadyExistsError(
                    f"the key {new.name!r} already exists; revoke it or use another name"
                )
            scopes = None if key.scopes is None else list(key.scopes)
            detail = {"role": str(key.role), "scopes": scopes, "expires_at": key.expires_at}
            await self._audit(session, Action.KEY_CREATED, key, detail)
        return key

    async def rotate(
        self, which: str, *, grace_seconds: Seconds = GRACE_SECONDS, expires_in: Seconds | None = None
    ) -> NewKey:
        """Give the key a new secret. The old one stays valid for `grace_seconds`."""
        grace_seconds = require_seconds("grace_seconds", grace_seconds, 0.0, MAX_GRACE_SECONDS)
        lifetime, secret = _lifetime(expires_in), self._services.secret()
        async with self._store.database.transaction() as session:
            before, now = await self._lock(session, which)
            self._require(before.role, _permissions(before))
            _reject_ended(before, now, renewed=lifetime is not None)
            grace = 0.0 if before.has_expired(now) else float(grace_seconds)
            key = await self._keys.rotate(session, before, digest(secret), grace, lifetime)
            detail = {"grace_seconds": grace, "expires_at": key.expires_at}
            await self._audit(session, Action.KEY_ROTATED, key, detail)
        return NewKey(key, str(KeyText(key.id, secret)))

    async def revoke(self, which: str) -> ApiKey:
        """Revoke a key immediately and permanently. Has no effect on a key that is already revoked."""
        require_permission(self._principal, Permission.MANAGE)
        async with self._store.database.transaction() as session:
            key, _ = await self._lock(session, which)
            if key.revoked_at is None:
                key = await self._keys.revoke(session, key, self._principal.name)
                await self._store.one_time.drop_made_by_key(session, self._org, f"{KEY_ACTOR}{key.name}")
                await self._audit(session, Action.KEY_REVOKED, key, {})
        return key

    def _require(self, role: Role, scopes: frozenset[Permission] | None) -> None:
        """Require that the principal has every permission of the key, because it learns the secret."""
        require_permission(self._principal, Permission.MANAGE)
        require_grant(self._principal, role, scopes)

    async def _lock(self, session: Session, which: str) -> tuple[ApiKey, float]:
        found = await self._keys.lock(session, self._org, findable(which))
        if found is None:
            raise _not_found(which)
        return found

    def _checked_name(self, name: str) -> str:
        checked = clean_word("the name of a key", name, self._services.redactor)
        if is_id(checked):
            raise InvalidValueError(f"{checked!r} looks like the id of a key; name the key after its purpose")
        return checked

    async def _audit(self, session: Session, action: Action, key: ApiKey, detail: dict[str, Any]) -> None:
        detail = {"name": key.name, **detail}
        await self._services.audit(session, self._org, self._principal.name, action, [key.id], detail)


def _permissions(key: ApiKey) -> frozenset[Permission] | None:
    return None if key.scopes is None else frozenset(map(Permission, key.scopes))


def _lifetime(expires_in: Seconds | None) -> float | None:
    if expires_in is None:
        return None
    return float(require_seconds("expires_in", expires_in, MIN_LIFETIME_SECONDS, MAX_LIFETIME_SECONDS))


def _reject_ended(key: ApiKey, now: float, *, renewed: bool) -> None:
    if key.revoked_at is not None:
        raise TransitionError(f"the key {key.name!r} is revoked; create a new key")
    if key.has_expired(now) and not renewed:
        raise TransitionError(
            f"the key {key.name!r} has expired; rotate it with expires_in, or create a new key"
        )


def _not_found(which: object) -> NotFoundError:
    return NotFoundError(f"found no key {which!r:.150}; see the list of keys")
