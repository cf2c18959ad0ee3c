"""Authentication, authorization, rate limits and CSRF, all checked before the body of a request is read.

Each route has an `AccessRule`. The result of the checks is the `RequestContext` that the route uses.
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

    permission  the permission that the caller needs; None: callers need no credentials
    signed_in   the caller must be signed in, and needs no permission
    owners      the owner of a run needs only the permission to read; the route checks who owns the run
    home        only for callers in the organization that owns the installation
    repeatable  with an Idempotency-Key, the response is stored and returned again; never for secrets
    own_key     the route handles the Idempotency-Key itself
    heavy       has a stricter rate limit: signing in
    tolerant    ignores unknown parameters, as a standard requires
    uncounted   no rate limit, because a response costs no more than a refusal: a flood of requests must not
                make the server look unhealthy, nor block static files for people behind one address
    """

    permission: Permission | None = None
    signed_in: bool = False
    owners: bool = False
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
        """Whether a request may revoke access."""
        return self.permission is Permission.MANAGE or self.signed_in


PUBLIC = AccessRule(repeatable=False)
UNCOUNTED = AccessRule(repeatable=False, uncounted=True)
SIGNING_IN = AccessRule(repeatable=False, heavy=True)
SIGNED_IN = AccessRule(signed_in=True, repeatable=False)


def may(
    permission: Permission,
    *,
    owners: bool = False,
    home: bool = False,
    repeatable: bool = True,
    own_key: bool = False,
) -> AccessRule:
    return AccessRule(permission, owners=owners, home=home, repeatable=repeatable, own_key=own_key)


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
        permission = Permission.READ if self._rule.owners else self._rule.permission
        if permission is not None and permission not in principal.permissions:
            raise forbidden(principal, permission)
        if self._rule.home and not principal.at_home:
            raise ProblemError(
                403,
                "not_at_home",
                "all organizations share queues, breakers, workers and settings; only the organization that "
                "owns the installation can use this",
                hint="ask a member of the organization 'default'",
            )

    def _check_address(self, request: Request) -> None:
        query: bytes = request.scope["query_string"]
        if len(request.scope["path"]) > MAX_PATH_LENGTH or len(query) > MAX_QUERY_LENGTH:
            raise ProblemError(414, "address_too_long", "the URL is too long", hint="use a shorter query")
        if b"rdk_" in query:
            raise ProblemError(
                400,
                "key_in_address",
                "the URL contains an API key, and URLs end up in logs",
                hint="revoke this key, and send a new one as: Authorization: Bearer rdk_…",
            )
        for name in request.query_params if query and not self._rule.tolerant else ():
            if name not in self._parameters:
                hint = suggest(name, self._parameters) if self._parameters else "this route takes none"
                detail = f"unknown query parameter {name[:100]!r}"
                raise ProblemError(422, "unknown_parameter", detail, hint=hint)

    def _application(self, request: Request, site: Site, visit: RequestContext | None) -> ASGIApp:
        """With an Idempotency-Key, the response is stored and returned again for the same request."""
        if request.method in SAFE or self._rule.own_key or KEY_HEADER not in request.headers:
            return self._app
        if visit is None or not self._rule.repeatable:
            raise ProblemError(
                400,
                "key_not_taken",
                "this route doesn't accept an Idempotency-Key, because it stores no response",
                hint="omit the header",
            )
        who = KeyScope(visit.org, visit.principal.whose)
        return IdempotencyMiddleware(
            self._app,
            site.app,
            methods=(request.method,),
            scope_of=lambda _scope: who,
            max_body_bytes=site.parts.settings.server_body_bytes,
        )


def _rechecking(request: Request, site: Site, visit: RequestContext, receive: Receive) -> Receive:
    """Authenticate again when the body is complete: the caller may have lost access while sending it."""
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
    """Clear the credential cache before the response confirms that access was revoked."""

    async def sending(message: Message) -> None:
        site.authenticator.forget()
        await send(message)

    return sending


def _not_signed_in() -> ProblemError:
    return ProblemError(
        401,
        "not_signed_in",
        "not signed in, or the API key is not valid",
        hint="send an API key as: Authorization: Bearer rdk_…",
        headers={"WWW-Authenticate": 'Bearer realm="redrive"'},
    )


def forbidden(principal: Principal, permission: Permission) -> ProblemError:
    return ProblemError(
        403,
        "forbidden",
        f"{principal.name} does not have the permission {permission.value!r} in the organization "
        f"{principal.org!r}",
        hint="ask an owner of the organization for a role or an API key with this permission",
    )


def other_organization(org: str) -> ProblemError:
    """Return the problem for a page opened before its user switched to another organization."""
    return ProblemError(
        409,
        "other_organization",
        f"this page belongs to another organization; you have switched to {org!r} since",
        hint="reload the page",
    )


def _check_csrf(request: Request, site: Site, csrf: str) -> None:
    """Check the CSRF token and the origin: another site can make a browser send the cookie, but not these."""
    check_origin(request, site)
    if not hmac.compare_digest(request.headers.get(CSRF_HEADER, "").encode(), csrf.encode()):
        raise ProblemError(
            403,
            "csrf",
            f"the header {CSRF_HEADER} doesn't match this session",
            hint="get the token from GET /api/v1/session",
        )


def check_origin(request: Request, site: Site) -> None:
    origin, fetched = request.headers.get("origin"), request.headers.get("sec-fetch-site")
    if origin is None and fetched in ("same-origin", "none"):
        return
    if origin is None or not is_origin(origin) or _parts(origin) != _parts(site.origin(request)):
        raise ProblemError(
            403,
            "foreign_origin",
            "this request was sent from another site",
            hint="programs need an API key; if this is a page of the server, set server_url to its address",
        )


def _parts(address: str) -> tuple[str, str]:
    parts = urlsplit(address)
    return parts.scheme, parts.netloc.lower()
