"""The admin pages, one module per noun."""

from __future__ import annotations

from redrive.server.admin import (
    audit,
    dead_letter,
    dead_letters,
    event,
    events,
    groups,
    infrastructure,
    overview,
    page,
    replay_editor,
    replays,
    run_start,
    runs,
    settings,
    sign_in,
    static_files,
    streams,
)
from redrive.server.route import Routes

PAGES: tuple[Routes, ...] = (
    sign_in.home,
    sign_in.routes,
    static_files.routes,
    page.pages,
    overview.pages,
    run_start.pages,
    runs.pages,
    events.pages,
    event.pages,
    streams.pages,
    dead_letters.pages,
    groups.pages,
    dead_letter.pages,
    replays.pages,
    replay_editor.pages,
    infrastructure.breaker_pages,
    infrastructure.queue_pages,
    infrastructure.worker_pages,
    audit.pages,
    settings.pages,
)
