"""Signing in with the OpenID provider: there, and back again."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Annotated, Any

from fastapi import Query
from pydantic import BaseModel, Field
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from redrive.identity.oidc import OpenIdError
from redrive.identity.oidc.login_state import LOGIN_SECONDS, LoginState, new_login, save_login, take_login
from redrive.policy.credential import SECRET_BYTES, is_token, secret_text
from redrive.server import oidc
from redrive.server.api.session import NextPath, SessionShape, redirect, unknown_user
from redrive.server.route import Routes
from redrive.server.rule import PUBLIC, SIGNING_IN
from redrive.server.site import Site, site_of

if TYPE_CHECKING:
    from redrive.identity.oidc.provider import OpenIdProvider

routes = Routes("oidc", "/api/v1/session/oidc")

COOKIE = "redrive_oidc"
CALLBACK = "/api/v1/session/oidc/callback"
_ERROR = re.compile(r"[a-z_]{1,50}")

ANSWERS: dict[int | str, dict[str, Any]] = {
    200: {"model": SessionShape},
    303: {"description": "Signed in; to the path that was asked for"},
}


class ProviderAnswer(BaseModel):
    """The parameters that the callback reads; providers send more."""

    state: Annotated[str, Field(max_length=200)] = ""
    code: Annotated[str, Field(max_length=6_000)] = ""
    iss: Annotated[str | None, Field(max_length=2_000)] = None
    error: Annotated[str | None, Field(max_length=200)] = None


@routes.get("", SIGNING_IN, status_code=303, response_class=Response, response_description="To the provider")
async def begin(request: Request, next_path: NextPath = None) -> Response:
    """Go to the OpenID provider to sign in; it sends the browser back to /callback."""
    site = site_of(request.scope)
    provider = _provider(site)
    known = request.cookies.get(_cookie(site))  # of a sign-in in another tab, which must not fail by this one
    browser = known if is_token(known) else secret_text(site.app.entropy(SECRET_BYTES))
    login = new_login(site.app.entropy, site.origin(request) + CALLBACK, next_path, browser)
    state = await save_login(await site.app.sessions(), login)
    try:
        response = RedirectResponse(await provider.authorization_url(login, state), 303)
    except OpenIdError as error:
        raise oidc.problem_of(error) from None
    _bind(response, site, browser)
    return response


@routes.get("/callback", PUBLIC._replace(tolerant=True), responses=ANSWERS)
async def callback(request: Request, answer: Annotated[ProviderAnswer, Query()]) -> Response:
    """Where the provider sends the browser back to."""
    site = site_of(request.scope)
    provider = _provider(site)
    login = await take_login(await site.app.sessions(), answer.state, request.cookies.get(_cookie(site)))
    if login is None:
        raise oidc.stale()
    try:
        await provider.check_issuer(answer.iss)
        if answer.error is not None:
            raise oidc.denied(answer.error if _ERROR.fullmatch(answer.error) else "an error")
        return await _sign_in(request, site, provider, login, answer.code)
    except OpenIdError as error:
        raise oidc.problem_of(error) from None


async def _sign_in(
    request: Request, site: Site, provider: OpenIdProvider, login: LoginState, code: str
) -> Response:
    person = await provider.person(login, code)
    name = person.name if person.is_verified else ""
    sessions = await site.app.sessions()
    new = await sessions.sign_in_identified(
        person.identity, name, ending=site.authenticator.session_token(request)
    )
    if new is None:
        raise unknown_user(name) if person.is_verified else oidc.unverified()
    response = await redirect(site, sessions, new, login.next)
    response.delete_cookie(
        _cookie(site), path="/", secure=site.authenticator.is_secure, httponly=True, samesite="lax"
    )
    return response


def _provider(site: Site) -> OpenIdProvider:
    if site.oidc is None:
        raise oidc.not_configured()
    return site.oidc


def _cookie(site: Site) -> str:
    return f"__Host-{COOKIE}" if site.authenticator.is_secure else COOKIE


def _bind(response: Response, site: Site, browser: str) -> None:
    """Tie the sign-in to this browser, so that an attacker cannot have a victim finish the attacker's one."""
    response.set_cookie(
        _cookie(site),
        browser,
        max_age=LOGIN_SECONDS,
        path="/",
        secure=site.authenticator.is_secure,
        httponly=True,
        samesite="lax",
    )
