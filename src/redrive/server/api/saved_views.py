"""Saved views: named queries of the list pages, shared within an organization.

Callers with the permission to write notes can save and remove views, including those of other people. The
audit log records who removed which view.
"""

from __future__ import annotations

from typing import Annotated

from fastapi import Query
from pydantic import Field
from starlette.responses import Response

from redrive.failures.saved_views import MAX_NAME_LENGTH
from redrive.model.saved_view import SavedView, ViewedPage
from redrive.policy.access import Permission
from redrive.policy.query import MAX_SAVED_LENGTH
from redrive.server.access_control import may
from redrive.server.answer import answer, nothing, page
from redrive.server.api.request import Id, RequestBody
from redrive.server.api.resource import Resource
from redrive.server.request_context import CallersFailures
from redrive.server.route import Routes

routes = Routes("saved_views", "/api/v1/saved-views")
READ, NOTE = may(Permission.READ), may(Permission.NOTE)

Word = Annotated[str, Field(max_length=20)]


class NewSavedView(RequestBody):
    """The parameters of a page. Omitted parameters use the defaults of the page."""

    name: Annotated[str, Field(min_length=1, max_length=MAX_NAME_LENGTH)]
    page: Annotated[ViewedPage, Field(strict=False)]
    query: Annotated[
        str, Field(max_length=MAX_SAVED_LENGTH, description="A query in the query language of the page")
    ] = ""
    view: Annotated[Word, Field(description="For dead letters: groups or flat")] = ""
    sort: Annotated[Word, Field(description="The sort order of the list, such as last_seen or newest")] = ""


SAVED_VIEW = Resource(
    SavedView,
    "SavedViewShape",
    description="A saved view. Empty `query`, `view` or `sort` means the default of the page.",
    hidden=("org",),
    types={"page": ViewedPage},
)


@routes.get("", READ, returns=SAVED_VIEW.page("SavedViewList"))
async def list_(
    failures: CallersFailures,
    of: Annotated[ViewedPage | None, Query(alias="page", description="Only views of this page")] = None,
) -> Response:
    """List all saved views by page and name. There are at most 100."""
    return page(SAVED_VIEW.views(await failures.views.list(of)), None)


@routes.post("", NOTE, status_code=201, returns=SAVED_VIEW.model)
async def create(failures: CallersFailures, body: NewSavedView) -> Response:
    """Save a view. Saving the same view again returns the existing one."""
    views = failures.views
    made = await views.create(body.name, body.page, body.query, view=body.view, sort=body.sort)
    return answer(SAVED_VIEW.view(made), 201)


@routes.delete("/{id}", NOTE, status_code=204)
async def remove(failures: CallersFailures, view_id: Id) -> Response:
    """Remove a saved view of any author."""
    await failures.views.remove(view_id)
    return nothing()
