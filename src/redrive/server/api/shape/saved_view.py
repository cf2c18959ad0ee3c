"""Saved views, as requests and answers have them."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from redrive.failures.saved_views import MAX_NAME_LENGTH
from redrive.model.saved_view import ViewedPage
from redrive.policy.saved_view import MAX_SAVED_LENGTH
from redrive.server.api.shape.base import Asked, Moment, Shown

Word = Annotated[str, Field(max_length=20)]


class NewSavedView(Asked):
    """What a page shows, as its address says it; what is left out is left to the page."""

    name: Annotated[str, Field(min_length=1, max_length=MAX_NAME_LENGTH)]
    page: Annotated[ViewedPage, Field(strict=False)]
    query: Annotated[
        str, Field(max_length=MAX_SAVED_LENGTH, description="In the query language of the page")
    ] = ""
    view: Annotated[Word, Field(description="Of dead letters: groups or flat")] = ""
    sort: Annotated[Word, Field(description="An order of that list, such as last_seen or newest")] = ""


class SavedViewShape(Shown):
    """`query`, `view` and `sort` are empty where the page decides."""

    id: str
    name: str
    page: ViewedPage
    query: str
    view: str
    sort: str
    created_by: str
    created_at: Moment


class SavedViewList(Shown):
    items: list[SavedViewShape]
    next_cursor: str | None
