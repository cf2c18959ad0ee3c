"""The sign-in page."""

from __future__ import annotations

from typing import Annotated
from urllib.parse import parse_qs, urlencode

from fastapi import Query
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from redrive.server.access_control import PUBLIC, SIGNING_IN, check_origin
from redrive.server.admin.environment import PAGES, Preferences, html
from redrive.server.admin.problem_page import SIGN_IN, local
from redrive.server.api.session import redirect
from redrive.server.problem import ProblemError
from redrive.server.route import Routes
from redrive.server.site import Site, site_of

home = Routes("home", "")
routes = Routes("pages.sign_in", "/app")

MAX_NAME_LENGTH, MAX_PASSWORD_LENGTH = 200, 1024

NextPath = Annotated[str | None, Query(alias="next", max_length=8_192)]


@home.get("/", PUBLIC, include_in_schema=False)
async def arrive() -> Response:
    return RedirectResponse(PAGES, 303)


@routes.get("/sign-in", PUBLIC, include_in_schema=False)
async def show(request: Request, next_path: NextPath = None) -> Response:
    return _page(request, next_path)


@routes.post("/sign-in", SIGNING_IN, include_in_schema=False)
async def sign_in(request: Request, next_path: NextPath = None) -> Response:
    """Sign in by a form, so that it works without scripts."""
    site = site_of(request.scope)
    check_origin(request, site)
    name, password = await _credentials(request)
    try:
        return await _signed_in(request, site, name, password, local(next_path))
    except ProblemError as problem:
        if problem.status_code not in (401, 429):
            raise
        return _page(request, next_path, name, problem)


async def _signed_in(request: Request, site: Site, name: str, password: str, path: str) -> Response:
    site.limits.admit_name(name)
    sessions = site.app.members().sessions
    new = await sessions.sign_in(name, password, ending=site.authenticator.session_token(request))
    if new is None:
        raise ProblemError(401, "sign_in_refused", "Wrong name or password.")
    return await redirect(site, sessions, new, path)


async def _credentials(request: Request) -> tuple[str, str]:
    try:
        given = parse_qs((await request.body()).decode(errors="replace"), max_num_fields=4)
    except ValueError:  # more fields than the form has
        given = {}
    name, password = (given.get(field, [""])[-1] for field in ("name", "password"))
    if not name or len(name) > MAX_NAME_LENGTH or len(password) > MAX_PASSWORD_LENGTH:
        raise ProblemError(422, "invalid_request", "enter a name and a password")
    return name, password


def _page(
    request: Request, next_path: str | None, name: str = "", problem: ProblemError | None = None
) -> Response:
    site, path = site_of(request.scope), None if next_path is None else local(next_path)
    response = html(
        request,
        "sign_in.html",
        200 if problem is None else problem.status_code,
        preferences=Preferences.of(request),
        action=_with_next(SIGN_IN, path),
        next_path=path or PAGES,
        name=name,
        problem="" if problem is None else problem.detail,
        ways=[(_with_next(way, path or PAGES), text) for way, text in _other_ways(site)],
    )
    response.headers.update({} if problem is None else problem.headers or {})
    return response


def _other_ways(site: Site) -> list[tuple[str, str]]:
    ways = [
        ("/api/v1/session/oidc", "Sign in with single sign-on", site.oidc is not None),
        (
            "/api/v1/session/forward",
            "Continue with your company account",
            site.authenticator.proxies.sign_in,
        ),
    ]
    return [(path, text) for path, text, is_open in ways if is_open]


def _with_next(path: str, next_path: str | None) -> str:
    return path if next_path is None else f"{path}?{urlencode({'next': next_path})}"
