"""Signing in behind a proxy that has signed people in already."""

from __future__ import annotations

from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from redrive.server.access_control import check_origin
from redrive.server.api.session import NextPath, SessionShape, redirect, unknown_user
from redrive.server.problem import ProblemError
from redrive.server.route import Routes
from redrive.server.rule import SIGNING_IN
from redrive.server.site import Site, site_of

routes = Routes("forward", "/api/v1/session/forward")

ANSWERS: dict[int | str, dict[str, Any]] = {
    200: {"model": SessionShape},
    303: {"description": "Signed in; to the path that was asked for"},
}


@routes.get("", SIGNING_IN, responses=ANSWERS)
async def visit(request: Request, next_path: NextPath = None) -> Response:
    """Sign in as whom the trusted proxy names; for links, which go on to `next`."""
    return await _signed_in(request, site_of(request.scope), next_path)


@routes.post("", SIGNING_IN, responses={200: {"model": SessionShape}})
async def sign_in(request: Request) -> Response:
    """Sign in as whom the trusted proxy names."""
    site = site_of(request.scope)
    check_origin(request, site)
    return await _signed_in(request, site, None)


async def _signed_in(request: Request, site: Site, path: str | None) -> Response:
    name = _named(request, site)
    sessions = await site.app.sessions()
    new = await sessions.sign_in_forwarded(name, ending=site.authenticator.session_token(request))
    if new is None:
        raise unknown_user(name)
    return await redirect(site, sessions, new, path)


def _named(request: Request, site: Site) -> str:
    proxies = site.authenticator.proxies
    if not proxies.sign_in:
        hint = "sign in by a password or a link; or set server_proxies and server_forward_header"
        raise ProblemError(404, "forward_off", "no proxy signs people in here", hint=hint)
    name = proxies.user_of(request)
    if name is None:
        raise ProblemError(
            401,
            "not_forwarded",
            "this request does not come through a proxy of server_proxies that names exactly one user",
            hint="come through the proxy; it has to replace the header server_forward_header, not to add one",
        )
    return name
