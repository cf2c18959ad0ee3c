"""Saved views, as links to the pages that they are of."""

from __future__ import annotations

from typing import NamedTuple

from redrive.failures.service import Failures
from redrive.model.saved_view import SavedView, ViewedPage
from redrive.server.admin.environment import link


class ViewLink(NamedTuple):
    id: str
    name: str
    address: str


async def views_of(desk: Failures, page: ViewedPage | str) -> list[ViewLink]:
    return [_link(each) for each in await desk.saved_views.list(page)]


def _link(view: SavedView) -> ViewLink:
    address = link(f"/{view.page}", q=view.query, view=view.view, sort=view.sort)
    return ViewLink(view.id, view.name, address)
