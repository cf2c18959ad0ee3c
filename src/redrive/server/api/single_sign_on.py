"""Single sign-on: with an OpenID provider, or behind a proxy that authenticates people."""

from __future__ import annotations

import logging
import re
from typing import TYPE_CHECKING, Annotated, Any

from fastapi import Query
from pydantic import BaseModel, Field
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from redrive.identity.oidc import CodeRefusedError, OpenIdError, ProviderUnavailableError, TokenRefusedError
from redrive.identity.oidc.login_state import LOGIN_SECONDS, LoginState, new_login, save_login, take_login
from redrive.log_line import write_log_line
from redrive.policy.credential import SECRET_BYTES, is_token, secret_text
from redrive.server.access_control import PUBLIC, SIGNING_IN, check_origin
from redrive.server.api.session import NextPath, SessionShape, redirect
from redrive.server.problem import ProblemError
from redrive.server.route import Routes
from redrive.server.site import Site, site_of

if TYPE_CHECKING:
    from redrive.identity.oidc.provider import OpenIdProvider

oidc_routes = Routes("oidc", "/api/v1/session/oidc")
proxy_routes = Routes("forward", "/api/v1/session/forward")

LOGGER = logging.getLogger("redrive.server")

COOKIE = "redrive_oidc"
AGAIN = "start again at /api/v1/session/oidc"
CALLBACK = "/api/v1/session/oidc/callback"
_ERROR = re.compile(r"[a-z_]{1,50}")

ANSWERS: dict[int | str, dict[str, Any]] = {
    200: {"model": SessionShape},
    303: {"description": "Signed in; redirects to the requested path"},
}


class ProviderAnswer(BaseModel):
    """The parameters that the callback reads; providers send more."""

    state: Annotated[str, Field(max_length=200)] = ""
    code: Annotated[str, Field(max_length=6_000)] = ""
    iss: Annotated[str | None, Field(max_length=2_000)] = None
    error: Annotated[str | None, Field(max_length=200)] = None


@oidc_routes.get(
    "", SIGNING_IN, status_code=303, response_class=Response, response_description="Redirects to the provider"
)
async def begin(request: Request, next_path: NextPath = None) -> Response:
    """Start a sign-in with the OpenID provider, which sends the browser back to /callback."""
    site = site_of(request.scope)
    provider = _provider(site)
    known = request.cookies.get(
        _cookie(site)
    )  # shared with a sign-in in another tab, which must not fail because of this one
    browser = known if is_token(known) else secret_text(site.parts.entropy(SECRET_BYTES))
    login = new_login(site.parts.entropy, site.origin(request) + CALLBACK, next_path, browser)
    state = await save_login(site.app.members().sessions, login)
    try:
        response = RedirectResponse(await provider.authorization_url(login, state), 303)
    except OpenIdError as error:
        raise _problem_of(error) from None
    # Tied to this browser, so that an attacker cannot have a victim finish the attacker's sign-in.
    secure = site.authenticator.is_secure
    response.set_cookie(
        _cookie(site), browser, LOGIN_SECONDS, path="/", secure=secure, httponly=True, samesite="lax"
    )
    return response


@oidc_routes.get("/callback", PUBLIC._replace(tolerant=True), responses=ANSWERS)
async def callback(request: Request, answer: Annotated[ProviderAnswer, Query()]) -> Response:
    """Finish a sign-in: the provider sends the browser back here."""
    site = site_of(request.scope)
    provider = _provider(site)
    login = await take_login(site.app.members().sessions, answer.state, request.cookies.get(_cookie(site)))
    if login is None:
        detail = "this sign-in has expired, is already finished, or was started in another browser"
        raise ProblemError(400, "sign_in_stale", detail, hint=AGAIN)
    try:
        await provider.check_issuer(answer.iss)
        if answer.error is not None:
            raise _denied(answer.error if _ERROR.fullmatch(answer.error) else "an error")
        return await _sign_in(request, site, provider, login, answer.code)
    except OpenIdError as error:
        raise _problem_of(error) from None


async def _sign_in(
    request: Request, site: Site, provider: OpenIdProvider, login: LoginState, code: str
) -> Response:
    person = await provider.person(login, code)
    name = person.name if person.is_verified else ""
    sessions = site.app.members().sessions
    new = await sessions.sign_in_identified(
        person.identity, name, ending=site.authenticator.session_token(request)
    )
    if new is None:
        raise _unknown_user(name) if person.is_verified else _unverified()
    response = await redirect(site, sessions, new, login.next)
    response.delete_cookie(
        _cookie(site), path="/", secure=site.authenticator.is_secure, httponly=True, samesite="lax"
    )
    return response


def _provider(site: Site) -> OpenIdProvider:
    if site.oidc is None:
        hint = "sign in with a password or a link, or set oidc_issuer and oidc_client_id"
        raise ProblemError(404, "oidc_off", "this server has no OpenID provider", hint=hint)
    return site.oidc


def _cookie(site: Site) -> str:
    return f"__Host-{COOKIE}" if site.authenticator.is_secure else COOKIE


def _problem_of(error: OpenIdError) -> ProblemError:
    """Log why a sign-in failed, and return what the person can do about it."""
    _log_failure(error.step, error.reason)
    if isinstance(error, TokenRefusedError):
        detail = f"the token of the provider is not valid: {error.reason}"
        return ProblemError(401, "token_refused", detail, hint=AGAIN)
    if isinstance(error, CodeRefusedError):
        return ProblemError(
            401, "code_refused", "the provider rejected its own authorization code", hint=AGAIN
        )
    if isinstance(error, ProviderUnavailableError):
        detail = "the OpenID provider is unavailable"
        hint = "try again later; the server log has details"
        return ProblemError(503, "oidc_unavailable", detail, hint=hint, headers={"Retry-After": "5"})
    detail = "the provider rejected this server, not you"
    hint = "check oidc_client_id, its secret and the redirect address at the provider; the log has details"
    return ProblemError(503, "oidc_misconfigured", detail, hint=hint)


def _denied(error: str) -> ProblemError:
    """Return the problem for a provider that sent an error instead of a code."""
    if error == "access_denied":
        return ProblemError(403, "oidc_denied", "the provider denied access", hint=AGAIN)
    _log_failure("answer", error)
    detail = f"the provider refused the sign-in with the error {error!r}"
    return ProblemError(
        403, "oidc_denied", detail, hint="ask the operator of this server; the error is in its log"
    )


def _unverified() -> ProblemError:
    detail = "the provider has not verified your email address"
    return ProblemError(403, "email_unverified", detail, hint="verify it there, then sign in again")


def _log_failure(step: str, reason: str) -> None:
    write_log_line(LOGGER, logging.WARNING, {"event": "oidc_failed", "step": step, "error": reason})


def _unknown_user(name: str) -> ProblemError:
    """Return the problem for an authenticated person who is not a member."""
    account = f"the account {name!r}" if name else "your account"
    return ProblemError(
        403,
        "unknown_user",
        f"{account} is not a member of any organization here",
        hint=f"ask an owner to add {name or 'you'} as a member; signing in does not create an account",
    )


# Behind a proxy


@proxy_routes.get("", SIGNING_IN, responses=ANSWERS)
async def visit(request: Request, next_path: NextPath = None) -> Response:
    """Sign in as the user that the trusted proxy names, and redirect to `next`. For links."""
    return await _signed_in(request, site_of(request.scope), next_path)


@proxy_routes.post("", SIGNING_IN, returns=SessionShape)
async def sign_in(request: Request) -> Response:
    """Sign in as the user that the trusted proxy names."""
    site = site_of(request.scope)
    check_origin(request, site)
    return await _signed_in(request, site, None)


async def _signed_in(request: Request, site: Site, path: str | None) -> Response:
    name = _named(request, site)
    sessions = site.app.members().sessions
    new = await sessions.sign_in_forwarded(name, ending=site.authenticator.session_token(request))
    if new is None:
        raise _unknown_user(name)
    return await redirect(site, sessions, new, path)


def _named(request: Request, site: Site) -> str:
    proxies = site.authenticator.proxies
    if not proxies.sign_in:
        hint = "sign in with a password or a link, or set server_proxies and server_forward_header"
        raise ProblemError(404, "forward_off", "sign-in through a proxy is not configured", hint=hint)
    name = proxies.user_of(request)
    if name is None:
        raise ProblemError(
            401,
            "not_forwarded",
            "this request did not come through a proxy in server_proxies that names exactly one user",
            hint="use the proxy's address; the proxy must replace server_forward_header, not add it",
        )
    return name
