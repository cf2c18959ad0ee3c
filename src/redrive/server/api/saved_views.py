"""Saved views: queries of pages under a name, shared by an organization.

Whoever may write notes may save and remove them, those of others too: they are signposts, no evidence. The
audit has what was removed, and by whom.
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
    """What a page shows, as its address says it; what is left out is left to the page."""

    name: Annotated[str, Field(min_length=1, max_length=MAX_NAME_LENGTH)]
    page: Annotated[ViewedPage, Field(strict=False)]
    query: Annotated[
        str, Field(max_length=MAX_SAVED_LENGTH, description="In the query language of the page")
    ] = ""
    view: Annotated[Word, Field(description="Of dead letters: groups or flat")] = ""
    sort: Annotated[Word, Field(description="An order of that list, such as last_seen or newest")] = ""


SAVED_VIEW = Resource(
    SavedView,
    "SavedViewShape",
    description="`query`, `view` and `sort` are empty where the page decides.",
    hidden=("org",),
    types={"page": ViewedPage},
)


@routes.get("", READ, returns=SAVED_VIEW.page("SavedViewList"))
async def list_(
    failures: CallersFailures,
    of: Annotated[ViewedPage | None, Query(alias="page", description="Of this page only")] = None,
) -> Response:
    """All of them, by page and name: there are at most 100."""
    return page(SAVED_VIEW.views(await failures.views.list(of)), None)


@routes.post("", NOTE, status_code=201, returns=SAVED_VIEW.model)
async def create(failures: CallersFailures, body: NewSavedView) -> Response:
    """Save what a page shows, under a name. The same once more is the one that there is."""
    views = failures.views
    made = await views.create(body.name, body.page, body.query, view=body.view, sort=body.sort)
    return answer(SAVED_VIEW.view(made), 201)


@routes.delete("/{id}", NOTE, status_code=204)
async def remove(failures: CallersFailures, view_id: Id) -> Response:
    """Remove one, whoever has saved it."""
    await failures.views.remove(view_id)
    return nothing()
