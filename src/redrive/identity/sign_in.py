"""Sign in with a password, by a link, or through an OpenID provider or a trusted proxy.

Every sign-in starts a session with a new token and never continues an existing session. If `ending` is the
token of an existing session, that session ends. The result is None on failure, whatever the reason.
"""

from __future__ import annotations

from typing import NamedTuple
from unicodedata import normalize

from redrive.identity.one_time import OneTimeSecrets
from redrive.identity.services import IdentityServices
from redrive.model.audit import Action
from redrive.model.caller import SELF
from redrive.model.identity import Identity, SessionLine, SignInKind, User
from redrive.model.role import Role
from redrive.policy.access import SESSION, Principal, permitted, role_in
from redrive.policy.credential import csrf_of, digest, findable_user, is_token
from redrive.store.database import Session, findable
from redrive.store.memberships import Roles
from redrive.store.sessions import KnownSession, NewSessionRow

MAX_IDENTITY_LENGTH = 500


class SignedInUser(NamedTuple):
    """A user with their current permissions in the organization of their session.

    Pages send `csrf` with every change.
    """

    principal: Principal
    session: SessionLine
    csrf: str

    def __repr__(self) -> str:
        return f"SignedInUser({self.principal!r}, {self.session!r}, csrf='…')"


class NewSession(NamedTuple):
    """`token` belongs in an HttpOnly cookie and nowhere else."""

    token: str
    signed_in: SignedInUser

    def __repr__(self) -> str:
        return f"NewSession(token='…', {self.signed_in!r})"


def effective_role(roles: Roles) -> Role | None:
    """Return the role in an organization. Owners of the home organization are owners everywhere."""
    return role_in(roles.there, roles.at_home is Role.OWNER)


def signed_in_user(token: str, known: KnownSession) -> SignedInUser | None:
    """Return the user of a session. None if they no longer have a role in its organization."""
    role = effective_role(known.roles)
    if role is None:
        return None
    principal = Principal(
        org=known.line.org,
        name=known.user_name,
        role=role,
        permissions=permitted(role),
        kind=SESSION,
        id=known.line.id,
        user_id=known.user_id,
        everywhere=known.roles.at_home is Role.OWNER,
    )
    return SignedInUser(principal, known.line, csrf_of(token))


class SignIn:
    """Verifies a user's proof of identity and starts a session."""

    def __init__(self, services: IdentityServices, one_time: OneTimeSecrets) -> None:
        self._services = services
        self._passwords = services.passwords
        self._store = services.store
        self._users = services.store.users
        self._one_time = one_time
        self._limits = services.session_limits

    async def by_password(
        self, name: str, password: str, org: str | None, ending: str | None
    ) -> NewSession | None:
        user = await self._users.named(findable_user(name))
        stored = None if user is None else user.password
        is_correct = await self._passwords.verify(stored, password)
        if user is None or stored is None or not is_correct:
            return None
        async with self._store.database.transaction() as session:
            new = await self._start(session, user, SignInKind.PASSWORD, org, ending)
        if new is not None and self._passwords.is_outdated(stored):
            renewed = await self._passwords.hash(password)
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
        """Find the user by the identity or, on the first sign-in, by the name verified by the provider."""
        if not all(1 <= len(findable(part)) <= MAX_IDENTITY_LENGTH for part in identity):
            return None
        user = await self._users.identified(identity)
        async with self._store.database.transaction() as session:
            if user is None:
                user = await self._identify(session, identity, name)
            return None if user is None else await self._start(session, user, SignInKind.OIDC, org, ending)

    async def _identify(self, session: Session, identity: Identity, name: str) -> User | None:
        """Link the identity to the user with this name, unless the user already has an identity."""
        user = await self._users.named(findable_user(name), session)
        if user is None or not _is_vouchable(user):
            return None
        return await self._users.identify(session, user.id, identity)

    async def _start(
        self, session: Session, user: User, kind: SignInKind, org: str | None, ending: str | None
    ) -> NewSession | None:
        now = await self._users.lock(session, user.id)
        if now is None or now.disabled_at is not None or now.password_number != user.password_number:
            return None
        entered = await self._organization(session, user, org)
        if entered is None:
            return None
        ended = await self._store.sessions.end(session, digest(ending)) if is_token(ending) else None
        token, lifetime = self._services.secret(), self._limits.lifetime_seconds
        row = NewSessionRow(
            hash=digest(token),
            id=self._services.ids.new(),
            user_id=user.id,
            org=entered,
            kind=kind,
            lifetime=lifetime,
        )
        await self._store.sessions.insert(session, row)
        known = await self._store.sessions.known(row.hash, self._limits.idle_seconds, session)
        detail = {"kind": str(kind), "session": row.id} | ({} if ended is None else {"instead_of": ended.id})
        await self._services.audit(session, entered, user.name, Action.SESSION_STARTED, [user.id], detail)
        signed_in = None if known is None else signed_in_user(token, known)
        return None if signed_in is None else NewSession(token, signed_in)

    async def _organization(self, session: Session, user: User, org: str | None) -> str | None:
        """Return the organization in which the session starts: the given one, or the user's first."""
        if org is None:
            memberships = await self._store.memberships.standings(session, user.id, 1)
            return memberships[0].org if memberships else None
        roles = await self._store.memberships.roles(session, user.id, findable(org))
        return None if roles is None or effective_role(roles) is None else org


def vouched_name(text: object) -> str:
    """Return the user name that a provider or proxy sent; "" if it is not a valid user name.

    When people type a name, several spellings mean the same user. Another system may have a separate account
    for each spelling, so this accepts only the normalized spelling.
    """
    if not isinstance(text, str) or text != normalize("NFKC", text) or text != text.strip():
        return ""
    return findable_user(text)


def _is_vouchable(user: User) -> bool:
    """Return False for the owner that Redrive creates: that user is for the person who started the server.

    Another system may give the same name to any person.
    """
    return user.created_by != SELF
