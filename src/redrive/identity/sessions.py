"""Sessions: signing in, what a browser may do with its token afterwards, and signing out.

The role of the user is looked up with every request, so a right that an owner takes away is gone with the
next one.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress

from redrive.duration import Seconds
from redrive.errors import AccessDeniedError, NotFoundError, SignedOutError, StoreUnavailableError
from redrive.identity.one_time import OneTimeSecrets, SignInLinks
from redrive.identity.services import IdentityServices
from redrive.identity.sign_in import (
    NewSession,
    SignedInUser,
    SignIn,
    effective_role,
    signed_in_user,
)
from redrive.model.audit import Action
from redrive.model.caller import APPLICATION
from redrive.model.identity import Identity, Membership, OneTimeLink, SessionLine, SignInKind, User
from redrive.model.role import Role
from redrive.policy.bounds import require_whole
from redrive.policy.codec import JsonValue
from redrive.policy.credential import digest, is_token
from redrive.store.database import Session, findable
from redrive.store.sessions import KnownSession

LINK_MINUTES = 60.0
MAX_SWEPT = 10_000
MAX_MEMBERSHIPS = 1_000
SEEN_PAUSE_SECONDS = 60.0
FRESH_LINK_SECONDS = 3600.0
"""For so long after signing in by a link, a user can set a password without the current one."""


class UserSessions:
    """`token` is the token of a session; `ending` the token of one that ends because another starts."""

    def __init__(self, services: IdentityServices) -> None:
        self._services = services
        self._passwords = services.passwords
        self._store = services.store
        self._sessions = services.store.sessions
        self._one_time = OneTimeSecrets(services)
        self._links = SignInLinks(services, self._one_time)
        self._sign_in = SignIn(services, self._one_time)
        self._idle_seconds = services.session_limits.idle_seconds

    # Signing in; None if that is not possible, for whatever reason

    async def sign_in(
        self, name: str, password: str, *, org: str | None = None, ending: str | None = None
    ) -> NewSession | None:
        return await self._sign_in.by_password(name, password, org, ending)

    async def redeem(
        self, token: str, *, org: str | None = None, ending: str | None = None
    ) -> NewSession | None:
        """Sign in by a link, which works once."""
        return await self._sign_in.by_link(token, org, ending)

    async def sign_in_forwarded(
        self, name: str, *, org: str | None = None, ending: str | None = None
    ) -> NewSession | None:
        """Sign in a user whom a trusted proxy names."""
        return await self._sign_in.by_proxy(name, org, ending)

    async def sign_in_identified(
        self, identity: Identity, name: str, *, org: str | None = None, ending: str | None = None
    ) -> NewSession | None:
        """Sign in a user whom an OpenID provider names. The provider must have verified `name`."""
        return await self._sign_in.by_provider(identity, name, org, ending)

    async def link(self, name: str, *, minutes: float = LINK_MINUTES, by: str = APPLICATION) -> OneTimeLink:
        """Make a link that signs any user in once. Owners use `Directory.accounts` for their members."""
        return await self._links.create(name, minutes, by)

    async def embedded_link(self, *, minutes: float = LINK_MINUTES) -> OneTimeLink | None:
        """Make a link for the person who started the server: it signs in the user `operator`.

        The first call creates that user. None if an owner has taken their rights away since.
        """
        return await self._links.create_for_operator(minutes)

    async def put(self, kind: str, body: JsonValue, seconds: Seconds) -> str:
        """Store data of a sign-in that is in progress, and return the token that takes it once."""
        return await self._one_time.put(kind, body, seconds)

    async def take(self, kind: str, token: str) -> JsonValue:
        """Return what `put` stored; None if it was taken, has expired or never existed."""
        return await self._one_time.take(kind, token)

    # Being signed in

    async def of(self, token: str) -> SignedInUser | None:
        """None if the token is not valid, or the user has no role in the organization any more."""
        known = await self._known(token)
        found = None if known is None else signed_in_user(token, known)
        if known is not None and found is not None and known.now - known.line.seen_at >= SEEN_PAUSE_SECONDS:
            with suppress(StoreUnavailableError):  # a database that can only be read is enough
                await self._sessions.touch(digest(token), SEEN_PAUSE_SECONDS)
        return found

    async def organizations(self, token: str) -> list[Membership]:
        """List the organizations that the user may enter: for owners of the home one, all of them."""
        known = await self._required(token)
        if known.roles.at_home is Role.OWNER:
            found = await self._store.organizations.page(MAX_MEMBERSHIPS, "")
            return [Membership(org.name, org.title, Role.OWNER) for org in found]
        memberships = self._store.memberships
        return await memberships.standings(self._store.database, known.user_id, MAX_MEMBERSHIPS)

    async def enter(self, token: str, org: str) -> SignedInUser:
        """Move the session to another organization. Those of others are reported as unknown."""
        async with self._store.database.transaction() as session:
            known = await self._required(token, session)
            roles = await self._store.memberships.roles(session, known.user_id, findable(org))
            if roles is None or effective_role(roles) is None:
                raise NotFoundError(
                    f"there is no organization {org!r:.250} that {known.user_name!r} may enter"
                )
            await self._sessions.move(session, digest(token), org)
            found = signed_in_user(token, await self._required(token, session))
            await self._audit(session, org, known, Action.SESSION_ENTERED, {"session": known.line.id})
        if found is None:
            raise _signed_out()
        return found

    async def list(self, token: str) -> list[SessionLine]:
        """List all sessions of the same user, the newest first."""
        return await self._sessions.of_user((await self._required(token)).user_id, self._idle_seconds)

    async def change_password(self, token: str, password: str, *, current: str | None = None) -> None:
        """Set a password, and end the other sessions of the user.

        `current` is needed, unless the user has no password yet or has just signed in by a link.
        """
        known = await self._required(token)
        user = await self._proven(known, current)
        hashed = await self._passwords.hash(password)
        async with self._store.database.transaction() as session:
            now = await self._store.users.lock(session, user.id)
            if now is None or now.password_number != user.password_number:
                raise AccessDeniedError("the password was changed just now; sign in again")
            known = await self._required(token, session)
            await self._store.users.set_password(session, user.id, hashed)
            ended = await self._sessions.end_others(session, user.id, known.line.id)
            await self._store.one_time.drop_of_user(session, user.id)
            detail = {"name": user.name, "sessions_ended": ended}
            await self._audit(session, known.line.org, known, Action.USER_PASSWORD_CHANGED, detail)

    async def _proven(self, known: KnownSession, current: str | None) -> User:
        """Refuse a session that another person may have stolen."""
        user = await self._store.users.get(known.user_id)
        if user is None:
            raise _signed_out()
        age = known.now - known.line.created_at
        if user.password is None or (known.line.kind is SignInKind.LINK and age <= FRESH_LINK_SECONDS):
            return user
        if current is None or not await self._passwords.verify(user.password, current):
            raise AccessDeniedError(
                "the current password is wrong; enter it again, or sign in by a new link and set another"
            )
        return user

    # Signing out

    async def end(self, token: str) -> bool:
        """End a session. False if there was none."""
        if not is_token(token):
            return False
        async with self._store.database.transaction() as session:
            ended = await self._sessions.end(session, digest(token))
            if ended is None:
                return False
            user = await self._store.users.get(ended.user_id, session)
            name = ended.user_id if user is None else user.name
            user_id, detail = ended.user_id, {"session": ended.id}
            await self._services.audit(session, ended.org, name, Action.SESSION_ENDED, [user_id], detail)
        return True

    async def end_one(self, token: str, session_id: str) -> None:
        """End one of the user's own sessions, by its id."""
        async with self._store.database.transaction() as session:
            known = await self._required(token, session)
            if not await self._sessions.end_one(session, known.user_id, findable(session_id)):
                raise NotFoundError(f"there is no session {session_id!r:.100}; see the list of sessions")
            await self._audit(session, known.line.org, known, Action.SESSION_ENDED, {"session": session_id})

    async def end_others(self, token: str) -> int:
        """End all other sessions of the user, and return how many there were."""
        async with self._store.database.transaction() as session:
            known = await self._required(token, session)
            ended = await self._sessions.end_others(session, known.user_id, known.line.id)
            if ended:
                detail = {"sessions_ended": ended}
                await self._audit(session, known.line.org, known, Action.SESSION_ENDED, detail)
        return ended

    async def sweep(self, most: int = 500) -> int:
        """Delete at most that many expired sessions and one-time tokens each, and return how many."""
        require_whole("most", most, 1, MAX_SWEPT)
        return await self._sessions.remove_expired(most) + await self._store.one_time.remove_expired(most)

    async def _known(self, token: str, session: Session | None = None) -> KnownSession | None:
        if not is_token(token):
            return None
        return await self._sessions.known(digest(token), self._idle_seconds, session)

    async def _required(self, token: str, session: Session | None = None) -> KnownSession:
        known = await self._known(token, session)
        if known is None or effective_role(known.roles) is None:
            raise _signed_out()
        return known

    async def _audit(
        self, session: Session, org: str, known: KnownSession, action: Action, detail: Mapping[str, object]
    ) -> None:
        await self._services.audit(session, org, known.user_name, action, [known.user_id], detail)


def _signed_out() -> SignedOutError:
    return SignedOutError("this session has ended; sign in again")
