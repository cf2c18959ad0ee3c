"""Sessions: sign in, use a session by its token, and sign out.

Every request looks up the role of the user, so when an owner revokes a right, the next request lacks it.
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
"""For this time after signing in by a link, a user can set a password without the current one."""


class UserSessions:
    """`token` identifies a session; `ending` is the token of a session that the new session replaces."""

    def __init__(self, services: IdentityServices) -> None:
        self._services = services
        self._passwords = services.passwords
        self._store = services.store
        self._sessions = services.store.sessions
        self._one_time = OneTimeSecrets(services)
        self._links = SignInLinks(services, self._one_time)
        self._sign_in = SignIn(services, self._one_time)
        self._idle_seconds = services.session_limits.idle_seconds

    # Signing in; returns None on failure, whatever the reason

    async def sign_in(
        self, name: str, password: str, *, org: str | None = None, ending: str | None = None
    ) -> NewSession | None:
        return await self._sign_in.by_password(name, password, org, ending)

    async def redeem(
        self, token: str, *, org: str | None = None, ending: str | None = None
    ) -> NewSession | None:
        """Sign in by a link. Each link works once."""
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
        """Create a link that signs any user in once. Owners use `Members.accounts` for their members."""
        return await self._links.create(name, minutes, by)

    async def embedded_link(self, *, minutes: float = LINK_MINUTES) -> OneTimeLink | None:
        """Create a link for the person who started the server. It signs in the user `operator`.

        The first call creates that user. Returns None if an owner has since disabled or removed the user.
        """
        return await self._links.create_for_operator(minutes)

    async def put(self, kind: str, body: JsonValue, seconds: Seconds) -> str:
        """Store the data of a sign-in in progress, and return the token that fetches it once."""
        return await self._one_time.put(kind, body, seconds)

    async def take(self, kind: str, token: str) -> JsonValue:
        """Return the data that `put` stored, and delete it. None if the token is used, expired or unknown."""
        return await self._one_time.take(kind, token)

    # Using a session

    async def of(self, token: str) -> SignedInUser | None:
        """Return the user of a session. None if the token is invalid or the user no longer has a role."""
        known = await self._known(token)
        found = None if known is None else signed_in_user(token, known)
        if known is not None and found is not None and known.now - known.line.seen_at >= SEEN_PAUSE_SECONDS:
            with suppress(StoreUnavailableError):  # a read-only database is enough
                await self._sessions.touch(digest(token), SEEN_PAUSE_SECONDS)
        return found

    async def organizations(self, token: str) -> list[Membership]:
        """List the organizations that the user may enter. Owners of the home organization may enter all."""
        known = await self._required(token)
        if known.roles.at_home is Role.OWNER:
            found = await self._store.organizations.page(MAX_MEMBERSHIPS, "")
            return [Membership(org.name, org.title, Role.OWNER) for org in found]
        memberships = self._store.memberships
        return await memberships.standings(self._store.database, known.user_id, MAX_MEMBERSHIPS)

    async def enter(self, token: str, org: str) -> SignedInUser:
        """Switch the session to another organization. NotFoundError if the user has no role there."""
        async with self._store.database.transaction() as session:
            known = await self._required(token, session)
            roles = await self._store.memberships.roles(session, known.user_id, findable(org))
            if roles is None or effective_role(roles) is None:
                raise NotFoundError(f"found no organization {org!r:.250} that {known.user_name!r} may enter")
            await self._sessions.move(session, digest(token), org)
            found = signed_in_user(token, await self._required(token, session))
            await self._audit(session, org, known, Action.SESSION_ENTERED, {"session": known.line.id})
        if found is None:
            raise _signed_out()
        return found

    async def list(self, token: str) -> list[SessionLine]:
        """List all sessions of the user, the newest first."""
        return await self._sessions.of_user((await self._required(token)).user_id, self._idle_seconds)

    async def change_password(self, token: str, password: str, *, current: str | None = None) -> None:
        """Set a password, and end the user's other sessions.

        `current` is required unless the user has no password yet or recently signed in by a link.
        """
        known = await self._required(token)
        user = await self._proven(known, current)
        hashed = await self._passwords.hash(password)
        async with self._store.database.transaction() as session:
            now = await self._store.users.lock(session, user.id)
            if now is None or now.password_number != user.password_number:
                raise AccessDeniedError("the password has just been changed; sign in again")
            known = await self._required(token, session)
            await self._store.users.set_password(session, user.id, hashed)
            ended = await self._sessions.end_others(session, user.id, known.line.id)
            await self._store.one_time.drop_of_user(session, user.id)
            detail = {"name": user.name, "sessions_ended": ended}
            await self._audit(session, known.line.org, known, Action.USER_PASSWORD_CHANGED, detail)

    async def _proven(self, known: KnownSession, current: str | None) -> User:
        """Require the current password, so that a stolen session can't change it."""
        user = await self._store.users.get(known.user_id)
        if user is None:
            raise _signed_out()
        age = known.now - known.line.created_at
        if user.password is None or (known.line.kind is SignInKind.LINK and age <= FRESH_LINK_SECONDS):
            return user
        if current is None or not await self._passwords.verify(user.password, current):
            raise AccessDeniedError(
                "the current password is wrong; enter it again, or sign in by a new link and set a password"
            )
        return user

    # Signing out

    async def end(self, token: str) -> bool:
        """End a session. Return False if the token has no session."""
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
        """End one of the user's sessions, by its id."""
        async with self._store.database.transaction() as session:
            known = await self._required(token, session)
            if not await self._sessions.end_one(session, known.user_id, findable(session_id)):
                raise NotFoundError(f"found no session {session_id!r:.100}; see the list of sessions")
            await self._audit(session, known.line.org, known, Action.SESSION_ENDED, {"session": session_id})

    async def end_others(self, token: str) -> int:
        """End all other sessions of the user, and return their number."""
        async with self._store.database.transaction() as session:
            known = await self._required(token, session)
            ended = await self._sessions.end_others(session, known.user_id, known.line.id)
            if ended:
                detail = {"sessions_ended": ended}
                await self._audit(session, known.line.org, known, Action.SESSION_ENDED, detail)
        return ended

    async def sweep(self, most: int = 500) -> int:
        """Delete up to `most` expired sessions and `most` expired one-time tokens. Return their number."""
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
