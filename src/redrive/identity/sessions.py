"""Sessions: signing in, what a browser may do with its token afterwards, and signing out.

What the user is in an organization is looked up each time: a right that is taken away is gone with the
next request.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress

from redrive.errors import AccessDeniedError, NotFoundError, SignedOutError, StoreUnavailableError
from redrive.identity.links import Links
from redrive.identity.one_time import OneTime
from redrive.identity.services import IdentityServices
from redrive.identity.sign_in import SignIn, Span
from redrive.identity.signed_in import NewSession, SignedIn, signed_in, standing_of
from redrive.model.audit import Action
from redrive.model.caller import APPLICATION
from redrive.model.identity import Identity, OneTimeLink, SessionLine, SignInKind, Standing, User
from redrive.model.role import Role
from redrive.policy.bounds import require_whole
from redrive.policy.credential import digest, is_token
from redrive.store.database import Session
from redrive.store.identifier import findable
from redrive.store.sessions import KnownSession

LINK_MINUTES = 60.0
MAX_SWEPT = 10_000
MAX_STANDINGS = 1_000
SEEN_PAUSE = 60.0
FRESH = 3600.0
"""So long after signing in by a link, a new password can be set without the one before."""


class Sessions:
    """`token` is what `sign_in` and the like have given; `ending` one that ends by it."""

    def __init__(self, kit: IdentityServices, span: Span) -> None:
        self._kit = kit
        self._store = kit.store
        self._sessions = kit.store.sessions
        one_time = OneTime(kit)
        self._links = Links(kit)
        self._sign_in = SignIn(kit, span)
        self._span = span
        self.put = one_time.put
        self.take = one_time.take

    # Signing in; None: it is not possible, for whatever reason

    async def sign_in(
        self, name: str, password: str, *, org: str | None = None, ending: str | None = None
    ) -> NewSession | None:
        return await self._sign_in.by_password(name, password, org, ending)

    async def redeem(
        self, token: str, *, org: str | None = None, ending: str | None = None
    ) -> NewSession | None:
        """Sign in by a link: the first to bring it, and nobody after."""
        return await self._sign_in.by_link(token, org, ending)

    async def sign_in_forwarded(
        self, name: str, *, org: str | None = None, ending: str | None = None
    ) -> NewSession | None:
        """A trusted proxy says who it is."""
        return await self._sign_in.by_proxy(name, org, ending)

    async def sign_in_identified(
        self, identity: Identity, name: str, *, org: str | None = None, ending: str | None = None
    ) -> NewSession | None:
        """An OpenID provider says who it is. The name must be one that it has verified."""
        return await self._sign_in.by_provider(identity, name, org, ending)

    async def link(self, name: str, *, minutes: float = LINK_MINUTES, by: str = APPLICATION) -> OneTimeLink:
        """Signs this user in once; for whoever has the application in their hands. See Directory.accounts."""
        return await self._links.link(name, minutes, by)

    async def embedded_link(self, *, minutes: float = LINK_MINUTES) -> OneTimeLink | None:
        """For whoever has started the server: a link for the user `operator`, made the first time.

        None when somebody has taken the rights of that user away.
        """
        return await self._links.embedded(minutes)

    # Being signed in

    async def of(self, token: str) -> SignedIn | None:
        """Who it is, and what they may do now; None when the token is not valid, or they are nobody there."""
        known = await self._known(token)
        found = None if known is None else signed_in(token, known)
        if known is not None and found is not None and known.now - known.line.seen_at >= SEEN_PAUSE:
            with suppress(StoreUnavailableError):  # to be read is enough
                await self._sessions.touch(digest(token), SEEN_PAUSE)
        return found

    async def organizations(self, token: str) -> list[Standing]:
        """Where the user may go; owners of the home organization everywhere."""
        known = await self._required(token)
        if known.roles.at_home is Role.OWNER:
            found = await self._store.organizations.page(MAX_STANDINGS, "")
            return [Standing(each.name, each.title, Role.OWNER) for each in found]
        return await self._store.memberships.standings(self._store.database, known.user_id, MAX_STANDINGS)

    async def enter(self, token: str, org: str) -> SignedIn:
        """Stand in another organization from now on. One that is not the user's does not exist."""
        async with self._store.database.transaction() as session:
            known = await self._required(token, session)
            roles = await self._store.memberships.roles(session, known.user_id, findable(org))
            if roles is None or standing_of(roles) is None:
                raise NotFoundError(
                    f"there is no organization {org!r:.250} that {known.user_name!r} may enter"
                )
            await self._sessions.move(session, digest(token), org)
            found = signed_in(token, await self._required(token, session))
            told = {"session": known.line.id}
            await self._audit(session, org, known, Action.SESSION_ENTERED, told)
        if found is None:
            raise _signed_out()
        return found

    async def list(self, token: str) -> list[SessionLine]:
        """All sessions of the same user, the newest first."""
        return await self._sessions.of_user((await self._required(token)).user_id, self._span.idle)

    async def change_password(self, token: str, password: str, *, current: str | None = None) -> None:
        """The other sessions of the user end. `current` is needed, unless there is none, or the user has just
        come by a link."""
        known = await self._required(token)
        user = await self._proven(known, current)
        hashed = await self._kit.passwords.hash(password)
        async with self._store.database.transaction() as session:
            now = await self._store.users.lock(session, user.id)
            if now is None or now.password_number != user.password_number:
                raise AccessDeniedError("the password was changed just now; sign in anew")
            known = await self._required(token, session)
            await self._store.users.set_password(session, user.id, hashed)
            ended = await self._sessions.end_others(session, user.id, known.line.id)
            await self._store.one_time.drop_of_user(session, user.id)
            told = {"name": user.name, "sessions_ended": ended}
            await self._audit(session, known.line.org, known, Action.USER_PASSWORD_CHANGED, told)

    async def _proven(self, known: KnownSession, current: str | None) -> User:
        user = await self._store.users.get(known.user_id)
        if user is None:
            raise _signed_out()
        fresh = known.line.kind is SignInKind.LINK and known.now - known.line.created_at <= FRESH
        if user.password is None or fresh:
            return user
        if current is None or not await self._kit.passwords.verify(user.password, current):
            raise AccessDeniedError(
                "the current password is not this one; or sign in by a new link, and set it"
            )
        return user

    # Signing out

    async def end(self, token: str) -> bool:
        """False when there was no such session."""
        if not is_token(token):
            return False
        async with self._store.database.transaction() as session:
            ended = await self._sessions.end(session, digest(token))
            if ended is None:
                return False
            user = await self._store.users.get(ended.user_id, session)
            name = ended.user_id if user is None else user.name
            told = {"session": ended.id}
            await self._kit.audit(session, ended.org, name, Action.SESSION_ENDED, [ended.user_id], told)
        return True

    async def end_one(self, token: str, session_id: str) -> None:
        """One of the user's own sessions, by its id."""
        async with self._store.database.transaction() as session:
            known = await self._required(token, session)
            if not await self._sessions.end_one(session, known.user_id, findable(session_id)):
                raise NotFoundError(f"there is no session {session_id!r:.100}; see the list of sessions")
            await self._audit(session, known.line.org, known, Action.SESSION_ENDED, {"session": session_id})

    async def end_others(self, token: str) -> int:
        """All sessions of the user but for this one; how many it were."""
        async with self._store.database.transaction() as session:
            known = await self._required(token, session)
            ended = await self._sessions.end_others(session, known.user_id, known.line.id)
            if ended:
                told = {"sessions_ended": ended}
                await self._audit(session, known.line.org, known, Action.SESSION_ENDED, told)
        return ended

    async def sweep(self, most: int = 500) -> int:
        """Forget up to so many sessions and tokens each that are over; how many it were."""
        require_whole("most", most, 1, MAX_SWEPT)
        return await self._sessions.remove_expired(most) + await self._store.one_time.remove_expired(most)

    async def _known(self, token: str, session: Session | None = None) -> KnownSession | None:
        if not is_token(token):
            return None
        return await self._sessions.known(digest(token), self._span.idle, session)

    async def _required(self, token: str, session: Session | None = None) -> KnownSession:
        known = await self._known(token, session)
        if known is None or standing_of(known.roles) is None:
            raise _signed_out()
        return known

    async def _audit(
        self, session: Session, org: str, known: KnownSession, action: Action, detail: Mapping[str, object]
    ) -> None:
        await self._kit.audit(session, org, known.user_name, action, [known.user_id], detail)


def _signed_out() -> SignedOutError:
    return SignedOutError("this session has ended; sign in anew")
