"""Organizations. Owners of the home one see and make all of them, everybody else sees their own."""

from __future__ import annotations

from starlette.responses import Response

from redrive.policy.access import Permission
from redrive.server.answer import answer, page
from redrive.server.api.parameter import Cursor, Size, at_most
from redrive.server.api.shape.identity import NewOrganization, OrganizationPage, OrganizationShape
from redrive.server.api.view.identity import organization_view
from redrive.server.request_context import Visiting
from redrive.server.route import Routes
from redrive.server.rule import may

routes = Routes("organizations", "/api/v1/organizations")


@routes.get("", may(Permission.READ), responses={200: {"model": OrganizationPage}})
async def list_(visit: Visiting, size: Size = 50, cursor: Cursor = None) -> Response:
    """Those that the caller may see, by name."""
    found = await (await visit.directory()).organizations.list(size=at_most(size, visit), cursor=cursor)
    return page([organization_view(each) for each in found.organizations], found.next_cursor)


@routes.post(
    "", may(Permission.MANAGE, home=True), status_code=201, responses={201: {"model": OrganizationShape}}
)
async def create(visit: Visiting, body: NewOrganization) -> Response:
    """A new organization, without members so far."""
    made = await (await visit.directory()).organizations.create(body.name, body.title)
    return answer(organization_view(made), 201)
