"""What many routes take in their address, with its bounds."""

from __future__ import annotations

from typing import Annotated

from fastapi import Path, Query

from redrive.server.request_context import RequestContext

MAX_PAGE_SIZE = 500

Id = Annotated[str, Path(alias="id", min_length=1, max_length=200)]
Name = Annotated[str, Path(min_length=1, max_length=200, description="Blanks and slashes percent-encoded")]
QueryText = Annotated[str, Query(max_length=2000, description="In the query language, such as is:open")]
Size = Annotated[int, Query(ge=1, le=MAX_PAGE_SIZE, description="The most items of the page")]
Cursor = Annotated[str | None, Query(max_length=500, description="The next_cursor of the page before")]


def at_most(size: int, visit: RequestContext) -> int:
    """Pages may be smaller than asked for, never larger than the settings say."""
    return min(size, visit.app.settings.server_page_size)
