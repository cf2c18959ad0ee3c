"""A saved view: a query of a page under a name, for everybody of an org."""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple

from redrive.model.field import Instant
from redrive.model.row import Row


class ViewedPage(StrEnum):
    """The pages whose lists can be saved, by their names in addresses."""

    DLQ = "dlq"
    RUNS = "runs"


class ShownView(StrEnum):
    """How the page of dead letters shows them. Left out, the query decides."""

    GROUPS = "groups"
    FLAT = "flat"


class Looking(NamedTuple):
    """What is looked at: the parameters of the address of a page. Whatever is empty is left to the page."""

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
