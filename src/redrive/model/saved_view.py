"""A saved view: a named query of a page, shared by all members of an org."""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple

from redrive.model.field import Instant
from redrive.model.row import Row


class ViewedPage(StrEnum):
    """The pages with saved views, by their names in URLs."""

    DLQ = "dlq"
    RUNS = "runs"


class ViewMode(StrEnum):
    """The layout of the dead letters page. If omitted, the query decides."""

    GROUPS = "groups"
    FLAT = "flat"


class Looking(NamedTuple):
    """The URL parameters of a page. An empty value means the page's default."""

    page: ViewedPage
    query: str = ""
    view: str = ""
    sort: str = ""


class SavedView(Row, frozen=True):
    id: str
    org: str
    name: str
    page: ViewedPage
    query: str
    view: str
    sort: str
    created_by: str
    created_at: Instant

    @property
    def looking(self) -> Looking:
        return Looking(ViewedPage(self.page), self.query, self.view, self.sort)
