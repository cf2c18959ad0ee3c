"""Authentication: identifies the caller by API key or session cookie.

A valid credential is cached for `TRUSTED_SECONDS`, and simultaneous requests share one lookup. If this
process revokes a credential, it is refused immediately; if another process does, within that time. Changes
that use a session bypass the cache, because the user may have switched to another organization in another
process.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from hashlib import sha256
from typing import NamedTuple

from starlette.requests import Request
from starlette.responses import Response

from redrive.app import Redrive
from redrive.model.identity import SignInKind
from redrive.parts import parts_of
from redrive.policy.access import Principal
from redrive.server.proxies import Proxies

TRUSTED_SECONDS = 2.0
MAX_REMEMBERED = 10_000
COOKIE = "redrive_session"
MAX_CREDENTIAL_LENGTH = 512
READING = frozenset({"GET", "HEAD", "OPTIONS"})


class AuthenticatedCaller(NamedTuple):
    """`csrf` is the token that a browser must send; None for keys, which browsers never send automatically.

    `forwarded`: a proxy authenticated the caller, and must name them in every request.
    """

    principal: Principal
    csrf: str | None
    until: float
    forwarded: bool = False


class Authenticator:
    def __init__(self, app: Redrive) -> None:
        self._app = app
        self.is_secure = (parts_of(app).settings.server_url or "").startswith("https:")
        self._cookie = f"__Host-{COOKIE}" if self.is_secure else COOKIE
        self.proxies = Proxies(parts_of(app).settings)
        self._known: OrderedDict[bytes, AuthenticatedCaller] = OrderedDict()
        self._lookups: dict[bytes, asyncio.Task[AuthenticatedCaller | None]] = {}
        self._times_forgotten = 0

    async def authenticate(self, request: Request) -> AuthenticatedCaller | None:
        """Return the caller, or None if the request has no valid credential."""
        bearer = _bearer(request)
        if bearer is not None:
            return await self._remembered("key", bearer)
        token = self.session_token(request)
        if token is None:
            return None
        found = await self._remembered("session", token, fresh=request.method not in READING)
        return None if found is None or not self._is_named(request, found) else found

    def _is_named(self, request: Request, visitor: AuthenticatedCaller) -> bool:
        """Check that the proxy still names the caller: they may have signed out there, or bypassed it."""
        return not visitor.forwarded or self.proxies.user_of(request) == visitor.principal.name

    @property
    def times_forgotten(self) -> int:
        """How often the cache was cleared. If it has not changed, this process has revoked nothing."""
        return self._times_forgotten

    def forget(self) -> None:
        """Clear the cache, because access was revoked or changed."""
        self._known.clear()
        self._lookups.clear()
        self._times_forgotten += 1

    # The session cookie: scripts can't read it, and forms of other sites don't send it

    def session_token(self, request: Request) -> str | None:
        return request.cookies.get(self._cookie)

    def set_session(self, response: Response, token: str) -> None:
        seconds = round(parts_of(self._app).settings.session_days * 86_400)
        response.set_cookie(
            self._cookie,
            token,
            max_age=seconds,
            path="/",
            secure=self.is_secure,
            httponly=True,
            samesite="lax",
        )

    def drop_session(self, response: Response) -> None:
        response.delete_cookie(self._cookie, path="/", secure=self.is_secure, httponly=True, samesite="lax")

    async def _remembered(self, kind: str, text: str, *, fresh: bool = False) -> AuthenticatedCaller | None:
        if not text or len(text) > MAX_CREDENTIAL_LENGTH or not text.isascii():
            return None
        now, name = parts_of(self._app).clock.monotonic(), sha256(f"{kind}:{text}".encode()).digest()
        if fresh:
            return await self._look_up(name, kind, text)
        known = self._known.get(name)
        if known is not None and now < known.until:
            return known
        lookup = self._lookups.get(name)
        if lookup is None:
            lookup = self._lookups[name] = asyncio.create_task(self._look_up(name, kind, text))
        return await asyncio.shield(lookup)  # a client that disconnects must not end it for the others

    async def _look_up(self, name: bytes, kind: str, text: str) -> AuthenticatedCaller | None:
        now, before = parts_of(self._app).clock.monotonic(), self._times_forgotten
        try:
            found = await (self._by_key(text, now) if kind == "key" else self._by_session(text, now))
        finally:
            if self._lookups.get(name) is asyncio.current_task():
                del self._lookups[name]
        if before == self._times_forgotten:  # otherwise it may have been revoked in the meantime
            self._remember(name, found)
        return found

    def _remember(self, name: bytes, visitor: AuthenticatedCaller | None) -> None:
        self._known.pop(name, None)
        if visitor is not None:
            self._known[name] = visitor
            if len(self._known) > MAX_REMEMBERED:
                self._known.popitem(last=False)

    async def _by_key(self, text: str, now: float) -> AuthenticatedCaller | None:
        principal = await self._app.members().credentials.of_key(text)
        return None if principal is None else AuthenticatedCaller(principal, None, now + TRUSTED_SECONDS)

    async def _by_session(self, token: str, now: float) -> AuthenticatedCaller | None:
        signed_in = await self._app.members().credentials.of_session(token)
        if signed_in is None:
            return None
        forwarded = signed_in.session.kind is SignInKind.FORWARD
        return AuthenticatedCaller(signed_in.principal, signed_in.csrf, now + TRUSTED_SECONDS, forwarded)


def _bearer(request: Request) -> str | None:
    """Return the bearer token; "" for another Authorization scheme, which is an invalid credential."""
    header = request.headers.get("authorization")
    if header is None:
        return None
    scheme, _, text = header.partition(" ")
    return text.strip() if scheme.lower() == "bearer" else ""
