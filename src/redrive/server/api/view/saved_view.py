"""Saved views, as they are shown."""

from __future__ import annotations

from typing import Any

from redrive.model.saved_view import SavedView
from redrive.server.answer import when


def saved_view_view(saved: SavedView) -> dict[str, Any]:
    return {
        "id": saved.id,
        "name": saved.name,
        "page": saved.page,
        "query": saved.query,
        "view": saved.view,
        "sort": saved.sort,
        "created_by": saved.created_by,
        "created_at": when(saved.created_at),
    }
