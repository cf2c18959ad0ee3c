"""Sessions: sign in and out, switch organizations, change the password."""

from __future__ import annotations

import re
from typing import Annotated, Any, Literal

from fastapi import Query
from pydantic import AfterValidator, Field
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from redrive.engine.task import MAX_NAME_LENGTH
from redrive.errors import InvalidValueError
from redrive.identity.sessions import UserSessions
from redrive.identity.sign_in import NewSession
from redrive.model.identity import Membership, SessionLine
from redrive.model.role import Role
from redrive.policy.access import SESSION, Permission, Principal
from redrive.server.access_control import SIGNED_IN, SIGNING_IN, check_origin
from redrive.server.answer import answer, nothing, page
from redrive.server.api.request import Id, RequestBody
from redrive.server.api.resource import Resource, ResponseBody
from redrive.server.problem import ProblemError
from redrive.server.request_context import RequestContext, Visiting
from redrive.server.route import Routes
from redrive.server.site import Site, site_of

routes = Routes("session", "/api/v1/session")

MAX_PATH_LENGTH = 2_000
# One slash and no backslash: browsers treat two of either as another host. No characters that they skip.
LOCAL_PATH = r"^/([!-.0-\[\]-~][!-\[\]-~]*)?$"

_DOT = re.compile(r"%2e", re.IGNORECASE)


def is_local_path(path: str) -> bool:
    """Return whether the path leads a browser to this server.

    Browsers and proxies remove dot segments and empty segments in different ways: `/.//host` may become
    `//host`, which is another server. So paths with such segments are refused.
    """
    if len(path) > MAX_PATH_LENGTH or not re.fullmatch(LOCAL_PATH, path):
        return False
    *inner, last = _DOT.sub(".", re.split(r"[?#]", path, maxsplit=1)[0]).split("/")[1:]
    return all(segment not in ("", ".", "..") for segment in inner) and last not in (".", "..")


def _local(path: str | None) -> str | None:
    if path is not None and not is_local_path(path):
        raise InvalidValueError("not a path of this server; send one such as /app/admin/dlq")
    return path


NextPath = Annotated[
    str | None,
    Query(
        alias="next",
        max_length=MAX_PATH_LENGTH,
        pattern=LOCAL_PATH,
        description="A path of this server to redirect to; without it, the response is the session",
    ),
    AfterValidator(_local),
]

Name = Annotated[str, Field(min_length=1, max_length=200)]
Password = Annotated[str, Field(min_length=1, max_length=1024)]
OrgName = Annotated[str, Field(min_length=1, max_length=MAX_NAME_LENGTH)]


class Credentials(RequestBody):
    name: Name
    password: Password


class Token(RequestBody):
    token: Annotated[str, Field(min_length=1, max_length=200)]


class OrganizationName(RequestBody):
    name: OrgName


class NewPassword(RequestBody):
    """`current` is required if the account already has a password."""

    password: Annotated[str, Field(min_length=12, max_length=1024)]
    current: Annotated[str | None, Field(max_length=1024)] = None


MEMBERSHIP = Resource(Membership, "StandingShape")
LINE = Resource(SessionLine, "SessionLineShape")


class SessionShape(ResponseBody):
    """The signed-in user or key. Browsers send `csrf_token` with every change."""

    kind: Literal["key", "session"]
    org: str
    name: str
    role: Role
    permissions: list[Permission]
    csrf_token: str | None
    organizations: list[MEMBERSHIP.model]  # type: ignore[name-defined]


@routes.post("", SIGNING_IN, returns=SessionShape)
async def sign_in(request: Request, body: Credentials) -> Response:
    """Sign in with a name and a password. The response sets a cookie."""
    site = site_of(request.scope)
    check_origin(request, site)
    site.limits.admit_name(body.name)
    sessions = site.app.members().sessions
    new = await sessions.sign_in(body.name, body.password, ending=site.authenticator.session_token(request))
    return await session_response(site, sessions, new, "wrong name or password")


@routes.post("/link", SIGNING_IN, returns=SessionShape)
async def redeem(request: Request, body: Token) -> Response:
    """Sign in with the token of a one-time link."""
    site = site_of(request.scope)
    check_origin(request, site)
    sessions = site.app.members().sessions
    new = await sessions.redeem(body.token, ending=site.authenticator.session_token(request))
    return await session_response(site, sessions, new, "this link has already been used or has expired")


@routes.get("", SIGNED_IN, returns=SessionShape)
async def who(request: Request, visit: Visiting) -> Response:
    """Get the current session: user, permissions and organizations."""
    memberships: list[Membership] = []
    if visit.principal.kind == SESSION:
        token = _token(request)
        memberships = await visit.app.members().sessions.organizations(token)
    return answer(_view(visit.principal, visit.csrf, memberships))


@routes.put("/organization", SIGNED_IN, returns=SessionShape)
async def enter(request: Request, visit: Visiting, body: OrganizationName) -> Response:
    """Switch the session to another organization."""
    sessions, token = await _sessions(visit), _token(request)
    entered = await sessions.enter(token, body.name)
    return answer(_view(entered.principal, entered.csrf, await sessions.organizations(token)))


@routes.put("/password", SIGNED_IN, status_code=204)
async def change_password(request: Request, visit: Visiting, body: NewPassword) -> Response:
    """Change your password. All your other sessions are signed out."""
    site = site_of(request.scope)
    site.limits.admit_name(visit.principal.name)
    sessions = await _sessions(visit)
    await sessions.change_password(_token(request), body.password, current=body.current)
    return nothing()


@routes.delete("", SIGNED_IN, status_code=204)
async def sign_out(request: Request, visit: Visiting) -> Response:
    """Sign out of this session."""
    site = site_of(request.scope)
    await (await _sessions(visit)).end(_token(request))
    response = nothing()
    site.authenticator.drop_session(response)
    return response


@routes.get("/all", SIGNED_IN, returns=LINE.page("SessionList"))
async def list_(request: Request, visit: Visiting) -> Response:
    """List your sessions, newest first."""
    lines = await (await _sessions(visit)).list(_token(request))
    return page(LINE.views(lines), None)


@routes.delete("/others", SIGNED_IN, status_code=204)
async def end_others(request: Request, visit: Visiting) -> Response:
    """Sign out of all your other sessions."""
    await (await _sessions(visit)).end_others(_token(request))
    return nothing()


@routes.delete("/all/{id}", SIGNED_IN, status_code=204)
async def end_one(request: Request, visit: Visiting, session_id: Id) -> Response:
    """Sign out of one of your sessions."""
    await (await _sessions(visit)).end_one(_token(request), session_id)
    return nothing()


async def session_response(
    site: Site, sessions: UserSessions, new: NewSession | None, refusal: str
) -> Response:
    """Respond to a sign-in with a cookie and the session, or with the problem `refusal`."""
    if new is None:
        raise ProblemError(401, "sign_in_refused", refusal, hint="ask an owner for a new link")
    site.authenticator.forget()  # the session that they had before has ended
    signed_in = new.signed_in
    memberships = await sessions.organizations(new.token)
    response = answer(_view(signed_in.principal, signed_in.csrf, memberships))
    site.authenticator.set_session(response, new.token)
    return response


async def redirect(site: Site, sessions: UserSessions, new: NewSession, path: str | None) -> Response:
    """Redirect a browser that has signed in to a page of this server; without a path, return the session."""
    if path is None:
        return await session_response(site, sessions, new, "")
    site.authenticator.forget()  # the session that they had before has ended
    response = RedirectResponse(path, 303)
    site.authenticator.set_session(response, new.token)
    return response


async def _sessions(visit: RequestContext) -> UserSessions:
    visit.require_person()
    return visit.app.members().sessions


def _token(request: Request) -> str:
    return site_of(request.scope).authenticator.session_token(request) or ""


def _view(principal: Principal, csrf: str | None, memberships: list[Membership]) -> dict[str, Any]:
    return {
        "kind": principal.kind,
        "org": principal.org,
        "name": principal.name,
        "role": principal.role,
        "permissions": sorted(principal.permissions),
        "csrf_token": csrf,
        "organizations": MEMBERSHIP.views(memberships),
    }
