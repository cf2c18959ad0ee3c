"""The overview: what needs somebody, what heals by itself, and what has come and gone."""

from __future__ import annotations

from typing import Annotated

from fastapi import Query
from starlette.responses import Response

from redrive.model.overview import Span
from redrive.policy.access import Permission
from redrive.server.answer import answer
from redrive.server.api.shape.overview import OverviewShape
from redrive.server.api.view.overview import overview_view
from redrive.server.request_context import Visiting
from redrive.server.route import Routes
from redrive.server.rule import may

Back = Annotated[Span, Query(description="How far it looks back")]

routes = Routes("overview", "/api/v1/overview")


@routes.get("", may(Permission.READ), responses={200: {"model": OverviewShape}})
async def get(visit: Visiting, span: Back = Span.DAY) -> Response:
    """How the organization's work stands, and what has happened to it lately."""
    book = await visit.app.overview(org=visit.org, by=visit.principal.name)
    return answer(overview_view(await book.read(span)))
