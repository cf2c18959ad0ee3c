"""Organizations, their members, and the accounts of the members. Only owners manage them.

Owners in the home organization see and create all organizations; other callers see only their own.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Annotated, Literal

from fastapi import Path
from pydantic import Field
from starlette.requests import Request
from starlette.responses import Response

from redrive.engine.task import MAX_NAME_LENGTH
from redrive.errors import NameTakenError
from redrive.model.identity import Member, Organization
from redrive.policy.access import Permission
from redrive.policy.user_text import MAX_WORD_LENGTH
from redrive.server.access_control import SIGNED_IN, may
from redrive.server.answer import answer, etag, nothing, page, when
from redrive.server.api.request import Cursor, IfMatch, RequestBody, Size, at_most, unchanged, versions
from redrive.server.api.resource import Moment, Resource, ResponseBody
from redrive.server.request_context import Visiting
from redrive.server.route import Routes
from redrive.server.site import site_of

routes = Routes("members", "/api/v1/members")
organization_routes = Routes("organizations", "/api/v1/organizations")

Id = Annotated[str, Path(alias="id", max_length=200, description="The id or the name of a member")]
_NUMBER = re.compile("[0-9]{1,9}")
READ, MANAGE = may(Permission.READ), may(Permission.MANAGE)

UserName = Annotated[str, Field(min_length=1, max_length=200)]
RoleName = Literal["VIEWER", "STAFF", "ADMIN", "OWNER", "SUPER_ADMIN", "ORG_ADMIN"]
OrgName = Annotated[str, Field(min_length=1, max_length=MAX_NAME_LENGTH)]


class NewOrganization(RequestBody):
    name: OrgName
    title: Annotated[str, Field(max_length=MAX_WORD_LENGTH)] = ""


class NewMember(RequestBody):
    name: UserName
    role: RoleName


class MemberChange(RequestBody):
    role: RoleName | None = None
    active: bool | None = None


class LinkRequest(RequestBody):
    minutes: Annotated[float, Field(ge=1, le=10_080)] = 60.0


class LinkShape(ResponseBody):
    """A one-time sign-in link. `url` signs the member in once."""

    name: str
    url: str
    expires_at: Moment


ORGANIZATION = Resource(Organization, "OrganizationShape")
MEMBER = Resource(Member, "MemberShape", hidden=("org",), renamed={"user_id": "id"})


@organization_routes.get("", READ, returns=ORGANIZATION.page("OrganizationPage"))
async def _list(visit: Visiting, size: Size = 50, cursor: Cursor = None) -> Response:
    """List the organizations that the caller can see, by name."""
    found = await visit.members.organizations.list(size=at_most(size, visit), cursor=cursor)
    return page(ORGANIZATION.views(found.organizations), found.next_cursor)


@organization_routes.post("", may(Permission.MANAGE, home=True), status_code=201, returns=ORGANIZATION.model)
async def _create(visit: Visiting, body: NewOrganization) -> Response:
    """Create an organization without members."""
    made = await visit.members.organizations.create(body.name, body.title)
    return answer(ORGANIZATION.view(made), 201)


@routes.get("", READ, returns=MEMBER.page("MemberPage"))
async def list_(visit: Visiting, size: Size = 50, cursor: Cursor = None) -> Response:
    """List the members of the organization by name."""
    found = await visit.members.list(size=at_most(size, visit), cursor=cursor)
    return page(MEMBER.views(found.members), found.next_cursor)


@routes.post("", MANAGE, status_code=201, returns=MEMBER.model)
async def add(request: Request, visit: Visiting, body: NewMember) -> Response:
    """Add a member to the organization."""
    limits = site_of(request.scope).limits
    limits.admit_new_name(visit.principal)
    try:
        member = await visit.members.add(body.name, body.role)
    except NameTakenError:
        limits.count_taken_name(visit.principal)
        raise
    return _answer(member, 201)


@routes.delete("/self", SIGNED_IN, status_code=204)
async def leave(visit: Visiting) -> Response:
    """Leave the organization. The last owner can't."""
    visit.require_person()
    await visit.members.leave()
    return nothing()


@routes.get("/{id}", READ, returns=MEMBER.model)
async def get(visit: Visiting, member_id: Id) -> Response:
    """Get a member."""
    return _answer(await visit.members.view(member_id))


@routes.patch("/{id}", MANAGE, returns=MEMBER.model)
async def change(
    visit: Visiting,
    member_id: Id,
    body: MemberChange,
    if_match: IfMatch = None,
) -> Response:
    """Change the role of a member, or suspend or activate them."""
    members = visit.members
    with unchanged():
        version = _newest(versions(if_match))
        member = await members.change(member_id, role=body.role, active=body.active, version=version)
    return _answer(member)


@routes.delete("/{id}", MANAGE, status_code=204)
async def remove(
    visit: Visiting,
    member_id: Id,
    if_match: IfMatch = None,
) -> Response:
    """Remove a member from the organization. The last owner can't be removed."""
    with unchanged():
        await visit.members.remove(member_id, version=_newest(versions(if_match)))
    return nothing()


@routes.post(
    "/{id}/link",
    may(Permission.MANAGE, repeatable=False),
    status_code=201,
    returns=LinkShape,
)
async def link(request: Request, visit: Visiting, member_id: Id, body: LinkRequest | None = None) -> Response:
    """Create a one-time sign-in link for a member, for example to set a first password."""
    minutes = (body or LinkRequest()).minutes
    made = await visit.members.accounts.link(member_id, minutes=minutes)
    url = f"{site_of(request.scope).origin(request)}/app/sign-in#{made.token}"
    return answer({"name": made.name, "url": url, "expires_at": when(made.expires_at)}, 201)


@routes.post("/{id}/disable", MANAGE, status_code=204)
async def disable(visit: Visiting, member_id: Id) -> Response:
    """Disable the account of a member in all organizations, and end their sessions."""
    await visit.members.accounts.disable(member_id)
    return nothing()


@routes.post("/{id}/enable", MANAGE, status_code=204)
async def enable(visit: Visiting, member_id: Id) -> Response:
    """Enable the account of a member again."""
    await visit.members.accounts.enable(member_id)
    return nothing()


def _answer(member: Member, status: int = 200) -> Response:
    return answer(MEMBER.view(member), status, etag(str(member.version)))


def _newest(asked: Sequence[str] | None) -> int | None:
    """Return the newest accepted version. Versions increase, so no older one can be current."""
    if asked is None:
        return None
    return max((int(version) for version in asked if _NUMBER.fullmatch(version)), default=0)
