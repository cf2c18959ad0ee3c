"""Saved views: queries of pages under a name, shared by an organization.

Whoever may write notes may save and remove them, those of others too: they are signposts, no evidence. The
audit has what was removed, and by whom.
"""

from __future__ import annotations

from typing import Annotated

from fastapi import Query
from starlette.responses import Response

from redrive.model.saved_view import ViewedPage
from redrive.policy.access import Permission
from redrive.server.answer import answer, nothing, page
from redrive.server.api.parameter import Id
from redrive.server.api.shape.saved_view import NewSavedView, SavedViewList, SavedViewShape
from redrive.server.api.view.saved_view import saved_view_view
from redrive.server.request_context import AtDesk
from redrive.server.route import Routes
from redrive.server.rule import may

routes = Routes("saved_views", "/api/v1/saved-views")
READ, NOTE = may(Permission.READ), may(Permission.NOTE)


@routes.get("", READ, responses={200: {"model": SavedViewList}})
async def list_(
    desk: AtDesk,
    of: Annotated[ViewedPage | None, Query(alias="page", description="Of this page only")] = None,
) -> Response:
    """All of them, by page and name: there are at most 100."""
    return page([saved_view_view(each) for each in await desk.saved_views.list(of)], None)


@routes.post("", NOTE, status_code=201, responses={201: {"model": SavedViewShape}})
async def create(desk: AtDesk, body: NewSavedView) -> Response:
    """Save what a page shows, under a name. The same once more is the one that there is."""
    views = desk.saved_views
    made = await views.create(body.name, body.page, body.query, view=body.view, sort=body.sort)
    return answer(saved_view_view(made), 201)


@routes.delete("/{id}", NOTE, status_code=204)
async def remove(desk: AtDesk, view_id: Id) -> Response:
    """Remove one, whoever has saved it."""
    await desk.saved_views.remove(view_id)
    return nothing()
