"""Search for an id: a search field that is given an id, or the beginning of one, opens its page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from starlette.responses import RedirectResponse, Response

from redrive.engine.id_lookup import IdKind
from redrive.errors import NotFoundError
from redrive.model.id import prefix_of
from redrive.server.admin.environment import link
from redrive.server.admin.page import Page

_PATHS: Mapping[IdKind, str] = {
    IdKind.RUN: "/runs",
    IdKind.DEAD_LETTER: "/dlq",
    IdKind.OPERATION: "/replays",
    IdKind.EVENT: "/events",
}


async def page_of_id(page: Page, text: str, first: IdKind) -> Response | None:
    """Redirect to the page of the object whose id starts with the text. None if no id does.

    Ids of the kind `first` take precedence. Raises AmbiguousIdError if several of one kind match.
    """
    prefix = prefix_of(text)
    if prefix is None:
        return None
    for kind in _in_order(first):
        found = await page.visit.ids.find(kind, prefix)
        if found is not None:
            return RedirectResponse(link(f"{_PATHS[kind]}/{found}"), 303)
    return await _page_of_group(page, prefix)


def _in_order(first: IdKind) -> Sequence[IdKind]:
    return [first, *(kind for kind in _PATHS if kind is not first)]


async def _page_of_group(page: Page, prefix: str) -> Response | None:
    try:
        group = (await page.visit.failures.groups.view(prefix)).group
    except NotFoundError:
        return None
    return RedirectResponse(link(f"/dlq/groups/{group.fingerprint}"), 303)
