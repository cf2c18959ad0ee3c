"""Signing in with the OpenID provider: there, and back again."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Annotated, Any

from fastapi import Query
from pydantic import BaseModel, Field
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from redrive.policy.credential import SECRET_BYTES, is_token, secret_text
from redrive.server.api.onward import NextPath, onward
from redrive.server.api.shape.identity import SessionShape
from redrive.server.cookie import session_token
from redrive.server.oidc import problem
from redrive.server.oidc.login_state import SECONDS, LoginState, new_errand, put_errand, take_errand
from redrive.server.route import Routes
from redrive.server.rule import PUBLIC, SIGNING_IN
from redrive.server.site import Site, site_of
from redrive.server.vouched import unknown

if TYPE_CHECKING:
    from redrive.server.oidc.provider import Provider

routes = Routes("oidc", "/api/v1/session/oidc")

COOKIE = "redrive_oidc"
CALLBACK = "/api/v1/session/oidc/callback"
_ERROR = re.compile(r"[a-z_]{1,50}")

ANSWERS: dict[int | str, dict[str, Any]] = {
    200: {"model": SessionShape},
    303: {"description": "Signed in; to the path that was asked for"},
}


class Returned(BaseModel):
    """What is of use here of all that providers send back."""

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
    errand = new_errand(site.app.entropy, site.origin(request) + CALLBACK, next_path, browser)
    state = await put_errand(await site.app.sessions(), errand)
    response = RedirectResponse(await provider.address(errand, state), 303)
    _bind(response, site, browser)
    return response


@routes.get("/callback", PUBLIC._replace(tolerant=True), responses=ANSWERS)
async def callback(request: Request, returned: Annotated[Returned, Query()]) -> Response:
    """Where the provider sends the browser back to."""
    site = site_of(request.scope)
    provider = _provider(site)
    errand = await take_errand(await site.app.sessions(), returned.state, request.cookies.get(_cookie(site)))
    if errand is None:
        raise problem.stale()
    await provider.check_sender(returned.iss)
    if returned.error is not None:
        raise problem.denied(returned.error if _ERROR.fullmatch(returned.error) else "an error")
    return await _signed_in(request, site, provider, errand, returned.code)


async def _signed_in(
    request: Request, site: Site, provider: Provider, errand: LoginState, code: str
) -> Response:
    person = await provider.person(errand, code)
    name = person.name if person.is_verified else ""
    sessions = await site.app.sessions()
    new = await sessions.sign_in_identified(person.identity, name, ending=session_token(request, site))
    if new is None:
        raise unknown(name) if person.is_verified else problem.unverified()
    response = await onward(site, sessions, new, errand.next)
    response.delete_cookie(_cookie(site), path="/", secure=site.is_secure, httponly=True, samesite="lax")
    return response


def _provider(site: Site) -> Provider:
    if site.oidc is None:
        raise problem.not_configured()
    return site.oidc


def _cookie(site: Site) -> str:
    return f"__Host-{COOKIE}" if site.is_secure else COOKIE


def _bind(response: Response, site: Site, browser: str) -> None:
    """Nobody can begin a sign-in in one browser and have it finished in another: a stranger's, say."""
    response.set_cookie(
        _cookie(site),
        browser,
        max_age=SECONDS,
        path="/",
        secure=site.is_secure,
        httponly=True,
        samesite="lax",
    )
