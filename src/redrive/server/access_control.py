"""Access control: the rule of a route, and the checks that it takes before the body of a request is read.

They are authentication, authorization, rate limits, CSRF, and the address. The result is the `RequestContext`
that the route works with.
"""

from __future__ import annotations

import hmac
from typing import NamedTuple
from urllib.parse import unquote, urlsplit

from starlette.requests import Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from redrive.asgi import IdempotencyMiddleware
from redrive.asgi import Scope as KeyScope
from redrive.policy.access import Permission, Principal
from redrive.server.authenticator import TRUSTED_SECONDS
from redrive.server.problem import ProblemError
from redrive.server.request_context import RequestContext
from redrive.server.site import Site, is_origin, site_of
from redrive.words.suggestion import suggest

SAFE = frozenset({"GET", "HEAD", "OPTIONS"})
CSRF_HEADER = "X-CSRF-Token"
KEY_HEADER = "Idempotency-Key"
ORG_HEADER = "X-Redrive-Org"
MAX_PATH_LENGTH = 2_048
MAX_QUERY_LENGTH = 8_192


class AccessRule(NamedTuple):
    """What a route requires of its caller.

    permission  what the caller must be allowed to do; None: callers need no credentials
    signed_in   the caller must be signed in, and needs no permission
    home        only from the organization that owns the installation
    repeatable  with an Idempotency-Key, the response is stored and returned again; not if it holds a secret
    own_key     the route handles the Idempotency-Key itself
    heavy       counted more strictly: signing in
    tolerant    it ignores parameters that it does not know, as a standard requires
    uncounted   no rate limit, because a response costs no more than a refusal: a flood of strangers must not
                make the server look unhealthy, nor colleagues behind one address run out of static files
    """

    permission: Permission | None = None
    signed_in: bool = False
    home: bool = False
    repeatable: bool = True
    own_key: bool = False
    heavy: bool = False
    tolerant: bool = False
    uncounted: bool = False

    @property
    def is_public(self) -> bool:
        return self.permission is None and not self.signed_in

    @property
    def changes_access(self) -> bool:
        """Whether a request may take a right away from somebody."""
        return self.permission is Permission.MANAGE or self.signed_in


PUBLIC = AccessRule(repeatable=False)
UNCOUNTED = AccessRule(repeatable=False, uncounted=True)
SIGNING_IN = AccessRule(repeatable=False, heavy=True)
SIGNED_IN = AccessRule(signed_in=True, repeatable=False)


def may(
    permission: Permission, *, home: bool = False, repeatable: bool = True, own_key: bool = False
) -> AccessRule:
    return AccessRule(permission, home=home, repeatable=repeatable, own_key=own_key)


class AccessControl:
    def __init__(self, rule: AccessRule, parameters: frozenset[str], app: ASGIApp) -> None:
        self._rule = rule
        self._parameters = parameters
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope, receive)
        site = site_of(scope)
        self._check_address(request)
        visit = await self._admit(request, site)
        scope["state"]["visit"] = visit
        if self._rule.changes_access and request.method not in SAFE:
            send = _forgetting(site, send)
        if visit is not None and request.method not in SAFE:
            receive = _rechecking(request, site, visit, receive)
        await self._application(request, site, visit)(scope, receive, send)

    async def _admit(self, request: Request, site: Site) -> RequestContext | None:
        if self._rule.is_public:
            if not self._rule.uncounted:
                site.limits.admit_stranger(request, heavy=self._rule.heavy)
            return None
        signed_in = await site.authenticator.authenticate(request)
        if signed_in is None:
            site.limits.admit_stranger(request, heavy=False)
            raise _not_signed_in()
        principal = signed_in.principal
        site.limits.admit(principal)
        if signed_in.csrf is not None and request.method not in SAFE:
            _check_csrf(request, site, signed_in.csrf)
        meant = request.headers.get(ORG_HEADER)
        if meant is not None and unquote(meant) != principal.org:
            raise other_organization(principal.org)
        self._check_rights(principal)
        return RequestContext(site.app, principal, signed_in.csrf)

    def _check_rights(self, principal: Principal) -> None:
        permission = self._rule.permission
        if permission is not None and permission not in principal.permissions:
            raise ProblemError(
                403,
                "forbidden",
                f"this needs the permission {permission.value!r}, which {principal.name} does not have in "
                f"{principal.org!r}",
                hint="ask an owner of the organization for a role or a key that has it",
            )
        if self._rule.home and not principal.at_home:
            raise ProblemError(
                403,
                "not_at_home",
                "queues, breakers, workers and settings are shared by all organizations, and are changed "
                "from the one that owns the installation",
                hint="ask somebody of the organization 'default'",
            )

    def _check_address(self, request: Request) -> None:
        query: bytes = request.scope["query_string"]
        if len(request.scope["path"]) > MAX_PATH_LENGTH or len(query) > MAX_QUERY_LENGTH:
            raise ProblemError(414, "address_too_long", "the address is too long", hint="use a shorter query")
        if b"rdk_" in query:
            raise ProblemError(
                400,
                "key_in_address",
                "an API key must not be part of an address, which logs keep",
                hint="revoke this key, and send another one as: Authorization: Bearer rdk_…",
            )
        for name in request.query_params if query and not self._rule.tolerant else ():
            if name not in self._parameters:
                hint = suggest(name, self._parameters) if self._parameters else "it takes none"
                detail = f"there is no parameter {name[:100]!r} here"
                raise ProblemError(422, "unknown_parameter", detail, hint=hint)

    def _application(self, request: Request, site: Site, visit: RequestContext | None) -> ASGIApp:
        """With an Idempotency-Key, the response is stored and returned again for the same request."""
        if request.method in SAFE or self._rule.own_key or KEY_HEADER not in request.headers:
            return self._app
        if visit is None or not self._rule.repeatable:
            raise ProblemError(
                400,
                "key_not_taken",
                "this route does not take an Idempotency-Key: its answer is not kept",
                hint="omit the header",
            )
        who = KeyScope(visit.org, visit.principal.whose)
        return IdempotencyMiddleware(
            self._app,
            site.app,
            methods=(request.method,),
            scope_of=lambda _scope: who,
            most_body=site.parts.settings.server_body_bytes,
        )


def _rechecking(request: Request, site: Site, visit: RequestContext, receive: Receive) -> Receive:
    """Authenticate again when the body is complete: a caller may have lost a right while sending it."""
    authenticator, clock = site.authenticator, site.parts.clock
    forgotten, until = authenticator.times_forgotten, clock.monotonic() + TRUSTED_SECONDS

    async def receiving() -> Message:
        message = await receive()
        whole = message["type"] == "http.request" and not message.get("more_body", False)
        if whole and (authenticator.times_forgotten != forgotten or clock.monotonic() >= until):
            now = await authenticator.authenticate(request)
            if now is None or now.principal != visit.principal:
                raise _not_signed_in()
        return message

    return receiving


def _forgetting(site: Site, send: Send) -> Send:
    """Forget all credentials before the response says that a right was revoked."""

    async def sending(message: Message) -> None:
        site.authenticator.forget()
        await send(message)

    return sending


def _not_signed_in() -> ProblemError:
    return ProblemError(
        401,
        "not_signed_in",
        "this needs a valid API key or a session",
        hint="send an API key as: Authorization: Bearer rdk_…",
        headers={"WWW-Authenticate": 'Bearer realm="redrive"'},
    )


def other_organization(org: str) -> ProblemError:
    """The problem of a page that was opened before its user entered another organization."""
    return ProblemError(
        409,
        "other_organization",
        f"this was asked from a page of another organization; {org!r} was entered since",
        hint="read the page again",
    )


def _check_csrf(request: Request, site: Site, csrf: str) -> None:
    """Check the CSRF token and the origin: another site can make a browser send the cookie, but not these."""
    check_origin(request, site)
    if not hmac.compare_digest(request.headers.get(CSRF_HEADER, "").encode(), csrf.encode()):
        raise ProblemError(
            403,
            "csrf",
            f"the header {CSRF_HEADER} does not hold the token of this session",
            hint="read it from GET /api/v1/session",
        )


def check_origin(request: Request, site: Site) -> None:
    origin, fetched = request.headers.get("origin"), request.headers.get("sec-fetch-site")
    if origin is None and fetched in ("same-origin", "none"):
        return
    if origin is None or not is_origin(origin) or _parts(origin) != _parts(site.origin(request)):
        raise ProblemError(
            403,
            "foreign_origin",
            "this request does not come from a page of this server",
            hint="programs use an API key; if this is a page of this server, set server_url to its address",
        )


def _parts(address: str) -> tuple[str, str]:
    parts = urlsplit(address)
    return parts.scheme, parts.netloc.lower()
