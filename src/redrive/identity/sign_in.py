"""Signing in: by a password, by a link, or because another system vouches for somebody.

Each makes a session with a token of its own. A token that somebody had before is never promoted: given as
`ending`, its session ends. None is the answer to everybody who cannot sign in, whatever the reason.
"""

from __future__ import annotations

from typing import NamedTuple
from unicodedata import normalize

from redrive.identity.one_time import OneTime
from redrive.identity.services import IdentityServices
from redrive.identity.signed_in import NewSession, signed_in, standing_of
from redrive.model.audit import Action
from redrive.model.caller import SELF
from redrive.model.identity import Identity, SignInKind, User
from redrive.policy.credential import digest, findable_user, is_token
from redrive.store.database import Session
from redrive.store.identifier import findable
from redrive.store.sessions import KnownSession, NewSessionRow

MAX_IDENTITY_LENGTH = 500


class Span(NamedTuple):
    """How long a session lasts, in seconds: in all, and without being used."""

    lifetime: float = 7 * 86_400.0
    idle: float = 12 * 3600.0


class SignIn:
    def __init__(self, kit: IdentityServices, span: Span) -> None:
        self._kit = kit
        self._store = kit.store
        self._users = kit.store.users
        self._one_time = OneTime(kit)
        self._span = span

    async def by_password(
        self, name: str, password: str, org: str | None, ending: str | None
    ) -> NewSession | None:
        user = await self._users.named(findable_user(name))
        stored = None if user is None else user.password
        right = await self._kit.passwords.verify(stored, password)
        if user is None or stored is None or not right:
            return None
        async with self._store.database.transaction() as session:
            new = await self._start(session, user, SignInKind.PASSWORD, org, ending)
        if new is not None and self._kit.passwords.is_outdated(stored):
            renewed = await self._kit.passwords.hash(password)
            await self._users.renew_password_if_same(user.id, stored, renewed)
        return new

    async def by_link(self, token: str, org: str | None, ending: str | None) -> NewSession | None:
        if not is_token(token):
            return None
        async with self._store.database.transaction() as session:
            user = await self._one_time.take_link(session, token)
            return None if user is None else await self._start(session, user, SignInKind.LINK, org, ending)

    async def by_proxy(self, name: str, org: str | None, ending: str | None) -> NewSession | None:
        user = await self._users.named(findable_user(name))
        if user is None or not _is_vouchable(user):
            return None
        async with self._store.database.transaction() as session:
            return await self._start(session, user, SignInKind.FORWARD, org, ending)

    async def by_provider(
        self, identity: Identity, name: str, org: str | None, ending: str | None
    ) -> NewSession | None:
        """Who came before is known by the identity; who comes for the first time, by a name that the provider
        has verified."""
        if not all(1 <= len(findable(part)) <= MAX_IDENTITY_LENGTH for part in identity):
            return None
        user = await self._users.identified(identity)
        async with self._store.database.transaction() as session:
            if user is None:
                user = await self._newly_identified(session, identity, name)
            return None if user is None else await self._start(session, user, SignInKind.OIDC, org, ending)

    async def _newly_identified(self, session: Session, identity: Identity, name: str) -> User | None:
        known = await self._users.named(findable_user(name), session)
        if known is None or not _is_vouchable(known):
            return None
        return await self._users.identify(session, known.id, identity)

    async def _start(
        self, session: Session, user: User, kind: SignInKind, org: str | None, ending: str | None
    ) -> NewSession | None:
        now = await self._users.lock(session, user.id)
        if now is None or now.disabled_at is not None or now.password_number != user.password_number:
            return None
        place = await self._place(session, user, org)
        if place is None:
            return None
        ended = await self._store.sessions.end(session, digest(ending)) if is_token(ending) else None
        token = self._kit.secret()
        row = NewSessionRow(digest(token), self._kit.ids.new(), user.id, place, kind, self._span.lifetime)
        await self._store.sessions.insert(session, row)
        known = await self._store.sessions.known(row.hash, self._span.idle, session)
        told = {"kind": str(kind), "session": row.id} | ({} if ended is None else {"instead_of": ended.id})
        await self._kit.audit(session, place, user.name, Action.SESSION_STARTED, [user.id], told)
        return _new(token, known)

    async def _place(self, session: Session, user: User, org: str | None) -> str | None:
        """The organization to stand in: the one that is asked for, or the first that there is."""
        if org is None:
            standings = await self._store.memberships.standings(session, user.id, 1)
            return standings[0].org if standings else None
        roles = await self._store.memberships.roles(session, user.id, findable(org))
        return None if roles is None or standing_of(roles) is None else org


def vouched_name(text: object) -> str:
    """Read the name of a user as a provider or a proxy says it; "" if it cannot be one.

    People may type their name in many ways, which mean one user. Another system may have an account for each
    of them, so only the plain one is accepted from it.
    """
    if not isinstance(text, str) or text != normalize("NFKC", text) or text != text.strip():
        return ""
    return findable_user(text)


def _is_vouchable(user: User) -> bool:
    """The owner that Redrive makes by itself is for whoever has started the server: nobody has said that it
    is the one whom another system calls so."""
    return user.created_by != SELF


def _new(token: str, known: KnownSession | None) -> NewSession | None:
    found = None if known is None else signed_in(token, known)
    return None if found is None else NewSession(token, found)
