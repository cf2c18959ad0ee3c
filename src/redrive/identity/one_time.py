"""One-time secrets: links that sign a user in, and data that a browser fetches once with its token."""

from __future__ import annotations

from redrive.duration import Seconds
from redrive.errors import InvalidValueError, NotFoundError
from redrive.identity.services import IdentityServices
from redrive.model.audit import Action
from redrive.model.caller import SELF, checked_caller
from redrive.model.identity import HOME, OPERATOR, OneTimeLink, User
from redrive.model.role import Role
from redrive.policy.bounds import require, require_seconds
from redrive.policy.codec import JsonValue, decode, encode
from redrive.policy.credential import digest, findable_user, is_token
from redrive.store.database import Session, findable
from redrive.store.one_time import NewOneTime

LINK = "link"
MAX_LINK_MINUTES = 7 * 24 * 60.0
MAX_WAIT_SECONDS = 86_400.0
MAX_KIND_LENGTH = 50


class OneTimeSecrets:
    """Stores secrets that can be used once. The database holds only hashes of the tokens."""

    def __init__(self, services: IdentityServices) -> None:
        self._new_secret = services.secret
        self._encryption = services.encryption
        self._users = services.store.users
        self._tokens = services.store.one_time

    async def put(self, kind: str, body: JsonValue, seconds: Seconds) -> str:
        """Store data under a new token, encrypted if a key is configured, and return the token."""
        seconds = require_seconds("seconds", seconds, 1.0, MAX_WAIT_SECONDS)
        token = self._new_secret()
        encrypted = self._encryption.encrypt(encode(body))
        await self._tokens.insert(
            NewOneTime(
                hash=digest(token),
                kind=_checked_kind(kind),
                body=encrypted,
                by=SELF,
                seconds=float(seconds),
            )
        )
        return token

    async def take(self, kind: str, token: str) -> JsonValue:
        """Return the data of a token and delete it. None if the token is used, expired or unknown."""
        found = await self._tokens.take(_checked_kind(kind), digest(token)) if is_token(token) else None
        return None if found is None else decode(self._encryption.decrypt(found.body))

    async def put_link(self, session: Session, user: User, minutes: float, by: str) -> OneTimeLink:
        require("minutes", minutes, 1.0, MAX_LINK_MINUTES)
        token = self._new_secret()
        new = NewOneTime(
            hash=digest(token), kind=LINK, body="{}", by=by, seconds=minutes * 60.0, user_id=user.id
        )
        return OneTimeLink(token, user.name, await self._tokens.insert(new, session))

    async def take_link(self, session: Session, token: str) -> User | None:
        """Use a link and return its user, locked; None if the link is used, expired or unknown.

        Locks the user before the link. Code that deletes all links of a user locks in the same order.
        """
        user_id = await self._tokens.user_of(LINK, digest(token), session)
        user = None if user_id is None else await self._users.lock(session, user_id)
        taken = None if user is None else await self._tokens.take(LINK, digest(token), session)
        return None if taken is None else user


def _checked_kind(kind: str) -> str:
    if kind == LINK or not 1 <= len(findable(kind)) <= MAX_KIND_LENGTH:
        raise InvalidValueError(
            f"the kind of a one-time token must have 1 to {MAX_KIND_LENGTH} printable characters and must "
            f"not be {LINK!r}; got {kind!r:.100}"
        )
    return kind


class SignInLinks:
    """Sign-in links that the application itself creates, for any user. Owners use MemberAccounts instead."""

    def __init__(self, services: IdentityServices, one_time: OneTimeSecrets) -> None:
        self._services = services
        self._new_id = services.ids.new
        self._store = services.store
        self._one_time = one_time

    async def create(self, name: str, minutes: float, by: str) -> OneTimeLink:
        user = await self._store.users.named(findable_user(name))
        if user is None:
            raise NotFoundError(f"found no user {name!r:.250}; add them to an organization first")
        return await self._create(user, minutes, checked_caller(by))

    async def create_for_operator(self, minutes: float) -> OneTimeLink | None:
        """Create a link for the user `operator`. The first call creates this owner of the home organization.

        Returns None if an owner has since disabled or removed the user.
        """
        user = await self._operator()
        memberships = await self._store.memberships.standings(self._store.database, user.id, 1)
        if user.disabled_at is not None or not memberships:
            return None
        return await self._create(user, minutes, SELF)

    async def _operator(self) -> User:
        async with self._store.database.transaction() as session:
            await self._store.organizations.lock(session, HOME)
            found = await self._store.users.named(OPERATOR, session)
            if found is not None:
                return found
            user = await self._store.users.insert(session, self._new_id(), OPERATOR, HOME, SELF)
            if user is None:
                raise NotFoundError(f"another process is creating the user {OPERATOR!r}; try again")
            await self._store.memberships.insert(session, HOME, user.id, Role.OWNER, SELF)
            detail = {"name": OPERATOR, "role": str(Role.OWNER), "account": "new"}
            await self._services.audit(session, HOME, SELF, Action.MEMBER_ADDED, [user.id], detail)
            return user

    async def _create(self, user: User, minutes: float, by: str) -> OneTimeLink:
        async with self._store.database.transaction() as session:
            link = await self._one_time.put_link(session, user, minutes, by)
            detail = {"name": user.name, "expires_at": link.expires_at}
            await self._services.audit(session, HOME, by, Action.MEMBER_LINKED, [user.id], detail)
        return link
